"""Compares the Triton kernels of harness.moves, run by Triton's interpreter, with what PyTorch computes in
their place on the host. Needs PyTorch; without Triton it checks nothing."""

import os
import pathlib
import sys

os.environ["TRITON_INTERPRET"] = "1"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "native/python/workers"))

import numpy  # noqa: E402
import torch  # noqa: E402
from harness import moves  # noqa: E402

# With NumPy 2.4.0 or newer, the interpreter of Triton 3.6 cannot run a loop whose bound was loaded from memory.
LOOPS = numpy.lib.NumpyVersion(numpy.__version__) < "2.4.0"
HOST, WIDTH = moves.on_host, 1500


def both(run):
    """Returns the results of run() by PyTorch and by the kernels."""
    moves.on_host, moves.programs = HOST, lambda device: 7
    want = run()
    moves.on_host = lambda t: False
    return want, run()


def near(a, b):
    assert a.shape == b.shape and torch.allclose(a.float(), b.float(), atol=1e-2, rtol=1e-2), (a - b).abs().max()


def order(alignment):
    torch.manual_seed(alignment)
    ids, rows, weights = torch.randint(-3, 5, (33, 4)).clamp(min=-1), torch.randn(33, WIDTH).bfloat16(), torch.rand(33, 4)

    def run():
        o = moves.Order(ids.shape, 5, 33 * 4 + 5 * alignment, "cpu", alignment, owned=True)
        o.place(ids)
        spread, sums = torch.zeros(o.capacity, WIDTH, dtype=torch.bfloat16), torch.full_like(rows, 7)
        o.spread(rows, spread)
        o.gather(spread, weights, sums)
        return o, spread, sums

    (a, spread_a, sums_a), (b, spread_b, sums_b) = both(run)
    assert torch.equal(a.ends, b.ends) and torch.equal(a.owners, b.owners) and torch.equal(a.slots >= 0, b.slots >= 0)
    for o, spread in ((a, spread_a), (b, spread_b)):  # rows of one expert may be in any order
        at = (ids >= 0).nonzero()
        assert torch.equal(spread[o.slots[ids >= 0].long()], rows[at[:, 0]])
        assert torch.equal(o.owners[o.slots[ids >= 0].long()].long(), ids[ids >= 0])
    near(sums_a, sums_b)


def activation(weights):
    x, ends = torch.randn(40, 2 * WIDTH).bfloat16(), torch.tensor([3, 3, 20], dtype=torch.int32)

    def run():
        out = torch.zeros(40, WIDTH, dtype=torch.bfloat16)
        moves.swiglu(x, out, ends, weights)
        return out

    a, b = both(run)
    near(a, b)
    assert not b[20:].any()


def masked():
    rows, counts = torch.randn(3, 10, 2 * WIDTH).bfloat16(), torch.tensor([3, 0, 10], dtype=torch.int32)

    def run():
        h, packed, back = (torch.zeros(*shape, dtype=torch.bfloat16) for shape in ((3, 10, WIDTH), (13, 2 * WIDTH), (3, 10, 2 * WIDTH)))
        moves.swiglu_masked(rows, h, counts)
        moves.pack(rows, packed, counts, counts.cumsum(0).int())
        moves.pack(back, packed, counts, counts.cumsum(0).int(), back=True)
        return h, packed, back

    (h_a, packed_a, back_a), (h_b, packed_b, back_b) = both(run)
    near(h_a, h_b)
    assert torch.equal(packed_a, packed_b) and torch.equal(back_a, back_b) and torch.equal(back_b[0, :3], rows[0, :3]) and not back_b[1].any()


def in_fp8():
    x, ends, counts = torch.randn(40, 2 * 256).bfloat16(), torch.tensor([3, 3, 20], dtype=torch.int32), torch.tensor([3, 0, 10, 7], dtype=torch.int32)

    def run():
        outs = [(torch.zeros(*shape, 256).to(torch.float8_e4m3fn), torch.zeros(*shape, 2)) for shape in ((40,), (4, 10))]
        moves.swiglu(x, outs[0], ends)
        moves.swiglu_masked(x.view(4, 10, -1), outs[1], counts)
        return outs

    (rows_a, masked_a), (rows_b, masked_b) = both(run)
    for a, b, used in ((rows_a, rows_b, slice(20)), (masked_a, masked_b, torch.arange(10) < counts[:, None])):
        value = lambda rows: (rows[0].float().unflatten(-1, (2, 128)) * rows[1][..., None])[used]
        # If rounding to E4M3 carries into the exponent, Triton's interpreter loses the carry.
        carried = (a[0].view(torch.uint8)[used] & 7 == 0).view(value(a).shape)
        assert torch.allclose(value(a)[~carried], value(b)[~carried], rtol=1 / 8, atol=1e-3), (value(a) - value(b))[~carried].abs().max()
        assert torch.allclose(a[1][used], b[1][used], rtol=1e-5)
    assert not rows_b[1][20:].any() and not masked_b[1][1].any()


if moves.triton is not None:
    order(1)
    order(128)
    if LOOPS:
        activation(None)
        activation(torch.rand(40))
        masked()
        in_fp8()
