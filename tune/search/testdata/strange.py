"""An external strategy that misbehaves in the way that its argument names."""

import json
import subprocess
import sys
import time

how = sys.argv[1]
if how in ("child", "orphan"):
    subprocess.Popen(["sleep", "600"])
if how == "orphan":
    sys.exit(0)
space = json.loads(sys.stdin.readline())
if how == "die":
    print("no luck today", file=sys.stderr)
    sys.exit(3)
if how == "hang":
    time.sleep(600)
if how == "nonsense":
    print("hello", flush=True)
if how == "field":
    print(json.dumps({"ask": [], "answer": 42}), flush=True)
if how == "illegal":
    for _ in range(1000):
        print(json.dumps({"ask": [{"kernel": "none", "values": {}}]}), flush=True)
        if not sys.stdin.readline():
            break
if how == "deaf":
    asked = json.dumps({"ask": [{"kernel": "none", "values": {}}] * 1000})
    for _ in range(1000):
        print(asked, flush=True)
if how == "long":
    print("x" * (2 << 20), flush=True)
time.sleep(600)
