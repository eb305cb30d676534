"""Storages: the memory that tensors share, as bytes and as elements."""

from __future__ import annotations

import functools
import io
import operator
import sys

import rushlight
from rushlight import UntypedStorage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from typing_extensions import Self

    from rushlight import Tensor
    from rushlight.types import Device, _dtype

__all__ = ["TypedStorage", "UntypedStorage"]


def tensor_on(
    storage: Any,
    dtype: _dtype | None,
    size: Sequence[int],
    stride: Sequence[int] | None = None,
    offset: int = 0,
) -> Tensor:
    """A tensor whose elements are the bytes of an UntypedStorage, contiguous ones by default."""
    if stride is None:
        stride = [1] * len(size)
        for dim in reversed(range(len(size) - 1)):
            stride[dim] = stride[dim + 1] * max(1, size[dim + 1])
    if dtype is None or type(dtype) is rushlight.dtype:
        return rushlight._C._tensor_on_storage(storage, dtype, offset, size, stride)
    from rushlight._carried import _codecs, _tensor

    carrier = _codecs.carrier_of(dtype)
    return _tensor.make(tensor_on(storage, carrier, size, stride, offset), dtype)


def _untyped_of(storage: Any, dtype: _dtype) -> UntypedStorage:
    """The bytes of a storage whose elements are to be of a dtype."""
    if not isinstance(storage, TypedStorage):
        return storage
    if storage.dtype is not dtype:
        raise RuntimeError(
            f"Expected a Storage of type {dtype} or an UntypedStorage, but got one of "
            f"{storage.dtype}"
        )
    return storage.untyped()


def _elements_of(storage: TypedStorage | UntypedStorage, dtype: _dtype) -> Tensor:
    """The elements of a storage as a vector over the same memory."""
    untyped = _untyped_of(storage, dtype)
    return tensor_on(untyped, dtype, (untyped.nbytes() // dtype.itemsize,))


def _check_bytes(storage):
    if storage.device.type == "meta":
        raise NotImplementedError("Not available for 'meta' device type: there are no bytes")


class _StorageKind(type):
    """Storages of the dtype of a class like FloatStorage are its instances."""

    def __instancecheck__(cls, instance: object) -> bool:
        wanted = cls.__dict__.get("dtype")
        if not isinstance(wanted, rushlight.dtype):
            return type.__instancecheck__(cls, instance)
        return isinstance(instance, TypedStorage) and instance.dtype is wanted


class TypedStorage(metaclass=_StorageKind):
    """The elements of a storage, all of one dtype, in the order they have in memory.

    Args:
        source: how many elements, which are not set; or the elements, as a sequence; or the bytes,
            an `UntypedStorage`, which is shared.
        dtype: of the elements, by default the default dtype.
        wrap_storage: the bytes, given by name.
        device: where new elements are.
        _internal: pickles say it, as torch warns without.

    Example:
        >>> rushlight.FloatStorage([1, 2]).tolist()
        [1.0, 2.0]
    """

    dtype: _dtype

    def __init__(
        self,
        source: int | Sequence[Any] | UntypedStorage = (),
        dtype: _dtype | None = None,
        *,
        wrap_storage: UntypedStorage | None = None,
        device: Device = None,
        _internal: bool = False,
    ) -> None:
        super().__init__()
        dtype = dtype or type(self).__dict__.get("dtype") or rushlight.get_default_dtype()
        if wrap_storage is not None:
            source = wrap_storage
        if not isinstance(source, UntypedStorage):
            if hasattr(type(source), "__index__") and not hasattr(type(source), "__len__"):
                source = operator.index(source)
                if source < 0:
                    raise RuntimeError(f"TypedStorage: {source} elements are asked for")
                made = rushlight.empty(source, dtype=dtype, device=device)
            else:
                made = rushlight.tensor(list(source), dtype=dtype, device=device)
            source = made.untyped_storage()
        elif device is not None:
            raise RuntimeError("TypedStorage: a device is for new elements, and these are there")
        self._untyped, self.dtype = source, dtype

    @property
    def _elements(self) -> Tensor:
        # Made when it is asked for: memory that a tensor looks at does not move (resize_, sharing).
        return tensor_on(self._untyped, self.dtype, (len(self),))

    def __reduce_ex__(self, protocol: int) -> tuple[Any, ...]:
        # YAML asks for protocol 2, for a function with a name. Files do not know all dtypes.
        if protocol <= 2 and self.dtype in _STORAGE_OF:
            stream = io.BytesIO()
            rushlight.save(self, stream)
            return _load_from_bytes, (stream.getvalue(),)
        wraps = {"wrap_storage": self._untyped, "dtype": self.dtype, "_internal": True}
        return functools.partial(TypedStorage, **wraps), ()

    @property
    def _untyped_storage(self) -> UntypedStorage:
        return self._untyped

    @property
    def _cdata(self) -> int:
        return self._untyped._cdata

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def is_sparse(self) -> bool:
        return False

    @property
    def is_hpu(self) -> bool:
        """Is it on an HPU? None is."""
        return self._untyped.is_hpu

    @property
    def filename(self) -> str | None:
        """The file whose bytes these are, if `from_file` shares them with it; else None."""
        return self._untyped.filename

    @classmethod
    def from_file(cls, filename: str, shared: bool, size: int = 0) -> TypedStorage:
        """Return the first `size` elements of a file, read as they are touched.

        Args:
            shared: whether changes go to the file, which then grows if need be; else they stay in
                this process.
        """
        if cls is TypedStorage:
            raise RuntimeError("from_file can only be called on derived classes")
        if cls.__module__.endswith(".cuda"):
            raise RuntimeError("from_file: Not available for CUDA storage")
        untyped = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
        return TypedStorage(untyped, cls.dtype)

    @classmethod
    def from_buffer(
        cls, *args: Any, dtype: _dtype | None = None, device: Device = None, **kwargs: Any
    ) -> TypedStorage:
        """Return a copy of a buffer's elements: see `UntypedStorage.from_buffer`.

        Args:
            args, kwargs: buffer, byte_order, count and offset.
            dtype: of the elements: for `TypedStorage` alone; its subclasses have theirs.
            device: the CPU; for `TypedStorage` alone.
        """
        if cls is TypedStorage:
            dtype = rushlight.get_default_dtype() if dtype is None else dtype
            place = rushlight.device("cpu" if device is None else device)
            if place.type != "cpu":
                raise RuntimeError(
                    f"TypedStorage.from_buffer: Not available for device {place.type}"
                )
        else:
            for name, value in (("dtype", dtype), ("device", device)):
                if value is not None:
                    raise RuntimeError(
                        f"from_buffer: '{name}' can only be specified in UntypedStorage.from_buffer"
                        " and TypedStorage.from_buffer"
                    )
            if cls.__module__.endswith(".cuda"):
                raise RuntimeError("from_buffer: Not available for CUDA storage")
            dtype = cls.dtype
        return TypedStorage(UntypedStorage.from_buffer(*args, dtype=dtype, **kwargs), dtype)

    def get_device(self) -> int:
        """Return the number of the device; -1 on the CPU."""
        return self._elements.get_device()

    def cpu(self) -> TypedStorage:
        """Return this storage: it is on the CPU, or a copy that is."""
        return self if self.device.type == "cpu" else self.to(device="cpu")

    def cuda(self, device: Device = None, non_blocking: bool = False) -> TypedStorage:
        """Return a copy on a GPU, by default the current one."""
        place = "cuda" if device is None else device
        return self.to(device=place, non_blocking=non_blocking)

    def hpu(self, device: Device = None, non_blocking: bool = False) -> TypedStorage:
        """Raises RuntimeError: there are no HPUs."""
        return TypedStorage(self._untyped.hpu(device, non_blocking), self.dtype)

    def resizable(self) -> bool:
        """Return whether `resize_` may change the memory: it belongs to this library."""
        return self._untyped.resizable()

    def to(self, *, device: Device, non_blocking: bool = False) -> TypedStorage:
        """Return a copy on a device."""
        moved = self._elements.to(device, non_blocking=non_blocking)
        return TypedStorage(moved.untyped_storage(), self.dtype)

    def _converted(self, dtype: _dtype) -> TypedStorage:
        if dtype is self.dtype:
            return self
        return TypedStorage(self._elements.to(dtype).untyped_storage(), dtype)

    def fill_(self, value: Any) -> Self:
        """Set all elements. Returns self."""
        self._elements.fill_(value)
        return self

    def copy_(self, source: TypedStorage | Tensor, non_blocking: bool | None = None) -> Self:
        """Take the elements of another storage of this size. Returns self."""
        other = source._elements if isinstance(source, TypedStorage) else source
        self._elements.copy_(other, non_blocking=bool(non_blocking))
        return self

    def resize_(self, size: int) -> None:
        """Make room for `size` elements, in place.

        Raises:
            RuntimeError: it grows, and tensors look at this memory.
        """
        self._untyped.resize_(size * self.dtype.itemsize)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the name of the class, as "torch.FloatStorage", or a copy of another dtype."""
        if dtype is None:
            home = "torch.cuda" if self.is_cuda else "torch"
            return f"{home}.{_STORAGE_OF[self.dtype].__name__}"
        device = None
        if isinstance(dtype, str):
            home, _, name = dtype.rpartition(".")
            dtype = getattr(rushlight.cuda if home.endswith(".cuda") else rushlight, name)
        if isinstance(dtype, type):
            device = "cuda" if dtype.__module__.endswith(".cuda") else "cpu"
            dtype = dtype.dtype
        moved = self._elements.to(device, dtype, non_blocking=non_blocking)
        return TypedStorage(moved.untyped_storage(), dtype)

    def pickle_storage_type(self) -> str:
        """Return the name under which files know the class, as "FloatStorage"."""
        return _STORAGE_OF[self.dtype].__name__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TypedStorage):
            return NotImplemented
        return self._untyped is other._untyped and self.dtype is other.dtype

    def __hash__(self) -> int:
        return object.__hash__(self)

    def untyped(self) -> UntypedStorage:
        """Return the bytes."""
        return self._untyped

    @property
    def device(self) -> rushlight.device:
        return self._untyped.device

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self._untyped.data_ptr()

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self._untyped.nbytes()

    def element_size(self) -> int:
        """Return the bytes per element."""
        return self.dtype.itemsize

    def size(self) -> int:
        """Return the number of elements."""
        return len(self)

    def tolist(self) -> list[Any]:
        """Return the elements as a list."""
        return self._elements.tolist()

    def is_shared(self) -> bool:
        """Return whether the memory is shared with other processes."""
        return self._untyped.is_shared()

    def share_memory_(self) -> Self:
        """Move the elements to shared memory, in place. Returns self."""
        self._untyped.share_memory_()
        return self

    def pin_memory(self, device: Device = None) -> TypedStorage:
        """Return a copy in page-locked memory; itself if it is there.

        Raises RuntimeError without an accelerator, whose transfers are what such memory serves.
        """
        return TypedStorage(self._untyped.pin_memory(device), self.dtype)

    def is_pinned(self, device: Device = None) -> bool:
        """Return whether the memory is page-locked: none is without an accelerator."""
        return self._untyped.is_pinned(device)

    def clone(self) -> TypedStorage:
        """Return a copy."""
        return TypedStorage(self._untyped.clone(), self.dtype)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def __len__(self) -> int:
        return self._untyped.nbytes() // self.dtype.itemsize

    def __getitem__(self, index: Any) -> Any:
        _check_bytes(self._untyped)
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if isinstance(index, bool):
            raise TypeError(f"can't index a {type(self)} with {bool}")
        return self._elements[self._place(index)].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._elements[index if isinstance(index, slice) else self._place(index)] = value

    def _place(self, index):
        if not isinstance(index, int):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        return index

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    # As torch's own code and copies of it call these.
    _data_ptr, _element_size, _nbytes, _size = data_ptr, element_size, nbytes, size
    _resize_, _is_shared, _share_memory_ = resize_, is_shared, share_memory_
    _getitem, _setitem = __getitem__, __setitem__
    _pickle_storage_type = pickle_storage_type

    def _new_shared(self, size: int, *, device: Device = None) -> TypedStorage:
        """Elements of the same dtype that are not set, in memory that processes share."""
        device = self.device if device is None else device
        nbytes = size * self.dtype.itemsize
        return TypedStorage(UntypedStorage._new_shared(nbytes, device=device), self.dtype)

    def __repr__(self) -> str:
        lines = "".join(f" {value}\n" for value in self)
        kind = f"torch.storage.TypedStorage(dtype={self.dtype}, device={self.device})"
        return f"{lines}[{kind} of size {len(self)}]"


def _conversion(name, dtype):
    def convert(self):
        return self._converted(dtype)

    convert.__name__, convert.__qualname__ = name, f"TypedStorage.{name}"
    convert.__doc__ = f"Return the elements as {dtype}."
    setattr(TypedStorage, name, convert)


_STORAGE_OF: dict[_dtype, type] = {}
for _name, _method, _kind in (
    ("BFloat16Storage", "bfloat16", rushlight.bfloat16),
    ("BoolStorage", "bool", rushlight.bool),
    ("ByteStorage", "byte", rushlight.uint8),
    ("CharStorage", "char", rushlight.int8),
    ("ComplexDoubleStorage", "complex_double", rushlight.complex128),
    ("ComplexFloatStorage", "complex_float", rushlight.complex64),
    ("DoubleStorage", "double", rushlight.float64),
    ("FloatStorage", "float", rushlight.float32),
    ("HalfStorage", "half", rushlight.float16),
    ("IntStorage", "int", rushlight.int32),
    ("LongStorage", "long", rushlight.int64),
    ("ShortStorage", "short", rushlight.int16),
):
    _members = {
        "dtype": _kind, "__module__": "rushlight",
        "__doc__": f"Storages of {_kind}; see `TypedStorage`.",
    }  # fmt: skip
    _STORAGE_OF[_kind] = globals()[_name] = _StorageKind(_name, (TypedStorage,), _members)
    _conversion(_method, _kind)
for _kind in (
    rushlight.float8_e4m3fn, rushlight.float8_e4m3fnuz, rushlight.float8_e5m2,
    rushlight.float8_e5m2fnuz,
):  # fmt: skip
    _conversion(str(_kind).rpartition(".")[2], _kind)
Storage: type = _STORAGE_OF[rushlight.float32]


def _load_from_bytes(b):
    """The object that `save` wrote into these bytes."""
    return rushlight.load(io.BytesIO(b), weights_only=False)


def _get_dtype_from_pickle_storage_type(pickle_storage_type):
    """The dtype of the elements of "FloatStorage" and the like."""
    kind = getattr(sys.modules[__name__], pickle_storage_type, None)
    if kind is None:
        raise KeyError(f"pickle storage type {pickle_storage_type!r} is not recognized")
    return kind.dtype


StorageBase = UntypedStorage


if TYPE_CHECKING:

    class BFloat16Storage(TypedStorage): ...

    class BoolStorage(TypedStorage): ...

    class ByteStorage(TypedStorage): ...

    class CharStorage(TypedStorage): ...

    class ComplexDoubleStorage(TypedStorage): ...

    class ComplexFloatStorage(TypedStorage): ...

    class DoubleStorage(TypedStorage): ...

    class FloatStorage(TypedStorage): ...

    class HalfStorage(TypedStorage): ...

    class IntStorage(TypedStorage): ...

    class LongStorage(TypedStorage): ...

    class ShortStorage(TypedStorage): ...
