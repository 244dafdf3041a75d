"""Tests SGLang's DeepEP dispatcher."""

import os
import sys
import types

import harness
import standins
import torch
import torch.distributed as dist

MOST = 8 if harness.EMULATED else 128


def load():
    """Returns (SGLang's dispatcher module, replaced parts)."""
    replaced = []
    standins.allow("IPython", "openai", "xgrammar", "compressed_tensors", "gguf", "mistral_common", "soundfile", "torch_memory_saver", "flashinfer",
                   "outlines", "llguidance", "decord", "sgl_kernel", "zmq", "uvloop", "fastapi", "uvicorn", "msgspec", "torchao", "anthropic",
                   "quack", "cuda", "blobfile", "modelscope", "timm", "av", "torchcodec", "einops", "openai_harmony", "torchvision", "torchaudio", "datasets", "hf_transfer", "nvidia", "pynvml", "sentencepiece", "grpc", "smg_grpc_servicer", "kernels", "apache_tvm_ffi")
    import transformers

    register = transformers.AutoConfig.register
    transformers.AutoConfig.register = staticmethod(lambda name, config, exist_ok=False: register(name, config, exist_ok=True))
    try:
        import deep_gemm  # noqa: F401
    except Exception as e:  # empty modules suffice: without deep_gemm, no case calls it
        replaced.append(f"deep_gemm ({type(e).__name__})")
        for name in ("deep_gemm", "deep_gemm.utils", "deep_gemm.utils.layout"):
            sys.modules[name] = types.ModuleType(name)
        sys.modules["deep_gemm.utils.layout"].get_mn_major_tma_aligned_tensor = None
    from sglang.srt.layers.moe.token_dispatcher import deepep
    from sglang.srt.layers.moe.utils import initialize_moe_config
    from sglang.srt.server_args import ServerArgs, set_global_server_args_for_scheduler

    arguments = ServerArgs(model_path="dummy", moe_a2a_backend="deepep", deepep_mode="auto", tp_size=harness.RANKS, ep_size=harness.RANKS)
    set_global_server_args_for_scheduler(arguments)
    initialize_moe_config(arguments)
    if hasattr(deepep, "_is_mnnvl_fabric_supported") and deepep._is_mnnvl_fabric_supported():
        deepep._is_mnnvl_fabric_supported = lambda: False
        replaced.append("_is_mnnvl_fabric_supported, which asks FlashInfer")
    assert deepep.use_deepep, "SGLang cannot import deep_ep"
    try:
        x = torch.randn((16, 512), device="cuda").to(torch.bfloat16)
        harness.close(harness.widened(*deepep.sglang_per_token_group_quant_fp8(x, 128)).float(), x.float(), 0.05)
    except Exception as e:
        replaced.append(f"sglang_per_token_group_quant_fp8 by torch ({type(e).__name__})")
        deepep.sglang_per_token_group_quant_fp8 = lambda x, group, **_: harness.quantized(x)
    return deepep, replaced


class Engine(harness.Engine):
    def __init__(self, deepep, shape, rank, fp8, most, mode="AUTO", hooks=True):
        from sglang.srt.batch_overlap.two_batch_overlap import MaybeTboDeepEPDispatcher
        from sglang.srt.layers.moe.topk import StandardTopKOutput
        from sglang.srt.layers.moe.utils import DeepEPMode
        from sglang.srt.runtime_context import get_forward, get_resources

        os.environ["SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK"] = str(most)
        get_resources().buffers.pop("deepep_ep_state", None)  # each engine makes a new Buffer
        self.deepep, self.shape, self.rank, self.fp8, self.forward, self.topk = deepep, shape, rank, fp8, get_forward(), StandardTopKOutput
        self.options = {"group": dist.group.WORLD, "router_topk": shape.topk, "permute_fusion": True, "num_experts": shape.experts,
                        "num_local_experts": shape.local, "hidden_size": shape.hidden, "params_dtype": torch.bfloat16,
                        "deepep_mode": DeepEPMode[mode], "async_finish": True, "return_recv_hook": hooks}
        self.dispatcher = self._configured(MaybeTboDeepEPDispatcher(**self.options))
        self.modes = {"normal": (4096, self.normal), "low": (most, self.low)} if mode == "AUTO" else {f"low-no-hooks-{most}": (min(most, 17), self.low)}
        self.captured = "low" if mode == "AUTO" and most == MOST else None

    def _configured(self, dispatcher):
        dispatcher.set_quant_config({"dispatcher_output_dtype": "fp8" if self.fp8 else "bf16"})
        return dispatcher

    def _dispatch(self, x, ids, weights, prefill):
        self.forward.set("is_extend_in_batch", prefill)
        return self.dispatcher.dispatch(hidden_states=x, topk_output=self.topk(weights, ids.to(torch.int32), None))

    def normal(self, x, ids, weights, experts):
        got = self._dispatch(x, ids, weights, True)
        assert (got.hidden_states_scale is not None) == self.fp8 and got.topk_ids.dtype is torch.int64
        rows = harness.widened(got.hidden_states, got.hidden_states_scale) if self.fp8 else got.hidden_states
        out, counts = experts.by_row(self.rank, rows, got.topk_ids, got.topk_weights)
        assert list(got.num_recv_tokens_per_expert) == [(c + 127) // 128 * 128 for c in counts], "num_recv_tokens_per_expert"
        return self.dispatcher.combine(combine_input=self.deepep.DeepEPNormalCombineInput(out, ids, weights)), counts

    def _blocks(self, got, experts):
        assert (got.hidden_states_scale is not None) == self.fp8
        rows = harness.widened(got.hidden_states, got.hidden_states_scale) if self.fp8 else got.hidden_states
        return self.deepep.DeepEPLLCombineInput(experts.blocks(self.rank, rows, got.masked_m), got.topk_ids, got.topk_weights)

    def low(self, x, ids, weights, experts):
        got = self._dispatch(x, ids, weights, False)
        combined = self.dispatcher.combine(combine_input=self._blocks(got, experts))
        return combined, None if torch.cuda.is_current_stream_capturing() else got.masked_m.tolist()

    def in_flight(self, batches, experts):
        """Dispatches and combines two batches in the order of SGLang's two-batch overlap."""
        self.forward.set("is_extend_in_batch", False)
        two = [self._configured(self.deepep.DeepEPDispatcher(**self.options)) for _ in batches]
        for d, (x, ids, weights) in zip(two, batches):
            d.dispatch_a(hidden_states=x, topk_output=self.topk(weights, ids.to(torch.int32), None))
        for d, y in zip(two, [self._blocks(d.dispatch_b(), experts) for d in two]):
            d.combine_a(y)
        return [d.combine_b() for d in two]

    def extra(self, rank):
        return (("deepgemm", self.deepgemm),) if self.fp8 and self.captured and not harness.EMULATED and "deep_gemm" in sys.modules \
            and hasattr(sys.modules["deep_gemm"], "__file__") and sys.modules["deep_gemm"].__file__ else ()

    def deepgemm(self):
        """Runs SGLang's masked grouped GEMM on a dispatch's rows and scales."""
        from sglang.srt.layers import deep_gemm_wrapper as gemm

        shape, width = self.shape, 256
        x, ids, weights = harness.draw(shape, 16, 60, self.rank)
        got = self._dispatch(x, ids, weights, False)
        torch.manual_seed(7)
        w = (torch.randn((shape.local, width, shape.hidden), device="cuda") * 0.05).to(torch.float8_e4m3fn)
        ws = torch.rand((shape.local, width // 128, shape.hidden // 128), device="cuda") + 0.5
        out = torch.zeros((shape.local, got.hidden_states.shape[1], width), device="cuda", dtype=torch.bfloat16)
        scales = got.hidden_states_scale
        if gemm.DEEPGEMM_NEED_TMA_ALIGNED_SCALES:
            scales = gemm.get_mn_major_tma_aligned_tensor(scales)
        gemm.grouped_gemm_nt_f8f8bf16_masked((got.hidden_states, scales), (w, ws), out, got.masked_m, got.expected_m)
        wide = (w.float().view(shape.local, width // 128, 128, -1, 128) * ws[:, :, None, :, None]).view(w.shape)
        want = torch.bmm(harness.widened(got.hidden_states, got.hidden_states_scale).float(), wide.transpose(1, 2))
        there = torch.arange(out.shape[1], device="cuda") < got.masked_m.unsqueeze(1)
        text = harness.close(out[there].float(), want[there], 2e-2)
        rest = torch.zeros(got.hidden_states.shape, device="cuda", dtype=torch.bfloat16)
        self.dispatcher.combine(combine_input=self.deepep.DeepEPLLCombineInput(rest, got.topk_ids, got.topk_weights))
        return text + f"; scales {'as they are' if scales.data_ptr() == got.hidden_states_scale.data_ptr() else 'copied'}"


def main(rank, port):
    harness.start(rank, port)
    harness.join(rank, port)
    deepep, replaced = load()
    if rank == 0:
        import sglang

        print(f"SGLang {sglang.__version__}; empty modules: {standins.made()}; replaced: {'; '.join(replaced) or 'nothing'}", flush=True)
    cases = harness.Cases(rank, "sglang")
    for shape in harness.SHAPES:
        experts = harness.Experts(shape)
        for fp8 in (True, False):
            harness.run(cases, shape, fp8, rank, Engine(deepep, shape, rank, fp8, MOST), experts)
            harness.run(cases, shape, fp8, rank, Engine(deepep, shape, rank, fp8, MOST, "LOW_LATENCY", hooks=False), experts)
            torch.cuda.empty_cache()
    cases.end()


if __name__ == "__main__":
    harness.spawn(main)
