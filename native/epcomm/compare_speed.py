"""What a pack's calls take through epcomm from PyTorch, beside epbench bench of the
same configs on the same host: compare_speed.py EPBENCH PACK TIMES.json [DTYPE ...]

TIMES.json is what `python -m epcomm check --json` wrote. Both read the chain clock.
Allowed is a difference of 3 % or 0.15 us.
"""

import json
import subprocess
import sys


def tables(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:3])}: {done.stderr.strip()[-400:]}")
    return {t["name"]: t for t in json.loads(done.stdout)}


def config_of(answers, op, dtype, tokens):
    """The config that the pack takes for an op at a token count, even routing."""
    for row in answers:
        if (row["dtype"], row["precision"], row["for"], row["routing"]) == (dtype, "full", op, "even") and row["from"] <= tokens <= row["to"]:
            d, c = row["dispatch"], row["combine"]
            return {"dispatch": d, "combine": c, "pair": join(d, c)}[op]
    raise SystemExit(f"the pack says nothing of {op}, {dtype}, {tokens} tokens")


def join(dispatch, combine):
    (dk, dv), (ck, cv) = dispatch.split(":"), combine.split(":")
    values = [f"combine.{v}" for v in cv.split(",")] + [f"dispatch.{v}" for v in dv.split(",")]
    return f"{dk}+{ck}:{','.join(values)}"


def main(epbench, pack, times, *dtypes):
    shown = tables([epbench, "pack", "show", pack, "--all", "--json"])
    shape = next(r["value"] for r in shown["pack"]["rows"] if r["what"] == "shape").replace(",", "").split()
    model = ["--hidden", shape[1], "--experts", shape[2], "--topk", shape[4].split("-")[1], "--ranks", shape[5], "--max-tokens", shape[9]]
    with open(times) as f:
        ours = [t for t in json.load(f) if not dtypes or t["dtype"] in dtypes]
    groups = {}
    for t in ours:
        key = t["op"], t["dtype"], config_of(shown["answers"]["rows"], t["op"], t["dtype"], t["tokens"])
        groups.setdefault(key, []).append(t)
    print(f"{'op':9} {'dtype':5} {'tokens':>6} {'epcomm us':>10} {'bench us':>10} {'differs':>9}")
    off = 0
    for (op, dtype, config), members in groups.items():
        bench = tables([epbench, "bench", "--backend", "cuda", *model, "--op", op, "--dtype", dtype, "--routing", "uniform", "--rounds", "30",
                        "--tokens", ",".join(str(t["tokens"]) for t in members), "--config", config, "--json"])
        measured = {r["tokens"]: r["median_us"] for r in bench["bench"]["rows"]}
        for t in members:
            theirs = measured[t["tokens"]]
            far = abs(t["us"] - theirs) > max(0.03 * theirs, 0.15)
            off += far and t["us"] > theirs
            print(f"{op:9} {dtype:5} {t['tokens']:6} {t['us']:10.2f} {theirs:10.2f} {100 * (t['us'] / theirs - 1):8.1f}%{'  OFF' if far else ''}", flush=True)
    print("slower than bench by more than 3 % and 0.15 us:", off)
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
