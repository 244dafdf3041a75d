"""Measures the times of those DeepEP calls that an engine makes, on two GPUs.

    PYTHONPATH=native/python/epcomm/src:native/python/epcomm/shim python3 native/epcomm/call_cost.py ours ours-1.json
    python3 native/epcomm/call_cost.py deepep deepep-1.json
    python3 native/epcomm/call_cost.py table FOLDER

The first command measures epcomm in place of DeepEP, the second DeepEP. The third compares the files of a folder.

A line of the output holds the slowest rank's times of a call, in us:

wall          median time until the call ends on the device; in a graph, a replay's time divided by its 20 calls
host          median time until the call returns
back_to_back  mean time of 20 calls without a wait between them

A normal layer is get_dispatch_layout, dispatch and combine. With FP8 it also casts the rows to BF16.
"""

import glob
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

HIDDEN, EXPERTS, TOPK, MOST = 7168, 256, 8, 128


def slowest(v):
    t = torch.tensor([v], dtype=torch.float64, device="cuda")
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    return t.item()


def meet():
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()


def median(values):
    return slowest(sorted(values)[len(values) // 2] * 1e6)


def timed(call, turns=60, warm=15):
    for _ in range(warm):
        call()
    wall, host = [], []
    for _ in range(turns):
        meet()
        begin = time.perf_counter()
        call()
        returned = time.perf_counter()
        torch.cuda.synchronize()
        wall.append(time.perf_counter() - begin)
        host.append(returned - begin)
    meet()
    begin = time.perf_counter()
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    return {"wall": median(wall), "host": median(host), "back_to_back": slowest((time.perf_counter() - begin) / 20 * 1e6)}


def in_graph(call, calls=20, replays=30):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
        call()
    meet()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    meet()
    for _ in range(5):
        graph.replay()
    times = []
    for _ in range(replays):
        meet()
        begin = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / calls)
    return {"wall": median(times)}


def draw(tokens):
    x = torch.randn(tokens, HIDDEN, dtype=torch.bfloat16, device="cuda")
    weights, ids = torch.topk(torch.randn(tokens, EXPERTS, device="cuda").abs(), TOPK, dim=-1)
    return x, ids, weights.float()


def normal_calls(buffer, tokens, fp8):
    x, ids, weights = draw(tokens)
    given = (x.to(torch.float8_e4m3fn), torch.rand(tokens, HIDDEN // 128, device="cuda")) if fp8 else x

    def dispatch():
        per_rank, per_host, per_expert, in_rank, _ = buffer.get_dispatch_layout(ids, EXPERTS)
        return buffer.dispatch(given, num_tokens_per_rank=per_rank, num_tokens_per_rdma_rank=per_host, is_token_in_rank=in_rank,
                               num_tokens_per_expert=per_expert, topk_idx=ids, topk_weights=weights)

    def layer():
        rows, _, row_weights, _, handle, _ = dispatch()
        buffer.combine(rows[0].to(torch.bfloat16) if fp8 else rows, handle, topk_weights=row_weights)

    return ("normal layer", layer), ("normal layout and dispatch", dispatch)


def low_latency_calls(buffer, tokens, ranks):
    x, ids, weights = draw(tokens)
    y = torch.randn(EXPERTS // ranks, ranks * MOST, HIDDEN, dtype=torch.bfloat16, device="cuda")

    def layer(hooks=False):
        _, _, handle, _, hook = buffer.low_latency_dispatch(x, ids, MOST, EXPERTS, use_fp8=True, return_recv_hook=hooks)
        if hooks:
            hook()
        _, _, hook = buffer.low_latency_combine(y, ids, weights, handle, return_recv_hook=hooks)
        if hooks:
            hook()

    return ("low latency", layer), ("low latency, hooks", lambda: layer(True))


def worker(rank, ranks, name, out):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("PORT", "29611"), RANK=str(rank), WORLD_SIZE=str(ranks))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=torch.device("cuda", rank))
    import deep_ep

    rows = []

    def note(what, dtype, tokens, figures):
        rows.append({"lib": name, "what": what, "dtype": dtype, "tokens": tokens, **figures})
        if rank == 0:
            print(f"{name:8s} {what:28s} {dtype} {tokens:5d} " + " ".join(f"{k} {v:8.1f}" for k, v in figures.items()), flush=True)

    buffer = deep_ep.Buffer(dist.group.WORLD, int(2e9), 0, low_latency_mode=False, num_qps_per_rank=1)
    for tokens in (128, 1024, 4096):
        for dtype in ("bf16", "fp8"):
            for what, call in normal_calls(buffer, tokens, dtype == "fp8"):
                note(what, dtype, tokens, timed(call))
    size = deep_ep.Buffer.get_low_latency_rdma_size_hint(MOST, HIDDEN, ranks, EXPERTS)
    low = deep_ep.Buffer(dist.group.WORLD, 0, size, low_latency_mode=True, num_qps_per_rank=EXPERTS // ranks)
    for tokens in (1, 32, 128):
        for what, call in low_latency_calls(low, tokens, ranks):
            note(what, "fp8", tokens, timed(call))
            note(what + ", graph", "fp8", tokens, in_graph(call))
    if rank == 0:
        with open(out, "w", encoding="utf-8") as f:
            json.dump(rows, f)
    meet()
    os._exit(0)


def table(folder):
    runs = {}
    for path in sorted(glob.glob(os.path.join(folder, "*-[0-9]*.json"))):
        with open(path, encoding="utf-8") as f:
            for row in json.load(f):
                call = row["what"], row.get("dtype", "fp8"), row["tokens"]
                for figure in ("wall", "host", "back_to_back"):
                    if figure in row:
                        runs.setdefault(call, {}).setdefault((figure, row["lib"]), []).append(row[figure])
    for (what, dtype, tokens), figures in runs.items():
        parts = [f"{figure} {lib} {statistics.median(v):.1f} [{min(v):.0f}, {max(v):.0f}]" for (figure, lib), v in sorted(figures.items())]
        print(f"{what:28s} {dtype} {tokens:5d}  " + "  ".join(parts))


if __name__ == "__main__":
    if sys.argv[1] == "table":
        table(sys.argv[2])
    else:
        mp.spawn(worker, args=(2, sys.argv[1], sys.argv[2]), nprocs=2)
