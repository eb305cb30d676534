"""A device of one's own, `privateuseone`: a name for it, and methods of tensors and modules.

No program brings kernels for such a device from Python, so that no tensor is on one: it can be
named and compared with, and a tensor that is moved to it raises an error.
"""

from __future__ import annotations

import rushlight
from rushlight import _device, nn
from rushlight.overrides import handle_torch_function, has_torch_function_unary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor
    from rushlight.types import Device, _dtype

__all__ = ["generate_methods_for_privateuse1_backend", "rename_privateuse1_backend"]

_UNNAMED = _name = _device.privateuse1_name


def rename_privateuse1_backend(backend_name: str) -> None:
    """Give the device `privateuseone` a name of its own, once in a process.

    Args:
        backend_name: that name; `ProfilerActivity` and `DeviceType` have a member of it, in capital
            letters, from then on.

    Raises:
        RuntimeError: it has another name, or one of a device that there is.
    """
    global _name
    if not isinstance(backend_name, str):
        raise TypeError(f"rename_privateuse1_backend: expected a str, got {backend_name!r}")
    if _name not in (_UNNAMED, backend_name):
        raise RuntimeError(
            "torch.register_privateuse1_backend() has already been set! Current backend: " + _name
        )
    if backend_name in ("cpu", "cuda", "meta") or not backend_name.isidentifier():
        raise RuntimeError(f"Cannot register the name {backend_name!r} for a device")
    _name = _device.privateuse1_name = backend_name
    _device.ABSENT.add(backend_name)
    from rushlight.profiler import DeviceType, ProfilerActivity

    for kind in (ProfilerActivity, DeviceType):
        setattr(kind, backend_name.upper(), kind.PrivateUse1)


def generate_methods_for_privateuse1_backend(
    for_tensor: bool = True,
    for_module: bool = True,
    for_packed_sequence: bool = True,
    for_storage: bool = False,
    unsupported_dtype: Sequence[_dtype] | None = None,
) -> None:
    """Give tensors and other classes methods and attributes of the device's name, as `.foo()` and
    `.is_foo`, like `.cuda()` and `.is_cuda`.

    Args:
        for_tensor: of `Tensor`.
        for_module: of `nn.Module`, which need those of `Tensor`.
        for_packed_sequence: of `PackedSequence`, likewise.
        for_storage: of storages.
        unsupported_dtype: of typed storages, those that are refused.

    Raises:
        RuntimeError: there is such a method already.
    """
    if for_tensor:
        _add(rushlight.Tensor, _tensor_is_there, _tensor_to)
    if (for_module or for_packed_sequence) and not hasattr(rushlight.Tensor, _name):
        raise RuntimeError(
            f"Can not automatically generate {_name}(): Tensor has no such method. For this error, "
            "you can try setting for_tensor=True."
        )
    if for_module:
        _add(nn.Module, None, lambda self, device=None: self._apply(lambda t: _to(t, device)))
    if for_storage:
        _add(rushlight.UntypedStorage, lambda self: self.device.type == _name, _storage_to)
        refused = tuple(unsupported_dtype or ())
        _add(
            rushlight.TypedStorage,
            lambda self: self._untyped_storage.device.type == _name,
            lambda self, *args, **kwargs: _typed_storage_to(self, refused, *args, **kwargs),
        )
    if for_packed_sequence:
        _add(
            nn.utils.rnn.PackedSequence,
            lambda self: self.data.device.type == _name,
            lambda self, *args, **kwargs: self.to(*args, **{"device": _name, **kwargs}),
        )


def _add(cls, is_there, to):
    for name, member in ((f"is_{_name}", is_there and property(is_there)), (_name, to)):
        if member is None:
            continue
        if hasattr(cls, name):
            raise RuntimeError(
                f"The custom device module of {cls} has already been registered with {name}"
            )
        if name == _name:
            member.__name__ = member.__qualname__ = name
        setattr(cls, name, member)


def _tensor_is_there(self):
    return self.device.type == _name


def _tensor_to(self: Tensor, device: Device = None, non_blocking: bool = False, **kwargs: Any):
    if has_torch_function_unary(self):
        return handle_torch_function(
            _tensor_to, (self,), self, device=device, non_blocking=non_blocking, **kwargs
        )
    return _to(self, device, non_blocking, **kwargs)


def _to(tensor, device, non_blocking=False, **kwargs):
    return tensor.to(f"{_name}:{_index(device)}", non_blocking=non_blocking, **kwargs)


def _index(device):
    """The number of the device that an argument means."""
    if isinstance(device, str):
        device = rushlight.device(device)
    if device is not None and not isinstance(device, int):
        if device.type != _name:
            raise RuntimeError(f"Invalid device, must be {_name} device")
        device = device.index
    if device is None:
        current = getattr(getattr(rushlight, _name, None), "current_device", None)
        return current() if current is not None else 0
    return device


def _storage_to(self, device=None, non_blocking=False):
    there = rushlight.UntypedStorage(self.size(), device=f"{_name}:{_index(device)}")
    return there.copy_(self, non_blocking)


def _typed_storage_to(self, refused, device=None, non_blocking=False):
    if self.dtype in refused:
        raise RuntimeError(
            f"Cannot create {_name} storage as {self.dtype} dtype is not supported by this backend"
        )
    there = _storage_to(self._untyped_storage, device, non_blocking)
    return rushlight.TypedStorage(wrap_storage=there, dtype=self.dtype)


def _register_device_module(device_type: str, module: Any) -> None:
    """Make a module `torch.foo` of functions for a device, which no build has."""
    import sys

    kind = rushlight.device(device_type).type
    if hasattr(rushlight, kind):
        raise RuntimeError(
            f"The runtime module of '{kind}' has already been registered with "
            f"'{getattr(rushlight, kind)}'"
        )
    setattr(rushlight, kind, module)
    sys.modules[f"rushlight.{kind}"] = module
