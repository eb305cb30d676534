"""Parameters computed from others: a property in the place of a parameter."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn.modules.container import ModuleDict, ModuleList
from rushlight.nn.parameter import Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from rushlight.nn.modules.module import Module

    _T = TypeVar("_T", bound="Module")

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_cache_depth = 0
_cache = {}


@contextmanager
def cached() -> Iterator[Any]:
    """Within it every parametrized tensor is computed once."""
    global _cache_depth
    _cache_depth += 1
    try:
        yield
    finally:
        _cache_depth -= 1
        if _cache_depth == 0:
            _cache.clear()


def _register_parameter_or_buffer(module, name, value):
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in turn to `original` or `original0`, ...

    Args:
        modules: the parametrizations; those with a `right_inverse` also take assignments.
        original: the tensor that was there.
        unsafe: do not check that shape and dtype stay.
    """

    def __init__(
        self, modules: Sequence[Module], original: Tensor | Parameter, unsafe: bool = False
    ) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with rushlight.no_grad():
            new = original
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:  # it says so: assignments are not possible
                        pass
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(
                "right_inverse must return a Tensor or a Sequence of tensors, but it returned "
                f"{type(new).__name__}"
            )
        self.is_tensor: bool = isinstance(new, Tensor)
        self.ntensors: int = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            self._check_dtype(original, new)
            if new is not original:
                with rushlight.no_grad():
                    original.data = new.data
            _register_parameter_or_buffer(self, "original", original)
        else:
            for i, part in enumerate(new):
                if not isinstance(part, Tensor):
                    raise ValueError(
                        "right_inverse must return a Tensor or a Sequence of tensors, but got "
                        f"element {i} of the sequence with type {type(part).__name__}"
                    )
                if isinstance(original, Parameter):
                    part = Parameter(part, original.requires_grad)
                _register_parameter_or_buffer(self, f"original{i}", part)
        if not unsafe:
            self._check_result(self(), shape, dtype)

    @staticmethod
    def _check_dtype(original, new):
        if original.dtype != new.dtype:
            raise ValueError(
                "the tensor returned by right_inverse must have the same dtype: "
                f"{original.dtype} became {new.dtype}"
            )

    @staticmethod
    def _check_result(result, shape, dtype):
        if not isinstance(result, Tensor):
            raise ValueError(
                f"a parametrization must return a tensor, but it returned {type(result).__name__}"
            )
        if result.dtype != dtype:
            raise ValueError(
                "a parametrization may not change the dtype of the tensor unless unsafe=True: "
                f"{dtype} became {result.dtype}"
            )
        if result.shape != shape:
            raise ValueError(
                "a parametrization may not change the shape of the tensor unless unsafe=True: "
                f"{tuple(shape)} became {tuple(result.shape)}"
            )

    def originals(self) -> list[Parameter]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the parametrized tensor becomes `value`."""
        with rushlight.no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"{type(module).__name__} has no right_inverse, so the parametrized "
                        "tensor cannot be assigned"
                    )
                value = module.right_inverse(value)
            values = [value] if self.is_tensor else value
            if not isinstance(values, Sequence):
                raise ValueError(
                    f"right_inverse must return a sequence, not {type(value).__name__}"
                )
            if len(values) != self.ntensors:
                raise ValueError(
                    f"right_inverse must return {self.ntensors} tensors but returned {len(values)}"
                )
            for original, new in zip(self.originals(), values):
                if not isinstance(new, Tensor):
                    raise ValueError(f"right_inverse must return tensors, not {type(new).__name__}")
                self._check_dtype(original, new)
                original.data = new.data

    def forward(self) -> Tensor:
        """The parametrized tensor."""
        x = self[0](*self.originals())
        for i in range(1, len(self)):
            x = self[i](x)
        return x


def _inject_new_class(module):
    """Give the module a class of its own, for the properties to live in."""
    cls = module.__class__

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        replica = self.__new__(self.__class__)
        memo[id(self)] = replica
        replica.__dict__ = copy.deepcopy(self.__dict__, memo)
        # A copy's own parametrizations need a class of its own, too.
        names = list(replica.parametrizations)
        replica.__class__ = cls
        _inject_new_class(replica)
        for name in names:
            _inject_property(replica, name)
        return replica

    def __getstate__(self):
        raise RuntimeError("a parametrized module cannot be pickled; save its state_dict() instead")

    members = {"__getstate__": __getstate__}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = __deepcopy__
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)


def _inject_property(module, tensor_name):
    if hasattr(module, tensor_name):
        raise AssertionError(f"{type(module).__name__} still has '{tensor_name}'")

    def get(self):
        if _cache_depth == 0:
            return self.parametrizations[tensor_name]()
        key = (id(self), tensor_name)
        if key not in _cache:
            _cache[key] = self.parametrizations[tensor_name]()
        return _cache[key]

    def set(self, value):
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(module.__class__, tensor_name, property(get, set))


def register_parametrization(
    module: _T, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> _T:
    """Make `module.tensor_name` what `parametrization` computes from the tensor that was there.

    Args:
        parametrization: a module; its `right_inverse`, if any, makes assignments possible.
        unsafe: let it change shape or dtype, and do not check.

    Returns:
        The module, whose class is now a new one.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        stack = module.parametrizations[tensor_name]
        if not unsafe:
            current = getattr(module, tensor_name)
            new = parametrization(current)
            ParametrizationList._check_result(new, current.shape, current.dtype)
            if hasattr(parametrization, "right_inverse"):
                back = parametrization.right_inverse(new)
                if not isinstance(back, Tensor):
                    raise ValueError(
                        "right_inverse must return a tensor for a parametrization of a "
                        f"parametrization, but it returned {type(back).__name__}"
                    )
                for what in ("dtype", "shape"):
                    if getattr(back, what) != getattr(current, what):
                        raise ValueError(
                            f"the tensor returned by right_inverse must have the same {what}, "
                            f"unless the `unsafe` flag is enabled: {getattr(current, what)} "
                            f"became {getattr(back, what)}"
                        )
        stack.append(parametrization)
        stack.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        stack = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = stack
    else:
        raise ValueError(
            f"{type(module).__name__} does not have a parameter, a buffer, or a parametrized "
            f"element named '{tensor_name}'"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module, or one tensor of it, has parametrizations."""
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: _T, tensor_name: str, leave_parametrized: bool = True) -> _T:
    """Make the tensor an ordinary one again: its present value, or the original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(
            f"Module {type(module).__name__} does not have a parametrization on {tensor_name}"
        )
    stack = module.parametrizations[tensor_name]
    if stack.is_tensor:
        original = stack.original
        if leave_parametrized:
            with rushlight.no_grad():
                original.data = getattr(module, tensor_name).data
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "leave_parametrized=False needs one original tensor, but "
            f"{tensor_name} has {stack.ntensors}"
        )
    delattr(module.__class__, tensor_name)
    del module.parametrizations[tensor_name]
    _register_parameter_or_buffer(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = module.__class__.__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type[Any]:
    """The module's class without what parametrizations made of it."""
    return module.__class__.__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Let `to_module` have the parametrizations of `from_module`, and their originals: the same
    modules and parameters, not copies.
    """
    if not is_parametrized(from_module):
        return to_module
    names = from_module.parametrizations if tensor_name is None else [tensor_name]
    for name in list(names):
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        source = from_module.parametrizations[name]
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        for key, original in source._parameters.items():
            setattr(to_module.parametrizations[name], key, original)
    return to_module
