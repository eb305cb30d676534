"""The operations of `quantized_decomposed`: quantized tensors as integers, by plain operations.

Programs that export names them in graphs; importing this module registers them.
"""

from __future__ import annotations

import rushlight
from rushlight.ao.quantization.utils import determine_qparams, validate_qmin_qmax
from rushlight.library import Library, impl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor

quantized_decomposed_lib = Library("quantized_decomposed", "DEF")

_INTEGERS = (rushlight.uint8, rushlight.int8, rushlight.uint16, rushlight.int16, rushlight.int32)
_FLOATS = (rushlight.float8_e5m2, rushlight.float8_e4m3fn)
_DTYPE_TO_QVALUE_BOUNDS = {
    **{dtype: (rushlight.iinfo(dtype).min, rushlight.iinfo(dtype).max) for dtype in _INTEGERS},
    **{
        dtype: (int(rushlight.finfo(dtype).min), int(rushlight.finfo(dtype).max))
        for dtype in _FLOATS
    },
}
_FLOATING = (rushlight.float32, rushlight.float16, rushlight.bfloat16)


def _check(holds: bool, *message: object) -> None:
    if not holds:
        raise AssertionError("".join(map(str, message)))


def _quant_min_max_bounds_check(quant_min: int, quant_max: int, dtype: Any) -> None:
    """Check that a dtype holds all integers from quant_min to quant_max."""
    if dtype not in _DTYPE_TO_QVALUE_BOUNDS:
        raise ValueError(f"Unsupported dtype: {dtype}")
    lowest, highest = _DTYPE_TO_QVALUE_BOUNDS[dtype]
    _check(quant_min >= lowest, "quant_min ", quant_min, " is below ", lowest, ", of ", dtype)
    _check(quant_max <= highest, "quant_max ", quant_max, " is above ", highest, ", of ", dtype)


def _per_token_quant_qparam_dim_check(input: Tensor, scales: Tensor, zero_points: Tensor) -> None:
    """Check that there is one scale and one zero point for each row of the last dim.

    Raises:
        AssertionError: there are not.
    """
    tokens = input.shape[:-1].numel()
    for name, found in (("scales", scales), ("zero_points", zero_points)):
        if found.numel() != tokens:
            raise AssertionError(f"num_tokens: {tokens}, but {name} have shape {found.shape}")


def _operator(signature: str) -> Callable[[Any], Any]:
    """Define an operation, and register the decorated function for it."""
    quantized_decomposed_lib.define(signature)
    return impl(quantized_decomposed_lib, signature.partition("(")[0], "CompositeExplicitAutograd")


def _as_float32(input):
    if input.dtype in (rushlight.float16, rushlight.bfloat16):
        input = input.to(rushlight.float32)
    _check(input.dtype == rushlight.float32, "expected a float32 input, but got ", input.dtype)
    return input


def _quantize(input, scale, zero_point, quant_min, quant_max, dtype):
    scaled = rushlight.round(input * (1.0 / scale)) + zero_point
    return rushlight.clamp(scaled, quant_min, quant_max).to(dtype)


def _along(values, input, axis):
    """One value for each index of an axis, in a shape that broadcasts with input."""
    _check(axis < input.dim(), "expected axis to be < ", input.dim(), ", but got ", axis)
    shape = [1] * input.dim()
    shape[axis] = values.shape[0]
    return values.view(shape)


def _numbers(*values):
    for value in values:
        if isinstance(value, rushlight.Tensor):
            _check(value.numel() == 1, "expected a tensor of one element, but got ", value.shape)
    return [value.item() if isinstance(value, rushlight.Tensor) else value for value in values]


@_operator(
    "quantize_per_tensor(Tensor input, float scale, int zero_point, "
    "int quant_min, int quant_max, ScalarType dtype) -> Tensor"
)
def quantize_per_tensor(
    input: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int, dtype: Any
) -> Tensor:
    """The integers from quant_min to quant_max nearest to ``input / scale + zero_point``."""
    input = _as_float32(input)
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    return _quantize(input, scale, zero_point, quant_min, quant_max, dtype)


@_operator(
    "quantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, "
    "Tensor quant_min, Tensor quant_max, ScalarType dtype) -> Tensor"
)
@_operator(
    "quantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, "
    "int quant_min, int quant_max, ScalarType dtype) -> Tensor"
)
def quantize_per_tensor_tensor(
    input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: Any, quant_max: Any, dtype: Any
) -> Tensor:
    """`quantize_per_tensor`, with numbers in tensors."""
    if input.is_meta:
        return rushlight.empty_like(input, dtype=dtype)
    return quantize_per_tensor(input, *_numbers(scale, zero_point, quant_min, quant_max), dtype)


@_operator(
    "dequantize_per_tensor(Tensor input, float scale, int zero_point, "
    "int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
)
def dequantize_per_tensor(
    input: Tensor,
    scale: float,
    zero_point: int,
    quant_min: int,
    quant_max: int,
    dtype: Any,
    *,
    out_dtype: Any = None,
) -> Tensor:
    """``(input - zero_point) * scale``, in float32 or out_dtype.

    Args:
        quant_min, quant_max: for those who match graphs.
    """
    _check(input.dtype == dtype, "expected an input of ", dtype, ", but got ", input.dtype)
    if dtype not in _DTYPE_TO_QVALUE_BOUNDS:
        raise ValueError(f"Unsupported dtype in dequantize_per_tensor: {dtype}")
    return (input.to(out_dtype or rushlight.float32) - zero_point) * scale


@_operator(
    "dequantize_per_tensor.tensor2(Tensor input, Tensor scale, Tensor zero_point, Tensor quant_min,"
    " Tensor quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
)
@_operator(
    "dequantize_per_tensor.tensor(Tensor input, Tensor scale, Tensor zero_point, "
    "int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
)
def dequantize_per_tensor_tensor(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: Any,
    quant_max: Any,
    dtype: Any,
    *,
    out_dtype: Any = None,
) -> Tensor:
    """`dequantize_per_tensor`, with numbers in tensors."""
    if input.is_meta:
        return rushlight.empty_like(input, dtype=out_dtype or rushlight.float32)
    numbers = _numbers(scale, zero_point, quant_min, quant_max)
    return dequantize_per_tensor(input, *numbers, dtype, out_dtype=out_dtype)


quantize_per_tensor_tensor2 = quantize_per_tensor_tensor
dequantize_per_tensor_tensor2 = dequantize_per_tensor_tensor


def _choose_qparams(input, quant_min, quant_max, eps, dtype, qscheme):
    _check(input.dtype in _FLOATING, "expected a floating point input, but got ", input.dtype)
    _check(dtype in _DTYPE_TO_QVALUE_BOUNDS, "unsupported target dtype: ", dtype)
    validate_qmin_qmax(quant_min, quant_max)
    if input.is_meta:
        return (
            input.new_empty(1, dtype=rushlight.float64),
            input.new_empty(1, dtype=rushlight.int64),
        )
    smallest, largest = rushlight.aminmax(input)
    limit = rushlight.tensor([eps], dtype=rushlight.float32)
    numbers = (smallest, largest, quant_min, quant_max, dtype, limit)
    return determine_qparams(*numbers, has_customized_qrange=False, qscheme=qscheme)


@_operator(
    "choose_qparams.tensor(Tensor input, int quant_min, int quant_max, "
    "float eps, ScalarType dtype) -> (Tensor, Tensor)"
)
def choose_qparams_tensor(
    input: Tensor, quant_min: int, quant_max: int, eps: float, dtype: Any
) -> tuple[Tensor, Tensor]:
    """The scale, at least eps, and the zero point that cover the values of a tensor."""
    scheme = rushlight.per_tensor_affine
    return _choose_qparams(input, quant_min, quant_max, eps, dtype, scheme)


@_operator(
    "choose_qparams_symmetric.tensor(Tensor input, int quant_min, int quant_max, "
    "float eps, ScalarType dtype) -> (Tensor, Tensor)"
)
def choose_qparams_symmetric_tensor(
    input: Tensor, quant_min: int, quant_max: int, eps: float, dtype: Any
) -> tuple[Tensor, Tensor]:
    """`choose_qparams_tensor` where zero is in the middle."""
    scheme = rushlight.per_tensor_symmetric
    return _choose_qparams(input, quant_min, quant_max, eps, dtype, scheme)


@_operator(
    "quantize_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, "
    "int quant_min, int quant_max, ScalarType dtype) -> Tensor"
)
def quantize_per_channel(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: Any,
) -> Tensor:
    """`quantize_per_tensor`, with a scale and a zero point for each index of an axis."""
    input = _as_float32(input)
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    scales, zero_points = _along(scales, input, axis), _along(zero_points, input, axis)
    return _quantize(input, scales, zero_points, quant_min, quant_max, dtype)


@_operator(
    "dequantize_per_channel(Tensor input, Tensor scales, Tensor? zero_points, int axis, "
    "int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
)
def dequantize_per_channel(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: Any,
    *,
    out_dtype: Any = None,
) -> Tensor:
    """`dequantize_per_tensor`, with a scale and a zero point for each index of an axis."""
    _check(input.dtype == dtype, "expected an input of ", dtype, ", but got ", input.dtype)
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    if zero_points is not None:
        input = input - _along(zero_points, input, axis)
    return (input * _along(scales, input, axis)).to(out_dtype or rushlight.float32)


@_operator("choose_qparams_per_token(Tensor input, ScalarType dtype) -> (Tensor, Tensor)")
def choose_qparams_per_token(input: Tensor, dtype: Any) -> tuple[Tensor, Tensor]:
    """A scale for each row of the last dim, with zero in the middle."""
    if dtype != rushlight.int8:
        raise Exception(f"unsupported dtype in choose_qparams_per_token: {dtype}")  # noqa: TRY002
    scales = input.abs().amax(-1, keepdim=True)
    if scales.dtype == rushlight.float16:
        scales = scales.float()
    scales = scales.clamp(min=1e-5).div(127)
    return scales, rushlight.zeros_like(scales)


@_operator(
    "_choose_qparams_per_token_asymmetric_impl(Tensor input, ScalarType dtype) -> (Tensor, Tensor)"
)
def _choose_qparams_per_token_asymmetric_impl(input: Tensor, dtype: Any) -> tuple[Tensor, Tensor]:
    lowest, highest = -128, 127
    smallest = input.amin(-1, keepdim=True).clamp(max=0)
    largest = input.amax(-1, keepdim=True).clamp(min=0)
    scale = (largest - smallest) / float(highest - lowest)
    scale = scale.clamp(min=rushlight.finfo(rushlight.float32).eps)
    below, above = smallest / scale, largest / scale
    zero_point = rushlight.where(
        (lowest + below) + (highest + above) > 0, lowest - below, highest - above
    )
    zero_point = zero_point.clamp(lowest, highest).round()
    return scale.to(rushlight.float64), zero_point.to(rushlight.int64)


@_operator(
    "choose_qparams_per_token_asymmetric(Tensor input, ScalarType dtype) -> (Tensor, Tensor)"
)
def choose_qparams_per_token_asymmetric(input: Tensor, dtype: Any) -> tuple[Tensor, Tensor]:
    """A scale and a zero point in int8 for each row of the last dim."""
    return _choose_qparams_per_token_asymmetric_impl(input, dtype)


@_operator(
    "quantize_per_token(Tensor input, Tensor scales, Tensor zero_points, "
    "int quant_min, int quant_max, ScalarType dtype) -> Tensor"
)
def quantize_per_token(
    input: Tensor, scales: Tensor, zero_points: Tensor, quant_min: int, quant_max: int, dtype: Any
) -> Tensor:
    """`quantize_per_tensor`, with a scale and a zero point for each row of the last dim."""
    _quant_min_max_bounds_check(quant_min, quant_max, dtype)
    _per_token_quant_qparam_dim_check(input, scales, zero_points)
    scaled = input.mul(1.0 / scales).add(zero_points).round()
    return scaled.clamp(quant_min, quant_max).to(dtype)


@_operator(
    "dequantize_per_token(Tensor input, Tensor scales, Tensor zero_points, "
    "int quant_min, int quant_max, ScalarType dtype, ScalarType output_dtype) -> Tensor"
)
def dequantize_per_token(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: Any,
    output_dtype: Any = rushlight.float32,
) -> Tensor:
    """`dequantize_per_tensor`, with a scale and a zero point for each row of the last dim."""
    return ((input - zero_points) * scales).to(output_dtype)


def _in_groups(input, scales, group_size):
    _check(group_size > 1, "group_size must be > 1, but is ", group_size)
    if group_size > input.shape[-1] and scales.shape[-1] == 1:
        group_size = input.shape[-1]
    _check(input.dim() == 2, "expected a matrix, but got shape ", input.shape)
    _check(
        input.shape[-1] % group_size == 0,
        "rows of ", input.shape[-1], " are not divisible into groups of ", group_size,
    )  # fmt: skip
    return input.reshape(-1, group_size)


@_operator(
    "quantize_per_channel_group(Tensor input, Tensor scales, Tensor zero_points, int quant_min, "
    "int quant_max, ScalarType dtype, int group_size) -> Tensor"
)
def quantize_per_channel_group(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    quant_min: int,
    quant_max: int,
    dtype: Any,
    group_size: int = 128,
) -> Tensor:
    """`quantize_per_tensor`, with a scale and a zero point for each group in each row."""
    groups = _in_groups(input, scales, group_size)
    _check(groups.is_meta or not groups.isnan().any(), "input has NaNs")
    scaled = groups.mul(1.0 / scales.reshape(-1, 1)).add(zero_points.reshape(-1, 1)).round()
    return scaled.clamp(quant_min, quant_max).to(dtype).reshape_as(input)


@_operator(
    "dequantize_per_channel_group(Tensor input, Tensor scales, Tensor? zero_points, int quant_min, "
    "int quant_max, ScalarType dtype, int group_size, ScalarType output_dtype) -> Tensor"
)
def dequantize_per_channel_group(
    w_int8: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    quant_min: int,
    quant_max: int,
    dtype: Any,
    group_size: int = 128,
    output_dtype: Any = rushlight.float32,
) -> Tensor:
    """`dequantize_per_tensor`, with a scale and a zero point for each group in each row."""
    groups = _in_groups(w_int8, scales, group_size)
    if zero_points is not None:
        groups = groups.sub(zero_points.reshape(-1, 1))
    return groups.mul(scales.reshape(-1, 1)).reshape_as(w_int8).to(output_dtype)


class FakeQuantPerChannel(rushlight.autograd.Function):
    """Quantizes and dequantizes; its gradient is that of the identity where nothing is clipped."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, *numbers: Any) -> Tensor:
        """What `dequantize_per_channel` makes of what `quantize_per_channel` gives."""
        scales, zero_points, axis, quant_min, quant_max = numbers
        _check(input.dtype == rushlight.float32, "expected a float32 input, but got ", input.dtype)
        scales = _along(scales.to(rushlight.float32), input, axis)
        zero_points = _along(zero_points.to(rushlight.int32), input, axis)
        scaled = rushlight.round(input * (1.0 / scales)) + zero_points
        ctx.save_for_backward((scaled >= quant_min) & (scaled <= quant_max))
        return (scaled.clamp(quant_min, quant_max) - zero_points) * scales

    @staticmethod
    def backward(ctx: Any, gy: Tensor) -> tuple[Tensor | None, ...]:
        """The gradient of input, zero where it was clipped."""
        return gy * ctx.saved_tensors[0], None, None, None, None, None


quantized_decomposed_lib.define(
    "fake_quant_per_channel(Tensor input, Tensor scales, Tensor zero_points, int axis, "
    "int quant_min, int quant_max) -> Tensor"
)


@impl(quantized_decomposed_lib, "fake_quant_per_channel", "Autograd")
def fake_quant_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """`FakeQuantPerChannel` as an operation."""
    return FakeQuantPerChannel.apply(input, scales, zero_points, axis, quant_min, quant_max)


@_operator("convert_element_type.no_fuse(Tensor input, ScalarType dtype) -> Tensor")
def convert_element_type(input: Tensor, dtype: Any) -> Tensor:
    """A tensor of another dtype, by an operation that compilers leave alone."""
    return input.to(dtype)
