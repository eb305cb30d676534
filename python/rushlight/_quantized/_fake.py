"""Rounding to the steps of a quantized tensor and back, with straight-through gradients."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._numpy_names import take_numpy_names
from rushlight._quantized._tensor import choose_qparams
from rushlight.autograd import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FLOATS = (rushlight.float32, rushlight.float64, rushlight.float16, rushlight.bfloat16)


class _StraightThrough(Function):
    """A result that has been computed, whose gradient passes where no element was clamped.

    It comes in a tuple: a tensor that `forward` takes and returns would be a view of itself, which
    nothing may change in place.
    """

    @staticmethod
    def forward(ctx: Any, input: Tensor, computed: tuple[Tensor, Tensor]) -> Tensor:
        result, inside = computed
        ctx.save_for_backward(inside)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (inside,) = ctx.saved_tensors
        return grad * inside, None


def _check(name, input, quant_min, quant_max):
    if input.dtype not in _FLOATS:
        raise NotImplementedError(f"{name}: input must be floating-point, got {input.dtype}")
    if quant_min > quant_max:
        raise RuntimeError(
            f"{name}: quant_min must be at most quant_max, got {quant_min} and {quant_max}"
        )


def _compute_dtype(dtype):
    return rushlight.float64 if dtype is rushlight.float64 else rushlight.float32


def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """Round to multiples of `scale` that integers from quant_min to quant_max reach.

    `(clamp(round(input / scale) + zero_point, quant_min, quant_max) - zero_point) * scale`, halves
    to the even integer. The gradient is that of the identity where nothing was clamped, else zero.
    NaN becomes the least result.

    Args:
        input: floating-point, of any shape.
        scale: a number, or a float32 tensor of one.
        zero_point: an integer, or an int32 tensor of one.

    Example:
        >>> x = rushlight.tensor([0.2, 0.6, 9.0])
        >>> rushlight.fake_quantize_per_tensor_affine(x, 0.5, 0, 0, 10)
        tensor([0.0000, 0.5000, 5.0000])
    """
    name = "fake_quantize_per_tensor_affine"
    _check(name, input, quant_min, quant_max)
    if isinstance(scale, Tensor) != isinstance(zero_point, Tensor):
        raise TypeError(f"{name}: scale and zero_point must both be tensors, or both numbers")
    if not isinstance(scale, Tensor):
        if not quant_min <= zero_point <= quant_max:
            raise RuntimeError(
                f"{name}: zero_point must be from quant_min {quant_min} to quant_max {quant_max}, "
                f"got {zero_point}"
            )
        scale = rushlight.tensor(float(scale), dtype=rushlight.float32, device=input.device)
    else:
        scale, zero_point = scale.detach().reshape(()), zero_point.detach().reshape(())
    with rushlight.no_grad():
        dtype = _compute_dtype(input.dtype)
        scale = scale.float()
        x = input.detach().to(dtype)
        steps = (x * (1.0 / scale).to(dtype)).round() + zero_point
        inside = (steps >= quant_min) & (steps <= quant_max)
        steps = steps.nan_to_num(quant_min, float("inf"), -float("inf"))
        result = ((steps.clamp(quant_min, quant_max) - zero_point) * scale).to(input.dtype)
    return _StraightThrough.apply(input, (result, inside)) if input.requires_grad else result


def _check_channels(name, input, scale, zero_point, axis):
    if not -input.dim() <= axis < input.dim():
        raise IndexError(
            f"{name}: axis must be from {-input.dim()} to {input.dim() - 1}, got {axis}"
        )
    if scale.dtype != rushlight.float32:
        raise RuntimeError(f"{name}: scale must be of float32, got {scale.dtype}")
    if zero_point.dtype not in (rushlight.int32, rushlight.float32, rushlight.float16):
        raise RuntimeError(
            f"{name}: zero_point must be of int32, float32 or float16, got {zero_point.dtype}"
        )
    expected = (input.size(axis),)
    for argument, given in (("scale", scale), ("zero_point", zero_point)):
        if tuple(given.shape) != expected:
            raise RuntimeError(
                f"{name}: {argument} must have shape {expected}, input's size at axis {axis}, got "
                f"{tuple(given.shape)}"
            )


def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """As `fake_quantize_per_tensor_affine`, with a scale and zero point for each index of a dim.

    Args:
        input: floating-point, of any shape.
        scale: (input.size(axis),), float32.
        zero_point: (input.size(axis),), int32; numbers of a floating-point dtype are added before
            rounding.
        axis: the dim of the channels.
    """
    name = "fake_quantize_per_channel_affine"
    _check(name, input, quant_min, quant_max)
    _check_channels(name, input, scale, zero_point, axis)
    with rushlight.no_grad():
        zeros = zero_point.detach()
        if zeros.is_floating_point():
            zeros = zeros.float()
        elif zeros.numel() and not quant_min <= int(zeros.min()) <= int(zeros.max()) <= quant_max:
            raise RuntimeError(
                f"{name}: zero_point must be from quant_min {quant_min} to quant_max {quant_max}, "
                f"got {zeros.tolist()}"
            )
        shape = [1] * input.dim()
        shape[axis] = -1
        dtype = _compute_dtype(input.dtype)
        scale, zeros = scale.detach().float().reshape(shape), zeros.reshape(shape)
        steps = input.detach().to(dtype) * (1.0 / scale).to(dtype)
        if zeros.is_floating_point():
            steps = (steps + zeros).round()
        else:
            steps = steps.round() + zeros
        # What no 64-bit integer holds becomes the least one, as in torch.
        steps = rushlight.where(steps.abs() < 2.0**63, steps, -(2.0**63))
        inside = (steps >= quant_min) & (steps <= quant_max)
        # In double, so that a zero point that is no integer rounds once, as in torch.
        steps = steps.clamp(quant_min, quant_max).double()
        result = ((steps - zeros) * scale.double()).to(input.dtype)
    return _StraightThrough.apply(input, (result, inside)) if input.requires_grad else result


class _Learnable(Function):
    """Fake quantization with gradients to scale and zero point."""

    @staticmethod
    def forward(
        ctx: Any,
        input: Tensor,
        scale: Tensor,
        zero_point: Tensor,
        dims: list[int],
        limits: tuple[int, int],
        grad_factor: float,
    ) -> Tensor:
        steps = (zero_point + input * (1.0 / scale)).round()
        ctx.save_for_backward(input, scale, zero_point, steps)
        ctx.dims, ctx.limits, ctx.grad_factor = dims, limits, grad_factor
        rounded = (input * (1.0 / scale)).round() + zero_point
        return (rounded.clamp(*limits) - zero_point) * scale

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        input, scale, zero_point, steps = ctx.saved_tensors
        least, most = ctx.limits
        clamped = steps.clamp(least, most) - zero_point
        inside = (steps >= least) & (steps <= most)
        of_scale = rushlight.where(inside, (clamped * scale - input) / scale, clamped)
        of_zero = rushlight.where(inside, 0.0, -scale)
        sums = [
            (grad * part * ctx.grad_factor).sum(ctx.dims, keepdim=True)
            for part in (of_scale, of_zero)
        ]
        return (
            grad * inside,
            sums[0].reshape(scale.shape),
            sums[1].reshape(scale.shape),
            *[None] * 3,
        )


def _learnable(input, scale, zero_point, shape, dims, limits, grad_factor):
    # Zero points are learned as numbers and used as integers: the gradient passes the rounding.
    rounded = zero_point.detach().round().clamp(*limits)
    integers = _StraightThrough.apply(zero_point, (rounded, rushlight.ones_like(rounded)))
    scale, integers = scale.reshape(shape), integers.reshape(shape)
    return _Learnable.apply(input, scale, integers, dims, limits, grad_factor)


def _fake_quantize_learnable_per_tensor_affine(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,
) -> Tensor:
    """As `fake_quantize_per_tensor_affine`, with gradients to scale and zero point.

    Those are multiplied by `grad_factor` (Esser et al., "Learned Step Size Quantization", 2019).
    """
    _check("_fake_quantize_learnable_per_tensor_affine", input, quant_min, quant_max)
    dims, shape = list(range(input.dim())), [1] * input.dim()
    limits = (quant_min, quant_max)
    return _learnable(input, scale, zero_point, shape, dims, limits, grad_factor)


def _fake_quantize_learnable_per_channel_affine(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,
) -> Tensor:
    """As `fake_quantize_per_channel_affine`, with gradients to scales and zero points."""
    _check("_fake_quantize_learnable_per_channel_affine", input, quant_min, quant_max)
    axis %= max(1, input.dim())
    shape = [1] * input.dim()
    shape[axis] = -1
    dims = [dim for dim in range(input.dim()) if dim != axis]
    limits = (quant_min, quant_max)
    return _learnable(input, scale, zero_point, shape, dims, limits, grad_factor)


def set_values(buffer: Tensor, values: Tensor) -> None:
    """Write values into a buffer, which takes their shape: in memory of its own, if it changes, as
    a dict of states may share what it had."""
    if buffer.shape == values.shape:
        buffer.copy_(values)
    else:
        buffer.data = values.to(buffer.dtype, copy=True)


def _observe(x, running_min, running_max, averaging_const, per_row, ch_axis):
    if per_row:
        rows = x.movedim(ch_axis, 0).flatten(1)
        least, most = rows.aminmax(dim=1)
        if running_min.numel() == 0:
            set_values(running_min, rushlight.full_like(least, float("inf")))
            set_values(running_max, rushlight.full_like(most, -float("inf")))
    else:
        least, most = x.aminmax()
    fresh = running_min.isinf() | running_max.isinf()
    for running, now in ((running_min, least), (running_max, most)):
        moved = running + averaging_const * (now - running)
        running.copy_(rushlight.where(fresh, now, moved))


def fused_moving_avg_obs_fake_quant(
    input: Tensor,
    observer_on: Tensor,
    fake_quant_on: Tensor,
    running_min: Tensor,
    running_max: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    averaging_const: float,
    quant_min: int,
    quant_max: int,
    ch_axis: int,
    per_row_fake_quant: bool = False,
    symmetric_quant: bool = False,
) -> Tensor:
    """Update a moving range, scale and zero point in place, then fake-quantize with them.

    Args:
        observer_on, fake_quant_on: tensors of one number, whether to do either.
        running_min, running_max: the range; infinite, or empty per row, before the first call.
        scale, zero_point: float32 and int32, resized to the rows where they are per row.
        averaging_const: the weight of this input's range, from 0 to 1.
        ch_axis: the dim of the rows.
    """
    if int(observer_on) and input.numel():
        with rushlight.no_grad():
            x = input.detach().float()
            _observe(x, running_min, running_max, averaging_const, per_row_fake_quant, ch_axis)
            scales, zeros = choose_qparams(
                running_min, running_max, quant_min, quant_max, symmetric_quant
            )
            scales, zeros = scales.reshape(-1), zeros.reshape(-1)
            set_values(scale, scales)
            set_values(zero_point, zeros)
    if not int(fake_quant_on):
        return input
    if per_row_fake_quant:
        zeros = zero_point.to(rushlight.int32)
        return fake_quantize_per_channel_affine(input, scale, zeros, ch_axis, quant_min, quant_max)
    return fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max)


take_numpy_names(
    globals(),
    """_fake_quantize_learnable_per_channel_affine _fake_quantize_learnable_per_tensor_affine
    fake_quantize_per_channel_affine fake_quantize_per_tensor_affine
    fused_moving_avg_obs_fake_quant""",
)
