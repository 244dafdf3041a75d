"""The ranks of one worker: this process's rank, and objects exchanged between processes."""

import base64
import collections
import contextlib
import json
import os
import queue
import socket
import threading
import time

from .protocol import Line, Stream, admitted, knock

# Rank, number of ranks and rank on this host, as launchers name them: torchrun, OpenMPI,
# MPICH, Slurm. MPICH inside a Slurm allocation starts its own daemons by srun, so that Slurm's
# are those of a daemon there. srun may set MPICH's too, but never the local rank.
NAMES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)


def find_place(environ=os.environ):
    """Returns (rank, ranks, local rank) of this process; without a launcher's variables it is the
    only rank. A set of names with the local rank goes before one without."""
    said = {name for name, value in environ.items() if value}
    for n in (3, 2):
        for names in NAMES:
            if said.issuperset(names[:n]):
                rank, ranks = int(environ[names[0]]), int(environ[names[1]])
                return rank, ranks, int(environ[names[2]]) if n == 3 else rank
    return 0, 1, 0


UNPROVED = 256  # connections without a proof; the oldest one is closed for another


def packed(thing):
    """Bytes in JSON."""
    if isinstance(thing, (bytes, bytearray, memoryview)):
        return {"base64": base64.b64encode(thing).decode()}
    raise TypeError("%s cannot be sent to another rank: give numbers, text, bytes, lists and dicts of them" % type(thing).__name__)


def unpacked(members):
    return base64.b64decode(members["base64"]) if members.keys() == {"base64"} else members


class Link(Stream):
    """A stream of objects between two ranks."""

    def send(self, thing):
        self.socket.sendall(json.dumps(thing, default=packed, separators=(",", ":")).encode() + b"\n")

    def recv(self):
        line = self.lines.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        return json.loads(line, object_hook=unpacked)


class Ranks:
    """All ranks, joined through rank 0. Objects travel as JSON, in which tuples become lists; each
    side proves the token of the run. A rank that dies ends the others by way of epbench."""

    def __init__(self):
        self.rank, self.ranks, self.local_rank = find_place()
        self.number = 0  # number of the request at hand
        token = os.environ["EPBENCH_TOKEN"]
        if self.rank == 0:
            host = self.address()
            listener = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=UNPROVED)
            self.line = Line(0, self.ranks, "%s %d" % listener.getsockname()[:2])
            self.links = self.gathered(listener, token)
        else:
            self.line = Line(self.rank, self.ranks)
            host, port = self.line.meet.split()
            self.link, _ = knock((host, int(port)), token, {"rank": self.rank, "ranks": self.ranks}, kind=Link)

    def gathered(self, listener, token):
        """Returns the links of the other ranks by rank. Strangers may connect and send anything, or
        nothing: a thread greets each connection, and the oldest ones that proved nothing are closed."""
        known, unproved = queue.Queue(), collections.deque()

        def greet(link):
            try:
                known.put((admitted(link, token, self.ranks), link))
            except Exception:  # any error of a stranger's bytes
                with contextlib.suppress(OSError):
                    link.close()
            finally:
                with contextlib.suppress(ValueError):
                    unproved.remove(link)

        def accept():
            while True:
                try:
                    link = Link(listener.accept()[0])
                except OSError:  # too many open files, or a connection that is gone: the listener still listens
                    time.sleep(0.05)
                    continue
                if len(unproved) >= UNPROVED:
                    with contextlib.suppress(IndexError, OSError):
                        unproved.popleft().socket.shutdown(socket.SHUT_RDWR)
                unproved.append(link)
                threading.Thread(target=greet, args=(link,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        links = {}
        while len(links) < self.ranks - 1:
            rank, link = known.get()
            links[rank] = link  # a rank that was not heard to the end comes again
        return dict(sorted(links.items()))

    @staticmethod
    def address():
        """The address of this host that epbench, and so the other ranks, can reach."""
        host, _, port = os.environ["EPBENCH_ADDRESS"].rpartition(":")
        family, kind, _, _, there = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as s:
            s.connect(there)
            return s.getsockname()[0]

    def request(self):
        """The next request to rank 0, on every rank."""
        thing = self.line.requests.get() if self.rank == 0 else None
        self.number += 1
        return self._share("request", thing)

    def answers(self, answer):
        """What each rank answers to a request, on rank 0; None elsewhere."""
        return self._collect("answer", answer)

    def share(self, thing=None):
        """Rank 0's object, on every rank."""
        return self._share("exchange", thing)

    def collect(self, thing):
        """The objects of all ranks in their order, on rank 0; None elsewhere."""
        return self._collect("exchange", thing)

    def exchange(self, thing):
        """The objects of all ranks, on every rank."""
        return self.share(self.collect(thing))

    def barrier(self):
        self.exchange(None)

    def _share(self, kind, thing):
        if self.rank != 0:
            return self._received(self.link, kind)
        with self._gone():
            for link in self.links.values():
                link.send((self.number, kind, thing))
        return thing

    def _collect(self, kind, thing):
        if self.rank != 0:
            with self._gone():
                return self.link.send((self.number, kind, thing))
        return [thing] + [self._received(link, kind) for link in self.links.values()]

    def _received(self, link, kind):
        """Returns the next object of a link. A rank that fails alone goes on to its answer while the
        others are in the middle of an exchange. They must not take the answer for the
        exchange, and cannot get back into step, so they end. The rank that failed has told
        epbench."""
        number, got, thing = self._waited(link)
        if (number, got) != (self.number, kind):
            raise SystemExit("rank %d: out of step: %s %d of another rank where %s %d was due: a rank failed alone; "
                             "epbench starts the worker again" % (self.rank, got, number, kind, self.number))
        return thing

    def _waited(self, link):
        self.line.waiting = True
        try:
            with self._gone():
                return link.recv()
        finally:
            self.line.waiting = False

    @contextlib.contextmanager
    def _gone(self):
        """Ends this rank where another one is gone. That is no failure of this rank: epbench sees
        it too and names the rank that is gone."""
        try:
            yield
        except (EOFError, OSError):  # an OSError where the other left something unread
            raise SystemExit("rank %d: another rank is gone" % self.rank) from None
