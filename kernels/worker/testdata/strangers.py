"""Foreign programs connect to rank 0 before rank 1 does: one speaks HTTP, one is silent, one has
another token, and a crowd comes and goes. This program plays rank 0, and epbench for both ranks. At first no thread can be
started. A crowd comes a second time, when rank 1 has just sent its proof. At last rank 1 gets a line that is not JSON."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "native/python/workers"))

from harness import protocol, ranks  # noqa: E402

TOKEN = "a secret"
server = socket.create_server(("127.0.0.1", 0))
os.environ.update(EPBENCH_ADDRESS="127.0.0.1:%d" % server.getsockname()[1], EPBENCH_TOKEN=TOKEN, WORLD_SIZE="2", LOCAL_RANK="0")
kept = []


def greet(meet=None):
    """Admits a rank as epbench does, and sends it the address `meet`, or the address that the rank itself sent."""
    stream = protocol.Stream(server.accept()[0])
    kept.append(stream)
    greeting = stream.read()
    stream.write({"nonce": "epbench's"})
    proof = protocol.prove(TOKEN, "rank", greeting["rank"], 2, "epbench's", greeting["nonce"])
    assert stream.read() == {"proof": proof} and TOKEN not in json.dumps(greeting)
    stream.write({"meet": meet or greeting["meet"], "proof": protocol.prove(TOKEN, "epbench", "epbench's", greeting["nonce"])})
    return greeting["meet"]


def disturb(host, port):
    address = (host, int(port))
    for words in (b"GET / HTTP/1.0\r\n\r\n", b"", b"x" * 10_000, b'{"rank":1}\n', b"[]\n", b"1e999\n"):
        stranger = socket.create_connection(address)
        stranger.sendall(words)
        kept.append(stranger)
    try:
        protocol.knock(address, "a guess", {"rank": 1, "ranks": 2}, limit=0)
    except protocol.Unheard:
        print("refused")
    kept.extend(socket.create_connection(address) for _ in range(ranks.UNPROVED + 50))


def start_few_threads():
    """Makes the first three threads for connections fail to start."""
    start, failures = threading.Thread.start, [RuntimeError("can't start new thread")] * 3

    def limited(thread):
        if failures and thread._target.__name__ == "greet":
            raise failures.pop()
        start(thread)

    threading.Thread.start = limited


def crowd_after_proof(host, port):
    """Closes rank 1's first connection as the oldest one, after rank 0 has checked its proof."""
    heard, crowd = ranks.heard, []

    def crowded(link, *arguments):
        out = heard(link, *arguments)
        if not crowd:
            crowd.extend(socket.create_connection((host, int(port))) for _ in range(ranks.UNPROVED))
            assert link.lines.read(1) == b""
        return out

    ranks.heard = crowded
    kept.append(crowd)


def epbench():
    meet = greet()
    disturb(*meet.split())
    crowd_after_proof(*meet.split())
    other = "from harness.ranks import Ranks; r = Ranks(); r.exchange({'one': [1.5, b'\\x00\\xff', None]}); r.request()"
    path = str(pathlib.Path(ranks.__file__).parents[1])
    kept.append(subprocess.Popen([sys.executable, "-B", "-c", other], env={**os.environ, "RANK": "1", "PYTHONPATH": path}))
    greet(meet)


os.environ["RANK"] = "0"
start_few_threads()
threading.Thread(target=epbench, daemon=True).start()
print(ranks.Ranks().exchange(("zero",)), flush=True)
child, line = (next(k for k in reversed(kept) if isinstance(k, kind)) for kind in (subprocess.Popen, protocol.Stream))
line.socket.sendall(b"[1,\n")
print("rank 1 ended with", child.wait(60))
