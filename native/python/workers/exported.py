"""Checks whether DeepEP with a config that epbench exported from a sweep is as fast as it was in the sweep:

    exported.py SWEEP [--says BY=FILE]... RUN...

SWEEP is the sweep's run directory, from which `epbench table export` made a file of configs, the export. RUN is a run
directory of `epbench bench --over SWEEP --config deepep-own:by=BY`, which ran DeepEP with the export. BY is the form
of the export: shim, json or map. FILE holds the text that `epbench table export` printed when it made the export.

The first table has a row for each dispatch and each combine. Times are medians over several workers. `sweep` is the
time of the sweep's winner in the sweep. RUN measured the winner again, in the same rounds as the export: `winner now`
is the winner's time in RUN. `off` says how much longer the export takes than `sweep`. `loss` says how much longer the
export takes than `winner now`.

The second table has the sum of dispatch and combine for each export with a FILE. FILE states by how many per cent the
export is slower than the sweep's winners. `says` is the winners' time increased by this loss. `off` says how much
longer the export takes than `says`.
"""

import argparse
import collections
import json
import pathlib
import re
import statistics

LOSS = re.compile(r"^(\d+) tokens?, (\S+): (-?[\d.]+) % slower than the best config there$", re.MULTILINE)


def searches(run):
    """Yields ((op, routing, tokens), search) for each search of a run directory."""
    for s in json.loads((pathlib.Path(run) / "run.json").read_text())["searches"]:
        yield (s["problem"]["op"], s["routing"], s["problem"]["tokens"]), s


def microseconds(times):
    return statistics.median(t["median"] for t in times) * 1e6


def exports_timed(runs, chosen):
    """Returns {(op, routing, tokens, BY): searches}. It leaves out searches that failed or are not in the sweep, and
    prints a line about each."""
    out = collections.defaultdict(list)
    for run in runs:
        for case, s in searches(run):
            if case not in chosen:
                print("%s: %s, %s, %d tokens: not a case of the sweep" % (run, *case))
            elif s["decision"]["gain"]["mid"] <= 0:
                print("%s: %s, %s, %d tokens: %s" % (run, *case, s["decision"]["reason"]))
            else:
                out[case + (s["decision"]["config"]["values"]["by"],)].append(s)
    return out


def print_halves(chosen, timed):
    print("op        routing   tokens  by    workers  sweep us  winner now us  export us  off %  loss %  of each worker")
    for (op, routing, tokens, by), workers in sorted(timed.items()):
        losses = sorted(100 / s["decision"]["gain"]["mid"] - 100 for s in workers)
        sweep_us, export_us = chosen[op, routing, tokens], microseconds(s["times"] for s in workers)
        print("%-8s  %-8s  %6d  %-4s  %7d  %8.2f  %13.2f  %9.2f  %5.1f  %6.1f  %.1f to %.1f" % (
            op, routing, tokens, by, len(workers), sweep_us, microseconds(s["default_times"] for s in workers), export_us,
            100 * (export_us / sweep_us - 1), statistics.median(losses), losses[0], losses[-1]))


def print_both(chosen, timed, by, losses):
    for routing, tokens in sorted({case[1:3] for case in timed if case[3] == by}):
        halves = [(half, routing, tokens) for half in ("dispatch", "combine")]
        if not all(half + (by,) in timed for half in halves):
            print("%-8s  %6d  %-4s  dispatch or combine was not timed" % (routing, tokens, by))
        elif (routing, tokens) not in losses:
            print("%-8s  %6d  %-4s  the export states no loss" % (routing, tokens, by))
        else:
            loss = losses[routing, tokens]
            says_us = sum(chosen[half] for half in halves) * (1 + loss / 100)
            export_us = sum(microseconds(s["times"] for s in timed[half + (by,)]) for half in halves)
            print("%-8s  %6d  %-4s  %6.1f  %7.2f  %9.2f  %5.1f" % (routing, tokens, by, loss, says_us, export_us, 100 * (export_us / says_us - 1)))


def losses_of(text):
    """Parses BY=FILE. Returns BY, and the losses that FILE states as {(routing, tokens): loss}."""
    by, equals, file = text.partition("=")
    if by not in ("shim", "json", "map") or not equals:
        raise argparse.ArgumentTypeError("%s: give BY=FILE, where BY is shim, json or map" % text)
    try:
        stated = {(routing, int(tokens)): float(loss) for tokens, routing, loss in LOSS.findall(pathlib.Path(file).read_text())}
    except OSError as e:
        raise argparse.ArgumentTypeError(str(e)) from e
    if not stated:
        raise argparse.ArgumentTypeError("%s states no losses; give the output of epbench table export" % file)
    return by, stated


def main():
    parser = argparse.ArgumentParser(usage="exported.py SWEEP [--says BY=FILE]... RUN...")
    parser.add_argument("sweep")
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--says", action="append", default=[], type=losses_of)
    args = parser.parse_args()
    chosen = {case: microseconds([s["times"]]) for case, s in searches(args.sweep)}
    timed = exports_timed(args.runs, chosen)
    print_halves(chosen, timed)
    if args.says:
        print("\nrouting   tokens  by    loss %  says us  export us  off %")
    for by, losses in args.says:
        print_both(chosen, timed, by, losses)


main()
