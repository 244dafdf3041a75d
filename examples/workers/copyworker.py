#!/usr/bin/env python3
"""A complete epbench worker in plain Python. Each rank's memory is a bytearray.

    epbench sweep --backend "exec:python3 examples/workers/copyworker.py" ...

To drive your own library, replace Session.dispatch and Session.combine. The protocol is that of
docs/worker-protocol.md.
"""

import base64
import json
import struct
import sys
import threading
import time

MASK = (1 << 64) - 1
FAILURE = -32001

PARAMS = [
    {"name": "chunk", "doc": "Bytes moved by one slice assignment.", "unit": "bytes",
     "values": [256, 1024, 65536], "default": 65536, "binding": "launch", "class": "speed", "cost": 0},
    {"name": "order", "doc": "Outer loop over tokens or over experts.", "unit": "",
     "values": ["token", "expert"], "default": "token", "binding": "launch", "class": "speed", "cost": 0},
]
RULES = [
    {"expr": 'problem.dispatch == "bf16"', "reason": "this worker moves bf16 only"},
    {"expr": "!problem.shared_expert && !problem.skip_a2a", "reason": "no shared expert, no skip_a2a"},
    {"expr": "chunk % 16 == 0", "reason": "chunk must be a multiple of 16 bytes"},
]


class Failure(Exception):
    def __init__(self, status, reason):
        super().__init__(reason)
        self.status = status


# --- numbers -----------------------------------------------------------------

def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


def token_row(seed, rank, token, hidden):
    """Returns the BF16 bits of one token."""
    base = mix(seed ^ rank << 40 ^ token)
    out = []
    for c in range(0, hidden, 4):
        h = mix((base + c) & MASK)
        for _ in range(min(4, hidden - c)):
            out.append((h & 0x807F) | (124 + (h >> 8 & 3)) << 7)
            h >>= 16
    return struct.pack("<%dH" % hidden, *out)


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def bf16_to_float(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def float_to_bf16(x):
    u = struct.unpack("<I", struct.pack("<f", x))[0]
    return (u + 0x7FFF + (u >> 16 & 1)) >> 16 & 0xFFFF


def expert_output(row, expert):
    gain = 0.5 + (expert % 64) / 64
    values = struct.unpack("<%dH" % (len(row) // 2), row)
    return struct.pack("<%dH" % len(values), *(float_to_bf16(f32(bf16_to_float(v) * gain)) for v in values))


# --- one workload ------------------------------------------------------------

class Session:
    def __init__(self, p):
        self.problem = p["problem"]
        self.ranks, self.hidden, self.topk = (self.problem[k] for k in ("ranks", "hidden", "top_k"))
        self.row = 2 * self.hidden
        self.ids, self.weights = [], []
        for r in p["ranks"]:
            n = r["tokens"] * self.topk
            self.ids.append(struct.unpack("<%di" % n, base64.b64decode(r["experts"])))
            self.weights.append(struct.unpack("<%df" % n, base64.b64decode(r["weights"])))
        self.inputs = [b"".join(token_row(p["seed"], r, t, self.hidden) for t in range(rr["tokens"]))
                       for r, rr in enumerate(p["ranks"])]
        self.layout()
        self.combined = [bytearray(len(x)) for x in self.inputs]
        self.back = [bytearray(self.row * len(ids)) for ids in self.ids]

    def layout(self):
        """Orders the rows of every rank by local expert, source rank and token."""
        local = self.problem["experts"] // self.ranks
        found = [[] for _ in range(self.problem["experts"])]
        for src, ids in enumerate(self.ids):
            for i, e in enumerate(ids):
                if e >= 0:
                    found[e].append((src, i))
        self.rows = [[(e, src, i) for e in range(r * local, (r + 1) * local) for src, i in found[e]]
                     for r in range(self.ranks)]
        self.out = [bytearray(self.row * len(rows)) for rows in self.rows]
        self.sends = [[] for _ in range(self.ranks)]
        for dst, rows in enumerate(self.rows):
            for at, (_, src, i) in enumerate(rows):
                self.sends[src].append((i, dst, at))
        for s in self.sends:
            s.sort()

    def copy(self, dst, to, src, frm, chunk):
        for o in range(0, self.row, chunk):
            n = min(chunk, self.row - o)
            dst[to + o:to + o + n] = src[frm + o:frm + o + n]

    def dispatch(self, src, config):
        sends = self.sends[src]
        if config["order"] == "expert":
            sends = sorted(sends, key=lambda s: s[1:])
        for i, dst, at in sends:
            self.copy(self.out[dst], at * self.row, self.inputs[src], i // self.topk * self.row, config["chunk"])

    def experts(self):
        self.y = [bytearray().join(expert_output(bytes(self.out[r][a * self.row:(a + 1) * self.row]), e)
                                   for a, (e, _, _) in enumerate(rows)) for r, rows in enumerate(self.rows)]

    def combine(self, rank, config):
        for at, (_, src, i) in enumerate(self.rows[rank]):
            self.copy(self.back[src], i * self.row, self.y[rank], at * self.row, config["chunk"])

    def reduce(self, rank):
        ids, weights = self.ids[rank], self.weights[rank]
        for t in range(len(ids) // self.topk):
            acc = [0.0] * self.hidden
            for i in range(t * self.topk, (t + 1) * self.topk):
                if ids[i] < 0:
                    continue
                row = struct.unpack("<%dH" % self.hidden, self.back[rank][i * self.row:(i + 1) * self.row])
                w = weights[i]
                acc = [f32(a + f32(w * bf16_to_float(v))) for a, v in zip(acc, row)]
            self.combined[rank][t * self.row:(t + 1) * self.row] = \
                struct.pack("<%dH" % self.hidden, *map(float_to_bf16, acc))

    def timed(self, config):
        """Makes one call and returns the seconds that each rank took."""
        halves = split(config) if self.problem["op"] == "pair" else {self.problem["op"]: config["values"]}
        seconds = [0.0] * self.ranks
        for op, values in halves.items():
            for r in range(self.ranks):
                begin = time.perf_counter()
                self.dispatch(r, values) if op == "dispatch" else self.combine(r, values)
                seconds[r] += time.perf_counter() - begin
            if op == "dispatch" and "combine" in halves:
                self.experts()  # not timed
        if "combine" in halves:
            for r in range(self.ranks):
                begin = time.perf_counter()
                self.reduce(r)
                seconds[r] += time.perf_counter() - begin
        return seconds

    def prepare(self, config):
        if self.problem["op"] == "combine":
            for r in range(self.ranks):
                self.dispatch(r, {"chunk": 65536, "order": "token"})
            self.experts()

    def verify(self, config):
        for buf in self.out + self.back + self.combined:
            buf[:] = b"\xcb" * len(buf)
        self.prepare(config)
        self.timed(config)
        checked = wrong = 0
        if self.problem["op"] != "combine":
            for r, rows in enumerate(self.rows):
                for at, (_, src, i) in enumerate(rows):
                    t = i // self.topk * self.row
                    checked += 1
                    wrong += self.out[r][at * self.row:(at + 1) * self.row] != self.inputs[src][t:t + self.row]
        else:
            checked = sum(len(b) // self.row for b in self.combined)  # epbench compares rows from probe()
        return {"rows": checked, "wrong": wrong, "max_err": 0.0}

    def probe(self, rank, token, k):
        if k < 0:
            return self.combined[rank][token * self.row:(token + 1) * self.row]
        for i, dst, at in self.sends[rank]:
            if i == token * self.topk + k:
                return self.out[dst][at * self.row:(at + 1) * self.row]
        raise ValueError("token %d of rank %d has no expert at position %d" % (token, rank, k))


def split(config):
    halves = {"dispatch": {}, "combine": {}}
    for name, v in config["values"].items():
        op, _, rest = name.partition(".")
        halves[op][rest] = v
    return halves


# --- the protocol ------------------------------------------------------------

class Worker:
    def __init__(self):
        self.sessions, self.lock, self.doing = {}, threading.Lock(), None
        threading.Thread(target=self.beat, daemon=True).start()

    def send(self, message):
        with self.lock:
            sys.stdout.write(json.dumps(message, separators=(",", ":")) + "\n")
            sys.stdout.flush()

    def beat(self):
        while True:
            time.sleep(0.5)
            doing = self.doing
            if doing:
                self.send({"jsonrpc": "2.0", "method": "heartbeat", "params": {"doing": doing}})

    def hello(self, p):
        if p["protocol"] != 2:
            raise ValueError("client speaks protocol %s, this worker 2" % p["protocol"])
        return {"protocol": 2, "worker": "copyworker 1", "abi": "copyworker-1",
                "machine": {"backend": "copyworker", "name": "python slices", "pci_id": "", "arch": sys.platform,
                            "sms": 1, "memory_bytes": 0, "gpus": 0, "link": "", "driver": "", "cuda": ""},
                "kernels": [{"name": op, "op": op, "doc": "Rows moved by slice assignment.",
                             "params": PARAMS, "rules": RULES} for op in ("dispatch", "combine")]}

    def open(self, p):
        self.sessions[len(self.sessions) + 1] = Session(p)
        return {"session": len(self.sessions)}

    def prepare(self, p):
        for name, v in p["config"]["values"].items():
            if name.endswith("chunk") and v % 16:
                raise Failure("illegal", "%s: %d is not a multiple of 16" % (name, v))
        self.sessions[p["session"]].prepare(p["config"])
        return {}

    def run(self, p):
        s, fold = self.sessions[p["session"]], max(p["fold"], 1)
        seconds = []
        for _ in range(p["rounds"]):
            calls = [s.timed(p["config"]) for _ in range(fold)]
            seconds.append([sum(c[r] for c in calls) / fold for r in range(s.ranks)])
        return {"clock": "wall", "fold": fold, "seconds": seconds}

    def verify(self, p):
        s = self.sessions[p["session"]]
        reply = s.verify(p["config"])
        reply["probed"] = [{"data": base64.b64encode(s.probe(**q)).decode()} for q in p.get("probes", [])]
        return reply

    def empty(self, _):
        begin = time.perf_counter()
        return {"clocks": {"wall": time.perf_counter() - begin}}

    def close(self, p):
        self.sessions[p["session"]] = None
        return None

    def answer(self, method, params):
        if method not in ("hello", "open", "prepare", "run", "verify", "empty", "close"):
            return {"error": {"code": -32601, "message": "no method %s" % method}}
        self.doing = method
        try:
            return {"result": getattr(self, method)(params)}
        except Failure as f:
            return {"error": {"code": FAILURE, "message": str(f), "data": {"status": f.status}}}
        except Exception as e:  # one bad request must not end the worker
            return {"error": {"code": -32603, "message": "%s: %s" % (type(e).__name__, e)}}
        finally:
            self.doing = None

    def serve(self):
        for line in sys.stdin:
            request = json.loads(line)
            if request["method"] == "shutdown":
                self.send({"jsonrpc": "2.0", "id": request["id"], "result": None})
                return
            self.send({"jsonrpc": "2.0", "id": request["id"], **self.answer(request["method"], request.get("params"))})


if __name__ == "__main__":
    Worker().serve()
