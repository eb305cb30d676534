"""Tensors as objects: making them, converting them, copying them, subclassing them."""

import copy
import pickle

import numpy as np
import pytest

import rushlight as torch

DTYPES = "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split()


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        (True, "bool"),
        (1, "int64"),
        (1.0, "float32"),
        (1j, "complex64"),
        ([1, 2.5], "float32"),
        ([], "float32"),
    ],
)
def test_default_dtypes(values, dtype):
    assert torch.tensor(values).dtype is getattr(torch, dtype)


@pytest.mark.parametrize("values", [[[1, 2], [3]], "text", [1, "a"], [None], object()])
def test_what_is_no_tensor(values):
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        torch.tensor(values)


@pytest.mark.parametrize("name", DTYPES)
def test_numpy_shares_memory(name):
    array = np.ones((2, 3), dtype=name)
    x = torch.from_numpy(array)
    assert x.dtype is getattr(torch, name) and x.numpy() is not array
    array[0, 0] = 0
    assert x[0, 0].item() == 0
    x[1, 1] = 0
    assert array[1, 1] == 0


def test_dlpack_both_ways():
    array = np.arange(6.0).reshape(2, 3)
    x = torch.from_dlpack(array)
    array[0, 0] = 7
    assert x[0, 0].item() == 7
    np.testing.assert_array_equal(np.from_dlpack(x), array)


def test_buffers_and_arrays():
    x = torch.arange(3, dtype=torch.int32)
    assert np.asarray(x).tolist() == [0, 1, 2] and np.asarray(x).dtype == np.int32
    assert torch.frombuffer(bytearray(b"\x01\x00\x02\x00"), dtype=torch.int16).tolist() == [1, 2]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_copies(copied):
    x = torch.randn(3, 4, requires_grad=True)
    y = copied(x)
    assert y.tolist() == x.tolist() and y.requires_grad and y.data_ptr() != x.data_ptr()
    strided = copied(x.detach().t())
    assert strided.stride() == (1, 4)


def test_copies_keep_sharing():
    x = torch.zeros(4)
    a, b = copy.deepcopy((x, x[1:]))
    a[1] = 5
    assert b[0].item() == 5


def test_conversions_to_python():
    assert (
        float(torch.tensor(1.5)) == 1.5 and int(torch.tensor(3)) == 3 and bool(torch.tensor(True))
    )
    assert [10, 20][torch.tensor(1)] == 20 and complex(torch.tensor(1j)) == 1j
    assert (
        len(torch.zeros(3, 2)) == 3 and 2 in torch.tensor([1, 2]) and 5 not in torch.tensor([1, 2])
    )
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(torch.zeros(2))
    with pytest.raises(TypeError):
        len(torch.tensor(1))


def test_operators():
    x = torch.tensor([1.0, 2.0])
    assert (
        (2 - x).tolist() == [1.0, 0.0]
        and (2 / x).tolist() == [2.0, 1.0]
        and (2**x).tolist() == [2.0, 4.0]
    )
    assert (
        (x // 2).tolist() == [0.0, 1.0]
        and (x % 2).tolist() == [1.0, 0.0]
        and (-x).tolist() == [-1.0, -2.0]
    )
    assert (
        (x @ x).item() == 5.0
        and (x == 1).tolist() == [True, False]
        and abs(-x).tolist() == [1.0, 2.0]
    )
    same = x
    x += 1
    x *= 2
    assert same is x and x.tolist() == [4.0, 6.0]
    assert (~torch.tensor([True])).tolist() == [False] and (torch.tensor(5) & 3).item() == 1


def test_factories():
    assert (
        torch.zeros(2, 3).shape == (2, 3) and torch.ones((2,), dtype=torch.int8).dtype is torch.int8
    )
    assert torch.arange(1, 7, 2).tolist() == [1, 3, 5] and torch.eye(2).tolist() == [[1, 0], [0, 1]]
    assert (
        torch.linspace(0, 1, 3).tolist() == [0, 0.5, 1] and torch.full((2,), 7).dtype is torch.int64
    )
    assert torch.empty(3, device="meta").is_meta


def test_views_and_storages():
    x = torch.arange(12).view(3, 4)
    assert x.t().stride() == (1, 4) and x[1:].storage_offset() == 4 and not x.t().is_contiguous()
    assert x[1:].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    with pytest.raises(RuntimeError):
        x.t().view(12)
    assert x.as_strided((2, 2), (4, 1), 1).tolist() == [[1, 2], [5, 6]]


class Named(torch.Tensor):
    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


def test_subclasses():
    x = torch.tensor([1.0, 2.0]).as_subclass(Named)
    Named.calls.clear()
    y = torch.exp(x) + 1
    assert type(y) is Named and "exp" in Named.calls
    parameter = torch.nn.Parameter(torch.zeros(2))
    assert (
        isinstance(parameter, torch.Tensor)
        and parameter.requires_grad
        and type(parameter * 2) is torch.Tensor
    )


def test_storages_are_sliced_without_copies():
    x = torch.arange(8, dtype=torch.uint8)
    storage = x.untyped_storage()
    part = storage[2:6]
    assert type(part) is torch.UntypedStorage and part.tolist() == [2, 3, 4, 5]
    assert part.data_ptr() == storage.data_ptr() + 2 and storage[-1] == 7
    shared = torch.asarray(part, dtype=torch.uint8)
    shared[0] = 9
    assert x[2] == 9 and storage[5:2].nbytes() == 0 and storage.untyped() is storage
    del x, storage
    assert shared.view(torch.int16).shape == (2,) and shared[0] == 9
    with pytest.raises(RuntimeError, match="slice with a step of 2"):
        part[::2]


def test_files_are_mapped(tmp_path):
    path = str(tmp_path / "numbers")
    torch.arange(4.0).numpy().tofile(path)
    private = torch.from_file(path, size=3)
    assert private.tolist() == [0, 1, 2]
    private.fill_(7)
    shared = torch.from_file(path, shared=True, size=6, dtype=torch.float32)  # the file grows
    assert shared.tolist() == [0, 1, 2, 3, 0, 0]
    shared[5] = 5
    assert torch.UntypedStorage.from_file(path, False, 24)[20:].tolist() == [0, 0, 160, 64]
    assert torch.UntypedStorage.from_file(path).nbytes() == 0
    with pytest.raises(RuntimeError, match="smaller than the required mapping size <28>"):
        torch.from_file(path, size=7)
    with pytest.raises(RuntimeError, match="unable to open file <.*nothing> in read-only mode"):
        torch.from_file(str(tmp_path / "nothing"), size=1)


@pytest.mark.parametrize("dim", [0, -1, 1])
def test_a_tensor_of_no_dims_has_no_size(dim):
    for method in ("size", "stride"):
        with pytest.raises(IndexError, match=f"{method}: Dimension specified as {dim}"):
            getattr(torch.tensor(1.0), method)(dim)
