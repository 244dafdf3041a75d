"""The ranks of one worker: this process's rank, and objects exchanged between processes."""

import contextlib
import os
import queue
import socket
import threading
from multiprocessing.connection import Connection, Listener, answer_challenge, deliver_challenge

from .protocol import Line

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


def dial(host, port, key):
    """multiprocessing.connection.Client for IPv6 too."""
    link = Connection(socket.create_connection((host, port)).detach())
    answer_challenge(link, key)
    deliver_challenge(link, key)
    return link


class Ranks:
    """All ranks, joined through rank 0. Objects are pickled; the token of the run keeps
    strangers out. A rank that dies ends the others by way of epbench."""

    def __init__(self):
        self.rank, self.ranks, self.local_rank = find_place()
        self.number = 0  # number of the request at hand
        key = os.environ["EPBENCH_TOKEN"].encode()
        if self.rank == 0:
            host = self.address()
            listener = Listener((host, 0), "AF_INET6" if ":" in host else "AF_INET", backlog=self.ranks)
            self.line = Line(0, self.ranks, "%s %d" % listener.address[:2])
            self.links = self.admitted(listener, key)
        else:
            self.line = Line(self.rank, self.ranks)
            host, port = self.line.meet.split()
            self.link = dial(host, int(port), key)
            self.link.send(self.rank)

    def admitted(self, listener, key):
        """Returns the links of the other ranks by rank. Strangers may connect and send anything, or
        nothing: a thread greets each connection, and closes those of strangers."""
        known = queue.Queue()

        def admit(link):
            try:
                deliver_challenge(link, key)
                answer_challenge(link, key)
                known.put((link.recv(), link))
            except Exception:  # any error of a stranger's bytes
                link.close()

        def accept():
            while True:
                threading.Thread(target=admit, args=(listener.accept(),), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return dict(sorted(known.get() for _ in range(1, self.ranks)))

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
