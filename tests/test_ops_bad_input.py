"""Bad input for every row: an exception or a result, never a crash and never a hang.

Calls are made in another process, which says on its way what it is about to call (bad_input.py); if
it dies it is started again after the call that killed it, and the test names that call. `make test`
makes one call of many; `make fuzz` makes all. Calls whose tensors have other numbers of dims than
their rows expect are made whole by both: who reads beyond a tensor's sizes seldom crashes, but
`make sanitize` ends the process (core/bounds.h).
"""

import os
import queue
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from bad_input import ROWS
from table import function

import rushlight as rl

HANG = 60  # seconds without a word, on a busy machine
CRASHES = 20  # after so many the rest of the part is left out
QUICK, ALL = (
    (7, 20),
    (1, 60),
)  # one call of so many, and changes of two arguments at once per sample


def lines_of(process):
    """The lines that a process writes; None where it is silent for too long."""
    lines = queue.Queue()

    def read():
        for line in process.stdout:
            lines.put(line.rstrip("\n"))
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=HANG)
        except queue.Empty:
            yield None
            return
        if not line:
            return
        yield line


def run_worker(kind, first, last, skip, effort):
    """What went wrong, and the number of the call that ended the process, or None."""
    program = Path(__file__).with_name("bad_input.py")
    command = [sys.executable, program, kind, first, last, skip, *effort]
    path = [str(Path(__file__).parent.parent), str(Path(__file__).parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*path, *sys.path])}
    found, call, silent = [], "", False
    with subprocess.Popen(
        map(str, command),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        for line in lines_of(process):
            if line is None:
                silent = True
                process.kill()
            elif line.startswith("BAD"):
                found.append(f"{call}: {line}")
            else:
                call = line
        errors = process.stderr.read()
    if process.returncode == 0:
        return found, None
    assert call, errors
    if any(sign in errors for sign in ("allocation-size-too-big", "out of memory: allocator")):
        return found, int(
            call.split()[0]
        )  # the address sanitizer ends the process where `new` raises bad_alloc
    found.append(
        f"{'no answer' if silent else f'exit {process.returncode}'}: {call}\n{errors[-2000:]}"
    )
    return found, int(call.split()[0])


def bad_calls(kind, first, last, effort):
    found, at = run_worker(kind, first, last, 0, effort)
    for _ in range(CRASHES):
        if at is None:
            break
        more, at = run_worker(kind, first, last, at, effort)
        found += more
    return found


@pytest.mark.parametrize("first", range(0, len(ROWS), 100))
def test_bad_input_raises(first):
    found = bad_calls("values", first, first + 100, QUICK)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("first", range(0, len(ROWS), 100))
def test_other_numbers_of_dims_raise_or_compute(first):
    found = bad_calls("dims", first, first + 100, (1, 4))
    assert not found, "\n".join(found)


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(0, len(ROWS), 50))
def test_all_bad_input_raises(first):
    found = bad_calls("values", first, first + 50, ALL) + bad_calls("dims", first, first + 50, ALL)
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("name", "args", "message"),
    [
        ("fft._c2c", (rl.ones((), dtype=rl.complex64), (0,), False, 1.0), "no dimensions"),
        ("fft._r2c", (rl.ones(()), 0, 1, False, 1.0, False), "no dimensions"),
        ("fft._c2r", (rl.ones((), dtype=rl.complex64), 0, 1, False, 1.0, False), "no dimensions"),
        ("linalg._lstsq", (rl.ones(2), rl.ones(2, 1), 1e-9, "gelsd"), "tensor A must have at lea"),
        ("linalg._lstsq", (rl.ones(2, 2), rl.ones(()), 1e-9, "gelsd"), "tensor B must have at le"),
        ("linalg._lstsq", (rl.ones(2, 2), rl.ones(3, 1), 1e-9, "gelsd"), "as many rows"),
        ("torch.ormqr", (rl.ones(3, 2), rl.ones(()), rl.ones(3, 2)), "tau.ndim equal to 0"),
        ("nn.functional.embedding", (rl.ones(2).long(), rl.ones(()), 1), "'weight' must be 2-D"),
    ],
)
def test_numbers_of_dims_are_named(name, args, message):
    with pytest.raises((RuntimeError, IndexError), match=message):
        function(rl, name)(*args)


@pytest.mark.parametrize("shape", [(), (1, 2)])
def test_bags_are_of_a_vector(shape):
    weight, indices = rl.ones(4, 3), rl.zeros(shape, dtype=rl.int64)
    with pytest.raises(RuntimeError, match=r"embedding_bag: indices must have 1 dim, got shape"):
        rl._embedding_bag_of(weight, indices, rl.zeros(1).long(), "sum", None, -1, False)
