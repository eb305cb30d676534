"""Plain pickles, as caches and queues hold them, from one library to the other."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

MAKE = """
import copyreg, pickle, sys, torch

def make():
    torch.manual_seed(0)
    tagged = torch.nn.Parameter(torch.ones(2))
    tagged.tag = 3
    base = torch.arange(6.0)
    return {
        "transposed": torch.arange(6.0).reshape(2, 3).t(), "view": base[2:], "base": base,
        "parameter": torch.nn.Parameter(torch.ones(2)), "tagged": tagged,
        "grad": torch.ones(2, requires_grad=True), "half": torch.ones(2, dtype=torch.bfloat16),
        "conjugate": torch.ones(2, dtype=torch.complex64).mul(1j).conj(),
        "meta": torch.empty(2, 3, device="meta"), "empty": torch.empty(0, 2),
        "sparse": torch.eye(2).to_sparse(), "compressed": torch.eye(2).to_sparse_csr(),
        "unsigned": torch.tensor([1, 2]).to(torch.uint16),
        "float8": torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn),
        "module": torch.nn.Linear(2, 2), "state": torch.nn.Linear(2, 2).state_dict(),
        "optimizer": torch.optim.Adam([torch.nn.Parameter(torch.ones(1))]),
        "dtypes": [torch.float32, torch.uint16, torch.float8_e5m2], "size": torch.Size([1, 2]),
        "layouts": [torch.strided, torch.sparse_coo, torch.channels_last],
        "generator": torch.Generator().manual_seed(3), "device": torch.device("cpu"),
        "normal": torch.distributions.Normal(torch.zeros(1), torch.ones(1)),
        "data": torch.utils.data.TensorDataset(torch.ones(2, 1)),
        "functions": [torch.relu, torch.nn.functional.relu],
        "storage": torch.arange(3).untyped_storage(),
    }

def compare(a, b):
    assert type(a).__name__ == type(b).__name__, (type(a), type(b))
    if isinstance(a, dict):
        for key in a:
            compare(a[key], b[key])
    elif isinstance(a, list) and isinstance(a, list):
        assert list(map(str, a)) == list(map(str, b)) or a == b
    elif isinstance(a, torch.Tensor):
        kind = (a.dtype, a.shape, a.layout, a.device, a.requires_grad, a.is_leaf)
        assert kind == (b.dtype, b.shape, b.layout, b.device, b.requires_grad, b.is_leaf), kind
        assert getattr(a, "tag", 0) == getattr(b, "tag", 0)
        if a.layout == torch.strided and not a.is_meta:
            assert a.stride() == b.stride() and a.is_conj() == b.is_conj()
            a, b = a.detach(), b.detach()
            assert torch.equal(a.to(torch.complex64), b.to(torch.complex64))
        elif not a.is_meta:
            assert torch.equal(a.detach().to_dense(), b.detach().to_dense())
    elif isinstance(a, torch.Generator):
        assert torch.equal(a.get_state(), b.get_state()) and a.initial_seed() == b.initial_seed()
    elif isinstance(a, torch.nn.Module):
        compare(dict(a.state_dict()), dict(b.state_dict()))
"""
PROGRAM = """
if sys.argv[1] == "write":
    with open(sys.argv[2], "wb") as file:
        file.write(pickle.dumps({name: pickle.dumps(value) for name, value in make().items()}))
else:
    with open(sys.argv[2], "rb") as file:
        read = {name: pickle.loads(value) for name, value in pickle.load(file).items()}
    expected = make()
    for name in expected:
        compare(expected[name], read[name])
"""


def program(library, step, path):
    run_by(library, MAKE + PROGRAM, step, path)


def run_by(library, code, *arguments):
    with_ours = ["-m", "rushlight"] if library == "rushlight" else []
    subprocess.run(
        [sys.executable, "-W", "ignore", *with_ours, "-c", code, *map(str, arguments)],
        check=True, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "python")},
    )  # fmt: skip


PAIRS = [("torch", "rushlight"), ("rushlight", "torch"), ("rushlight", "rushlight")]


@pytest.mark.parametrize(("writer", "reader"), PAIRS)
def test_either_library_reads_the_pickles_of_both(tmp_path, writer, reader):
    program(writer, "write", tmp_path / "pickles")
    program(reader, "read", tmp_path / "pickles")


def test_views_share_memory_within_a_pickle(tmp_path):
    code = (
        "import pickle, sys, torch\n"
        "x = torch.arange(4.0)\n"
        "open(sys.argv[1], 'wb').write(pickle.dumps([x, x[1:], torch.nn.Linear(1, 1)]))\n"
    )
    path = tmp_path / "shared"
    run_by("rushlight", code, path)
    whole, part, _ = pickle.loads(path.read_bytes())
    part[0] = 7
    assert whole.tolist() == [0, 7, 2, 3]
