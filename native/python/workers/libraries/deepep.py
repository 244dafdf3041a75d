"""Runs DeepEP V1 on one host: its normal kernels and its low-latency kernels.

In mode `own` the normal kernels are declared a second time, under the name deepep-own. These run with the config that
an inference engine would use, and the parameter `by` says where it comes from. With by=map it is DeepEP's own config
for the number of ranks. With by=shim the module that EPBENCH_DEEPEP_SHIM names, a shim, chooses the config. With
by=json the config comes from a JSON file of SGLang, at the path EPBENCH_DEEPEP_CONFIG.

The normal kernels send a token once to each rank that has any of its experts. Received rows have no gaps between
them. Combine adds the rows of all ranks. A call includes DeepEP's layout kernel and its exchange of counts. FP8
tokens are cast before the call.

The low-latency kernels return rows [local experts, ranks x max_tokens, hidden] and counts. The call casts the tokens,
and combine multiplies rows by the router's weights. With hook=1 one kernel sends, and another kernel receives when
the hook is called. Both run on the caller's stream. With hook=0 one kernel does both, on DeepEP's own stream.
"""

import importlib
import json
import os
import pathlib

import torch
from harness import Failure, Half, installed_version, kernel, param
from harness.gpu import GPULibrary
from harness.layers import Layers, MaskedLayer, RankLayer, mean_rows, products
from harness.tensors import dequantized, gain

# For each number of ranks: how many tokens DeepEP sends at a time by default, in dispatch and in combine.
OWN = {2: (24, 10), 4: (6, 9), 8: (6, 4)}
# Numbers of SMs. They are even, because DeepEP uses two SMs for each channel.
SMS = [8, 12, 16, 20, 24, 32, 48, 64, 80, 96, 112, 128]
LL_HIDDEN = (2048, 2560, 4096, 5120, 6144, 7168, 8192)
NVL_BYTES = 1 << 30


class Library(GPULibrary):
    name = "deepep"
    held = ("got", "counts", "handle", "got_ids", "got_weights")
    written, read_again = ("got", "got_ids", "got_weights", "y"), ("handle", "counts")

    def __init__(self, mode="normal"):
        self.low_latency, self.own, self.layers = mode == "ll", mode == "own", Layers()

    def start(self, ranks):
        super().start(ranks)
        import deep_ep

        self.deep_ep, self.buffer, self.shape = deep_ep, None, None
        if deep_ep.Buffer.__module__.startswith("epcomm."):
            self.name = "epcomm.deepep"
        if self.own:
            self.read_exports()
        self.version = installed_version("deep_ep", "1")

    def read_exports(self):
        """Fills self.exports. For each value of the parameter `by` it holds a function that returns the config of
        dispatch or combine. With by=shim the function returns None, because the shim has replaced DeepEP's methods
        and chooses itself."""
        maps = {"dispatch": self.deep_ep.Buffer.get_dispatch_config, "combine": self.deep_ep.Buffer.get_combine_config}
        self.exports = {"map": lambda op: maps[op](self.ranks.ranks)}
        if os.environ.get("EPBENCH_DEEPEP_CONFIG"):
            read = json.loads(pathlib.Path(os.environ["EPBENCH_DEEPEP_CONFIG"]).read_text())
            self.exports["json"] = lambda op: self.deep_ep.Config(**read["normal_" + op])
        if os.environ.get("EPBENCH_DEEPEP_SHIM"):
            importlib.import_module(os.environ["EPBENCH_DEEPEP_SHIM"]).register()
            self.exports["shim"] = lambda op: None

    def kernels(self):
        rules = [("!problem.shared_expert && !problem.skip_a2a", "no shared expert, no skip_a2a"),
                 ('problem.dispatch == "bf16" || problem.dispatch == "fp8"', "bf16 and fp8 only")]
        if self.low_latency:
            rules += [("problem.hidden in [%s]" % ", ".join(map(str, LL_HIDDEN)), "hidden: the low-latency kernels are compiled for a few sizes only"),
                      ("problem.top_k <= 9", "topk: at most 9"), ("problem.max_tokens <= 1024", "max-tokens: at most 1024")]
            hook = param("hook", "1: send and receive are separate kernels, and no kernel holds SMs between them.", [0, 1])
            return [kernel(self, "deepep-ll", "dispatch", "low_latency_dispatch", [hook], rules, layout="masked", inside=["cast", "counts", "expansion"]),
                    kernel(self, "deepep-ll", "combine", "low_latency_combine", [hook], rules, layout="masked", sum="gated", inside=["reduction", "copy"]),
                    self.layer_kernel("deepep-ll", [], rules)]
        chunks = OWN.get(self.ranks.ranks, (6, 4))

        def params(values, default):
            return [param("sms", "SMs; the same for dispatch and combine.", self.sms(), 20, "SMs", cost=1),
                    param("send", "NVLink chunk: tokens sent at a time.", values, default, "tokens"),
                    param("recv", "Tokens that a channel's buffer holds.", [256], 256, "tokens", cost=3)]

        # DeepEP asserts that its NVLink buffer holds a channel's tokens.
        token = "(problem.hidden * 2 + problem.hidden / 32 + problem.top_k * 12 + 64)"
        limits = [("send < recv", "send: must be below recv"), ("sms % 2 == 0", "sms: must be even"), ("sms <= machine.sms", "sms: the GPU has fewer"),
                  ("sms / 2 * problem.ranks * recv * %s <= %d" % (token, NVL_BYTES), "sms, recv: the channels do not fit the NVLink buffer")]
        normal = self.halves("deepep-normal", params([4, 6, 8, 12, 16, 20, 24, 32], chunks[0]), params([1, 2, 4, 6, 8, 9, 10, 12, 16], chunks[1]), rules + limits)
        normal.append(self.layer_kernel("deepep-normal", [param("sms", "SMs of dispatch and combine.", self.sms(), 20, "SMs", cost=1)], rules))
        if not self.own:
            return normal
        by = [param("by", "Source of the config: DeepEP's map, a JSON file or a shim.", list(self.exports), "map")]
        return self.halves("deepep-own", by, by, rules) + normal

    def halves(self, name, dispatch, combine, rules):
        """Declares the normal dispatch and combine as kernels with this name."""
        return [kernel(self, name, "dispatch", "get_dispatch_layout and dispatch", dispatch, rules, layout="rank:packed", inside=["counts"]),
                kernel(self, name, "combine", "combine", combine, rules, accepts=[name], layout="rank:packed", sum="plain", inside=["reduction"])]

    def layer_kernel(self, name, params, rules):
        by = param("products", "Library of the grouped products.", products(), products()[-1])
        return kernel(self, name, "layer", "dispatch, grouped products with SwiGLU, combine", [*params, by],
                      [*rules, ('problem.dispatch == "bf16" || products == "deepgemm"', "products: fp8 rows need deepgemm, from the package deep_gemm")])

    def sms(self):
        most = self.machine()["sms"] // 2 * 2
        return [n for n in SMS if n < most] + [most]

    def follow(self, combine, dispatch):
        if self.low_latency:
            return dispatch
        shared = "by" if "by" in combine.values else "sms"
        return Half(dispatch.kernel, {**dispatch.values, shared: combine.values[shared]})

    def pair(self, dispatch, combine):
        for shared in () if self.low_latency else ("sms", "by"):
            if dispatch.values.get(shared) != combine.values.get(shared):
                raise Failure("illegal", "%s: %s for dispatch and %s for combine; DeepEP's handle needs one number of SMs" % (
                    shared, dispatch.values.get(shared), combine.values.get(shared)))

    def open(self, work):
        super().open(work)
        self.experts_all, self.worst = work.problem["experts"], work.ranks * work.capacity
        if self.low_latency:
            self.open_low_latency(work)
        elif self.buffer is None:
            self.buffer = self.deep_ep.Buffer(self.group, NVL_BYTES, 0)
        shape = (work.local, self.worst) if self.low_latency else (self.worst,)
        self.y = torch.zeros(*shape, work.hidden, dtype=torch.bfloat16, device=self.device)
        if work.problem["op"] == "layer":
            self.layers.experts(work, self.device)

    def layer(self, half):
        by = half.values["products"]
        if not self.low_latency:
            chunks = dict(zip(("dispatch", "combine"), OWN.get(self.ranks.ranks, (6, 4))))
            dispatch, combine = (Half(half.kernel, {"sms": half.values["sms"], "send": chunks[op], "recv": 256}) for op in chunks)
            part = self.layers.get(by, lambda: RankLayer(by, self.layers.experts(self.work, self.device), self.worst, self.work.topk, mean_rows(self.work)))
            inside = part.stages(lambda: self.got, lambda: self.got_ids, lambda: self.got_weights, self.y)
            return [("dispatch", lambda: self.dispatch(dispatch)), *inside, ("combine", lambda: self.combine(combine))]
        part = self.layers.get(by, lambda: MaskedLayer(by, self.layers.experts(self.work, self.device), self.worst, mean_rows(self.work)))

        def combine():
            self.y = part.y
            self.send_combine(False)

        return [("dispatch", lambda: self.send_dispatch(False)), *part.stages(lambda: self.got, lambda: self.counts), ("combine", combine)]

    def close(self):
        super().close()
        self.layers.close()

    def open_low_latency(self, work):
        """Makes the low-latency buffer. DeepEP uses NVSHMEM, which can start only once in a process. So the buffer
        cannot be made again, and all sessions must have the same shape."""
        shape = (work.capacity, work.hidden, self.experts_all)
        if self.buffer is None:
            hint = self.deep_ep.Buffer.get_low_latency_rdma_size_hint(work.capacity, work.hidden, work.ranks, self.experts_all)
            self.buffer = self.deep_ep.Buffer(self.group, 0, hint, low_latency_mode=True, num_qps_per_rank=work.local)
            self.shape = shape
        if shape != self.shape:
            raise Failure("illegal", "max-tokens, hidden, experts: %s, but the buffers were made for %s; give --max-tokens, and sweep one model at a time" % (shape, self.shape))

    def config(self, half, op):
        """Returns a deep_ep.Config, or None if DeepEP shall choose the config."""
        v = half.values
        return self.exports[v["by"]](op) if "by" in v else self.deep_ep.Config(v["sms"], v["send"], v["recv"])

    def before_round(self):
        # The next call may use either of DeepEP's two buffers, so both must be clean.
        if self.low_latency:
            self.buffer.clean_low_latency_buffer(*self.shape)

    def phases(self, op, half):
        if not self.low_latency or not half.values["hook"]:
            return None
        send = self.send_dispatch if op == "dispatch" else self.send_combine
        return lambda: send(True), lambda: self.receive()

    def taken(self, half):
        """Returns the number of SMs that an op takes. A low-latency kernel has one warp group for each expert. It
        puts ceil(experts / SMs of the GPU) groups on an SM, and may then need fewer SMs than the GPU has."""
        if self.low_latency:
            return -(-self.experts_all // -(-self.experts_all // self.multiprocessors()))
        return half.values.get("sms", 0)

    def send_dispatch(self, hook):
        self.got, self.counts, self.handle, _, self.receive = self.buffer.low_latency_dispatch(
            self.x, self.ids, self.work.capacity, self.experts_all, use_fp8=self.fp8, return_recv_hook=hook)

    def send_combine(self, hook):
        _, _, self.receive = self.buffer.low_latency_combine(
            self.y, self.ids, self.weights, self.handle, return_recv_hook=hook, out=self.out)

    def dispatch(self, half):
        if self.low_latency:
            self.send_dispatch(bool(half.values["hook"]))
            if half.values["hook"]:
                self.receive()
            return
        per_rank, _, per_expert, there, _ = self.buffer.get_dispatch_layout(self.ids, self.experts_all)
        self.got, self.got_ids, self.got_weights, _, self.handle, _ = self.buffer.dispatch(
            (self.q, self.scales) if self.fp8 else self.x, num_tokens_per_rank=per_rank, is_token_in_rank=there, num_tokens_per_expert=per_expert,
            topk_idx=self.ids, topk_weights=self.weights, num_worst_tokens=self.worst, config=self.config(half, "dispatch"))

    def combine(self, half):
        if self.low_latency:
            self.send_combine(bool(half.values["hook"]))
            if half.values["hook"]:
                self.receive()
        else:
            self.out = self.buffer.combine(self.y, self.handle, config=self.config(half, "combine"))[0]

    def values(self, rows=slice(None)):
        """Returns received rows as numbers, without scales. In low-latency calls `rows` selects a local expert; in
        normal calls it selects rows."""
        if not self.fp8:
            return self.got[rows]
        q, scales = self.got[0][rows], self.got[1][rows]
        return dequantized(q.reshape(-1, self.work.hidden), scales.reshape(-1, scales.shape[-1])).view(q.shape)

    def experts(self):
        first = self.rank * self.work.local
        if not self.low_latency:
            self.y.copy_(self.rank_experts(torch.nan_to_num(self.values()), self.chosen(), torch.nan_to_num(self.got_weights)))
            return
        for e in range(self.work.local):
            self.y[e] = (torch.nan_to_num(self.values(e)).float() * float(gain(torch.tensor(first + e)))).to(torch.bfloat16)

    def chosen(self):
        """Returns global expert ids. In DeepEP's outputs, each rank's experts have ids from 0."""
        return torch.where(self.got_ids >= 0, self.got_ids + self.rank * self.work.local, -1)

    def rows(self):
        if self.low_latency:
            return self.masked_rows()
        ends = self.handle[0][:, self.rank].tolist()  # index after each source rank's last row
        sizes = torch.tensor([b - a for a, b in zip([0] + ends, ends)], device=self.device)
        source = torch.arange(self.work.ranks, device=self.device).repeat_interleave(sizes)
        n = len(source)
        return source, self.handle[3][:n].long(), (self.chosen()[:n], self.got_weights[:n]), self.values()[:n]

    def masked_rows(self):
        """Returns what rows() returns, for low-latency calls. The rows of an expert from one source rank are
        contiguous. DeepEP describes these rows by one int64: the upper 32 bits are the index of the first row, and
        the lower 32 bits are the number of rows."""
        parts, first = [], self.rank * self.work.local
        where = self.handle[1].tolist()
        for e in range(self.work.local):
            rows = self.values(e)
            for source, packed in enumerate(where[e]):
                begin, count = packed >> 32, packed & 0xFFFFFFFF
                if count:
                    token = self.handle[0][e, begin:begin + count].long()
                    parts.append((torch.full_like(token, source), token, torch.full_like(token, first + e), rows[begin:begin + count]))
        if not parts:
            none = torch.zeros(0, dtype=torch.int64, device=self.device)
            return none, none, none, torch.zeros(0, self.work.hidden, dtype=torch.bfloat16, device=self.device)
        return tuple(torch.cat(column) for column in zip(*parts))
