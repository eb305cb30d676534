"""Tensors of integers that stand for `scale * (integer - zero_point)`.

A `QuantizedTensor` is an int8, uint8 or int32 tensor whose class answers every function of tensors
from the table in `_functions`, so that no function of ordinary tensors asks about quantization.
"""

from __future__ import annotations

import rushlight
from rushlight import _C, Tensor
from rushlight._absent_dtypes import qint8, qint32, quint8
from rushlight._numpy_names import take_numpy_names
from rushlight._own_class import OwnClass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight._absent_dtypes import _AbsentDtype


class qscheme:
    """How a quantized tensor maps integers to numbers."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


per_tensor_affine: qscheme = qscheme("per_tensor_affine")
per_tensor_symmetric: qscheme = qscheme("per_tensor_symmetric")
per_channel_affine: qscheme = qscheme("per_channel_affine")
per_channel_symmetric: qscheme = qscheme("per_channel_symmetric")
per_channel_affine_float_qparams: qscheme = qscheme("per_channel_affine_float_qparams")
_PER_TENSOR_SCHEMES = (per_tensor_affine, per_tensor_symmetric)

INTEGERS = {qint8: rushlight.int8, quint8: rushlight.uint8, qint32: rushlight.int32}
QUANTIZED = {integer: dtype for dtype, integer in INTEGERS.items()}


class Quantizer:
    """Scale and zero point, of the whole tensor or along `axis`."""

    def __init__(
        self,
        scale: float | Tensor,
        zero_point: int | Tensor,
        axis: int | None = None,
        scheme: qscheme | None = None,
    ) -> None:
        self.scale, self.zero_point, self.axis = scale, zero_point, axis
        self.scheme = scheme or (per_tensor_affine if axis is None else per_channel_affine)

    def broadcast(self, dims: int) -> tuple[Any, Any]:
        """Return the float32 scale and the zero point in a shape that broadcasts to `dims`."""
        if self.axis is None:
            return self.scale, self.zero_point
        shape = [1] * dims
        shape[self.axis] = -1
        return self.scale.float().reshape(shape), self.zero_point.reshape(shape)


class QuantizedTensor(OwnClass):
    """A tensor of dtype qint8, quint8 or qint32, made by `quantize_per_tensor` and its kin."""

    _quantizer: Quantizer

    @property
    def dtype(self) -> _AbsentDtype:
        """qint8, quint8 or qint32."""
        return QUANTIZED[int_repr(self).dtype]

    @property
    def is_quantized(self) -> bool:
        """True."""
        return True

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        from rushlight._quantized._functions import call

        return call(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        q = self._quantizer
        text = repr(dequantize(self))[:-1]  # the closing bracket
        if self.numel():  # otherwise it is there already
            text += f", size={tuple(self.shape)}"
        text += f", dtype={self.dtype},\n"
        text += f"       quantization_scheme={q.scheme}, "
        if q.axis is None:
            return text + f"scale={q.scale}, zero_point={q.zero_point})"
        return (
            text + f"\n       scale={q.scale},\n       zero_point={q.zero_point}, axis={q.axis})"
        ).replace(", \n", ",\n")

    def __deepcopy__(self, memo: dict[int, Any]) -> QuantizedTensor:
        if id(self) not in memo:
            memo[id(self)] = make(int_repr(self).clone(), self._quantizer)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: int) -> tuple[Any, ...]:
        q = self._quantizer
        return rebuild, (int_repr(self), q.scale, q.zero_point, q.axis, q.scheme)


def plain(tensor: Tensor) -> Tensor:
    """Return the integers of a quantized tensor without a copy."""
    with _C.DisableTorchFunctionSubclass():
        return Tensor.as_subclass(tensor, Tensor)


def make(integers: Tensor, quantizer: Quantizer) -> QuantizedTensor:
    """Return the quantized tensor over these integers, which it shares."""
    tensor = integers.as_subclass(QuantizedTensor)
    tensor._quantizer = quantizer
    return tensor


def rebuild(
    integers: Tensor, scale: Any, zero_point: Any, axis: int | None, scheme: qscheme
) -> QuantizedTensor:
    """Return the tensor that a pickle describes."""
    return make(integers, Quantizer(scale, zero_point, axis, scheme))


def _need(name: str, tensor: Tensor) -> Quantizer:
    if not isinstance(tensor, QuantizedTensor):
        raise NotImplementedError(
            f"{name}: needs a quantized tensor (see quantize_per_tensor), got one of {tensor.dtype}"
        )
    return tensor._quantizer


def int_repr(input: Tensor) -> Tensor:
    """Return the integers of a quantized tensor: int8, uint8 or int32.

    Example:
        >>> q = rushlight.quantize_per_tensor(rushlight.ones(2), 0.5, 10, rushlight.quint8)
        >>> q.int_repr()
        tensor([12, 12], dtype=torch.uint8)
    """
    _need("int_repr", input)
    return plain(input)


def _of_all(name: str, input: Tensor) -> Quantizer:
    quantizer = _need(name, input)
    if quantizer.axis is not None:
        raise RuntimeError(f"{name}: expected a tensor quantized per tensor, got one per channel")
    return quantizer


def _of_channels(name: str, input: Tensor) -> Quantizer:
    quantizer = _need(name, input)
    if quantizer.axis is None:
        raise RuntimeError(f"{name}: expected a tensor quantized per channel, got one per tensor")
    return quantizer


def q_scale(input: Tensor) -> float:
    """Return the scale of a tensor quantized by `quantize_per_tensor`."""
    return _of_all("q_scale", input).scale


def q_zero_point(input: Tensor) -> int:
    """Return the zero point of a tensor quantized by `quantize_per_tensor`."""
    return _of_all("q_zero_point", input).zero_point


def q_per_channel_scales(input: Tensor) -> Tensor:
    """Return the scale of each channel of a tensor quantized by `quantize_per_channel`."""
    return _of_channels("q_per_channel_scales", input).scale


def q_per_channel_zero_points(input: Tensor) -> Tensor:
    """Return the zero point of each channel of a tensor quantized by `quantize_per_channel`."""
    return _of_channels("q_per_channel_zero_points", input).zero_point


def q_per_channel_axis(input: Tensor) -> int:
    """Return the dim along which the channels of a tensor lie."""
    return _of_channels("q_per_channel_axis", input).axis


def qscheme_of(input: Tensor) -> qscheme:
    """Return `per_tensor_affine` or `per_channel_affine`, as the tensor was quantized."""
    return _need("qscheme", input).scheme


qscheme_of.__name__ = "qscheme"


def dequantize(input: Tensor | Sequence[Tensor]) -> Any:
    """Return the numbers that a quantized tensor stands for, in float32.

    A tensor that is not quantized is converted to float32; of a list, each of its tensors.

    Example:
        >>> q = rushlight.quantize_per_tensor(rushlight.tensor([0.3]), 0.25, 0, rushlight.qint8)
        >>> rushlight.dequantize(q)
        tensor([0.2500])
    """
    if isinstance(input, (list, tuple)):
        for tensor in input:
            _need("dequantize", tensor)
        return [dequantize(tensor) for tensor in input]
    if not isinstance(input, QuantizedTensor):
        return input.to(rushlight.float32)
    integers = plain(input)
    scale, zero_point = input._quantizer.broadcast(integers.dim())
    if input._quantizer.scheme is per_channel_affine_float_qparams or (
        integers.dtype is rushlight.int32
    ):
        return (integers.float() - zero_point) * scale
    return (integers.to(rushlight.int32) - zero_point).float() * scale


def _integer_dtype(name, dtype):
    if dtype not in INTEGERS:
        raise RuntimeError(f"{name}: dtype must be qint8, quint8 or qint32, got {dtype}")
    return INTEGERS[dtype]


def _check_float(name, input):
    if isinstance(input, QuantizedTensor) or input.dtype is not rushlight.float32:
        raise RuntimeError(f"{name}: input must be of float32, got {input.dtype}")


def _check_zero_points(name, lowest, highest, dtype):
    info = rushlight.iinfo(dtype)
    if lowest < info.min or highest > info.max:
        wrong = lowest if lowest < info.min else highest
        raise RuntimeError(
            f"{name}: zero_point must be from {info.min} to {info.max} for {QUANTIZED[dtype]}, got "
            f"{wrong}"
        )


def to_integers(steps: Tensor, dtype: Any, of_nan: int) -> Tensor:
    """Round numbers of steps, half to even, and clamp them to the range of the dtype."""
    info = rushlight.iinfo(dtype)
    rounded = (steps.double() if dtype is rushlight.int32 else steps).round()
    rounded = rushlight.where(rounded.isnan(), of_nan, rounded)
    return rounded.clamp(info.min, info.max).to(dtype)


def quantize_per_tensor(input: Any, scale: Any, zero_point: Any, dtype: Any) -> Any:
    """Round a float32 tensor to integers, one scale and zero point for all elements.

    `integer = clamp(round(input / scale + zero_point))`, halves to the even integer. NaN becomes
    the largest integer, for qint32 the least.

    Args:
        input: float32, of any shape; or a list of such tensors, with a scale and zero point each.
        scale: what one step is worth, a number or a tensor of one.
        zero_point: the integer that stands for 0.
        dtype: `qint8`, `quint8` or `qint32`.

    Example:
        >>> x = rushlight.tensor([-1.0, 0.26, 2.0])
        >>> rushlight.quantize_per_tensor(x, 0.5, 10, rushlight.quint8).int_repr()
        tensor([ 8, 11, 14], dtype=torch.uint8)
    """
    if isinstance(input, (list, tuple)):
        return tuple(
            quantize_per_tensor(x, s.item(), z.item(), dtype)
            for x, s, z in zip(input, scale, zero_point, strict=True)
        )
    integer = _integer_dtype("quantize_per_tensor", dtype)
    _check_float("quantize_per_tensor", input)
    scale, zero_point = float(scale), int(zero_point)
    _check_zero_points("quantize_per_tensor", zero_point, zero_point, integer)
    with rushlight.no_grad():
        inverse = 1.0 / rushlight.tensor(scale, dtype=rushlight.float32)
        info = rushlight.iinfo(integer)
        of_nan = info.min if integer is rushlight.int32 else info.max
        integers = to_integers(input.detach() * inverse + zero_point, integer, of_nan)
    return make(integers, Quantizer(scale, zero_point))


def quantize_per_channel(
    input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, dtype: Any
) -> QuantizedTensor:
    """Round a float32 tensor to integers, with a scale and zero point for each index of a dim.

    NaN becomes 0.

    Args:
        input: float32, of any shape.
        scales: (input.size(axis),), what one step is worth.
        zero_points: (input.size(axis),), integers; numbers of a floating-point dtype give the
            scheme `per_channel_affine_float_qparams`.
        axis: the dim of the channels.
        dtype: `qint8`, `quint8` or `qint32`.
    """
    integer = _integer_dtype("quantize_per_channel", dtype)
    _check_float("quantize_per_channel", input)
    if not 0 <= axis < input.dim():
        raise RuntimeError(
            f"quantize_per_channel: axis must be from 0 to {input.dim() - 1}, got {axis}"
        )
    for name, given in (("scales", scales), ("zero_points", zero_points)):
        if given.shape != (input.size(axis),):
            raise RuntimeError(
                f"quantize_per_channel: {name} must have shape ({input.size(axis)},), the size of "
                f"input at axis {axis}, got {tuple(given.shape)}"
            )
    shape = [1] * input.dim()
    shape[axis] = -1
    with rushlight.no_grad():
        inverse = (1.0 / scales.detach().float()).reshape(shape)
        steps = input.detach() * inverse
        if zero_points.is_floating_point():
            zeros = zero_points.detach().float()
            integers = to_integers(steps + zeros.reshape(shape), integer, 0)
            scheme = per_channel_affine_float_qparams
            return make(integers, Quantizer(scales.detach().float(), zeros, axis, scheme))
        zeros = zero_points.detach().to(rushlight.int64)
        if zeros.numel():
            least, most = (int(z) for z in zeros.aminmax())
            _check_zero_points("quantize_per_channel", least, most, integer)
        integers = to_integers(steps + zeros.reshape(shape), integer, 0)
        return make(integers, Quantizer(scales.detach().double(), zeros, axis))


def _make_per_tensor_quantized_tensor(
    input: Tensor, scale: float, zero_point: int
) -> QuantizedTensor:
    """Return the quantized tensor whose integers are a copy of these."""
    return make(_checked_integers(input).clone(), Quantizer(float(scale), int(zero_point)))


def _make_per_channel_quantized_tensor(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int
) -> QuantizedTensor:
    """Return the quantized tensor whose integers are a copy of these."""
    scheme = per_channel_affine
    if zero_point.is_floating_point():
        scheme = per_channel_affine_float_qparams
    return make(_checked_integers(input).clone(), Quantizer(scale, zero_point, axis, scheme))


def _checked_integers(input):
    if input.dtype not in QUANTIZED:
        raise RuntimeError(f"a quantized tensor is made of int8, uint8 or int32, got {input.dtype}")
    return input


def _empty_affine_quantized(
    size: Sequence[int],
    *,
    scale: float = 1.0,
    zero_point: int = 0,
    dtype: Any = None,
    device: Any = None,
    memory_format: Any = rushlight.contiguous_format,
) -> QuantizedTensor:
    """Return a quantized tensor whose elements are not set."""
    integer = _integer_dtype("_empty_affine_quantized", dtype)
    elements = rushlight.empty(size, dtype=integer, device=device, memory_format=memory_format)
    return make(elements, Quantizer(float(scale), int(zero_point)))


def _range_of(least, most, symmetric, lowest, highest):
    """The range to cover, in float32: symmetric ones reach as far on both sides of zero."""
    if not symmetric:
        return least, most
    half = (highest - lowest) // 2
    farthest = rushlight.maximum((least / -(half + 1)).abs(), (most / half).abs())
    both = (least < 0) & (most > 0)
    return (
        rushlight.where(both, farthest * -(half + 1), least),
        rushlight.where(both, farthest * half, most),
    )


def choose_qparams(
    least: Tensor, most: Tensor, lowest: int, highest: int, symmetric: bool = False
) -> tuple[Tensor, Tensor]:
    """Return scales (float64) and zero points (int32) for ranges of float32 numbers.

    The range is extended to zero, and steps below 6.1e-5 are not used.

    Args:
        least, most: of one shape, float32.
        lowest, highest: the integers to use.
        symmetric: make zero the middle integer where the range has both signs.
    """
    least, most = least.detach().float(), most.detach().float()
    both = (least < 0) & (most > 0) & symmetric
    least, most = _range_of(least, most, symmetric, lowest, highest)
    least, most = least.clamp(max=0.0).double(), most.clamp(min=0.0).double()
    scale = (most - least) / (highest - lowest)
    rounded = scale.float()
    scale = rushlight.where((rounded == 0) | (1 / rounded).isinf(), 0.1, scale)
    threshold = float(rushlight.tensor(6.1e-5))
    small = scale < threshold
    wider = threshold / scale.float().double()
    low = rushlight.where(most == 0, -threshold * (highest - lowest), least * wider)
    high = rushlight.where(least == 0, threshold * (highest - lowest), most * wider)
    low, high = rushlight.where(least == 0, least, low), rushlight.where(most == 0, most, high)
    least = rushlight.where(small, low.float().double(), least)
    most = rushlight.where(small, high.float().double(), most)
    scale = rushlight.where(small, threshold, scale)
    from_least, from_most = lowest - least / scale, highest - most / scale
    error_least = abs(lowest) - (least / scale).abs()
    error_most = abs(highest) - (most / scale).abs()
    zero = rushlight.where(error_least < error_most, from_least, from_most)
    both = both & (least < 0) & (most > 0)
    zero = rushlight.where(both, (lowest + highest) / 2, zero)
    return scale, zero.clamp(lowest, highest).round().to(rushlight.int32)


def _choose_qparams_per_tensor(input: Tensor, reduce_range: bool = False) -> tuple[float, int]:
    """Return the scale and zero point with which quint8 covers the elements of a tensor."""
    scale, zero_point = choose_qparams(*input.aminmax(), 0, 127 if reduce_range else 255)
    return scale.item(), zero_point.item()


def quantize_per_tensor_dynamic(input: Tensor, dtype: Any, reduce_range: bool) -> QuantizedTensor:
    """Quantize with the scale and zero point that cover the tensor's own range.

    Args:
        input: float32.
        dtype: `qint8` or `quint8`.
        reduce_range: use one bit less.
    """
    if dtype not in (qint8, quint8):
        raise RuntimeError(
            f"quantize_per_tensor_dynamic: dtype must be qint8 or quint8, got {dtype}"
        )
    info = rushlight.iinfo(INTEGERS[dtype])
    lowest, highest = (info.min // 2, info.max // 2) if reduce_range else (info.min, info.max)
    scale, zero_point = choose_qparams(*input.aminmax(), lowest, highest)
    return quantize_per_tensor(input, scale.item(), zero_point.item(), dtype)


take_numpy_names(
    globals(),
    """_choose_qparams_per_tensor _make_per_channel_quantized_tensor
    _make_per_tensor_quantized_tensor dequantize int_repr q_per_channel_axis q_per_channel_scales
    q_per_channel_zero_points q_scale q_zero_point quantize_per_channel quantize_per_tensor
    quantize_per_tensor_dynamic""",
)
