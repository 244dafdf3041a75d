"""What a pack's calls take through epcomm from PyTorch, beside epbench bench of the
same configs on the same host: compare_speed.py EPBENCH PACK DTYPE TIMES.json [...]

`python -m epcomm check --json` writes TIMES.json. Both programs read the
chain clock, with the same stamps between the same kernels.
A call takes up to 5 % more or less with its tensors at other addresses (docs/epcomm.md).
So each file should have them elsewhere (check --placement), and bench runs a process for
each file of a case, with room for fewer tokens than the one before. The case with the
most tokens keeps its room. The medians over processes are compared. A difference of 3 %
or 0.15 us is allowed.
"""

import json
import statistics
import subprocess
import sys

LESS_ROOM = 128  # tokens: how much less room a process of bench has than the one before


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


def shape_of(shown):
    """Flags of the pack's shape, and its room in tokens a rank."""
    words = next(r["value"] for r in shown["pack"]["rows"] if r["field"] == "shape").replace(",", "").split()
    return ["--hidden", words[1], "--experts", words[2], "--topk", words[4].split("-")[1], "--ranks", words[5]], int(words[9])


def by_config(answers, cases):
    """Cases with one op, dtype and config share a process of bench, but for the most tokens,
    which would fix the room of the others."""
    groups, most = {}, max(tokens for _, _, tokens in cases)
    for op, dtype, tokens in cases:
        groups.setdefault((op, dtype, config_of(answers, op, dtype, tokens), tokens == most), []).append(tokens)
    return groups


def bench(epbench, model, room, groups, measured):
    """Adds the time of one process, with so much room, to the list of every case."""
    for (op, dtype, config, _), tokens in groups.items():
        shown = tables([epbench, "bench", "--backend", "cuda", *model, "--max-tokens", str(max(room, *tokens)), "--op", op, "--dtype", dtype,
                        "--routing", "uniform", "--rounds", "30", "--tokens", ",".join(map(str, tokens)), "--config", config, "--json"])
        for row in shown["bench"]["rows"]:
            measured.setdefault((op, dtype, row["tokens"]), []).append(row["median_us"])


def span(times):
    """The fastest and the slowest process."""
    return f"{min(times):7.2f} {max(times):7.2f}"


def verdict(us, theirs):
    far = abs(us - theirs) > max(0.03 * theirs, 0.15)
    return "" if not far else "  OFF" if us > theirs else "  faster"


def main(epbench, pack, dtype, *files):
    shown = tables([epbench, "pack", "show", pack, "--all", "--json"])
    ours, measured = {}, {}
    for name in files:
        with open(name) as f:
            for t in json.load(f):
                if t["dtype"] == dtype:
                    ours.setdefault((t["op"], dtype, t["tokens"]), []).append(t["us"])
    groups = by_config(shown["answers"]["rows"], ours)
    processes = max((len(times) for times in ours.values()), default=0)
    model, room = shape_of(shown)
    for turn in range(processes):
        bench(epbench, model, room - turn * LESS_ROOM, groups, measured)
    print(f"{'op':9} {'dtype':5} {'tokens':>6} {'epcomm us':>10} {'low':>7} {'high':>7} {'bench us':>10} {'low':>7} {'high':>7} {'differs':>9}")
    off = 0
    for case, times in ours.items():
        us, theirs = statistics.median(times), statistics.median(measured[case])
        off += verdict(us, theirs) == "  OFF"
        print(f"{case[0]:9} {dtype:5} {case[2]:6} {us:10.2f} {span(times)} {theirs:10.2f} {span(measured[case])} {100 * (us / theirs - 1):8.1f}%{verdict(us, theirs)}", flush=True)
    print(f"medians of {processes} processes; slower than bench by more than 3 % and 0.15 us: {off}")
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
