"""The functions that take sparse tensors, and those of one tensor, value by value.

All others say that they do not. `_shapes`, `_arithmetic` and `_products` add theirs to the table.
A rule names the layouts that it takes; without, it takes COO alone.
"""

from __future__ import annotations

import rushlight
from rushlight import _C, Tensor
from rushlight._integers import wrapped_dim
from rushlight._out import into
from rushlight._python_types import as_dtype
from rushlight.sparse._tensor import (
    COMPRESSED,
    COO,
    CSR,
    SparseTensor,
    check_has_elements,
    coalesced,
    compress,
    construct,
    values_of,
    with_values,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight.types import Device, _dtype, _layout, _memory_format

ANY = (COO, *COMPRESSED)
COO_AND_CSR = (COO, CSR)

# What is known without the elements.
_OF_THE_SHAPE = {
    "size", "dim", "ndimension", "numel", "nelement", "element_size", "is_floating_point",
    "is_complex", "is_signed", "is_inference", "requires_grad_", "retain_grad", "register_hook",
    "register_post_accumulate_grad_hook", "backward", "grad", "is_same_size", "detach_", "__len__",
    "_is_view", "is_pinned", "is_conj", "is_neg", "get_device",
    "as_tensor", "asarray",  # of a tensor, that tensor
    "result_type",
}  # fmt: skip
_ATTRIBUTES = {
    "shape", "dtype", "ndim", "itemsize", "requires_grad", "grad", "_grad", "grad_fn", "is_leaf",
    "retains_grad", "output_nr", "_version", "_backward_hooks", "_post_accumulate_grad_hooks",
    "is_cuda", "is_cpu", "is_meta", "is_mps", "is_xpu", "is_mkldnn", "is_nested", "is_quantized",
    "is_sparse", "is_sparse_csr", "layout", "device", "data", "_grad_fn", "nbytes", "name",
    "_cdata",
}  # fmt: skip
_FUNCTIONS = {}  # name -> the rule, and the layouts that it takes
# Functions whose node in the graph is one of that name; of others the steps are shown.
_NODES = {
    **{name: f"{name.title()}Backward0" for name in ("add", "addmm", "bmm", "mm", "mul", "mv",
                                                     "neg", "sub", "sum")},
    **dict.fromkeys(("__add__", "__radd__"), "AddBackward0"),
    **dict.fromkeys(("__mul__", "__rmul__"), "MulBackward0"),
    "__sub__": "SubBackward0", "to_dense": "ToDenseBackward0",
}  # fmt: skip


def _layouts_of(arguments):
    for argument in arguments:
        if isinstance(argument, SparseTensor):
            yield argument.layout
        elif isinstance(argument, (list, tuple)):
            yield from _layouts_of(argument)


def call(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Carry out a function or method of tensors, some of which are sparse."""
    name = getattr(func, "__name__", str(func))
    owner = getattr(func, "__self__", None)
    if name in ("__get__", "__set__") and owner is not None:
        name = owner.__name__
        if name in _ATTRIBUTES:
            with _C._SubclassesOff():
                return func(*args, **kwargs)
    if name in _OF_THE_SHAPE:
        with _C._SubclassesOff():
            return func(*args, **kwargs)
    rule, layouts = _FUNCTIONS.get(name) or _own_method(name)
    given = list(_layouts_of([*args, *kwargs.values()]))
    for layout in given:
        if layout not in layouts:
            refuse(name, layout)
    if "out" in kwargs:
        out, rest = kwargs["out"], {k: v for k, v in kwargs.items() if k != "out"}
        return _into(name, out, rule(*args, **rest))
    since = _C._last_node()
    result = rule(*args, **kwargs)
    if _C._last_node() != since and (node := _node_of(name, args)):
        _C._join_nodes(result, since, node, args, list(kwargs.values()))
    return result


def _own_method(name):
    """What the class of sparse tensors has itself, called as a function of `Tensor`."""
    own = vars(SparseTensor).get(name)
    return (own, ANY) if callable(own) else (None, ())


def _node_of(name, args):
    if name in ("matmul", "__matmul__", "mm", "mv"):
        if len(args) == 2 and all(isinstance(operand, SparseTensor) for operand in args):
            return "SparseSparseMatmulBackward0"
        return _NODES.get({1: "mv", 2: "mm", 3: "bmm"}.get(args[-1].dim()))
    return _NODES.get(name)


def _into(name, out, result):
    """`out` with a result in it."""
    if not isinstance(out, SparseTensor) and not isinstance(result, SparseTensor):
        return into(out, result)
    if out.layout is not result.layout:
        raise NotImplementedError(
            f"{name}: out= with a sparse result needs its layout, {result.layout}, got {out.layout}"
        )
    if out.shape != result.shape and out.layout is not COO:
        raise RuntimeError(
            f"{name}: out= of shape {tuple(out.shape)} for a result in layout {result.layout} and "
            f"of shape {tuple(result.shape)}"
        )
    return replace(out, result)


def refuse(name: str, *layouts: Any) -> None:
    """Raise the error for a function without a rule."""
    given = " and ".join(str(layout).removeprefix("torch.") for layout in layouts)
    raise NotImplementedError(
        f"{name}: not implemented for tensors in layout {given}; x.to_dense() gives an ordinary"
        " tensor"
    )


def function(*names: Any, layouts: Sequence[_layout] = (COO,)) -> Callable[..., Any]:
    """Make the decorated function the one that these names call for sparse tensors."""

    def register(f):
        for name in names or [f.__name__]:
            _FUNCTIONS[name] = f, layouts
        return f

    return register


def map_values(sparse: bool, f: Callable[..., Any]) -> SparseTensor:
    return with_values(sparse, f(values_of(sparse)))


def _each(sparse, f):
    return map_values(coalesced(sparse), f)


def _add_unary(name):
    plain = getattr(rushlight, name)

    def unary(input, inplace=False, **options):
        result = _each(input, lambda values: plain(values, **options))
        return replace(input, result) if inplace else result

    _FUNCTIONS[name] = unary, ANY
    if hasattr(Tensor, f"{name}_"):
        _FUNCTIONS[f"{name}_"] = (lambda input: replace(input, _each(input, plain))), ANY


for _name in (
    "abs", "sin", "tan", "sinh", "tanh", "asin", "atan", "asinh", "atanh", "sqrt", "square",
    "sign", "sgn", "floor", "ceil", "round", "trunc", "expm1", "log1p", "relu", "erf", "erfinv",
    "deg2rad", "rad2deg", "nan_to_num", "isnan", "isinf", "isposinf", "isneginf", "signbit", "frac",
    "positive", "conj", "conj_physical", "angle",
):  # fmt: skip
    if hasattr(rushlight, _name):
        _add_unary(_name)
_FUNCTIONS["absolute"] = _FUNCTIONS["__abs__"] = _FUNCTIONS["abs"]


@function("neg", "negative", "__neg__", layouts=ANY)
def neg(input: Tensor) -> SparseTensor:
    return map_values(input, rushlight.neg)


@function("pow", "__pow__", layouts=ANY)
def power(input: Tensor, exponent: int | SparseTensor) -> SparseTensor:
    if not isinstance(exponent, (int, float)) or isinstance(input, (int, float)) or exponent <= 0:
        raise RuntimeError("pow: a sparse tensor takes a positive number as its exponent")
    return _each(input, lambda values: values**exponent)


@function(layouts=ANY)
def clone(input: Tensor, *, memory_format: _memory_format | None = None) -> SparseTensor:
    if memory_format not in (None, rushlight.preserve_format):
        raise RuntimeError(f"clone: sparse tensors have no memory format such as {memory_format}")
    return _C._sparse_clone(input)


@function(layouts=ANY)
def detach(input: Tensor) -> SparseTensor:
    with rushlight.no_grad():
        return map_values(input, lambda values: values)


@function("resolve_conj", "resolve_neg", layouts=ANY)
def resolved(input: Tensor) -> Tensor:
    return input  # conj() and neg() of sparse tensors are no views


def replace(input: Tensor, result: Any) -> SparseTensor:
    """Give `input` the elements of `result`."""
    if rushlight.is_grad_enabled() and (input.requires_grad or result.requires_grad):
        raise RuntimeError("a sparse tensor that requires a gradient cannot be changed in place")
    if not rushlight.can_cast(result.dtype, input.dtype):
        raise RuntimeError(f"result type {result.dtype} can't be cast to {input.dtype} in place")
    _C._sparse_replace(input, result.to(input.dtype))
    return input


@function(layouts=ANY)
def to(
    input: Tensor,
    *args: Any,
    dtype: _dtype | None = None,
    device: Device = None,
    copy: bool = False,
    non_blocking: bool = False,
    memory_format: _memory_format | None = None,
) -> SparseTensor:  # fmt: skip
    if memory_format not in (None, rushlight.preserve_format):
        raise RuntimeError(f"to: sparse tensors have no memory format such as {memory_format}")
    for arg in args:
        if isinstance(arg, Tensor):
            dtype = arg.dtype
        elif isinstance(as_dtype(arg), rushlight.dtype):
            dtype = arg
        elif isinstance(arg, (str, rushlight.device)) or type(arg) is int:
            device = arg
    if isinstance(args[0] if args else None, Tensor):
        device = args[0].device
    dtype = as_dtype(dtype)
    moved = input if device is None else _moved(input, rushlight.device(device), non_blocking)
    if dtype is None or dtype == input.dtype:
        return clone(input) if copy and moved is input else moved
    return map_values(moved, lambda values: values.to(dtype))


def _moved(input, device, non_blocking=False):
    """The tensor on another device, to which gradients find their way."""
    check_has_elements("to", device)
    if device == input.device or (device.index is None and device.type == input.device.type):
        return input
    first, second, _ = _C._sparse_parts(input)
    first = first.to(device, non_blocking=non_blocking)
    values = values_of(input).to(device, non_blocking=non_blocking)
    if second is None:
        return construct(first, values, input.shape, input.is_coalesced())
    second = second.to(device, non_blocking=non_blocking)
    return compress(input.layout, first, second, values, input.shape)


@function(layouts=ANY)
def cuda(
    input: Tensor,
    device: Device = None,
    non_blocking: bool = False,
    memory_format: _memory_format | None = None,
) -> SparseTensor:
    place = rushlight.device("cuda" if device is None else device)
    return to(input, device=place, non_blocking=non_blocking, memory_format=memory_format)


def _add_conversion(name, dtype):
    _FUNCTIONS[name] = (lambda input, **options: to(input, dtype)), ANY


for _name, _dtype in {
    "float": rushlight.float32, "double": rushlight.float64, "half": rushlight.float16,
    "bfloat16": rushlight.bfloat16, "int": rushlight.int32, "long": rushlight.int64,
    "short": rushlight.int16, "char": rushlight.int8, "byte": rushlight.uint8,
    "bool": rushlight.bool,
}.items():  # fmt: skip
    _add_conversion(_name, _dtype)


@function(layouts=ANY)
def cpu(input: Tensor, memory_format: _memory_format | None = None) -> SparseTensor:
    return to(input, device="cpu", memory_format=memory_format)


@function("contiguous", layouts=ANY)
def same(input: Tensor, **options: Any) -> Any:
    return input


@function(layouts=ANY)
def type_as(input: Tensor, other: Tensor) -> Any:
    return to(input, other.dtype)


@function(layouts=ANY)
def is_contiguous(input: Tensor, **options: Any) -> bool:
    return False


@function("is_nonzero", "__bool__", layouts=ANY)
def is_nonzero(input: Tensor) -> bool:
    if input.numel() != 1:
        raise RuntimeError(
            "Boolean value of Tensor with more than one value is ambiguous"
            if input.numel()
            else "Boolean value of Tensor with no values is ambiguous"
        )
    return bool(input.to_dense())


@function("item", "__float__", "__int__", layouts=ANY)
def item(input: Tensor) -> Any:
    if input.numel() != 1:
        raise RuntimeError(f"a Tensor with {input.numel()} elements cannot be converted to Scalar")
    return input.to_dense().item()


@function(
    "data_ptr", "untyped_storage", "storage", "stride", "storage_offset", "tolist", layouts=ANY
)  # fmt: skip
def data_ptr(input: Tensor, *args: Any) -> Any:
    raise RuntimeError(
        "a sparse tensor has no storage of its elements; its indices and values have"
    )


def wrap_dim(dim: int, tensor: Tensor) -> int:
    return wrapped_dim(dim, tensor.dim())


def need_sparse(name: str, *tensors: Any) -> None:
    if not all(isinstance(tensor, SparseTensor) for tensor in tensors):
        raise RuntimeError(f"{name}: sparse and dense tensors together; see to_dense")


def check_same_form(name: str, a: Tensor, b: SparseTensor) -> None:
    if a.shape != b.shape:
        raise RuntimeError(
            f"{name}: sparse tensors of shapes {tuple(a.shape)} and {tuple(b.shape)}; they do not"
            " broadcast"
        )
    if a.layout is not b.layout:
        refuse(name, a.layout, b.layout)
    if a.sparse_dim() != b.sparse_dim():
        raise RuntimeError(
            f"{name}: sparse tensors with {a.sparse_dim()} and {b.sparse_dim()} sparse dims"
        )
