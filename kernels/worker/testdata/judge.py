"""Checks the harness's comparison of tensors. Needs PyTorch."""

import pathlib
import sys
import types

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "native/python/workers"))

import torch  # noqa: E402
from harness import judge, tensors  # noqa: E402

TOKENS, HIDDEN = 4, 256
CPU = torch.device("cpu")


def session(rows, out, fp8=False, beside=None):
    """Returns a session of one rank whose tokens all go to expert 0 with weight 1. `rows` are the rows that it
    received, `beside` their experts and weights, and `out` its combined tokens."""
    count = len(rows)
    x, ids = tensors.tokens(1, 0, count, HIDDEN, CPU), torch.zeros(count, 1, dtype=torch.int64)
    weights = torch.ones(count, 1)
    library = types.SimpleNamespace(x=x, fp8=fp8, device=CPU, all_ids=[ids], all_weights=[weights], ids=ids, weights=weights, seen=lambda _: x, out=out)
    library.rows = lambda: (torch.zeros(count, dtype=torch.int64), torch.arange(count), beside or (ids, weights), rows)
    s = judge.GPUSession.__new__(judge.GPUSession)
    s.library = library
    s.work = types.SimpleNamespace(rank=0, ranks=1, local=1, topk=1, hidden=HIDDEN, capacity=count, tokens=count, counts=[count], problem={"experts": 1})
    return s


def with_row(x, value):
    x = x.clone()
    x[2] = value
    return x


def poison_is_wrong():
    """A row that keeps its poison is wrong, and the largest error says so."""
    x = tensors.tokens(1, 0, TOKENS, HIDDEN, CPU)
    right = (x.float() * 0.5).to(torch.bfloat16)
    good = session(x, right)
    assert good.compare_dispatch()["wrong"] == good.compare_combine()["wrong"] == 0
    for value in (float("nan"), float("inf"), 0.0):
        bad = session(with_row(x, value), with_row(right, value))
        dispatch, combine = bad.compare_dispatch(), bad.compare_combine()
        assert dispatch["wrong"] == 1 and "token 2" in dispatch["detail"], (value, dispatch)
        assert combine["wrong"] == 1 and combine["max_err"] == (1 if value == 0 else judge.NO_NUMBER), (value, combine)


def no_tokens():
    """A rank without tokens has nothing to compare."""
    for fp8 in (False, True):
        none = tensors.tokens(1, 0, 0, HIDDEN, CPU)
        assert none.shape == (0, HIDDEN) and tensors.dequantized(*tensors.quantized(none)).shape == none.shape
        s = session(none, none, fp8)
        for reply in (s.compare_dispatch(), s.compare_combine()):
            assert reply == {"rows": 0, "wrong": 0, "max_err": 0.0, "detail": ""}, reply


def beside_rows():
    """Experts and weights beside right rows are compared, and those of other ranks are not."""
    x = tensors.tokens(1, 0, TOKENS, HIDDEN, CPU)
    ids, weights = torch.zeros(TOKENS, 1, dtype=torch.int64), torch.ones(TOKENS, 1)
    for beside, wrong in (((ids, weights), 0), ((with_row(ids, -1), weights), 1), ((with_row(ids, 7), weights), 1),
                          ((ids, with_row(weights, 0.5)), 1), ((ids, with_row(weights, float("nan"))), 1)):
        reply = session(x, x, beside=beside).compare_dispatch()
        assert reply["wrong"] == wrong and ("experts or weights" in reply["detail"]) == bool(wrong), reply
    elsewhere = session(x, x, beside=(torch.cat([ids, ids + 1], 1), torch.cat([weights, weights * 3], 1)))
    for name, more in (("all_ids", ids + 1), ("all_weights", weights)):
        setattr(elsewhere.library, name, [torch.cat([getattr(elsewhere.library, name)[0], more], 1)])
    assert elsewhere.compare_dispatch()["wrong"] == 0


def rows_of_no_rank():
    """A row is wrong if its source rank does not exist, although rank and token together give the number of a right row."""
    x = tensors.tokens(1, 0, TOKENS, HIDDEN, CPU)
    for row, (source, token) in {2: (-1, 2 + TOKENS), 3: (1, 3 - TOKENS)}.items():
        s, sources, tokens = session(x, x), torch.zeros(TOKENS, dtype=torch.int64), torch.arange(TOKENS)
        sources[row], tokens[row] = source, token
        rows = x.clone()
        rows[row] = float("nan")
        beside = s.library.rows()[2]
        s.library.rows = lambda: (sources, tokens, beside, rows)
        assert s.compare_dispatch()["wrong"], (source, token)


poison_is_wrong()
no_tokens()
beside_rows()
rows_of_no_rank()
