"""Compares epbench's search with Kernel Tuner's strategies on spaces that others measured (benchmark_hub).

    pip install -r native/python/search/requirements.txt
    git clone https://github.com/AutoTuningAssociation/benchmark_hub && git -C benchmark_hub checkout 8eeb99e7
    python3 native/python/search/hub.py measure benchmark_hub -o testdata/archive/hub-2026-11-28
    python3 native/python/search/hub.py summary -o testdata/archive/hub-2026-11-28

For every strategy, `epbench replay` measures the configs that the strategy asks for. A measured time has noise, which
is drawn from the config's recorded runs. epbench chooses each strategy's winner by the same rule.

A search has one of two kinds of budgets. If the budget is a number of distinct configs, the search's loss is recorded.
If the budget is a modelled time, the search's score is recorded. This time is so long that random search would come
close to the best config.

`measure` writes OUT-losses.csv and OUT-scores.csv. It skips searches whose results these files have already.
`summary` reads both files and writes OUT-spaces.csv, OUT-budgets.csv and OUT-time.csv. docs/search-hub.md shows these
three tables."""

import argparse
import collections
import contextlib
import csv
import io
import os
import statistics
import subprocess
import sys
import tempfile

import kernel_tuner_strategy

MILO, UNUSED = "cachefiles/{}_milo/{}_T4.json.gz", "currently_unused/cachefiles/"
# The files of gemm_milo and hotspot_milo are not in the hub's repository.
SPACES = (
    [MILO.format("convolution", gpu) for gpu in ("A100", "A4000", "A6000", "MI250X", "W6600", "W7800")]
    + [MILO.format("dedispersion", "A100"), UNUSED + "KernelTuner data/gemm/RTX_2080_Ti.json.gz"]
    + [UNUSED + "pnpoly/%s_T4.json.gz" % gpu for gpu in ("RTX_2080_Ti", "RTX_3090")]
    + [UNUSED + "KernelTuner data/pnpoly/%s.json.gz" % gpu for gpu in ("RTX_3060_laptop", "RTX_Titan")]
)
OWN = ["auto", "race"]
KERNEL_TUNER = ["random_sample", "genetic_algorithm", "pso", "diff_evo", "basinhopping", "simulated_annealing", "greedy_ils", "mls", "hybrid_vndx", "bayes_opt"]
# With larger budgets, each search with bayes_opt would take more than half a minute.
SLOW, SLOW_BUDGETS = "bayes_opt", (25, 50)
BUDGETS = (25, 50, 100, 200)
SEED = 20261126
LOSSES, SCORES = ["space", "strategy", "configs", "losses_percent"], ["space", "strategy", "configs", "legal_percent", "valid_percent", "cutoff", "tried", "score", "regret_percent"]


@contextlib.contextmanager
def server(path):
    """Starts the server that runs Kernel Tuner's strategies, and yields the address of the server's socket."""
    with tempfile.TemporaryDirectory() as folder:
        address = os.path.join(folder, "s")
        program = subprocess.Popen([sys.executable, kernel_tuner_strategy.__file__, "serve", path, address],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            if program.stdout.readline() != "ready\n":
                raise RuntimeError("the server of %s did not start" % path)
            yield address
        finally:
            program.stdin.close()
            program.wait()


def command(address, strategy, evaluations=0):
    """Returns the value of epbench's flag --strategy that selects a strategy of Kernel Tuner."""
    return "exec:%s -S -E %s ask %s %s %d" % (sys.executable, kernel_tuner_strategy.__file__, address, strategy, evaluations)


def named(strategy):
    """Returns the short name of a strategy."""
    return strategy.split()[-2] if strategy.startswith("exec:") else strategy


def run(binary, *args):
    """Returns the rows of epbench's first CSV table as dicts."""
    out = subprocess.run([binary, *args, "--format", "csv"], check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = [line for line in out.split("\n\n")[0].splitlines() if not line.startswith("#")]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    for row in rows:
        row["strategy"] = named(row["strategy"])
    return rows


def share_legal(path):
    """Returns the fraction of all combinations of parameter values that are legal configs."""
    configs = kernel_tuner_strategy.configs_of(path)
    combinations = 1
    for name in configs[0][1]:
        combinations *= len({values[name] for _, values in configs})
    return len(configs) / combinations


def losses_of(binary, path, strategies, budgets, searches):
    """Returns one row for each strategy and budget."""
    out = collections.defaultdict(list)
    for row in run(binary, "replay", path, "--each", "--replays", str(searches), "--seed", str(SEED), "--strategy", ",".join(strategies), "--budget", ",".join(map(str, budgets))):
        out[row["space"], row["strategy"], row["budget"]].append("%.2f" % float(row["regret_percent"]))
    return [dict(zip(LOSSES, (*key, " ".join(values)))) for key, values in out.items()]


def scores_of(binary, path, strategies, searches):
    rows = run(binary, "replay", "score", path, "--replays", str(searches), "--seed", str(SEED), "--strategy", ",".join(strategies))
    legal = "%.1f" % (100 * share_legal(path))
    return [{name: {**r, "legal_percent": legal}[name] for name in SCORES} for r in rows if r["configs"]]


def measure(binary, path, own, theirs, searches, scored):
    """Measures one space. Returns rows for the table of losses and rows for the table of scores."""
    losses = losses_of(binary, path, own, BUDGETS, searches) if own else []
    cutoff = int(scores_of(binary, path, ["race"], 1)[0]["cutoff"])
    scores = scores_of(binary, path, own, scored) if own else []
    if not theirs:
        return losses, scores
    with server(path) as address:
        fast = [s for s in theirs if s != SLOW]
        if fast:
            losses += losses_of(binary, path, [command(address, s) for s in fast], BUDGETS, searches)
            scores += scores_of(binary, path, [command(address, s, cutoff) for s in fast], scored)
        if SLOW in theirs:
            losses += losses_of(binary, path, [command(address, SLOW)], SLOW_BUDGETS, searches)
    return losses, scores


def read(path):
    if not os.path.exists(path):
        return []
    with open(path, newline="") as f:
        return list(csv.DictReader(f))


def write(path, rows):
    if not rows:  # bayes_opt has no scores
        return
    with open(path, "w", newline="") as f:
        out = csv.DictWriter(f, list(rows[0]), lineterminator="\n")
        out.writeheader()
        out.writerows(rows)


def record(binary, hub, out, only, strategies, searches, scored):
    """Runs the searches whose results are not in the CSV files, and writes the files after each space."""
    losses, scores = read(out + "-losses.csv"), read(out + "-scores.csv")
    for space in SPACES:
        path = os.path.join(hub, space)
        name = named_space(path)
        known = {r["strategy"] for r in losses if r["space"] == name}
        missing = [s for s in strategies if s not in known]
        if only not in space or not missing:
            continue
        more = measure(binary, path, [s for s in missing if s not in KERNEL_TUNER], [s for s in missing if s in KERNEL_TUNER], searches, scored)
        losses, scores = losses + more[0], scores + more[1]
        write(out + "-losses.csv", losses)
        write(out + "-scores.csv", scores)
        print(space, ", ".join(missing), flush=True)


def named_space(path):
    """Returns epbench's name for a file, which is FOLDER/NAME."""
    folder, name = path.split("/")[-2:]
    return folder + "/" + name.removesuffix(".json.gz").removesuffix("_T4")


def quantile(values, share):
    values = sorted(values)
    at = share * (len(values) - 1)
    low, high = values[int(at)], values[min(int(at) + 1, len(values) - 1)]
    return low + (high - low) * (at - int(at))


def budgets_of(losses):
    """Returns one row for each strategy and budget."""
    means = {(r["space"], r["strategy"], r["configs"]): statistics.mean(map(float, r["losses_percent"].split())) for r in losses}
    out = []
    for strategy in dict.fromkeys(r["strategy"] for r in losses):
        for configs in dict.fromkeys(r["configs"] for r in losses if r["strategy"] == strategy):
            rows = [r for r in losses if (r["strategy"], r["configs"]) == (strategy, configs)]
            every = [float(v) for r in rows for v in r["losses_percent"].split()]
            place = [sorted(v for (s, _, c), v in means.items() if (s, c) == (r["space"], configs)) for r in rows]
            own = [means[r["space"], strategy, configs] for r in rows]
            out.append({"strategy": strategy, "configs": configs, "spaces": len(rows), "mean_percent": "%.2f" % statistics.mean(own), "median_percent": "%.2f" % statistics.median(own),
                        "p95_percent": "%.2f" % quantile(every, 0.95), "worst_percent": "%.2f" % max(every),
                        "first": sum(v == p[0] for v, p in zip(own, place)), "last": sum(v == p[-1] for v, p in zip(own, place))})
    return out


def time_of(scores):
    """Returns one row for each strategy."""
    by_space = collections.defaultdict(dict)
    for r in scores:
        by_space[r["space"]][r["strategy"]] = float(r["score"])
    out = []
    for strategy in dict.fromkeys(r["strategy"] for r in scores):
        own = [r for r in scores if r["strategy"] == strategy]
        values = {r["space"]: float(r["score"]) for r in own}
        out.append({"strategy": strategy, "spaces": len(own), "score": "%.3f" % statistics.mean(values.values()), "worst_score": "%.3f" % min(values.values()),
                    "loss_percent": "%.2f" % statistics.mean(float(r["regret_percent"]) for r in own),
                    "first": sum(v == max(by_space[s].values()) for s, v in values.items()), "last": sum(v == min(by_space[s].values()) for s, v in values.items())})
    return sorted(out, key=lambda r: -float(r["score"]))


def spaces_of(scores):
    """Returns one row for each space."""
    out = []
    for space in dict.fromkeys(r["space"] for r in scores):
        rows = sorted((r for r in scores if r["space"] == space), key=lambda r: -float(r["score"]))
        place = [r["strategy"] for r in rows].index("auto")
        other = rows[0] if place else rows[1]
        out.append({**{n: rows[0][n] for n in ("space", "configs", "legal_percent", "valid_percent", "cutoff")},
                    "auto": rows[place]["score"], "place": "%d of %d" % (place + 1, len(rows)), "best_other": other["strategy"], "its_score": other["score"]})
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("what", choices=["measure", "summary"])
    p.add_argument("hub", nargs="?", help="folder of benchmark_hub")
    p.add_argument("-o", dest="out", required=True, help="beginning of the names of the files to write")
    p.add_argument("--epbench", default="epbench")
    p.add_argument("--only", default="", help="part of a space's path")
    p.add_argument("--strategy", default=",".join(OWN + KERNEL_TUNER))
    p.add_argument("--searches", type=int, default=5, help="searches for each pair of space and number of configs")
    p.add_argument("--scored", type=int, default=3, help="searches of each space for a score")
    a = p.parse_args()
    if a.what == "measure":
        record(a.epbench, a.hub, a.out, a.only, a.strategy.split(","), a.searches, a.scored)
        return
    losses, scores = read(a.out + "-losses.csv"), read(a.out + "-scores.csv")
    write(a.out + "-spaces.csv", spaces_of(scores))
    write(a.out + "-budgets.csv", budgets_of(losses))
    write(a.out + "-time.csv", time_of(scores))


if __name__ == "__main__":
    main()
