"""Tests how epcomm.deepep uses streams, hooks and CUDA graphs. Python objects stand for CUDA's streams, so no GPU is
needed."""

import ctypes
import os
import sys
import threading
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("../src", "emulated"):
    sys.path.insert(0, os.path.join(HERE, folder))

import emulated_streams as streams  # noqa: E402
import torch  # noqa: E402
from processes import close, run_ranks  # noqa: E402

from epcomm import native  # noqa: E402
from epcomm.deepep import events, link as links  # noqa: E402
from epcomm.deepep.buffer import Buffer  # noqa: E402
from epcomm.deepep.events import EventHandle, EventOverlap, Lane  # noqa: E402
from epcomm.deepep.link import Half, Link, receive_before  # noqa: E402
from epcomm.deepep.slow import Slow  # noqa: E402

RANKS = 2


def stand_ins():
    return mock.patch.multiple(torch.cuda, current_stream=streams.current, stream=streams.use, is_available=lambda: True,
                               Stream=streams.Stream, Event=streams.Event)


class Streams(unittest.TestCase):
    def setUp(self):
        patches = (stand_ins(), mock.patch.object(events, "capture_of", lambda stream: stream.capture),
                   mock.patch.object(events, "raw_stream", lambda device: streams.current()), mock.patch.object(events, "_free", []))
        for patch in patches:
            patch.start()
            self.addCleanup(patch.stop)
        self.lane = Lane(torch.device("cuda"))
        self.link = Link.__new__(Link)
        self.link.device, self.link.halves, self.link.begun = torch.device("cuda"), [None, None], [None, None]
        self.link.ops, self.link.number, self.link._lane = Slow(self.link.device), self.link, self.lane
        self.link.now = streams.current
        self.link.launch = lambda f, *arguments: streams.behind_last(self.link)


class TestLane(Streams):
    def test_who_waits_for_whom(self):
        here, aside, step = streams.current(), self.lane.stream, lambda: streams.current().step()
        before = here.step()
        first, event = self.lane.run(None, True, step, ())
        self.assertEqual((aside.after(before), here.after(first)), (True, False))
        second, none = self.lane.run(EventOverlap(None), False, step, ())
        self.assertEqual((none, here.after(first)), (None, True), "a call did not wait for the call before it, with which it shares memory")
        third, event = self.lane.run(EventOverlap(event), True, step, ())
        queued = here.step()
        self.assertEqual((aside.after(second), aside.after(queued), here.after(third)), (True, False, False))
        event.current_stream_wait()
        fourth, _ = self.lane.run(None, False, step, ())
        behind = here.step()
        self.lane.run(EventOverlap(event), True, step, ())
        self.assertEqual((aside.after(fourth), aside.after(behind)), (True, False))
        self.lane.run(None, True, step, ())
        self.assertTrue(aside.after(behind), "a call without previous_event did not wait for all that was queued")

    def test_buffers_of_a_thread_share_one_order(self):
        device, others = torch.device("cpu", 0), []
        one, two = events.new_lane(device, 0), events.new_lane(device, 0)
        self.assertTrue(one.native == two.native and one._behind is two._behind)
        thread = threading.Thread(target=lambda: others.append(events.new_lane(device, 0)))
        thread.start()
        thread.join()
        self.assertIsNot(others[0]._behind, one._behind)
        self.assertIsNot(events.new_lane(torch.device("cpu", 1), 1)._behind, one._behind)

    def test_calls_in_a_graph_do_not_hide_those_outside(self):
        made, _ = self.lane.run(None, True, lambda: streams.current().step(), ())
        with mock.patch.object(streams, "synchronized"), streams.graph(streams.Stream()):
            self.lane.run(None, False, lambda: None, ())
        other = streams.Stream()
        with streams.use(other):
            self.lane.run(None, False, lambda: None, ())
        self.assertTrue(other.after(made))


class TestCaptures(unittest.TestCase):
    def test_numbers(self):
        driver, context, stream = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
        driver.cuInit(0)
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        driver.cuCtxSetCurrent(context)
        driver.cuStreamCreate(ctypes.byref(stream), 1)
        numbers = []
        for _ in range(2):
            numbers.append(events.capture_of(stream.value))
            driver.cuStreamBeginCapture_v2(stream, 0)
            numbers.append(events.capture_of(stream.value))
            driver.cuStreamEndCapture(stream, ctypes.byref(ctypes.c_void_p()))
        self.assertEqual((numbers[0], numbers[2]), (0, 0))
        self.assertEqual(len({0, numbers[1], numbers[3]}), 3)


@unittest.skipUnless(native.load(), "the extension is not built")
class TestEvents(unittest.TestCase):
    """Tests how the extension orders calls on several streams."""

    def setUp(self):
        self.asked = []

        def function(name, *arguments, act=lambda *_: 0):
            return ctypes.CFUNCTYPE(ctypes.c_int, *arguments)(act), name
        pointer, note = ctypes.c_void_p, lambda *what: self.asked.append(what) or 0
        number = ctypes.POINTER(ctypes.c_int)
        functions = [function(n, pointer, pointer, pointer) for n in native._FUNCTIONS]
        driver = [function("cuEventCreate", pointer, ctypes.c_uint),
                  function("cuEventRecord", pointer, pointer, act=lambda event, stream: note("record", stream)),
                  function("cuStreamWaitEvent", pointer, pointer, ctypes.c_uint, act=lambda stream, *_: note("wait", stream)),
                  function("cuStreamGetCaptureInfo_v2", pointer, number, pointer, pointer, pointer, pointer),
                  function("cuCtxSetCurrent", pointer), function("cuCtxSynchronize")]
        self.kept = functions, driver
        addresses = lambda of: (ctypes.c_uint64 * len(of))(*(ctypes.cast(f, pointer).value for f, _ in of))
        lane = native.load().epcomm_native_lane(addresses(driver), None)
        self.link = native.load().epcomm_native_link(None, addresses(functions), lane, None, (ctypes.c_int64 * 16)())

    def calls(self, stream, count=1):
        """Makes `count` calls on a stream. Returns which functions for events and waits the extension called in the
        driver."""
        self.asked.clear()
        for _ in range(count):
            native.operators().ll_receive(self.link, stream, 0, None)
        return list(self.asked)

    def test_one_stream_needs_no_event(self):
        self.assertEqual(self.calls(1, 100), [])

    def test_a_change_of_stream_waits_for_the_call_before(self):
        self.calls(1)
        self.assertEqual(self.calls(2), [("record", 1), ("wait", 2), ("record", 2)])
        self.assertEqual(self.calls(1), [("wait", 1), ("record", 1)])

    def test_no_event_once_a_stream_was_kept_for_long(self):
        self.calls(1)
        self.calls(2)
        self.assertEqual(self.calls(2, 100), 31 * [("record", 2)])
        self.assertEqual(self.calls(1), [("record", 2), ("wait", 1), ("record", 1)])


class TestLink(unittest.TestCase):
    def test_a_link_that_cannot_be_made_gives_its_memory_back(self):
        comm = mock.Mock(outputs=mock.Mock(side_effect=KeyError("fp8")), info=mock.Mock(dtypes=4))
        with mock.patch("epcomm.deepep.link.Comm", return_value=comm):
            self.assertRaises(KeyError, Link, "no.pack", None, 0, RANKS, torch.device("cpu"), None, 1, Lane(torch.device("cpu")))
        comm.abandon.assert_called_once_with()


class TestCollector(unittest.TestCase):
    def test_the_end_of_a_buffer_calls_no_driver(self):
        """Checks that a deleted Buffer frees nothing before give_back_left, because Python may delete it during a
        capture."""
        buffer, comm = Buffer.__new__(Buffer), mock.Mock()
        link = mock.Mock(comm=comm)
        buffer._links = {"bf16": link, "fp8": link}
        del buffer
        self.assertEqual(comm.mock_calls, [])
        links.give_back_left()
        self.assertEqual(comm.mock_calls, [mock.call.abandon()])

    def test_events_go_from_one_handle_to_the_next(self):
        with stand_ins(), mock.patch.object(events, "_free", []):
            first = EventHandle()
            kept = first.event
            del first
            self.assertIs(EventHandle().event, kept)


class Rows:
    def record_stream(self, stream):
        pass


class TestGraphs(Streams):
    def whole(self):
        receive_before(self.link, 0)
        self.link.launch(None)

    def half(self):
        receive_before(self.link, 0)
        self.link.send(0, None, mock.Mock())
        return Half(self.link, 0, self.link.now(), [Rows()])

    def send(self):
        half = self.lane.run(None, False, self.half, ())[0]
        return lambda: self.lane.run(None, False, half.finish, ())

    def layer(self, hook=True):
        if hook:
            self.send()()
        else:
            self.lane.run(None, False, self.whole, ())

    def test_layers_in_and_out_of_graphs(self):
        for hook in (False, True):
            pools = streams.Stream(), streams.Stream()
            self.layer(hook)
            for pool in (pools[0], pools[0], pools[1]):
                with streams.graph(pool):
                    self.layer(hook)
                    self.layer(hook)
                    _, event = self.lane.run(None, True, lambda: None, ())
                    event.current_stream_wait()
            self.layer(hook)

    def test_a_hook_twice(self):
        hook = self.send()
        hook()
        with streams.graph(streams.Stream()):
            hook()
        hook()

    def test_what_one_graph_sends_no_other_receives(self):
        hook = self.send()
        with streams.graph(streams.Stream()):
            for late in (hook, self.send):
                self.assertRaisesRegex(RuntimeError, "^hook: .* in the same capture", late)
        hook()
        with streams.graph(streams.Stream()):
            hook = self.send()
        self.assertRaisesRegex(RuntimeError, "^hook: ", hook)
        self.layer()

    def test_a_hook_that_ran_keeps_nothing(self):
        half = self.lane.run(None, False, self.half, ())[0]
        half.finish()
        self.assertIsNone(half._rest)


def layers(buffer, rank):
    torch.manual_seed(rank)
    x, weights = torch.randn((5, 512)).to(torch.bfloat16), torch.rand((5, 4), dtype=torch.float32)
    ids = torch.rand((5, 16)).topk(4, dim=1)[1]
    want, pool, made = x.float() * weights.sum(dim=1, keepdim=True), streams.Stream(), []

    def layer():
        low, _, handle, _, hook = buffer.low_latency_dispatch(x, ids, 8, 16, use_fp8=False, return_recv_hook=True)
        hook()
        back, _, hook = buffer.low_latency_combine(low, ids, weights, handle, return_recv_hook=True)
        hook()
        low, _, handle, event, _ = buffer.low_latency_dispatch(back, ids, 8, 16, use_fp8=False, async_finish=True)
        event.current_stream_wait()
        again, event, _ = buffer.low_latency_combine(low, ids, weights, handle, async_finish=True)
        event.current_stream_wait()
        made.append((back, again))

    layer()
    for stream in (pool, pool, streams.Stream()):
        with streams.graph(stream):
            layer()
            layer()
    layer()
    for back, again in made:
        close(back, want, 6e-3)
        close(again, want * weights.sum(dim=1, keepdim=True), 1e-2)


def one_rank(rank, port):
    sys.path.insert(1, os.path.join(HERE, "../shim"))
    import deep_ep
    import torch.distributed as dist

    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", world_size=RANKS, rank=rank)
    buffer = deep_ep.Buffer(dist.group.WORLD, low_latency_mode=True, explicitly_destroy=True)
    layers(buffer, rank)
    buffer.destroy()
    dist.barrier()


class TestTwoRanks(unittest.TestCase):
    def test_graphs(self):
        run_ranks(self, one_rank, EPCOMM_NATIVE="0")


if __name__ == "__main__":
    unittest.main()
