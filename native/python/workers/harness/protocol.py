"""The connection of one rank to epbench: greeting, heartbeats, requests, answers."""

import json
import os
import queue
import socket
import sys
import threading
import time

BEAT = 0.5  # seconds between heartbeats
FAILURE = -32001  # error code of a Failure


class Failure(Exception):
    """A candidate's status with a reason: illegal, compile, launch, mismatch, hang, crash or unstable."""

    def __init__(self, status, reason):
        super().__init__(reason)
        self.status = status


class Broken(Failure):
    """A Failure after which this process cannot go on: it ends, and epbench starts the worker
    again."""


def place():
    """Says which function the main thread is in. epbench needs it to tell a rank that hangs in a
    library from the ranks that wait for it there."""
    frame = sys._current_frames().get(threading.main_thread().ident)
    return ", %s of %s" % (frame.f_code.co_name, os.path.basename(frame.f_code.co_filename)) if frame else ""


class Line:
    """One rank's connection. It ends the process when epbench ends it."""

    def __init__(self, rank, ranks, meet=""):
        host, _, port = os.environ["EPBENCH_ADDRESS"].rpartition(":")
        self.socket = socket.create_connection((host.strip("[]"), int(port)), timeout=180)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.lock, self.requests = threading.Lock(), queue.Queue()
        self.doing, self.waiting, self.serving = "start", False, None  # serving: the id of a request
        self._write({"token": os.environ["EPBENCH_TOKEN"], "rank": rank, "ranks": ranks,
                     "host": socket.gethostname(), "pid": os.getpid(), "meet": meet})
        self.lines = self.socket.makefile("rb")
        answer = json.loads(self.lines.readline() or b'{"error": "epbench closed the connection"}')
        if answer.get("error"):
            sys.exit("rank %d: refused by epbench: %s" % (rank, answer["error"]))
        self.meet = answer["meet"]
        self.socket.settimeout(None)
        for work in (self._read, self._beat):
            threading.Thread(target=work, daemon=True).start()

    def _write(self, message):
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self.lock:
            self.socket.sendall(data)

    def _read(self):
        """Runs beside the main thread: that one may be stuck in a collective."""
        try:
            for line in self.lines:
                self.requests.put(json.loads(line))
        except OSError:  # reset
            pass
        os._exit(0)

    def _beat(self):
        while True:
            time.sleep(BEAT)
            try:
                self.notify("heartbeat", {"doing": self.doing + place(), "waiting": self.waiting})
            except OSError:
                os._exit(0)

    def notify(self, method, params):
        self._write({"jsonrpc": "2.0", "method": method, "params": params})

    def failed(self, status, reason):
        """Without an id epbench could not tell a failure that it has an answer for already."""
        about = {} if self.serving is None else {"id": self.serving}
        self.notify("failed", {**about, "status": status, "reason": reason})

    def answer(self, number, reply):
        self._write({"jsonrpc": "2.0", "id": number, **reply})
