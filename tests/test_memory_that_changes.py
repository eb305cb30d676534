"""Indices, lengths and pivots in memory that somebody changes while an op reads them.

What an op checks is what it uses, so that it gives some result or an error, and touches no memory
but its own. Each op runs in a process of its own, as what it may do otherwise is to crash.
"""

import subprocess
import sys

import pytest

import rushlight as rl

SECONDS = 0.4

SETUP = """
import ctypes, sys, threading, time
import numpy as np
import rushlight as rl
import rushlight.nn.functional as F

n = 1 << 15
good = np.arange(n, dtype=np.int64) % 100
shared = good.copy()
t = rl.from_numpy(shared)
b = t.view(rl.uint8)[:n].view(rl.bool)
pivots = t.view(rl.int32)[:64]
x = rl.randn(n)
rows = rl.randn(100, 8)
target = rl.randn(100)

stop = False
def change():
    source = good.ctypes.data
    while not stop:  # ctypes lets the others run meanwhile
        ctypes.memset(shared.ctypes.data, 0x7f, shared.nbytes)
        ctypes.memmove(shared.ctypes.data, source, shared.nbytes)

def attempt():
    {op}

ran = failed = 0
thread = threading.Thread(target=change, daemon=True)
thread.start()
sys.setswitchinterval(1e-5)
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    try:
        attempt()
        ran += 1
    except (RuntimeError, IndexError, ValueError):
        failed += 1
stop = True
thread.join()
print("survived", ran + failed)
"""

OPS = {
    "gather": "target.gather(0, t)",
    "gather of columns": "rows.gather(0, t.view(-1, 8)[:100])",
    "scatter": "target.clone().scatter_(0, t, x)",
    "scatter of a number": "target.clone().scatter_(0, t, 1.0)",
    "scatter_add": "target.clone().scatter_add_(0, t, x)",
    "scatter_reduce": "target.clone().scatter_reduce_(0, t, x, 'amax')",
    "index_select": "rows.index_select(0, t)",
    "index": "rows[t]",
    "index of two": "rows[t % 100, t]",
    "index_put": "target.clone().index_put_((t,), x)",
    "index_add": "target.clone().index_add_(0, t, x)",
    "index_copy": "target.clone().index_copy_(0, t, x)",
    "index_fill": "target.clone().index_fill_(0, t, 1.0)",
    "take": "target.take(t)",
    "put": "target.clone().put_(t, x)",
    "take_along_dim": "rl.take_along_dim(target, t, 0)",
    "bincount": "rl.bincount(t[:4096].clamp(max=10**6))",
    "bincount of shared": "rl.bincount(t % 128, minlength=128); rl.bincount(t[:100])",
    "searchsorted": "rl.searchsorted(target, x, sorter=t[:100])",
    "one_hot": "F.one_hot(t[:1000], 100)",
    "repeat_interleave": "rl.repeat_interleave(x[:64], t[:64] & 255)",
    "repeat_interleave of shared": "rl.repeat_interleave(rl.ones(100), t[:100])",
    "embedding": "F.embedding(t, rows)",
    "embedding backward": "F.embedding(t, rows.clone().requires_grad_()).sum().backward()",
    "embedding_bag": "F.embedding_bag(t[:100], rows, t[:50])",
    "nll_loss": "F.nll_loss(rl.zeros(1000, 100, requires_grad=True), t[:1000]).backward()",
    "cross_entropy": "F.cross_entropy(rl.zeros(99, 100, requires_grad=True), t[:99]).backward()",
    "ctc_loss": "F.ctc_loss(rl.zeros(50, 4, 100).log_softmax(2), t[:40].view(4, 10) , "
    "t[40:44], t[1:5])",
    "max_unpool": "F.max_unpool1d(rl.ones(1, 1, 50), t[:50].view(1, 1, 50), 2)",
    "nonzero": "b.nonzero()",
    "masked_select": "x.masked_select(b)",
    "masked_scatter": "x.clone().masked_scatter_(b, x)",
    "mask": "x[b]",
    "assignment by mask": "x.clone()[b] = 1.0",
    "lu_solve": "rl.linalg.lu_solve(rl.eye(64), pivots, rl.ones(64, 2))",
    "lu_unpack": "rl.lu_unpack(rl.eye(64), pivots)",
    "ldl_solve": "rl.linalg.ldl_solve(rl.eye(64), pivots, rl.ones(64, 2))",
    "tensor_split": "rl.tensor_split(x, t[:5])",
    "sparse": "rl.sparse_coo_tensor(t.view(2, -1), x[: n // 2], (100, 100)).to_dense()",
    "floor_divide": "rl.arange(n) // t",
    "remainder": "rl.arange(n) % t",
    "fmod": "rl.fmod(rl.arange(n), t)",
    "packed": "rl.nn.utils.rnn.pack_padded_sequence(rl.ones(100, 4, 1), t[1:5], "
    "enforce_sorted=False)",
}


@pytest.mark.parametrize("op", OPS)
def test_what_is_checked_is_what_is_used(op):
    program = SETUP.format(op=OPS[op], seconds=SECONDS)
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0 and "survived" in run.stdout, run.stderr[-2000:] or run.returncode


# ---- numbers that no op made


@pytest.mark.parametrize("pivot", [-(2**31), 2**31 - 1, 0, -5, 5, -1])
def test_pivots_out_of_range_are_refused(pivot):
    pivots = rl.tensor([1, 2, 3, pivot], dtype=rl.int32)
    one, b = rl.eye(4), rl.ones(4, 2)
    with pytest.raises(RuntimeError, match="pivot"):
        rl.linalg.ldl_solve(one, pivots, b)
    with pytest.raises(RuntimeError, match="pivots"):
        rl.linalg.lu_solve(one, pivots, b)
    with pytest.raises(RuntimeError, match="pivots"):
        rl.lu_unpack(one, pivots)


def test_indices_of_a_sparse_tensor_are_its_own():
    places = rl.tensor([[0, 1], [2, 0]])
    sparse = rl.sparse_coo_tensor(places, [3.0, 4.0], (2, 3))
    places.fill_(1)
    assert sparse.to_dense().tolist() == [[0.0, 0.0, 3.0], [4.0, 0.0, 0.0]]


def test_indices_changed_through_a_sparse_tensor_are_checked():
    for change, coalesced in ((7, False), (-1, False), (7, True)):
        sparse = rl.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
        sparse = sparse.coalesce() if coalesced else sparse
        sparse._indices()[1, 0] = change
        with pytest.raises(RuntimeError, match="index"):
            sparse.to_dense()
    sparse = rl.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).coalesce()
    sparse._indices().copy_(rl.tensor([[1, 1], [1, 1]]))  # no longer sorted and different
    assert not sparse.is_coalesced()
    assert sparse.to_dense().tolist() == [[0.0, 0.0, 0.0], [0.0, 7.0, 0.0]]
