"""The layers as functions of their inputs and weights.

What is one operation of the op table comes from there. The rest are combinations of operations,
written in Python: until the table has a row of the same name, which then takes their place.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import rushlight
from rushlight import Tensor, _absent
from rushlight._autocast import autocasts as _autocasts
from rushlight._enums import NativeEnum as _NativeEnum
from rushlight._ignored import warn_program as _warn_program
from rushlight._integers import is_integer as _is_integer
from rushlight._set_module import set_module
from rushlight._table import nn_functional as _table
from rushlight.nn import _reduction as _Reduction
from rushlight.nn._attention import (
    _canonical_mask,
    _in_projection,
    _in_projection_packed,
    _mha_shape_check,
    _none_or_dtype,
    multi_head_attention_forward as multi_head_attention_forward,
)
from rushlight.nn._distances import (
    cosine_similarity as cosine_similarity,
    normalize as normalize,
    pairwise_distance as pairwise_distance,
)
from rushlight.nn._embedding import (
    embedding_bag as embedding_bag,
)
from rushlight.nn._grouped_products import grouped_mm as grouped_mm
from rushlight.nn._losses import (
    cosine_embedding_loss as cosine_embedding_loss,
    ctc_loss as ctc_loss,
    gaussian_nll_loss as gaussian_nll_loss,
    hinge_embedding_loss as hinge_embedding_loss,
    linear_cross_entropy as linear_cross_entropy,
    margin_ranking_loss as margin_ranking_loss,
    multi_margin_loss as multi_margin_loss,
    multilabel_margin_loss as multilabel_margin_loss,
    multilabel_soft_margin_loss as multilabel_soft_margin_loss,
    poisson_nll_loss as poisson_nll_loss,
    soft_margin_loss as soft_margin_loss,
    triplet_margin_loss as triplet_margin_loss,
    triplet_margin_with_distance_loss as triplet_margin_with_distance_loss,
)
from rushlight.nn._pooling import (
    _unpool_output_size,
    adaptive_avg_pool1d as adaptive_avg_pool1d,
    adaptive_avg_pool2d as adaptive_avg_pool2d,
    adaptive_avg_pool3d as adaptive_avg_pool3d,
    adaptive_max_pool1d as adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices as adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d as adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices as adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d as adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices as adaptive_max_pool3d_with_indices,
    fractional_max_pool2d as fractional_max_pool2d,
    fractional_max_pool2d_with_indices as fractional_max_pool2d_with_indices,
    fractional_max_pool3d as fractional_max_pool3d,
    fractional_max_pool3d_with_indices as fractional_max_pool3d_with_indices,
    local_response_norm as local_response_norm,
    lp_pool1d as lp_pool1d,
    lp_pool2d as lp_pool2d,
    lp_pool3d as lp_pool3d,
    max_pool1d as max_pool1d,
    max_pool1d_with_indices as max_pool1d_with_indices,
    max_pool2d as max_pool2d,
    max_pool2d_with_indices as max_pool2d_with_indices,
    max_pool3d as max_pool3d,
    max_pool3d_with_indices as max_pool3d_with_indices,
    max_unpool1d as max_unpool1d,
    max_unpool2d as max_unpool2d,
    max_unpool3d as max_unpool3d,
)
from rushlight.nn._random import (
    alpha_dropout as alpha_dropout,
    dropout1d as dropout1d,
    dropout2d as dropout2d,
    dropout3d as dropout3d,
    feature_alpha_dropout as feature_alpha_dropout,
    gumbel_softmax as gumbel_softmax,
    rrelu as rrelu,
    rrelu_ as rrelu_,
)
from rushlight.nn._resample import (
    grid_sample as grid_sample,
    interpolate as interpolate,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight._C._nn_functional import *  # noqa: F403
    from rushlight.types import _dtype

# -- activations ---------------------------------------------------------------------------------


def sigmoid(input: Tensor) -> Any:
    """1 / (1 + exp(-x)): the same as `rushlight.sigmoid`."""
    return input.sigmoid()


def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent: the same as `rushlight.tanh`."""
    return input.tanh()


def softsign(input: Tensor) -> Any:
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


def tanhshrink(input: Tensor) -> Any:
    """x - tanh(x)."""
    return input - input.tanh()


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: _dtype | None = None
) -> Tensor:
    """exp(x) / sum exp(x) along `dim`."""
    if dim is None:
        dim = _get_softmax_dim("softmax", input.dim(), _stacklevel)
    return rushlight.softmax(input, dim, dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: _dtype | None = None
) -> Tensor:
    """x - log(sum exp(x)) along `dim`."""
    if dim is None:
        dim = _get_softmax_dim("log_softmax", input.dim(), _stacklevel)
    return rushlight.log_softmax(input, dim, dtype=dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: _dtype | None = None
) -> Tensor:
    """exp(-x) / sum exp(-x) along `dim`."""
    if dim is None:
        dim = _get_softmax_dim("softmin", input.dim(), _stacklevel)
    return softmax(-input, dim, dtype=dtype)


def _get_softmax_dim(name, ndim, stacklevel):
    """The dim that softmax takes if none is given; giving none is deprecated."""
    further = stacklevel - 3  # 3 is the caller of softmax
    _warn_program(
        f"{name}: choosing the dim implicitly is deprecated, give dim=X", further=further
    )
    return 0 if ndim in (0, 1, 3) else 1


def _in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The form of an activation that overwrites its input."""

    def overwrite(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return function(input, *args, **kwargs, inplace=True)

    overwrite.__name__ = overwrite.__qualname__ = f"{function.__name__}_"
    overwrite.__doc__ = f"`{function.__name__}` in place."
    return overwrite


if TYPE_CHECKING:
    relu_: Callable[..., Tensor]
    elu_: Callable[..., Tensor]
    selu_: Callable[..., Tensor]
    celu_: Callable[..., Tensor]
    leaky_relu_: Callable[..., Tensor]
    hardtanh_: Callable[..., Tensor]
    threshold_: Callable[..., Tensor]
relu_, elu_, selu_, celu_, leaky_relu_, hardtanh_, threshold_ = map(
    _in_place,
    (
        _table.relu,
        _table.elu,
        _table.selu,
        _table.celu,
        _table.leaky_relu,
        _table.hardtanh,
        _table.threshold,
    ),
)


# -- losses ------------------------------------------------------------------------------------


def _warning_of_broadcast(loss):
    """`loss` with a warning where its operands are broadcast: a (N, 1) beside a (N,), mostly."""

    @functools.wraps(loss)
    def checked(input: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if input.shape != target.shape:
            _warn_program(
                f"{loss.__name__}: Using a target size ({target.size()}) that is different to the "
                f"input size ({input.size()}). They are broadcast to one shape, which is rarely "
                "meant. Please ensure they have the same size.",
            )
        return loss(input, target, *args, **kwargs)

    return checked


# -- linear --------------------------------------------------------------------------------------


@_autocasts("lower_precision")
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Convolution of (T, N, C_in) with weight (K, C_in, C_out)."""
    y = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return y.permute(2, 0, 1)


# -- normalization -------------------------------------------------------------------------------


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalize each sample and channel over its spatial dims. See `nn.InstanceNorm1d`."""
    if use_input_stats:
        _verify_spatial_size(input.size())
    elif running_mean is None or running_var is None:
        raise RuntimeError(
            "instance_norm: use_input_stats=False needs running_mean and running_var"
        )
    # Every sample's channel is a channel of one sample for batch_norm.
    batch, channels = input.shape[:2]
    whole = input.contiguous().reshape(1, batch * channels, *input.shape[2:])
    repeated = [
        None if t is None else t.repeat(batch) for t in (running_mean, running_var, weight, bias)
    ]
    output = _table._batch_norm(whole, *repeated, use_input_stats, momentum, eps)
    with rushlight.no_grad():
        for stats, per_sample in ((running_mean, repeated[0]), (running_var, repeated[1])):
            if stats is not None and use_input_stats:
                rushlight.mean(per_sample.view(batch, channels), 0, out=stats)
    return output.view(input.shape)


def _verify_spatial_size(size):
    if prod(size[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {tuple(size)}"
        )


# -- images --------------------------------------------------------------------------------------


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The sampling grid of affine maps, for `grid_sample`.

    Args:
        theta: (N, 2, 3) for images or (N, 3, 4) for volumes.
        size: the output's size, (N, C, H, W) or (N, C, D, H, W).
        align_corners: whether -1 and 1 are the centres or, by default, the edges of the
            corner pixels.
    """
    if not theta.is_floating_point():
        raise ValueError(
            f"affine_grid: Expected theta to have floating point type, got {theta.dtype}"
        )
    if align_corners is None:
        _warn_program("affine_grid: align_corners is False by default since version 1.3")
        align_corners = False
    dims = len(size) - 2
    if dims not in (2, 3):
        raise NotImplementedError(f"affine_grid: needs a 4D or 5D size but got {list(size)}")
    if theta.dim() != 3 or tuple(theta.shape[-2:]) != (dims, dims + 1):
        raise ValueError(
            f"affine_grid: Expected a batch of {dims}D affine matrices of shape "
            f"Nx{dims}x{dims + 1} for size {list(size)}, got {tuple(theta.shape)}"
        )
    if min(size) <= 0:
        raise ValueError(f"affine_grid: Expected non-zero, positive output size, got {list(size)}")
    if align_corners and min(size[2:]) == 1:
        _warn_program(
            "affine_grid: with align_corners=True the only point along a size of 1 is at 0, since "
            "version 1.3. See the documentation of affine_grid for details.",
        )
    # Coordinates come last dim first; each adds its column of theta, along a dim of its own.
    grid = theta[:, :, dims].reshape(size[0], dims, *[1] * dims)
    for d, n in enumerate(size[2:]):
        axis = rushlight.linspace(-1, 1, n, dtype=theta.dtype, device=theta.device)
        if n <= 1:
            axis = rushlight.zeros_like(axis)
        elif not align_corners:
            axis = axis * ((n - 1) / n)
        along = [-1 if k == d else 1 for k in range(dims)]
        column = theta[:, :, dims - 1 - d].reshape(size[0], dims, *[1] * dims)
        grid = grid + column * axis.view(along)
    return grid.movedim(1, -1).contiguous()


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Deprecated name of `interpolate`."""
    _warn_program("nn.functional.upsample is deprecated, use interpolate")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Any = None
) -> Any:
    """Deprecated: `interpolate` with mode="nearest"."""
    _warn_program("nn.functional.upsample_nearest is deprecated, use interpolate")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Any = None
) -> Any:
    """Deprecated: `interpolate` with mode="bilinear" and aligned corners."""
    _warn_program("nn.functional.upsample_bilinear is deprecated, use interpolate")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


_OF_OVERRIDES = {
    "handle_torch_function", "has_torch_function", "has_torch_function_unary",
    "has_torch_function_variadic",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "grad":  # which torch imports here
        return importlib.import_module("rushlight.nn.grad")
    if name in _OF_OVERRIDES:
        return getattr(importlib.import_module("rushlight.overrides"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


globals().update(
    vars(_table)
)  # those with an underscore too: modes are given the functions of here
for _name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
    globals()[_name] = _warning_of_broadcast(getattr(_table, _name))
# As in torch, each of these is the function of `torch` itself.
for _name in """avg_pool1d bilinear celu_ conv1d conv2d conv3d conv_transpose1d conv_transpose2d
        conv_transpose3d hardshrink pdist prelu relu_ selu_ threshold_""".split():
    globals()[_name] = rushlight._C._functions[""][_name]
del _name

# What calls one operation alone leaves it to that operation to be taken over.
rushlight.overrides._make_overridable(
    globals(), __name__, but=("sigmoid", "tanh"),
    core="""adaptive_avg_pool1d channel_shuffle conv_tbc cosine_similarity elu_ hardtanh_
    leaky_relu_ native_channel_shuffle pairwise_distance pixel_shuffle pixel_unshuffle
    rrelu_""".split(),
)  # fmt: skip

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}
DType = int  # as in torch, whose annotations name it
# Torch's documentation is written with them.
reproducibility_notes: dict[str, str] = {}
sparse_support_notes: dict[str, str] = {}
tf32_notes: dict[str, str] = {}


class ScalingType(_NativeEnum):
    """What shares a scale in products of 8 bits."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(_NativeEnum):
    """In which order scales of products of 8 bits lie."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def assert_int_or_pair(arg: Any, arg_name: str, message: str) -> None:
    """Raise AssertionError unless `arg` is an int or two of them; `message` is given its name."""
    if not (_is_integer(arg) or len(arg) == 2):
        raise AssertionError(message.format(arg_name))


globals().update(
    _absent.refused(
        {
            "scaled_mm": "there are no dtypes of 8 bits: multiply by the scale, and use `mm`",
            "scaled_grouped_mm": "there are no dtypes of 8 bits: see `grouped_mm`",
        }
    )
)

# As in torch, whose own are of its core.
set_module(
    "rushlight", adaptive_avg_pool1d, channel_shuffle, conv_tbc, cosine_similarity,
    pairwise_distance, pixel_shuffle, pixel_unshuffle, rrelu_,
)  # fmt: skip
