"""`python test_records.py TESTDATA` checks the package on the recorded runs in the folder TESTDATA."""

import dataclasses
import json
import os
import sys
import unittest
import warnings

import epbench

DATA = sys.argv.pop()


class Records(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("error", epbench.EpbenchWarning)

    def test_run(self):
        run = epbench.load_run(os.path.join(DATA, "runs", "h200x2-deepseek-v3"))
        self.assertEqual(run.machine["name"], "NVIDIA H200")
        self.assertEqual(len(run.winners), len(run.info["searches"]))
        won = run.winners.where(op="pair", routing="zipf:1.0", tokens=4096, precision="reduced")
        self.assertEqual([(w.verdict, w.more["class"]) for w in won], [("faster", "concentrated")])
        self.assertLess(won[0].low_x, won[0].gain_x)
        self.assertIn("regret", run.tables)
        with self.assertRaisesRegex(KeyError, "this run has winners, effects"):
            run.table("regrets")

    def test_trials_hold_every_line(self):
        path = os.path.join(DATA, "runs", "h200x2-deepseek-v3")
        trials = list(epbench.load_run(path).trials())
        with open(os.path.join(path, "trials.jsonl"), encoding="utf-8") as lines:
            self.assertEqual(len(trials), sum(1 for _ in lines))
        self.assertEqual({len(ranks) for t in trials for ranks in t.seconds}, {2})
        self.assertTrue(all(t.seconds == [] for t in trials if t.status != "ok"))

    def test_table_and_lookup_agree(self):
        rows = epbench.load_table("h200x4").rows
        self.assertGreater(len(rows), 1000)
        answer = epbench.lookup("h200x4", model="deepseek-v3", op="pair", dtype="bf16", tokens=128, routing="even")[0]
        row = rows.where(op="pair", dtype="bf16", hidden=7168, routing="even", experts=256, extras="")
        # Compares gains and not configs, because an older build may have spelled the row's config differently.
        self.assertIn((answer.gain_x, answer.low_x, answer.high_x), {(r.gain_x, r.low_x, r.high_x) for r in row})
        self.assertEqual(answer.reason, "exact")

    def test_replay(self):
        r = epbench.replay(os.path.join(DATA, "runs", "cpu-sweep"), budget=[10, "all"], replays=5)
        self.assertEqual([x.strategy for x in r], ["auto", "auto"])
        self.assertTrue(all(0 <= x.regret_percent <= x.worst_percent for x in r))

    def test_failure_is_an_exception_with_the_exit_code(self):
        with self.assertRaisesRegex(epbench.EpbenchError, "is not a run directory") as e:
            epbench.load_run("/nowhere")
        self.assertEqual(e.exception.code, 2)
        with self.assertRaisesRegex(epbench.EpbenchError, "did you mean deepseek-v"):
            epbench.lookup("h200x4", model="deepseek-v9")

    def test_warnings_of_the_program_become_warnings(self):
        with self.assertWarnsRegex(epbench.EpbenchWarning, "says nothing about GPUs"):
            epbench.load_table(os.path.join(DATA, "runs", "cpu-sweep"))

    def test_a_program_of_another_version_is_refused(self):
        with self.assertRaisesRegex(ValueError, r"answers\[0\]: no 'op'"):
            epbench.records.rows(epbench.Answer, {"name": "answers", "title": "", "rows": [{}]})
        bad = {"name": "x", "title": "", "rows": [dict.fromkeys(epbench.Answer.__dataclass_fields__, 1.5)]}
        with self.assertRaisesRegex(TypeError, "op is 1.5, which is not str"):
            epbench.records.rows(epbench.Answer, bad)

    def test_fields_are_promised(self):
        with open(os.path.join(DATA, "..", "docs", "schema", "output.v1.json"), encoding="utf-8") as f:
            definitions = json.load(f)["$defs"]
        for name, kind in (("report winners", epbench.Winner), ("table show tables", epbench.TableInfo), ("replay replay", epbench.Replay),
                           ("table show rows", epbench.TableRow), ("table lookup answers", epbench.Answer)):
            fields = {f.name for f in dataclasses.fields(kind)} - {"more"}
            self.assertLessEqual(fields, set(definitions[name]["required"]), name)

    def test_rows_show_as_a_table(self):
        rows = epbench.load_table("h200x2").rows[:2]
        self.assertEqual(rows._repr_html_().count("<tr>"), 3)
        self.assertEqual(len(rows.as_dicts()), 2)
        self.assertIn("source", rows.as_dicts()[0])
        odd = epbench.Rows([epbench.Row(more={"name": "<b>"})])
        self.assertIn("&lt;b&gt;", odd._repr_html_())


if __name__ == "__main__":
    unittest.main()
