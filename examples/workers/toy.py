"""A worker for a toy library: dispatch and combine through pickled lists.

This command starts three ranks:

    epbench sweep --ranks 3 --experts 9 --topk 2 --hidden 64 --tokens 4 --routing uniform \
      --backend "launch:examples/workers/ranks.sh 3 python3 examples/workers/toy.py"

The layout is `rank`: a token is sent once to each rank that has experts of it.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../native/python/workers"))

from harness import Failure, Library, kernel, main, param  # noqa: E402
from harness.payload import bf16, expert_output, floats  # noqa: E402


class Toy(Library):
    name, version, layout = "toy", "1", "rank"

    def kernels(self):
        messages = param("messages", "Messages that a rank's rows are spread over.", [1, 2, 4])
        rules = [('problem.dispatch == "bf16"', "the toy moves bf16 only")]
        return [
            kernel(self, "toy", "dispatch", "Sends rows as pickled lists.", [messages], rules, layout="rank", inside=["counts"]),
            kernel(self, "toy", "combine", "Sends sums back.", [messages], rules, layout="rank", sum="plain", inside=["reduction"]),
            kernel(self, "toy", "layer", "Both, with the experts' products between them.", [messages], rules),
        ]

    def open(self, work):
        super().open(work)
        self.x = [work.row(self.rank, t) for t in range(work.tokens)]
        self.got, self.y, self.out = [], [], []

    def prepare(self, half):
        if half.values["messages"] < 1:
            raise Failure("illegal", "messages: %d is below 1" % half.values["messages"])

    def poison(self):
        self.got, self.y = [], []
        self.out = [b"\xcb" * (2 * self.work.hidden)] * self.work.tokens

    def send(self, rows, half):
        """Returns the rows that this rank receives. A row is (destination, source, token, bytes)."""
        got, parts = [], half.values["messages"]
        for part in range(parts):
            for sent in self.ranks.exchange(rows[part::parts]):
                got += [tuple(r[1:]) for r in sent if r[0] == self.rank]
        return got

    def dispatch(self, half):
        rows = [(rank, self.rank, t, row) for t, row in enumerate(self.x)
                for rank in range(self.work.ranks) if self.work.here(self.rank, t, rank)]
        self.got = self.send(rows, half)

    def experts(self):
        self.y = []
        for source, token, row in self.got:
            experts, weights = zip(*self.work.here(source, token, self.rank))
            self.y.append((source, self.rank, token, self.local_row(row, experts, weights)))

    def combine(self, half):
        sums = [[0.0] * self.work.hidden for _ in self.x]
        for _, token, row in sorted(self.send(self.y, half)):  # sorted, so that every run gives the same bits
            sums[token] = [a + b for a, b in zip(sums[token], floats(row))]
        self.out = [bf16(s) for s in sums]

    def layer(self, half):
        return [("dispatch", lambda: self.dispatch(half)), ("experts", self.products), ("combine", lambda: self.combine(half))]

    def products(self):
        self.y = []
        for source, token, row in self.got:
            total = [0.0] * self.work.hidden
            for e, weight in self.work.here(source, token, self.rank):
                y, _ = expert_output(floats(row), e, self.work.seed, self.work.intermediate)
                total = [a + weight * b for a, b in zip(total, y)]
            self.y.append((source, self.rank, token, bf16(total)))

    def received(self):
        for source, token, row in self.got:
            yield source, token, [e for e, _ in self.work.here(source, token, self.rank)], row

    def combined(self, token):
        return self.out[token]


if __name__ == "__main__":
    main(Toy())
