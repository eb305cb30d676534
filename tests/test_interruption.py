"""Ctrl-C stops long work within a second or two, and leaves everything usable."""

import contextlib
import signal
import subprocess
import sys
import threading

import pytest

import rushlight as rl

PROGRAM = """
import os, signal, sys, threading, time
import rushlight as rl

rl.set_num_threads({threads})
# Whoever starts the tests in the background lets them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
{setup}
ready = threading.Event()
def interrupt():
    ready.wait()
    time.sleep(0.1)
    global sent
    sent = time.process_time()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    ready.set()
    {work}
    print("finished")
except KeyboardInterrupt:
    print("interrupted after", time.process_time() - sent)
# everything works as before
assert rl.arange(1000000).sum().item() == 499999500000
w = rl.ones(3, requires_grad=True)
(w * 2).sum().backward()
assert w.grad.tolist() == [2.0] * 3
assert rl.randn(3).shape == (3,)
"""

WORK = {
    "sum": ("x = rl.ones(1).expand(2**40)", "x.sum()"),
    "sum of rows": ("x = rl.ones(1, 1000).expand(2**30, 1000)", "x.sum(0)"),
    "max": ("x = rl.ones(1).expand(2**20, 2**20)", "x.amax(1)"),
    "elementwise": ("x = rl.ones(2**22)", "while True: x = x.lgamma().exp().digamma()"),
    "randperm": ("", "rl.randperm(100_000_000)"),
    "normal": ("x = rl.empty(200_000_000)", "x.normal_()"),
    "random": ("x = rl.empty(1_000_000_000, dtype=rl.int8)", "x.random_()"),
    "all": ("x = rl.ones(1, dtype=rl.bool).expand(2**42)", "x.all()"),
    "any of rows": ("x = rl.zeros(1, dtype=rl.bool).expand(2**22, 2**20)", "x.any(1)"),
    "masked_select": (
        "x = rl.ones(1).expand(2**36); m = rl.zeros(1, dtype=rl.bool).expand(2**36)",
        "x.masked_select(m)",
    ),
    "histc": ("x = rl.ones(1).expand(2**36)", "rl.histc(x)"),
    "nonzero": ("x = rl.zeros(1).expand(2**34)", "x.nonzero()"),
    "argmax": ("x = rl.ones(1).expand(2**38)", "x.argmax()"),
    "sort": ("x = rl.rand(2**24)", "while True: x.sort()"),
    "kthvalue": ("x = rl.rand(1).expand(2**27)", "x.kthvalue(5)"),
    "unique": ("x = rl.rand(2**24)", "while True: x.unique()"),
    "unique of rows": ("x = rl.randint(2, (2**22, 8))", "x.unique(dim=0)"),
    "cumsum": ("x = rl.ones(1).expand(2**28)", "x.double().cumsum(0)"),
    "cummax": ("x = rl.ones(1).expand(2**27)", "x.cummax(0)"),
    "logcumsumexp": ("x = rl.ones(1).expand(2**27)", "x.logcumsumexp(0)"),
    "product": ("x = rl.rand(1, dtype=rl.float64).expand(6000, 6000)", "x @ x"),
    "bincount": ("x = rl.zeros(1, dtype=rl.int64).expand(2**36)", "x.bincount()"),
    "scatter": (
        "n = 2**33; y, x = rl.zeros(1), rl.ones(1).expand(n); i = rl.zeros(1).long().expand(n)",
        "y.scatter_add_(0, i, x)",
    ),
    "index_add": (
        "n = 2**27; y, x = rl.zeros(1), rl.ones(1).expand(n); i = rl.zeros(1).long().expand(n)",
        "y.index_add_(0, i, x)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("work", WORK)
def test_control_c(work, threads):
    setup, call = WORK[work]
    program = PROGRAM.format(setup=setup, work=call, threads=threads)
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stderr[-2000:] or run.returncode
    assert run.stdout.startswith("interrupted after "), run.stdout
    # Of the processors' time, which does not pass while others use the machine.
    assert float(run.stdout.split()[-1]) < 3 * threads, run.stdout


def test_other_threads_run_during_serial_work():
    turns, stop, during = [], threading.Event(), 0

    def count():
        while not stop.wait(0.001):
            turns.append(None)

    other = threading.Thread(target=count)
    other.start()
    try:
        for _ in range(20):  # others may have had the processor in one of them
            before = len(turns)
            rl.zeros(1, dtype=rl.int64).expand(2**29).bincount()
            during = len(turns) - before
            if during >= 3:
                break
    finally:
        stop.set()
        other.join()
    assert during >= 3


def test_a_handler_that_returns_changes_nothing():
    calls = []
    old = signal.signal(signal.SIGALRM, lambda *_: calls.append(rl.rand(3)))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        total = rl.ones(1).expand(2**31).sum()
        rl.manual_seed(0)
        rl.empty(30_000_000).normal_()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert total.item() == 2.0**31 and calls


# ---- what would run for ever

NAN, INF = float("nan"), float("inf")


def matrices(value):
    for size, place in ((1, (0, 0)), (3, (0, 0)), (4, (1, 2)), (20, (19, 19)), (70, (3, 3))):
        for dtype in (rl.float32, rl.float64, rl.complex64):
            a = rl.eye(size, dtype=dtype)
            a[min(place[0], size - 1), min(place[1], size - 1)] = value
            yield a
            yield a.expand(2, size, size)
    yield rl.full((5, 3), value)


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_singular_values_of_what_is_not_finite(value):
    linalg, error = rl.linalg, rl.linalg.LinAlgError
    for a in matrices(value):
        for call in (linalg.svd, rl.svd, linalg.pinv):
            with pytest.raises(error, match="non-finite"):
                call(a)
        alone = (linalg.svdvals, lambda a: linalg.norm(a, 2, dim=(-2, -1)),
                 lambda a: linalg.matrix_norm(a, "nuc"), linalg.cond)  # fmt: skip
        for call in alone:
            if value != value:
                with pytest.raises(error, match="non-finite"):
                    call(a)
            else:
                assert call(a).isnan().all()
        if a.shape[-1] == a.shape[-2]:
            with pytest.raises(RuntimeError, match="infs or NaNs"):
                linalg.eig(a)
            for call in (linalg.eigh, linalg.eigvalsh):  # NaN, where their iteration ends
                with contextlib.suppress(error):
                    assert call(a) is not None
        for driver in ("gelsd", "gelss"):
            with pytest.raises(error, match="non-finite"):
                linalg.lstsq(a, rl.ones_like(a), driver=driver)
        linalg.lstsq(a, rl.ones_like(a), driver="gelsy")


def test_gradient_of_the_determinant_of_what_is_not_finite():
    for size in (3, 40):
        for value in (NAN, INF):
            numbers = rl.ones(2, size)
            numbers[0, 0], numbers[0, -1], numbers[1, -1] = value, 0, 0
            x = numbers.requires_grad_()
            (grad,) = rl.autograd.grad(rl.det(x.diag_embed()).sum(), x, create_graph=True)
            assert grad[0].isnan().all()
            of_neighbour = rl.tensor([0.0] * (size - 1) + [1.0])
            assert rl.allclose(grad[1], of_neighbour, atol=1e-5)
            grad.sum().backward()
