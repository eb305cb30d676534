"""Functions of nn that draw random numbers; `functional` exports them.

What they draw, and in which order, is part of the contract: equal seeds give equal results.
"""

from __future__ import annotations

import math

import rushlight
from rushlight import Tensor
from rushlight._ignored import warn_program
from rushlight._shown_name import shown_as
from rushlight._table import nn_functional as _table


def _check_probability(p):
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _feature_noise(input, p):
    """1 with probability 1 - p, else 0, for each sample and channel."""
    if input.dim() < 2:
        raise RuntimeError(
            f"feature dropout: expected at least 2 dims but got shape {tuple(input.shape)}"
        )
    channels = (slice(None), slice(None), *(slice(1),) * (input.dim() - 2))
    return rushlight.bernoulli(input.detach()[channels], 1 - p)


def _feature_dropout(input, p, training, inplace, batched=True):
    if not batched:
        result = _feature_dropout(input.unsqueeze(0), p, training, inplace)
        return input if inplace else result.squeeze(0)
    if not training or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        return input.mul_(0) if inplace else input * 0
    noise = _feature_noise(input, p).div_(1 - p)
    return input.mul_(noise) if inplace else input * noise


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels of (N, C, L) or (C, L)."""
    _check_probability(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input"
        )
    return _feature_dropout(input, p, training, inplace, batched=input.dim() != 2)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels of (N, C, H, W)."""
    _check_probability(p)
    if input.dim() not in (3, 4):
        warn_program(
            f"dropout2d: Received a {input.dim()}-D input to dropout2d, where a 4D one is "
            "expected; dims 0 and 1 are taken as batch and channels",
        )
    if input.dim() == 3:
        warn_program(
            "dropout2d: Received a 3D input, which is taken as (N, C, L), assuming that "
            "channel-wise 1D dropout behavior is desired; for that use dropout1d",
        )
    return _feature_dropout(input, p, training, inplace)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    _check_probability(p)
    if input.dim() not in (4, 5):
        warn_program(
            f"dropout3d: Received a {input.dim()}-D input to dropout3d, where a 4D or 5D one is "
            "expected; dims 0 and 1 are taken as batch and channels",
        )
    return _feature_dropout(input, p, training, inplace, batched=input.dim() != 4)


def _alpha_dropout(input, noise, p, inplace):
    """a (x noise + alpha' (1 - noise)) + b: mean 0 and variance 1 of SELU networks are kept."""
    alpha = 1.7580993408473766
    a = 1.0 / math.sqrt((alpha * alpha * p + 1) * (1 - p))
    shift = noise.add(-1).mul_(alpha * a).add_(alpha * a * p)
    noise = noise.mul_(a)
    return input.mul_(noise).add_(shift) if inplace else input * noise + shift


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps mean and variance. See `nn.AlphaDropout`."""
    _check_probability(p)
    if not training or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        return input.mul_(0) if inplace else input * 0
    if input.is_contiguous():  # a function of its own, so that vmap can draw for each example
        noise = rushlight.bernoulli(input.detach(), 1 - p)
    else:
        noise = rushlight.empty_like(input.detach()).bernoulli_(1 - p)
    return _alpha_dropout(input, noise, p, inplace)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Alpha dropout of whole channels. See `nn.FeatureAlphaDropout`."""
    _check_probability(p)
    if not training or p == 0 or input.numel() == 0:
        return input
    if p == 1:
        return input.mul_(0) if inplace else input * 0
    return _alpha_dropout(input, _feature_noise(input, p), p, inplace)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """x where x > 0, else a x with a uniform in [lower, upper]; their mean in evaluation."""
    return _rrelu(input, lower, upper, training, inplace, None)


@shown_as("RreluWithNoiseBackward0", "input")
def _rrelu(input, lower, upper, training, inplace, generator):
    if lower > upper:
        raise RuntimeError(
            "rrelu: Lower bound should be less than or equal to the upper bound, but got lower="
            f"{lower} and upper={upper}"
        )
    if not inplace:
        input = input.contiguous()
    if not training:
        return _table.leaky_relu(input, (lower + upper) / 2, inplace)
    negative = (input <= 0).detach()
    # One double per element that needs it, as a scalar loop would draw them; the arithmetic is in
    # float32 at least.
    wide = rushlight.promote_types(input.dtype, rushlight.float32)
    slopes = rushlight.ones_like(input.detach(), dtype=wide)
    low, high = rushlight.tensor([lower, upper], dtype=wide).tolist()
    if not input.is_meta:
        count = int(negative.sum())
        drawn = rushlight.rand(
            count, dtype=rushlight.float64, device=input.device, generator=generator
        )
        slopes[negative] = (drawn * (high - low) + low).to(wide)
    return input.mul_(slopes) if inplace else (input * slopes).to(input.dtype)


def rrelu_(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    generator: rushlight.Generator | None = None,
) -> Tensor:
    """rrelu in place."""
    return _rrelu(input, lower, upper, training, True, generator)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample of a relaxed categorical distribution.

    Args:
        logits: unnormalised log-probabilities.
        tau: temperature.
        hard: return one-hot vectors whose gradient is that of the relaxed sample.
        eps: not used; another than the default is warned of.
        dim: the dim over which probabilities sum to 1.

    Jang, Gu and Poole, "Categorical Reparameterization with Gumbel-Softmax", 2017.
    """
    if eps != 1e-10:
        warn_program("gumbel_softmax: eps is deprecated and has no effect")
    gumbels = -rushlight.empty_like(logits.detach()).exponential_().log()
    soft = rushlight.softmax((logits + gumbels) / tau, dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = rushlight.zeros_like(logits.detach()).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft
