"""Members of the core's classes that are written in Python.

What UntypedStorage can do beyond its bytes: share them, show parts, map files into memory. Short
names of dtypes, and offsets of generators.
"""

from __future__ import annotations

import os
import sys

import rushlight
from rushlight import Generator, UntypedStorage, dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

    from rushlight import Tensor
    from rushlight.types import Device, _dtype

_byte_at = UntypedStorage.__getitem__


class _Methods:
    def share_memory_(self) -> Self:
        """Move the bytes to where other processes can map them too, in place. Returns self."""
        if not self._try_share(False):
            raise RuntimeError(
                "share_memory_: other tensors (views, .data, detach() or numpy() of it, or a graph"
                " that saved it) look at this memory and cannot follow; call share_memory_() before"
                " they are made, or on a clone()"
            )
        return self

    def pin_memory(self, device: Device = "cuda") -> UntypedStorage:
        """Return a copy in page-locked memory; itself if it is there.

        Raises RuntimeError without an accelerator, whose transfers are what such memory serves.
        """
        if self.is_pinned(device):
            return self
        return as_tensor_of_bytes(self).pin_memory(device).untyped_storage()

    def is_pinned(self, device: Device = "cuda") -> bool:
        """Return whether the memory is page-locked: none is without an accelerator."""
        return as_tensor_of_bytes(self).is_pinned(device)

    def untyped(self) -> Self:
        """Return self, as a TypedStorage returns its bytes."""
        return self

    @property
    def is_cuda(self) -> bool:
        """Is it on a GPU?"""
        return self.device.type == "cuda"

    def get_device(self) -> int:
        """Return the number of the device; -1 on the CPU."""
        return as_tensor_of_bytes(self).get_device()

    def element_size(self) -> int:
        """Return 1: elements are bytes."""
        return 1

    def type(self) -> str:
        """Return the name of the class."""
        return "torch.storage.UntypedStorage"

    def to(self, *, device: Device, non_blocking: bool = False) -> UntypedStorage:
        """Return a copy on a device; this storage if it is there."""
        moved = as_tensor_of_bytes(self).to(device, non_blocking=non_blocking).untyped_storage()
        return self if moved.device == self.device else moved

    def cpu(self) -> UntypedStorage:
        """Return a copy on the CPU; this storage if it is there."""
        return self.to(device="cpu")

    def cuda(self, device: Device = None, non_blocking: bool = False) -> UntypedStorage:
        """Return a copy on a GPU, by default the current one; this storage if it is there."""
        place = "cuda" if device is None else device
        return self.to(device=place, non_blocking=non_blocking)

    def hpu(self, device: Device = None, non_blocking: bool = False) -> UntypedStorage:
        """Raises RuntimeError: there are no HPUs."""
        raise RuntimeError("UntypedStorage.hpu: rushlight has no HPU devices")

    def mps(self) -> UntypedStorage:
        """Raises RuntimeError: there are no MPS devices."""
        raise RuntimeError("UntypedStorage.mps: rushlight has no MPS devices")

    @property
    def is_hpu(self) -> bool:
        """Is it on an HPU? None is."""
        return False

    @property
    def is_sparse(self) -> bool:
        """Does it hold a sparse tensor? A storage holds numbers side by side."""
        return False

    is_sparse_csr = is_sparse

    @property
    def filename(self) -> str | None:
        """The file whose bytes these are, if `from_file` shares them with it; else None."""
        return _shared_file_at(self.data_ptr()) if self.device.type == "cpu" else None

    def new(self) -> UntypedStorage:
        """Return a storage without bytes on this device."""
        return rushlight.empty(0, dtype=rushlight.uint8, device=self.device).untyped_storage()

    @classmethod
    def from_buffer(
        cls,
        buffer: Any,
        byte_order: str | None = None,
        count: int = -1,
        offset: int = 0,
        dtype: _dtype | None = None,
    ) -> UntypedStorage:
        """Return a copy of the elements of a buffer, in the order that this machine has.

        Args:
            buffer: bytes, a bytearray, or another object with a buffer.
            byte_order: "big", "little" or "native": of each element in the buffer. Elements of one
                byte need none.
            count: how many elements; -1 for all.
            offset: how many bytes of the buffer to leave out.
            dtype: of the elements.
        """
        if dtype is None:
            raise RuntimeError("argument 'dtype' cannot be None")
        if byte_order is None and (dtype.itemsize > 1 or dtype is rushlight.bool):
            raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
        if byte_order not in (None, "big", "little", "native"):
            raise ValueError(
                f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')"
            )
        data, size = memoryview(buffer).cast("B"), dtype.itemsize
        if not 0 <= offset <= len(data):
            raise ValueError(
                f"offset must be non-negative and no greater than buffer length ({len(data)}),"
                f" but got {offset}"
            )
        data = data[offset:]
        if count < 0:
            if len(data) % size:
                raise ValueError(
                    f"buffer size ({len(data)}) must be a multiple of element size ({size})"
                )
            count = len(data) // size
        if count * size > len(data):
            raise ValueError(
                f"buffer has only {len(data) // size} elements after offset {offset}, but specified"
                f" a size of {count}"
            )
        if count == 0:
            return UntypedStorage(0)
        found = rushlight.frombuffer(bytearray(data[: count * size]), dtype=rushlight.uint8).clone()
        if dtype is rushlight.bool:
            found = found.ne(0)
        made = found.untyped_storage()
        if byte_order in ("big", "little") and byte_order != sys.byteorder:
            made.byteswap(dtype)
        return made

    def fill_(self, value: int) -> Self:
        """Set all bytes. Returns self."""
        as_tensor_of_bytes(self).fill_(value)
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool | None = None) -> Self:
        """Take the bytes of another storage of this size. Returns self."""
        as_tensor_of_bytes(self).copy_(as_tensor_of_bytes(source), non_blocking=bool(non_blocking))
        return self

    def byteswap(self, dtype: _dtype) -> None:
        """Turn the order of the bytes of each element of a dtype, in place."""
        size = dtype.itemsize // (2 if dtype.is_complex else 1)
        elements = as_tensor_of_bytes(self).view(-1, size)
        elements.copy_(elements.flip(1))

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, nbytes: int = 0) -> Any:
        """The first bytes of a file, read as they are touched.

        Args:
            shared: whether changes go to the file, which then grows if need be; else they stay in
                this process.
            nbytes: how many.
        """
        try:
            file = open(filename, "a+b" if shared else "rb")
        except OSError as error:
            mode = "read-write" if shared else "read-only"
            raise RuntimeError(
                f"unable to open file <{filename}> in {mode} mode: {error.strerror} ({error.errno})"
            ) from None
        with file:
            size = os.fstat(file.fileno()).st_size
            if size < nbytes and not shared:
                raise RuntimeError(
                    f"file <{filename}> size <{size}> is smaller than the required mapping size"
                    f" <{nbytes}>"
                )
            if size < nbytes:
                file.truncate(nbytes)
            if nbytes == 0:
                return cls(0)
            name = os.fsdecode(filename)
            return UntypedStorage._map_file(file.fileno(), nbytes, bool(shared), name)

    def __sizeof__(self) -> int:
        # With its bytes, as torch counts: summaries of models print what `sys.getsizeof` says.
        return object.__sizeof__(self) + self.nbytes()

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __getitem__(self, index: int | slice) -> Any:
        if self.device.type == "meta":
            raise NotImplementedError("Not available for 'meta' device type: there are no bytes")
        if not isinstance(index, slice):
            return _byte_at(self, index)
        start, stop, step = index.indices(len(self))
        if step != 1:
            raise RuntimeError(
                f"Trying to slice with a step of {step}, but only a step of 1 is supported"
            )
        return _on_buffer(memoryview(self)[start:stop]) if stop > start else UntypedStorage(0)


def as_tensor_of_bytes(storage: UntypedStorage) -> Tensor:
    """A uint8 tensor on the bytes of a storage."""
    return rushlight._C._tensor_on_storage(storage, rushlight.uint8, 0, (storage.nbytes(),), (1,))


def _shared_file_at(address):
    """The path of the file that is mapped at an address and shared with it, or None."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                first, _, rest = line.partition("-")
                fields = rest.rstrip("\n").split(maxsplit=5)
                if int(first, 16) == address and fields[1][3] == "s" and len(fields) == 6:
                    path = fields[5]
                    return path if os.path.exists(path) else None  # not memory without a name
    except OSError:
        pass  # a system without it
    return None


def _conversion(name, dtype):
    def convert(self):
        from rushlight.storage import TypedStorage

        return TypedStorage(as_tensor_of_bytes(self).to(dtype, copy=True).untyped_storage(), dtype)

    convert.__name__ = name
    convert.__doc__ = f"Return the bytes, each as a number of dtype {dtype}."
    setattr(_Methods, name, convert)


_CONVERSIONS = {
    "bfloat16": "bfloat16", "bool": "bool", "byte": "uint8", "char": "int8",
    "complex_double": "complex128", "complex_float": "complex64", "double": "float64",
    "float": "float32", "half": "float16", "int": "int32", "long": "int64", "short": "int16",
}  # fmt: skip
for _name, _dtype_name in _CONVERSIONS.items():
    _conversion(_name, getattr(rushlight, _dtype_name))


class _Float8:
    """A conversion to a dtype that is loaded when it is first used."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, storage: Any, kind: Any = None) -> Any:
        _conversion(self.name, getattr(rushlight, self.name))
        setattr(UntypedStorage, self.name, vars(_Methods)[self.name])
        return getattr(kind if storage is None else storage, self.name)


def _on_buffer(buffer):
    """A storage that is the memory of a buffer."""
    return rushlight.frombuffer(buffer, dtype=rushlight.uint8).untyped_storage()


def from_file(
    filename: str,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: _dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of the first `size` elements of a file, read as they are touched.

    Args:
        shared: whether changes go to the file; else they stay in this process.
    """
    dtype = dtype or rushlight.get_default_dtype()
    storage = UntypedStorage.from_file(filename, bool(shared), size * dtype.itemsize)
    result = rushlight.storage.tensor_on(storage, dtype, (size,))
    return result.to(device or "cpu").requires_grad_(requires_grad)


_ABBREVIATIONS = {
    "uint8": "u8", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "float16": "f16",
    "bfloat16": "bf16", "float32": "f32", "float64": "f64", "complex64": "c64",
    "complex128": "c128", "bool": "b8",
}  # fmt: skip


def _abbr(self) -> str:
    """The short name that listings of graphs use, as f32."""
    return _ABBREVIATIONS[str(self).removeprefix("torch.")]


def _philox_state(generator, method):
    if generator.device.type != "cuda":
        raise RuntimeError(f"{method}: the generator of a CPU does not use an offset")
    return generator.get_state()


def get_offset(self) -> int:
    """The numbers that a generator of a GPU has drawn so far, in each of its threads.

    Raises: RuntimeError for a generator of the CPU.
    """
    return int.from_bytes(bytes(_philox_state(self, "get_offset").tolist()[8:]), "little")


def set_offset(self, offset: int) -> Generator:
    """Let a generator of a GPU go on after so many numbers, a multiple of 4. Returns self.

    Raises: RuntimeError for a generator of the CPU.
    """
    state = _philox_state(self, "set_offset")
    if offset < 0 or offset % 4:
        raise RuntimeError(f"set_offset: offset must be a multiple of 4, not {offset}")
    state[8:] = rushlight.tensor(list(offset.to_bytes(8, "little")), dtype=state.dtype)
    self.set_state(state)
    return self


def install() -> None:
    """Give the classes the members of this module."""
    dtype.abbr = property(_abbr, doc=_abbr.__doc__)
    for method in (get_offset, set_offset):
        method.__qualname__ = f"Generator.{method.__name__}"
        setattr(Generator, method.__name__, method)
    for name in (
        "share_memory_", "pin_memory", "is_pinned", "untyped", "from_file", "__sizeof__",
        "__copy__", "__getitem__", "is_cuda", "get_device", "element_size", "type", "to", "cpu",
        "cuda", "fill_", "copy_", "byteswap", "hpu", "mps", "is_hpu", "is_sparse", "is_sparse_csr",
        "filename", "new", "from_buffer", *_CONVERSIONS,
    ):  # fmt: skip
        member = vars(_Methods)[name]
        function = getattr(member, "fget", getattr(member, "__func__", member))
        function.__qualname__ = f"UntypedStorage.{name}"
        setattr(UntypedStorage, name, member)
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"):
        setattr(UntypedStorage, name, _Float8(name))
