"""Compares received rows, combined tokens and layer outputs, which are tensors, with the expected values."""

import torch

from .layers import expected_outputs
from .protocol import Failure
from .session import NO_NUMBER, Session
from .tensors import gain, other_cast

BUFFERS = 2  # number of buffers between which a library alternates; DeepEP's low-latency kernels have two


class GPUSession(Session):
    expected_layer = None

    def prepare(self, config):
        if self.work.problem["dispatch"] not in ("bf16", "fp8"):
            raise Failure("illegal", "dispatch: this worker moves bf16 and fp8, not %s" % self.work.problem["dispatch"])
        return super().prepare(config)

    def verify(self, config, probes):
        self.library.before_round()
        self.mislead(config)
        reply = super().verify(config, probes)
        self.library.settle()
        return reply

    def mislead(self, config):
        """Makes calls with other tokens than the verification. These calls overwrite rows that earlier calls left
        with the right tokens, and that could hide an error."""
        with self.library.decoy():
            for _ in range(BUFFERS):
                for _, step in self.steps(config):
                    self.library.ranks.barrier()
                    step()

    def keys(self, source, token, expert):
        """Returns a number that identifies each (source rank, token, expert), or -1 if the rank or the token does not
        exist."""
        at = source.long() * self.work.capacity + token.long()
        key = at if expert is None else at * self.work.problem["experts"] + expert.long()
        return torch.where((source >= 0) & (source < self.work.ranks) & (token >= 0) & (token < self.work.capacity), key, -1)

    def local(self, ids):
        return (ids >= 0) & (ids // self.work.local == self.work.rank)

    def expected(self, by_expert):
        keys = []
        for source, ids in enumerate(self.library.all_ids):
            here = self.local(ids)
            token = torch.arange(len(ids), device=ids.device)[:, None].expand_as(ids)
            if by_expert:
                keys.append(self.keys(torch.full_like(token[here], source), token[here], ids[here]))
            else:
                keys.append(self.keys(torch.full_like(token[:, 0], source), token[:, 0], None)[here.any(1)])
        return torch.cat(keys).sort().values

    def compare_dispatch(self):
        source, token, experts, rows = self.library.rows()
        by_expert = isinstance(experts, torch.Tensor)
        got, want = self.keys(source, token, experts if by_expert else None), self.expected(by_expert)
        wrong, detail = 0, ""
        if not torch.equal(got.sort().values, want):
            wrong = max(1, abs(len(got) - len(want)))
            detail = "rank %d: received %d rows, expected %d%s" % (self.work.rank, len(got), len(want), "; some are of other tokens" * (len(got) == len(want)))
        for r in range(self.work.ranks):
            mine = (source == r).nonzero()[:, 0]
            for part in mine.split(1024):
                at = token[part].long().clamp(0, max(self.work.counts[r] - 1, 0))
                far = self.far(rows[part].float(), self.library.seen(r)[at].float())
                others = torch.zeros_like(far) if by_expert else self.others(r, at, *(t[part] for t in experts))
                bad = far | others
                if bad.any():
                    i = int(bad.nonzero()[0, 0])
                    wrong += int(bad.sum())
                    detail = detail or "rank %d: the row of token %d of rank %d is wrong%s" % (
                        self.work.rank, int(token[part[i]]), r, "" if far[i] else ": it has other experts or weights")
        return {"rows": max(len(got), wrong), "wrong": wrong, "max_err": 0.0, "detail": detail}

    def far(self, rows, want):
        """Returns a mask of the rows that differ too much from `want`. A row with NaN counts as wrong."""
        near = (rows - want).abs() <= want.abs() * (0.125 if self.library.fp8 else 0)
        return ~near.all(1)

    def others(self, source, token, ids, weights):
        """Returns a mask of the n rows that have wrong experts or weights. `ids` and `weights` are [n, top-k]."""
        want, weight = self.library.all_ids[source][token], self.library.all_weights[source][token]
        here = self.local(want)
        same = (torch.where(self.local(ids), ids, -1) == torch.where(here, want, -1)) & (~here | (weights == weight))
        return ~same.all(1)

    def compare_combine(self):
        lib, wrong, worst, detail = self.library, 0, 0.0, ""
        x = lib.seen(self.work.rank)
        for part in filter(len, torch.arange(self.work.tokens, device=lib.device).split(512)):
            error, right, largest = self.judged(part, x[part])
            if lib.fp8:  # a value may fit either of two casts, see other_cast
                other, too, _ = self.judged(part, other_cast(lib.x[part]))
                error, right = torch.minimum(error, other), right | too
            worst = max(worst, float((error.amax(1) / largest.clamp(min=1e-30)).nan_to_num(nan=NO_NUMBER).amax()))
            bad = ~right.all(1)
            if bad.any():
                i = int(bad.nonzero()[0, 0])
                wrong += int(bad.sum())
                detail = detail or "rank %d, token %d: the sum is off by %g" % (self.work.rank, int(part[i]), float(error[i].amax()))
        return {"rows": self.work.tokens, "wrong": wrong, "max_err": min(worst, NO_NUMBER), "detail": detail}

    def compare_layer(self):
        lib = self.library
        if self.expected_layer is None:
            self.expected_layer = expected_outputs(lib)
        want, bound = self.expected_layer
        error = (lib.out.double() - want).abs()
        bad = ~(error <= bound).all(1)  # NaN is wrong
        detail = ""
        if bad.any():
            i = int(bad.nonzero()[0, 0])
            detail = "rank %d, token %d: %d columns of the layer's output are wrong, the worst by %g of a bound of %g" % (
                self.work.rank, i, int((~(error[i] <= bound[i])).sum()), float(error[i].amax()), float(bound[i][error[i].argmax()]))
        largest = want.abs().amax(1).clamp(min=1e-30)
        worst = float((error.amax(1) / largest).nan_to_num(nan=NO_NUMBER).amax()) if len(want) else 0.0
        return {"rows": self.work.tokens, "wrong": int(bad.sum()), "max_err": min(worst, NO_NUMBER), "detail": detail}

    def judged(self, part, x):
        """Compares combined tokens with the sums that follow from x, the values that the experts received. `part` has
        the tokens' indices. Returns the error of each value, a mask of the errors within their bounds, and each
        token's largest expected value."""
        lib = self.library
        want = torch.zeros(len(part), self.work.hidden, device=lib.device)
        size = torch.zeros_like(want)
        for k in range(self.work.topk):
            e, w = lib.ids[part, k], lib.weights[part, k]
            row = (x.float() * gain(e)[:, None]).to(torch.bfloat16).float() * (w * (e >= 0))[:, None]
            want, size = want + row, size + row.abs()
        error = (lib.out[part].float() - want).abs()
        return error, error <= 3 * size / 256, want.abs().amax(1)

    def probe(self, rank, token, k):
        if k < 0:
            return packed(self.library.out[token])
        expert = int(self.library.all_ids[rank][token, k])
        source, tokens_, experts, rows = self.library.rows()
        hit = (source == rank) & (tokens_ == token)
        hit &= experts == expert if isinstance(experts, torch.Tensor) else (experts[0] == expert).any(1)
        found = hit.nonzero()
        return packed(rows[found[0, 0]]) if len(found) else b""


def packed(row):
    """Returns a row as BF16 values in little-endian bytes."""
    return row.to(torch.bfloat16).contiguous().view(torch.int16).cpu().numpy().tobytes()
