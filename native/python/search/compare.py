"""Compares epbench's search with other tuners, on search spaces in which epbench has measured every config.

    pip install -r native/python/search/requirements.txt
    make build
    python3 native/python/search/compare.py RECORDINGS [--replays 20] [--budgets 25,50,100,200,400]

RECORDINGS is a directory of files NAME.rounds.gz, which `epbench replay save` writes. For each space and budget,
epbench replays its default strategy, without configs from earlier runs as starting points. The tuners that are
compared with it are Kernel Tuner in its simulation mode and Optuna's TPE. They may search for as long as epbench's
search took. For a config Kernel Tuner gets the mean of seven samples, and TPE gets the median of three samples. All
configs may be slower in one round than in another. So this program fits one time for each config and one factor for
each round to the recorded times. All tuners see the fitted times plus noise, which is drawn from the residuals of the
fit. The program prints each tuner's mean regret in per cent: how much slower the chosen config is than the best config
of the space. It compares fitted times.
"""

import argparse
import contextlib
import gzip
import io
import json
import os
import subprocess
import tempfile

import numpy as np

KERNEL_TUNER = ["random_sample", "greedy_ils", "simulated_annealing", "genetic_algorithm", "hybrid_vndx", "adaptive_tabu_greywolf", "bayes_opt"]
KERNEL_TUNER_SAMPLES = 7
TPE_SAMPLES = 3
# If the budget allows at least this fraction of all points, the program measures every point and does not call the
# tuner. Near the end of a space, some tuners would draw points that they know already, forever.
NEARLY_ALL = 0.9


class Space:
    """A recorded search space: its configs, their fitted times in seconds, and the residuals of the fit. `pace` says
    how many seconds the measurement took for each config and for each sample."""

    def __init__(self, path):
        with gzip.open(path, "rt") as f:
            head = json.loads(f.readline())
            points = [json.loads(line) for line in f]
        self.name, self.path = os.path.basename(path).split(".")[0], path
        self.complete = len(points) >= head["search"]["legal"]
        self.pace = head["search"]["pace"]
        self.points = [p for p in points if p["status"] == "ok" and p.get("rounds")]
        self._fit()
        self._places()

    def _fit(self):
        """Splits the logarithm of each time into an effect of the config, an effect of the round and a residual. It
        uses medians, like function Polish of tune/stat."""
        item, turn, log = [], [], []
        for i, p in enumerate(self.points):
            for stretch in p["rounds"]:
                for k, v in enumerate(stretch[1:]):
                    item.append(i), turn.append(int(stretch[0]) + k), log.append(np.log(v * 1e-10))
        item, log = np.array(item), np.array(log)
        _, turn = np.unique(turn, return_inverse=True)
        anchor = next(i for i, p in enumerate(self.points) if p["role"] == "default")
        rounds = np.zeros(turn.max() + 1)
        rounds[turn[item == anchor]] = log[item == anchor]
        for _ in range(7):
            times = _medians(log - rounds[turn], item)
            rounds = _medians(log - times[item], turn)
        self.truth = np.exp(times + np.median(rounds))
        self.residuals = log - times[item] - rounds[turn]

    def _places(self):
        """Describes each point by indices: of its kernel, and of each parameter's value."""
        kernels, axes = [], {}
        for p in self.points:
            c = p["config"]
            if c["kernel"] not in kernels:
                kernels.append(c["kernel"])
            of = axes.setdefault(c["kernel"], {})
            for name, value in c["values"].items():
                of.setdefault(name, set()).add(value)
        order = {}
        for kernel, of in axes.items():
            names = sorted(of, key=lambda n: (-len(of[n]), n))
            order[kernel] = [(n, sorted(of[n], key=_number)) for n in names if len(of[n]) > 1]
        width = max(len(o) for o in order.values())
        self.tuples = []
        for p in self.points:
            c = p["config"]
            at = [values.index(c["values"][name]) for name, values in order[c["kernel"]]]
            self.tuples.append((kernels.index(c["kernel"]), *at, *([0] * (width - len(at)))))
        self.at = {t: i for i, t in enumerate(self.tuples)}
        self.own = {kernels.index(k): [(k + "." + name, len(values)) for name, values in o] for k, o in order.items()}
        self.width = width
        self.params = {"kernel": list(range(len(kernels)))}
        for k in range(width):
            self.params["p%d" % k] = sorted({t[k + 1] for t in self.tuples})

    def restriction(self):
        """Returns an expression that is true for the points that exist."""
        terms, number, radix = [], [0] * len(self.tuples), 1
        for k, (name, values) in enumerate(self.params.items()):
            terms.append("%s * %d" % (name, radix))
            number = [n + t[k] * radix for n, t in zip(number, self.tuples)]
            radix *= max(values) + 1
        return "(%s) in {%s}" % (" + ".join(terms), ", ".join(map(str, sorted(number))))

    def samples(self, rng, point, n):
        return self.truth[point] * np.exp(rng.choice(self.residuals, n))

    def regret(self, point):
        return 100 * (self.truth[point] / self.truth.min() - 1)

    def evaluations(self, seconds, samples):
        return min(len(self.points), max(2, int(seconds / max(self.pace["config"] + samples * self.pace["sample"], 1e-9))))


def _medians(values, groups):
    order = np.argsort(groups, kind="stable")
    cuts = np.flatnonzero(np.diff(groups[order])) + 1
    return np.array([np.median(part) for part in np.split(values[order], cuts)])


def _number(value):
    try:
        return (0, float(value), "")
    except (TypeError, ValueError):
        return (1, 0.0, str(value))


def ours(binary, space, budgets, replays):
    """Returns {budget: (mean regret, 95th percentile of the regret, seconds of a search)} for epbench's default
    strategy."""
    out = subprocess.run(
        [binary, "replay", space.path, "--starts", "none", "--budget", ",".join(map(str, budgets)), "--replays", str(replays), "--format", "csv"],
        check=True, capture_output=True, text=True).stdout.splitlines()
    lines = [line.split(",") for line in out if line and not line.startswith("#")]
    names = lines[0]
    found = {}
    for line in lines[1:]:
        row = dict(zip(names, line))
        if "budget" in row and row["budget"].isdigit():
            found[int(row["budget"])] = (float(row["regret_percent"]), float(row["p95_percent"]), float(row["wall_s"]))
    return found


def everything(space, rng, samples, middle):
    """Measures every point with `samples` samples, and returns the fastest."""
    return int(np.argmin([middle(space.samples(rng, i, samples)) for i in range(len(space.points))]))


def tpe(space, rng, evaluations):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    seen = {}

    def objective(trial):
        kernel = trial.suggest_categorical("kernel", space.params["kernel"])
        places = [trial.suggest_int(name, 0, n - 1) for name, n in space.own[kernel]]
        point = space.at.get((kernel, *places, *([0] * (space.width - len(places)))))
        if point is None:
            raise optuna.TrialPruned()
        if point not in seen:
            seen[point] = float(np.median(space.samples(rng, point, TPE_SAMPLES)))
        return seen[point]

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=int(rng.integers(1 << 31))))
    for _ in range(8 * evaluations):  # absent and repeated points do not count, so allow more trials
        if len(seen) >= evaluations:
            break
        study.optimize(objective, n_trials=1)
    return min(seen, key=seen.get)


def kernel_tuner(space, rng, evaluations, strategy):
    from kernel_tuner import tune_kernel

    noisy = {t: float(np.mean(space.samples(rng, i, KERNEL_TUNER_SAMPLES))) * 1e3 for t, i in space.at.items()}
    names = list(space.params)
    cache = {"device_name": "recorded", "kernel_name": "k", "problem_size": 1, "tune_params_keys": names, "tune_params": space.params, "objective": "time", "cache": {}}
    for t, ms in noisy.items():
        entry = dict(zip(names, t))
        entry.update(time=ms, times=[ms], compile_time=0, verification_time=0, benchmark_time=0, strategy_time=0, framework_time=0, timestamp="2026-01-01T00:00:00+00:00")
        cache["cache"][",".join(map(str, t))] = entry
    np.random.seed(int(rng.integers(1 << 31)))
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f, contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        json.dump(cache, f)
        f.flush()
        results, _ = tune_kernel(
            "k", "__global__ void k() {}", 1, [np.zeros(1)], space.params, lang="CUDA", restrictions=[space.restriction()],
            strategy=strategy, strategy_options={"max_fevals": min(evaluations, len(space.tuples))}, simulation_mode=True, cache=f.name, verbose=False)
    found = [r for r in results if isinstance(r.get("time"), float)]
    best = min(found, key=lambda r: r["time"])
    return space.at[tuple(best[n] for n in names)]


def main():
    parse = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parse.add_argument("recordings")
    parse.add_argument("--epbench", default="bin/epbench")
    parse.add_argument("--budgets", default="25,50,100,200,400")
    parse.add_argument("--replays", type=int, default=20)
    parse.add_argument("--strategies", default=",".join(KERNEL_TUNER + ["tpe"]))
    parse.add_argument("--json", help="write every figure to this file")
    args = parse.parse_args()
    budgets = [int(b) for b in args.budgets.split(",")]
    strategies = args.strategies.split(",")
    spaces = [Space(os.path.join(args.recordings, f)) for f in sorted(os.listdir(args.recordings)) if f.endswith(".rounds.gz")]
    spaces = [s for s in spaces if s.complete]
    figures = []
    for space in spaces:
        mine = ours(args.epbench, space, budgets, args.replays)
        for b in budgets:
            if b not in mine:
                continue
            regret, _, seconds = mine[b]
            figures.append((space.name, b, "epbench", regret))
            for s in strategies:
                samples = TPE_SAMPLES if s == "tpe" else KERNEL_TUNER_SAMPLES
                n, got = space.evaluations(seconds, samples), []
                for replay in range(args.replays):
                    rng = np.random.default_rng([b, replay])
                    try:
                        if n >= NEARLY_ALL * len(space.points):
                            chosen = everything(space, rng, samples, np.median if s == "tpe" else np.mean)
                        else:
                            chosen = tpe(space, rng, n) if s == "tpe" else kernel_tuner(space, rng, n, s)
                        got.append(space.regret(chosen))
                    except Exception as e:
                        print("# %s at %d on %s: %s" % (s, b, space.name, repr(e)[:200]), flush=True)
                        break
                if got:
                    figures.append((space.name, b, s, float(np.mean(got))))
            print("# %s %d done" % (space.name, b), flush=True)
            if args.json:  # written now, because the program may be interrupted later
                with open(args.json, "w") as f:
                    json.dump(figures, f)
    print("| strategy | " + " | ".join("%d" % b for b in budgets) + " |\n| --- |" + " ---: |" * len(budgets))
    for s in ["epbench"] + strategies:
        cells = []
        for b in budgets:
            of = [r for _, at, name, r in figures if at == b and name == s]
            cells.append("%.2f" % np.mean(of) if len(of) == len(spaces) else "–")
        print("| %s | %s |" % (s, " | ".join(cells)))


if __name__ == "__main__":
    main()
