"""Tests epcomm without PyTorch on the emulated driver. EPCOMM_PACK must name the test pack. EPCOMM_LIBRARY must name
the library."""

import array
import concurrent.futures
import ctypes
import importlib
import json  # noqa: F401  part_of_deepep forgets modules that nothing imported before it
import mmap
import multiprocessing
import os
import re
import sys
import tempfile
import threading
import types
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "src"))
import epcomm  # noqa: E402

PACK = os.environ["EPCOMM_PACK"]
NODES_PACK = os.environ.get("EPCOMM_NODES_PACK")  # 4 ranks, 2 nodes
SPAWN = multiprocessing.get_context("spawn")  # CUDA fails after a fork


def pack_bytes():
    with open(PACK, "rb") as f:
        return f.read()


def wait(device):
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    driver.cuCtxSetCurrent(context)
    driver.cuCtxSynchronize()


class Gather:
    def __init__(self, rank, pipes):
        self.rank, self.pipes = rank, pipes

    def __call__(self, mine):
        if self.rank > 0:
            self.pipes[self.rank].send_bytes(mine)
            return self.pipes[self.rank].recv_bytes()
        parts = [mine] + [p.recv_bytes() for p in self.pipes[1:]]
        for p in self.pipes[1:]:
            p.send_bytes(b"".join(parts))
        return b"".join(parts)


def layer(comm, rank, tokens):
    """Makes a dispatch and a combine of tokens whose elements are all 1. The result must be 1 too. Returns an error
    text, or ""."""
    i = comm.info
    x = array.array("H", [0x3F80] * (tokens * i.hidden))
    ids = array.array("q", [(t * 3 + k + rank) % i.experts for t in range(tokens) for k in range(i.topk)])
    weights = array.array("f", [1 / i.topk] * (tokens * i.topk))
    combined = array.array("H", [0] * (tokens * i.hidden))
    at = lambda a: a.buffer_info()[0]
    call = epcomm.Call(dtype=1, tokens=tokens, fullest=tokens, ids_bits=64, x=at(x), topk_ids=at(ids), weights=at(weights),
                       y=comm.outputs(0, "bf16").out, combined=at(combined))
    comm.dispatch(call)
    comm.combine(call)
    wait(rank)
    if comm.fault():
        return comm.fault().text.decode()
    return "" if all(0x3F7F <= v <= 0x3F81 for v in combined) else "a combined value is not 1"


def stamped(comm, rank, work):
    at = array.array("Q", [0, 0])
    address = at.buffer_info()[0]
    comm.stamp(address)
    error = work()
    comm.stamp(address + 8)
    wait(rank)
    return error or ("" if 0 < at[0] < at[1] else f"stamps {at[0]} and {at[1]}")


def refuses_stamps(comm):
    for address in (0, 4):
        try:
            comm.stamp(address)
            return f"a stamp at {address} is not refused"
        except epcomm.EpcommError as e:
            if "device memory" not in str(e):
                return str(e)
    return ""


def one_rank(rank, pipes, results):
    try:
        comm = epcomm.Comm(PACK, rank, 2, rank, Gather(rank, pipes), deadline=5)
        error = layer(comm, rank, 8) or stamped(comm, rank, lambda: layer(comm, rank, 3)) or refuses_stamps(comm)
        comm.reset()
        error = error or layer(comm, rank, 5)
        comm.destroy()
    except Exception as e:
        error = repr(e)
    results.put((rank, error))


def one_of_nodes(rank, pipes, results):
    try:
        with unittest.mock.patch.dict(os.environ, {"LOCAL_WORLD_SIZE": "2"}):
            comm = epcomm.Comm(NODES_PACK, rank, 4, rank, Gather(rank, pipes), deadline=60)
        i, o, tokens = comm.info, comm.outputs(), 5
        if (i.nodes, i.nvshmem) != (2, b"3.8.0"):
            raise ValueError(f"{i.nodes} nodes, NVSHMEM {i.nvshmem}")
        with open(NODES_PACK, "rb") as f:
            counted = int(re.search(rb'"heap_bytes": ([0-9]+)', f.read())[1])
        if i.heap_bytes != counted:
            raise ValueError(f"a heap of {i.heap_bytes} bytes, the pack says {counted}")
        x, weights = array.array("H", [0x3F80] * (tokens * i.hidden)), array.array("f", [1 / i.topk] * (tokens * i.topk))
        ids = array.array("i", [(t * 3 + 5 * k + rank) % i.experts for t in range(tokens) for k in range(i.topk)])
        combined = array.array("H", [0] * (tokens * i.hidden))
        at = lambda a: a.buffer_info()[0]
        call = epcomm.Call(tokens=tokens, fullest=tokens, x=at(x), topk_ids=at(ids), weights=at(weights), y=o.y, combined=at(combined))
        comm.dispatch(call)
        wait(rank)
        rows = array.array("H", [0x3F80] * (o.max_rows * i.hidden))
        ctypes.memmove(o.y, at(rows), 2 * len(rows))
        comm.combine(call)
        wait(rank)
        error = comm.fault().text.decode() if comm.fault() else ""
        error = error or ("" if all(0x3F7F <= v <= 0x3F81 for v in combined) else "a combined value is not 1")
        comm.destroy()
    except Exception as e:
        error = repr(e)
    results.put((rank, error))


class TestNodes(unittest.TestCase):
    def test_nodes_of_a_job(self):
        for environment, ranks, want in (({}, 2, 1), ({"LOCAL_WORLD_SIZE": "8"}, 16, 2), ({"LOCAL_WORLD_SIZE": "8"}, 4, 1)):
            with unittest.mock.patch.dict(os.environ, environment):
                self.assertEqual(epcomm.comm.nodes_of(PACK, ranks), want)
        self.assertEqual(epcomm.comm.nodes_of("/no/such.pack", 2), 1)

    def test_a_pack_of_one_host_is_refused(self):
        with self.assertRaises(epcomm.EpcommError) as refused:
            epcomm.Comm(PACK, 0, 2, 0, lambda mine: mine * 2, nodes=2)
        self.assertEqual(refused.exception.status, "pack")
        self.assertIn("made for one host, but nodes is 2", str(refused.exception))

    @unittest.skipUnless(NODES_PACK, "EPCOMM_NODES_PACK names no pack")
    def test_four_processes_on_two_nodes(self):
        self.assertEqual(epcomm.comm.nodes_of(NODES_PACK, 4), 2)
        ends, results = [SPAWN.Pipe() for _ in range(3)], SPAWN.Queue()
        ranks = [SPAWN.Process(target=one_of_nodes, args=(0, [None] + [here for here, _ in ends], results))]
        ranks += [SPAWN.Process(target=one_of_nodes, args=(r + 1, [None] * (r + 1) + [there], results))
                  for r, (_, there) in enumerate(ends)]
        for r in ranks:
            r.start()
        errors = dict(results.get(timeout=300) for _ in ranks)
        for r in ranks:
            r.join()
        self.assertEqual(errors, {r: "" for r in range(4)})


class TestComm(unittest.TestCase):
    def test_two_processes(self):
        here, there = SPAWN.Pipe()
        results = SPAWN.Queue()
        ranks = [SPAWN.Process(target=one_rank, args=(0, [None, here], results)),
                 SPAWN.Process(target=one_rank, args=(1, [None, there], results))]
        for r in ranks:
            r.start()
        errors = dict(results.get(timeout=120) for _ in ranks)
        for r in ranks:
            r.join()
        self.assertEqual(errors, {0: "", 1: ""})

    def test_errors_say_why(self):
        with self.assertRaises(epcomm.EpcommError) as refused:
            epcomm.Comm("/no/such.pack", 0, 1, 0)
        self.assertEqual(refused.exception.status, "pack")
        self.assertIn("cannot open", str(refused.exception))
        with self.assertRaises(ValueError):
            epcomm.Comm(PACK, 0, 1, 0, precision="some")

    def test_a_failing_gather_is_named(self):
        def gather(_):
            raise ConnectionError("the other rank left")

        with self.assertRaises(epcomm.EpcommError) as refused:
            epcomm.Comm(PACK, 0, 2, 0, gather)
        self.assertEqual(refused.exception.status, "gather")
        self.assertIsInstance(refused.exception.__cause__, ConnectionError)

    def test_a_gather_of_another_size_is_named(self):
        with self.assertRaises(epcomm.EpcommError) as refused:
            epcomm.Comm(PACK, 0, 2, 0, lambda mine: mine)
        self.assertEqual(refused.exception.status, "gather")
        self.assertRegex(str(refused.exception.__cause__), "all_gather gave ([0-9]+) bytes of 2 ranks instead of")

    def test_packs_are_checked(self):
        data = pack_bytes()
        self.assertEqual(epcomm.check_pack(data).ranks, 2)
        for bad in (b"", data[:-1], data[:1000] + b"?" + data[1001:]):
            with self.assertRaises(epcomm.EpcommError):
                epcomm.check_pack(bad)

    def test_a_struct_of_an_older_header_is_not_overrun(self):
        class Old(ctypes.Structure):
            _fields_ = [("size", ctypes.c_size_t), ("rank", ctypes.c_int), ("ranks", ctypes.c_int), ("behind", ctypes.c_char * 512)]

        old = Old(size=Old.behind.offset, behind=b"x" * 511)
        data = pack_bytes()
        status = epcomm.comm.lib().epcomm_check_pack(data, len(data), ctypes.cast(ctypes.byref(old), ctypes.POINTER(epcomm.Info)), None)
        self.assertEqual((status, old.size, old.ranks, old.behind), (0, Old.behind.offset, 2, b"x" * 511))

    def test_machine_and_kernels_are_named(self):
        self.assertRegex(epcomm.machine().key.decode(), "^cuda/.*/sm_[0-9]+/sms=[0-9]+/mem=[0-9]+g/link=.")
        self.assertRegex(epcomm.check_pack(pack_bytes()).kernels.decode(), "^combine[a-z_]*=[0-9a-f]{16},")

    def test_a_forked_process_is_told_so(self):
        def error(call):
            try:
                call()
            except epcomm.EpcommError as e:
                return f"{e.status}: {e}\n"
            return "no error\n"

        epcomm.machine()
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            both = error(epcomm.machine) + error(lambda: epcomm.Comm(PACK, 0, 2, 0, lambda mine: 2 * mine))
            os.write(write, both.encode())
            os._exit(0)
        os.close(write)
        with open(read, encoding="utf-8") as answers:
            texts = answers.read().splitlines()
        os.waitpid(child, 0)
        self.assertEqual(len(texts), 2, texts)
        for text in texts:
            self.assertRegex(text, "^driver: .*forked after CUDA was initialised.*spawn")
        self.assertGreater(epcomm.machine().sms, 0)

    def test_classes(self):
        self.assertEqual(epcomm.classify([100] * 8, 2), "even")
        self.assertEqual(epcomm.classify([1000] * 4 + [0] * 4, 2), "hot-rank")
        self.assertEqual(epcomm.classify([0] * 8, 2), "all")


class Arguments(unittest.TestCase):
    def created(self, **given):
        seen = {}

        def create(_comm, options, _text):
            seen.update({name: getattr(options._obj, name) for name, *_ in options._obj._fields_})
            return 1

        with unittest.mock.patch.object(epcomm.comm, "_lib", types.SimpleNamespace(epcomm_create=create)):
            with self.assertRaises(epcomm.EpcommError):
                epcomm.Comm("a.pack", 1, 4, 3, lambda mine: mine * 4, **{"nodes": 1, **given})
        return seen

    def test_defaults(self):
        want = {"pack": b"a.pack", "rank": 1, "ranks": 4, "device": 3, "deadline_ns": 10**10, "in_flight": 1, "streams": 1, "reduced": 0, "max_sms": 0,
                "dtypes": 0, "routing": 5, "debug": 0, "extra_bytes": 0, "own_outputs": 0, "nvshmem": None, "nodes": 1, "survivors": 0, "joins": 0,
                "ordered": 0}
        got = self.created()
        self.assertEqual({name: got[name] for name in want}, want)

    def test_given(self):
        for given, name, want in (
            ({"deadline": 0.5}, "deadline_ns", 500_000_000), ({"in_flight": 4}, "in_flight", 4), ({"streams": 2}, "streams", 2),
            ({"precision": "reduced"}, "reduced", 1), ({"max_sms": 7}, "max_sms", 7), ({"dtypes": ("bf16", "fp8")}, "dtypes", 0b110),
            ({"routing": "skewed"}, "routing", 2), ({"debug": True}, "debug", 1), ({"extra_bytes": 9}, "extra_bytes", 9),
            ({"own_outputs": True}, "own_outputs", 1), ({"nvshmem": "/folder"}, "nvshmem", b"/folder"), ({"nodes": 2}, "nodes", 2),
            ({"survivors": "refuse"}, "survivors", 2), ({"joins": (0, 1, 3)}, "joins", 0b1011), ({"ordered": True}, "ordered", 1),
        ):
            with self.subTest(name):
                self.assertEqual(self.created(**given)[name], want)

    def test_unknown_words(self):
        for given in ({"routing": "odd"}, {"dtypes": ("int8",)}, {"survivors": "all"}, {"precision": "half"}):
            with self.assertRaises(ValueError):
                epcomm.Comm("a.pack", 0, 1, 0, **given)

    def test_sets_of_ranks_and_answers(self):
        sets = []

        def survivors(_comm, alive, dropped):
            alive._obj.value, dropped._obj.value = 1 | 1 << 40, 7
            return 0

        def explain(_comm, _call, out):
            out._obj.dispatch, out._obj.combine, out._obj.why, out._obj.first, out._obj.last = b"d", b"c", b"w", 3, 4
            return 0

        stand_in = types.SimpleNamespace(
            epcomm_shrink=lambda _, alive: sets.append(alive) or 0, epcomm_grow=lambda _, alive: sets.append(alive) or 0,
            epcomm_survivors=survivors, epcomm_explain=explain)
        comm = object.__new__(epcomm.Comm)
        comm._comm = 1
        with unittest.mock.patch.object(epcomm.comm, "_lib", stand_in):
            comm.shrink([0, 2])
            comm.grow(range(3))
            for wrong in ([0, 64], [-1]):
                with self.assertRaisesRegex(ValueError, "from 0 to 63"):
                    comm.shrink(wrong)
            self.assertEqual(comm.survivors(), ([0, 40], 7))
            self.assertEqual(comm.explain(epcomm.Call()), ("d", "c", "w", 3, 4))
        self.assertEqual(sets, [0b101, 0b111])


def part_of_deepep(name):
    package = types.ModuleType("epcomm.deepep")
    package.__path__ = [os.path.join(os.path.dirname(epcomm.__file__), "deepep")]
    with unittest.mock.patch.dict(sys.modules, {"epcomm.deepep": package}):
        return importlib.import_module("epcomm.deepep." + name)


class Agreements(unittest.TestCase):
    def setUp(self):
        self.module = part_of_deepep("agreement")
        memory = mmap.mmap(-1, self.module.Agreement.bytes_for(2))
        self.ranks = [self.module.Agreement(memory, r, 2, 20) for r in range(2)]

    def both(self, *works):
        def error_of(work):
            try:
                work()
                return ""
            except epcomm.EpcommError as e:
                return str(e)

        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            return list(threads.map(error_of, works))

    def test_equal_calls(self):
        a, b = self.ranks
        facts = {"the call": "dispatch", "hidden": 512}
        self.assertEqual(self.both(lambda: a.first(7, facts), lambda: b.first(7, facts)), ["", ""])
        for n in range(3 * self.module.RING):
            a.step(7 + n % 5)
            b.step(7 + n % 5)
        a.look()

    def test_a_fact_differs(self):
        a, b = self.ranks
        ended = []
        a.end_waits = b.end_waits = lambda: ended.append(1)
        errors = self.both(lambda: a.first(7, {"the call": "dispatch", "hidden": 512}), lambda: b.first(8, {"the call": "dispatch", "hidden": 256}))
        want = "disagree: the ranks differ in what they call: hidden is 512 on rank 0, 256 on rank 1; all ranks must make the same calls"
        self.assertEqual(errors, [want, want])
        self.assertTrue(ended)
        with self.assertRaisesRegex(epcomm.EpcommError, "hidden is 512"):
            a.look()

    def test_the_call_differs(self):
        a, b = self.ranks
        errors = self.both(lambda: a.first(7, {"the call": "dispatch", "hidden": 512}), lambda: b.first(8, {"the call": "combine", "hidden": 256}))
        self.assertIn("the call is dispatch on rank 0, combine on rank 1; all ranks", errors[0])
        self.assertEqual(errors[0], errors[1])

    def test_facts_that_do_not_fit(self):
        a, b = self.ranks
        errors = self.both(lambda: a.first(7, {"hidden": 10**600}), lambda: b.first(8, {"hidden": 256}))
        self.assertRegex(errors[0], "the ranks differ in what they call")
        self.assertEqual(errors[0], errors[1])

    def test_an_earlier_call_differs(self):
        a, b = self.ranks
        for key in (1, 2, 3, 4, 5):
            a.step(key)
        b.step(1)
        b.step(2)
        with self.assertRaisesRegex(epcomm.EpcommError, "the calls are in another order"):
            b.step(9)

    def test_a_rank_that_does_not_come(self):
        self.ranks[0]._deadline = 0.2
        with self.assertRaisesRegex(epcomm.EpcommError, "peer: rank 1: no call number 1 in 0.2 s"):
            self.ranks[0].first(7, {"the call": "dispatch"})

    def test_ranks_share_a_file(self):
        box, meet = {}, threading.Barrier(2)

        def gather(rank):
            def gathered(mine):
                box[rank] = mine
                meet.wait()
                everyone = [box[0], box[1]]
                meet.wait()
                return everyone
            return gathered

        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(self.module, "_folder", lambda: folder):
            with concurrent.futures.ThreadPoolExecutor(2) as threads:
                a, b = threads.map(lambda r: self.module.share(r, 2, gather(r), 20), range(2))
            self.assertEqual(os.listdir(folder), [])
        a.step(3)
        with self.assertRaises(epcomm.EpcommError):
            b.step(4)
        self.assertIsNone(self.module.share(0, 1, None, 20))


class Configs(unittest.TestCase):
    def test_bounds(self):
        config = part_of_deepep("config")
        self.assertEqual((config.Config(0).num_sms, config.Config(24).bound), (0, 24))
        for sms in (-1, 1):
            with self.assertRaisesRegex(ValueError, "num_sms"):
                config.Config(sms)
        self.assertEqual((config.config_for(8, 20, 6).num_sms, config.config_for(1, 20, 6).bound), (20, 6))
        for ranks in (0, 9):
            with self.assertRaises(config.NotServed):
                config.config_for(ranks, 20, 0)

    def test_tensors(self):
        config = part_of_deepep("config")
        tensor = types.SimpleNamespace(dtype=int, shape=[3, 4], dim=lambda: 2)
        config.must_be("x", tensor, int, None, 4)
        for wrong in ((float, None, 4), (int, None, 5), (int, 2, 4), (int, 3), (int, 3, 4, None)):
            with self.assertRaisesRegex(ValueError, "x: .*; give"):
                config.must_be("x", tensor, *wrong)
        on = lambda kind, index: types.SimpleNamespace(type=kind, index=index)
        at = lambda device: types.SimpleNamespace(device=device)
        config.must_be_on(on("cuda", None), x=at(on("cuda", 1)), y=None)
        for wrong in (on("cpu", None), on("cuda", 1)):
            with self.assertRaisesRegex(ValueError, "y: it is on .*; give a tensor on"):
                config.must_be_on(on("cuda", 0), x=at(on("cuda", 0)), y=at(wrong))


# Stands for epbench. It writes the pack slowly, in two steps, so that two jobs can collide.
SLOW_PROGRAM = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
printf whole > "$2"; sleep 0.3; printf ' pack' >> "$2"
"""


class Packs(unittest.TestCase):
    def setUp(self):
        self.packs = part_of_deepep("packs")
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        program = os.path.join(self.folder.name, "program")
        with open(program, "w", encoding="utf-8") as f:
            f.write(SLOW_PROGRAM)
        os.chmod(program, 0o755)
        patch = unittest.mock.patch.dict(os.environ, EPCOMM_CACHE=os.path.join(self.folder.name, "cache"), EPBENCH_PROGRAM=program, EPCOMM_PACKS="")
        patch.start()
        self.addCleanup(patch.stop)
        self.shape = self.packs.Shape("masked", 2, 7168, 288, 8, 128)
        self.here = epcomm.Machine(sms=132, arch=b"sm_90", key=b"cuda/2330")

    def test_rows_of_other_machines(self):
        for value, other in (("", False), ("1", True)):
            with unittest.mock.patch.dict(os.environ, {"EPCOMM_OTHER_MACHINES": value, "EPCOMM_CACHE": "cache"}):
                self.assertEqual("--other-machines" in self.packs.command(self.shape, "m.json", "x.pack"), other)
                self.assertEqual(self.packs.cache_folder(), os.path.join("cache", "other-machines") if other else "cache")

    def test_what_serves(self):
        fits = {"layout": 2, "ranks": 2, "hidden": 7168, "experts": 288, "topk": 8, "max_tokens": 128, "dtypes": 0b110, "arch": b"sm_90",
                "largest_grid": 132}
        names = {}
        for says, change in (
            ("", {}), ("", {"max_tokens": 256}), ("layout", {"layout": 1}), ("topk 4, needs 8", {"topk": 4}), ("max-tokens", {"max_tokens": 64}),
            ("dtype", {"dtypes": 0b100}), ("arch sm_100a", {"arch": b"sm_100a"}), ("", {"arch": b"sm_90a"}), ("", {"arch": b"sm_90"}),
            ("its calls take 148 SMs", {"largest_grid": 148}),
        ):
            info = epcomm.Info(**{**fits, **change})
            reason = self.packs._unfit(info, self.shape, self.here)
            self.assertTrue(reason.startswith(says) and bool(reason) == bool(says), (change, reason))
            names[f"{len(names)}.pack"] = info
        for name in names:
            with open(os.path.join(self.folder.name, name), "w", encoding="utf-8") as f:
                f.write(name)
        with unittest.mock.patch.object(self.packs, "check_pack", lambda data: names[data.decode()]):
            with unittest.mock.patch.dict(os.environ, EPCOMM_PACKS=self.folder.name):
                self.assertEqual(os.path.basename(self.packs.find(self.shape, self.here)), "0.pack")
                self.assertIn("5.pack cannot be used: dtype", self.packs._missing(self.shape, self.here, [], "why"))
            self.assertIsNone(self.packs.find(self.shape, self.here))

    def test_which_gpus_run_a_pack(self):
        for pack, gpu, runs in (("sm_80", "sm_86", True), ("sm_86", "sm_80", False), ("sm_90a", "sm_90", True), ("sm_100a", "sm_103", False),
                                ("sm_90", "sm_100", False), ("sm_100", "sm_90", False)):
            with self.subTest(f"{pack} on {gpu}"):
                self.assertEqual(self.packs._runs_on(epcomm.Info(arch=pack.encode()), epcomm.Machine(arch=gpu.encode())), runs)

    def test_what_serves_with_bounds(self):
        info = epcomm.Info(layout=2, ranks=2, hidden=7168, experts=288, topk=8, max_tokens=256, dtypes=0b110, arch=b"sm_90", largest_grid=100)
        for change, says in (({}, ""), ({"max_sms": 100}, ""), ({"max_sms": 64}, "its calls take 100 SMs; make it with --max-sms 64"), ({"max_sms": 500}, ""),
                             ({"exact": True}, "max-tokens 256, needs 128"), ({"raw": True}, "raw False, needs True"),
                             ({"survivors": True}, "survivors False, needs True")):
            self.assertEqual(self.packs._unfit(info, self.shape._replace(**change), self.here), says)

    def test_the_command(self):
        words = self.packs.command(self.shape._replace(max_sms=24, raw=True), "m.json", "x.pack")
        for flag, value in (("--layout", "masked"), ("--ranks", "2"), ("--hidden", "7168"), ("--experts", "288"), ("--topk", "8"), ("--max-tokens", "128"),
                            ("--dtype", "fp8,bf16"), ("--max-sms", "24"), ("--machine", "m.json"), ("-o", "x.pack")):
            self.assertEqual(words[words.index(flag) + 1], value)
        self.assertEqual(("--raw" in words, "--survivors" in words), (True, False))
        self.assertIn("--survivors", self.packs.command(self.shape._replace(survivors=True), "m.json", "x.pack"))
        self.assertEqual(self.shape._replace(hidden=200).dtypes(), ("bf16",))

    def test_machines_share_a_cache(self):
        other = epcomm.Machine(sms=132, arch=b"sm_90", key=b"cuda/2335")
        info = epcomm.Info(layout=2, ranks=2, hidden=7168, experts=288, topk=8, max_tokens=128, dtypes=6, arch=b"sm_90", largest_grid=132)
        made = self.packs.make(self.shape, self.here)
        with unittest.mock.patch.object(self.packs, "check_pack", lambda data: info):
            self.assertEqual((self.packs.find(self.shape, self.here), self.packs.find(self.shape, other)), (made, None))
            self.assertNotEqual(self.packs.make(self.shape, other), made)

    def test_two_jobs_make_the_same_pack(self):
        with concurrent.futures.ThreadPoolExecutor(2) as jobs:
            made = list(jobs.map(lambda _: self.packs.make(self.shape, self.here), range(2)))
        self.assertEqual(made[0], made[1])
        with open(made[0], encoding="utf-8") as f:
            self.assertEqual(f.read(), "whole pack")
        self.assertEqual(os.listdir(self.packs.cache_folder()), [os.path.basename(made[0])])

    def test_a_pack_that_cannot_be_made(self):
        with unittest.mock.patch.dict(os.environ, EPBENCH_PROGRAM="/no/such/program"):
            with self.assertRaisesRegex(LookupError, "No such file.* --machine (.*.json) -o .*name it in EPCOMM_PACKS") as refused:
                self.packs.make(self.shape, self.here)
        self.assertTrue(os.path.exists(re.search("--machine ([^ ]*)", str(refused.exception))[1]))

    def test_other_ranks_are_told_of_any_error(self):
        for error, says in ((AttributeError("no such symbol"), "AttributeError: no such symbol"), (LookupError("no pack"), "no pack")):
            told = []
            with unittest.mock.patch.object(self.packs, "machine", side_effect=error):
                with self.assertRaises(LookupError):
                    self.packs.get(self.shape, 0, lambda mine: told.append(mine) or [mine])
            self.assertEqual(told, [(None, says)])


if __name__ == "__main__":
    unittest.main()
