"""Small questions about tensors and modes, as functions."""

from __future__ import annotations

import functools

import rushlight
from rushlight import _C
from rushlight._ignored import warn_of
from rushlight._numpy_names import numpy_names_of, rename

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import TypeIs

    from rushlight import Tensor
    from rushlight.types import Device

is_grad_enabled: Callable[[], bool] = _C.is_grad_enabled
is_inference_mode_enabled: Callable[[], bool] = _C.is_inference_mode_enabled
is_anomaly_enabled: Callable[[], bool] = _C.is_anomaly_enabled
is_anomaly_check_nan_enabled: Callable[[], bool] = _C.is_anomaly_check_nan_enabled
set_anomaly_enabled: Callable[..., None] = _C.set_anomaly_enabled


def is_tensor(obj: Any) -> TypeIs[Tensor]:
    """Is it a tensor?"""
    return isinstance(obj, rushlight.Tensor)


def _disable_dynamo(fn=None, recursive=True):
    """A decorator that changes nothing: functions run as they are."""
    return (lambda f: f) if fn is None else fn


def _cast(name, dtype):
    def cast(input, non_blocking=False):
        return input.to(getattr(rushlight, dtype), non_blocking=non_blocking)

    cast.__name__ = cast.__qualname__ = name
    cast.__doc__ = f"Return `input` with dtype {dtype}: see `Tensor.to`."
    return cast


for _name, _dtype in (
    ("Byte", "uint8"), ("Char", "int8"), ("Double", "float64"), ("Float", "float32"),
    ("Half", "float16"), ("Int", "int32"), ("Long", "int64"), ("Short", "int16"),
):  # fmt: skip
    globals()[f"_cast_{_name}"] = _cast(f"_cast_{_name}", _dtype)


def is_storage(obj: Any) -> bool:
    """Is it a storage?"""
    return isinstance(obj, (rushlight.UntypedStorage, rushlight.TypedStorage))


_NOT_GIVEN = object()


def _of_a_tensor(function):
    """Let a question about one tensor be taken over by its class, or by a mode."""

    names = numpy_names_of(function)

    @functools.wraps(function)
    def asked(input=_NOT_GIVEN, **kwargs):
        if kwargs or input is _NOT_GIVEN:
            if input is not _NOT_GIVEN:
                kwargs["input"] = input
            kwargs = rename(function, names, kwargs)
            if list(kwargs) != ["input"]:
                return function(**kwargs)  # says what is wrong
            input = kwargs["input"]
        if _C._has_torch_function_unary(input):
            return _C._handle_torch_function(asked, (input,), (input,), {})
        return function(input)

    return asked


@_of_a_tensor
def is_floating_point(input: Tensor) -> bool:
    """Is the dtype one of float16, bfloat16, float32, float64?"""
    return input.is_floating_point()


@_of_a_tensor
def is_complex(input: Tensor) -> bool:
    """Is the dtype one of complex64, complex128?"""
    return input.is_complex()


@_of_a_tensor
def is_nonzero(input: Tensor) -> bool:
    """Is the only element nonzero?"""
    return bool(input)


@_of_a_tensor
def numel(input: Tensor) -> Any:
    """How many elements there are."""
    return input.numel()


def typename(obj: Any) -> str:
    """The name of a tensor's legacy type, or of any object's class with its module."""
    if isinstance(obj, rushlight.Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    return f"{kind.__module__}.{kind.__qualname__}"


def _assert_async(input, assert_msg="Expected Tensor with single nonzero value, but got zero"):
    """Raise if a tensor of one element is zero: at once, as results are known at once."""
    if not input.item():
        raise RuntimeError(assert_msg)


def _assert(condition, message):
    """An assert that takes a tensor as its condition."""
    if type(condition) is not rushlight.Tensor and _C._has_torch_function((condition,)):
        return _C._handle_torch_function(_assert, (condition,), (condition, message), {})
    assert condition, message


_COMPILE_MODES = (
    "default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune",
)  # fmt: skip


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """Return a function as it is, and a module in one that calls it and whose state has its names
    behind `_orig_mod.`: operations run as they are called, and nothing is compiled.

    Also a decorator. What would choose how to compile is checked as torch does, and a warning says
    once that it has no effect.

    Args:
        model: a function or module.
        disable: return a module as it is, too.
        backend: the name of torch's compiler is no wish for another, and is not warned of.

    Example:
        >>> double = torch.compile(lambda x: x * 2)
        >>> double(torch.ones(2))
        tensor([2., 2.])
    """
    if mode is not None and options is not None:
        raise RuntimeError("compile: expected mode or options, but both are given")
    if mode not in (None, *_COMPILE_MODES):
        raise RuntimeError(f"compile: mode={mode!r}, expected one of {', '.join(_COMPILE_MODES)}")
    if not disable:
        warn_of(
            "compile", "operations run as they are called, with the same results",
            fullgraph=fullgraph, dynamic=dynamic, mode=None if mode == "default" else mode,
            backend=None if backend in ("inductor", "eager") else backend, options=options,
            name=name, recompile_limit=recompile_limit, isolate_recompiles=isolate_recompiles,
            shapes_spec=shapes_spec,
        )  # fmt: skip
    if model is None:
        return lambda given: _compiled(given, disable)
    return _compiled(model, disable)


def _compiled(model, disable):
    if not callable(model):
        raise AssertionError(f"compile: expected a function or module, got {type(model).__name__}")
    if disable or not isinstance(model, rushlight.nn.Module):
        return model
    from rushlight._dynamo.eval_frame import OptimizedModule

    return model if isinstance(model, OptimizedModule) else OptimizedModule(model)


def get_device_module(device: Device = None) -> Any:
    """The module of a kind of device: rushlight.cpu, rushlight.cuda, ...

    Args:
        device: a device or its name; by default the accelerator, or the CPU without one.
    """
    if device is None:
        device = rushlight.accelerator.current_accelerator() or "cpu"
    kind = rushlight.device(device).type
    module = getattr(rushlight, kind, None)
    if module is None:
        raise RuntimeError(
            f"Invalid device_module of type {kind!r}: there is no module of that name"
        )
    return module


class SymInt:
    """A number that is not known yet, in traced programs: no object is one."""


class SymFloat:
    """A number that is not known yet, in traced programs: no object is one."""


class SymBool:
    """A truth value that is not known yet, in traced programs: no object is one."""


@_of_a_tensor
def get_device(input: Tensor) -> Any:
    """The index of the GPU that a tensor is on; -1 on the CPU."""
    return input.get_device()


@_of_a_tensor
def is_signed(input: Tensor) -> bool:
    """Can the dtype hold negative numbers?"""
    return input.is_signed()


@_of_a_tensor
def is_conj(input: Tensor) -> bool:
    """Is the conjugation of this view done when it is read?"""
    return input.is_conj()


@_of_a_tensor
def is_neg(input: Tensor) -> bool:
    """Is the negation of this view done when it is read?"""
    return input.is_neg()


@_of_a_tensor
def is_inference(input: Tensor) -> bool:
    """Was it made in inference mode?"""
    return input.is_inference()


@_of_a_tensor
def is_distributed(input: Tensor) -> bool:
    """Is it spread over several processes? Never."""
    return False
