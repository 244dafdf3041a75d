"""Tests vLLM's DeepEP managers, and the methods prepare and finalize of vLLM's MoE kernels."""

import glob
import importlib.util
import sys
import types

import harness
import standins
import torch
import torch.distributed as dist

MOST = 8 if harness.EMULATED else 128
_kept: list = []  # operators live as long as their Library objects


def importable():
    if harness.EMULATED:
        import emulated

        emulated.vllm_platform()
    standins.allow("openai", "openai_harmony", "runai_model_streamer", "compressed_tensors", "mistral_common", "depyf", "cbor2", "xgrammar", "gguf",
                   "blake3", "msgspec", "zmq", "fastapi", "uvicorn", "prometheus_fastapi_instrumentator", "lark", "outlines_core", "llguidance",
                   "partial_json_parser", "cv2", "setproctitle", "watchfiles", "ijson", "model_hosting_container_standards", "anthropic", "mcp")
    _operators()
    import transformers

    register = transformers.AutoConfig.register
    transformers.AutoConfig.register = staticmethod(lambda name, config, exist_ok=False: register(name, config, exist_ok=True))


def load(rank, port):
    """Returns (group of all ranks, vLLM's config context, replaced parts)."""
    importable()
    from vllm.config import VllmConfig, set_current_vllm_config
    from vllm.distributed import parallel_state
    from vllm.platforms import current_platform

    assert current_platform.is_cuda(), f"vLLM takes this machine for {current_platform}"
    config = set_current_vllm_config(VllmConfig())
    config.__enter__()
    harness.join(rank, port)
    cpu = dist.group.WORLD if harness.EMULATED else dist.new_group(list(range(harness.RANKS)), backend="gloo")  # vLLM passes a gloo group to DeepEP
    group = types.SimpleNamespace(cpu_group=cpu, rank_in_group=rank, world_size=harness.RANKS)
    parallel_state.get_tp_group = lambda: group
    parallel_state.get_dp_group = lambda: types.SimpleNamespace(rank_in_group=0, world_size=1)
    return cpu, config, _quantize()


def _operators():
    """Replaces vLLM's missing binary modules by empty modules."""
    folder = importlib.util.find_spec("vllm").submodule_search_locations[0]
    if not glob.glob(f"{folder}/_C*so"):
        asked = torch.library.Library("_C", "FRAGMENT")
        for name in ("cutlass_scaled_mm_supports_fp8", "cutlass_scaled_mm_supports_block_fp8", "cutlass_scaled_mm_supports_fp4",
                     "cutlass_group_gemm_supported", "mxfp4_experts_quant_supported"):
            asked.define(f"{name}(int capability) -> bool")
            asked.impl(name, lambda capability: False, "CompositeExplicitAutograd")
        _kept.append(asked)
    for name in ("_C_stable_libtorch", "_C", "_moe_C", "_moe_C_stable_libtorch"):
        if not glob.glob(f"{folder}/{name}.*so"):
            sys.modules[f"vllm.{name}"] = types.ModuleType(f"vllm.{name}")


def _quantize():
    """Replaces vLLM's FP8 cast by torch's if vLLM's cast fails. Returns what was replaced."""
    from vllm.model_executor.layers.fused_moe.prepare_finalize import deepep_ht
    from vllm.platforms import current_platform

    real = deepep_ht.moe_kernel_quantize_input
    try:
        x = torch.randn((16, 512), device="cuda").to(torch.bfloat16)
        q, s = real(x, None, quant_dtype=current_platform.fp8_dtype(), per_act_token_quant=False, block_shape=[128, 128])
        harness.close(harness.widened(q, s).float(), x.float(), 0.05)
        return "nothing"
    except Exception as e:
        deepep_ht.moe_kernel_quantize_input = lambda x, *a, **k: harness.quantized(x) if k.get("block_shape") else real(x, *a, **k)
        return f"moe_kernel_quantize_input by torch ({type(e).__name__}: {str(e)[:60]})"


def quantization(fp8):
    from vllm.model_executor.layers.fused_moe.config import FUSED_MOE_UNQUANTIZED_CONFIG, fp8_w8a8_moe_quant_config

    one = torch.ones(1, device="cuda")
    return fp8_w8a8_moe_quant_config(w1_scale=one, w2_scale=one, block_shape=[128, 128]) if fp8 else FUSED_MOE_UNQUANTIZED_CONFIG


class Engine(harness.Engine):
    captured, duplicates = "low", ("high", "low")

    def __init__(self, group, shape, rank, fp8):
        from vllm.distributed.device_communicators.all2all import DeepEPHTAll2AllManager, DeepEPLLAll2AllManager
        from vllm.model_executor.layers.fused_moe.prepare_finalize.deepep_ht import DeepEPHTPrepareAndFinalize
        from vllm.model_executor.layers.fused_moe.prepare_finalize.deepep_ll import DeepEPLLPrepareAndFinalize

        self.shape, self.rank, self.fp8, self.quant = shape, rank, fp8, quantization(fp8)
        self.managers = DeepEPHTAll2AllManager(group), DeepEPLLAll2AllManager(group)
        low = self.managers[1].get_handle({"max_num_tokens_per_dp_rank": MOST, "token_hidden_size": shape.hidden, "num_ep_ranks": harness.RANKS,
                                           "num_global_experts": shape.experts, "num_local_experts": shape.local})
        self.high_steps = DeepEPHTPrepareAndFinalize(self.managers[0].get_handle({}), num_dispatchers=harness.RANKS, dp_size=1,
                                                     rank_expert_offset=rank * shape.local)
        if harness.EMULATED:
            DeepEPLLPrepareAndFinalize.SUPPORTED_HIDDEN_SIZES = [shape.hidden]
        self.low_steps = DeepEPLLPrepareAndFinalize(low, max_tokens_per_rank=MOST, num_dispatchers=harness.RANKS, use_fp8_dispatch=fp8)
        self.modes = {"high": (4096, lambda *a: self.high(*a, False)), "high-async": (17, lambda *a: self.high(*a, True)),
                      "low": (MOST, lambda *a: self.low(*a, False)), "low-async": (17, lambda *a: self.low(*a, True))}

    def high(self, x, ids, weights, experts, aside):
        from vllm.model_executor.layers.fused_moe.topk_weight_and_reduce import TopKWeightAndReduceNoOP

        given = x, weights, ids, self.shape.experts, None, False, self.quant
        rows, scales, meta, got_ids, got_weights = self.high_steps.prepare_async(*given)() if aside else self.high_steps.prepare(*given)
        assert (scales is not None) == self.fp8
        rows = harness.widened(rows, scales) if self.fp8 else rows
        first = self.rank * self.shape.local
        mine = (got_ids >= first) & (got_ids < first + self.shape.local)
        out, counts = experts.by_row(self.rank, rows, torch.where(mine, got_ids - first, -1), got_weights)
        assert meta.expert_num_tokens.tolist() == counts, "expert_num_tokens"
        combined = torch.empty_like(x)
        back = combined, out, got_weights, got_ids, False, TopKWeightAndReduceNoOP()
        self.high_steps.finalize_async(*back)() if aside else self.high_steps.finalize(*back)
        return combined, counts

    def low(self, x, ids, weights, experts, aside):
        from vllm.model_executor.layers.fused_moe.topk_weight_and_reduce import TopKWeightAndReduceDelegate

        given = x, weights, ids, self.shape.experts, None, False, self.quant
        if aside:
            hook, receive = self.low_steps.prepare_async(*given)
            hook()
            rows, scales, meta, *_ = receive()
        else:
            rows, scales, meta, *_ = self.low_steps.prepare(*given)
        assert (scales is not None) == self.fp8
        rows = harness.widened(rows, scales) if self.fp8 else rows
        y = experts.blocks(self.rank, rows, meta.expert_num_tokens)
        combined = torch.empty_like(x)
        back = combined, y, weights, ids, False, TopKWeightAndReduceDelegate()
        if aside:
            hook, receive = self.low_steps.finalize_async(*back)
            hook()
            receive()
        else:
            self.low_steps.finalize(*back)
        return combined, None if torch.cuda.is_current_stream_capturing() else meta.expert_num_tokens.tolist()

    def close(self):
        for manager in self.managers:
            manager.destroy()


def main(rank, port):
    harness.start(rank, port)
    group, config, replaced = load(rank, port)
    if rank == 0:
        import vllm

        print(f"vLLM {vllm.__version__}; empty modules: {standins.made()}; replaced: {replaced}", flush=True)
    cases = harness.Cases(rank, "vllm")
    for shape in harness.SHAPES:
        experts = harness.Experts(shape)
        for fp8 in (True, False):
            harness.run(cases, shape, fp8, rank, Engine(group, shape, rank, fp8), experts)
            torch.cuda.empty_cache()
    cases.end()


if __name__ == "__main__":
    harness.spawn(main)
