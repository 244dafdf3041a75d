"""A serving process in Python that uses a tuned table.

    epbench sweep -o run
    epbench table export --table run --format python -o tuned.py
    PYTHONPATH=. python3 examples/runtime-python/main.py model.pack

Without a pack, run main.py MACHINE_KEY ABI with the two values that `epbench machine` prints.
"""

import sys

import tuned

# The preset demo on four ranks.
PROBLEM = dict(op="dispatch", mode="eager", ranks=4, nodes=1, hidden=512, experts=32, top_k=4,
               dispatch="bf16", combine="bf16", shared_expert=False, skip_a2a=False)

EVEN = [100] * 32
HOT = [900 if e < 8 else 20 for e in range(32)]
SKEWED = [600 if e % 4 == 0 else 60 for e in range(32)]


def here(pack):
    import epcomm

    with open(pack, "rb") as f:
        abi = epcomm.check_pack(f.read()).kernels.decode()
    return epcomm.machine().key.decode(), abi


def main(*where):
    machine_key, abi = where if len(where) == 2 else here(*where)
    why = tuned.refusal(machine_key, abi)
    if why:
        print("the table is refused, everything is default:", why)
        return
    resolved = tuned.resolve(PROBLEM, max_tokens=4096)
    for tokens, counts in ((1, EVEN), (16, EVEN), (16, SKEWED), (64, HOT), (4000, EVEN)):
        routing = tuned.classify(counts, PROBLEM["ranks"])
        answer = resolved.lookup(tokens, routing)
        print("%d tokens, %s: %s (%s)" % (tokens, routing, answer.config.key, answer.reason))


if __name__ == "__main__":
    main(*sys.argv[1:])
