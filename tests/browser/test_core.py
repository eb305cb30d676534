"""The core in a browser: tensors, gradients, layers, optimizers, files, and what is not there."""

import importlib
import io

import pytest

import rushlight as torch
from rushlight import nn


def test_sums_views_and_types():
    x = torch.arange(12).reshape(3, 4)
    assert x.sum().item() == 66
    assert x[1:, ::2].tolist() == [[4, 6], [8, 10]]
    assert x.T.contiguous().stride() == (3, 1)
    assert (x.float() / 2).dtype == torch.float32
    assert (x > 5).sum().item() == 6
    x[0] = -1
    assert x[0].tolist() == [-1, -1, -1, -1]


def test_numbers_of_64_bits():
    """Sizes and integers have 64 bits, where pointers have 32."""
    large = torch.tensor([2**40, -(2**40)])
    assert (large + 1).tolist() == [2**40 + 1, -(2**40) + 1]
    meta = torch.empty(2**20, 2**20, device="meta")
    assert meta.numel() == 2**40
    assert meta[2**19 :].shape == (2**19, 2**20)
    wide = torch.zeros(1).expand(2**33)
    assert wide.shape == (2**33,)
    assert wide[2**32 :].shape == (2**32,)
    assert wide[2**33 - 1].item() == 0


@pytest.mark.parametrize("size", [2**31, 2**32, 2**32 + 1, 2**40])
def test_too_large_for_memory(size):
    with pytest.raises((RuntimeError, MemoryError), match="out of memory"):
        torch.empty(size, dtype=torch.uint8)
    assert torch.ones(3).sum().item() == 3


def test_same_seed_same_numbers():
    """The numbers of torch.manual_seed(0); torch.rand(3) and torch.randn(2)."""
    torch.manual_seed(0)
    assert torch.rand(3).tolist() == pytest.approx([0.49625658, 0.76822180, 0.08847743], abs=1e-7)
    torch.manual_seed(0)
    assert torch.randn(2).tolist() == pytest.approx([1.5409961, -0.2934289], abs=1e-6)


def test_errors_arrive():
    with pytest.raises(RuntimeError, match="mm|matmul"):
        torch.ones(2, 3) @ torch.ones(2, 3)
    with pytest.raises(IndexError):
        torch.ones(3)[5]


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients(create_graph):
    x = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
    y = (x.exp() * x.sin()).sum()
    (grad,) = torch.autograd.grad(y, x, create_graph=create_graph)
    expected = (x.exp() * (x.sin() + x.cos())).detach()
    assert torch.allclose(grad.detach(), expected)
    if create_graph:
        (second,) = torch.autograd.grad(grad.sum(), x)
        assert torch.allclose(second, 2 * x.detach().exp() * x.detach().cos())


def test_gradcheck_of_layers():
    torch.manual_seed(0)
    x = torch.randn(2, 2, 5, 5, dtype=torch.float64, requires_grad=True)
    w = torch.randn(3, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: nn.functional.conv2d(x, w, padding=1), (x, w))
    assert torch.autograd.gradcheck(lambda x: nn.functional.layer_norm(x, (5,)), (x,))


OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9},
    "Adam": {"lr": 0.1},
    "AdamW": {"lr": 0.1},
    "RMSprop": {"lr": 0.05},
    "Adagrad": {"lr": 0.5},
    "LBFGS": {"lr": 0.5},
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name):
    w = torch.tensor([3.0, -2.0], requires_grad=True)
    optimizer = getattr(torch.optim, name)([w], **OPTIMIZERS[name])

    def closure():
        optimizer.zero_grad()
        loss = (w - torch.tensor([1.0, 2.0])).square().sum()
        loss.backward()
        return loss

    first = closure().item()
    for _ in range(100):
        optimizer.step(closure)
    assert closure().item() < first / 100


LAYERS = {
    "linear": (lambda: nn.Linear(4, 3), (2, 4), (2, 3)),
    "conv": (lambda: nn.Conv2d(2, 3, 3), (1, 2, 6, 6), (1, 3, 4, 4)),
    "transposed": (lambda: nn.ConvTranspose2d(2, 3, 2, stride=2), (1, 2, 3, 3), (1, 3, 6, 6)),
    "norm": (lambda: nn.BatchNorm2d(2), (3, 2, 4, 4), (3, 2, 4, 4)),
    "group": (lambda: nn.GroupNorm(2, 4), (2, 4, 3), (2, 4, 3)),
    "attention": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 5, 8),
                  (2, 5, 8)),
    "pool": (lambda: nn.MaxPool2d(2), (1, 1, 4, 4), (1, 1, 2, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    make, given, expected = LAYERS[name]
    layer = make()
    x = torch.randn(given, requires_grad=True)
    y = layer(x)
    assert y.shape == expected
    y.square().sum().backward()
    assert x.grad is not None and torch.isfinite(x.grad).all()


def test_recurrent_layers():
    output, (hidden, cell) = nn.LSTM(3, 4)(torch.randn(5, 2, 3))
    assert output.shape == (5, 2, 4) and hidden.shape == cell.shape == (1, 2, 4)
    assert torch.equal(output[-1], hidden[0])


def test_save_and_load(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    torch.save(model.state_dict(), tmp_path / "model.pt")
    other = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    other.load_state_dict(torch.load(tmp_path / "model.pt"))
    x = torch.randn(5, 3)
    assert torch.equal(model(x), other(x))
    mapped = torch.load(tmp_path / "model.pt", mmap=True)  # read at once here
    assert torch.equal(mapped["0.weight"], model[0].weight)
    buffer = io.BytesIO()
    torch.save({"epoch": 3, "x": x}, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer)
    assert loaded["epoch"] == 3 and torch.equal(loaded["x"], x)


def test_data_loader():
    dataset = torch.utils.data.TensorDataset(torch.arange(10), torch.arange(10) * 2)
    loader = torch.utils.data.DataLoader(dataset, batch_size=4, shuffle=True)
    seen = [(a, b) for a, b in loader]
    assert [len(a) for a, _ in seen] == [4, 4, 2]
    assert sorted(torch.cat([a for a, _ in seen]).tolist()) == list(range(10))
    assert all(torch.equal(b, 2 * a) for a, b in seen)


@pytest.mark.parametrize("kind", ["process", "thread"])
def test_data_loader_without_workers(kind):
    with pytest.warns(UserWarning, match="num_workers=2, but this system"):
        loader = torch.utils.data.DataLoader(
            torch.arange(6), batch_size=2, num_workers=2, worker_type=kind, timeout=5,
            persistent_workers=True,
        )  # fmt: skip
    for _ in range(2):
        assert [b.tolist() for b in loader] == [[0, 1], [2, 3], [4, 5]]


def test_slices_beyond_addresses():
    x = torch.arange(5)
    assert x[: 2**40].tolist() == [0, 1, 2, 3, 4]
    assert x[-(2**40) :: 2**70].tolist() == [0]
    assert x[2**33 :].tolist() == []


@pytest.mark.parametrize("name", ["export", "jit", "onnx", "profiler", "distributed", "compiler"])
def test_modules_import(name):
    assert importlib.import_module(f"rushlight.{name}").__name__ == f"rushlight.{name}"


def test_no_other_processes():
    assert not torch.distributed.is_available()
    with pytest.raises(RuntimeError, match="no sockets"):
        torch.distributed.init_process_group(
            "gloo", init_method="tcp://127.0.0.1:29500", rank=0, world_size=2
        )


def test_one_thread():
    assert torch.get_num_threads() == 1
    torch.set_num_threads(4)  # of which the browser gives none: the caller does the work
    x = torch.ones(300_000)
    assert x.sum().item() == 300_000
    torch.set_num_threads(1)


def test_nothing_is_shared():
    with pytest.raises(RuntimeError, match="shared memory"):
        torch.ones(3).share_memory_()


def test_no_gpu():
    assert not torch.cuda.is_available()


def hermitian(n, dtype):
    x = torch.randn(n, n, dtype=dtype)
    return x + x.mH


DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(5, 5), (7, 4), (3, 6), (24, 20), (1, 1), (4, 0)])
def test_decompositions(shape, dtype):
    torch.manual_seed(0)
    a = torch.randn(*shape, dtype=dtype)
    limit = 1e-4 if dtype in (torch.float32, torch.complex64) else 1e-11

    def same(x, y):
        assert x.shape == y.shape
        assert x.numel() == 0 or (x - y).abs().max().item() < limit

    for full in (False, True):
        u, s, vh = torch.linalg.svd(a, full_matrices=full)
        few = min(shape)
        same((u[:, :few] * s.to(dtype)) @ vh[:few], a)
        same(u.mH @ u, torch.eye(u.shape[1], dtype=dtype))
        same(vh @ vh.mH, torch.eye(vh.shape[0], dtype=dtype))
        assert (s[:-1] >= s[1:]).all()
    q, r = torch.linalg.qr(a)
    same(q @ r, a)
    same(q.mH @ q, torch.eye(q.shape[1], dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [1, 2, 5, 30])
def test_square_matrices(n, dtype):
    torch.manual_seed(0)
    a = hermitian(n, dtype)
    limit = (1e-3 if dtype in (torch.float32, torch.complex64) else 1e-10) * n
    values, vectors = torch.linalg.eigh(a)
    assert (vectors * values.to(dtype) @ vectors.mH - a).abs().max().item() < limit
    assert (values[:-1] <= values[1:]).all()
    assert (torch.linalg.eigvalsh(a) - values).abs().max().item() < limit
    positive = a @ a.mH + n * torch.eye(n, dtype=dtype)
    lower = torch.linalg.cholesky(positive)
    assert (lower @ lower.mH - positive).abs().max().item() < limit
    upper = torch.linalg.cholesky(positive, upper=True)
    assert (upper.mH @ upper - positive).abs().max().item() < limit
    inverse = torch.linalg.inv(positive)
    assert (inverse @ positive - torch.eye(n, dtype=dtype)).abs().max().item() < limit


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (4, 4)])
def test_least_squares(shape, driver):
    torch.manual_seed(0)
    a = torch.randn(*shape, dtype=torch.float64)
    b = torch.randn(shape[0], 2, dtype=torch.float64)
    found = torch.linalg.lstsq(a, b, driver=driver)
    assert (found.solution - torch.linalg.pinv(a) @ b).abs().max().item() < 1e-9
    if shape[0] > shape[1] and driver != "gelsy":
        left_over = (a @ found.solution - b).square().sum(0)
        assert (found.residuals - left_over).abs().max().item() < 1e-9


def test_not_positive_definite():
    with pytest.raises(torch.linalg.LinAlgError, match="positive-definite"):
        torch.linalg.cholesky(-torch.eye(20))


def test_what_needs_lapack_says_so():
    with pytest.raises(NotImplementedError, match="LAPACK"):
        torch.linalg.eig(torch.randn(3, 3))
    with pytest.raises(NotImplementedError, match="LAPACK"):
        torch.linalg.ldl_factor(torch.eye(3))
