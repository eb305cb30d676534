"""Operations of `torch.ops.aten` that programs write in another way: with torch's names, order of
arguments and results, each by the library's own function.
"""

from __future__ import annotations

import rushlight
from rushlight import _C, Tensor, fft, linalg
from rushlight._lower_functions import _reduction
from rushlight.nn import functional as F

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _slice(x, dim=0, start=None, end=None, step=1):
    return x[(*(slice(None),) * (dim % x.dim()), slice(start, end, step))]


def _to_copy(x, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False,
             memory_format=None):  # fmt: skip
    if layout not in (None, x.layout):
        raise NotImplementedError(f"_to_copy: a copy of {x.layout} as {layout}")
    where = {} if device is None else {"device": device}
    copy = x.to(**where, dtype=dtype, non_blocking=non_blocking, copy=True,
                memory_format=memory_format)  # fmt: skip
    return copy.pin_memory() if pin_memory else copy


def _with_third_argument(name):
    """torch says there that the result is float32 of float16: dtypes say so here."""
    return lambda x, dim, half_to_float=False: _C._functions[""][name](x, dim)


def _native_layer_norm(input, normalized_shape, weight, bias, eps):
    dims = tuple(range(-len(normalized_shape), 0))
    y = F.layer_norm(input, normalized_shape, weight, bias, eps)
    mean = input.mean(dims, keepdim=True)
    return y, mean, (input.var(dims, correction=0, keepdim=True) + eps).rsqrt()


def _nll_loss_forward(input, target, weight, reduction, ignore_index):
    loss = F.nll_loss(
        input, target, weight, ignore_index=ignore_index, reduction=_reduction(reduction)
    )
    kept = (target != ignore_index).to(input.dtype)
    if weight is not None:
        kept = kept * weight[target.clamp(0)]
    return loss, kept.sum().detach()


def _embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    padding_idx = None if padding_idx < 0 else padding_idx
    return F.embedding(indices, weight, padding_idx, None, 2.0, scale_grad_by_freq, sparse)


def _embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False,
                   per_sample_weights=None, include_last_offset=False,
                   padding_idx=-1):  # fmt: skip
    out = F.embedding_bag(
        indices, weight, offsets, None, 2.0, scale_grad_by_freq, ("sum", "mean", "max")[mode],
        sparse, per_sample_weights, include_last_offset, None if padding_idx < 0 else padding_idx,
    )  # fmt: skip
    return (out, *(offsets.new_empty(0) for _ in range(3)))


# ---- layers


def _upsample(mode, antialias=False):
    """(input, output_size, *scales), with align_corners before the scales where the mode asks."""

    def upsample(x, output_size, *options, **scales):
        corners = None
        if mode in ("linear", "bilinear", "bicubic", "trilinear"):
            named = "align_corners" in scales
            corners = scales.pop("align_corners") if named else options[0]
            options = options if named else options[1:]
        given = [*options, *scales.values()]
        if any(s is not None for s in given):
            where = {"scale_factor": tuple(float(s) for s in given)}
        else:
            where = {"size": tuple(output_size)}
        return F.interpolate(x, **where, mode=mode, align_corners=corners, antialias=antialias)

    return upsample


def _adaptive_max_pool(function):
    return lambda x, output_size: function(x, output_size, return_indices=True)


def _fractional_max_pool(function):
    return lambda x, kernel_size, output_size, random_samples: function(
        x, kernel_size, output_size, None, True, random_samples
    )


def _max_pool(function):
    def max_pool(x, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        return function(x, kernel_size, stride or None, padding, dilation, ceil_mode, True)

    return max_pool


def _max_unpool2d(x, indices, output_size):
    size = [*x.shape[:-2], *output_size]
    return _C._functions["nn.functional"]["_max_unpool"](x, indices, size, 2)


def _max_unpool3d(x, indices, output_size, stride, padding):
    size = [*x.shape[:-3], *output_size]
    return _C._functions["nn.functional"]["_max_unpool"](x, indices, size, 3)


def _padded(mode):
    return lambda x, padding: F.pad(x, tuple(padding), mode)


def _im2col(x, kernel_size, dilation, padding, stride):
    return F.unfold(x, kernel_size, dilation, padding, stride)


def _col2im(x, output_size, kernel_size, dilation, padding, stride):
    return F.fold(x, output_size, kernel_size, dilation, padding, stride)


def _elu(in_place):
    """elu(x, alpha, scale): that of SELU has a kernel of its own."""

    def elu(x, alpha=1, scale=1, input_scale=1):
        if (alpha, scale, input_scale) == (1.6732632423543772, 1.0507009873554805, 1):
            return rushlight.selu_(x) if in_place else rushlight.selu(x)
        if scale == input_scale == 1:
            return F.elu(x, alpha, in_place)
        result = scale * (x.clamp(min=0) + alpha * (x.clamp(max=0) * input_scale).expm1())
        return x.copy_(result) if in_place else result

    return elu


def _in_place(function):
    """An activation in place."""
    return lambda x, *args: function(x, *args, inplace=True)


def _fill_noise(noise, x, lower, upper, generator):
    """Write what `rrelu` multiplies each element of `x` by."""
    if generator is not None:
        raise NotImplementedError("rrelu_with_noise: draws from the default generator alone")
    signs = rushlight.where(x.detach() > 0, 1.0, -1.0).to(x.dtype)
    return noise.copy_(F.rrelu(signs, lower, upper, True).abs())


def _rrelu_(x, noise, lower=1.0 / 8, upper=1.0 / 3, training=False, generator=None):
    if training:
        return x.mul_(_fill_noise(noise, x, lower, upper, generator))
    return F.rrelu(x, lower, upper, inplace=True)


def _rrelu(x, noise, lower=1.0 / 8, upper=1.0 / 3, training=False, generator=None):
    if training:
        return x * _fill_noise(noise, x, lower, upper, generator)
    return F.rrelu(x, lower, upper)


def _trilinear(a, b, c, expand1, expand2, expand3, sumdim, unroll_dim=1):
    for places, at in ((expand1, 0), (expand2, 1), (expand3, 2)):
        for dim in places:
            a, b, c = (t.unsqueeze(dim) if i == at else t for i, t in enumerate((a, b, c)))
    return (a * b * c).sum(list(sumdim))


def _safe_softmax(x, dim, dtype=None):
    result = x.softmax(dim, dtype=dtype)
    return result.masked_fill((x == -rushlight.inf).all(dim, keepdim=True), 0)


def _flash_attention(query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None,
                     scale=None):  # fmt: skip
    out = F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale
    )
    with rushlight.no_grad():
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        scores = query @ key.mT * factor
        if is_causal:
            seen = rushlight.ones(scores.shape[-2:], dtype=rushlight.bool).tril()
            scores = scores.masked_fill(~seen, -rushlight.inf)
        if attn_mask is not None:
            scores = scores + attn_mask
        return out, scores.logsumexp(-1)


def _grid_sampler(x, grid, interpolation_mode, padding_mode, align_corners):
    mode = ("bilinear", "nearest", "bicubic")[interpolation_mode]
    padding = ("zeros", "border", "reflection")[padding_mode]
    return F.grid_sample(x, grid, mode, padding, align_corners)


# ---- losses


def _multilabel_margin_loss(x, target, reduction=1):
    loss = F.multilabel_margin_loss(x, target, reduction=_reduction(reduction))
    return loss, x.new_empty(target.shape)


def _nll_loss_nd(x, target, weight=None, reduction=1, ignore_index=-100):
    return F.nll_loss(x, target, weight, ignore_index=ignore_index, reduction=_reduction(reduction))


def _cross_entropy_loss(
    x, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0
):
    return F.cross_entropy(
        x, target, weight, ignore_index=ignore_index, reduction=_reduction(reduction),
        label_smoothing=label_smoothing,
    )  # fmt: skip


def _multi_margin_loss(x, target, p=1, margin=1, weight=None, reduction=1):
    return F.multi_margin_loss(x, target, p, margin, weight, reduction=_reduction(reduction))


def _loss(function, *names):
    """(input, target, reduction as a number, ...)"""

    def loss(x, target, reduction=1, *args):
        return function(x, target, reduction=_reduction(reduction), **dict(zip(names, args)))

    return loss


def _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    loss = F.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, "none", zero_infinity
    )
    return loss, log_probs.new_empty(0)


# ---- matrices


def _check_errors(info, api_name, *, is_matrix):
    bad = int(info.reshape(-1).abs().max()) if info.numel() else 0
    if bad:
        place = (
            "" if is_matrix else f"(Batch element {int(info.reshape(-1).ne(0).int().argmax())}): "
        )
        raise linalg.LinAlgError(f"{api_name}: {place}the computation failed with error {bad}")


def _det(A):
    lu, pivots, _ = linalg.lu_factor_ex(A)
    return linalg.det(A), lu, pivots


def _slogdet(A):
    lu, pivots, _ = linalg.lu_factor_ex(A)
    return (*linalg.slogdet(A), lu, pivots)


def _solve_ex(A, B, *, left=True, check_errors=False):
    result, info = linalg.solve_ex(A, B, left=left, check_errors=check_errors)
    lu, pivots, _ = linalg.lu_factor_ex(A)
    return result, lu, pivots, info


def _eigh(A, UPLO="L", compute_v=True):
    if compute_v:
        return tuple(linalg.eigh(A, UPLO))
    return linalg.eigvalsh(A, UPLO), A.new_empty(0)


def _svd(A, full_matrices=False, compute_uv=True, *, driver=None):
    if compute_uv:
        return tuple(linalg.svd(A, full_matrices, driver=driver))
    return A.new_empty(0), linalg.svdvals(A, driver=driver), A.new_empty(0)


def _pinv(A, *, atol=None, rtol=None, hermitian=False):
    return linalg.pinv(A, atol=atol, rtol=rtol, hermitian=hermitian)


# ---- Fourier transforms

_NORMS = ("backward", "ortho", "forward")  # by number, of transforms forward


def _norm(number, forward=True):
    return _NORMS[number] if forward else _NORMS[2 - number]


def _c2c(x, dim, normalization, forward):
    transform = fft.fftn if forward else fft.ifftn
    return transform(x, dim=tuple(dim), norm=_norm(normalization, forward))


def _r2c(x, dim, normalization, onesided):
    transform = fft.rfftn if onesided else fft.fftn
    return transform(x, dim=tuple(dim), norm=_norm(normalization))


def _c2r(x, dim, normalization, last_dim_size):
    sizes = [*(x.shape[d] for d in dim[:-1]), last_dim_size]
    return fft.irfftn(x, sizes, tuple(dim), _norm(normalization, forward=False))


# ---- the rest


def _unique(x, sorted=True, return_inverse=False, return_counts=False):
    return _three(x.unique(sorted, return_inverse, return_counts), x, return_inverse, return_counts)


def _unique_dim(x, dim, sorted=True, return_inverse=False, return_counts=False):
    found = x.unique(sorted, return_inverse, return_counts, dim)
    return _three(found, x, return_inverse, return_counts)


def _three(found, x, return_inverse, return_counts):
    """The values, their places and their numbers, each empty where it was not wanted."""
    if isinstance(found, Tensor):
        found = (found,)
    rest, none = list(found[1:]), rushlight.empty(0, dtype=rushlight.int64)
    inverse = rest.pop(0) if return_inverse else none
    return found[0], inverse, rest.pop(0) if return_counts else none


def _cdist(x1, x2, p, compute_mode):
    modes = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist",
             "donot_use_mm_for_euclid_dist")  # fmt: skip
    return rushlight.cdist(x1, x2, p, modes[compute_mode or 0])


def _histogramdd_bin_edges(x, bins, *, range=None, weight=None, density=False):
    return list(
        rushlight.histogramdd(x, list(bins), range=range, weight=weight, density=density)[1]
    )


def _histogramdd(x, bins, *, range=None, weight=None, density=False):
    return rushlight.histogramdd(x, list(bins), range=range, weight=weight, density=density)[0]


def _repeat_interleave(x, repeats=None, dim=None, *, output_size=None):
    if repeats is None:
        return rushlight.repeat_interleave(x, output_size=output_size)
    return rushlight.repeat_interleave(x, repeats, dim, output_size=output_size)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_log_softmax": _with_third_argument("_log_softmax"),
    "_softmax": _with_third_argument("_softmax"), "_safe_softmax": _safe_softmax,
    "_local_scalar_dense": lambda x: x.item(),
    "_pin_memory": lambda x, device=None: x.pin_memory(),
    "_sparse_addmm": lambda x, a, b, beta=1, alpha=1: x.addmm(a, b, beta=beta, alpha=alpha),
    "_to_copy": _to_copy,
    "_unsafe_view": lambda x, size: x.view(size), "_conj": lambda x: x.conj(),
    "_conj_physical": lambda x: x.conj_physical(), "alias": lambda x: x.view_as(x),
    "lift_fresh": lambda x: x, "lift_fresh_copy": lambda x: x.clone(),
    "sym_numel": lambda x: x.numel(), "sym_storage_offset": lambda x: x.storage_offset(),
    "sym_size": lambda x, *dim: x.size(*dim), "sym_stride": lambda x, *dim: x.stride(*dim),
    "index": lambda x, places: x[tuple(slice(None) if p is None else p for p in places)],
    "slice": _slice, "embedding": _embedding, "_embedding_bag": _embedding_bag,
    "_embedding_bag_forward_only": _embedding_bag, "native_layer_norm": _native_layer_norm,
    "repeat_interleave": _repeat_interleave,
    **{f"upsample_{mode}{n}d": _upsample(mode) for mode, n in (
        ("nearest", 1), ("nearest", 2), ("nearest", 3), ("linear", 1), ("bilinear", 2),
        ("trilinear", 3), ("bicubic", 2),
    )},
    **{f"_upsample_nearest_exact{n}d": _upsample("nearest-exact") for n in (1, 2, 3)},
    "_upsample_bilinear2d_aa": _upsample("bilinear", True),
    "_upsample_bicubic2d_aa": _upsample("bicubic", True),
    "adaptive_avg_pool2d": F.adaptive_avg_pool2d, "adaptive_avg_pool3d": F.adaptive_avg_pool3d,
    "_adaptive_avg_pool2d": F.adaptive_avg_pool2d, "_adaptive_avg_pool3d": F.adaptive_avg_pool3d,
    "adaptive_max_pool2d": _adaptive_max_pool(F.adaptive_max_pool2d),
    "adaptive_max_pool3d": _adaptive_max_pool(F.adaptive_max_pool3d),
    "fractional_max_pool2d": _fractional_max_pool(F.fractional_max_pool2d),
    "fractional_max_pool3d": _fractional_max_pool(F.fractional_max_pool3d),
    "max_pool2d_with_indices": _max_pool(F.max_pool2d),
    "max_pool3d_with_indices": _max_pool(F.max_pool3d),
    "max_unpool2d": _max_unpool2d, "max_unpool3d": _max_unpool3d,
    **{f"reflection_pad{n}d": _padded("reflect") for n in (1, 2, 3)},
    **{f"replication_pad{n}d": _padded("replicate") for n in (1, 2, 3)},
    "im2col": _im2col, "col2im": _col2im, "elu": _elu(False), "elu_": _elu(True),
    **{f"{name}_": _in_place(getattr(F, name)) for name in (
        "celu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish", "silu", "threshold",
    )},
    "rrelu_with_noise_": _rrelu_,
    "log_sigmoid": F.logsigmoid, "log_sigmoid_forward": lambda x: (F.logsigmoid(x), x.new_empty(0)),
    "_prelu_kernel": lambda x, weight: rushlight.where(x > 0, x, weight * x),
    "rrelu_with_noise": _rrelu, "_trilinear": _trilinear,
    "_scaled_dot_product_flash_attention_for_cpu": _flash_attention,
    "grid_sampler_2d": _grid_sampler, "grid_sampler_3d": _grid_sampler,
    "nll_loss_forward": _nll_loss_forward, "nll_loss2d_forward": _nll_loss_forward,
    "multilabel_margin_loss_forward": _multilabel_margin_loss,
    "multilabel_margin_loss": lambda *args: _multilabel_margin_loss(*args)[0],
    "cross_entropy_loss": _cross_entropy_loss, "nll_loss_nd": _nll_loss_nd,
    "multi_margin_loss": _multi_margin_loss, "soft_margin_loss": _loss(F.soft_margin_loss),
    "mse_loss": _loss(F.mse_loss), "smooth_l1_loss": _loss(F.smooth_l1_loss, "beta"),
    "huber_loss": _loss(F.huber_loss, "delta"), "_ctc_loss": _ctc_loss,
    "_linalg_check_errors": _check_errors, "_linalg_det": _det, "_linalg_slogdet": _slogdet,
    "_linalg_solve_ex": _solve_ex, "_linalg_eigh": _eigh, "_linalg_svd": _svd,
    "linalg_lstsq": lambda A, B, rcond=None, *, driver=None: (
        tuple(linalg.lstsq(A, B, rcond, driver=driver))
    ),
    "linalg_pinv": _pinv, "_fft_c2c": _c2c, "_fft_r2c": _r2c, "_fft_c2r": _c2r,
    "_unique2": _unique, "unique_dim": _unique_dim, "_cdist_forward": _cdist,
    "_pdist_forward": lambda x, p=2.0: F.pdist(x, p),
    "_histogramdd_bin_edges": _histogramdd_bin_edges,
    "_histogramdd_from_bin_cts": _histogramdd, "_histogramdd_from_bin_tensors": _histogramdd,
    "block_diag": lambda tensors: rushlight.block_diag(*tensors),
    "pad_sequence": rushlight.nn.utils.rnn.pad_sequence,
}  # fmt: skip
