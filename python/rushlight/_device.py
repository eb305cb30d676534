"""The default device: where factories put their tensors if they are not told."""

import rushlight
from rushlight import _C

_FACTORIES = (
    "arange",
    "asarray",
    "as_tensor",
    "empty",
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

_stack = []  # devices of `with device:` blocks, innermost last
_default = None
_default_mode = None


class _DeviceMode:
    """A function mode that fills in `device=` where a factory was called without."""

    def __init__(self, device):
        self.device = device
        self.factories = {
            getattr(rushlight, name) for name in _FACTORIES if hasattr(rushlight, name)
        }

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in self.factories and kwargs.get("device") is None:
            kwargs = {**kwargs, "device": self.device}
        return func(*args, **kwargs)


def enter_device(device):
    """Begin a `with device:` block."""
    _stack.append(device)
    _C._push_torch_function_mode(_DeviceMode(device))


def leave_device(device):
    """End the innermost `with device:` block."""
    _C._pop_torch_function_mode()
    _stack.pop()


def set_default_device(device):
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


def get_default_device():
    """Return where factories put their tensors."""
    if _stack:
        return _stack[-1]
    return rushlight.device("cpu") if _default is None else _default
