"""Statistics, distances and counts that are several operations."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._dispatch._emit import emit, flatten, opaque, reshape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _is_true(condition):
    """Whether a tensor of one element is true, asked as torch asks it."""
    return emit("equal", condition, emit("new_ones", condition, [], dtype=rushlight.bool))


def _cov(x, *, correction=1, fweights=None, aweights=None):
    if x.dim() > 2 or x.dtype is rushlight.bool:
        return NotImplemented
    if any(w is not None and (w.dim() > 1 or not w.numel()) for w in (fweights, aweights)):
        return NotImplemented
    rows = emit("view", x, [1, -1]) if x.dim() < 2 else x
    count, weights = rows.shape[1], fweights
    for given in (fweights, aweights):
        if given is not None and not _is_true(emit("ge.Scalar", emit("min", given), 0)):
            return NotImplemented
    if aweights is not None:
        weights = aweights if fweights is None else emit("mul.Tensor", fweights, aweights)
    if weights is None:
        total = emit("scalar_tensor", count, dtype=rushlight.int64)
    else:
        total = emit("sum", weights)
        if not _is_true(emit("ne.Scalar", total, 0)):
            return NotImplemented
    weighted = rows if weights is None else emit("mul.Tensor", rows, weights)
    mean = emit("div.Tensor", emit("sum.dim_IntList", weighted, [1]), total)
    if weights is None:
        norm = emit("scalar_tensor", count - correction, dtype=rushlight.int64)
    elif correction == 0:
        norm = total
    elif aweights is None:
        norm = emit("sub.Scalar", total, correction)
    else:
        share = emit("sum", emit("mul.Tensor", weights, aweights))
        share = emit("div.Tensor", emit("mul.Scalar", share, correction), total)
        norm = emit("sub.Tensor", total, share)
    if _is_true(emit("le.Scalar", norm, 0)):
        emit("zero_", norm)
    rows = emit("sub.Tensor", rows, emit("unsqueeze", mean, 1))
    weighted = rows if weights is None else emit("mul.Tensor", rows, weights)
    turned = emit("t", weighted)
    product = emit("mm", rows, emit("_conj", turned) if turned.is_complex() else turned)
    return emit("squeeze", emit("div.Tensor", product, norm))


def _corrcoef(x):
    c = _cov(x)
    if c is NotImplemented or c.is_complex():
        return NotImplemented
    if c.dim() == 0:
        return emit("div.Tensor", c, c)
    deviation = emit("sqrt", emit("diagonal", c))
    c = emit("div.Tensor", c, emit("view", deviation, [-1, 1]))
    return emit("clamp", emit("div.Tensor", c, emit("view", deviation, [1, -1])), -1, 1)


def _ranks(q, sorted_, ignore_nan):
    last = sorted_.shape[-1] - 1
    if ignore_nan:
        kept = emit("logical_not_", emit("isnan", sorted_))
        count = emit("sum.dim_IntList", kept, [-1], True)
        ranks = emit("mul.Tensor", q, emit("sub.Scalar", count, 1))
        return emit("masked_fill_.Scalar", ranks, emit("lt.Scalar", ranks, 0), 0)
    ranks = emit("mul.Scalar", q, last)
    broken = emit("any.dim", emit("isnan", sorted_), -1, True)
    shape = rushlight.broadcast_shapes(ranks.shape, broken.shape)
    if ranks.shape != shape:
        ranks = emit("expand", ranks, list(shape))
    if broken.shape != shape:
        broken = emit("expand", broken, list(shape))
    return emit("masked_fill.Scalar", ranks, broken, last)


def _interpolated(ranks, sorted_, interpolation):
    if interpolation == "lower":
        emit("floor_", ranks)
    elif interpolation in ("higher", "nearest"):
        emit("ceil_" if interpolation == "higher" else "round_", ranks)
    below = emit("_to_copy", ranks, dtype=rushlight.int64)
    values = emit("gather", sorted_, -1, below)
    if interpolation not in ("linear", "midpoint"):
        return values
    if interpolation == "midpoint":
        weights = emit("full_like", ranks, 0.5)
    else:
        weights = emit("sub.Tensor", ranks, below)
    above = emit("_to_copy", emit("ceil_", ranks), dtype=rushlight.int64)
    return emit("lerp_.Tensor", values, emit("gather", sorted_, -1, above), weights)


def _quantile(ignore_nan):
    def quantile(x, q, dim=None, keepdim=False, *, interpolation="linear"):
        number = not isinstance(q, Tensor)
        if not x.numel() or (number and not 0 <= q <= 1) or (not number and q.dim() > 1):
            return NotImplemented
        if number:
            q = emit("scalar_tensor", q, dtype=x.dtype)
        elif q.dtype is not x.dtype or not bool(((q >= 0) & (q <= 1)).all()):
            return NotImplemented
        scalar, shape = q.dim() == 0, list(x.shape)
        if dim is None:
            sorted_ = emit("sort", flatten(x))[0]
            shape = [1] * len(shape) if keepdim else []
        elif x.dim() and dim % x.dim() == x.dim() - 1:
            sorted_ = emit("sort", x)[0]
        else:
            moved = emit("transpose.int", emit("unsqueeze", x, -1), dim % max(x.dim(), 1), -1)
            sorted_ = emit("sort", moved)[0]
        if dim is not None and x.dim():
            shape[dim] = 1
            shape = shape if keepdim else [*shape[:dim], *shape[dim % x.dim() + 1 :]]
        sorted_ = reshape(sorted_, [*shape, sorted_.shape[-1]])
        values = _interpolated(_ranks(q, sorted_, ignore_nan), sorted_, interpolation)
        if scalar:
            return emit("squeeze_.dim", values, -1)
        values = emit("transpose_", emit("unsqueeze_", values, 0), 0, -1)
        return emit("squeeze_.dim", values, -1)

    return quantile


def _nanmean(x, dim=None, keepdim=False, *, dtype=None):
    if not (x.is_floating_point() or x.is_complex()):
        return NotImplemented
    dims = [dim] if isinstance(dim, int) else dim
    own = emit("detach", x)
    kept = emit("logical_not_", emit("ne.Tensor", own, own))
    count = emit("sum.dim_IntList", kept, dims, keepdim)
    options = {} if dtype is None else {"dtype": dtype}
    return emit("div.Tensor", emit("nansum", x, dims, keepdim, **options), count)


_MODES = {"use_mm_for_euclid_dist_if_necessary": 0, "use_mm_for_euclid_dist": 1,
          "donot_use_mm_for_euclid_dist": 2}  # fmt: skip


def _cdist(x1, x2, p=2.0, compute_mode="use_mm_for_euclid_dist_if_necessary"):
    mode = _MODES.get(compute_mode)
    if mode is None:
        return NotImplemented
    return emit("_cdist_forward", x1, x2, p, mode or None)


def _pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    apart = emit("add.Scalar", emit("sub.Tensor", x1, x2), eps)
    return emit("norm.ScalarOpt_dim", apart, p, [max(x1.dim(), x2.dim()) - 1], keepdim)


def _cosine_similarity(x1, x2, dim=1, eps=1e-8):
    if x1.dtype is not x2.dtype or not x1.is_floating_point():
        return NotImplemented
    shape = rushlight.broadcast_shapes(x1.shape, x2.shape)
    x1, x2 = (x if x.shape == shape else emit("expand", x, list(shape)) for x in (x1, x2))
    norms = []
    for x in (x1, x2):
        norms.append(emit("clone", emit("linalg_vector_norm", x, 2, [dim], True)))
    least = emit("scalar_tensor", eps, dtype=norms[0].dtype)
    norms = [emit("clamp_min_.Tensor", n, least) for n in norms]
    x1, x2 = (emit("div.Tensor", x, n) for x, n in zip((x1, x2), norms))
    return emit("sum.dim_IntList", emit("mul.Tensor", x1, x2), [dim])


def _one_hot(x, num_classes=-1):
    if x.dtype is not rushlight.int64 or not x.numel() or num_classes in (0, -2):
        return NotImplemented
    least, most = (int(emit("_local_scalar_dense", v)) for v in emit("aminmax", x))
    classes = most + 1 if num_classes == -1 else num_classes
    if least < 0 or most >= classes:
        return NotImplemented
    zeros = emit("zeros", [*x.shape, classes], dtype=rushlight.int64)
    return emit("scatter_.value", zeros, -1, emit("unsqueeze", x, -1), 1)


def _count_nonzero(x, dim=None):
    if dim is None or isinstance(dim, int):
        return emit("count_nonzero", x, dim)
    return emit("count_nonzero.dim_IntList", x, list(dim))


def _histogram(x, bins, *, range=None, weight=None, density=False):
    options = {"weight": weight, "density": density}
    options = {name: v for name, v in options.items() if v is not None and v is not False}
    if isinstance(bins, Tensor):
        return emit("histogram.bins_tensor", x, bins, **options)
    if range is not None:
        options["range"] = list(range)
    return emit("histogram.bin_ct", x, bins, **options)


def _histogramdd(x, bins, *, range=None, weight=None, density=False):
    options = {"range": range, "weight": weight, "density": density}
    options = {name: v for name, v in options.items() if v is not None and v is not False}
    if isinstance(bins, int):
        bins = [bins] * x.shape[-1]
    if bins and isinstance(bins[0], Tensor):
        hist = emit("_histogramdd_from_bin_tensors", x, list(bins), **options)
        return rushlight.return_types.histogramdd(hist, tuple(bins))
    edges = emit("_histogramdd_bin_edges", x, list(bins), **options)
    hist = emit("_histogramdd_from_bin_cts", x, list(bins), **options)
    return rushlight.return_types.histogramdd(hist, tuple(edges))


def _unique(x, sorted=True, return_inverse=False, return_counts=False, dim=None):
    if dim is not None:
        found = emit("unique_dim", x, dim, sorted, return_inverse, return_counts)
    else:
        found = emit("_unique2", x, sorted, return_inverse, return_counts)
    wanted = [found[0], *found[1:2] * return_inverse, *found[2:] * return_counts]
    return tuple(wanted) if len(wanted) > 1 else wanted[0]


WRITTEN: dict[str, Callable[..., Any]] = {
    "cov": _cov, "corrcoef": _corrcoef, "quantile": _quantile(False),
    "nanquantile": _quantile(True), "nanmean": _nanmean, "cdist": _cdist,
    "pdist": lambda x, p=2.0: emit("_pdist_forward", x, p),
    "pairwise_distance": _pairwise_distance, "cosine_similarity": _cosine_similarity,
    "one_hot": _one_hot, "count_nonzero": _count_nonzero, "histogram": _histogram,
    "unique": _unique, "histogramdd": _histogramdd,
    "scalar_tensor": opaque("scalar_tensor"),
    "segment_reduce": opaque("segment_reduce"),
    "nonzero_static": opaque("nonzero_static"),
    "block_diag": lambda *tensors: emit("block_diag", list(tensors)),
}  # fmt: skip
