"""Saving objects to files and loading them, in the format of torch.

A file is an uncompressed zip archive: `data.pkl` describes the object, and each storage has an
entry of its own, so that tensors that share memory share it again when they are loaded.
"""

import contextlib
import io
import os
import pickle
import struct
import sys
import warnings
import zipfile
from collections.abc import Callable

import rushlight
from rushlight._checkpoint_legacy import read_legacy
from rushlight._checkpoint_reader import CheckpointReader, TrustingUnpickler
from rushlight._checkpoint_types import StoredData, as_tensor_of_bytes, bytes_of, storage_of
from rushlight._checkpoint_writer import CheckpointWriter

DEFAULT_PROTOCOL = 2
MAP_LOCATION = Callable | rushlight.device | str | dict | None

_ALIGNMENT = 64  # of storages in the file, so that they can be mapped into memory
_LOCAL_HEADER_BYTES = 30
_CHUNK = 1 << 22

_safe_globals = {}


def save(
    obj,
    f,
    pickle_module=None,
    pickle_protocol=DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization=True,
    _disable_byteorder_record=False,
):
    """Save an object so that `load`, and torch, can load it.

    A file appears under its name only when it is complete: a program that is killed while saving
    leaves the previous file as it was.

    Args:
        obj: the object, usually a `state_dict` or containers of tensors and numbers.
        f: path, or binary file open for writing.
        pickle_module: accepted for compatibility.
        pickle_protocol: protocol of the description.

    Example:
        >>> rushlight.save(model.state_dict(), "model.pt")
    """
    if not _use_new_zipfile_serialization:
        raise ValueError("save: only the zip format is written; load also reads the older one")
    with contextlib.ExitStack() as cleanup:
        if isinstance(f, (str, os.PathLike)):
            stem = os.path.splitext(os.path.basename(os.fspath(f)))[0]
            stream = cleanup.enter_context(_replacing(os.fspath(f)))
        else:
            stem, stream = "archive", f
        _write_archive(obj, stream, stem or "archive", pickle_protocol, _disable_byteorder_record)


@contextlib.contextmanager
def _replacing(path):
    """Open a new file that takes the place of `path` if all goes well."""
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as stream:  # a pipe or device
            yield stream
        return
    unfinished = f"{path}.{os.getpid()}.tmp"
    try:
        with open(unfinished, "wb") as stream:
            yield stream
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(unfinished)
        raise


def _write_archive(obj, stream, stem, protocol, without_byteorder):
    description = io.BytesIO()
    writer = CheckpointWriter(description, protocol)
    writer.dump(obj)
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        seekable = getattr(archive.fp, "seekable", lambda: False)()
        start = archive.fp.tell() if seekable else 0

        def add(name, data):
            info = zipfile.ZipInfo(f"{stem}/{name}")
            position = (archive.fp.tell() if seekable else archive.start_dir) - start
            position += _LOCAL_HEADER_BYTES + len(info.filename.encode())
            if len(data) >= zipfile.ZIP64_LIMIT:
                position += 20  # the field that holds large sizes
            padding = -(position + 4) % _ALIGNMENT
            info.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
            archive.writestr(info, data)

        add("data.pkl", description.getbuffer())
        if not without_byteorder:
            add("byteorder", sys.byteorder.encode())
        for key, storage in writer.storages.items():
            if storage.device.type != "cpu":
                storage = as_tensor_of_bytes(storage).cpu().untyped_storage()
            add(f"data/{key}", bytes_of(storage))
        add("version", b"3\n")


def load(
    f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args
):
    """Load an object that `save`, or torch, has saved.

    By default nothing in the file is ever run: tensors, containers, numbers, strings and NumPy
    arrays are rebuilt, and everything else is refused by name.

    Args:
        f: path, or binary file open for reading.
        map_location: where tensors go: a device or its name, a dict from the names in the file to
            others, or a function of storage and name that returns a storage, or None for the
            default; by default they go where they came from.
        pickle_module: used in place of `pickle` with `weights_only=False`.
        weights_only: False hands the file to pickle, which runs whatever code the file names: for
            files of whole models, from sources you trust.
        mmap: map the file into memory in place of reading it; needs a path.
        pickle_load_args: passed on to pickle.

    Raises:
        pickle.UnpicklingError: the file is damaged, or contains what is refused.
        RuntimeError: the file is no checkpoint, or needs a device that there is none of.

    Example:
        >>> rushlight.save(model.state_dict(), "model.pt")
        >>> model.load_state_dict(rushlight.load("model.pt"))
        <All keys matched successfully>
    """
    trusting = weights_only is False
    if trusting:
        warnings.warn(
            "load: weights_only=False lets the file run any code on this machine; use it only for"
            " files whose source you trust",
            stacklevel=2,
        )
    place = _Placement(map_location)

    def unpickle(stream, load_storage):
        if trusting:
            unpickler = _trusting_unpickler(pickle_module)
            return unpickler(stream, load_storage, **pickle_load_args).load()
        return CheckpointReader(stream, load_storage, _safe_globals).read()

    with contextlib.ExitStack() as cleanup:
        if isinstance(f, (str, os.PathLike)):
            stream = cleanup.enter_context(open(f, "rb"))
        elif mmap:
            raise ValueError("load: mmap=True needs a path")
        else:
            stream = f if f.seekable() else io.BytesIO(f.read())
        start = stream.tell()
        is_archive = stream.read(4) == b"PK\x03\x04"
        stream.seek(start)
        if is_archive:
            return _ArchiveSource(stream, place, mmap).load(unpickle)
        if mmap:
            raise RuntimeError("load: only files in the zip format can be mapped")
        return read_legacy(stream, place, unpickle)


def _trusting_unpickler(pickle_module):
    if pickle_module is None or pickle_module is pickle:
        return TrustingUnpickler

    class Unpickler(TrustingUnpickler, pickle_module.Unpickler):
        """The same with the base class of another module."""

    return Unpickler


class _Placement:
    """Decides on which device a storage is to be."""

    def __init__(self, map_location):
        self._map = map_location

    def __call__(self, storage, location):
        target = self._map
        if callable(target):
            placed = target(storage, location)
            if placed is not None:
                return placed.untyped() if hasattr(placed, "untyped") else placed
            target = location
        elif isinstance(target, dict):
            target = target.get(location, location)
        elif target is None:
            target = location
        device = rushlight.device(target)
        if device.type == "cpu":
            return storage
        if device.type == "cuda" and not rushlight.cuda.is_available():
            raise RuntimeError(
                f"load: the file has tensors on {device}, but there is no CUDA device; use"
                " map_location='cpu' to load them to the CPU"
            )
        return as_tensor_of_bytes(storage).to(device).untyped_storage()


@contextlib.contextmanager
def _zip_errors():
    """Turn what `zipfile` raises for a damaged archive into one kind of error."""
    try:
        yield
    except (
        zipfile.BadZipFile,
        NotImplementedError,
        ValueError,
        KeyError,
        IndexError,
        EOFError,
        OverflowError,
        struct.error,
    ) as error:
        raise RuntimeError(f"load: the file is damaged: {error}") from error


class PyTorchFileReader:
    """The records of a file that `save` has written, by their names.

    Args:
        file: a path, or an open file.
    """

    _own = None  # the file that it opened itself

    def __init__(self, file):
        if not hasattr(file, "read"):
            self._own = file = open(file, "rb")  # noqa: SIM115
        self._source = _ArchiveSource(file, lambda storage, location: storage, False)

    def __del__(self):
        if self._own is not None:
            self._own.close()

    def get_all_records(self):
        """The names of all records."""
        prefix = f"{self._source._root}/"
        return [name.removeprefix(prefix) for name in self._source._entries]

    def has_record(self, name):
        """Is there a record of that name?"""
        return f"{self._source._root}/{name}" in self._source._entries

    def get_record(self, name):
        """The bytes of a record."""
        return bytes(self._source._read(name))

    def get_storage_from_record(self, name, numel, dtype):
        """A tensor with the numbers of a record."""
        data = self._source._read(name)
        if len(data) != numel * dtype.itemsize:
            raise RuntimeError(
                f"PyTorchFileReader: record {name!r} has {len(data)} bytes, {numel} elements of "
                f"{dtype} were wanted"
            )
        swap = self._source._foreign_order != sys.byteorder
        return rushlight.storage.tensor_on(storage_of(data, dtype, swap), dtype, (numel,))


class _ArchiveSource:
    """A file in the zip format."""

    def __init__(self, stream, place, mapped):
        self._stream = stream
        self._place = place
        self._loaded = {}
        with _zip_errors():
            self._archive = zipfile.ZipFile(stream)
            self._entries = {info.filename: info for info in self._archive.infolist()}
            self._root = self._archive.infolist()[0].filename.partition("/")[0]
        self._map = None
        if mapped:
            import mmap

            self._map = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY))
        self._foreign_order = sys.byteorder
        if f"{self._root}/byteorder" in self._entries:
            self._foreign_order = bytes(self._read("byteorder")).decode("ascii", "replace")

    def load(self, unpickle):
        if f"{self._root}/constants.pkl" in self._entries:
            raise RuntimeError("load: the file holds a TorchScript program, not an object")
        return unpickle(io.BytesIO(self._read("data.pkl")), self._load_storage)

    def _entry(self, name):
        info = self._entries.get(f"{self._root}/{name}")
        if info is None:
            raise RuntimeError(f"load: the file has no entry {name!r}")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise RuntimeError(f"load: entry {name!r} is compressed or encrypted")
        if info.file_size != info.compress_size:
            raise RuntimeError(f"load: entry {name!r} has contradicting sizes")
        return info

    def _read(self, name):
        info = self._entry(name)
        data = bytearray()  # grows with what is there, for the stated size may be a lie
        with _zip_errors(), self._archive.open(info) as entry:
            while chunk := entry.read(_CHUNK):
                data += chunk
            if len(data) != info.file_size:
                raise EOFError(f"entry {name!r} ends too early")
        return data

    def _mapped(self, name):
        info = self._entry(name)
        with _zip_errors():
            header = bytes(self._map[info.header_offset :][:_LOCAL_HEADER_BYTES])
            signature, name_length, extra_length = struct.unpack("<4s22xHH", header)
            start = info.header_offset + _LOCAL_HEADER_BYTES + name_length + extra_length
            data = self._map[start : start + info.file_size]
            if signature != b"PK\x03\x04" or len(data) != info.file_size:
                raise EOFError(f"entry {name!r} is not where it should be")
        return data

    def _load_storage(self, dtype, key, location, count, *unused):
        if not isinstance(key, str) or not isinstance(location, str) or type(count) is not int:
            raise pickle.UnpicklingError("a reference to a storage is damaged")
        if dtype is not None and not isinstance(dtype, rushlight.dtype):
            raise pickle.UnpicklingError(f"storages of type {dtype} are not supported")
        if key not in self._loaded:
            self._loaded[key] = dtype, self._new_storage(dtype, key, location)
        known_dtype, storage = self._loaded[key]
        size = count * (1 if dtype is None else dtype.itemsize)
        if known_dtype is not dtype or size != storage.nbytes():
            raise pickle.UnpicklingError(f"storage {key} is described in two different ways")
        return StoredData(storage, dtype)

    def _new_storage(self, dtype, key, location):
        dtype = rushlight.uint8 if dtype is None else dtype
        name = f"data/{key}"
        data = self._read(name) if self._map is None else self._mapped(name)
        storage = storage_of(data, dtype, self._foreign_order != sys.byteorder)
        return self._place(storage, location)


# --- classes that the user trusts


def add_safe_globals(safe_globals):
    """Allow `load` to make instances of the given classes and call the given functions.

    Args:
        safe_globals: list of classes and functions, or of pairs with the name in the file.
    """
    for entry in safe_globals:
        if isinstance(entry, tuple):
            value, path = entry
            module, _, name = path.rpartition(".")
        else:
            value, name = entry, entry.__qualname__
            package, dot, rest = entry.__module__.partition(".")
            module = ("torch" if package == "rushlight" else package) + dot + rest
        _safe_globals[module, name] = value


def get_safe_globals():
    """Return the list of what `add_safe_globals` has allowed."""
    return list(_safe_globals.values())


def clear_safe_globals():
    """Forget what `add_safe_globals` has allowed."""
    _safe_globals.clear()


@contextlib.contextmanager
def safe_globals(safe_globals):
    """Allow classes and functions, see `add_safe_globals`, for a `with` block."""
    before = dict(_safe_globals)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe_globals.clear()
        _safe_globals.update(before)
