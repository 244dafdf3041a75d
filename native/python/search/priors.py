"""Measures how much the priors of the strategy `bayes` help, even in spaces that had no part in choosing the priors.

    python3 native/python/search/priors.py measure testdata/truth/h100x2-whole -o testdata/archive/priors-2026-11-28.csv
    python3 native/python/search/priors.py summary testdata/archive/priors-2026-11-28.csv -o testdata/archive/priors-2026-11-28-summary.csv

`measure` searches every space with `bayes` under several settings of its priors, and writes the mean loss of each
space, setting and budget. `summary` compares three choices. "usual priors" are epbench's priors, which were chosen on
these spaces. "leave one space out" chooses a setting for each space: the best on
average over the other spaces. "no priors" searches without priors.
"""

import argparse
import collections
import csv
import statistics
import subprocess

USUAL, NONE = "strength=1", "strength=0"
SETTINGS = [USUAL, NONE, "strength=0.5", "strength=2", "roughness=0.03", "roughness=0.3", "switches=0.1", "switches=0.3", "nugget=0.1", "level=0.2", "level=0.8", "params=0.25", "params=0.75"]
BUDGETS = (25, 50)
SEED = 59


def measure(binary, recordings, searches):
    """Returns one row for each space, setting and budget."""
    strategies = ",".join("bayes:" + s for s in SETTINGS)
    out = subprocess.run(
        [binary, "replay", recordings, "--starts", "none", "--strategy", strategies, "--budget", ",".join(map(str, BUDGETS)),
         "--replays", str(searches), "--seed", str(SEED), "--each", "--format", "csv"], check=True, stdout=subprocess.PIPE, text=True).stdout
    losses = collections.defaultdict(list)
    for row in csv.DictReader(line for line in out.splitlines() if line and not line.startswith("#")):
        losses[row["space"], row["strategy"].removeprefix("bayes:"), row["budget"]].append(float(row["regret_percent"]))
    return [
        {"space": space, "setting": setting, "budget": budget, "searches": len(values), "loss_percent": round(statistics.mean(values), 4)}
        for (space, setting, budget), values in sorted(losses.items())]


def left_out(losses, spaces):
    """Returns for each space the setting with the smallest mean loss in all spaces but this one. `losses` is {(space,
    setting): loss}."""
    settings = list(dict.fromkeys(setting for _, setting in losses))
    return {space: min(settings, key=lambda s: statistics.mean(losses[o, s] for o in spaces if o != space)) for space in spaces}


def summary(rows):
    """Returns one row for each choice of priors and budget."""
    out = []
    for budget in dict.fromkeys(r["budget"] for r in rows):
        losses = {(r["space"], r["setting"]): float(r["loss_percent"]) for r in rows if r["budget"] == budget}
        spaces = list(dict.fromkeys(space for space, _ in losses))
        chosen = left_out(losses, spaces)
        for name, pick in (("usual priors", lambda s: USUAL), ("leave one space out", chosen.get), ("no priors", lambda s: NONE)):
            values = [losses[s, pick(s)] for s in spaces]
            settings = collections.Counter(pick(s) for s in spaces).most_common()
            out.append({"priors": name, "configs": budget, "spaces": len(spaces), "loss_percent": round(statistics.mean(values), 3),
                        "worst_space_percent": round(max(values), 3), "settings": ", ".join("%s in %d" % s for s in settings)})
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("what", choices=["measure", "summary"])
    p.add_argument("source")
    p.add_argument("-o", dest="out", required=True)
    p.add_argument("--epbench", default="epbench")
    p.add_argument("--searches", type=int, default=240)
    a = p.parse_args()
    if a.what == "measure":
        rows = measure(a.epbench, a.source, a.searches)
    else:
        with open(a.source, newline="") as f:
            rows = summary(list(csv.DictReader(f)))
    with open(a.out, "w", newline="") as f:
        out = csv.DictWriter(f, list(rows[0]), lineterminator="\n")
        out.writeheader()
        out.writerows(rows)


if __name__ == "__main__":
    main()
