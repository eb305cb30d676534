"""Reads and writes files from before the zip format: several pickles in a row, then the raw
storages.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys

import rushlight
from rushlight._checkpoint_reader import CheckpointReader
from rushlight._checkpoint_types import (
    STORAGE_DTYPES,
    bytes_of,
    storage_of,
    typed_storage,
)
from rushlight._checkpoint_writer import CheckpointWriter
from rushlight._core_members import as_tensor_of_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import TypedStorage, UntypedStorage
    from rushlight.serialization import _Placement
    from rushlight.types import _dtype

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001


def read_legacy(stream: Any, place: _Placement, unpickle: Callable[..., Any]) -> list[Any]:
    """Return the object in `stream`.

    The contents of storages follow the object, which may be made by what they say: the indices of
    a sparse tensor are checked. So the object is read twice, the first time for its storages alone.

    Args:
        stream: a seekable binary file.
        place: (storage, location) -> storage on the right device.
        unpickle: (stream, load_storage) -> object.
    """
    if _bytes_left(stream) == 0:
        raise EOFError("load: the file is empty")
    if _plain(stream) != _MAGIC:
        raise RuntimeError("load: the file is neither in the zip format nor in the one before it")
    if _plain(stream) != _PROTOCOL:
        raise RuntimeError("load: the file has an unknown version of the format before zip")
    system = _plain(stream)
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise RuntimeError("load: big-endian files are supported in the zip format only")
    storages, start = _BlankStorages(_bytes_left(stream), place), stream.tell()
    try:
        _References(stream, storages.make).read()
    except pickle.UnpicklingError:  # the other reader may know more, or says what is wrong
        stream.seek(start)
        result = unpickle(stream, storages.make)
        storages.fill(_plain(stream), stream)
        return result
    storages.fill(_plain(stream), stream)
    end = stream.tell()
    stream.seek(start)
    result = unpickle(stream, storages.make)
    stream.seek(end)
    return result


def write_legacy(obj, stream, protocol):
    """Write the object: magic number, version, sizes of numbers, the object, and its storages."""
    sizes = {"short": 2, "int": 4, "long": 4}
    system = {"protocol_version": _PROTOCOL, "little_endian": sys.byteorder == "little",
              "type_sizes": sizes}  # fmt: skip
    for value in (_MAGIC, _PROTOCOL, system):
        pickle.dump(value, stream, protocol=protocol)
    writer = _LegacyWriter(stream, protocol)
    writer.dump(obj)
    keys = sorted(writer.storages)
    pickle.dump(keys, stream, protocol=protocol)
    if hasattr(stream, "flush"):
        stream.flush()
    for key in keys:
        storage = writer.storages[key]
        if storage.device.type != "cpu":
            storage = as_tensor_of_bytes(storage).cpu().untyped_storage()
        stream.write(struct.pack("<q", storage.nbytes() // writer.element_size(key)))
        stream.write(bytes_of(storage))


class _LegacyWriter(CheckpointWriter):
    """Pickles one object whose storages follow it."""

    def persistent_id(self, obj):
        reference = super().persistent_id(obj)
        return reference and (*reference, None)  # no view of another storage

    def element_size(self, key):
        """How many bytes each element of a storage has."""
        dtype = STORAGE_DTYPES.get(self._dtypes[key].name)
        return 1 if dtype is None else dtype.itemsize


class _References(CheckpointReader):
    """Reads which storages an object refers to. Nothing is called, and no container is filled."""

    def _plain(self, value):
        return value

    _part = _plain

    def _append(self, items):
        pass

    _add = _set_items = _append

    def _made(self, count):
        for _ in range(count):
            self._pop()
        self._push(None)

    def _persistent(self):
        super()._persistent()
        self._made(1)

    _STEPS = {
        **CheckpointReader._STEPS,
        b"R": lambda self: self._made(2),
        b"\x81": lambda self: self._made(2),
        b"\x92": lambda self: self._made(3),
        b"\x91": lambda self: self._push(self._pop_to_mark() and None),
        b"b": lambda self: self._pop(),
        b"Q": _persistent,
    }


def _plain(stream):
    return CheckpointReader(stream, None).read()


def _bytes_left(stream):
    here = stream.tell()
    left = stream.seek(0, io.SEEK_END) - here
    stream.seek(here)
    return left


def _element_size(dtype):
    return 1 if dtype is None else dtype.itemsize


class _BlankStorages:
    """Storages by key, made when the object refers to them and filled later."""

    def __init__(self, budget: int, place: _Placement) -> None:
        self._budget = budget  # together they cannot hold more than the file
        self._place = place
        self._made = {}
        self._parts = {}

    def make(
        self, dtype: _dtype | None, key: str, location: str, count: int, view: Any = None
    ) -> TypedStorage | UntypedStorage:
        if not isinstance(dtype, (rushlight.dtype, type(None))) or not isinstance(key, str):
            raise pickle.UnpicklingError("a reference to a storage is damaged or not supported")
        if type(count) is not int or type(location) is not str:
            raise pickle.UnpicklingError("a reference to a storage is damaged")
        size = count * _element_size(dtype)
        if key not in self._made:
            self._budget -= size
            if size < 0 or self._budget < 0:
                raise pickle.UnpicklingError(f"storage {key} is larger than the file")
            blank = storage_of(bytearray(size), rushlight.uint8)
            self._made[key] = dtype, typed_storage(self._place(blank, location), dtype)
        known_dtype, made = self._made[key]
        if known_dtype is not dtype or made.nbytes() != size:
            raise pickle.UnpicklingError(f"storage {key} is described in two different ways")
        return made if view is None else self._part(made, dtype, view)

    def _part(self, whole, dtype, view):
        """A storage that is a part of another, (key, first element, number of elements)."""
        if type(view) is not tuple or list(map(type, view)) != [str, int, int]:
            raise pickle.UnpicklingError("a reference to a part of a storage is damaged")
        key, first, count = view
        if first < 0 or count < 0 or first + count > len(whole):
            raise pickle.UnpicklingError(f"part {key} is not within its storage")
        if key not in self._parts:
            width = _element_size(dtype)
            untyped = whole.untyped()[first * width : (first + count) * width]
            self._parts[key] = view, typed_storage(untyped, dtype)
        known_view, part = self._parts[key]
        if known_view != view:
            raise pickle.UnpicklingError(f"part {key} is described in two different ways")
        return part

    def fill(self, keys: Sequence[str], stream: Any) -> None:
        """Read the contents of the storages, which follow in the order of `keys`."""
        known = type(keys) is list and all(type(key) is str for key in keys)
        if not known or sorted(keys) != sorted(self._made):
            raise pickle.UnpicklingError("the file has other storages than its object refers to")
        for key in keys:
            self._fill(*self._made[key], stream)

    @staticmethod
    def _fill(dtype, storage, stream):
        (count,) = struct.unpack("<q", stream.read(8).ljust(8, b"\xff"))
        size = storage.nbytes()
        contents = bytearray(stream.read(size))
        if count * _element_size(dtype) != size or len(contents) != size:
            raise pickle.UnpicklingError("the contents of a storage are missing")
        new = storage_of(contents, dtype)
        as_tensor_of_bytes(storage.untyped()).copy_(as_tensor_of_bytes(new))
