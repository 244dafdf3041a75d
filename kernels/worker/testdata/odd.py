"""A worker that answers oddly; EPBENCH_TEST_ODD says in which way. It answers over pipes, or over a socket
as the only rank of a launched command."""

import json
import os
import socket
import sys

ODD = os.environ["EPBENCH_TEST_ODD"]
PARAM = {"name": "p", "doc": "", "unit": "", "values": [1, 2], "default": 1, "binding": "launch", "class": "speed", "cost": 0}
KERNEL = {"name": "odd", "op": "dispatch", "doc": "", "params": [PARAM]}
MACHINE = {"backend": "odd", "name": "", "pci_id": "", "arch": "x", "sms": 1, "memory_bytes": 0, "gpus": 0, "link": "", "driver": "", "cuda": ""}
RESULTS = {"hello": {"protocol": 2, "worker": "odd 1", "abi": "odd", "machine": MACHINE, "kernels": [KERNEL]}, "open": {"session": 1}}


def joined():
    """The connection of rank 0."""
    host, _, port = os.environ["EPBENCH_ADDRESS"].rpartition(":")
    line = socket.create_connection((host, int(port))).makefile("rw")
    line.write(json.dumps({"token": os.environ["EPBENCH_TOKEN"], "rank": 0, "ranks": 1, "host": "h", "pid": os.getpid()}) + "\n")
    line.flush()
    line.readline()
    return line, line


def result(method, params):
    if method == "run" and ODD == "malformed":
        return "as fast as ever"
    if method == "run":
        return {"clock": "wall", "fold": params["fold"], "seconds": [[1e-6, 1e-6]] * params["rounds"]}
    return RESULTS.get(method, {})


requests, answers = joined() if "EPBENCH_ADDRESS" in os.environ else (sys.stdin, sys.stdout)
if ODD == "log":
    for line in ('{"level": "info", "id": 1}', "{}", '{"request": {"jsonrpc": "2.0", "id": 1}}'):
        print(line, flush=True)
for line in iter(requests.readline, ""):
    request = json.loads(line)
    if request["method"] == "run" and ODD == "glued":
        answers.write("loading... {} of 2 ")
    if request["method"] == "run" and ODD == "garbage":
        answers.write("Segmentation fault\n")
    answers.write(json.dumps({"id": request["id"], "result": result(request["method"], request.get("params")), "jsonrpc": "2.0"}) + "\n")
    answers.flush()
