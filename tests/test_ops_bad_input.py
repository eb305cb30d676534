"""Bad input for every row: an exception or a result, never a crash and never a hang.

Calls are made in a subprocess, which says on its way what it is about to call; a worker that dies is
started again after the call that killed it, and the test names that call.
"""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from table import PUBLIC, Array, DType, case, function, tree_map

pytestmark = pytest.mark.fuzz

HANG = 60  # seconds without a line
CHUNK = 25
HUGE = 2**40


def bad_tensors(library, good):
    """What may come where the tensor `good` was expected."""
    yield from (None, "three", 1.5, [[1.0], [2.0, 3.0]], object(), float("nan"))
    for dtype in ("bool", "uint8", "int64", "float16", "bfloat16", "complex64"):
        if dtype != str(good.dtype).removeprefix("torch."):
            yield good.to(getattr(library, dtype))
    yield library.zeros(()).to(good.dtype)
    yield library.zeros(0).to(good.dtype)
    yield library.zeros(2, 0, 3).to(good.dtype)
    yield library.ones(7).to(good.dtype)
    yield library.ones(5, 7).to(good.dtype)
    yield library.ones(2, 1, 2, 1, 2, 1, 2).to(good.dtype)
    yield library.ones(1).to(good.dtype).expand(HUGE)
    yield library.ones(1).to(good.dtype).expand(3, HUGE, HUGE // 2)
    yield (good.double() if good.is_floating_point() else good) * -1000 if good.dtype != library.bool else good
    if good.is_floating_point():
        yield good * float("nan")
        yield library.empty(good.shape, device="meta")


def bad_values(value):
    """What may come where the plain argument `value` was expected."""
    if isinstance(value, (tuple, list)):
        kind = type(value)
        yield from (kind(), kind([-1] * len(value)), kind([HUGE] * len(value)), kind([*value, 1]), kind([0] * len(value)))
        yield from (kind([None] * len(value)), kind(["a"] * len(value)), kind([1.5] * len(value)), kind([2**63 - 1] * 2), kind([2**70]))
    yield from (None, "a", object(), -1, 0, 1000, HUGE, -HUGE, 2**63 - 1, -(2**63), 2**70)
    yield from (math.nan, math.inf, -math.inf, 1e300, 1j, True, [], [1, 2, 3], (-1, -1), (HUGE,))


def replaced(values, place, other):
    """`values`, a tuple or a dict, with another value at a place."""
    if isinstance(values, dict):
        return {**values, place: other}
    return values[:place] + (other,) + values[place + 1 :]


def variations(library, call):
    """(args, named) of each bad call that one good call gives."""
    args, named = call.arguments(lambda array: array.tensor(library))
    args, named = (tree_map(lambda d: getattr(library, d.name), v, DType) for v in (args, named))
    for group, values, originals in (("args", args, call.args), ("named", named, call.named)):
        places = range(len(values)) if group == "args" else list(values)
        for place in places:
            good = values[place]
            bad = bad_tensors(library, good) if isinstance(originals[place], Array) else bad_values(good)
            for other in bad:
                changed = replaced(values, place, other)
                yield (changed, named) if group == "args" else (args, changed)
    yield args[:-1], named
    yield (*args, 1), named
    yield args, {**named, "nonsense": 1}
    yield args, {**named, "out": "a"}
    yield args, {**named, "out": library.zeros(3, dtype=library.int16)}



def worker(first, last, skip):
    """Make the bad calls of PUBLIC[first:last], leaving out the first `skip` ones."""
    import resource
    import warnings

    import rushlight as rl

    warnings.simplefilter("ignore")
    gigabytes = 6
    resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30, gigabytes << 30))
    count = 0
    for op in PUBLIC[first:last]:
        for name in op.python_names[:1]:
            for args, named in variations(rl, case(op, 0)):
                count += 1
                if count <= skip:
                    continue
                print(f"{count} {name} {describe((args, named))}", flush=True)
                try:
                    function(rl, name)(*args, **named)
                except Exception as error:
                    if isinstance(error, SystemError):
                        print(f"BAD {error}", flush=True)


def describe(value):
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(map(describe, value)) + ")"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}={describe(v)}" for k, v in value.items()) + "}"
    if hasattr(value, "dtype"):
        return f"{value.dtype}{tuple(value.shape)}".removeprefix("torch.")
    return repr(value)[:40] if not type(value) is object else "object()"


def run_worker(first, last, skip):
    command = [sys.executable, __file__, str(first), str(last), str(skip)]
    path = [str(Path(__file__).parent.parent), str(Path(__file__).parent)]
    environment = {**os.environ, "PYTHONPATH": ":".join([*path, *sys.path])}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        output, errors = process.communicate(timeout=HANG)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        return "hang", output.splitlines(), errors
    return process.returncode, output.splitlines(), errors


def bad_calls(first, last):
    """Crashes, hangs and system errors of a part of the table."""
    found, skip = [], 0
    for _ in range(20):
        status, lines, errors = run_worker(first, last, skip)
        found += [f"{before}: {line}" for before, line in zip(lines, lines[1:]) if line.startswith("BAD")]
        if status == 0:
            break
        calls = [line for line in lines if not line.startswith("BAD")]
        assert calls, errors
        found.append(f"{'hang' if status == 'hang' else f'exit {status}'}: {calls[-1]} {errors[-300:]}")
        skip = int(calls[-1].split()[0])
    return found


@pytest.mark.parametrize("first", range(0, len(PUBLIC), CHUNK))
def test_bad_input_raises(first):
    found = bad_calls(first, first + CHUNK)
    assert not found, "\n".join(found)


if __name__ == "__main__":
    worker(*map(int, sys.argv[1:]))
