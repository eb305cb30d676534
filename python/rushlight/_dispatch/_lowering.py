"""What a program calls, as the operations of `torch.ops.aten` that torch makes of it."""

from __future__ import annotations

import types

import rushlight
from rushlight import _C, Tensor
from rushlight._dispatch import _names, active, call, dispatches, state
from rushlight._dispatch._composites import WRITTEN, _pointwise, _shapes
from rushlight._dispatch._emit import emit, native, overload_of
from rushlight._set_module import home_of
from rushlight.library._operator import OpOverload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_running: list[Any] = []  # functions written in Python whose body runs here

# Of these a mode sees nothing: they ask about a tensor, or take its elements out of the program.
_NATIVE = set(
    """
    dim ndimension is_floating_point is_complex is_contiguous stride storage_offset element_size
    is_conj is_neg is_inference get_device is_signed is_pinned is_shared is_set_to is_coalesced
    __format__ __hash__ __repr__ __str__ is_same_size data_ptr size numel nelement __len__
    requires_grad_ register_hook retain_grad as_subclass untyped_storage storage __reduce_ex__
    tolist numpy __array__ __deepcopy__ __dlpack__ __dlpack_device__ resolve_conj resolve_neg
    from_numpy frombuffer from_dlpack dim_order type_as pin_memory
    register_post_accumulate_grad_hook share_memory_ has_names __setstate__ __dir__
    """.split()
)
_FROM_NUMBERS = {"tensor", "as_tensor", "asarray"}
_ELEMENTS = {"item": None, "__float__": float, "__int__": int, "__bool__": bool,
             "__index__": int, "__complex__": complex, "is_nonzero": bool}  # fmt: skip


def run(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Do what the program calls, by operations."""
    from rushlight.export import _record, _table

    name = getattr(func, "__name__", "")
    if isinstance(func, OpOverload):
        return call(func, args, kwargs)
    if name in ("__get__", "__set__", "__delete__") and hasattr(func, "__self__"):
        return _attribute(func, name, args)
    if name in _FROM_NUMBERS:
        return _from_numbers(func, args, kwargs)
    if name in _ELEMENTS:
        value = emit("_local_scalar_dense", args[0])
        return value if _ELEMENTS[name] is None else _ELEMENTS[name](value)
    target = _table.target_name(func)
    if target is None:
        result = _written(_key_of(func, name), args, kwargs)
        if result is not NotImplemented:
            return result
    if name in ("tolist", "numpy", "__array__") and "_wrapper_device" in args[0].__dict__:
        shown = {"tolist": ".tolist()"}.get(name, ".numpy()")
        raise RuntimeError(
            f"{shown} is not supported for tensor subclasses, got {type(args[0]).__name__}, which "
            "has no elements of its own"
        )
    if name == "retain_grad":
        from rushlight._dispatch._gradients import keep_gradient

        native(func, args, kwargs)
        return keep_gradient(args[0], retained=True)
    if name in _NATIVE:
        return native(func, args, kwargs)
    slot = _record._slot(name)
    if slot is not None:
        return _operator(slot, args)
    if target is not None:
        return _of_the_table(target, func, args, kwargs)
    return _in_python(func, name, args, kwargs)


def _key_of(func, name):
    """The name by which a function of Python stands among those that are written: without its
    module, if that is one of those that most functions are in.
    """
    module = home_of(func).removeprefix("rushlight.")
    if module.startswith(("fft", "linalg", "masked", "signal", "special")):
        return f"{module}.{name}"
    return name if module != "math" else ""


def _written(name, args, kwargs):
    """What a function is that is written as operations; NotImplemented if it is not."""
    function = WRITTEN.get(name)
    return NotImplemented if function is None else function(*args, **kwargs)


def _from_numbers(func, args, kwargs):
    if not args or dispatches(type(args[0])):
        return args[0] if args else native(func, args, kwargs)
    made = native(func, args, kwargs)
    return made if isinstance(args[0], Tensor) else emit("lift_fresh", made)


def _in_python(func, name, args, kwargs):
    if name == "backward" and isinstance(args[0], Tensor):
        func = rushlight.autograd.backward
    elif name == "grad" and func is rushlight.autograd.grad:
        func = rushlight.autograd._grad
    inner = getattr(func, "__wrapped__", None)
    if inner is None and isinstance(func, types.FunctionType):
        inner = func
    if inner is None or func in _running:
        return native(func, args, kwargs)
    _running.append(func)
    try:
        with active(state.modes):
            return inner(*args, **kwargs)
    finally:
        _running.remove(func)


_VIEWS = {"T", "mT", "H", "mH", "real", "imag", "data"}


def _attribute(func, access, args):
    name, x = func.__self__.__name__, args[0]
    if name == "device" and access == "__get__" and dispatches(type(x)):
        stated = x.__dict__.get("_wrapper_device")
        return native(func, args, {}) if stated is None else stated
    own = getattr(x, "__dict__", {})
    if name in ("is_cpu", "is_cuda", "is_meta") and "_wrapper_device" in own:
        return x.__dict__["_wrapper_device"].type == name.removeprefix("is_")
    if name == "grad" and "_wrapper_grad" in own:
        if access == "__get__":
            return x.__dict__["_wrapper_grad"]
        x.__dict__["_wrapper_grad"] = args[1] if access == "__set__" else None
        return native(func, args, {})
    if access != "__get__" or name not in _VIEWS:
        return native(func, args, {})
    if name == "data":
        return emit("detach", x)
    if name in ("real", "imag"):
        result = _pointwise.WRITTEN[name](x)
        return emit(name, x) if result is NotImplemented else result
    if name == "T":
        return emit("permute", x, list(range(x.dim()))[::-1])
    if name == "H" and x.dim() == 0:
        return native(func, args, {})
    return emit("transpose.int", x, -2, -1) if name == "mT" else _shapes.adjoint(x)


def _operator(slot, args):
    function, reflected = slot
    name = function.removeprefix("Tensor.")
    a, *rest = args
    if not reflected:
        return _of_the_table(function, getattr(Tensor, name), (a, *rest), {})
    (other,) = rest
    if name == "sub":
        return WRITTEN["rsub"](a, other)
    if name == "div" and not isinstance(other, Tensor):
        inverse = emit("reciprocal", a)
        return emit("mul.Tensor", inverse, other)
    if name in ("add", "mul"):
        return _of_the_table(function, getattr(Tensor, name), (a, other), {})
    return _of_the_table(f"torch.{name}", getattr(rushlight, name), (other, a), {})


def _of_the_table(target, func, args, kwargs):
    from rushlight.export import _table

    if kwargs.get("requires_grad"):  # of the result, which no operation sees
        made = _of_the_table(target, func, args, {**kwargs, "requires_grad": False})
        with _C.DisableTorchFunction():
            return made.requires_grad_()
    out = kwargs.get("out")
    if "out" in kwargs:
        kwargs = {k: v for k, v in kwargs.items() if k != "out"}
    found = _table.resolve(target, args, kwargs)
    if found is None:
        if not dispatches(type(args[0])) if args else True:
            return native(func, args, kwargs if out is None else {**kwargs, "out": out})
        raise NotImplementedError(f"__torch_dispatch__: a call of {target} fits no operation")
    row, values = found
    name = row.key.partition(".")[0].removeprefix("functional_")
    given, named = _table.arguments(row, values)
    given = tuple(list(v) if type(v) is tuple else v for v in given)
    for key in (target.removeprefix("nn."), row.key, name):
        if key in WRITTEN:
            result = WRITTEN[key](*given, **named)
            if result is not NotImplemented:
                return _into(out, result)
            break
    place = row.index("inplace")
    if place >= 0 and (named.pop("inplace", False) or given[place:] == (True,)):
        given, name = given[:place], f"{name}_"  # an operation of its own
    try:
        op = overload_of(*_names.aten_name(target, name, row, given, named))
        if name not in _OF_ONE_DIM:
            given, named = _with_lists(row, given, named)
    except AttributeError:
        op = _table.operation(row.key)  # what no name of torch's stands for
    return _into(out, call(op, given, named))


def _into(out, result):
    """Write a result, or several, where `out=` says."""
    if out is None:
        return result
    if isinstance(out, (tuple, list)):
        written = tuple(map(_into, out, result))
        return written if type(result) in (tuple, list) else type(result)(written)
    if out.shape != result.shape:
        emit("resize_", out, list(result.shape))
    return emit("copy_", out, result)


# One number for the dims of these is another operation than a list.
_OF_ONE_DIM = {"any", "all", "squeeze", "squeeze_", "count_nonzero"}


def _with_lists(row, given, named):
    """The arguments of which some are lists, where a call may have one number for such."""
    return (
        tuple(_as_list(p, v) for p, v in zip(row.parameters, given)),
        {key: _as_list(row.parameters[row.index(key)], v) for key, v in named.items()},
    )


def _as_list(parameter, value):
    if parameter.kind != "IntList" or type(value) is not int:
        return value
    return [value] * max(parameter.length, 1)
