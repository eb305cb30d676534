"""How files are read and written unless a call says otherwise, and where their storages go."""

from __future__ import annotations

import contextlib
import enum
import operator
import re
from typing import Any

import rushlight
from rushlight._ignored import warn_once, warn_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from typing import NoReturn

    from typing_extensions import Self


class LoadEndianness(enum.Enum):
    """The order of bytes of files that do not say theirs."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class SourceChangeWarning(Warning):
    """Torch's warning that a class has other source code than when it was saved."""


_settings = {"endianness": None, "crc32": True, "maps": False, "mmap": 2, "skip_data": None}
MAP_SHARED, MAP_PRIVATE = 1, 2


def maps_files():
    """Does `load` map a file that is given by its path, unless the call says otherwise?"""
    return _settings["maps"]


def map_files(mode):
    """Say whether it does."""
    _settings["maps"] = bool(mode)


def get_default_load_endianness() -> LoadEndianness | None:
    """Return the order of bytes of files that do not say theirs; None stands for the machine's."""
    return _settings["endianness"]


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the order of bytes of files that do not say theirs: a `LoadEndianness` or None."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _settings["endianness"] = endianness


def get_crc32_options() -> bool:
    """Return whether `save` writes checksums, as all archives have them: see the setter."""
    return _settings["crc32"]


def set_crc32_options(compute_crc32: bool) -> None:
    """Say whether `save` need compute checksums: False has no effect, with a warning.

    Archives without checksums are refused by other programs.
    """
    if not compute_crc32:
        warn_once("set_crc32_options: False has no effect: checksums are always written")
    _settings["crc32"] = bool(compute_crc32)


def get_default_mmap_options() -> int:
    """Return how `load(mmap=True)` maps a file: mmap.MAP_PRIVATE or MAP_SHARED."""
    return _settings["mmap"]


class set_default_mmap_options:
    """Say how `load(mmap=True)` maps a file, from now on or in a `with` block.

    Args:
        flags: mmap.MAP_PRIVATE, so that changes of tensors stay in this process, or MAP_SHARED,
            so that they go to the file.
    """

    def __init__(self, flags: int) -> None:
        if flags not in (MAP_PRIVATE, MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE "
                f"or mmap.MAP_SHARED, but got {flags}"
            )
        self.prev: int = _settings["mmap"]
        _settings["mmap"] = flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        _settings["mmap"] = self.prev


class skip_data(contextlib.AbstractContextManager[Any]):
    """A context in which `save` leaves out the bytes of storages: the file has room for them.

    Args:
        materialize_fake_tensors: there are no fake tensors, so this is refused.

    `load` of such a file gives tensors of zeros.
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        if materialize_fake_tensors:
            raise NotImplementedError("skip_data: materialize_fake_tensors, as there are none")
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> Self:
        self._before, _settings["skip_data"] = _settings["skip_data"], self
        return self

    def __exit__(self, *exception: object) -> None:
        _settings["skip_data"] = self._before


# ---- where storages go

_packages = []


def register_package(
    priority: int,
    tagger: Callable[[Any], str | None],
    deserializer: Callable[[Any, str], Any],
) -> None:
    """Teach `save` and `load` about a kind of device.

    Args:
        priority: packages are asked in the order of these numbers.
        tagger: storage -> the name of its place in the file, or None for others.
        deserializer: (storage, name) -> the storage at its place, or None for others.
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=operator.itemgetter(0))


def location_tag(storage: Any) -> str:
    """Return the name that a file gives to the place of a storage."""
    for _, tagger, _ in _packages:
        tag = tagger(storage)
        if tag:
            return tag
    return str(storage.device)


def default_restore_location(storage: Any, location: str) -> Any:
    """Return the storage at the place that a file names.

    Raises:
        RuntimeError: there is no such place here.
    """
    for _, _, deserializer in _packages:
        placed = deserializer(storage, location)
        if placed is not None:
            return placed
    raise RuntimeError(
        "don't know how to restore data location of "
        f"{rushlight.typename(storage)} (tagged with {location})"
    )


def _place(storage, location):
    from rushlight._core_members import as_tensor_of_bytes

    device = rushlight.device(location)
    if device.type == "cuda":
        validate_cuda_device(location)
    return as_tensor_of_bytes(storage).to(device).untyped_storage()


def _on(kind):
    def tagger(storage):
        return str(storage.device) if storage.device.type == kind else None

    def deserializer(storage, location):
        if not str(location).startswith(kind):
            return None
        return storage if kind == "cpu" else _place(storage, location)

    return tagger, deserializer


register_package(10, *_on("cpu"))
register_package(20, *_on("cuda"))
register_package(22, *_on("meta"))


def validate_cuda_device(location: str) -> int:
    """Return the number of the CUDA device that a file names.

    Raises:
        RuntimeError: there is no such device.
    """
    index = rushlight.device(location).index or 0
    if not rushlight.cuda.is_available():
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is "
            "False. Use torch.load with map_location=torch.device('cpu') to map your storages to "
            "the CPU."
        )
    if index >= rushlight.cuda.device_count():
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {index} but "
            f"torch.cuda.device_count() is {rushlight.cuda.device_count()}."
        )
    return index


def validate_hpu_device(location: str) -> NoReturn:
    """Raise RuntimeError: no build has HPU devices."""
    raise RuntimeError(f"Attempting to deserialize object on {location}: there are no HPU devices")


# ---- names of storages


class StorageType:
    """The class of storages that a file names, as "FloatStorage", by its dtype."""

    def __init__(self, name: str) -> None:
        from rushlight.storage import _get_dtype_from_pickle_storage_type

        self._dtype = _get_dtype_from_pickle_storage_type(name)

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self._dtype

    def __str__(self) -> str:
        return f"StorageType(dtype={self.dtype})"


def storage_to_tensor_type(storage: Any) -> Any:
    """Return the class of tensors, as FloatTensor, that goes with a storage."""
    return getattr(rushlight, type_name(storage).replace("Storage", "Tensor"))


def type_name(storage):
    """Return the name of a storage's class, as "FloatStorage"."""
    if isinstance(storage, rushlight.TypedStorage):
        return storage.pickle_storage_type()
    raise TypeError(f"expected a TypedStorage but got {type(storage).__name__}")


def normalize_storage_type(storage_type: Any) -> Any:
    """Return the class of that name in `torch`."""
    return getattr(rushlight, storage_type.__name__)


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: Sequence[int], error_if_malformed: bool = True
) -> bool:
    """Say whether a module has at least that version.

    Raises:
        RuntimeError: its version is no sequence of numbers, if `error_if_malformed`; else it is
            taken to be new enough, with a warning.
    """
    try:
        parts = re.split(r"\.", module.__version__)
        version = tuple(kind(part) for kind, part in zip(map(type, req_version_tuple), parts))
    except Exception as error:
        message = f"'{module.__name__}' module version string is malformed '{module.__version__}'"
        if error_if_malformed:
            raise RuntimeError(message) from error

        warn_program(message + ", it is taken to be new enough")
        return True
    return version >= tuple(req_version_tuple)


def mkdtemp() -> AbstractContextManager[str]:
    """A context with a temporary folder, which is removed afterwards."""
    import tempfile

    return tempfile.TemporaryDirectory()


def unsafe_globals(description, safe):
    """The names in the pickle `description` that `load` would refuse, in order."""
    import pickletools

    from rushlight._checkpoint_reader import is_known

    found, strings, memo = [], [], {}
    for opcode, argument, _ in pickletools.genops(description):
        name = None
        if opcode.name in ("GLOBAL", "INST"):
            module, _, name = argument.partition(" ")
        elif opcode.name == "STACK_GLOBAL":
            module, name = strings[-2:]
        elif opcode.name == "MEMOIZE":
            memo[len(memo)] = strings[-1] if strings else None
        elif opcode.name in ("BINPUT", "LONG_BINPUT", "PUT"):
            memo[argument] = strings[-1] if strings else None
        elif opcode.name in ("BINGET", "LONG_BINGET", "GET"):
            if isinstance(memo.get(argument), str):
                strings.append(memo[argument])
        elif isinstance(argument, str):
            strings.append(argument)
        if name is not None:
            path = f"{module}.{name}"
            if not is_known(module, name) and (module, name) not in safe and path not in found:
                found.append(path)
    return found
