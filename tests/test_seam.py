"""The launch seam: nothing runs a kernel but through the table of its device's backend."""

import re
import subprocess
from pathlib import Path

import pytest

import rushlight
from ops.kernels import KERNELS

ROOT = Path(__file__).parent.parent
NAMES = [name for names in KERNELS.values() for name in names.split()]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "src" / "dispatch").glob("*.*")), ids=lambda path: path.name
)
def test_dispatch_calls_no_kernel_of_a_backend(path):
    """What it takes from there besides types and loops, numbers and sizes, it says at its head."""
    text = path.read_text()
    assert not re.findall(r"kernels::[a-z]\w*\(", text)
    assert not set(re.findall(r"\busing kernels::(\w+);", text)) & set(NAMES)


def test_a_kernel_is_named_once_and_declared_in_its_header():
    assert len(NAMES) == len(set(NAMES))
    for header, names in KERNELS.items():
        text = (ROOT / "src" / "kernels" / f"{header}.h").read_text()
        for name in names.split():
            assert re.search(rf"\b{name}\(", text), f"{header}.h does not declare {name}"


def test_a_backend_of_its_own_trains_a_network():
    program = ROOT / "build" / "dev" / "test_backend"
    result = subprocess.run([program], stdout=subprocess.PIPE, text=True, timeout=300)
    assert (result.returncode, result.stdout) == (0, "passed\n")


def test_a_device_without_a_backend_is_refused():
    with pytest.raises(RuntimeError, match="no backend is registered for device privateuseone"):
        rushlight.empty(2, device="privateuseone")


def test_kernels_of_one_call_are_on_one_device():
    with pytest.raises(RuntimeError, match="same device, but other is on meta"):
        rushlight.ones(2).add_(rushlight.empty(2, device="meta"))


def test_results_that_depend_on_elements_are_refused_on_meta():
    mask = rushlight.empty(3, dtype=rushlight.bool, device="meta")
    with pytest.raises(NotImplementedError, match="meta"):
        rushlight.nonzero(mask)


OUT = [
    ("add", 2), ("mul", 2), ("exp", 1), ("sqrt", 1), ("eq", 2), ("abs", 1), ("atan2", 2),
]  # fmt: skip


@pytest.mark.parametrize("name, count", OUT)
@pytest.mark.parametrize("shape", [(4,), (3, 5), (70, 300), (0, 3), ()])
def test_out_is_written_in_place(name, count, shape):
    function = getattr(rushlight, name)
    inputs = [rushlight.rand(shape) + 0.5 for _ in range(count)]
    wanted = function(*inputs)
    out = rushlight.empty(shape, dtype=wanted.dtype)
    address, version = out.data_ptr(), out._version
    assert function(*inputs, out=out) is out
    assert out.data_ptr() == address and out._version == version + 1
    assert rushlight.equal(out, wanted)


def test_out_of_another_layout_dtype_and_shape():
    a, b = rushlight.rand(4, 6), rushlight.rand(4, 6)
    transposed = rushlight.empty(6, 4).t()
    assert rushlight.equal(rushlight.add(a, b, out=transposed), a + b)
    assert transposed.stride() == (1, 4)
    wide = rushlight.empty(4, 6, dtype=rushlight.float64)
    assert rushlight.equal(rushlight.add(a, b, out=wide), (a + b).double())
    resized = rushlight.empty(0)
    assert rushlight.equal(rushlight.add(a, b, out=resized), a + b)
    total = a + b
    assert rushlight.equal(rushlight.add(a, b, out=a), total)
    with pytest.raises(RuntimeError, match="can't be cast"):
        rushlight.add(a, b, out=rushlight.empty(4, 6, dtype=rushlight.int64))


def test_out_that_lies_over_an_input_is_refused_or_whole():
    a = rushlight.arange(8.0)
    with pytest.raises(RuntimeError, match="single memory location"):
        rushlight.add(a[:-1], 1, out=a[1:])
    assert rushlight.add(a, 1, out=a).tolist() == list(range(1, 9))


def test_out_with_gradients_is_refused():
    a = rushlight.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        rushlight.add(a, 1, out=rushlight.empty(2))
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        rushlight.add(rushlight.ones(2), 1, out=a)


def test_public_kernel_headers_name_no_instruction_set():
    for header in (ROOT / "src" / "kernels").glob("*.h"):
        found = re.findall(r"RL_ISA\w*|kernels/cpu/|\bavx\w*|\bsse\w*", header.read_text())
        assert not found, f"{header.name}: {found}"
