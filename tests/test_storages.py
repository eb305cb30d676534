"""Storages: their conversions, files and buffers, and the older names of storages and tensors."""

import copy
import gc
import pickle
import weakref

import pytest

import rushlight as rl
from rushlight import UntypedStorage
from rushlight.storage import TypedStorage


def test_conversions_of_bytes_and_of_elements():
    data = UntypedStorage(3).fill_(200)
    for name, dtype in (
        ("float", rl.float32), ("double", rl.float64), ("half", rl.float16),
        ("bfloat16", rl.bfloat16), ("int", rl.int32), ("long", rl.int64), ("short", rl.int16),
        ("byte", rl.uint8), ("complex_float", rl.complex64), ("complex_double", rl.complex128),
    ):  # fmt: skip
        made = getattr(data, name)()
        assert made.dtype is dtype and made.tolist() == [200] * 3
        assert made.data_ptr() != data.data_ptr()
    assert data.bool().tolist() == [True] * 3 and data.char().tolist() == [200 - 256] * 3
    for name in ("float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz"):
        made = UntypedStorage(2).fill_(3)
        assert getattr(made, name)().tolist() == [3.0, 3.0]
        small = getattr(rl.FloatStorage([0.5, -2]), name)()
        assert small.dtype is getattr(rl, name) and small.element_size() == 1
        assert small.float().tolist() == [0.5, -2.0]


def test_what_storages_are_not():
    for storage in (UntypedStorage(2), rl.FloatStorage(2)):
        assert not storage.is_hpu and not storage.is_sparse and storage.filename is None
        with pytest.raises(RuntimeError, match="no HPU devices"):
            storage.hpu()
    assert not UntypedStorage(2).is_sparse_csr and UntypedStorage(2).new().nbytes() == 0
    with pytest.raises(RuntimeError, match="no MPS devices"):
        UntypedStorage(2).mps()


def test_files(tmp_path):
    path = tmp_path / "numbers"
    path.write_bytes(rl.arange(4, dtype=rl.float32).numpy().tobytes())
    shared = rl.FloatStorage.from_file(str(path), True, 4)
    assert shared.tolist() == [0, 1, 2, 3] and shared.filename == str(path)
    shared.fill_(7)
    private = rl.IntStorage.from_file(str(path), False, 2)
    assert private.filename is None and private.float().untyped().nbytes() == 8
    assert rl.FloatStorage.from_file(str(path), False, 1).tolist() == [7]
    assert shared.untyped().filename == str(path) and not shared.resizable()
    assert rl.FloatStorage(1).resizable()
    for kind, message in (
        (TypedStorage, "derived classes"),
        (rl.cuda.FloatStorage, "Not available for CUDA"),
    ):
        with pytest.raises(RuntimeError, match=message):
            kind.from_file(str(path), False, 1)


def test_buffers():
    big = bytes([0, 1, 0, 2, 1, 0])
    assert rl.ShortStorage.from_buffer(big, "big").tolist() == [1, 2, 256]
    assert rl.ShortStorage.from_buffer(big, "little").tolist() == [256, 512, 1]
    assert rl.ShortStorage.from_buffer(big, "big", 1, 2).tolist() == [2]
    wide = rl.ComplexFloatStorage.from_buffer(bytes([63, 128, 0, 0, 192, 0, 0, 0]), "big")
    assert wide.tolist() == [1 - 2j]  # the parts are turned, not the whole
    made = UntypedStorage.from_buffer(b"\0\2", "native", dtype=rl.bool)
    assert made.tolist() == [0, 1]
    data = bytearray(b"ab")
    copied = rl.ByteStorage.from_buffer(data)  # elements of one byte have no order
    data[0] = 0
    assert copied.tolist() == [97, 98]
    made = TypedStorage.from_buffer(bytes(8), "native", dtype=rl.int64, device="cpu")
    assert made.dtype is rl.int64 and made.tolist() == [0]
    assert TypedStorage.from_buffer(bytes(8), "native").dtype is rl.float32


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: rl.ShortStorage.from_buffer(b"ab"), RuntimeError, "'byte_order'"),
        (lambda: rl.ShortStorage.from_buffer(b"ab", "middle"), ValueError, "invalid byte_order"),
        (lambda: rl.ShortStorage.from_buffer(b"abc", "big"), ValueError, r"size \(3\) must be"),
        (lambda: rl.ShortStorage.from_buffer(b"ab", "big", 2), ValueError, "only 1 elements"),
        (lambda: rl.ByteStorage.from_buffer(b"ab", "big", 1, 3), ValueError, "but got 3"),
        (lambda: rl.ByteStorage.from_buffer(b"a", dtype=rl.int8), RuntimeError, "'dtype' can only"),
        (lambda: rl.ByteStorage.from_buffer(b"a", device="cpu"), RuntimeError, "'device' can only"),
        (lambda: TypedStorage.from_buffer(b"", "big", device="meta"), RuntimeError, "device meta"),
        (lambda: rl.cuda.ByteStorage.from_buffer(b"a"), RuntimeError, "Not available for CUDA"),
        (lambda: UntypedStorage.from_buffer(b"a"), RuntimeError, "'dtype' cannot be None"),
    ],
)
def test_bad_buffers(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_older_names_of_storages():
    assert issubclass(rl.cuda.FloatStorage, TypedStorage)
    assert rl.cuda.HalfStorage.dtype is rl.float16
    storage = rl.FloatStorage([1, 2])
    assert isinstance(storage, rl.FloatStorage) and not isinstance(storage, rl.cuda.FloatStorage)
    assert storage.type("torch.IntStorage").tolist() == [1, 2]
    assert storage.type(rl.LongStorage).dtype is rl.int64 and storage.type() == "torch.FloatStorage"
    kind = rl.serialization.StorageType("HalfStorage")
    assert kind.dtype is rl.float16 and str(kind) == "StorageType(dtype=torch.float16)"
    with pytest.raises(NotImplementedError, match="Storage.nbytes"):
        rl.types.Storage().nbytes()


def test_older_names_of_tensors_have_their_methods():
    assert rl.FloatTensor.abs is rl.Tensor.abs
    x = rl.tensor([-1.0])
    assert rl.FloatTensor.add_(x, 3).tolist() == [2] and x.tolist() == [2]
    assert "add_" in dir(rl.LongTensor) and not hasattr(rl.LongTensor, "no_such_method")
    with pytest.raises(AttributeError, match="'torch.LongTensor' has no attribute 'nothing'"):
        rl.LongTensor.nothing  # noqa: B018
    for kind, is_cuda, is_sparse, layout in (
        (rl.FloatTensor, False, False, rl.strided),
        (rl.cuda.FloatTensor, True, False, rl.strided),
        (rl.sparse.FloatTensor, False, True, rl.sparse_coo),
    ):
        assert (kind.is_cuda, kind.is_sparse, kind.layout) == (is_cuda, is_sparse, layout)
        assert kind.dtype is rl.float32
    sparse = rl.zeros(2, 2).to_sparse()
    assert isinstance(sparse, rl.sparse.FloatTensor)
    assert not isinstance(sparse, (rl.sparse.LongTensor, rl.FloatTensor.__class__))
    assert not isinstance(rl.zeros(2, 2).to_sparse_csr(), rl.sparse.FloatTensor)


def test_short_names_of_dtypes():
    names = "float32 bfloat16 bool uint8 int64 complex64 float8_e4m3fn uint16 uint4 bits8 complex32"
    found = [getattr(rl, name).abbr for name in names.split()]
    assert found == "f32 bf16 b8 u8 i64 c64 f8e4m3fn u16 uint4 b8x1 c32".split()


def test_offsets_are_of_generators_on_gpus():
    for call in (rl.Generator().get_offset, lambda: rl.Generator().set_offset(4)):
        with pytest.raises(RuntimeError, match="does not use an offset"):
            call()
    if rl.cuda.is_available():
        generator = rl.Generator("cuda").manual_seed(1)
        assert generator.get_offset() == 0
        rl.rand(3, device="cuda", generator=generator)
        after = generator.get_offset()
        again = rl.rand(3, device="cuda", generator=generator)
        assert generator.set_offset(after) is generator
        assert (rl.rand(3, device="cuda", generator=generator) == again).all()


def test_resizing_is_a_change_in_place():
    x = rl.ones(2)
    versions = [(x.resize_(2), x._version)[1], (x.resize_(3), x._version)[1]]
    assert versions == [0, 1]
    weight = rl.ones(2, requires_grad=True)
    saved = rl.ones(2)
    y = (weight * saved).sum()
    saved.resize_(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_storages_have_attributes_and_weak_references():
    storage = rl.UntypedStorage(8)
    reference = weakref.ref(storage)
    storage.note, storage.itself = "kept", storage
    assert reference() is storage and vars(storage)["note"] == "kept"
    del storage
    gc.collect()
    assert reference() is None
    x = rl.ones(2)
    held = x.untyped_storage()
    held.note = 1
    assert x.untyped_storage().note == 1


class CountedStorage(rl.UntypedStorage):
    """A storage with more to it."""

    def __init__(self, size):
        self.count = size


def test_storages_of_subclasses():
    storage = CountedStorage(8)
    assert storage.count == storage.nbytes() == 8
    assert isinstance(storage, rl.UntypedStorage)
    x = rl.empty(0, dtype=rl.int64).set_(storage)
    x.fill_(1)
    assert x.untyped_storage() is storage and storage[0] == 1
    assert type(storage.clone()) is type(copy.deepcopy(storage)) is CountedStorage
    assert rl.tensor(storage).item() == 1


def test_a_storage_that_its_finalizer_keeps_stays_usable():
    kept = []

    class Kept(rl.UntypedStorage):
        def __del__(self):
            kept.append(self)

    storage = Kept(4)
    storage[0] = 7
    del storage
    assert kept[0][0] == 7


def test_asarray_of_storages():
    storage = rl.UntypedStorage([1, 2, 3, 4, 5, 6])
    shared = rl.asarray(storage[:4], dtype=rl.int16)
    assert shared.tolist() == [513, 1027]
    assert rl.asarray(storage, dtype=rl.float32).shape == (1,)  # the rest is left out
    whole, copied = (rl.asarray(storage, dtype=rl.uint8, copy=copy) for copy in (None, True))
    storage[0] = 9
    assert whole[0] == 9 and copied[0] == 1
    for dtype in (rl.uint8, rl.float64):
        for empty in (storage[2:2], rl.UntypedStorage(0)):
            made = rl.asarray(empty, dtype=dtype)
            assert made.shape == (0,) and made.dtype == dtype


def test_indices_of_typed_storages():
    storage = rl.tensor([1.0, 2.0, 3.0]).storage()
    assert storage[0] == 1 and storage[-1] == 3
    with pytest.raises(RuntimeError, match="slices are only supported in UntypedStorage"):
        storage[:1]
    with pytest.raises(TypeError, match="bool"):
        storage[True]
    for index in (1.5, "a", None, (0,)):
        with pytest.raises(RuntimeError, match="can't index"):
            storage[index]
        with pytest.raises(RuntimeError, match="can't index"):
            storage[index] = 1.0
    storage[1:], storage[0] = 7.0, 5.0
    assert storage.tolist() == [5, 7, 7]


@pytest.mark.parametrize("typed", [True, False])
def test_collating_into_new_shared_memory(typed):
    rows = [rl.arange(3.0) + i for i in range(2)]
    if typed:
        storage = rows[0]._typed_storage()._new_shared(6, device=rows[0].device)
        assert (storage._size(), storage.dtype, storage._is_shared()) == (6, rl.float32, True)
    else:
        storage = rows[0].untyped_storage()._new_shared(24, device=rows[0].device)
    made = rl.stack(rows, 0, out=rows[0].new(storage).resize_(2, 3))
    assert made.is_shared() and made.data_ptr() == storage.data_ptr()
    assert made.tolist() == [[0, 1, 2], [1, 2, 3]]
    with pytest.raises(RuntimeError, match="negative size"):
        UntypedStorage._new_shared(-1, device="cpu")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16, rl.uint16])
def test_typed_storages_are_pickled_by_each_protocol(dtype, protocol):
    storage = rl.tensor([1, 2, 3], dtype=dtype).storage()
    again = pickle.loads(pickle.dumps(storage, protocol))
    assert type(again) is TypedStorage and again.dtype is dtype
    assert again.tolist() == [1, 2, 3] and again.data_ptr() != storage.data_ptr()


def test_what_yaml_writes_of_a_storage_has_a_name_and_its_bytes():
    function, arguments = rl.arange(3.0).storage().__reduce_ex__(2)
    assert function.__module__ == "rushlight.storage" and function.__name__ == "_load_from_bytes"
    assert all(type(each) is bytes for each in arguments)
    assert function(*arguments).tolist() == [0, 1, 2]
