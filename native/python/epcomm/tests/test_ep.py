"""Tests that EP refuses packs and tensors that do not fit, and that it copies and allocates on the right stream."""

import os
import sys
import types
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in ("../src", "emulated"):
    sys.path.insert(0, os.path.join(HERE, folder))

os.environ["EPCOMM_NATIVE"] = "0"

import emulated_streams as streams  # noqa: E402
import torch  # noqa: E402

import epcomm  # noqa: E402
from epcomm import ep as module  # noqa: E402


def stand_in(**info):
    """Returns a patch and a mock of a Comm. Inside the patch, EP uses this mock."""
    about = {"layout": 0, "hidden": 8, "topk": 2, "max_tokens": 4, "groups": 1, "experts": 2, "local_experts": 1, "ranks": 2,
             "in_flight": 1, "nodes": 1, "dtypes": 2, "default_dtype": 1}
    comm = mock.Mock(info=epcomm.Info(**{**about, **info}))
    return mock.patch.object(module, "Comm", return_value=comm), comm


def make(**info):
    patch, _ = stand_in(**info)
    with patch, mock.patch.object(module.native, "emulated_context", return_value=(0, mock.Mock())):
        return module.EP(pack="x.pack", device="cpu", rank=0, ranks=2, all_gather=lambda mine: mine * 2)


class TestEP(unittest.TestCase):
    def test_layouts(self):
        for layout, served in ((0, True), (1, True), (2, False), (3, False), (4, False)):
            if served:
                make(layout=layout)
                continue
            patch, comm = stand_in(layout=layout)
            with patch, self.assertRaisesRegex(ValueError, "^pack: layout (masked|rank|rank:packed), EP takes .* pack with --layout expert"):
                module.EP(pack="x.pack", device="cpu", rank=0, ranks=2, all_gather=lambda mine: mine * 2)
            comm.destroy.assert_called_once_with()

    def test_numbers_are_not_used_again(self):
        """Checks that a new EP never gets the number of a destroyed EP, which a compiled function may still hold."""
        first, second = make(), make()
        first.destroy()
        third = make()
        self.assertEqual(len({first.id, second.id, third.id}), 3)
        with self.assertRaisesRegex(epcomm.EpcommError, "was destroyed"):
            module._ep(first.id)

    def test_tensors_of_another_device(self):
        ep = make()
        x, ids, weights = torch.zeros((4, 8), dtype=torch.bfloat16), torch.zeros((4, 2), dtype=torch.int64), torch.zeros((4, 2))
        for name, args in (("x", (x.to("meta"), ids, weights)), ("topk_ids, weights", (x, ids.to("meta"), weights)), ("topk_ids, weights", (x, ids, weights.to("meta")))):
            with self.assertRaisesRegex(ValueError, f"^{name}: .*on .*meta.*give .* on cpu"):
                ep.dispatch(*args)

    def test_a_call_on_another_stream(self):
        ep, used, recorded = make(nodes=2), [], []
        ep.device, ep._settle = types.SimpleNamespace(type="cuda", index=0), None
        ep.y = lambda slot: torch.zeros((4, 8), dtype=torch.bfloat16)
        other, third, here, copy, empty = streams.Stream(), streams.Stream(), streams.current(), torch.Tensor.copy_, torch.empty

        def copied(into, value):
            used.append(("copy", streams.current()))
            return copy(into, value)

        def made(*args, device, **kwargs):
            used.append(("empty", streams.current()))
            return empty(*args, **kwargs)

        with mock.patch.multiple(torch.cuda, current_stream=streams.current, stream=streams.use), \
                mock.patch.object(torch.Tensor, "record_stream", lambda t, stream: recorded.append(stream)), \
                mock.patch.object(torch.Tensor, "copy_", copied), mock.patch.object(torch, "empty", made), \
                mock.patch.object(module, "lib"):
            ids, weights = torch.zeros((4, 2), dtype=torch.int32), torch.zeros((4, 2))
            y = torch.zeros((4, 8), dtype=torch.bfloat16)
            out = ep.combine(y, ids, weights, stream=other)
            halves = [ep.combine(y, ids, weights, stream=other, half="_send"), ep.combine(y, ids, weights, stream=third, half="_recv")]
        self.assertEqual((out.shape, halves[0] is halves[1]), ((4, 8), True))
        self.assertEqual(recorded, [here, here, third])
        self.assertEqual(used, [("empty", other), ("copy", other)] * 2)

    def test_outputs_are_views_of_the_heap(self):
        ep = make(hidden=256)
        out, scales = torch.arange(3 * 256).to(torch.uint8), torch.arange(2 * 3, dtype=torch.float32)
        offsets, experts, sources = (torch.arange(n, dtype=torch.int32) for n in (2, 1, 6))
        ep.comm.outputs.return_value = types.SimpleNamespace(
            max_rows=3, scales=2, out=out.data_ptr(), out_bytes=out.nbytes, out_scales=scales.data_ptr(), scale_bytes=scales.nbytes,
            row_offsets=offsets.data_ptr(), expert_ids=experts.data_ptr(), src_info=sources.data_ptr())
        view = ep._view(0, 2)
        self.assertEqual((view.out.dtype, view.out.shape), (torch.float8_e4m3fn, (3, 256)))
        self.assertTrue(torch.equal(view.out.view(torch.uint8), out.view(3, 256)))
        self.assertEqual(view.scales.tolist(), [[0, 1, 2], [3, 4, 5]])
        self.assertEqual((view.row_offsets.tolist(), view.expert_ids.tolist()), ([0, 1], [0]))
        self.assertEqual(view.src_info.tolist(), [[0, 1], [2, 3], [4, 5]])
        scales[4] = 9
        self.assertEqual(view.scales[1, 1].item(), 9)
        self.assertIs(ep._view(0, 2), view)

    def test_a_call_has_the_tensors_given(self):
        ep, weights = make(), torch.rand((3, 2))
        y, out = torch.zeros((4, 8), dtype=torch.bfloat16), torch.zeros((3, 8), dtype=torch.bfloat16)
        with mock.patch.object(module, "lib"):
            for dtype, bits in ((torch.int32, 32), (torch.int64, 64)):
                ids = torch.zeros((3, 2), dtype=dtype)
                ep.combine(y, ids, weights, out=out, fullest=4, routing=2, purpose=1)
                call = ep._calls[0]
                self.assertEqual((call.ids_bits, call.tokens, call.fullest, call.routing, call.purpose), (bits, 3, 4, 2, 1))
                self.assertEqual((call.topk_ids, call.weights, call.y, call.combined), tuple(t.data_ptr() for t in (ids, weights, y, out)))
            for error, name, wrong in (
                (TypeError, "topk_ids: torch.float32", (torch.zeros((3, 2)), weights, out)),
                (TypeError, "weights: torch.float64", (ids, weights.double(), out)),
                (ValueError, "not contiguous", (ids.T.contiguous().T, weights, out)),
                (ValueError, "^out: .* want contiguous bfloat16 .at least 3, 8", (ids, weights, out[:2])),
            ):
                with self.assertRaisesRegex(error, name):
                    ep.combine(y, *wrong[:2], out=wrong[2])

    def test_halves_have_one_out(self):
        ep, ids, weights = make(), torch.zeros((4, 2), dtype=torch.int32), torch.zeros((4, 2))
        y = torch.zeros((4, 8), dtype=torch.bfloat16)
        with mock.patch.object(module, "lib"):
            sent = ep.combine(y, ids, weights, half="_send")
            with self.assertRaisesRegex(ValueError, "^out: not the tensor that the send had"):
                ep.combine(y, ids, weights, half="_recv", out=torch.zeros_like(y))
            self.assertIs(ep.combine(y, ids, weights, half="_recv"), sent)
            self.assertEqual(ep._begun, [None])


if __name__ == "__main__":
    unittest.main()
