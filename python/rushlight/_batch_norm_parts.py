"""The steps of batch normalization over several processes, which write their own of it with them.

Each works on one process's batch of shape (N, C, ...); statistics are of shape (C,), float32 where
the batch has 16 bits. What the processes exchange in between is theirs to do. None is
differentiable: programs call them inside an `autograd.Function`.
"""

from __future__ import annotations

import rushlight
from rushlight._out import into

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor


def _wide(x: Tensor) -> Tensor:
    x = x.detach()
    return x.float() if x.dtype in (rushlight.float16, rushlight.bfloat16) else x


def _dims_but_channels(x: Tensor) -> list[int]:
    if x.dim() < 2:
        raise RuntimeError(f"batch norm: expected an input (N, C, ...), got {tuple(x.shape)}")
    return [dim for dim in range(x.dim()) if dim != 1]


def _along(statistic: Tensor, x: Tensor) -> Tensor:
    return statistic.view(1, -1, *[1] * (x.dim() - 2))


def batch_norm_stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return the mean and 1 / sqrt(variance + eps) of each channel, each of shape (C,).

    Example:
        >>> rushlight.batch_norm_stats(rushlight.tensor([[1.0], [3.0]]), 0.0)
        (tensor([2.]), tensor([1.]))
    """
    x = _wide(input)
    var, mean = rushlight.var_mean(x, _dims_but_channels(x), correction=0)
    return mean, (var + eps).rsqrt()


def batch_norm_update_stats(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: float
) -> tuple[Tensor, Tensor]:
    """Return the mean and variance of each channel; the running ones move towards them.

    The variance is the biased one; `running_var` takes the unbiased.

    Example:
        >>> rushlight.batch_norm_update_stats(rushlight.tensor([[1.0], [3.0]]), None, None, 0.1)
        (tensor([2.]), tensor([1.]))
    """
    x = _wide(input)
    var, mean = rushlight.var_mean(x, _dims_but_channels(x), correction=0)
    _move(running_mean, running_var, momentum, mean, var, x.numel() / max(x.size(1), 1))
    return mean, var


def _move(running_mean, running_var, momentum, mean, var, count):
    if running_mean is not None:
        running_mean.detach().lerp_(mean.to(running_mean.dtype), momentum)
    if running_var is not None:
        unbiased = var * (count / (count - 1))
        running_var.detach().lerp_(unbiased.to(running_var.dtype), momentum)


def batch_norm_gather_stats(
    input: Tensor, mean: Tensor, invstd: Tensor, running_mean: Tensor | None,
    running_var: Tensor | None, momentum: float, eps: float, count: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """As `batch_norm_gather_stats_with_counts`, where all processes have `count` elements.

    Example:
        >>> x, means = rushlight.zeros(1, 1), rushlight.tensor([[1.0], [3.0]])
        >>> one = rushlight.ones(2, 1)
        >>> rushlight.batch_norm_gather_stats(x, means, one, None, None, 0.1, 0.0, 4)
        (tensor([2.]), tensor([0.7071]))
    """
    counts = mean.new_full((mean.size(0),), count)
    return batch_norm_gather_stats_with_counts(
        input, mean, invstd, running_mean, running_var, momentum, eps, counts
    )


def batch_norm_gather_stats_with_counts(
    input: Tensor, mean: Tensor, invstd: Tensor, running_mean: Tensor | None,
    running_var: Tensor | None, momentum: float, eps: float, counts: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the mean and 1 / sqrt(variance + eps) of all processes; the running ones move.

    Args:
        input: this process's batch.
        mean, invstd: (processes, C), what `batch_norm_stats` returned on each.
        running_mean, running_var: (C,), changed in place, or None.
        momentum: the weight of this batch in them.
        counts: (processes,), elements of a channel on each.

    Example:
        >>> x, means = rushlight.zeros(1, 1), rushlight.tensor([[1.0], [3.0]])
        >>> counts = rushlight.tensor([3.0, 1.0])
        >>> rushlight.batch_norm_gather_stats_with_counts(
        ...     x, means, rushlight.ones(2, 1), None, None, 0.1, 0.0, counts)
        (tensor([1.5000]), tensor([0.7559]))
    """
    mean, invstd = _wide(mean), _wide(invstd)
    if mean.dim() != 2 or mean.size(1) != input.size(1):
        raise RuntimeError(
            "batch_norm_gather_stats: expected means of shape (processes, channels), with"
            f" {input.size(1)} channels, got {tuple(mean.shape)}"
        )
    weight = counts.detach().to(mean.dtype).view(-1, 1)
    total = weight.sum()
    all_mean = (mean * weight).sum(0) / total
    var = invstd.pow(-2) - eps
    all_var = ((var + (mean - all_mean).square()) * weight).sum(0) / total
    _move(running_mean, running_var, momentum, all_mean, all_var, total)
    return all_mean, (all_var + eps).rsqrt()


def batch_norm_elemt(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor,
    eps: float, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return (input - mean) * invstd * weight + bias, in the dtype of `input`.

    Args:
        weight, bias: (C,) or None.
        mean, invstd: (C,), of all processes.
        eps: is in `invstd` already.

    Example:
        >>> x, one = rushlight.tensor([[1.0], [3.0]]), rushlight.ones(1)
        >>> rushlight.batch_norm_elemt(x, None, None, 2 * one, one, 0.0)
        tensor([[-1.],
                [ 1.]])
    """
    x = _wide(input)
    result = (x - _along(mean.detach(), x)) * _along(invstd.detach(), x)
    if weight is not None:
        result *= _along(weight.detach(), x)
    if bias is not None:
        result += _along(bias.detach(), x)
    result = result.to(input.dtype)
    return into(out, result)


def batch_norm_backward_reduce(
    grad_out: Tensor, input: Tensor, mean: Tensor, invstd: Tensor, weight: Tensor | None,
    input_g: bool, weight_g: bool, bias_g: bool,
) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]:  # fmt: skip
    """Return the sums over this process's batch that the gradients need, each (C,) or None.

    Args:
        grad_out: of the result, as `input`.
        mean, invstd: (C,), of all processes.
        input_g, weight_g, bias_g: which gradients are wanted.

    Returns:
        The sum of `grad_out`, that of grad_out * (input - mean), both if `input_g`, and the
        gradients of weight and bias.

    Example:
        >>> x, one = rushlight.tensor([[1.0], [3.0]]), rushlight.ones(1)
        >>> rushlight.batch_norm_backward_reduce(x, x, 2 * one, one, one, True, True, True)
        (tensor([4.]), tensor([2.]), tensor([2.]), tensor([4.]))
    """
    grad, x = _wide(grad_out), _wide(input)
    dims = _dims_but_channels(x)
    sum_dy = grad.sum(dims)
    sum_dy_xmu = (grad * (x - _along(mean.detach(), x))).sum(dims)
    dtype = input.dtype if weight is None else weight.dtype
    grad_weight = (sum_dy_xmu * invstd.detach()).to(dtype) if weight_g else None
    grad_bias = sum_dy.to(dtype) if bias_g else None
    return sum_dy if input_g else None, sum_dy_xmu if input_g else None, grad_weight, grad_bias


def batch_norm_backward_elemt(
    grad_out: Tensor, input: Tensor, mean: Tensor, invstd: Tensor, weight: Tensor | None,
    sum_dy: Tensor, sum_dy_xmu: Tensor, count: Tensor,
) -> Tensor:  # fmt: skip
    """Return the gradient of `input`, in its dtype.

    Args:
        sum_dy, sum_dy_xmu: (C,), what `batch_norm_backward_reduce` returned, of all processes
            together.
        count: elements of a channel on each process.

    Example:
        >>> x, one = rushlight.tensor([[1.0], [3.0]]), rushlight.ones(1)
        >>> count = rushlight.tensor([2])
        >>> rushlight.batch_norm_backward_elemt(x, x, 2 * one, one, None, 4 * one, 2 * one, count)
        tensor([[0.],
                [0.]])
    """
    grad, x = _wide(grad_out), _wide(input)
    total = count.detach().sum().to(grad.dtype)
    invstd = invstd.detach()
    centred = x - _along(mean.detach(), x)
    slope = _along(sum_dy_xmu.detach() / total * invstd.square(), x)
    result = (grad - _along(sum_dy.detach() / total, x) - centred * slope) * _along(invstd, x)
    if weight is not None:
        result *= _along(weight.detach(), x)
    return result.to(input.dtype)


rushlight.overrides._make_overridable(
    globals(), "rushlight", but=("into",), classes_alone=True
)
