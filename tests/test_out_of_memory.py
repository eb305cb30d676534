"""Where there is no memory: an exception, nothing lost, nothing left behind. See fuzz/memory.py."""

import shutil
import subprocess
import sys

import pytest
import sanitizers
from fuzz import __main__ as fuzz

can_fail = pytest.mark.skipif(
    not shutil.which("g++") or sanitizers.ADDRESS,
    reason="needs g++, and an allocator that is not a sanitizer's",
)
SLICE = 130  # the programs, and samples of the op table


@can_fail
def test_one_allocation_after_another_fails():
    found, cases, calls, _ = fuzz.run("memory", 0, 120, count=SLICE, timed=False)
    assert not found, "\n".join(f"--seed {one['seed']}: {one}" for one in found)
    assert cases == SLICE and calls > 20 * cases


@can_fail
def test_faults_are_found(tmp_path):
    """Programs that leak, lose the error and change an input where an allocation fails."""
    program = tmp_path / "faulty.py"
    program.write_text(f"""
import sys
sys.path[:0] = {[str(fuzz.TESTS), str(fuzz.ROOT)]!r}
from fuzz import memory
import rushlight as rl

def caught(act):
    def make():
        x = rl.ones(3)
        def call():
            try:
                return x + 1
            except rl.OutOfMemoryError:
                return act(x)
        return [x], call
    return make

def change_and_raise(x):
    x.zero_()
    raise rl.OutOfMemoryError

kept = []
rl.set_num_threads(1)
for act in (lambda x: x, lambda x: kept.append(x + 1), change_and_raise):
    make = caught(act)
    expected = memory.in_thread(lambda: memory.expected_of(make))
    print(memory.attempt(make, "one", 1, expected).problems)
""")
    env = {**fuzz.environment(), **fuzz.preloaded("memory", tmp_path)}
    run = subprocess.run([sys.executable, program], capture_output=True, text=True, env=env)
    wrong, leak, changed = run.stdout.splitlines()
    assert "a wrong result" in wrong and "leaks" in leak and "changed its inputs" in changed


@can_fail
def test_linear_algebra_without_work_memory(tmp_path):
    """A code of LAPACKE for it was taken for a decomposition that does not converge."""
    program = """
import ctypes
import rushlight as rl

failing = ctypes.PyDLL(None)
assert failing.watch_module(b"libscipy_openblas")
x = rl.rand(40, 40, dtype=rl.float64)
y = x + x.T
for f in (lambda: rl.linalg.svd(x), lambda: rl.linalg.eigh(y), lambda: rl.linalg.eig(x),
          lambda: rl.linalg.qr(x), lambda: rl.linalg.ldl_factor(y), lambda: rl.linalg.lstsq(x, y)):
    expected, told = list(f()), False
    for first in range(1, 10):
        failing.begin_failing(first, 1)
        try:
            found = list(f())
        except rl.OutOfMemoryError:
            told, found = True, expected
        made = failing.end_failing()
        assert all(map(rl.equal, found, expected)), first
        if made < first:
            break
    print(told)
"""
    env = {**fuzz.environment(), **fuzz.preloaded("memory", tmp_path)}
    # OpenBLAS's own kernels for AVX-512 write to what malloc gave without a look at it.
    env["OPENBLAS_CORETYPE"] = "Haswell"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert run.returncode == 0, run.stderr
    assert "True" in run.stdout and "False" in run.stdout  # of those that ask for memory and others


@pytest.mark.skipif(sys.platform != "linux" or sanitizers.ADDRESS, reason="needs RLIMIT_AS")
def test_a_collection_of_garbage_without_memory():
    """It ended the process. What it cannot find then, it finds when there is memory."""
    program = """
import gc, resource
import rushlight as rl

def cycles(n):
    for _ in range(n):
        x = rl.ones(2, requires_grad=True)
        y = (x * 2).exp()
        y.owner = [y, x]
        z = y.sin()
        z.register_hook(lambda g, z=z, y=y: None)
        x.cycle = z

gc.disable()
cycles(1)
gc.collect()
before = rl._C._live_tensors()
cycles(20000)
alive = rl._C._live_tensors()
with open("/proc/self/statm") as statm:
    size = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
held = []
for block in (1 << 14, 1 << 9):
    try:
        while True:
            held.append(bytearray(block))
    except MemoryError:
        pass
gc.collect()
assert rl._C._live_tensors() in (before, alive)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
del held
gc.collect()
assert rl._C._live_tensors() == before
"""
    subprocess.run([sys.executable, "-c", program], check=True)
