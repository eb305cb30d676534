"""The layers as functions of their inputs and weights.

What is one operation of the op table comes from there. The rest are combinations of operations,
written in Python: until the table has a row of the same name, which then takes their place.
"""

import functools
import warnings
from math import prod

import rushlight
from rushlight._table import nn_functional as _table
from rushlight.nn import _reduction as _Reduction
from rushlight.nn._attention import (
    _canonical_mask,
    _in_projection,
    _in_projection_packed,
    _mha_shape_check,
    _none_or_dtype,
    multi_head_attention_forward,
)
from rushlight.nn._embedding import embedding_bag
from rushlight.nn._losses import (
    cosine_embedding_loss,
    ctc_loss,
    gaussian_nll_loss,
    hinge_embedding_loss,
    linear_cross_entropy,
    margin_ranking_loss,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    poisson_nll_loss,
    soft_margin_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from rushlight.nn._pooling import (
    _unpool_output_size,
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices,
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
    local_response_norm,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool3d,
    max_pool3d_with_indices,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from rushlight.nn._random import (
    alpha_dropout,
    dropout1d,
    dropout2d,
    dropout3d,
    feature_alpha_dropout,
    gumbel_softmax,
    rrelu,
    rrelu_,
)
from rushlight.nn._resample import grid_sample, interpolate

# -- activations ---------------------------------------------------------------------------------


def sigmoid(input):
    """1 / (1 + exp(-x)): the same as `rushlight.sigmoid`."""
    return input.sigmoid()


def tanh(input):
    """Hyperbolic tangent: the same as `rushlight.tanh`."""
    return input.tanh()


def softsign(input):
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


def tanhshrink(input):
    """x - tanh(x)."""
    return input - input.tanh()


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(x) / sum exp(x) along `dim`."""
    if dim is None:
        dim = _get_softmax_dim("softmax", input.dim(), _stacklevel)
    return rushlight.softmax(input, dim, dtype=dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """x - log(sum exp(x)) along `dim`."""
    if dim is None:
        dim = _get_softmax_dim("log_softmax", input.dim(), _stacklevel)
    return rushlight.log_softmax(input, dim, dtype=dtype)


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """exp(-x) / sum exp(-x) along `dim`."""
    if dim is None:
        dim = _get_softmax_dim("softmin", input.dim(), _stacklevel)
    return softmax(-input, dim, dtype=dtype)


def _get_softmax_dim(name, ndim, stacklevel):
    """The dim that softmax takes if none is given; giving none is deprecated."""
    warnings.warn(
        f"{name}: choosing the dim implicitly is deprecated, give dim=X", stacklevel=stacklevel
    )
    return 0 if ndim in (0, 1, 3) else 1


def _in_place(function):
    """The form of an activation that overwrites its input."""

    def overwrite(input, *args, **kwargs):
        return function(input, *args, **kwargs, inplace=True)

    overwrite.__name__ = overwrite.__qualname__ = f"{function.__name__}_"
    overwrite.__doc__ = f"`{function.__name__}` in place."
    return overwrite


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


def glu(input, dim=-1):
    """a sigmoid(b), with a and b the halves of the input along `dim`."""
    if input.dim() == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    if input.size(dim) % 2:
        raise RuntimeError(f"glu: size {input.size(dim)} of dim {dim} must be even")
    a, b = input.chunk(2, dim)
    return a * b.sigmoid()


# -- distances -----------------------------------------------------------------------------------


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """x / max(|x|_p, eps) along `dim`."""
    norm = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return rushlight.div(input, norm, out=out) if out is not None else input / norm


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along `dim`, after broadcasting."""
    dtype = rushlight.promote_types(x1.dtype, x2.dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"cosine_similarity: expected floating-point inputs but got {dtype}")
    x1, x2 = rushlight.broadcast_tensors(x1.to(dtype), x2.to(dtype))
    parts = []
    for x in (x1, x2):
        norm = rushlight.linalg.vector_norm(x, 2, dim, keepdim=True).clone()
        with rushlight.no_grad():  # the bound changes the value, not the gradient
            norm.clamp_min_(eps)
        parts.append(x / norm)
    return (parts[0] * parts[1]).sum(dim)


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """|x1 - x2 + eps|_p over the last dim."""
    return rushlight.norm(x1 - x2 + eps, p, -1, keepdim)


# -- losses ------------------------------------------------------------------------------------


def _warning_of_broadcast(loss):
    """`loss` with a warning where its operands are broadcast: a (N, 1) beside a (N,), mostly."""

    @functools.wraps(loss)
    def checked(input, target, *args, **kwargs):
        if input.shape != target.shape:
            warnings.warn(
                f"{loss.__name__}: target of shape {tuple(target.shape)} and input of shape "
                f"{tuple(input.shape)} are broadcast to one shape, which is rarely meant",
                stacklevel=2,
            )
        return loss(input, target, *args, **kwargs)

    return checked


# -- linear --------------------------------------------------------------------------------------


def bilinear(input1, input2, weight, bias=None):
    """y_k = x1^T A_k x2 + b_k."""
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear: batch dims {tuple(input1.shape[:-1])} and {tuple(input2.shape[:-1])} differ"
        )
    if weight.shape[1:] != (input1.size(-1), input2.size(-1)):
        raise RuntimeError(
            f"bilinear: weight of shape {tuple(weight.shape)} does not fit inputs of sizes "
            f"{input1.size(-1)} and {input2.size(-1)}"
        )
    batch = input1.shape[:-1]
    x1, x2 = input1.reshape(-1, input1.size(-1)), input2.reshape(-1, input2.size(-1))
    out_features, in1, in2 = weight.shape
    # (n, in1) by (in1, out * in2), then a product with x2 for each output.
    partial = x1.mm(weight.permute(1, 0, 2).reshape(in1, out_features * in2))
    y = partial.view(-1, out_features, in2).bmm(x2.unsqueeze(-1)).squeeze(-1)
    if bias is not None:
        y = y + bias
    return y.view(*batch, out_features)


def conv_tbc(input, weight, bias, pad=0):
    """Convolution of (T, N, C_in) with weight (K, C_in, C_out)."""
    y = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return y.permute(2, 0, 1)


# -- normalization -------------------------------------------------------------------------------


def instance_norm(
    input,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum=0.1,
    eps=1e-5,
):
    """Normalize each sample and channel over its spatial dims. See `nn.InstanceNorm1d`."""
    if use_input_stats:
        _verify_spatial_size(input.size())
    elif running_mean is None or running_var is None:
        raise RuntimeError(
            "instance_norm: use_input_stats=False needs running_mean and running_var"
        )
    # Every sample's channel is a channel of one sample for batch_norm.
    batch, channels = input.shape[:2]
    whole = input.reshape(1, batch * channels, *input.shape[2:])
    repeated = [
        None if t is None else t.repeat(batch) for t in (running_mean, running_var, weight, bias)
    ]
    output = batch_norm(whole, *repeated, use_input_stats, momentum, eps)
    with rushlight.no_grad():
        for stats, per_sample in ((running_mean, repeated[0]), (running_var, repeated[1])):
            if stats is not None and use_input_stats:
                stats.copy_(per_sample.view(batch, channels).mean(0))
    return output.view(input.shape)


def _verify_spatial_size(size):
    if prod(size[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {tuple(size)}"
        )


# -- images --------------------------------------------------------------------------------------


def affine_grid(theta, size, align_corners=None):
    """The sampling grid of affine maps, for `grid_sample`.

    Args:
        theta: (N, 2, 3) for images or (N, 3, 4) for volumes.
        size: the output's size, (N, C, H, W) or (N, C, D, H, W).
        align_corners: whether -1 and 1 are the centres or, by default, the edges of the
            corner pixels.
    """
    if not theta.is_floating_point():
        raise ValueError(f"affine_grid: theta must be floating point but is {theta.dtype}")
    if align_corners is None:
        warnings.warn(
            "affine_grid: align_corners is False by default since version 1.3", stacklevel=2
        )
        align_corners = False
    dims = len(size) - 2
    if dims not in (2, 3):
        raise NotImplementedError(f"affine_grid: needs a 4D or 5D size but got {list(size)}")
    if theta.dim() != 3 or tuple(theta.shape[-2:]) != (dims, dims + 1):
        raise ValueError(
            f"affine_grid: expected theta of shape (N, {dims}, {dims + 1}) for size {list(size)} "
            f"but got {tuple(theta.shape)}"
        )
    if min(size) <= 0:
        raise ValueError(f"affine_grid: expected a positive size but got {list(size)}")
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


def pixel_shuffle(input, upscale_factor):
    """(*, C r^2, H, W) to (*, C, H r, W r)."""
    r = upscale_factor
    if input.dim() < 3:
        raise RuntimeError(f"pixel_shuffle: needs at least 3 dims but got {tuple(input.shape)}")
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle: upscale_factor must be positive but is {r}")
    *batch, channels, height, width = input.shape
    if channels % (r * r):
        raise RuntimeError(f"pixel_shuffle: {channels} channels are not divisible by {r}^2")
    blocks = input.reshape(*batch, channels // (r * r), r, r, height, width)
    n = len(batch)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return blocks.permute(order).reshape(*batch, channels // (r * r), height * r, width * r)


def pixel_unshuffle(input, downscale_factor):
    """(*, C, H r, W r) to (*, C r^2, H, W)."""
    r = downscale_factor
    if input.dim() < 3:
        raise RuntimeError(f"pixel_unshuffle: needs at least 3 dims but got {tuple(input.shape)}")
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle: downscale_factor must be positive but is {r}")
    *batch, channels, height, width = input.shape
    if height % r or width % r:
        raise RuntimeError(f"pixel_unshuffle: {height} by {width} is not divisible by {r}")
    blocks = input.reshape(*batch, channels, height // r, r, width // r, r)
    n = len(batch)
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return blocks.permute(order).reshape(*batch, channels * r * r, height // r, width // r)


def channel_shuffle(input, groups):
    """Interleave `groups` groups of channels: channel g * n + i becomes i * groups + g."""
    if input.dim() < 3:
        raise RuntimeError(f"channel_shuffle: needs at least 3 dims but got {tuple(input.shape)}")
    if groups <= 0 or input.size(1) % groups:
        raise RuntimeError(
            f"channel_shuffle: {input.size(1)} channels are not divisible by groups={groups}"
        )
    shape = input.shape
    split = input.reshape(shape[0], groups, shape[1] // groups, *shape[2:])
    return split.transpose(1, 2).reshape(shape)


native_channel_shuffle = channel_shuffle


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """Deprecated name of `interpolate`."""
    warnings.warn("nn.functional.upsample is deprecated, use interpolate", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """Deprecated: `interpolate` with mode="nearest"."""
    warnings.warn("nn.functional.upsample_nearest is deprecated, use interpolate", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """Deprecated: `interpolate` with mode="bilinear" and aligned corners."""
    warnings.warn("nn.functional.upsample_bilinear is deprecated, use interpolate", stacklevel=2)
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


globals().update(
    vars(_table)
)  # those with an underscore too: modes are given the functions of here
for _name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
    globals()[_name] = _warning_of_broadcast(getattr(_table, _name))
del _name

# What calls one operation alone leaves it to that operation to be taken over.
rushlight.overrides._make_overridable(globals(), __name__, but=("log_softmax", "softmax", "tanh"))
