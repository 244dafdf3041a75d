"""What DeepEP loses with an export, beside the sweep's own config in the same rounds:

    exported.py SWEEP RUN...

SWEEP is the run directory that was exported; RUN are those of `epbench bench --over SWEEP --config
deepep-own:by=...`. A row is the median of several workers, with the least and the largest of them.
`off` is by how much the export's time is above what the sweep says.
"""

import collections
import json
import pathlib
import statistics
import sys


def searches(run):
    """(op, tokens) and what was found, of a run directory."""
    for s in json.loads((pathlib.Path(run) / "run.json").read_text())["searches"]:
        yield (s["problem"]["op"], s["problem"]["tokens"]), s


def microseconds(times):
    return statistics.median(t["median"] for t in times) * 1e6


def main(sweep, *runs):
    said = {case: s["times"] for case, s in searches(sweep)}
    found = collections.defaultdict(list)
    for run in runs:
        for case, s in searches(run):
            if s["decision"]["gain"]["mid"] > 0:
                found[*case, s["decision"]["config"]["values"]["by"]].append(s)
            else:
                print("%s, %s of %d tokens: %s" % (run, *case, s["decision"]["reason"]))
    print("op        tokens  by    workers  sweep us  its config now  export us  off %  loss %  of each worker")
    for (op, tokens, by), all in sorted(found.items()):
        losses = sorted(100 / s["decision"]["gain"]["mid"] - 100 for s in all)
        says, takes = microseconds([said[op, tokens]]), microseconds(s["times"] for s in all)
        print("%-8s  %6d  %-4s  %7d  %8.2f  %14.2f  %9.2f  %5.1f  %6.1f  %.1f to %.1f" % (
            op, tokens, by, len(all), says, microseconds(s["default_times"] for s in all), takes, 100 * (takes / says - 1),
            statistics.median(losses), losses[0], losses[-1]))


main(*sys.argv[1:])
