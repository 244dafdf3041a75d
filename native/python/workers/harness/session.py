"""Runs calls with one routing on one rank, in measured rounds or to compare every row with the expected row."""

import base64
import collections
import json
import struct

from . import payload
from .beside import SIZING, Beside, Part, Plan
from .protocol import Failure

NO_NUMBER = 1e30  # replaces NaN and infinity, which JSON cannot hold

# A kernel of dispatch or combine, and the values of its parameters. A config has one or both of these halves.
Half = collections.namedtuple("Half", "kernel values")


class Work:
    """What a session's calls send: the number of tokens of each rank, and the experts and weights of each token.
    Experts are distributed to the ranks in order, `local` experts on each rank."""

    def __init__(self, params, rank):
        self.problem = p = params["problem"]
        self.rank, self.ranks, self.hidden, self.topk = rank, p["ranks"], p["hidden"], p["top_k"]
        self.local, self.intermediate = p["experts"] // p["ranks"], p.get("intermediate", 0)
        self.seed, self.capacity = params["seed"], p["max_tokens"]
        self.counts = [r["tokens"] for r in params["ranks"]]
        self.tokens = self.counts[rank]
        self.bytes = [(base64.b64decode(r["experts"]), base64.b64decode(r["weights"])) for r in params["ranks"]]
        self.ids = [struct.unpack("<%di" % (n * self.topk), e) for n, (e, _) in zip(self.counts, self.bytes)]
        self.weights = [struct.unpack("<%df" % (n * self.topk), w) for n, (_, w) in zip(self.counts, self.bytes)]

    def choices(self, source, token):
        """Returns pairs (expert, weight) of a token in top-k order. It leaves out selections with the id -1."""
        at = slice(token * self.topk, (token + 1) * self.topk)
        return [(e, w) for e, w in zip(self.ids[source][at], self.weights[source][at]) if e >= 0]

    def here(self, source, token, rank):
        return [(e, w) for e, w in self.choices(source, token) if e // self.local == rank]

    def row(self, source, token):
        return payload.token_row(self.seed, source, token, self.hidden)

    def expected(self, layout):
        for source, n in enumerate(self.counts):
            for token in range(n):
                local = tuple(e for e, _ in self.here(source, token, self.rank))
                if layout == "rank":
                    if local:
                        yield source, token, local
                else:
                    yield from ((source, token, (e,)) for e in local)


def halves(op, config):
    """Returns the two halves of a config, (dispatch, combine). A half that the config lacks is None."""
    if op != "pair":
        half = Half(config["kernel"], config["values"])
        return (half, None) if op == "dispatch" else (None, half)
    kernels, values = config["kernel"].split("+"), ({}, {})
    for name, v in config["values"].items():
        which, _, rest = name.partition(".")
        values[which == "combine"][rest] = v
    return Half(kernels[0], values[0]), Half(kernels[1], values[1])


class Session:
    def __init__(self, library, params, worker):
        self.library, self.work, self.worker = library, Work(params, library.rank), worker
        self.op, self.staged = self.work.problem["op"], set()  # names of configs whose stages were timed
        library.lanes, library.micro_batch = {}, 0
        library.open(self.work)
        self.beside = Beside(library, self.work.problem) if self.work.problem.get("beside") else None
        self.default = params.get("default")
        if self.beside and not self.default:
            raise Failure("illegal", "default: missing, although problem.beside is set; epbench is older than this worker: rebuild epbench")

    def prepare(self, config):
        if self.op == "layer":
            self.library.prepare(self.only(config))
            return {}
        dispatch, combine = self.halves(config)
        for half in (dispatch, combine):
            if half:
                self.library.prepare(half)
        if combine:
            self.library.pair(dispatch, combine)
        return {}

    @staticmethod
    def only(config):
        return Half(config["kernel"], config["values"])

    def halves(self, config):
        dispatch, combine = halves(self.op, config)
        if dispatch is None:
            dispatch = self.library.follow(combine, self.worker.default("dispatch", combine.kernel))
        return dispatch, combine

    def steps(self, config):
        """Returns the steps of one call as pairs (measured, function). If `measured` is false, the step's time does
        not count."""
        if self.op == "layer":
            return [(True, step) for _, step in self.library.layer(self.only(config))]
        dispatch, combine = self.halves(config)
        out = [(self.op != "combine", lambda: self.library.dispatch(dispatch))]
        measured = combine is not None
        if combine is None and self.library.strict:
            combine = self.worker.default("combine", dispatch.kernel)
        if combine:
            out += [(False, self.library.experts), (measured, lambda: self.library.combine(combine))]
        return out

    def parts(self, config):
        """Returns the measured Parts of a call. In a decode step, calls of two micro-batches take turns, so each op
        has two Parts."""
        dispatch, combine = self.halves(config)
        lanes = (0, 1) if self.beside.step else (0,)
        return [self.part(op, half, lane) for op, half in (("dispatch", dispatch), ("combine", combine))
                if self.op in (op, "pair") for lane in lanes]

    def part(self, op, half, lane):
        def on(function):
            def run():
                self.library.lane(lane)
                function()
            return run

        call, phases = getattr(self.library, op), self.library.phases(op, half)
        return Part(on(lambda: call(half)), phases and tuple(map(on, phases)))

    def plan(self, name, config):
        parts = self.parts(config)
        steps = [(True, p.whole) for p in parts] if self.beside.step else self.steps(config)
        halves = [h for h, measured in zip(self.halves(config), (self.op != "combine", self.op != "dispatch")) if measured]
        return Plan(name, steps, parts, self.beside, max(map(self.library.taken, halves)))

    def run(self, config, rounds, fold):
        name = json.dumps(config, sort_keys=True)
        if self.beside:
            return self.run_beside(self.plan(name, config), rounds, fold)
        reply = {"clock": self.library.clock_of(self.steps(config)), "fold": fold, "seconds": self.library.timed(name, self.steps(config), rounds, fold)}
        if self.op == "layer" and name not in self.staged:
            self.staged.add(name)
            stages = self.library.layer(self.only(config))
            reply["stages"] = [{"name": n, "seconds": s} for (n, _), s in zip(stages, self.library.staged(name, stages))]
        return reply

    def run_beside(self, plan, rounds, fold):
        """Runs rounds. Each round measures the calls without the product, the product without calls, and both
        together."""
        if not self.beside.share:
            self.size()
        if not self.beside.chosen:
            self.library.choose_plans(self.beside)
            self.beside.chosen = True
        rows = self.library.beside_rounds(plan, rounds, fold)
        reply = self.beside.rounds(rows)
        reply["beside"]["amount"] += self.library.planned_for(plan)
        return {"clock": self.library.beside_clock, "fold": fold, **reply}

    def size(self):
        """Decides how much of the product runs with one call. It measures the default config for this, so that the
        result does not depend on which config is measured first."""
        self.prepare(self.default)
        name, steps = json.dumps(self.default, sort_keys=True), self.steps(self.default)
        self.beside.take(self.slowest(self.library.timed(name, steps, SIZING, 1)),
                         self.slowest(self.library.product_alone(self.beside.product, SIZING)))

    def slowest(self, seconds):
        """Takes the slowest rank's seconds in each round, and returns the median over rounds. All ranks must call
        it."""
        rounds = sorted(map(max, zip(*self.library.ranks.exchange(seconds))))
        return rounds[len(rounds) // 2]

    def verify(self, config, probes):
        """Runs a config once and compares every row. If the session has a product, it runs at the same time. Returns
        the result, and the rows that epbench asked this rank for (`probes`)."""
        self.library.poison()
        with self.library.accompanied(self.beside) as again:
            for _, step in self.steps(config):
                self.library.ranks.barrier()
                again()
                step()
        if self.op == "layer":
            reply = self.compare_layer()
        else:
            reply = self.compare_dispatch()
            if self.op != "dispatch":
                reply = joined([reply, self.compare_combine()])
        reply["probed"] = [(i, self.probe(**p)) for i, p in enumerate(probes) if self.shows(**p)]
        return reply

    def compare_dispatch(self):
        """Compares received rows. Each expected (source rank, token, experts) must occur exactly once, and its row
        must have the token's bytes. Rows may come in any order."""
        missing, wrong, detail, rows = dict.fromkeys(self.work.expected(self.library.layout)), 0, "", 0
        for source, token, experts, row in self.library.received():
            rows += 1
            at = (source, token, tuple(experts))
            if at not in missing or bytes(row) != self.work.row(source, token):
                wrong, detail = wrong + 1, detail or "rank %d: row of token %d of rank %d for experts %s is wrong" % (
                    self.work.rank, token, source, list(experts))
            missing.pop(at, None)
        if missing:
            detail = detail or "rank %d: no row of token %d of rank %d for experts %s" % ((self.work.rank,) + tuple(next(iter(missing)))[1::-1] + (next(iter(missing))[2],))
        return {"rows": max(rows, wrong + len(missing)), "wrong": wrong + len(missing), "max_err": 0.0, "detail": detail}

    def compare_combine(self):
        """Compares combined tokens. A value is a sum of terms. Its error may be at most 3/256 of the sum of the
        terms' absolute values."""
        wrong, detail, worst = 0, "", 0.0
        for token in range(self.work.tokens):
            want, size = [0.0] * self.work.hidden, [0.0] * self.work.hidden
            row = self.work.row(self.work.rank, token)
            for e, w in self.work.choices(self.work.rank, token):
                values = payload.floats(payload.expert_row(row, e))
                want = [a + w * v for a, v in zip(want, values)]
                size = [a + abs(w * v) for a, v in zip(size, values)]
            got, scale = payload.floats(bytes(self.library.combined(token))), max(map(abs, want), default=0) or 1
            # If the error is NaN, min returns its first argument, which is NO_NUMBER.
            worst = max([worst] + [min(NO_NUMBER, abs(g - x) / scale) for g, x in zip(got, want)])
            bad = [c for c, (g, x, s) in enumerate(zip(got, want, size)) if not abs(g - x) <= 3 * s / 256]
            if bad:
                wrong, detail = wrong + 1, detail or "rank %d, token %d, column %d is %g, should be %g" % (
                    self.work.rank, token, bad[0], got[bad[0]], want[bad[0]])
        return {"rows": self.work.tokens, "wrong": wrong, "max_err": worst, "detail": detail}

    def compare_layer(self):
        wrong, detail, worst, w = 0, "", 0.0, self.work
        for token in range(w.tokens):
            x = payload.floats(w.row(w.rank, token))
            parts = [(e // w.local, weight, *payload.expert_output(x, e, w.seed, w.intermediate)) for e, weight in w.choices(w.rank, token)]
            want, bound = payload.layer_row(parts, w.hidden)
            got = payload.floats(bytes(self.library.combined(token)))
            scale = max(map(abs, want), default=0) or 1
            worst = max([worst] + [min(NO_NUMBER, abs(g - x) / scale) for g, x in zip(got, want)])
            bad = [c for c, (g, x, b) in enumerate(zip(got, want, bound)) if not abs(g - x) <= b]
            if bad:
                wrong, detail = wrong + 1, detail or "rank %d, token %d, column %d is %g, should be %g" % (
                    w.rank, token, bad[0], got[bad[0]], want[bad[0]])
        return {"rows": w.tokens, "wrong": wrong, "max_err": worst, "detail": detail}

    def shows(self, rank, token, k):
        if k < 0:
            return rank == self.work.rank
        return self.work.ids[rank][token * self.work.topk + k] // self.work.local == self.work.rank

    def probe(self, rank, token, k):
        if k < 0:
            return bytes(self.library.combined(token))
        expert = self.work.ids[rank][token * self.work.topk + k]
        for source, t, experts, row in self.library.received():
            if (source, t) == (rank, token) and expert in experts:
                return bytes(row)
        return b""


def joined(parts):
    return {"rows": sum(p["rows"] for p in parts), "wrong": sum(p["wrong"] for p in parts),
            "max_err": max(p["max_err"] for p in parts), "detail": next((p["detail"] for p in parts if p["detail"]), "")}
