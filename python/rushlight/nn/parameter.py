"""Tensors that a module registers by themselves: parameters and buffers, initialized or not."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight._tensor import _state_of
from rushlight.types import Device, _dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self


__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


_TensorMeta = type if TYPE_CHECKING else type(Tensor)


class _MarkedMeta(_TensorMeta):
    """Lets a tensor of another subclass that was wrapped in Parameter or Buffer count as one."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        mark = cls.__dict__.get("_mark")  # its own: nothing counts as of a subclass by the mark
        return mark is not None and isinstance(instance, Tensor) and getattr(instance, mark, False)


_ParameterMeta = _MarkedMeta  # the name by which libraries derive from it


class Parameter(Tensor, metaclass=_MarkedMeta):
    """A tensor that becomes a parameter of the module it is assigned to.

    Args:
        data: the values; shared, not copied.
        requires_grad: whether it is trained.
    """

    __torch_function__: Any = rushlight._disabled_torch_function_impl
    _mark = "_is_param"

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Self:
        if data is None:
            data = rushlight.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        return _mark_subclass(data, requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            data = self.data.clone(memory_format=rushlight.preserve_format)
            memo[id(self)] = type(self)(data, self.requires_grad)
        return memo[id(self)]

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: int) -> tuple[Any, ...]:
        state = _state_of(self)
        args = (self.data, self.requires_grad, OrderedDict())
        if state:
            return rushlight._utils._rebuild_parameter_with_state, (*args, state)
        return rushlight._utils._rebuild_parameter, args


def _rebuild_parameter(data, requires_grad, backward_hooks, state=None):
    parameter = Parameter(data, requires_grad)
    parameter._backward_hooks = backward_hooks
    if state:
        parameter.__setstate__(state)
    return parameter


_rebuild_parameter.__module__ = "rushlight._utils"  # where files look for it


def _mark_subclass(data, requires_grad):
    """`data`, of a Tensor subclass, as a new leaf of its own class that counts as a Parameter."""
    leaf = data.detach().requires_grad_(requires_grad)
    if type(leaf) is not type(data):
        raise RuntimeError(
            f"Parameter: a parameter of a {type(data).__name__} requires that detach() returns an "
            f"instance of the same type, but it returned a {type(leaf).__name__}"
        )
    leaf._is_param = True
    return leaf


class Buffer(Tensor, metaclass=_MarkedMeta):
    """A tensor that becomes a buffer of the module it is assigned to.

    Args:
        data: the values; shared, not copied.
        persistent: whether the buffer belongs to the module's state_dict.
    """

    __torch_function__: Any = rushlight._disabled_torch_function_impl
    _mark = "_is_buffer"

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Self:
        if data is None:
            data = rushlight.empty(0)
        buffer = data.detach().requires_grad_(data.requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer


class UninitializedTensorMixin:
    """A tensor whose shape is not known yet; `materialize` gives it one."""

    # What a module may ask of its parameters before their shape is known.
    _allowed_methods = [
        Tensor.__hash__,
        Tensor.size,
        Tensor.copy_,
        Tensor.is_complex,
        Tensor.is_floating_point,
        Tensor.half,
        Tensor.float,
        Tensor.double,
        Tensor.char,
        Tensor.short,
        Tensor.int,
        Tensor.long,
        Tensor.cuda,
        Tensor.cpu,
        Tensor.to,
        Tensor.get_device,
        rushlight._has_compatible_shallow_copy_type,
    ]

    def materialize(
        self, shape: Sequence[int], device: Device = None, dtype: _dtype | None = None
    ) -> None:
        """Become an ordinary parameter or buffer of this shape, its values undefined."""
        if device is None:
            device = self.data.device
        if dtype is None:
            dtype = self.data.dtype
        self.data: Tensor = rushlight.empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "the shape of an uninitialized parameter or buffer is not known; run the module's "
            "forward once to initialize it"
        )

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "cannot share memory on an uninitialized parameter or buffer; run the module's forward "
            "once to initialize it"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: int) -> tuple[Any, ...]:
        return (type(self), (self.requires_grad,))

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type[Any]],
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        # Properties arrive as their accessors, `Tensor.device.__get__` and the like.
        if func in cls._allowed_methods or type(func).__name__ == "method-wrapper":
            return super().__torch_function__(func, types, args, kwargs or {})
        raise ValueError(
            f"{getattr(func, '__name__', func)}: not possible on an uninitialized parameter; "
            "run the module's forward once to initialize it"
        )


def is_lazy(value: Any) -> bool:
    return isinstance(value, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape the first call of its lazy module decides."""

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Device = None, dtype: _dtype | None = None
    ) -> Self:
        data = rushlight.empty(0, device=device, dtype=dtype)
        return Tensor._make_subclass(cls, data, requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape the first call of its lazy module decides."""

    cls_to_become = Tensor

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Device = None,
        dtype: _dtype | None = None,
        persistent: bool = True,
    ) -> Self:
        data = rushlight.empty(0, device=device, dtype=dtype)
        buffer = Tensor._make_subclass(cls, data, requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            data = self.data
            memo[id(self)] = type(self)(
                self.requires_grad, data.device, data.dtype, self.persistent
            )
        return memo[id(self)]
