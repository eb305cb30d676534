"""The functions that take quantized tensors; all others say by name that they do not."""

from __future__ import annotations

import rushlight
from rushlight import _C
from rushlight._quantized import _tensor
from rushlight._quantized._tensor import (
    QuantizedTensor,
    Quantizer,
    dequantize,
    make,
    plain,
    quantize_per_tensor,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# What is known without the elements' meaning.
_OF_THE_SHAPE = {
    "size", "dim", "ndimension", "numel", "nelement", "element_size", "stride", "storage_offset",
    "is_contiguous", "data_ptr", "__len__", "get_device", "is_same_size", "is_complex",
    "is_floating_point", "is_signed", "untyped_storage", "_is_view", "is_inference", "__hash__",
}  # fmt: skip
_ATTRIBUTES = {
    "shape", "ndim", "itemsize", "requires_grad", "grad", "grad_fn", "is_leaf", "_version",
    "is_cuda", "is_cpu", "is_meta", "is_mps", "is_xpu", "is_sparse", "layout", "device", "nbytes",
    "_backward_hooks", "is_nested", "name", "_base",
}  # fmt: skip
# Functions that move elements: those of a tensor quantized per channel keep their places.
_MOVES = (
    "view", "reshape", "flatten", "transpose", "t", "permute", "squeeze", "unsqueeze", "select",
    "narrow", "__getitem__", "expand", "index_select", "repeat", "flip", "unflatten", "movedim",
    "split", "chunk", "unbind", "view_as", "reshape_as", "expand_as", "channel_shuffle",
    "pixel_shuffle", "pixel_unshuffle", "ravel", "T", "mT",
)  # fmt: skip
_SAME_PLACES = ("clone", "contiguous", "detach", "cpu", "empty_like")
# Functions whose result is quantized as their input was.
_IN_FLOAT = (
    "avg_pool2d", "adaptive_avg_pool2d", "avg_pool1d", "adaptive_avg_pool1d", "mean", "relu6",
    "hardtanh", "leaky_relu", "interpolate", "sigmoid", "tanh", "max_pool2d", "max_pool1d",
    "topk", "sort", "max", "min", "elu", "hardsigmoid", "avg_pool3d", "adaptive_avg_pool3d",
    "clamp", "threshold", "masked_fill", "pad", "gelu", "grid_sample", "std",
)  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {}


def call(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Carry out a function or method of tensors, some of which are quantized."""
    name = getattr(func, "__name__", str(func))
    owner = getattr(func, "__self__", None)
    known = _OF_THE_SHAPE
    if name in ("__get__", "__set__") and owner is not None:
        name, known = owner.__name__, _ATTRIBUTES
    if name in known:
        with _C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    if name == "max_pool2d_with_indices" or name not in _FUNCTIONS:
        raise NotImplementedError(
            f"{name}: not implemented for quantized tensors; x.dequantize() gives an ordinary one"
        )
    return _FUNCTIONS[name](func, *args, **kwargs)


def _rewrap(result, quantizer):
    if isinstance(result, (tuple, list)):
        return type(result)(_rewrap(part, quantizer) for part in result)
    return make(result, quantizer)


def _move(func, input, *args, **kwargs):
    if input._quantizer.axis is not None:
        raise NotImplementedError(
            f"{func.__name__}: not implemented for tensors quantized per channel; x.dequantize() "
            "gives an ordinary one"
        )
    args = [plain(arg) if isinstance(arg, QuantizedTensor) else arg for arg in args]
    return _rewrap(func(plain(input), *args, **kwargs), input._quantizer)


def _keep(func, input, *args, **kwargs):
    return make(func(plain(input), *args, **kwargs), input._quantizer)


def _in_float(func, input, *args, **kwargs):
    quantizer = input._quantizer
    if quantizer.axis is not None:
        raise NotImplementedError(
            f"{func.__name__}: not implemented for tensors quantized per channel"
        )
    if func.__name__ in _FIXED:
        quantizer = _FIXED[func.__name__](input.dtype)
    dtype = input.dtype
    result = func(dequantize(input), *args, **kwargs)

    def again(part):
        return quantize_per_tensor(part, quantizer.scale, quantizer.zero_point, dtype)

    if isinstance(result, tuple):  # values and indices
        return type(result)((again(result[0]), *result[1:]))
    return again(result)


def _unit(dtype):
    """The steps of results from 0 to 1."""
    return Quantizer(1 / 256, -128 if dtype is rushlight.qint8 else 0)


def _both_signs(dtype):
    """The steps of results from -1 to 1."""
    return Quantizer(1 / 128, 0 if dtype is rushlight.qint8 else 128)


_FIXED = {"sigmoid": _unit, "hardsigmoid": _unit, "tanh": _both_signs}


def _relu(func, input, *args, **kwargs):
    quantizer = input._quantizer
    zero = quantizer.broadcast(input.dim())[1]
    if quantizer.axis is None:
        integers = plain(input).clamp(min=zero)
    else:
        integers = rushlight.maximum(plain(input), zero.to(plain(input).dtype))
    result = make(integers, quantizer)
    if func.__name__ == "relu_" or kwargs.get("inplace"):
        plain(input).copy_(integers)
        return input
    return result


def _cat(func, tensors, dim=0):
    first = tensors[0]
    if not all(isinstance(tensor, QuantizedTensor) for tensor in tensors):
        raise NotImplementedError(f"{func.__name__}: quantized and ordinary tensors together")
    numbers = func([dequantize(tensor) for tensor in tensors], dim)
    return quantize_per_tensor(
        numbers, _tensor.q_scale(first), _tensor.q_zero_point(first), first.dtype
    )


def _equal(func, input, other):
    same = isinstance(input, QuantizedTensor) and isinstance(other, QuantizedTensor)
    if not same or input.dtype is not other.dtype:
        return False
    a, b = input._quantizer, other._quantizer
    if a.axis != b.axis or a.scheme is not b.scheme:
        return False
    if a.axis is None:
        same = (a.scale, a.zero_point) == (b.scale, b.zero_point)
    else:
        same = rushlight.equal(a.scale, b.scale) and rushlight.equal(a.zero_point, b.zero_point)
    return same and rushlight.equal(plain(input), plain(other))


def _compare(func, input, other):
    return func(*[x.dequantize() if isinstance(x, QuantizedTensor) else x for x in (input, other)])


def _copy_(func, input, src, non_blocking=False):
    if not isinstance(input, QuantizedTensor):
        return input.copy_(dequantize(src))
    if isinstance(src, QuantizedTensor):
        if src.dtype is not input.dtype:
            raise RuntimeError(f"copy_: from {src.dtype} to {input.dtype}")
        plain(input).copy_(plain(src))
        input._quantizer = src._quantizer
        return input
    quantizer = input._quantizer
    if quantizer.axis is None:
        rounded = quantize_per_tensor(
            src.float(), quantizer.scale, quantizer.zero_point, input.dtype
        )
    else:
        rounded = _tensor.quantize_per_channel(
            src.float(), quantizer.scale, quantizer.zero_point, quantizer.axis, input.dtype
        )
    plain(input).copy_(plain(rounded))
    return input


def _assign(func, input, *args, **kwargs):
    """Let a function change the numbers, which are rounded to the steps of `input` again."""
    if not isinstance(input, QuantizedTensor):
        raise NotImplementedError(f"{func.__name__}: a quantized tensor into an ordinary one")
    numbers = dequantize(input)
    given = [dequantize(a) if isinstance(a, QuantizedTensor) else a for a in args]
    func(numbers, *given, **kwargs)
    _copy_(func, input, numbers)
    return None if func.__name__ == "__setitem__" else input


def _to(func, input, *args, **kwargs):
    for arg in (*args, *kwargs.values()):
        if isinstance(arg, rushlight.dtype):
            raise RuntimeError(
                f"to: a quantized tensor is not converted to {arg}; dequantize() it first"
            )
    return make(plain(input).to(*args, **kwargs), input._quantizer)


def _item(func, input):
    return dequantize(input).item()


def _requires_grad_(func, input, requires_grad=True):
    if requires_grad:
        raise RuntimeError("requires_grad_: only floating-point tensors can require gradients")
    return input


def _dropout(func, input, p=0.5, training=True, inplace=False):
    if training:
        raise NotImplementedError(f"{func.__name__}: of quantized tensors only training=False")
    return input


def _own(function):
    return lambda func, *args, **kwargs: function(*args, **kwargs)


for _name in _MOVES:
    _FUNCTIONS[_name] = _move
for _name in _SAME_PLACES:
    _FUNCTIONS[_name] = _keep
for _name in _IN_FLOAT:
    _FUNCTIONS[_name] = _in_float
for _name in ("eq", "ne", "lt", "le", "gt", "ge", "__eq__", "__ne__", "allclose", "isclose"):
    _FUNCTIONS[_name] = _compare
for _name in (
    "int_repr", "q_scale", "q_zero_point", "q_per_channel_scales", "q_per_channel_zero_points",
    "q_per_channel_axis", "dequantize",
):  # fmt: skip
    _FUNCTIONS[_name] = _own(getattr(_tensor, _name))
_FUNCTIONS["qscheme"] = _own(_tensor.qscheme_of)
_FUNCTIONS |= {
    "relu": _relu, "relu_": _relu, "cat": _cat, "concat": _cat, "stack": _cat, "equal": _equal,
    "copy_": _copy_, "__setitem__": _assign, "fill_": _assign, "masked_fill_": _assign,
    "index_put_": _assign, "zero_": _assign,
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d"), _dropout),
    "to": _to, "item": _item, "requires_grad_": _requires_grad_,
}  # fmt: skip
