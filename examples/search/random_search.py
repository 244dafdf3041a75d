"""A strategy of one's own for epbench: random search.

    epbench replay --synthetic --strategy "exec:python3 examples/search/random_search.py" --budget 50

epbench starts this program for every search. It writes one line about the space to our standard
input, and one line of results for each line that we write. docs/search-own.md has the fields.
"""

import json
import random
import sys


def config(rng, kernel):
    """Draws one config of a kernel, legal or not. epbench says which configs are not."""
    return {"kernel": kernel["name"], "values": {p["name"]: rng.choice(p["values"]) for p in kernel["parameters"]}}


def main():
    space = json.loads(sys.stdin.readline())
    rng = random.Random(space["seed"])
    left, idle = space["left"], 0
    while left > 0 and idle < 50:  # with few configs left, nearly every draw is known
        print(json.dumps({"ask": [config(rng, rng.choice(space["kernels"])) for _ in range(8)]}), flush=True)
        answer = json.loads(sys.stdin.readline())
        idle = idle + 1 if answer["left"] == left else 0
        left = answer["left"]
    print(json.dumps({"done": True}), flush=True)


if __name__ == "__main__":
    main()
