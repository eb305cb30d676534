"""Start values of parameters. Every function fills its tensor in place, without gradient."""

from __future__ import annotations

import functools
import math
from typing import Any

import rushlight
from rushlight import Generator, Tensor
from rushlight._ignored import warn_program as _warn_program

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

_GAIN_ONE = frozenset(
    [
        "linear",
        "sigmoid",
        *(f"conv{n}d" for n in (1, 2, 3)),
        *(f"conv_transpose{n}d" for n in (1, 2, 3)),
    ]
)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """By how much to scale weights so that a nonlinearity keeps the variance.

    1 for linear, conv and sigmoid, 5/3 for tanh, sqrt(2) for relu,
    sqrt(2 / (1 + slope^2)) for leaky_relu (`param` is the slope, 0.01 by default), 3/4 for selu.
    """
    if nonlinearity in _GAIN_ONE:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            param = 0.01
        elif isinstance(param, bool) or not isinstance(param, (int, float)):
            raise ValueError(f"param: expected a number as negative slope but got {param!r}")
        return math.sqrt(2.0 / (1 + param**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"nonlinearity: {nonlinearity!r} is not supported")


def _overridable(function):
    """The function as users call it: the tensor's class, or a mode, may take it over, and then gets
    all arguments by their names.
    """

    @functools.wraps(function)
    def checked(tensor, *args, **kwargs):
        if not rushlight.overrides.has_torch_function_unary(tensor):
            return function(tensor, *args, **kwargs)
        import inspect  # slow to import, and rarely needed

        bound = inspect.signature(function).bind(tensor, *args, **kwargs)
        bound.apply_defaults()
        return rushlight.overrides.handle_torch_function(checked, (tensor,), **bound.arguments)

    return checked


@_overridable
def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform in [a, b)."""
    return _no_grad_uniform_(tensor, a, b, generator)


@_overridable
def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Normal with this mean and standard deviation."""
    return _no_grad_normal_(tensor, mean, std, generator)


def _no_grad_uniform_(tensor, a, b, generator=None):
    with rushlight.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def _no_grad_normal_(tensor, mean, std, generator=None):
    with rushlight.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def _no_grad_trunc_normal_(tensor, mean, std, a, b, generator=None):
    return trunc_normal_(tensor, mean, std, a, b, generator)


def _no_grad_fill_(tensor, val):
    with rushlight.no_grad():
        return tensor.fill_(val)


def _no_grad_zero_(tensor):
    return zeros_(tensor)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal with this mean and standard deviation, restricted to [a, b], by rejection."""
    if tensor.is_meta:
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        _warn_program(
            f"trunc_normal_: mean {mean} is more than 2 std from [{a}, {b}]; the result may be "
            "inaccurate",
        )

    def distribution(x):
        return (1.0 + math.erf((x - mean) / std / math.sqrt(2.0))) / 2.0

    inside = distribution(b) - distribution(a)
    with rushlight.no_grad():
        if inside > 0.3:
            return tensor.copy_(_reject_outside(tensor, mean, std, a, b, generator))
        # So few normal draws would be inside that uniform ones are weighed instead.
        return tensor.copy_(_reject_by_density(tensor, mean, std, a, b, generator))


def _reject_outside(like, mean, std, a, b, generator):
    """Normal draws, all of them repeated until the ones outside are inside."""
    low, high = (like.new_tensor(bound).item() for bound in (a, b))  # as the dtype rounds them
    result = rushlight.empty_like(like).normal_(mean, std, generator=generator)
    while True:
        outside = (result < low) | (result > high)
        if not bool(outside.any()):
            return result
        again = rushlight.empty_like(like).normal_(mean, std, generator=generator)
        result = rushlight.where(outside, again, result)


def _reject_by_density(like, mean, std, a, b, generator):
    """Uniform draws in [a, b], each kept with probability density / largest density."""
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    result = pending = None
    while pending is None or bool(pending.any()):
        drawn = rushlight.empty_like(like).uniform_(a, b, generator=generator)
        log_density = ((drawn - mean) / std).pow(2) * -0.5 - peak
        chance = rushlight.empty_like(like).uniform_(generator=generator).log()
        rejected = chance > log_density
        if pending is None:
            result, pending = drawn, rejected
        else:
            result = rushlight.where(pending, drawn, result)
            pending = pending & rejected
    return result


@_overridable
def constant_(tensor: Tensor, val: float) -> Tensor:
    """All elements `val`."""
    return _no_grad_fill_(tensor, val)


def ones_(tensor: Tensor) -> Tensor:
    """All elements 1."""
    return _no_grad_fill_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """All elements 0."""
    with rushlight.no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix."""
    if tensor.ndimension() != 2:
        raise ValueError(f"eye_: expected 2 dims but got shape {tuple(tensor.shape)}")
    with rushlight.no_grad():
        identity = rushlight.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device)
        return tensor.copy_(identity)


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Convolution weights that keep the input: 1 at the centre of kernel i, channel i."""
    dimensions = tensor.ndimension()
    if dimensions not in (3, 4, 5):
        raise ValueError(f"dirac_: expected 3, 4 or 5 dims but got {dimensions}")
    sizes = tensor.size()
    if sizes[0] % groups:
        raise ValueError(f"dirac_: dim 0 of size {sizes[0]} is not divisible by groups={groups}")
    per_group = sizes[0] // groups
    centre = tuple(size // 2 for size in sizes[2:])
    with rushlight.no_grad():
        tensor.zero_()
        for group in range(groups):
            for i in range(min(per_group, sizes[1])):
                tensor[(group * per_group + i, i, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor):
    """How many inputs and outputs an element of the layer's output and input connects to."""
    if tensor.dim() < 2:
        raise ValueError(
            f"fan in and fan out: need at least 2 dims but got shape {tuple(tensor.shape)}"
        )
    receptive_field = math.prod(tensor.shape[2:])
    return tensor.size(1) * receptive_field, tensor.size(0) * receptive_field


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode: expected fan_in or fan_out but got {mode}")
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return fan_in if mode == "fan_in" else fan_out


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform in +-gain sqrt(6 / (fan_in + fan_out)).

    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural
    networks", 2010.
    """
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    std = gain * math.sqrt(2.0 / float(fan_in + fan_out))
    bound = math.sqrt(3.0) * std
    return _no_grad_uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with standard deviation gain sqrt(2 / (fan_in + fan_out)). See `xavier_uniform_`."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    std = gain * math.sqrt(2.0 / float(fan_in + fan_out))
    return _no_grad_normal_(tensor, 0.0, std, generator)


def _kaiming_std(tensor, a, mode, nonlinearity):
    """gain / sqrt(fan), or None with a warning for a tensor without elements."""
    if 0 in tensor.shape:
        _warn_program("Initializing zero-element tensors is a no-op")
        return None
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


@_overridable
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform in +-gain sqrt(3 / fan); `a` is the negative slope of leaky_relu.

    He et al., "Delving deep into rectifiers", 2015.
    """
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    if std is None:
        return tensor
    bound = math.sqrt(3.0) * std
    return _no_grad_uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal with standard deviation gain / sqrt(fan). See `kaiming_uniform_`."""
    std = _kaiming_std(tensor, a, mode, nonlinearity)
    return tensor if std is None else _no_grad_normal_(tensor, 0, std, generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Orthogonal rows or columns, whichever are fewer; trailing dims count as one.

    Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear neural
    networks", 2013.
    """
    if tensor.ndimension() < 2:
        raise ValueError(f"orthogonal_: need at least 2 dims but got {tensor.ndimension()}")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    flattened = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
    if rows < columns:
        flattened.t_()
    q, r = rushlight.linalg.qr(flattened)
    # The decomposition is unique once the diagonal of r is positive.
    q *= rushlight.diag(r, 0).sign()
    if rows < columns:
        q.t_()
    with rushlight.no_grad():
        tensor.view_as(q).copy_(q)
        tensor.mul_(gain)
    return tensor


def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Normal, with a share `sparsity` of the elements of each column zero.

    Martens, "Deep learning via Hessian-free optimization", 2010.
    """
    if tensor.ndimension() != 2:
        raise ValueError(f"sparse_: expected 2 dims but got shape {tuple(tensor.shape)}")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with rushlight.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            order = rushlight.randperm(rows)
            tensor[order[:zeros], column] = 0
    return tensor


def _old_name(function):
    """The name without underscore, which warns."""
    name = function.__name__[:-1]

    def deprecated(*args, **kwargs):
        _warn_program(f"nn.init.{name} is deprecated, use nn.init.{name}_", FutureWarning)
        return function(*args, **kwargs)

    deprecated.__name__ = name
    deprecated.__doc__ = f"Deprecated name of `{name}_`."
    return deprecated


uniform: Any = _old_name(uniform_)
normal: Any = _old_name(normal_)
constant: Any = _old_name(constant_)
eye: Any = _old_name(eye_)
dirac: Any = _old_name(dirac_)
xavier_uniform: Any = _old_name(xavier_uniform_)
xavier_normal: Any = _old_name(xavier_normal_)
kaiming_uniform: Any = _old_name(kaiming_uniform_)
kaiming_normal: Any = _old_name(kaiming_normal_)
orthogonal: Any = _old_name(orthogonal_)
sparse: Any = _old_name(sparse_)
