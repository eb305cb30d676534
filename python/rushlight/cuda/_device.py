"""Devices: how many there are, which is current, what they are."""

from __future__ import annotations

import os

import rushlight
from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

    from rushlight.types import Device

_cuda = _C._cuda
_in_bad_fork = False


def _note_fork():
    global _in_bad_fork
    _in_bad_fork = _cuda.is_initialized()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def _is_in_bad_fork() -> bool:
    """Is this process a fork of one that had used a GPU, which it then cannot use?"""
    return _in_bad_fork


def device_count() -> Any:
    """Return the number of GPUs, 0 where CUDA is not available."""
    return _cuda.device_count()


def is_available() -> bool:
    """Return whether there is a GPU to use. It asks the driver, and starts nothing."""
    return _cuda.device_count() > 0


def is_initialized() -> bool:
    """Return whether some GPU was used."""
    return _cuda.is_initialized()


def init() -> None:
    """Start CUDA, which happens by itself when it is first needed.

    Raises:
        AssertionError: CUDA is not available; the message says what is missing.
    """
    _cuda.init()


def index_of(device: Device, op: Any, optional: bool = True) -> Any:
    """The number of a device that was given as int, str, torch.device, tensor's device or None."""
    if device is None and optional:
        return _cuda.current_device()
    if isinstance(device, bool):
        raise TypeError(f"{op}: device must be int, str or torch.device, not bool")
    if isinstance(device, int):
        index = device
    else:
        given = rushlight.device(device)
        if given.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {given}")
        index = given.index
        if index is None:
            return _cuda.current_device()
    if index < 0 or index >= device_count():
        _cuda.init()  # says what is missing, if all is
        raise AssertionError(f"{op}: Invalid device id: {index}, there are {device_count()}")
    return index


def current_device() -> Any:
    """Return the number of the current GPU."""
    _cuda.init()
    return _cuda.current_device()


def set_device(device: Device) -> None:
    """Make a GPU the current one; a negative number does nothing."""
    if isinstance(device, int) and device < 0:
        return
    _cuda.set_device(index_of(device, "cuda.set_device"))


class device:
    """A context with another current GPU. None or a negative number changes nothing."""

    def __init__(self, device: Device) -> None:
        given = isinstance(device, int) and device < 0 or device is None
        self.idx: int = -1 if given else index_of(device, "cuda.device")
        self.prev_idx: int = -1

    def __enter__(self) -> Self:
        if self.idx >= 0:
            self.prev_idx = _cuda.current_device()
            _cuda.set_device(self.idx)
        return self

    def __exit__(self, *exception: Any) -> None:
        if self.idx >= 0:
            _cuda.set_device(self.prev_idx)
        return False


class device_of(device):
    """A context whose current GPU is that of a tensor, if it lives on one."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else None)


class _CudaDeviceProperties:
    """What a GPU is; attributes have torch's names."""

    def __init__(self, values: Any) -> None:
        self.__dict__.update(values)
        self.gcnArchName = self.name

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // (1 << 20)}MB, "
            f"multi_processor_count={self.multi_processor_count}, "
            f"L2_cache_size={self.L2_cache_size // (1 << 20)}MB)"
        )


def get_device_properties(device: Device = None) -> Any:
    """Return the properties of a GPU: name, major, minor, total_memory and so on."""
    return _CudaDeviceProperties(_cuda.properties(index_of(device, "get_device_properties")))


def get_device_name(device: Device = None) -> Any:
    """Return the name of a GPU."""
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> Any:
    """Return the compute capability of a GPU, (major, minor)."""
    found = get_device_properties(device)
    return found.major, found.minor


def is_bf16_supported(including_emulation: bool = True) -> Any:
    """Return whether the current GPU computes in bfloat16."""
    if not is_available():
        return False
    return including_emulation or get_device_capability()[0] >= 8


def is_tf32_supported() -> Any:
    """Return whether the current GPU has TF32 products."""
    return is_available() and get_device_capability()[0] >= 8


def get_arch_list() -> Any:
    """Return the architectures that kernels are compiled for: those of the GPUs there are."""
    found = {f"sm_{p[0]}{p[1]}" for p in map(get_device_capability, range(device_count()))}
    return sorted(found)


def get_gencode_flags() -> str:
    """Return "": kernels are compiled when they are needed, not by a build with such flags."""
    return ""


def can_device_access_peer(device: Device, peer_device: Any) -> bool:
    """Return whether one GPU reads the memory of another by itself; copies need not."""
    index_of(device, "can_device_access_peer")
    index_of(peer_device, "can_device_access_peer")
    return False


def synchronize(device: Device = None) -> None:
    """Wait until a GPU has done all it was given.

    Raises:
        IndexError, RuntimeError: a kernel found something wrong, such as an index out of range; the
            GPU stays usable.
    """
    _cuda.synchronize(index_of(device, "cuda.synchronize"))


def set_sync_debug_mode(debug_mode: Any) -> None:
    """Say what becomes of calls that wait for a GPU because they need data from it.

    Args:
        debug_mode: 0 or "default": they wait; 1 or "warn": they warn and wait; 2 or "error": they
            raise a RuntimeError.
    """
    names = {"default": 0, "warn": 1, "error": 2}
    mode = names.get(debug_mode, debug_mode) if isinstance(debug_mode, str) else debug_mode
    if mode not in (0, 1, 2):
        raise RuntimeError(
            "cuda.set_sync_debug_mode: expected 0, 1, 2 or 'default', 'warn', 'error', got "
            f"{debug_mode!r}"
        )
    _cuda.set_sync_debug_mode(mode)


def get_sync_debug_mode() -> Any:
    """Return what set_sync_debug_mode() said: 0, 1 or 2."""
    return _cuda.sync_debug_mode()
