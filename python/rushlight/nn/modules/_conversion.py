"""Moving and converting all tensors of a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.__future__ import _flags as _conversions
from rushlight._python_types import as_dtype
from rushlight.nn.parameter import Parameter
from rushlight.types import Device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self


class _Conversion:
    """The part of Module that changes the dtype, device or storage of its tensors."""

    def _apply(self, fn, recurse=True):
        """Replace each parameter, gradient and buffer by `fn` of it, keeping the Parameters."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is None:
                continue
            grad = param.grad
            with rushlight.no_grad():
                changed = fn(param)
            if _swaps(param, changed):
                param.grad, kept = None, param
                rushlight.utils.swap_tensors(param, Parameter(changed, param.requires_grad))
            elif _keeps_object(param, changed):
                param.data = changed
                kept = param
            else:
                kept = Parameter(changed, param.requires_grad)
                self._parameters[name] = kept
            if grad is not None:
                grad = _converted_gradient(grad, fn, kept is param)
                if kept.grad is not grad:
                    kept.grad = grad
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def apply(self, fn: Callable[..., Any]) -> Self:
        """Call `fn` on every submodule, children first, then on this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def cuda(self, device: Device = None) -> Any:
        """Move all parameters and buffers to a CUDA device, in place."""
        return self._apply(lambda t: t.cuda(device))

    def xpu(self, device: Device = None) -> Any:
        """Refused, as `ipu` and `mtia` are: there are no such devices."""
        raise RuntimeError("Module.xpu: rushlight does not support xpu devices")

    def ipu(self, device: Device = None) -> Any:
        """Refused: see `xpu`."""
        raise RuntimeError("Module.ipu: rushlight does not support ipu devices")

    def mtia(self, device: Device = None) -> Any:
        """Refused: see `xpu`."""
        raise RuntimeError("Module.mtia: rushlight does not support mtia devices")

    def cpu(self) -> Any:
        """Move all parameters and buffers to the CPU, in place."""
        return self._apply(lambda t: t.cpu())

    def type(self, dst_type: Any) -> Any:
        """Convert all parameters and buffers to `dst_type`, in place."""
        return self._apply(lambda t: t.type(dst_type))

    def _to_floating(self, dtype):
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self) -> Self:
        """Convert all floating-point parameters and buffers to float32, in place."""
        return self._to_floating(rushlight.float)

    def double(self) -> Self:
        """Convert all floating-point parameters and buffers to float64, in place."""
        return self._to_floating(rushlight.double)

    def half(self) -> Any:
        """Convert all floating-point parameters and buffers to float16, in place."""
        return self._to_floating(rushlight.half)

    def bfloat16(self) -> Any:
        """Convert all floating-point parameters and buffers to bfloat16, in place."""
        return self._to_floating(rushlight.bfloat16)

    def to_empty(self, *, device: Device, recurse: bool = True) -> Self:
        """Move to `device` without copying: the values are undefined afterwards."""
        return self._apply(lambda t: rushlight.empty_like(t, device=device), recurse=recurse)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move and convert all parameters and buffers, in place.

        Called as `to(device, dtype, non_blocking)`, `to(dtype, non_blocking)`,
        `to(tensor, non_blocking)` or `to(memory_format=...)`. Only floating-point and complex
        tensors change their dtype.
        """
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"Module.to: dtype must be floating point or complex, but got {dtype}")

        def convert(t):
            target = dtype if t.is_floating_point() or t.is_complex() else None
            if memory_format is not None and t.dim() in (4, 5):
                return t.to(device, target, non_blocking, memory_format=memory_format)
            return t.to(device, target, non_blocking)

        return self._apply(convert)

    def share_memory(self) -> Self:
        """Move all parameters and buffers to shared memory, in place."""
        return self._apply(lambda t: t.share_memory_())


def _keeps_object(param, changed):
    """Whether `param.data = changed` is wanted, and possible."""
    return not _conversions[
        "overwrite_module_params_on_conversion"
    ] and rushlight._has_compatible_shallow_copy_type(param, changed)


def _swaps(param, changed):
    """Whether the two objects exchange all that they are: where that is wanted, and where a dtype's
    tensors, or those that a wrapper is made of, are of a class of their own, so that
    `param.data = changed` could not do it.
    """
    from rushlight.utils._python_dispatch import is_traceable_wrapper_subclass

    if _conversions["swap_module_params_on_conversion"] or is_traceable_wrapper_subclass(changed):
        return True
    own_class = not (_is_native(param) and _is_native(changed))
    return own_class and not _conversions["overwrite_module_params_on_conversion"]


def _is_native(tensor):
    return type(tensor.dtype) is type(rushlight.float32)


def _converted_gradient(grad, fn, in_place):
    """`fn` of a gradient, in the same object if `in_place` and if that is possible."""
    with rushlight.no_grad():
        changed = fn(grad)
    if in_place and _swaps(grad, changed):
        rushlight.utils.swap_tensors(grad, changed.requires_grad_(grad.requires_grad))
    elif in_place and _keeps_object(grad, changed):
        grad.data = changed
    else:
        return changed.requires_grad_(grad.requires_grad)
    return grad


def _parse_to(*args, device=None, dtype=None, non_blocking=False, copy=None, memory_format=None):
    """(device, dtype, non_blocking, memory_format) from the arguments of `to`."""
    if copy is not None:
        raise RuntimeError("Module.to: does not take the argument copy")
    args = list(args)
    if args and isinstance(args[0], rushlight.Tensor):
        other = args.pop(0)
        device, dtype = other.device, other.dtype
    elif args and isinstance(as_dtype(args[0]), rushlight.dtype):
        dtype = args.pop(0)
    elif args:
        device = args.pop(0)
        if args:
            dtype = args.pop(0)
    if args:
        non_blocking = args.pop(0)
    if args:
        raise TypeError(f"Module.to: unexpected arguments {args}")
    dtype = as_dtype(dtype)
    if dtype is not None and not isinstance(dtype, rushlight.dtype):
        raise TypeError(f"Module.to: dtype must be a torch.dtype, not {type(dtype).__name__}")
    if memory_format is not None and not isinstance(memory_format, rushlight.memory_format):
        raise TypeError(
            f"Module.to: memory_format must be a torch.memory_format, not "
            f"{type(memory_format).__name__}"
        )
    if device is not None:
        device = rushlight.device(device)
    return device, dtype, non_blocking, memory_format
