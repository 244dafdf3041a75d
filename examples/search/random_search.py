"""A search strategy for epbench: random search.

    epbench replay --synthetic --strategy "exec:python3 examples/search/random_search.py" --budget 50

docs/search-own.md explains the lines that this program reads and writes.
"""

import json
import random
import sys


def config(rng, kernel):
    """Draws one config of a kernel. The config may be illegal."""
    return {"kernel": kernel["name"], "values": {p["name"]: rng.choice(p["values"]) for p in kernel["parameters"]}}


def main():
    space = json.loads(sys.stdin.readline())
    rng = random.Random(space["seed"])
    left, idle = space["left"], 0
    while left > 0 and idle < 50:  # stop if 50 answers in a row had no new config
        print(json.dumps({"ask": [config(rng, rng.choice(space["kernels"])) for _ in range(8)]}), flush=True)
        answer = json.loads(sys.stdin.readline())
        idle = idle + 1 if answer["left"] == left else 0
        left = answer["left"]
    print(json.dumps({"done": True}), flush=True)


if __name__ == "__main__":
    main()
