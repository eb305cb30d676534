"""rushlight-run: programs in files give the bits of Python, without Python."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_export import (
    BRANCHING,
    GPT,
    Indexing,
    LeNet,
    Operators,
    Recurrent,
    ResNet,
    nested_graphs,
)  # fmt: skip

import rushlight as torch
from rushlight import nn
from rushlight.export import Dim, export, save
from rushlight.utils._pytree import tree_leaves

np = pytest.importorskip("numpy")

BUILD = Path(__file__).parent.parent / "build" / "dev"
RUN = BUILD / "rushlight-run"

PROGRAMS = {
    "lenet": (LeNet, [torch.randn(3, 1, 28, 28)], [{0: Dim("n")}], [torch.randn(64, 1, 28, 28)]),
    "mlp": (
        lambda: nn.Sequential(nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10)),
        [torch.randn(1, 784)], None, None,
    ),
    "resnet": (lambda: ResNet().eval(), [torch.randn(2, 3, 32, 32)], None, None),
    "gpt": (
        GPT, [torch.randint(0, 50, (2, 8))], [{0: Dim("b"), 1: Dim("t")}],
        [torch.randint(0, 50, (3, 50))],
    ),
    "recurrent": (Recurrent, [torch.randn(2, 7, 4)], None, None),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16).eval(), [torch.randn(3, 2, 8)], None, None,
    ),
    "indexing": (Indexing, [torch.randn(4, 6), torch.tensor([1, 2])], None, None),
    "operators": (Operators, [torch.rand(4, 4) + 0.5], None, None),
    **{
        name: (make, list(inputs), shapes, list(others[-1]))
        for name, (make, inputs, others, shapes) in BRANCHING.items()
    },
}  # fmt: skip


def run(model, inputs, outputs, *options):
    command = [RUN, model]
    for path in inputs:
        command += ["--input", path]
    for path in outputs:
        command += ["--output", path]
    return subprocess.run(
        [*command, *options],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
        check=False,
    )


@pytest.mark.keeps_tensors("the parameters of the tests")
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_bits_as_python(name, tmp_path):
    make, inputs, dynamic_shapes, others = PROGRAMS[name]
    net = make()
    save(export(net, tuple(inputs), dynamic_shapes=dynamic_shapes), tmp_path / "model.rl")
    for given in (inputs, others):
        if given is None:
            continue
        want = [t.detach().numpy() for t in tree_leaves(net(*given))]
        files = [tmp_path / f"in{i}.npy" for i in range(len(given))]
        results = [tmp_path / f"out{i}.npy" for i in range(len(want))]
        for path, x in zip(files, given):
            np.save(path, x.numpy())
        done = run(tmp_path / "model.rl", files, results)
        assert done.returncode == 0, done.stderr
        for path, expected in zip(results, want):
            got = np.load(path)
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
            assert got.tobytes() == np.ascontiguousarray(expected).tobytes()


def saved(path):
    save(export(nn.Linear(3, 2), (torch.ones(2, 3),), dynamic_shapes=[{0: Dim("n", max=4)}]), path)
    return path


def test_inputs_are_checked(tmp_path):
    model = saved(tmp_path / "model.rl")
    for x, message in (
        (np.ones((2, 4), np.float32), "'input_1': expected size 3 in dim 1, got 4"),
        (np.ones((5, 3), np.float32), "n = 5 is outside of its range"),
        (np.ones((2, 3)), "expected dtype float32, got float64"),
        (np.ones(3, np.float32), "expected 2 dims, got 1"),
    ):
        np.save(tmp_path / "x.npy", x)
        done = run(model, [tmp_path / "x.npy"], [])
        assert done.returncode == 1 and message in done.stderr, done.stderr
    assert "expected 1 inputs, got 0" in run(model, [], []).stderr
    (tmp_path / "text.npy").write_text("no array at all")
    assert "is no .npy file" in run(model, [tmp_path / "text.npy"], []).stderr
    assert "input_1: float32 n 3" in run(model, [], [], "--describe").stdout


def test_damaged_files_are_errors(tmp_path):
    good = saved(tmp_path / "model.rl").read_bytes()
    bad = tmp_path / "bad.rl"
    for at in range(0, len(good), max(len(good) // 40, 1)):
        bad.write_bytes(good[:at])
        done = run(bad, [], [], "--describe")
        assert done.returncode == 1 and done.stderr.startswith("rushlight-run: "), (at, done)
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    random = np.random.default_rng(0)
    for _ in range(40):
        data = bytearray(good)
        data[random.integers(len(data))] ^= int(random.integers(1, 256))
        bad.write_bytes(data)
        assert run(bad, [tmp_path / "x.npy"], []).returncode in (0, 1)


def test_nested_graphs_are_an_error(tmp_path):
    (tmp_path / "deep.rl").write_bytes(nested_graphs(50_000))
    done = run(tmp_path / "deep.rl", [], [], "--describe")
    assert done.returncode == 1 and "nested too deeply" in done.stderr, done


@pytest.mark.skipif(not shutil.which("nm") or not shutil.which("ldd"), reason="needs binutils")
@pytest.mark.parametrize("file", ["rushlight-run"])
def test_no_python_inside(file):
    symbols = subprocess.run(
        ["nm", "-D", "--undefined-only", BUILD / file], capture_output=True, text=True, check=True
    ).stdout
    assert "memcpy" in symbols and " Py" not in symbols and " _Py" not in symbols
    libraries = subprocess.run(["ldd", BUILD / file], capture_output=True, text=True, check=True)
    assert "libc.so" in libraries.stdout and "python" not in libraries.stdout.split("=>")[0]
    assert "libpython" not in libraries.stdout


def test_scripts_run_too(tmp_path):
    def collatz(n: int, x: torch.Tensor):
        steps = 0
        while n != 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        if x.sum() > 0:
            x = x[:, 1:].reshape(x.shape[0], -1)
        return steps, x.reshape([x.size(0)] + [1] * n + [-1]) * float(n), [x + i for i in range(2)]

    torch.jit.script(collatz).save(tmp_path / "model.rl")
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    done = run(tmp_path / "model.rl", ["27", tmp_path / "x.npy"], [])
    assert done.stdout.splitlines()[:2] == [
        "output 0: 111", "output 1: float32 tensor of shape (2, 1, 2, )",
    ], done.stderr  # fmt: skip
    assert "expected a int, got float" in run(tmp_path / "model.rl", ["2.5", "1"], []).stderr


@pytest.mark.torch
def test_models_of_transformers(tmp_path):
    pytest.importorskip("transformers")  # which is there where torch is
    program = Path(__file__).parent / "export_transformers.py"
    done = subprocess.run(
        [sys.executable, program, RUN, tmp_path], capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.split()) == 10
