"""Saving objects to files and loading them, in the format of torch.

A file is an uncompressed zip archive: `data.pkl` describes the object, and each storage has an
entry of its own, so that tensors that share memory share it again when they are loaded.
"""

from __future__ import annotations

import binascii
import contextlib
import io
import os
import pickle
import struct
import sys
import zipfile
from collections.abc import Callable

import rushlight
from rushlight import _checkpoint_settings
from rushlight._checkpoint_legacy import read_legacy, write_legacy
from rushlight._checkpoint_reader import CheckpointReader, TrustingUnpickler, _layout
from rushlight._checkpoint_settings import (  # noqa: F401 (the settings are part of this module)
    LoadEndianness as LoadEndianness,
    SourceChangeWarning as SourceChangeWarning,
    StorageType as StorageType,
    check_module_version_greater_or_equal as check_module_version_greater_or_equal,
    default_restore_location as default_restore_location,
    get_crc32_options as get_crc32_options,
    get_default_load_endianness as get_default_load_endianness,
    get_default_mmap_options as get_default_mmap_options,
    location_tag as location_tag,
    mkdtemp as mkdtemp,
    normalize_storage_type as normalize_storage_type,
    register_package as register_package,
    set_crc32_options as set_crc32_options,
    set_default_load_endianness as set_default_load_endianness,
    set_default_mmap_options as set_default_mmap_options,
    skip_data as skip_data,
    storage_to_tensor_type as storage_to_tensor_type,
    validate_cuda_device as validate_cuda_device,
    validate_hpu_device as validate_hpu_device,
)
from rushlight._checkpoint_types import bytes_of, storage_of, typed_storage
from rushlight._checkpoint_writer import CheckpointWriter
from rushlight._core_members import as_tensor_of_bytes
from rushlight._ignored import warn_of, warn_program as _warn_program
from rushlight._replaced_file import replacing
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike
    from typing import IO, Any

    from rushlight import Tensor
    from rushlight.types import FileLike, _dtype

DEFAULT_PROTOCOL = 2
MAP_LOCATION: Any = Callable | rushlight.device | str | dict | None

_ALIGNMENT = 64  # of storages in the file, so that they can be mapped into memory
_LARGEST_ELEMENT = 16
_LOCAL_HEADER_BYTES = 30
_NAME_IS_UTF8 = 0x800
_NOT_PLAIN = 0x61  # encrypted, in one of two ways, or a patch of another file
_CHUNK = 1 << 22

_get_layout = _layout  # as pickles of torch name it

set_module(
    __name__, LoadEndianness, SourceChangeWarning, StorageType,
    check_module_version_greater_or_equal,
    default_restore_location, get_crc32_options, get_default_load_endianness,
    get_default_mmap_options, location_tag, mkdtemp, normalize_storage_type, register_package,
    set_crc32_options, set_default_load_endianness, set_default_mmap_options, skip_data,
    storage_to_tensor_type, validate_cuda_device, validate_hpu_device,
)  # fmt: skip
_OWN_PACKAGES = len(_checkpoint_settings._packages)
_safe_globals = {}


def save(
    obj: Any,
    f: str | PathLike[str] | IO[bytes],
    pickle_module: Any = None,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Save an object so that `load`, and torch, can load it.

    A file appears under its name only when it is complete: a program that is killed while saving
    leaves the previous file as it was.

    Args:
        obj: the object, usually a `state_dict` or containers of tensors and numbers.
        f: path, or binary file open for writing.
        pickle_module: has no effect, with a warning: files are written in torch's form of the
            pickle format, by a pickler of our own.
        pickle_protocol: protocol of the description.
        _use_new_zipfile_serialization: False writes the format from before zip archives.

    Example:
        >>> rushlight.save(model.state_dict(), "model.pt")
    """
    if pickle_module is not pickle:
        warn_of("save", "rushlight's own pickler writes the file", pickle_module=pickle_module)
    if _checkpoint_settings._settings["skip_data"] and not _use_new_zipfile_serialization:
        raise RuntimeError("Cannot use skip_data=True with _use_new_zipfile_serialization=False")
    with contextlib.ExitStack() as cleanup:
        if isinstance(f, (str, os.PathLike)):
            stem = os.path.splitext(os.path.basename(os.fspath(f)))[0]
            stream = cleanup.enter_context(replacing(os.fspath(f)))
        else:
            if not hasattr(f, "write"):
                raise AttributeError(
                    "save: expected a path or a binary file open for writing, got a "
                    f"{type(f).__name__}, which has no attribute 'write'"
                )
            stem, stream = "archive", f
        try:
            if _use_new_zipfile_serialization:
                stem = stem or "archive"
                _write_archive(obj, stream, stem, pickle_protocol, _disable_byteorder_record)
            else:
                write_legacy(obj, stream, pickle_protocol)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            from rushlight._pickling import note_unpicklable

            note_unpicklable(
                error, "save", {"obj": obj},
                lambda value: CheckpointWriter(io.BytesIO(), pickle_protocol).dump(value),
                "save its state_dict(), or define the function or class in a module",
            )  # fmt: skip
            raise
        if hasattr(stream, "flush"):  # who reads the file by its name finds all of it
            stream.flush()


def _aligned_entry(name: str, position: int, size: int) -> zipfile.ZipInfo:
    """The entry of a zip archive whose header is to be at `position` in the file, and whose `size`
    bytes begin at a multiple of 64, so that they can be mapped into memory.
    """
    info = zipfile.ZipInfo(name)
    position += _LOCAL_HEADER_BYTES + len(info.filename.encode())
    if size >= zipfile.ZIP64_LIMIT:
        position += 20  # the field that holds large sizes
    padding = -(position + 4) % _ALIGNMENT
    info.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
    return info


def _write_archive(obj, stream, stem, protocol, without_byteorder):
    description = io.BytesIO()
    writer = CheckpointWriter(description, protocol)
    writer.dump(obj)
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        seekable = getattr(archive.fp, "seekable", lambda: False)()
        start = archive.fp.tell() if seekable else 0

        def add(name, data):
            position = (archive.fp.tell() if seekable else archive.start_dir) - start
            archive.writestr(_aligned_entry(f"{stem}/{name}", position, len(data)), data)

        add("data.pkl", description.getbuffer())
        if not without_byteorder:
            add("byteorder", sys.byteorder.encode())
        for key, storage in writer.storages.items():
            if storage.device.type != "cpu":
                storage = as_tensor_of_bytes(storage).cpu().untyped_storage()
            blank = _checkpoint_settings._settings["skip_data"] is not None
            add(f"data/{key}", bytes(storage.nbytes()) if blank else bytes_of(storage))
        add("version", b"3\n")


def load(
    f: str | PathLike[str] | IO[bytes],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Load an object that `save`, or torch, has saved.

    By default nothing in the file is ever run: tensors, containers, numbers, strings and NumPy
    arrays are rebuilt, and everything else is refused by name.

    Args:
        f: path, or binary file open for reading.
        map_location: where tensors go: a device or its name, a dict from the names in the file to
            others, or a function of storage and name that returns a storage, or None for the
            default; by default they go where they came from.
        pickle_module: used in place of `pickle`, which means weights_only=False.
        weights_only: False hands the file to pickle, which runs whatever code the file names: for
            files of whole models, from sources you trust.
        mmap: map the file into memory in place of reading it; needs a path. None asks
            utils.serialization.config.load.mmap. The file must not
            change as long as its tensors live: changes of it show in tensors that nobody has
            changed, and if it is truncated, zeros and a RuntimeError in the main thread take the
            place of what is missing. `save` is safe: it puts another file into the place.
        pickle_load_args: passed on to pickle. Without it, `encoding` is that of texts which Python
            2 wrote ("bytes" leaves them as they are), and others have no effect, with a warning.

    Raises:
        pickle.UnpicklingError: the file is damaged, or contains what is refused.
        RuntimeError: the file is no checkpoint, or needs a device that there is none of.

    Example:
        >>> rushlight.save(model.state_dict(), "model.pt")
        >>> model.load_state_dict(rushlight.load("model.pt"))
        <All keys matched successfully>
    """
    weights_only = _forced(weights_only)
    if weights_only and pickle_module is not None:
        raise RuntimeError(
            "load: weights_only=True runs nothing of the file, and so no pickle_module reads it"
        )
    trusting = weights_only is False or (weights_only is None and pickle_module is not None)
    if not trusting:
        others = {k: v for k, v in pickle_load_args.items() if k != "encoding"}
        warn_of("load", "rushlight's own reader reads the file", **others)
    elif weights_only is None:
        _warn_program(
            "load: pickle_module lets the file run any code on this machine; use it only for files "
            "whose source you trust, and say so by weights_only=False",
        )
    place = _Placement(map_location)

    def unpickle(stream, load_storage):
        encoding = pickle_load_args.setdefault("encoding", "utf-8")
        if trusting:
            unpickler = _trusting_unpickler(pickle_module)
            return unpickler(stream, load_storage, **pickle_load_args).load()
        return CheckpointReader(stream, load_storage, _safe_globals, encoding).read()

    with contextlib.ExitStack() as cleanup:
        if isinstance(f, (str, os.PathLike)):
            mmap = _checkpoint_settings.maps_files() if mmap is None else mmap
            shared = mmap and get_default_mmap_options() == _checkpoint_settings.MAP_SHARED
            stream = cleanup.enter_context(open(f, "r+b" if shared else "rb"))
        elif mmap:
            raise ValueError("load: mmap=True needs a path")
        else:
            # Not all objects with `read` say whether they can seek.
            stream = f if getattr(f, "seekable", lambda: False)() else io.BytesIO(f.read())
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


def _forced(weights_only):
    """`weights_only` as the environment decides it."""
    yes = ("1", "y", "yes", "true")
    force, lift = (
        os.environ.get(name, "").lower() in yes
        for name in ("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    )
    if force and lift:
        raise RuntimeError(
            "load: TORCH_FORCE_WEIGHTS_ONLY_LOAD and TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD are both set;"
            " set one of them"
        )
    if force:
        return True
    if lift and weights_only is None:
        _warn_program(
            "load: environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD is set, and weights_only "
            "was not given: forcing weights_only=False, so that the file may run any code",
        )
        return False
    return weights_only


class _Placement:
    """Decides on which device a storage is to be."""

    def __init__(self, map_location: Any) -> None:
        self._map = map_location

    def __call__(self, storage: Any, location: str) -> Any:
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
        if isinstance(target, str) and len(_checkpoint_settings._packages) > _OWN_PACKAGES:
            return default_restore_location(storage, target)  # the program has taught us more
        device = rushlight.device(target)
        if device.type == "cpu":
            return storage
        if device.type == "cuda" and not rushlight.cuda.is_available():
            raise RuntimeError(
                f"load: Attempting to deserialize object on a CUDA device ({device}), but there is"
                " none; use map_location='cpu' to load it to the CPU"
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

    def __init__(self, file: str) -> None:
        if not hasattr(file, "read"):
            self._own = file = open(file, "rb")  # noqa: SIM115
        self._source = _ArchiveSource(file, lambda storage, location: storage, False)

    def __del__(self) -> None:
        if self._own is not None:
            self._own.close()

    def get_all_records(self) -> list[str]:
        """The names of all records."""
        prefix = f"{self._source._root}/"
        return [name.removeprefix(prefix) for name in self._source._entries]

    def has_record(self, name: str) -> bool:
        """Is there a record of that name?"""
        return f"{self._source._root}/{name}" in self._source._entries

    def get_record(self, name: str) -> bytes:
        """The bytes of a record."""
        return bytes(self._source._read(name))

    def get_record_size(self, name: str) -> int:
        """How many bytes a record has."""
        return self._source._entry(name).file_size

    def get_record_header_offset(self, name: str) -> int:
        """Where in the file the zip archive's header of a record is."""
        return self._source._entry(name).header_offset

    def get_record_offset(self, name: str) -> int:
        """Where in the file the bytes of a record begin."""
        return self._source._start_of(self._source._entry(name), self._source._read_bytes)

    def get_record_offset_no_read(
        self, cursor: int, filename: str, size: int, storage_alignment: int = 64
    ) -> int:
        """Where in a file the bytes of a record would begin, without a look into it.

        Args:
            cursor: where its header would begin.
            filename: the name of the record.
            size: how many bytes it has.
            storage_alignment: its bytes begin at a multiple of it.
        """
        name = f"{self._source._root}/{filename}".encode()
        start = cursor + _LOCAL_HEADER_BYTES + len(name) + 4  # and the header of what fills the gap
        large = [n for n in (size, cursor) if n >= 2**32 - 1]
        start += 4 * bool(large) + 8 * len(large)  # numbers that need the larger format
        return start + -start % storage_alignment

    def serialization_id(self) -> str:
        """What tells files apart that were saved: "" for files that do not say it."""
        if not self.has_record(".data/serialization_id"):
            return ""
        return self.get_record(".data/serialization_id").decode()

    def get_storage_from_record(self, name: str, numel: int, dtype: _dtype | None) -> Tensor:
        """A tensor with the numbers of a record."""
        data = self._source._read(name)
        if len(data) != numel * dtype.itemsize:
            raise RuntimeError(
                f"PyTorchFileReader: record {name!r} has {len(data)} bytes, {numel} elements of "
                f"{dtype} were wanted"
            )
        swap = self._source._foreign_order != sys.byteorder
        return rushlight.storage.tensor_on(storage_of(data, dtype, swap), dtype, (numel,))


def _fill(stream, data, name):
    """Read as many bytes as `data` has."""
    done = 0
    while done < len(data):
        if hasattr(stream, "readinto"):
            count = stream.readinto(data[done : done + _CHUNK])
        else:
            chunk = stream.read(min(len(data) - done, _CHUNK))
            count = len(chunk)
            data[done : done + count] = chunk
        if not count:
            raise EOFError(f"entry {name!r} ends too early")
        done += count


class _ArchiveSource:
    """A file in the zip format."""

    def __init__(
        self, stream: Any, place: Callable[..., Any] | _Placement, mapped: bool | None
    ) -> None:
        self._stream = stream
        self._place = place
        self._loaded = {}
        with _zip_errors():
            self._archive = zipfile.ZipFile(stream)
            self._entries = {info.filename: info for info in self._archive.infolist()}
            self._root = self._archive.infolist()[0].filename.partition("/")[0]
            self._check_places()
        self._map = None
        if mapped:
            size = stream.seek(0, io.SEEK_END)
            name = os.fsdecode(os.fspath(stream.name))
            shared = stream.writable()
            map_file = rushlight.UntypedStorage._map_file
            self._map = memoryview(map_file(stream.fileno(), size, shared, name))
        unsaid = get_default_load_endianness()
        native = unsaid is None or unsaid is LoadEndianness.NATIVE
        self._foreign_order = sys.byteorder if native else unsaid.name.lower()
        if f"{self._root}/byteorder" in self._entries:
            order = bytes(self._read("byteorder"))
            if order not in (b"little", b"big"):
                raise RuntimeError(f"load: the file has the unknown byte order {order[:20]}")
            self._foreign_order = order.decode()

    def _check_places(self):
        """Raise an error unless each entry has a name and bytes of its own.

        A small file could else hold the same bytes many times, or be read in two ways.
        """
        infos = sorted(self._archive.infolist(), key=lambda info: info.header_offset)
        if len(infos) != len(self._entries):
            raise zipfile.BadZipFile("two entries have the same name")
        ends = [info.header_offset for info in infos[1:]] + [self._archive.start_dir]
        for info, end in zip(infos, ends, strict=True):
            # Not stricter, for the length of the local header is not known yet.
            if info.header_offset + _LOCAL_HEADER_BYTES + info.compress_size > end:
                raise zipfile.BadZipFile(f"entry {info.filename!r} overlaps what follows")

    def load(self, unpickle: Callable[..., Any]) -> Any:
        if f"{self._root}/constants.pkl" in self._entries:
            raise RuntimeError("load: the file holds a TorchScript program, not an object")
        return unpickle(io.BytesIO(self._read("data.pkl")), self._load_storage)

    def _entry(self, name):
        info = self._entries.get(f"{self._root}/{name}")
        if info is None:
            raise RuntimeError(f"load: the file has no entry {name!r}")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & _NOT_PLAIN:
            raise RuntimeError(f"load: entry {name!r} is compressed or encrypted")
        if info.file_size != info.compress_size:
            raise RuntimeError(f"load: entry {name!r} has contradicting sizes")
        return info

    def _read(self, name):
        info = self._entry(name)
        # The stated size is no lie: what is in the file ends behind it (_check_places).
        data = memoryview(rushlight.empty(info.file_size, dtype=rushlight.uint8, device="cpu"))
        with _zip_errors():
            start = self._start_of(info, self._read_bytes)
            self._stream.seek(start)
            _fill(self._stream, data, name)
            if binascii.crc32(data) != info.CRC:
                raise zipfile.BadZipFile(f"Bad CRC-32 for file {info.filename!r}")
        return data

    def _read_bytes(self, start, count):
        self._stream.seek(start)
        return self._stream.read(count)

    @staticmethod
    def _start_of(info, read):
        """Where the bytes of an entry begin; read(start, count) gives bytes of the file."""
        header = read(info.header_offset, _LOCAL_HEADER_BYTES)
        signature, name_length, extra_length = struct.unpack("<4s22xHH", header)
        local_name = read(info.header_offset + _LOCAL_HEADER_BYTES, name_length)
        encoding = "utf-8" if info.flag_bits & _NAME_IS_UTF8 else "cp437"
        if signature != b"PK\x03\x04" or local_name != info.orig_filename.encode(encoding):
            raise EOFError(f"entry {info.filename!r} is not where it should be")
        return info.header_offset + _LOCAL_HEADER_BYTES + name_length + extra_length

    def _mapped(self, name):
        info = self._entry(name)
        with _zip_errors():
            start = self._start_of(info, lambda start, count: bytes(self._map[start:][:count]))
            data = self._map[start : start + info.file_size]
            if len(data) != info.file_size:
                raise EOFError(f"entry {name!r} is not where it should be")
        # Other programs that write archives do not align what is in them.
        return data if start % _LARGEST_ELEMENT == 0 else bytearray(data)

    def _load_storage(self, dtype, key, location, count, *unused):
        if not isinstance(key, str) or not isinstance(location, str) or type(count) is not int:
            raise pickle.UnpicklingError("a reference to a storage is damaged")
        if dtype is not None and not isinstance(dtype, rushlight.dtype):
            raise pickle.UnpicklingError(f"storages of type {dtype} are not supported")
        if key not in self._loaded:
            untyped = self._new_storage(dtype, key, location)
            self._loaded[key] = dtype, typed_storage(untyped, dtype)
        known_dtype, storage = self._loaded[key]
        size = count * (1 if dtype is None else dtype.itemsize)
        if known_dtype is not dtype or size != storage.nbytes():
            raise pickle.UnpicklingError(f"storage {key} is described in two different ways")
        return storage

    def _new_storage(self, dtype, key, location):
        dtype = rushlight.uint8 if dtype is None else dtype
        name = f"data/{key}"
        data = self._read(name) if self._map is None else self._mapped(name)
        storage = storage_of(data, dtype, self._foreign_order != sys.byteorder)
        return self._place(storage, location)


# --- classes that the user trusts


def add_safe_globals(
    safe_globals: list[Callable[..., Any] | tuple[Callable[..., Any], str]],
) -> None:
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


def get_safe_globals() -> list[Callable[..., Any] | tuple[Callable[..., Any], str]]:
    """Return the list of what `add_safe_globals` has allowed."""
    return list(_safe_globals.values())


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` has allowed."""
    _safe_globals.clear()


@contextlib.contextmanager
def safe_globals(
    safe_globals: list[Callable[..., Any] | tuple[Callable[..., Any], str]],
) -> Iterator[Any]:
    """Allow classes and functions, see `add_safe_globals`, for a `with` block."""
    before = dict(_safe_globals)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _safe_globals.clear()
        _safe_globals.update(before)


set_module("rushlight", PyTorchFileReader)


def get_unsafe_globals_in_checkpoint(f: FileLike) -> list[str]:
    """Return the names in a file that `load` would refuse: a list of "module.name".

    Args:
        f: path, or binary file open for reading, in the zip format.
    """
    reader = PyTorchFileReader(f)
    return _checkpoint_settings.unsafe_globals(reader.get_record("data.pkl"), _safe_globals)


# --- what libraries call by its private name


@contextlib.contextmanager
def _open_file_like(name_or_buffer, mode):
    """The file of a path, closed afterwards, or the file that is given."""
    if isinstance(name_or_buffer, (str, os.PathLike)):
        with open(name_or_buffer, mode) as stream:
            yield stream
    else:
        yield name_or_buffer


@contextlib.contextmanager
def _open_zipfile_reader(name_or_buffer):
    """The records of a file."""
    yield PyTorchFileReader(name_or_buffer)


def _is_zipfile(f):
    """Is an open file in the zip format? It stays where it is."""
    start = f.tell()
    begins = f.read(4) == b"PK\x03\x04"
    f.seek(start)
    return begins


def _is_torchscript_zip(zip_file):
    """Does a `PyTorchFileReader` hold a TorchScript program?"""
    return "constants.pkl" in zip_file.get_all_records()


def _load(zip_file, map_location, pickle_module, pickle_file="data.pkl", **options):
    """Load the object of a `PyTorchFileReader`."""
    if pickle_file != "data.pkl" or options.keys() - {"overall_storage", "weights_only"}:
        raise NotImplementedError(f"_load: pickle_file={pickle_file!r}, {sorted(options)}")
    source = zip_file._source
    source._stream.seek(0)
    trusting = pickle_module is not None and hasattr(pickle_module, "Pickler")
    return load(source._stream, map_location, weights_only=not trusting)


def _legacy_load(f, map_location, pickle_module, **options):
    """Load an object in the format from before zip."""
    trusting = pickle_module is not None and hasattr(pickle_module, "Pickler")
    return load(f, map_location, weights_only=not trusting, **options)


def _check_dill_version(pickle_module):
    """Raise ValueError if `pickle_module` is dill from before 0.3.1."""
    if getattr(pickle_module, "__name__", None) == "dill" and (
        not check_module_version_greater_or_equal(pickle_module, (0, 3, 1), False)
    ):
        raise ValueError(f"dill {pickle_module.__version__} is too old: 0.3.1 or newer is needed")
