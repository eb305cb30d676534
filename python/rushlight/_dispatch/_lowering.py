"""What a program calls, as the operations of `torch.ops.aten` that torch makes of it."""

from __future__ import annotations

import math
import sys
import types

import rushlight
from rushlight import _C, Tensor
from rushlight._dispatch import active, call, dispatches, state
from rushlight.library._operator import OpOverload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.export._table import Schema

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


def emit(name: str, *args: Any, **kwargs: Any) -> Any:
    """Dispatch `torch.ops.aten.NAME(...)`, whose name ends with that of an overload."""
    bare, _, overload = name.partition(".")
    return call(overload_of(bare, overload or "default"), args, kwargs)


def overload_of(name: str, overload: str) -> OpOverload:
    """torch.ops.aten.NAME.OVERLOAD"""
    return getattr(getattr(rushlight.ops.aten, name), overload)


def run(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Do what the program calls, by operations."""
    from rushlight.export import _record, _table

    name = getattr(func, "__name__", "")
    if isinstance(func, OpOverload):
        return call(func, args, kwargs)
    if name in ("__get__", "__set__", "__delete__") and hasattr(func, "__self__"):
        return _attribute(func, name, args)
    if name in _NATIVE:
        return _native(func, args, kwargs)
    if name in _FROM_NUMBERS:
        return _from_numbers(func, args, kwargs)
    if name in _ELEMENTS:
        value = emit("_local_scalar_dense", args[0])
        return value if _ELEMENTS[name] is None else _ELEMENTS[name](value)
    if name in _WRITTEN and func is not getattr(sys.modules.get("math"), name, None):
        result = _WRITTEN[name](*args, **kwargs)
        if result is not NotImplemented:
            return result
    slot = _record._slot(name)
    if slot is not None:
        return _operator(slot, args)
    target = _table.target_name(func)
    if target is not None:
        return _of_the_table(target, func, args, kwargs)
    return _in_python(func, name, args, kwargs)


def _native(func, args, kwargs):
    with _C.DisableTorchFunction():
        return func(*args, **kwargs)


def _from_numbers(func, args, kwargs):
    if not args or dispatches(type(args[0])):
        return args[0] if args else _native(func, args, kwargs)
    made = _native(func, args, kwargs)
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
        return _native(func, args, kwargs)
    _running.append(func)
    try:
        with active(state.modes):
            return inner(*args, **kwargs)
    finally:
        _running.remove(func)
        if name in ("backward", "grad"):
            state.gradients = []


_VIEWS = {"T", "mT", "H", "mH", "real", "imag", "data"}


def _attribute(func, access, args):
    name, x = func.__self__.__name__, args[0]
    if name == "device" and access == "__get__" and dispatches(type(x)):
        stated = x.__dict__.get("_wrapper_device")
        return _native(func, args, {}) if stated is None else stated
    own = getattr(x, "__dict__", {})
    if name in ("is_cpu", "is_cuda", "is_meta") and "_wrapper_device" in own:
        return x.__dict__["_wrapper_device"].type == name.removeprefix("is_")
    if name == "grad" and "_wrapper_grad" in own:
        if access == "__get__":
            return x.__dict__["_wrapper_grad"]
        x.__dict__["_wrapper_grad"] = args[1] if access == "__set__" else None
        return _native(func, args, {})
    if access != "__get__" or name not in _VIEWS:
        return _native(func, args, {})
    if name == "data":
        return emit("detach", x)
    if name in ("T", "H"):
        result = emit("permute", x, list(range(x.dim()))[::-1])
    elif name in ("mT", "mH"):
        result = emit("transpose.int", x, -2, -1)
    else:
        return x if name == "real" and not x.is_complex() else emit(name, x)
    return emit("conj", result) if name in ("H", "mH") and x.is_complex() else result


def _operator(slot, args):
    function, reflected = slot
    name = function.removeprefix("Tensor.")
    a, *rest = args
    if not reflected:
        return _of_the_table(function, getattr(Tensor, name), (a, *rest), {})
    (other,) = rest
    if name == "sub" and not isinstance(other, Tensor):
        return emit("rsub.Scalar", a, other)
    if name == "div" and not isinstance(other, Tensor):
        inverse = emit("reciprocal", a)
        return emit("mul.Tensor", inverse, other)
    if name in ("add", "mul"):
        return _of_the_table(function, getattr(Tensor, name), (a, other), {})
    return _of_the_table(f"torch.{name}", getattr(rushlight, name), (other, a), {})


def _of_the_table(target, func, args, kwargs):
    from rushlight.export import _table

    out = kwargs.get("out")
    if "out" in kwargs:
        kwargs = {k: v for k, v in kwargs.items() if k != "out"}
    found = _table.resolve(target, args, kwargs)
    if found is None:
        if not dispatches(type(args[0])) if args else True:
            return _native(func, args, kwargs if out is None else {**kwargs, "out": out})
        raise NotImplementedError(f"__torch_dispatch__: a call of {target} fits no operation")
    row, values = found
    name = row.key.partition(".")[0].removeprefix("functional_")
    given, named = _table.arguments(row, values)
    given = tuple(list(v) if type(v) is tuple else v for v in given)
    if name in _WRITTEN:
        result = _WRITTEN[name](*given, **named)
        if result is not NotImplemented:
            return result if out is None else emit("copy_", out, result)
    try:
        op = overload_of(_renamed(name), _overload(name, row, given, named))
    except AttributeError:
        op = _table.operation(row.key)  # what no name of torch's stands for
    result = call(op, given, named)
    return result if out is None else emit("copy_", out, result)


_NAMES = {
    "cross_entropy": "cross_entropy_loss", "vector_norm": "linalg_vector_norm",
    "concat": "cat", "concatenate": "cat", "multiply": "mul", "divide": "div", "subtract": "sub",
    "true_divide": "div", "greater": "gt", "less": "lt", "greater_equal": "ge",
    "less_equal": "le", "not_equal": "ne", "negative": "neg", "absolute": "abs",
    "clip": "clamp", "bitwise_not": "bitwise_not", "nonzero_tuple": "nonzero",
}  # fmt: skip


def _renamed(name):
    return _NAMES.get(name, name)


# ---- which overload

_TENSOR_OR_NUMBER = set("add sub mul div add_ sub_ mul_ div_ floor_divide arctan2".split())
_BY_OTHER = set(
    """
    eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor remainder fmod masked_fill masked_fill_
    fill_ bitwise_and_ bitwise_or_ bitwise_xor_ remainder_ fmod_ bitwise_left_shift
    bitwise_right_shift xlogy lerp lerp_ index_fill index_fill_
    """.split()
)
_FIXED = {
    "select": "int", "slice": "Tensor", "transpose": "int", "index": "Tensor", "unbind": "int",
    "split": "Tensor", "where": "self", "std": "correction", "var": "correction",
    "std_mean": "correction", "var_mean": "correction", "empty": "memory_format",
    "arange": "default", "bernoulli_": "float", "cumsum": "default",
}  # fmt: skip
_BY_DIM = {"sum": "dim_IntList", "mean": "dim", "prod": "dim_int", "max": "dim", "min": "dim",
           "any": "dim", "all": "dim", "squeeze": "dim", "median": "dim", "nansum": "default",
           "count_nonzero": "dim_IntList"}  # fmt: skip


def _overload(name: str, row: Schema, args: Any, kwargs: Any) -> str:
    if name in ("div", "div_") and kwargs.get("rounding_mode") is not None:
        return "Tensor_mode"
    if name in _TENSOR_OR_NUMBER:
        return "Tensor"
    if name in ("pow", "pow_"):
        if not isinstance(args[0], Tensor):
            return "Scalar"
        return "Tensor_Tensor" if isinstance(args[1], Tensor) else "Tensor_Scalar"
    if name in _BY_OTHER:
        last = args[-1] if len(args) > 1 else next(iter(kwargs.values()), None)
        return "Tensor" if isinstance(last, Tensor) else "Scalar"
    if name in _FIXED:
        return _FIXED[name]
    if name in _BY_DIM:
        second = args[1] if len(args) > 1 else kwargs.get("dim")
        if isinstance(second, Tensor):
            return "other"
        if name == "squeeze" and isinstance(second, list):
            return "dims"
        return "default" if second is None else _BY_DIM[name]
    return row.key.partition(".")[2] or "default"


# ---- functions that torch makes of other operations


def _linear(input, weight, bias=None):
    if bias is None:
        return _matmul(input, emit("t", weight))
    if input.dim() == 1:
        return emit("add.Tensor", _matmul(input, emit("t", weight)), bias)
    if input.dim() == 2:
        return emit("addmm", bias, input, emit("t", weight))
    flat = _reshape(input, (-1, input.shape[-1]))
    product = emit("addmm", bias, flat, emit("t", weight))
    return emit("view", product, [*input.shape[:-1], weight.shape[0]])


def _matmul(a, b):
    if a.dim() == 1 and b.dim() == 1:
        return emit("dot", a, b)
    if a.dim() == 2 and b.dim() == 2:
        return emit("mm", a, b)
    if a.dim() == 2 and b.dim() == 1:
        return emit("mv", a, b)
    if a.dim() == 1 and b.dim() == 2:
        return emit("squeeze.dim", emit("mm", emit("unsqueeze", a, 0), b), 0)
    if a.dim() >= 1 and b.dim() in (1, 2) and a.dim() > 2:
        flat = _reshape(a, (-1, a.shape[-1]))
        product = emit("mm" if b.dim() == 2 else "mv", flat, b)
        return emit("_unsafe_view", product, [*a.shape[:-1], *b.shape[1:]])
    return _batched_matmul(a, b)


def _batched_matmul(a, b):
    if a.dim() == 1:
        return emit("squeeze.dim", _matmul(emit("unsqueeze", a, 0), b), -2)
    if b.dim() == 1:
        return emit("squeeze.dim", _matmul(a, emit("unsqueeze", b, -1)), -1)
    batch = list(rushlight.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    count = math.prod(batch)
    a3, b3 = (
        _reshape(emit("expand", x, [*batch, *x.shape[-2:]]), (count, *x.shape[-2:])) for x in (a, b)
    )
    return emit("_unsafe_view", emit("bmm", a3, b3), [*batch, a.shape[-2], b.shape[-1]])


def _sizes(x, shape):
    known = -math.prod(shape)
    return [x.numel() // known if n == -1 and known else n for n in shape]


def _can_view(x, shape):
    if x.is_contiguous():
        return True
    probe = rushlight.empty_strided(x.shape, x.stride(), device="meta")
    try:
        probe.view(shape)
    except RuntimeError:
        return False
    return True


def _reshape(x, shape):
    shape = _sizes(x, shape)
    with _C.DisableTorchFunction():
        fits = _can_view(x, shape)
    if fits:
        return emit("view", x, shape)
    copy = emit("clone", x, memory_format=rushlight.contiguous_format)
    return emit("_unsafe_view", copy, shape)


def _flatten(x, start_dim=0, end_dim=-1):
    if x.dim() == 0:
        return _reshape(x, (1,))
    start, end = start_dim % x.dim(), end_dim % x.dim()
    if start == end:
        return x
    return _reshape(x, (*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))


def _softmax(x, dim, dtype=None, _stacklevel=3):
    return emit("_softmax", x if dtype is None else emit("_to_copy", x, dtype=dtype), dim, False)


def _log_softmax(x, dim, dtype=None, _stacklevel=3):
    x = x if dtype is None else emit("_to_copy", x, dtype=dtype)
    return emit("_log_softmax", x, dim, False)


_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
              reduction="mean"):  # fmt: skip
    if input.dim() not in (1, 2) or size_average is not None or reduce is not None:
        return NotImplemented
    reduction = _REDUCTIONS.get(reduction, reduction)
    return emit("nll_loss_forward", input, target, weight, reduction, ignore_index)[0]


def _cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
                   reduction="mean", label_smoothing=0.0):  # fmt: skip
    if target.is_floating_point() or label_smoothing or input.dim() not in (1, 2):
        return NotImplemented
    scores = emit("_log_softmax", input, 1 if input.dim() == 2 else 0, False)
    return _nll_loss(scores, target, weight, size_average, ignore_index, reduce, reduction)


def _mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    if size_average is not None or reduce is not None or weight is not None:
        return NotImplemented
    number = _REDUCTIONS.get(reduction, reduction)
    return emit("mse_loss", input, target, *(() if number == 1 else (number,)))


def _dropout(input, p=0.5, training=True, inplace=False):
    if inplace or not 0 < p < 1:
        return NotImplemented
    if not training:
        return input
    noise = emit("empty_like", input)
    noise = emit("div_.Scalar", emit("bernoulli_.float", noise, 1 - p), 1 - p)
    return emit("mul.Tensor", input, noise)


def _layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    return emit("native_layer_norm", input, list(normalized_shape), weight, bias, eps)[0]


def _to(x, *args, **kwargs):
    with _C.DisableTorchFunction():
        probe = rushlight.empty(0, dtype=x.dtype, device="meta")
        options = dict(kwargs)
        for value in args:
            if isinstance(value, rushlight.dtype):
                options["dtype"] = value
            elif isinstance(value, Tensor):
                options["dtype"], options["device"] = value.dtype, value.device
            elif isinstance(value, (str, rushlight.device, int)) and not isinstance(value, bool):
                options["device"] = rushlight.device(value)
        del probe
    copy = options.pop("copy", False)
    options = {k: v for k, v in options.items() if v is not None and v is not False}
    if "device" in options and rushlight.device(options["device"]) == x.device:
        del options["device"]
    if options.get("dtype") is x.dtype:
        del options["dtype"]
    if not options and not copy:
        return x
    return emit("_to_copy", x, **options)


def _cast(dtype):
    return lambda x, memory_format=None: _to(x, dtype)


def _convolution(dims):
    def convolution(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        if isinstance(padding, str) or input.dim() != dims + 2:
            return NotImplemented

        def wide(v):
            return [v] * dims if isinstance(v, int) else list(v) * (dims if len(v) == 1 else 1)

        return emit("convolution", input, weight, bias, wide(stride), wide(padding),
                    wide(dilation), False, [0] * dims, groups)  # fmt: skip

    return convolution


def _chunk(x, chunks, dim=0):
    size = max(-(-x.shape[dim] // chunks), 1) if chunks > 0 else 0
    return emit("split.Tensor", x, size, *((dim,) if dim else ())) if size else NotImplemented


def _contiguous(x, memory_format=None):
    format = rushlight.contiguous_format if memory_format is None else memory_format
    if x.is_contiguous(memory_format=format):
        return x
    return emit("clone", x, memory_format=format)


def _embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0,
               scale_grad_by_freq=False, sparse=False):  # fmt: skip
    if max_norm is not None:
        return NotImplemented
    options = (-1 if padding_idx is None else padding_idx, scale_grad_by_freq, sparse)
    return emit("embedding", weight, input, *(options if options != (-1, False, False) else ()))


def _max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
                return_indices=False):  # fmt: skip
    def two(v):
        return [v, v] if isinstance(v, int) else list(v)

    options = [[] if stride is None else two(stride), two(padding), two(dilation), ceil_mode]
    defaults = [[], [0, 0], [1, 1], False]
    while options and options[-1] == defaults[len(options) - 1]:
        options.pop()
    both = emit("max_pool2d_with_indices", input, two(kernel_size), *options)
    return both if return_indices else both[0]


class _Indices:
    """What `export._indexing` asks of whoever records."""

    def call(self, key, args, **kwargs):
        name, _, overload = key.partition(".")
        if name in ("view_as", "reshape", "to"):
            return _WRITTEN[name](*args, **kwargs)
        row_free = {"index": "Tensor", "slice": "Tensor", "select": "int"}
        if name == "fill_":
            overload = "Scalar"
        return emit(f"{name}.{row_free.get(name, overload or 'default')}", *map(_listed, args),
                    **kwargs)  # fmt: skip

    def _data(self, tensor):
        return tensor


def _listed(value):
    return list(value) if type(value) is tuple else value


def _get_item(x, index):
    from rushlight.export import _indexing

    return _indexing.get_item(_Indices(), x, index)


def _set_item(x, index, value):
    from rushlight.export import _indexing

    _indexing.set_item(_Indices(), x, index, value)
    return None


_WRITTEN: dict[str, Callable[..., Any]] = {
    "linear": _linear, "matmul": _matmul, "__matmul__": _matmul,
    "view_as": lambda x, other: emit("view", x, list(other.shape)),
    "reshape_as": lambda x, other: _reshape(x, other.shape),
    "expand_as": lambda x, other: emit("expand", x, list(other.shape)),
    "flatten": _flatten, "ravel": lambda x: _reshape(x, (x.numel(),)),
    "softmax": _softmax, "log_softmax": _log_softmax, "nll_loss": _nll_loss,
    "cross_entropy": _cross_entropy, "mse_loss": _mse_loss, "dropout": _dropout,
    "layer_norm": _layer_norm, "to": _to, "to_dtype": _to, "chunk": _chunk,
    "contiguous": _contiguous, "conv1d": _convolution(1), "conv2d": _convolution(2),
    "conv3d": _convolution(3), "embedding": _embedding, "max_pool2d": _max_pool2d,
    "__getitem__": _get_item, "__setitem__": _set_item,
    "swapaxes": lambda x, a, b: emit("transpose.int", x, a, b),
    "float": _cast(rushlight.float32), "double": _cast(rushlight.float64),
    "half": _cast(rushlight.float16), "long": _cast(rushlight.int64),
    "int": _cast(rushlight.int32), "bool": _cast(rushlight.bool),
    "bfloat16": _cast(rushlight.bfloat16),
    "bitwise_not": lambda x: emit("bitwise_not", x),
    "__iter__": lambda x: iter(emit("unbind.int", x)),
}  # fmt: skip


def _reshape_varargs(x, *shape, **kwargs):
    if "shape" in kwargs:
        shape = kwargs["shape"]
    elif len(shape) == 1 and not isinstance(shape[0], int):
        (shape,) = shape
    return _reshape(x, tuple(shape))


_WRITTEN["reshape"] = _reshape_varargs
