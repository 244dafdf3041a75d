"""Lets the strategies of Kernel Tuner choose the configs of epbench's searches.

    pip install -r native/python/search/requirements.txt
    python3 native/python/search/kernel_tuner_strategy.py serve SPACE SOCKET &
    epbench replay SPACE --strategy "exec:python3 native/python/search/kernel_tuner_strategy.py ask SOCKET pso" --budget 50

SPACE is a file with a measured space: a T4 file, a cache file of Kernel Tuner, or a recording of epbench
(NAME.rounds.gz). docs/search-own.md describes how epbench and a strategy talk.

If a strategy ends before the budget is spent, this program starts the strategy again. A space may have several
kernels. Then "pso" tunes all kernels at once, and the kernel is a parameter like any other. "each:pso" tunes one
kernel after another, and each kernel gets the same share of the budget.
"""

import contextlib
import gzip
import importlib
import json
import os
import random
import select
import signal
import socket
import sys

# Largest number of configs in one request to epbench. epbench measures the configs of a request in the same rounds.
CONFIGS_PER_ASK = 8
# Limit of a search's processor time in seconds. Some strategies never end when most configs are known.
LONGEST_SEARCH = 40
# A search ends after this many evaluations of known configs in a row.
MOST_REPEATS = 5000
# The result for a config that failed. For any other config, the result is its time divided by the default's time.
FAILED = float("inf")


def scalar(value):
    """Converts a text to a number or a truth value if possible. Returns all other values unchanged."""
    if not isinstance(value, str):
        return value
    if value in ("true", "false"):
        return value == "true"
    for convert in (int, float):
        with contextlib.suppress(ValueError):
            return convert(value)
    return value


def configs_of(path):
    """Returns a file's legal configs as (kernel, {parameter: value})."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as f:
        if path.endswith(".rounds.gz"):
            f.readline()
            rows = [json.loads(line)["config"] for line in f]
            return [(r["kernel"], {k: scalar(v) for k, v in r["values"].items()}) for r in rows]
        space = json.load(f)
    if "results" in space:
        return [("kernel", r["configuration"]) for r in space["results"] if r["invalidity"] != "constraints"]
    names = space["tune_params_keys"]
    rows = [r for r in space["cache"].values() if r["time"] != "InvalidConfig"]
    return [(space["kernel_name"], {n: r[n] for n in names}) for r in rows]


def flat(configs):
    """Returns the configs as dicts with the same keys: "kernel" and the parameters of all kernels. A parameter that a
    config lacks gets the first value found in any config."""
    first = {"kernel": None}
    for _, values in configs:
        for name, value in values.items():
            first.setdefault(name, value)
    return [{**first, **values, "kernel": kernel} for kernel, values in configs]


class Part:
    """The configs among which one run of a strategy searches: those of one kernel, or of all kernels."""

    def __init__(self, configs, kernels):
        from kernel_tuner.searchspace import Searchspace

        names = list(configs[0])
        self.kernel_of = {tuple(c[n] for n in names): k for c, k in zip(configs, kernels)}
        self.params = {n: sorted({c[n] for c in configs}, key=lambda v: (isinstance(v, str), v)) for n in names}
        self.space = Searchspace(None, None, None, from_cache={"tune_params": self.params, "cache": dict(enumerate(configs))})


def parts_of(path):
    """Returns a dict of two lists. Under "" it has one Part with all kernels, and under "each" it has a Part for each
    kernel."""
    configs = configs_of(path)
    kernels = list(dict.fromkeys(k for k, _ in configs))
    each = [Part([v for k, v in configs if k == kernel], [kernel] * len(configs)) for kernel in kernels]
    if len(kernels) == 1:
        return {"": each, "each": each}
    return {"": [Part(flat(configs), [k for k, _ in configs])], "each": each}


class Epbench:
    """Asks epbench for measurements and keeps the results. `left` is the number of configs that the budget still
    allows."""

    def __init__(self, lines, out, first):
        self.lines, self.out, self.left = lines, out, first["left"]
        self.texts = {k["name"]: {p["name"]: {scalar(t): t for t in p["values"]} for p in k["parameters"]} for k in first["kernels"]}
        self.known, self.repeats = {}, 0
        for result in first["results"]:
            c = result["config"]
            self.known[c["kernel"], tuple(c["values"][name] for name in self.texts[c["kernel"]])] = result.get("ratio", FAILED)

    def ratios(self, part, points):
        """Returns for each point its time divided by the default's time. The value is FAILED if the config failed,
        and None if the budget was spent before."""
        keys = [self._key(part, p) for p in points]
        fresh = [k for k in dict.fromkeys(keys) if k not in self.known]
        self.repeats = 0 if fresh else self.repeats + len(points)
        for at in range(0, len(fresh), CONFIGS_PER_ASK):
            if self.left <= 0:
                break
            self._measure(fresh[at : at + CONFIGS_PER_ASK])
        return [self.known.get(k) for k in keys]

    def _key(self, part, point):
        kernel, values = part.kernel_of[point], dict(zip(part.params, point))
        return kernel, tuple(text[values[name]] for name, text in self.texts[kernel].items())

    def _measure(self, keys):
        asked = [{"kernel": k, "values": dict(zip(self.texts[k], v))} for k, v in keys[: self.left]]
        self.out.write(json.dumps({"ask": asked}) + "\n")
        self.out.flush()
        answer = json.loads(self.lines.readline())
        self.left = answer["left"]
        for key, result in zip(keys, answer["results"]):
            if result.get("error") != "the budget is spent":
                self.known[key] = result.get("ratio", FAILED)


def runner_of(epbench, part):
    from kernel_tuner.runners.runner import Runner
    from kernel_tuner.runners.simulation import SimulationDevice
    from kernel_tuner.util import RuntimeFailedConfig

    class EpbenchRunner(Runner):
        """Asks epbench to measure configs. Like Kernel Tuner's simulation runner, it counts a config only once
        against the budget."""

        def __init__(self):
            super().__init__()
            self.dev = SimulationDevice(1_000_000_000, {"device_name": "epbench"}, True)
            self.counted = set()

        def get_device_info(self):
            return self.dev

        def get_environment(self, tuning_options):
            return {}

        def run(self, parameter_space, tuning_options):
            budget, points = tuning_options.budget, []
            for point in map(tuple, parameter_space):
                if budget.is_done() or epbench.left <= 0 or epbench.repeats > MOST_REPEATS:
                    break
                if point not in self.counted:
                    self.counted.add(point)
                    budget.add_evaluations(1)
                points.append(point)
            results = []
            for point, ratio in zip(points, epbench.ratios(part, points)):
                failed = {"__error__": RuntimeFailedConfig()} if ratio == FAILED else {}
                results.append(None if ratio is None else {**dict(zip(part.params, point)), "time": ratio, **failed})
            return results + [None] * (len(parameter_space) - len(points))

    return EpbenchRunner()


def tune(epbench, part, strategy, evaluations):
    """Runs a strategy until it has measured `evaluations` new configs, or until it ends."""
    from kernel_tuner.interface import Options, strategy_map
    from kernel_tuner.util import StopCriterionReached, TuningBudget

    evaluations = min(evaluations, part.space.size)
    options = Options(
        strategy_options=Options(max_fevals=evaluations), max_fevals=evaluations, budget=TuningBudget(None, evaluations),
        tune_params=part.params, restrictions=[], cache={}, metrics=None, verbose=False, snap=True,
        objective=["time"], objective_higher_is_better=[False], simulated_time=0)
    with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(StopCriterionReached):
        strategy_map[strategy].tune(part.space, runner_of(epbench, part), options)


class Late(Exception):
    pass


def search(parts, lines, out, strategy, expected):
    """Runs one search. If time bounds the search, `expected` estimates how many configs the search can measure.
    Otherwise `expected` is 0."""
    import numpy as np

    first = json.loads(lines.readline())
    random.seed(first["seed"])
    np.random.seed(first["seed"] % 2**32)
    epbench = Epbench(lines, out, first)
    each, _, name = strategy.rpartition(":")
    goal = min(epbench.left, expected or epbench.left)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_SEARCH)
    while epbench.left > 0:
        before, end = len(epbench.known), len(epbench.known) + min(goal, epbench.left)
        for k, part in enumerate(parts[each]):
            if (share := (end - len(epbench.known)) // (len(parts[each]) - k)) > 0:
                tune(epbench, part, name, share)
        goal -= len(epbench.known) - before
        if goal <= 0:  # the search may measure more configs than expected
            goal = expected
        if len(epbench.known) == before:
            break
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def serve(path, address):
    """Waits for connections of `ask`, and runs a search for each. All searches are in one space. It ends when its
    standard input is closed."""
    import kernel_tuner.interface  # noqa: F401, so that no search has to load it

    for name in ("bayes_opt", "pso"):
        importlib.import_module("kernel_tuner.strategies." + name)
    parts = parts_of(path)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(address)
        s.listen(8)
        print("ready", flush=True)
        while sys.stdin not in (ready := select.select([s, sys.stdin], [], [])[0]):
            connection, _ = s.accept()
            if os.fork() == 0:
                s.close()
                answer(parts, connection)
                os._exit(0)
            connection.close()


def answer(parts, connection):
    def late(*_):
        raise Late

    signal.signal(signal.SIGVTALRM, late)
    lines, out = connection.makefile("r"), connection.makefile("w")
    strategy, expected = json.loads(lines.readline())
    try:
        search(parts, lines, out, strategy, expected)
    except Late:
        pass
    except Exception as e:  # noqa: BLE001, a strategy that fails must not look like one that ended
        out.write(json.dumps({"failed": repr(e)}) + "\n")
        out.flush()
        raise
    out.write('{"done": true}\n')
    out.flush()


def ask(address, strategy, expected):
    """Passes standard input on to the server, and the server's answers to standard output."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(address)
        s.sendall((json.dumps([strategy, expected]) + "\n").encode())
        ways = {0: s.fileno(), s.fileno(): 1}
        while True:
            for end in select.select(list(ways), [], [])[0]:
                data = os.read(end, 1 << 16)
                if not data:
                    return
                while data:
                    data = data[os.write(ways[end], data) :]


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    else:
        ask(sys.argv[2], sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 0)
