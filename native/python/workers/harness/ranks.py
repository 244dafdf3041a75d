"""Finds this process's rank, and exchanges objects with the other ranks."""

import base64
import collections
import contextlib
import json
import os
import queue
import socket
import threading
import time

from .protocol import Line, Stream, heard, knock

# Names of the variables with the rank, the number of ranks and the rank on this host. They are those of torchrun,
# OpenMPI, MPICH and Slurm. Slurm must come last: MPICH may start its daemons with Slurm's srun, and then Slurm's
# variables describe the daemons.
NAMES = (
    ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)


def find_place(environ=os.environ):
    """Returns (rank, ranks, local rank). Without a launcher it returns (0, 1, 0). If several launchers have set
    variables, it takes one that has set the local rank."""
    given = {name for name, value in environ.items() if value}
    for n in (3, 2):
        for names in NAMES:
            if given.issuperset(names[:n]):
                rank, ranks = int(environ[names[0]]), int(environ[names[1]])
                return rank, ranks, int(environ[names[2]]) if n == 3 else rank
    return 0, 1, 0


# Largest number of open connections that have not proved that they know this run's token. A further connection closes
# the oldest one.
UNPROVED = 256


def packed(thing):
    if isinstance(thing, (bytes, bytearray, memoryview)):
        return {"base64": base64.b64encode(thing).decode()}
    raise TypeError("%s cannot be sent to another rank: give numbers, text, bytes, lists and dicts of them" % type(thing).__name__)


def unpacked(members):
    return base64.b64decode(members["base64"]) if members.keys() == {"base64"} else members


class Link(Stream):
    def send(self, thing):
        self.socket.sendall(json.dumps(thing, default=packed, separators=(",", ":")).encode() + b"\n")

    def recv(self):
        line = self.lines.readline()
        if not line.endswith(b"\n"):
            raise EOFError
        return json.loads(line, object_hook=unpacked)


class Ranks:
    """All ranks of a worker. Each is connected to rank 0. Objects are sent as JSON, so tuples become lists. If a rank
    dies, epbench ends all ranks."""

    def __init__(self):
        self.rank, self.ranks, self.local_rank = find_place()
        self.number = 0  # of the current request
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
        """Waits until all ranks have connected, and returns {rank: link}. Any program may connect, so a thread for
        each connection checks the proof."""
        known, unproved = queue.Queue(), collections.deque()

        def greet(link):
            try:
                rank, welcome = heard(link, token, self.ranks)
                unproved.remove(link)  # raises ValueError if admit has closed this link
                link.write(welcome)
                link.socket.settimeout(None)
                known.put((rank, link))
            except Exception:  # a program that is no rank of this run, or a closed link
                with contextlib.suppress(ValueError):
                    unproved.remove(link)
                with contextlib.suppress(OSError):
                    link.close()

        def admit(link):
            if len(unproved) >= UNPROVED:
                with contextlib.suppress(IndexError, OSError):
                    unproved.popleft().socket.shutdown(socket.SHUT_RDWR)
            unproved.append(link)
            try:
                threading.Thread(target=greet, args=(link,), daemon=True).start()
            except RuntimeError:  # the system allows no further thread
                unproved.remove(link)
                link.close()

        def accept():
            while True:
                try:
                    admit(Link(listener.accept()[0]))
                except OSError:  # the listener can continue
                    time.sleep(0.05)

        threading.Thread(target=accept, daemon=True).start()
        links = {}
        while len(links) < self.ranks - 1:
            rank, link = known.get()
            links[rank] = link
        return dict(sorted(links.items()))

    @staticmethod
    def address():
        """Returns the address that this host has on the network that reaches epbench."""
        host, _, port = os.environ["EPBENCH_ADDRESS"].rpartition(":")
        family, kind, _, _, there = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as s:
            s.connect(there)
            return s.getsockname()[0]

    def request(self):
        thing = self.line.requests.get() if self.rank == 0 else None
        self.number += 1
        return self._share("request", thing)

    def answers(self, answer):
        """Returns the answers of all ranks on rank 0. On any other rank it returns None."""
        return self._collect("answer", answer)

    def share(self, thing=None):
        return self._share("exchange", thing)

    def collect(self, thing):
        """Returns the objects of all ranks in order on rank 0. On any other rank it returns None."""
        return self._collect("exchange", thing)

    def exchange(self, thing):
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
        """Returns the next object that the link's rank sends. If the rank has failed, it sends an error answer and no
        object. Then this process ends."""
        number, got, thing = self._waited(link)
        if (number, got) != (self.number, kind):
            self._follow("another rank sent %s in request %d, but this rank expected %s in request %d: one of the "
                         "two ranks failed; epbench starts the worker again" % (got, number, kind, self.number))
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
        """Ends this process if the connection to another rank is lost."""
        try:
            yield
        except (EOFError, OSError):  # OSError: the other rank ended and did not read all
            self._follow("another rank is gone")

    def _follow(self, reason):
        """Ends this process because of another rank. It tells epbench so, because epbench may see the end of this
        process first, and would take this rank for the cause."""
        self.line.follows(reason)
        raise SystemExit("rank %d: %s" % (self.rank, reason)) from None
