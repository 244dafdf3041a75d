"""What epbench bench and epcomm-worker take for pairs of a pack: bench_pairs.py EPBENCH WORKER PACK DTYPE:TOKENS[,TOKENS]...

`bench` has its own backend and runs the config that the pack takes; `worker` is bench over
epcomm-worker, which runs the pack. Both read the chain clock, as pair_graphs.py does.
"""

import sys

from compare_speed import config_of, shape_of, tables


def medians(epbench, model, room, dtype, tokens, backend, *config):
    shown = tables([epbench, "bench", "--backend", backend, *model, "--max-tokens", str(room), "--op", "pair", "--dtype", dtype,
                    "--routing", "uniform", "--rounds", "30", "--tokens", tokens, *config, "--json"])
    return [(row["tokens"], row["median_us"]) for row in shown["bench"]["rows"]]


def main(epbench, worker, pack, *cases):
    shown = tables([epbench, "pack", "show", pack, "--all", "--json"])
    model, room = shape_of(shown)
    for case in cases:
        dtype, tokens = case.split(":")
        for n in tokens.split(","):
            config = config_of(shown["answers"]["rows"], "pair", dtype, int(n))
            for _, us in medians(epbench, model, room, dtype, n, "cuda", "--config", config):
                print(f"bench  {dtype:5} {n:>4} tokens {us:7.2f} us, {config}", flush=True)
        for n, us in medians(epbench, model, room, dtype, tokens, f"exec:{worker} --pack {pack}"):
            print(f"worker {dtype:5} {n:>4} tokens {us:7.2f} us", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
