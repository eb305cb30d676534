"""Reads files from before the zip format: several pickles in a row, then the raw storages."""

import io
import pickle
import struct

import rushlight
from rushlight._checkpoint_reader import CheckpointReader
from rushlight._checkpoint_types import StoredData, as_tensor_of_bytes, storage_of

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001


def read_legacy(stream, place, unpickle):
    """Return the object in `stream`.

    The contents of storages follow the object, so storages are made first and filled afterwards.

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
    storages = _BlankStorages(_bytes_left(stream), place)
    result = unpickle(stream, storages.make)
    for key in _plain(stream):
        storages.fill(key, stream)
    return result


def _plain(stream):
    return CheckpointReader(stream, None).read()


def _bytes_left(stream):
    here = stream.tell()
    left = stream.seek(0, io.SEEK_END) - here
    stream.seek(here)
    return left


class _BlankStorages:
    """Storages by key, made when the object refers to them and filled later."""

    def __init__(self, budget, place):
        self._budget = budget  # together they cannot hold more than the file
        self._place = place
        self._made = {}

    def make(self, dtype, key, location, count, view=None):
        if not isinstance(dtype, rushlight.dtype) or not isinstance(key, str) or view is not None:
            raise pickle.UnpicklingError("a reference to a storage is damaged or not supported")
        if key not in self._made:
            size = count * dtype.itemsize
            self._budget -= size
            if size < 0 or self._budget < 0:
                raise pickle.UnpicklingError(f"storage {key} is larger than the file")
            blank = storage_of(bytearray(size), rushlight.uint8)
            self._made[key] = StoredData(self._place(blank, location), dtype)
        return self._made[key]

    def fill(self, key, stream):
        if key not in self._made:
            raise pickle.UnpicklingError("the file has a storage that nothing refers to")
        data = self._made[key]
        (count,) = struct.unpack("<q", stream.read(8).ljust(8, b"\xff"))
        size = data.storage.nbytes()
        contents = bytearray(stream.read(size))
        if count * data.dtype.itemsize != size or len(contents) != size:
            raise pickle.UnpicklingError("the contents of a storage are missing")
        as_tensor_of_bytes(data.storage).copy_(as_tensor_of_bytes(storage_of(contents, data.dtype)))
