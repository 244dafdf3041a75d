"""Connects one rank to epbench, and exchanges greetings, heartbeats, requests and answers."""

import contextlib
import hmac
import json
import os
import queue
import secrets
import socket
import sys
import threading
import time

BEAT = 0.5  # seconds between heartbeats
FAILURE = -32001  # error code of a Failure


class Failure(Exception):
    """The measurement of a config failed. `status` is illegal, compile, launch, mismatch, hang, crash or unstable."""

    def __init__(self, status, reason):
        super().__init__(reason)
        self.status = status


class Broken(Failure):
    """A Failure after which epbench starts the worker again."""


def place():
    """Returns the name of the function that the main thread is running. From these names epbench sees which rank
    hangs."""
    frame = sys._current_frames().get(threading.main_thread().ident)
    return ", %s of %s" % (frame.f_code.co_name, os.path.basename(frame.f_code.co_filename)) if frame else ""


GREETING = 4096  # longest greeting in bytes


class Unheard(Exception):
    """The listener closed the connection early. A new connection may succeed."""


class Stream:
    def __init__(self, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket, self.lines = connection, connection.makefile("rb")

    def write(self, message):
        self.socket.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def read(self, limit=-1):
        """Returns the next message. Raises EOFError at the end of the connection."""
        line = self.lines.readline(limit)
        if not line.endswith(b"\n"):
            raise EOFError("the connection has ended" if len(line) != limit else "a line is too long")
        return json.loads(line)

    def close(self):
        self.lines.close()
        self.socket.close()


def prove(token, *words):
    """Returns the HMAC-SHA256 of the words, joined by line feeds."""
    return hmac.new(token.encode(), "\n".join(map(str, words)).encode(), "sha256").hexdigest()


def knock(address, token, greeting, limit=60, kind=Stream):
    """Connects to (host, port). Each side proves to its peer that it knows the token. Returns the stream and the
    answer. If the listener closes the connection early, it connects again for up to `limit` seconds."""
    end, pause = time.monotonic() + limit, 0.05
    while True:
        stream = kind(socket.create_connection(address, timeout=180))
        try:
            return stream, introduced(stream, token, greeting)
        except Unheard:
            stream.close()
            if time.monotonic() > end:
                raise
            time.sleep(pause * (0.5 + secrets.randbelow(1000) / 1000))
            pause = min(2 * pause, 1)


def introduced(stream, token, greeting):
    """Exchanges a greeting and proofs with the listener, and returns the listener's answer. If a proof fails, this
    process ends."""
    mine = secrets.token_hex(16)
    try:
        stream.write({**greeting, "nonce": mine})
        answer = stream.read(GREETING)
        if not answer.get("error"):
            theirs = answer["nonce"]
            stream.write({"proof": prove(token, "rank", greeting["rank"], greeting["ranks"], theirs, mine)})
            answer = stream.read(GREETING)
    except (EOFError, OSError) as e:
        raise Unheard(str(e)) from e
    if answer.get("error"):
        sys.exit("rank %d: refused: %s" % (greeting["rank"], answer["error"]))
    if not hmac.compare_digest(answer.get("proof", ""), prove(token, "epbench", theirs, mine)):
        sys.exit("rank %d: the listener does not know this run's token" % greeting["rank"])
    stream.socket.settimeout(None)
    return answer


def heard(stream, token, ranks):
    """Answers a rank that calls knock(). Returns the rank's number and a message with this side's proof. The caller
    must send the message to the rank. It raises an exception if the program that connected is not a rank of this
    run."""
    stream.socket.settimeout(10)
    theirs = stream.read(GREETING)
    mine, rank = secrets.token_hex(16), theirs["rank"]
    if not 0 < rank < ranks or theirs["ranks"] != ranks:
        raise ValueError("rank %s of %s" % (rank, theirs["ranks"]))
    stream.write({"nonce": mine})
    given = stream.read(GREETING)["proof"]
    if not hmac.compare_digest(given, prove(token, "rank", rank, ranks, mine, theirs["nonce"])):
        raise ValueError("another token")
    return rank, {"meet": "", "proof": prove(token, "epbench", mine, theirs["nonce"])}


class Line:
    def __init__(self, rank, ranks, meet=""):
        host, _, port = os.environ["EPBENCH_ADDRESS"].rpartition(":")
        self.lock, self.requests = threading.Lock(), queue.Queue()
        self.doing, self.waiting, self.serving = "start", False, None  # serving: id of the current request
        self.stream, admission = knock((host.strip("[]"), int(port)), os.environ["EPBENCH_TOKEN"],
                                       {"rank": rank, "ranks": ranks, "host": socket.gethostname(), "pid": os.getpid(), "meet": meet}, 180)
        self.meet, self.lines = admission["meet"], self.stream.lines
        for work in (self._read, self._beat):
            threading.Thread(target=work, daemon=True).start()

    def _write(self, message):
        with self.lock:
            self.stream.write(message)

    def _read(self):
        """Reads requests in a thread of its own, because the main thread may hang. When the connection ends, it ends
        the process."""
        try:
            for line in self.lines:
                self.requests.put(json.loads(line))
        except OSError:
            pass
        except Exception as e:
            print("rank: a line from epbench is not JSON: %s" % e, file=sys.stderr, flush=True)
            os._exit(1)
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
        """Tells epbench that this rank failed. epbench ignores the message if the worker has answered the request
        already."""
        about = {} if self.serving is None else {"id": self.serving}
        self.notify("failed", {**about, "status": status, "reason": reason, "at": time.time()})

    def follows(self, reason):
        """Tells epbench that this rank ends only because another rank failed or is gone."""
        with contextlib.suppress(OSError):  # epbench has ended the connection
            self.notify("failed", {"status": "crash", "reason": reason, "follows": True})

    def answer(self, number, reply):
        self._write({"jsonrpc": "2.0", "id": number, **reply})
