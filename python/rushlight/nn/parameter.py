"""Tensors that a module registers by themselves: parameters and buffers, initialized or not."""

from collections import OrderedDict

import rushlight
from rushlight import Tensor

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


class _ParameterMeta(type(Tensor)):
    """Lets a tensor of another subclass that was wrapped in Parameter count as one."""

    def __instancecheck__(cls, instance):
        if super().__instancecheck__(instance):
            return True
        return (
            cls is Parameter
            and isinstance(instance, Tensor)
            and getattr(instance, "_is_param", False)
        )


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that becomes a parameter of the module it is assigned to.

    Args:
        data: the values; shared, not copied.
        requires_grad: whether it is trained.
    """

    __torch_function__ = rushlight._disabled_torch_function_impl

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = rushlight.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        return _mark_subclass(data, requires_grad, "Parameter", "_is_param")

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            data = self.data.clone(memory_format=rushlight.preserve_format)
            memo[id(self)] = type(self)(data, self.requires_grad)
        return memo[id(self)]

    def __repr__(self):
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol):
        state = dict(self.__dict__)
        args = (self.data, self.requires_grad, OrderedDict())
        return (_rebuild_parameter, (*args, state) if state else args)


def _rebuild_parameter(data, requires_grad, backward_hooks, state=None):
    parameter = Parameter(data, requires_grad)
    parameter._backward_hooks = backward_hooks
    if state:
        parameter.__dict__.update(state)
    return parameter


def _mark_subclass(data, requires_grad, role, mark):
    """`data`, of a Tensor subclass, as a new leaf of its own class that counts as a `role`."""
    leaf = data.detach().requires_grad_(requires_grad)
    if type(leaf) is not type(data):
        raise RuntimeError(
            f"{role}: detach() of a {type(data).__name__} must return a {type(data).__name__}, "
            f"but it returned a {type(leaf).__name__}"
        )
    setattr(leaf, mark, True)
    return leaf


class _BufferMeta(type(Tensor)):
    def __instancecheck__(cls, instance):
        if super().__instancecheck__(instance):
            return True
        return (
            cls is Buffer
            and isinstance(instance, Tensor)
            and getattr(instance, "_is_buffer", False)
        )


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that becomes a buffer of the module it is assigned to.

    Args:
        data: the values; shared, not copied.
        persistent: whether the buffer belongs to the module's state_dict.
    """

    __torch_function__ = rushlight._disabled_torch_function_impl

    def __new__(cls, data=None, *, persistent=True):
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
    ]

    def materialize(self, shape, device=None, dtype=None):
        """Become an ordinary parameter or buffer of this shape, its values undefined."""
        if device is None:
            device = self.data.device
        if dtype is None:
            dtype = self.data.dtype
        self.data = rushlight.empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self):
        raise RuntimeError(
            "shape: this parameter has none yet; run the module's forward once to initialize it"
        )

    def share_memory_(self):
        raise RuntimeError(
            "share_memory_: this parameter has no data yet; run the module's forward once first"
        )

    def __repr__(self):
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol):
        return (type(self), (self.requires_grad,))

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        # Properties arrive as their accessors, `Tensor.device.__get__` and the like.
        if func in cls._allowed_methods or type(func).__name__ == "method-wrapper":
            return super().__torch_function__(func, types, args, kwargs or {})
        raise ValueError(
            f"{getattr(func, '__name__', func)}: not possible on an uninitialized parameter; "
            "run the module's forward once to initialize it"
        )


def is_lazy(value):
    return isinstance(value, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape the first call of its lazy module decides."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad=True, device=None, dtype=None):
        data = rushlight.empty(0, device=device, dtype=dtype)
        return Tensor._make_subclass(cls, data, requires_grad)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape the first call of its lazy module decides."""

    cls_to_become = Tensor

    def __new__(cls, requires_grad=False, device=None, dtype=None, persistent=True):
        data = rushlight.empty(0, device=device, dtype=dtype)
        buffer = Tensor._make_subclass(cls, data, requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            data = self.data
            memo[id(self)] = type(self)(
                self.requires_grad, data.device, data.dtype, self.persistent
            )
        return memo[id(self)]
