"""The default device: where factories put their tensors if they are not told."""

from __future__ import annotations

import rushlight
from rushlight import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight.types import Device, _device

_FACTORIES = (
    "arange",
    "asarray",
    "as_tensor",
    "empty",
    "empty_permuted",
    "empty_strided",
    "eye",
    "full",
    "linspace",
    "logspace",
    "ones",
    "rand",
    "randint",
    "randn",
    "randperm",
    "scalar_tensor",
    "tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
)
_FACTORIES_OF_FFT = ("fftfreq", "rfftfreq")  # by name, as their module may not be loaded yet

ABSENT = set(
    "fpga hip hpu ideep ipu lazy maia mkldnn mps mtia npu opencl opengl ort privateuseone ve vulkan"
    " xla xpu".split()
)
privateuse1_name = "privateuseone"  # utils.rename_privateuse1_backend gives it another


class _AbsentDevice:
    """A device that no build has: refused where a device is wanted, there to be compared with."""

    def __init__(self, type: str, index: int | None) -> None:
        self.type, self.index = type, index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _AbsentDevice) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        where = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{where})"

    def __reduce__(self) -> tuple[Any, ...]:
        return rushlight.device, (self.type, *(() if self.index is None else (self.index,)))

    def __enter__(self) -> Any:
        raise RuntimeError(f"rushlight was built without {self.type} devices")

    def __exit__(self, *exception: object) -> None:
        """Never reached."""


def absent_device(text: str, index: int | None) -> _AbsentDevice | None:
    """For torch.device(text, index): a device of torch's that is not here, or None."""
    kind, colon, number = text.partition(":")
    if kind not in ABSENT:
        return None
    if colon and (index is not None or not number.isdecimal()):
        raise RuntimeError(f"Invalid device string: '{text}'")
    return _AbsentDevice(kind, int(number) if colon else index)


_stack = []  # devices of `with device:` blocks, innermost last
_default = None
_default_mode = None


class _DeviceMode:
    """A function mode that fills in `device=` where a factory was called without."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.factories = {
            getattr(rushlight, name) for name in _FACTORIES if hasattr(rushlight, name)
        }

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type[Any]],
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("device") is None and self._makes_tensors(func):
            kwargs = {**kwargs, "device": self.device}
        return func(*args, **kwargs)

    def _makes_tensors(self, func):
        return func in self.factories or getattr(func, "__name__", "") in _FACTORIES_OF_FFT


def enter_device(device: Device) -> None:
    """Begin a `with device:` block."""
    _stack.append(device)
    _C._push_torch_function_mode(_DeviceMode(device))


def leave_device(device: Device) -> None:
    """End the innermost `with device:` block."""
    _C._pop_torch_function_mode()
    _stack.pop()


def set_default_device(device: Device) -> None:
    """Set where factories put their tensors; None for the CPU.

    Args:
        device: a device, its name, or None.
    """
    global _default, _default_mode
    if _stack:
        raise RuntimeError("set_default_device: not inside a `with device:` block")
    if _default_mode is not None:
        rushlight.overrides._remove_mode(_default_mode)
    _default = _default_mode = None
    if device is not None:
        _default = rushlight.device(device)
        _default_mode = _DeviceMode(_default)
        _C._push_torch_function_mode(_default_mode)


def get_default_device() -> _device:
    """Return where factories put their tensors."""
    if _stack:
        return _stack[-1]
    return rushlight.device("cpu") if _default is None else _default
