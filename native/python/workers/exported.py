"""What DeepEP takes with an export, beside what the sweep says:

    exported.py SWEEP [--says BY=FILE]... RUN...

SWEEP is the run directory that was exported; RUN are those of `epbench bench --over SWEEP --config
deepep-own:by=BY`, BY being shim, json or map. FILE is what `epbench table export` printed when it wrote that export.

The first table is of each half. A row is the median of several workers, with the least and the
largest of them. `off` is by how much the export's time is above the fastest time of the sweep.

The second table is of both halves together, for exports with a FILE: `says` is the fastest time
of the sweep with the loss that the export states for that token count, `off` by how much the
export's time is above it. An export with one config for all token counts states losses above 0.
"""

import argparse
import collections
import json
import pathlib
import re
import statistics

LOSS = re.compile(r"^(\d+) tokens?, \S+: (-?[\d.]+) % slower than the best config there$", re.MULTILINE)


def searches(run):
    """(op, tokens) and what was found, of a run directory."""
    for s in json.loads((pathlib.Path(run) / "run.json").read_text())["searches"]:
        yield (s["problem"]["op"], s["problem"]["tokens"]), s


def microseconds(times):
    return statistics.median(t["median"] for t in times) * 1e6


def found(runs):
    """Searches by (op, tokens, BY), of the runs whose export did not fail."""
    out = collections.defaultdict(list)
    for run in runs:
        for case, s in searches(run):
            if s["decision"]["gain"]["mid"] > 0:
                out[*case, s["decision"]["config"]["values"]["by"]].append(s)
            else:
                print("%s, %s of %d tokens: %s" % (run, *case, s["decision"]["reason"]))
    return out


def of_halves(said, took):
    print("op        tokens  by    workers  sweep us  its config now  export us  off %  loss %  of each worker")
    for (op, tokens, by), all in sorted(took.items()):
        losses = sorted(100 / s["decision"]["gain"]["mid"] - 100 for s in all)
        says, takes = said[op, tokens], microseconds(s["times"] for s in all)
        print("%-8s  %6d  %-4s  %7d  %8.2f  %14.2f  %9.2f  %5.1f  %6.1f  %.1f to %.1f" % (
            op, tokens, by, len(all), says, microseconds(s["default_times"] for s in all), takes, 100 * (takes / says - 1),
            statistics.median(losses), losses[0], losses[-1]))


def together(said, took, by, text):
    for tokens, loss in ((int(n), float(loss)) for n, loss in LOSS.findall(text)):
        halves = [took.get((op, tokens, by)) for op in ("dispatch", "combine")]
        if all(halves):
            says = (said["dispatch", tokens] + said["combine", tokens]) * (1 + loss / 100)
            takes = sum(microseconds(s["times"] for s in half) for half in halves)
            print("%6d  %-4s  %6.1f  %7.2f  %9.2f  %5.1f" % (tokens, by, loss, says, takes, 100 * (takes / says - 1)))


def main():
    parser = argparse.ArgumentParser(usage="exported.py SWEEP [--says BY=FILE]... RUN...")
    parser.add_argument("sweep")
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--says", action="append", default=[], type=lambda pair: pair.split("=", 1))
    args = parser.parse_args()
    said = {case: microseconds([s["times"]]) for case, s in searches(args.sweep)}
    took = found(args.runs)
    of_halves(said, took)
    if args.says:
        print("\ntokens  by    loss %  says us  export us  off %")
    for by, file in args.says:
        together(said, took, by, pathlib.Path(file).read_text())


main()
