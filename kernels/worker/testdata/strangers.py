"""Foreign programs connect to rank 0 before rank 1 does: one speaks HTTP, one is silent, one has
another token. This program plays rank 0, and epbench for both ranks."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
from multiprocessing.connection import answer_challenge

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "native/python/workers"))

from harness import ranks  # noqa: E402

server = socket.create_server(("127.0.0.1", 0))
os.environ.update(EPBENCH_ADDRESS="127.0.0.1:%d" % server.getsockname()[1], EPBENCH_TOKEN="a secret", WORLD_SIZE="2", LOCAL_RANK="0")
kept = []


def greet(meet=None):
    """Admits a rank, with its own meet or another's."""
    connection = server.accept()[0]
    line = connection.makefile("rw")
    kept.append((connection, line))
    greeting = json.loads(line.readline())
    line.write(json.dumps({"meet": meet or greeting["meet"]}) + "\n")
    line.flush()
    return greeting["meet"]


def disturb(host, port):
    for words in (b"GET / HTTP/1.0\r\n\r\n", b""):
        stranger = socket.create_connection((host, int(port)))
        stranger.sendall(words)
        kept.append(stranger)
    link = ranks.Connection(socket.create_connection((host, int(port))).detach())
    try:
        answer_challenge(link, b"a guess")
    except Exception as e:
        print("refused:", type(e).__name__)


def epbench():
    meet = greet()
    disturb(*meet.split())
    other = "from harness.ranks import Ranks; r = Ranks(); r.exchange('one')"
    path = str(pathlib.Path(ranks.__file__).parents[1])
    kept.append(subprocess.Popen([sys.executable, "-B", "-c", other], env={**os.environ, "RANK": "1", "PYTHONPATH": path}))
    greet(meet)


os.environ["RANK"] = "0"
threading.Thread(target=epbench, daemon=True).start()
print(ranks.Ranks().exchange("zero"), flush=True)
