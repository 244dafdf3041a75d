"""Runs the main loop of a worker. Rank 0 receives requests from epbench and passes them on, and every rank performs
them."""

import base64
import hashlib
import sys
import traceback

from .beside import FIELDS
from .protocol import FAILURE, Broken, Failure
from .ranks import Ranks
from .session import Half, joined

PROTOCOL = 2


def by_round(ranks):
    """Transposes values that are indexed by [rank][round]. In the result the index is [round][rank]."""
    return [list(r) for r in zip(*ranks)]


def main(library):
    """Performs epbench's requests with a library until epbench ends the worker."""
    ranks = Ranks()
    try:
        library.start(ranks)
        worker = Worker(library, ranks)
    except Exception as e:
        ranks.line.failed("launch", "%s: %s" % (type(e).__name__, e))
        raise
    while True:
        request = ranks.request()
        method = request["method"]
        ranks.line.doing, ranks.line.serving = method, request.get("id")
        answers = ranks.answers(worker.act(method, request.get("params")))
        ranks.line.doing = "idle"
        if ranks.rank == 0 and "id" in request:
            ranks.line.answer(request["id"], worker.reply(method, request.get("params"), answers))
        if method == "shutdown":
            return


class Worker:
    def __init__(self, library, ranks):
        self.library, self.ranks, self.session, self.number = library, ranks, None, 0
        self.declared = library.kernels()

    def act(self, method, params):
        """Returns this rank's part of the answer, or an error."""
        if method not in ("hello", "open", "prepare", "run", "verify", "empty", "explain", "close", "shutdown"):
            return {"error": {"code": -32601, "message": "no method %s" % method}}
        try:
            return {"result": getattr(self, method)(params or {})}
        except Broken as b:
            self.failed(b.status, str(b))
            sys.exit(1)
        except Failure as f:
            return self.failed(f.status, str(f))
        except Exception as e:
            # The process ends, because after a CUDA error all later calls would fail.
            traceback.print_exc()
            self.failed("crash", "%s: %s" % (type(e).__name__, e))
            sys.exit(1)

    def failed(self, status, reason):
        """Reports a failure to epbench and returns it as an error. It reports before the request's answer, because
        the request may never end on ranks that wait for this rank."""
        self.ranks.line.failed(status, reason)
        return {"error": {"code": FAILURE, "message": "rank %d: %s" % (self.ranks.rank, reason), "data": {"status": status}}}

    def hello(self, params):
        if params["protocol"] != PROTOCOL:
            raise Failure("crash", "epbench speaks protocol %s, but this worker speaks %d" % (params["protocol"], PROTOCOL))
        with open(sys.modules[type(self.library).__module__].__file__, "rb") as f:
            source = hashlib.sha256(f.read()).hexdigest()[:16]
        name = "%s %s" % (self.library.name, self.library.version)
        return {"protocol": PROTOCOL, "worker": name, "abi": "%s %s" % (name, source),
                "machine": self.library.machine(), "kernels": self.declared, "beside": list(self.library.beside)}

    def open(self, params):
        if params["problem"]["ranks"] != self.ranks.ranks:
            raise Failure("illegal", "ranks: the problem has %d, but this worker was launched with %d" % (params["problem"]["ranks"], self.ranks.ranks))
        kind = params["problem"].get("beside", "").partition(":")[0]
        if kind and kind not in self.library.beside:
            raise Failure("illegal", "beside: %s cannot run %s at the same time as its calls" % (self.library.name, kind))
        self.close({})
        self.session = self.library.session(params, self)
        self.number += 1
        return {"session": self.number}

    def default(self, op, other):
        """Returns the default config of a dispatch or combine, whichever `op` names. `other` names a kernel of the
        opposite op. The function takes the first kernel of `op` that works together with kernel `other`."""
        accepts = {k["name"]: k["accepts"] for k in self.declared if k["op"] == "combine"}
        fits = lambda d, c: not accepts[c] or d in accepts[c]
        k = next(k for k in self.declared if k["op"] == op and (fits(k["name"], other) if op == "dispatch" else fits(other, k["name"])))
        return Half(k["name"], {q["name"]: q["default"] for q in k["params"]})

    def opened(self, params):
        if self.session is None or params["session"] != self.number:
            raise Failure("crash", "session %s is not open" % params["session"])
        return self.session

    def prepare(self, params):
        return self.opened(params).prepare(params["config"])

    def run(self, params):
        return self.opened(params).run(params["config"], params["rounds"], max(params["fold"], 1))

    def verify(self, params):
        return self.opened(params).verify(params["config"], params.get("probes", []))

    def explain(self, _):
        raise Failure("illegal", "explain: this worker cannot explain how a call slows down a matrix product")

    def empty(self, _):
        return {"clocks": self.library.empty()}

    def close(self, _):
        if self.session is not None:
            self.library.close()
        self.session = None

    def shutdown(self, _):
        self.close({})

    @staticmethod
    def reply(method, params, answers):
        """Merges the answers of all ranks into one. If a rank failed, its failure is the answer."""
        bad = next((a for a in answers if "error" in a), None)
        if bad:
            return bad
        parts = [a["result"] for a in answers]
        if method == "run":
            out = {**parts[0], "seconds": by_round(p["seconds"] for p in parts)}
            if "beside" in out:
                out["beside"] = {**out["beside"], **{name: by_round(p["beside"][name] for p in parts) for name in FIELDS}}
            if "stages" in out:
                out["stages"] = [max(same, key=lambda s: s["seconds"]) for same in zip(*(p["stages"] for p in parts))]
            if "mhz" in parts[0]:
                out["mhz"] = [p["mhz"] for p in parts]
            return {"result": out}
        if method == "verify":
            rows = dict(row for p in parts for row in p["probed"])
            n = len(params.get("probes", []))
            probed = [{"data": base64.b64encode(rows.get(i, b"")).decode()} for i in range(n)]
            return {"result": {**joined(parts), "probed": probed}}
        return {"result": parts[0]}
