"""The installed C++ library and its C interface, used as others would: `make test-cpp`, and
`make test-wheel-cpp` with what pip installs."""

import ctypes
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.export import export, save

np = pytest.importorskip("numpy")

pytestmark = pytest.mark.cpp_library
ROOT = Path(__file__).parent.parent
INSTALLED = Path(os.environ.get("RUSHLIGHT_CPP", ROOT / "build" / "cpp"))
LIBRARY = INSTALLED / "lib" / "librushlight.so"
F = nn.functional


def run(*command, **options):
    done = subprocess.run(
        [str(c) for c in command], capture_output=True, text=True, timeout=300, check=False,
        **options,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """The examples, built by the CMake package."""
    folder = tmp_path_factory.mktemp("examples")
    run("cmake", "-S", ROOT / "examples" / "cpp", "-B", folder, f"-DCMAKE_PREFIX_PATH={INSTALLED}")
    run("cmake", "--build", folder)
    return folder


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 3, padding=1)
        self.conv2 = nn.Conv2d(6, 16, 3, padding=1)
        self.fc1 = nn.Linear(64, 84)
        self.fc2 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def test_lenet_learns_digits_as_in_python(examples, tmp_path):
    load_digits = pytest.importorskip("sklearn.datasets").load_digits
    digits = load_digits()
    images = (digits.images[:, None] / 16).astype(np.float32)
    np.save(tmp_path / "images.npy", images)
    np.save(tmp_path / "labels.npy", digits.target.astype(np.int64))
    text = run(examples / "lenet", tmp_path, tmp_path / "lenet.safetensors")
    accuracies = [float(a) for a in re.findall(r"digits ([\d.]+)", text)]
    assert len(accuracies) == 10 and accuracies[-1] > 0.85

    # The same program in Python has the same parameters in the end, bit for bit.
    torch.manual_seed(0)
    net = LeNet()
    optimizer = torch.optim.Adam(net.parameters(), 2e-3)
    x, y = torch.from_numpy(images), torch.from_numpy(digits.target.astype(np.int64))
    for _ in range(10):
        order = torch.randperm(1500)
        for at in range(0, 1500, 50):
            which = order[at : at + 50]
            optimizer.zero_grad()
            F.cross_entropy(net(x.index_select(0, which)), y.index_select(0, which)).backward()
            optimizer.step()
    from safetensors.numpy import load_file

    saved = load_file(tmp_path / "lenet.safetensors")
    assert saved.keys() == net.state_dict().keys()
    for name, value in net.state_dict().items():
        assert value.numpy().tobytes() == saved[name].tobytes(), name


def saved_model(path):
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = torch.arange(1.0, 7).reshape(2, 3)
    save(export(net, (x,)), path)
    return net(x).detach()


def test_c_example(examples, tmp_path):
    want = saved_model(tmp_path / "model.rl").sum().item()
    assert float(run(examples / "run_model", tmp_path / "model.rl")) == pytest.approx(
        want, rel=1e-7
    )
    done = subprocess.run(
        [examples / "run_model", tmp_path / "none.rl"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "cannot open" in done.stderr


def test_the_guide_with_what_pip_installs(tmp_path):
    pytest.importorskip("rushlight_cpp", reason="make test-wheel-cpp installs it")
    prefix = torch.utils.cmake_prefix_path
    assert Path(prefix).samefile(INSTALLED)
    guide = (ROOT / "docs" / "guide" / "cpp.md").read_text()
    _, project, program = re.findall(r"^```text\n(.*?)^```$", guide, re.MULTILINE | re.DOTALL)
    (tmp_path / "CMakeLists.txt").write_text(project)
    (tmp_path / "mine.cpp").write_text(program)
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", tmp_path / "build")
    run(tmp_path / "build" / "mine", cwd=tmp_path)
    load_file = pytest.importorskip("safetensors.numpy").load_file
    saved = load_file(tmp_path / "net.safetensors")
    net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    places = {"0": "hidden", "2": "last"}
    net.load_state_dict({
        name: torch.from_numpy(saved[f"{places[name[0]]}{name[1:]}"]) for name in net.state_dict()
    })  # fmt: skip
    x = torch.randn(64, 4)
    wanted = x.sum(1, keepdim=True)
    assert F.mse_loss(net(x), wanted) < 0.5 * F.mse_loss(wanted * 0, wanted)  # it has learned


@pytest.mark.skipif(not shutil.which("pkg-config"), reason="needs pkg-config")
def test_pkg_config(tmp_path):
    source = tmp_path / "main.cpp"
    source.write_text(
        "#include <rushlight/nn.h>\n#include <rushlight/optim.h>\n#include <cstdio>\n"
        "namespace torch = rushlight;\n"
        "int main() {\n"
        "  torch::Tensor w = torch::tensor(std::vector<float>{1, 2}, {2});\n"
        "  torch::set_requires_grad(w);\n"
        "  torch::optim::SGD sgd({w}, 0.5, {0.9});\n"
        "  for (int i = 0; i < 3; ++i) {\n"
        "    sgd.zero_grad();\n"
        "    torch::backward(torch::sum(w * w));\n"
        "    sgd.step();\n"
        "  }\n"
        '  std::printf("%g\\n", torch::item<double>(torch::sum(w)));\n'
        "  try {\n"
        "    torch::matmul(w, torch::ones({3}));\n"
        "  } catch (const torch::Error& error) {\n"
        '    std::printf("%s\\n", error.what());\n'
        "  }\n"
        "  torch::nn::MultiheadAttention attention(8, 2);\n"
        "  torch::nn::LSTM lstm(8, 4);\n"
        "  torch::Tensor x = lstm(attention(torch::ones({2, 3, 8}), torch::ones({2, 3, 8}),\n"
        "                                   torch::ones({2, 3, 8}), true));\n"
        '  std::printf("%ld\\n", (long)x.size(2));\n'
        "}\n"
    )
    flags = run(
        "pkg-config", "--cflags", "--libs", "rushlight",
        env={**os.environ, "PKG_CONFIG_PATH": str(INSTALLED / "lib" / "pkgconfig")},
    ).split()  # fmt: skip
    run("g++", "-Wall", "-Wextra", "-Werror", source, *flags, "-o", tmp_path / "main")
    first, error, width = run(tmp_path / "main").splitlines()
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    sgd = torch.optim.SGD([w], 0.5, momentum=0.9)
    for _ in range(3):
        sgd.zero_grad()
        (w * w).sum().backward()
        sgd.step()
    assert float(first) == pytest.approx(w.sum().item(), rel=1e-5)
    assert "matmul" in error or "size" in error
    assert width == "4"


# ---- the C interface, by ctypes


class Union(ctypes.Union):
    _fields_ = [
        ("tensor", ctypes.c_void_p), ("boolean", ctypes.c_int), ("integer", ctypes.c_int64),
        ("real", ctypes.c_double), ("string", ctypes.c_char_p), ("dtype", ctypes.c_int),
        ("pointer", ctypes.c_void_p),
    ]  # fmt: skip


class Value(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("count", ctypes.c_int64), ("as_", Union)]


TENSOR, BOOL, INT, FLOAT, STRING, DTYPE, INT_LIST, FLOAT_LIST, TENSOR_LIST = range(1, 10)
FLOAT32 = 8


class Library:
    def __init__(self):
        self.c = ctypes.CDLL(str(LIBRARY))
        self.c.rl_last_error.restype = ctypes.c_char_p
        self.c.rl_version.restype = ctypes.c_char_p
        self.c.rl_operation_name.restype = ctypes.c_char_p
        for name in ("rl_tensor_ndim", "rl_tensor_numel", "rl_tensor_size"):
            getattr(self.c, name).restype = ctypes.c_int64

    def must(self, status):
        if status:
            raise RuntimeError(self.c.rl_last_error().decode())

    def tensor(self, array):
        sizes = (ctypes.c_int64 * array.ndim)(*array.shape)
        made = ctypes.c_void_p()
        data = np.ascontiguousarray(array)
        self.must(self.c.rl_tensor_new(
            data.ctypes.data_as(ctypes.c_void_p), FLOAT32, sizes, ctypes.c_int64(array.ndim),
            ctypes.byref(made)))  # fmt: skip
        return made

    def numpy(self, t):
        shape = [
            self.c.rl_tensor_size(t, ctypes.c_int64(d)) for d in range(self.c.rl_tensor_ndim(t))
        ]
        out = np.empty(shape, np.float32)
        self.must(self.c.rl_tensor_read(t, out.ctypes.data_as(ctypes.c_void_p),
                                        ctypes.c_int64(out.nbytes)))  # fmt: skip
        return out

    def value(self, v):
        if isinstance(v, bool):
            return Value(BOOL, 0, Union(boolean=v))
        if isinstance(v, int):
            return Value(INT, 0, Union(integer=v))
        if isinstance(v, float):
            return Value(FLOAT, 0, Union(real=v))
        if isinstance(v, bytes):
            return Value(STRING, 0, Union(string=v))
        if isinstance(v, list):
            self.kept = (ctypes.c_int64 * len(v))(*v)
            return Value(INT_LIST, len(v), Union(pointer=ctypes.addressof(self.kept)))
        return Value(TENSOR, 0, Union(tensor=v))

    def call(self, name, *args, **kwargs):
        values = [*args, *kwargs.values()]
        packed = (Value * max(len(values), 1))(*map(self.value, values))
        names = (ctypes.c_char_p * max(len(values), 1))(
            *[None] * len(args), *(k.encode() for k in kwargs)
        )
        results, count = (ctypes.c_void_p * 4)(), ctypes.c_int64()
        self.must(self.c.rl_call(name.encode(), packed, ctypes.c_int64(len(values)), names, results,
                                 ctypes.c_int64(4), ctypes.byref(count)))  # fmt: skip
        found = [ctypes.c_void_p(results[i]) for i in range(count.value)]
        return found[0] if len(found) == 1 else found


def test_c_interface_by_ctypes(tmp_path):
    lib = Library()
    assert lib.c.rl_abi_version() == 1
    assert lib.c.rl_version().decode() == torch.__version__.partition("+")[0]
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = lib.tensor(a)
    assert (lib.numpy(lib.call("add", x, 2.5, alpha=2)) == a + 5).all()
    assert (lib.numpy(lib.call("transpose", x, 0, 1)) == a.T).all()
    values, indices = lib.call("topk", x, 2, dim=1)
    assert (lib.numpy(values) == [[2, 1], [5, 4]]).all()
    assert lib.c.rl_tensor_dtype(indices) == 5
    w = lib.tensor(np.ones((3, 2), np.float32))
    lib.must(lib.c.rl_tensor_set_requires_grad(w, 1))
    lib.must(lib.c.rl_backward(lib.call("sum", lib.call("matmul", x, w))))
    grad = ctypes.c_void_p()
    lib.must(lib.c.rl_tensor_grad(w, ctypes.byref(grad)))
    assert (lib.numpy(grad) == np.repeat(a.sum(0)[:, None], 2, 1)).all()
    for wrong, message in (
        (lambda: lib.call("no_such"), "no operation 'no_such'"),
        (lambda: lib.call("matmul", x, x), "2x3|shape"),
        (lambda: lib.call("relu", b"text"), "relu: argument 'input' must be a Tensor, got str"),
        (lambda: lib.call("relu", x, nothing=1), "has no argument 'nothing'"),
        (lambda: lib.call("add", x), "'other' is missing"),
        (lambda: lib.must(lib.c.rl_backward(x)), "no history"),
    ):
        with pytest.raises(RuntimeError, match=message):
            wrong()
    names = []
    while (name := lib.c.rl_operation_name(ctypes.c_int64(len(names)))) is not None:
        names.append(name.decode())
    assert len(names) > 600 and names == sorted(names) and "conv2d" in names

    want = saved_model(tmp_path / "model.rl")
    model = ctypes.c_void_p()
    lib.must(lib.c.rl_model_load(str(tmp_path / "model.rl").encode(), ctypes.byref(model)))
    inputs = (ctypes.c_void_p * 1)(lib.tensor(a + 1))
    results, count = (ctypes.c_void_p * 1)(), ctypes.c_int64()
    lib.must(lib.c.rl_model_run(model, inputs, ctypes.c_int64(1), results, ctypes.c_int64(1),
                                ctypes.byref(count)))  # fmt: skip
    assert lib.numpy(ctypes.c_void_p(results[0])).tobytes() == want.numpy().tobytes()
    lib.c.rl_model_free(model)


@pytest.mark.skipif(not shutil.which("nm"), reason="needs binutils")
def test_no_python_in_the_library():
    undefined = run("nm", "-D", "--undefined-only", LIBRARY)
    assert "malloc" in undefined and not re.search(r"\b_?Py[A-Z_]", undefined)
    assert "python" not in run("ldd", LIBRARY).replace(str(ROOT), "")


@pytest.mark.skipif(not shutil.which("nm"), reason="needs binutils")
def test_names_of_the_library_are_its_own():
    """A program that links to it takes its `exp` and `stat` from libc."""
    names = [line.split()[-1] for line in run("nm", "-D", "--defined-only", LIBRARY).splitlines()]
    assert len(names) > 2000
    assert [n for n in names if not re.match(r"rl_|_Z.*(2rl|9rushlight)", n)] == []
