"""Tests kernel_tuner_strategy.py, hub.py and priors.py: python3 native/python/search/test_search.py"""

import gzip
import importlib.util
import io
import json
import os
import tempfile
import unittest

import hub
import kernel_tuner_strategy as bridge
import priors

T4 = os.path.join(os.path.dirname(__file__), "../../../tune/search/exchange/testdata/pnpoly-RTX_3090_T4.json")


class Program:
    """Answers requests like epbench. It has one kernel and a budget of `left` configs."""

    def __init__(self, left):
        self.left, self.asked, self.line = left, [], ""

    def write(self, text):
        results = []
        for config in json.loads(text)["ask"]:
            a, b = int(config["values"]["a"]), int(config["values"]["b"])
            self.asked.append((a, b))
            self.left -= 1
            results.append({"config": config, "error": "the config failed"} if b == 9 else {"config": config, "ratio": 1 + abs(a - 3) + abs(b - 2)})
        self.line = json.dumps({"results": results, "left": self.left})

    def flush(self):
        pass

    def readline(self):
        return self.line


def first_line(left):
    values = [str(i) for i in range(10)]
    known = {"config": {"kernel": "k", "values": {"a": "0", "b": "0"}}, "ratio": 1.0}
    return {"seed": 7, "left": left, "kernels": [{"name": "k", "parameters": [{"name": "a", "values": values}, {"name": "b", "values": values}]}], "results": [known]}


class OnePart:
    params = {"a": list(range(10)), "b": list(range(10))}
    kernel_of = {(a, b): "k" for a in range(10) for b in range(10)}


class Asking(unittest.TestCase):
    def test_asks_once(self):
        program = Program(20)
        e = bridge.Epbench(program, program, first_line(20))
        self.assertEqual(e.ratios(OnePart, [(0, 0), (3, 2), (3, 2), (1, 9)]), [1.0, 1, 1, bridge.FAILED])
        self.assertEqual(program.asked, [(3, 2), (1, 9)])
        self.assertEqual(e.ratios(OnePart, [(1, 9), (3, 2)]), [bridge.FAILED, 1])
        self.assertEqual((len(program.asked), e.left, e.repeats), (2, 18, 2))

    def test_stops_at_the_budget(self):
        program = Program(10)
        e = bridge.Epbench(program, program, first_line(10))
        ratios = e.ratios(OnePart, [(a, 1) for a in range(10)] + [(9, 8), (9, 7)])
        self.assertEqual((len(program.asked), e.left), (10, 0))
        self.assertEqual([r is None for r in ratios], [False] * 10 + [True] * 2)


class Files(unittest.TestCase):
    def test_t4(self):
        configs = bridge.configs_of(T4)
        self.assertEqual(len(configs), 74)
        self.assertTrue(0 < hub.share_legal(T4) <= 1)
        self.assertEqual(hub.named_space("x/convolution_milo/A100_T4.json.gz"), "convolution_milo/A100")

    def test_recording_of_two_kernels(self):
        rows = [{"config": {"kernel": "k", "values": {"a": "2", "mode": "fused"}}}, {"config": {"kernel": "l", "values": {"a": "4", "pdl": "true"}}}]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.rounds.gz")
            with gzip.open(path, "wt") as f:
                f.write("\n".join(json.dumps(r) for r in [{}] + rows))
            configs = bridge.configs_of(path)
        self.assertEqual(configs, [("k", {"a": 2, "mode": "fused"}), ("l", {"a": 4, "pdl": True})])
        self.assertEqual(bridge.flat(configs), [{"kernel": "k", "a": 2, "mode": "fused", "pdl": True}, {"kernel": "l", "a": 4, "mode": "fused", "pdl": True}])


@unittest.skipUnless(importlib.util.find_spec("kernel_tuner"), "kernel_tuner is not installed")
class KernelTuner(unittest.TestCase):
    def test_strategies_spend_their_budget(self):
        part = bridge.Part([{"a": a, "b": b} for a in range(10) for b in range(10)], ["k"] * 100)
        for strategy in ("random_sample", "genetic_algorithm", "pso", "greedy_ils"):
            program = Program(30)
            lines = io.StringIO(json.dumps(first_line(30)) + "\n")
            lines.readline, first = program.readline, lines.readline
            program.readline = lambda: first() if not program.line else program.line
            bridge.search({"": [part]}, program, program, strategy, 0)
            self.assertEqual(len(set(program.asked)), len(program.asked), strategy)
            self.assertIn(program.left, (0, 1), strategy)


class Tables(unittest.TestCase):
    def test_left_out(self):
        losses = {("x", "u"): 1, ("y", "u"): 1, ("z", "u"): 9, ("x", "v"): 5, ("y", "v"): 2, ("z", "v"): 2}
        self.assertEqual(priors.left_out(losses, "xyz"), {"x": "v", "y": "v", "z": "u"})

    def test_places(self):
        rows = [{"space": s, "strategy": t, "configs": "25", "losses_percent": l} for s, t, l in (("x", "auto", "1 3"), ("x", "pso", "4 4"), ("y", "auto", "9 9"), ("y", "pso", "0 2"))]
        auto, pso = hub.budgets_of(rows)
        self.assertEqual((auto["mean_percent"], auto["worst_percent"], auto["first"], auto["last"]), ("5.50", "9.00", 1, 1))
        self.assertEqual((pso["mean_percent"], pso["p95_percent"], pso["first"], pso["last"]), ("2.50", "4.00", 1, 1))

    def test_scores(self):
        rows = [{"space": s, "strategy": t, "score": v, "regret_percent": "1"} for s, t, v in (("x", "auto", "0.5"), ("x", "pso", "0.1"), ("y", "auto", "0.7"), ("y", "pso", "0.8"))]
        auto, pso = hub.time_of(rows)
        self.assertEqual((auto["strategy"], auto["score"], auto["worst_score"], auto["first"], auto["last"]), ("auto", "0.600", "0.500", 1, 1))
        self.assertEqual((pso["score"], pso["last"]), ("0.450", 1))


if __name__ == "__main__":
    unittest.main()
