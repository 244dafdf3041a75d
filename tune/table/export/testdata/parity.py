"""Answers queries from standard input with the exported module; see parity.c."""

import sys

import tuned

NAMED = {"op": tuned.OPS, "mode": tuned.MODES, "dispatch": tuned.DTYPES, "combine": tuned.DTYPES,
         "precision": tuned.PRECISIONS, "objective": tuned.OBJECTIVES, "layout": tuned.LAYOUTS}
REASONS = (tuned.EXACT, tuned.FALLBACK, tuned.KEPT, tuned.UNCOVERED, tuned.REFUSED)


def parity(words):
    problem = {}
    while True:
        for field in (f for f in tuned.FIELDS if f != "routing"):
            n = next(words, None)
            if n is None:
                return
            problem[field] = NAMED[field][int(n)] if field in NAMED else int(n)
        resolved = tuned.resolve(problem, 4096)
        for tokens in iter(lambda: int(next(words)), -1):
            routing = tuned.ROUTINGS[int(next(words))]
            a = tuned.search(problem, tokens, routing) if tokens % 16 == 0 or tokens > 4096 else resolved.lookup(tokens, routing)
            if tokens <= 4096 and resolved.lookup(tokens, routing) != a:
                sys.exit("resolved and direct look-up differ at %d tokens, %s" % (tokens, routing))
            differs = sum(1 << tuned.FIELDS.index(f) for f in a.differs)
            print(a.config.key, REASONS.index(a.reason), a.row, differs)


def classify(words):
    for experts in words:
        ranks = int(next(words))
        counts = [int(next(words)) for _ in range(int(experts))]
        print(tuned.ROUTINGS.index(tuned.classify(counts, ranks)))


{"parity": parity, "classify": classify}[sys.argv[1]](iter(sys.stdin.read().split()))
