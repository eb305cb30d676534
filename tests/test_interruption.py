"""Ctrl-C stops long work within a second or two, and leaves everything usable."""

import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

import rushlight as rl

SANITIZED = "san.so" in os.environ.get("LD_PRELOAD", "")  # everything takes longer

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
    while True:  # a quick machine is through with some calls before the signal comes
        {work}
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
    "elementwise": ("x = rl.ones(2**22)", "x = x.lgamma().exp().digamma()"),
    "randperm": ("", "rl.randperm(100_000_000)"),
    "normal": ("x = rl.empty(200_000_000)", "x.normal_()"),
    "normal of doubles": ("x = rl.empty(100_000_000, dtype=rl.float64)", "x.normal_()"),
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
    "sort": ("x = rl.rand(2**24)", "x.sort()"),
    # Of these, most of the time goes into the sines and cosines of a length.
    "fft": ("x, n = rl.rand(2**25), 2**24", "n += 2**10; rl.fft.fft(x[:n])"),
    "fft of a prime": ("x, n = rl.rand(2**24), 2**23", "n += 1; rl.fft.fft(x[:n])"),
    "kthvalue": ("x = rl.rand(1).expand(2**27)", "x.kthvalue(5)"),
    "median of rows": ("x = rl.rand(1).expand(2**24, 128)", "x.median(1)"),
    "unique": ("x = rl.rand(2**24)", "x.unique()"),
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
    "tolist": ("x = rl.zeros(1).expand(2**20, 2**20)", "x.tolist()"),
    "tolist of rows": ("x = rl.zeros(1, dtype=rl.int64).expand(2**36, 2)", "x[:2**26].tolist()"),
    # Minutes, which the end of the process does not wait for either.
    "eig": ("x = rl.rand(6000, 6000)", "rl.linalg.eig(x)"),
    "svd": ("x = rl.rand(3000, 3000)", "rl.linalg.svd(x)"),
    "svds of a batch": ("x = rl.rand(4, 2500, 2500)", "rl.linalg.svdvals(x)"),
    "eigh": ("x = rl.rand(4000, 4000)", "rl.linalg.eigh(x)"),
    "qr": ("x = rl.rand(5000, 5000)", "rl.linalg.qr(x)"),
    "cholesky": ("x = rl.eye(9000, dtype=rl.float64)", "rl.linalg.cholesky(x)"),
    "ldl_factor": ("x = rl.eye(9000, dtype=rl.float64) + 1", "rl.linalg.ldl_factor(x)"),
    "lstsq": (
        "x, b = rl.rand(2500, 2500), rl.rand(2500, 1)",
        "rl.linalg.lstsq(x, b, driver='gelsd')",
    ),
    "ormqr": (
        "x, tau, c = rl.rand(6000, 6000) / 6000, rl.ones(6000), rl.rand(6000, 6000)",
        "rl.ormqr(x, tau, c)",
    ),
    "inverse": ("x = rl.rand(8000, 8000)", "rl.linalg.inv(x)"),
    "solve_triangular": (
        "x = rl.eye(10000)",
        "rl.linalg.solve_triangular(x, x, upper=True)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("work", WORK)
def test_control_c(work, threads):
    if SANITIZED and work == "nonzero":
        pytest.skip("the sanitizer allocates no 16 GiB")
    setup, call = WORK[work]
    program = PROGRAM.format(setup=setup, work=call, threads=threads)
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stderr[-2000:] or run.returncode
    assert run.stdout.startswith("interrupted after "), run.stdout
    # Of the processors' time, which does not pass while others use the machine.
    assert float(run.stdout.split()[-1]) < 3 * threads * (5 if SANITIZED else 1), run.stdout


def run_program(text):
    # A child has what other threads of its parent would have freed.
    options = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    run = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=600,
        env={**os.environ, "ASAN_OPTIONS": options},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:] or run.returncode
    return run.stdout


def test_what_an_interrupted_call_works_with_is_its_own():
    """The call goes on for a while: neither its input nor what is made next is touched by it."""
    out = run_program("""
import gc, signal
import rushlight as rl

def stop(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGALRM, stop)
x = rl.rand(900, 900, dtype=rl.float64)
before = x.clone()
stopped = 0
for _ in range(6):
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        rl.linalg.svd(x)
    except KeyboardInterrupt:
        stopped += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    gc.collect()
    others = [rl.full((900, 900), float(i), dtype=rl.float64) for i in range(8)]
    small = rl.linalg.svdvals(rl.eye(300) * 3)
    assert (small == 3).all()
    assert all((other == i).all() for i, other in enumerate(others))
assert stopped and x.equal(before)
u, s, vh = rl.linalg.svd(x)
assert rl.allclose(u @ s.diag() @ vh, x)
print("right")
""")
    assert out == "right\n"


def test_an_interrupted_call_does_not_hold_up_the_end():
    """The exit code and what was written are the program's, though the call still runs."""
    program = """
import atexit, signal, sys
import rushlight as rl

def stop(*_):
    sys.exit(7)

atexit.register(print, "at exit")
signal.signal(signal.SIGALRM, stop)
signal.setitimer(signal.ITIMER_REAL, 0.3)
print("before")
rl.linalg.eig(rl.rand(6000, 6000))
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 7, run.stderr
    assert run.stdout == "before\nat exit\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.parametrize("child", ["sys.exit(5)", "return"])
def test_a_fork_in_the_middle_of_a_call(child):
    """In the child it is not there: it cannot go on, and is not waited for at its end."""
    out = run_program(f"""
import os, signal, sys, time
import rushlight as rl

parent, child = os.getpid(), None
def fork(*_):
    global child
    child = os.fork()
    if child == 0:
        {child}

rl.linalg.svdvals(rl.eye(2))  # imports: a file that is being read has one position for both
signal.signal(signal.SIGALRM, fork)
x = rl.rand(700, 700)
while child is None:
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    try:
        s = rl.linalg.svdvals(x)
    except RuntimeError as error:
        assert os.getpid() != parent and "child of a fork" in str(error)
        sys.exit(5)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
if os.getpid() != parent:  # the signal came at another moment
    sys.exit(5)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
assert rl.allclose(s, rl.linalg.svdvals(x))
print("right")
""")
    assert out == "right\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_child_does_not_wait_for_calls_of_its_parent():
    out = run_program("""
import os, sys, threading, time
import rushlight as rl

x = rl.rand(1500, 1500)
rl.linalg.svdvals(rl.eye(2))  # is imported: a lock of an import under way would stay locked
work = threading.Thread(target=lambda: rl.linalg.svd(x))
work.start()
children = []
while work.is_alive() and len(children) < 5:
    time.sleep(0.05)
    child = os.fork()
    if child == 0:
        assert rl.linalg.svdvals(rl.eye(4)).sum() == 4
        sys.exit(6)
    children.append(child)
work.join()
for child in children:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 6
print("right")
""")
    assert out == "right\n"


def test_a_handler_may_change_what_tolist_reads():
    def change(*_):
        x.resize_(3)

    old, changed = signal.signal(signal.SIGALRM, change), False
    try:
        while not changed:
            x = rl.zeros(1 << 24)
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            try:
                x.tolist()
            except RuntimeError as error:
                changed = "has been changed meanwhile" in str(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    many = rl.complex(rl.arange(40000.0), rl.ones(40000))
    assert many.conj().tolist() == many.conj().resolve_conj().tolist()


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
