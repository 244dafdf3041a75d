"""Checks the harness's casts to FP8. Needs PyTorch. A GPU must give the same bits as the CPU."""

import pathlib
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "native/python/workers"))

import torch  # noqa: E402
from harness import judge, tensors  # noqa: E402

HIDDEN, RANK, SEED = 7168, 1, 1
MIDDLE = (83, 6487)  # token and column of an element in the middle of two codes, see probe_test.go


def low_latency(x):
    """x as DeepEP's low-latency kernels deliver it: they multiply by 448/amax."""
    groups = x.float().view(len(x), -1, tensors.GROUP)
    most = groups.abs().amax(-1)
    q = (groups * (torch.full_like(most, 448) / most)[..., None]).to(torch.float8_e4m3fn).view(x.shape)
    return tensors.dequantized(q, most * torch.tensor(1 / 448))


def wrong(device, delivered):
    """Returns how many tokens the worker finds wrong. Each token goes to one expert with gain 1 and weight 1.
    `delivered` holds the tokens as they arrive."""
    x = tensors.tokens(SEED, RANK, len(delivered), HIDDEN, device)
    ids = torch.full((len(x), 1), 32, device=device)
    library = types.SimpleNamespace(x=x, ids=ids, weights=torch.ones(len(x), 1, device=device), device=device, fp8=True,
                                    out=delivered.to(torch.bfloat16), seen=lambda rank: tensors.dequantized(*tensors.quantized(x)))
    session = judge.GPUSession.__new__(judge.GPUSession)
    session.library, session.work = library, types.SimpleNamespace(rank=RANK, tokens=len(x), hidden=HIDDEN, topk=1)
    return session.compare_combine()["wrong"]


def check(device):
    x = tensors.tokens(SEED, RANK, 128, HIDDEN, device)
    (q, scales), (q_cpu, scales_cpu) = tensors.quantized(x), tensors.quantized(x.cpu())
    assert torch.equal(q.cpu().view(torch.uint8), q_cpu.view(torch.uint8)) and torch.equal(scales.cpu(), scales_cpu), "other bits than the CPU's"
    assert q.float()[MIDDLE] == 352, q.float()[MIDDLE]  # its neighbour is 320
    ours, theirs = tensors.dequantized(q, scales), low_latency(x)
    assert theirs[MIDDLE] < ours[MIDDLE]
    assert wrong(device, ours) == 0
    assert wrong(device, theirs) == 0, "the other code in the middle of two is refused"
    for column, factor in ((MIDDLE[1], 12 / 11), (MIDDLE[1], 9 / 11), (0, 9 / 8)):
        off = ours.clone()
        off[MIDDLE[0], column] *= factor
        assert wrong(device, off) == 1, "column %d: a wrong code passes" % column


for name in ["cpu"] + ["cuda"] * torch.cuda.is_available():
    check(torch.device(name))
    print("ok on", name)
