"""The normalisations of `torch` that also give what their gradients need, and copies of views.

Of the statistics, those of groups have gradients, as torch's.
"""

from __future__ import annotations

import rushlight
from rushlight._shown_name import shown_as
from rushlight.nn import functional as F

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor


def _statistics(input, dims, eps, keepdim):
    wide = input.float() if input.dtype in (rushlight.float16, rushlight.bfloat16) else input
    variance, mean = rushlight.var_mean(wide, dims, correction=0, keepdim=keepdim)
    return mean, (variance + eps).rsqrt()


def native_layer_norm(
    input: Tensor, normalized_shape: list[int], weight: Tensor | None, bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return (layer_norm, mean, 1 / standard deviation); see `nn.functional.layer_norm`."""
    output = F.layer_norm(input, normalized_shape, weight, bias, eps)
    dims = list(range(-len(normalized_shape), 0))
    mean, rstd = _statistics(input.detach(), dims, eps, True)
    return output, mean.to(input.dtype), rstd.to(input.dtype)


@shown_as("NativeGroupNormBackward0", "input", "weight", "bias")
def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int,
    group: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return (group_norm, mean, 1 / standard deviation); see `nn.functional.group_norm`.

    Args:
        N, C, HxW: how many samples, channels and places `input` has.
        group: the number of groups.
    """
    if input.numel() != N * C * HxW:
        raise RuntimeError(
            f"native_group_norm: {N} * {C} * {HxW} elements are said, and input has {input.numel()}"
        )
    output = F.group_norm(input.reshape(N, C, HxW), group, weight, bias, eps)
    mean, rstd = _statistics(input.reshape(N, group, C // group * HxW), [2], eps, False)
    return output.reshape(input.shape), mean.to(input.dtype), rstd.to(input.dtype)


def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return (batch_norm, mean, 1 / standard deviation), the latter empty in evaluation.

    See `nn.functional.batch_norm`.
    """
    output = F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return output, input.new_empty(0), input.new_empty(0)
    return output, *_statistics(input.detach(), [0, *range(2, input.dim())], eps, False)


@shown_as("SplitWithSizesBackward0_copy", "input")
def split_with_sizes_copy(
    input: Tensor, split_sizes: list[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """Return copies of the parts that `split_with_sizes` shows."""
    return tuple(part.clone() for part in input.split_with_sizes(split_sizes, dim))


@shown_as("UnbindBackward0_copy", "input")
def unbind_copy(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Return copies of what `unbind` shows."""
    return tuple(part.clone() for part in input.unbind(dim))


def _convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: list[int], padding: list[int],
    dilation: list[int], transposed: bool, output_padding: list[int], groups: int,
    benchmark: bool = False, deterministic: bool = False, cudnn_enabled: bool = False,
    allow_tf32: bool = True,
) -> Tensor:  # fmt: skip
    """Return `convolution`; the last four arguments choose among algorithms that are not here."""
    del benchmark, deterministic, cudnn_enabled, allow_tf32
    return rushlight.convolution(
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )
