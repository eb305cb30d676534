"""Functions of layers: products, convolutions, pooling, padding, normalisation, attention."""

from __future__ import annotations

import math

import rushlight
from rushlight._dispatch._emit import emit, matmul, narrow, opaque, reshape, to

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _softmax(input, dim=None, dtype=None, _stacklevel=3):
    return _normalized("_softmax", input, dim, dtype)


def _log_softmax(input, dim=None, dtype=None, _stacklevel=3):
    return _normalized("_log_softmax", input, dim, dtype)


def _normalized(name, input, dim, dtype):
    if dim is None or isinstance(dtype, int):
        return NotImplemented
    return emit(name, input if dtype is None else to(input, dtype), dim, False)


def _linear(input, weight, bias=None):
    if bias is None:
        return matmul(input, emit("t", weight))
    if input.dim() == 2:
        return emit("addmm", bias, input, emit("t", weight))
    if not (input.is_contiguous() and bias.is_contiguous()):
        return emit("add.Tensor", matmul(input, emit("t", weight)), bias)
    flat = reshape(input, (-1, input.shape[-1]))
    product = emit("addmm", bias, flat, emit("t", weight))
    return emit("view", product, [*input.shape[:-1], weight.shape[0]])


def _bilinear(input1, input2, weight, bias=None):
    if input1.shape[:-1] != input2.shape[:-1] or input1.dim() == 0:
        return NotImplemented
    flat1, flat2 = (reshape(x, (-1, x.shape[-1])) for x in (input1, input2))
    product = emit("_trilinear", flat1, weight, flat2, [1, 3], [0], [1, 2], [2, 3])
    product = reshape(product, (*input1.shape[:-1], weight.shape[0]))
    return product if bias is None else emit("add.Tensor", product, bias)


def _tuple(value, dims):
    """One number for each dim."""
    if isinstance(value, int):
        return [value] * dims
    return list(value) * (dims if len(value) == 1 else 1)


# ---- convolutions


def _single(input, dims):
    """(the input with a batch, whether it had none)"""
    alone = input.dim() == dims + 1
    return (emit("unsqueeze", input, 0) if alone else input), alone


def _named_padding(input, weight, padding, dilation, dims):
    """(input, padding) for "same" and "valid"; what cannot be halved is padded apart."""
    if padding == "valid":
        return input, [0] * dims
    total = [d * (n - 1) for d, n in zip(dilation, weight.shape[2:])]
    if any(n % 2 for n in total):
        extra = [v for n in reversed(total) for v in ((0, n % 2))]
        input = emit("constant_pad_nd", input, extra, 0)
    return input, [n // 2 for n in total]


def _convolution(dims):
    def convolution(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
        if input.dim() not in (dims + 1, dims + 2) or weight.dim() != dims + 2:
            return NotImplemented
        stride, dilation = _tuple(stride, dims), _tuple(dilation, dims)
        if isinstance(padding, str) and (padding not in ("same", "valid") or
                                         (padding == "same" and {*stride} != {1})):  # fmt: skip
            return NotImplemented
        input, alone = _single(input, dims)
        if isinstance(padding, str):
            input, padding = _named_padding(input, weight, padding, dilation, dims)
        made = emit("convolution", input, weight, bias, stride, _tuple(padding, dims), dilation,
                    False, [0] * dims, groups)  # fmt: skip
        return emit("squeeze.dim", made, 0) if alone else made

    return convolution


def _transposed_convolution(dims):
    def convolution(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1,
                    dilation=1):  # fmt: skip
        if input.dim() not in (dims + 1, dims + 2):
            return NotImplemented
        input, alone = _single(input, dims)
        settings = [_tuple(v, dims) for v in (stride, padding, dilation)]
        made = emit("convolution", input, weight, bias, *settings, True,
                    _tuple(output_padding, dims), groups)  # fmt: skip
        return emit("squeeze.dim", made, 0) if alone else made

    return convolution


# ---- pooling


def _without_defaults(values, defaults):
    """The values up to the last that is not the default."""
    values = list(values)
    while values and values[-1] == defaults[len(values) - 1]:
        values.pop()
    return values


def _max_pool(dims):
    name = f"max_pool{dims}d_with_indices"

    def max_pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
                 return_indices=False, *, both=False):  # fmt: skip
        given = [[] if stride is None else _tuple(stride, dims), _tuple(padding, dims),
                 _tuple(dilation, dims), ceil_mode]  # fmt: skip
        options = _without_defaults(given, [[], [0] * dims, [1] * dims, False])
        found = emit(name, input, _tuple(kernel_size, dims), *options)
        return found if return_indices or both else found[0]

    return max_pool


def _row(v):
    """A setting of one dim as that of two, of which the first is trivial."""
    return v if isinstance(v, int) else v[0]


def _max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
                return_indices=False, *, both=False):  # fmt: skip
    given = [[] if stride is None else [1, _row(stride)], [0, _row(padding)],
             [1, _row(dilation)], ceil_mode]  # fmt: skip
    options = _without_defaults(given, [[], [0, 0], [1, 1], False])
    wide = emit("unsqueeze", input, -2)
    found = emit("max_pool2d_with_indices", wide, [1, _row(kernel_size)], *options)
    values, places = (emit("squeeze.dim", t, -2) for t in found)
    return (values, places) if return_indices or both else values


def _avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False,
                count_include_pad=True):  # fmt: skip
    given = [[] if stride is None else [1, _row(stride)], [0, _row(padding)], ceil_mode,
             count_include_pad]  # fmt: skip
    options = _without_defaults(given, [[], [0, 0], False, True])
    pooled = emit("avg_pool2d", emit("unsqueeze", input, -2), [1, _row(kernel_size)], *options)
    return emit("squeeze.dim", pooled, -2)


def _output_size(input, output_size, dims):
    size = _tuple(output_size, dims) if output_size is not None else [None] * dims
    return [input.shape[d - dims] if n is None else n for d, n in enumerate(size)]


def _adaptive_avg_pool(dims):
    def pool(input, output_size):
        if input.dim() not in (dims + 1, dims + 2):
            return NotImplemented
        size = _output_size(input, output_size, dims)
        if dims == 1:
            pooled = _adaptive_avg_pool(2)(emit("unsqueeze", input, -2), [1, *size])
            return emit("squeeze.dim", pooled, -2)
        if {*size} == {1}:
            return emit("mean.dim", input, [-1 - d for d in range(dims)], True)
        return emit(f"_adaptive_avg_pool{dims}d", input, size)

    return pool


def _adaptive_max_pool(dims):
    def pool(input, output_size, return_indices=False):
        if input.dim() not in (dims + 1, dims + 2):
            return NotImplemented
        size = _output_size(input, output_size, dims)
        if dims == 1:
            found = emit("adaptive_max_pool2d", emit("unsqueeze", input, -2), [1, *size])
            found = tuple(emit("squeeze.dim", t, -2) for t in found)
        else:
            found = emit(f"adaptive_max_pool{dims}d", input, size)
        return found if return_indices else found[0]

    return pool


def _fractional_max_pool(dims):
    name = f"fractional_max_pool{dims}d"

    def pool(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
             _random_samples=None):  # fmt: skip
        if output_size is None:
            if output_ratio is None:
                return NotImplemented
            ratios = [output_ratio] * dims if isinstance(output_ratio, float) else output_ratio
            output_size = [int(n * r) for n, r in zip(input.shape[-dims:], ratios)]
        if _random_samples is None:
            batch = 1 if input.dim() == dims + 1 else input.shape[0]
            _random_samples = emit("rand", [batch, input.shape[-dims - 1], dims],
                                   dtype=input.dtype, device=input.device)  # fmt: skip
        found = emit(name, input, _tuple(kernel_size, dims), _tuple(output_size, dims),
                     _random_samples)  # fmt: skip
        return found if return_indices else found[0]

    return pool


def _max_unpool(dims):
    def unpool(input, indices, kernel_size, stride=None, padding=0, output_size=None):
        kernel, padding = _tuple(kernel_size, dims), _tuple(padding, dims)
        stride = kernel if stride is None else _tuple(stride, dims)
        if output_size is None:
            shape = zip(input.shape[-dims:], stride, kernel, padding)
            size = [(n - 1) * s + k - 2 * p for n, s, k, p in shape]
        else:
            size = list(output_size)[-dims:]
        if dims == 1:
            both = (emit("unsqueeze", t, -1) for t in (input, indices))
            return emit("squeeze.dim", emit("max_unpool2d", *both, [*size, 1]), -1)
        if dims == 2:
            return emit("max_unpool2d", input, indices, size)
        return emit("max_unpool3d", input, indices, size, stride, padding)

    return unpool


# ---- padding and sizes


def _pad(input, pad, mode="constant", value=None):
    pad = list(pad)
    if mode == "constant":
        if len(pad) % 2 or len(pad) > 2 * input.dim():
            return NotImplemented
        return emit("constant_pad_nd", input, pad, *(() if value is None else (value,)))
    dims = len(pad) // 2
    if len(pad) % 2 or not 1 <= dims <= 3 or input.dim() not in (dims + 1, dims + 2):
        return NotImplemented
    if mode == "circular":
        return _pad_circular(input, pad, dims)
    kind = {"reflect": "reflection", "replicate": "replication"}.get(mode)
    if kind is None:
        return NotImplemented
    return emit(f"{kind}_pad{dims}d", input, pad)


def _pad_circular(x, pad, dims):
    sides = [(x.dim() - 1 - i, pad[2 * i], pad[2 * i + 1]) for i in range(dims)]
    if any(max(before, after) > x.shape[d] or before + after + x.shape[d] < 0
           for d, before, after in sides):  # fmt: skip
        return NotImplemented
    shape = list(x.shape)
    for d, before, after in sides:
        shape[d] += before + after
    out = emit("new_empty", x, shape)
    target, source = out, x
    for d, before, after in sides[::-1]:
        target = narrow(target, d, max(before, 0), shape[d] - max(after, 0))
        source = narrow(source, d, max(-before, 0), x.shape[d] - max(-after, 0))
    emit("copy_", target, source)
    for d, before, after in sides:
        end, first = shape[d] - max(after, 0), max(before, 0)
        if before > 0:
            emit("copy_", narrow(out, d, 0, before), narrow(out, d, end - before, end))
        if after > 0:
            target = narrow(out, d, shape[d] - after, shape[d])
            emit("copy_", target, narrow(out, d, first, first + after))
    return out


_UPSAMPLE = {
    ("nearest", 1): "upsample_nearest1d", ("nearest", 2): "upsample_nearest2d",
    ("nearest", 3): "upsample_nearest3d", ("nearest-exact", 1): "_upsample_nearest_exact1d",
    ("nearest-exact", 2): "_upsample_nearest_exact2d",
    ("nearest-exact", 3): "_upsample_nearest_exact3d", ("linear", 1): "upsample_linear1d",
    ("bilinear", 2): "upsample_bilinear2d", ("trilinear", 3): "upsample_trilinear3d",
    ("bicubic", 2): "upsample_bicubic2d",
}  # fmt: skip


def _interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None,
                 recompute_scale_factor=None, antialias=False):  # fmt: skip
    dims = input.dim() - 2
    name = _UPSAMPLE.get((mode, dims))
    if (name is None and mode != "area") or (size is None) == (scale_factor is None):
        return NotImplemented
    if mode in ("nearest", "nearest-exact", "area") and align_corners is not None:
        return NotImplemented
    scales = [None] * dims
    if size is None:
        scales = list(scale_factor) if isinstance(scale_factor, (list, tuple)) else \
            [scale_factor] * dims  # fmt: skip
        if len(scales) != dims:
            return NotImplemented
        size = [math.floor(n * float(s)) for n, s in zip(input.shape[2:], scales)]
        if recompute_scale_factor:
            scales = [None] * dims
    size = _tuple(size, dims)
    if len(size) != dims or antialias and mode not in ("bilinear", "bicubic"):
        return NotImplemented
    if mode == "area":
        return _adaptive_avg_pool(dims)(input, size)
    if mode in ("nearest", "nearest-exact"):
        return emit(name, input, size, *scales)
    name = f"_{name}_aa" if antialias else name
    return emit(name, input, size, bool(align_corners), *scales)


# ---- normalisation


def _layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    return emit("native_layer_norm", input, list(normalized_shape), weight, bias, eps)[0]


def _group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    if input.dim() < 2 or num_groups < 1 or input.shape[1] % num_groups:
        return NotImplemented
    n, c = input.shape[:2]
    places = math.prod(input.shape[2:])
    return emit("native_group_norm", input, weight, bias, n, c, places, num_groups, eps)[0]


def _batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False,
                momentum=0.1, eps=1e-5):  # fmt: skip
    emit("empty.memory_format", [0], dtype=rushlight.uint8)  # which torch has for its backends
    return emit("native_batch_norm", input, weight, bias, running_mean, running_var, training,
                momentum, eps)[0]  # fmt: skip


def _instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None,
                   use_input_stats=True, momentum=0.1, eps=1e-5):  # fmt: skip
    if input.dim() < 3 or (not use_input_stats and running_mean is None):
        return NotImplemented
    if use_input_stats and math.prod(input.shape[2:]) == 1:
        return NotImplemented
    n, c = input.shape[:2]

    def repeated(t):
        return None if t is None else emit("repeat", t, [n])

    weight, bias = repeated(weight), repeated(bias)
    means, variances = repeated(running_mean), repeated(running_var)
    flat = emit("view", input.contiguous(), [1, n * c, *input.shape[2:]])
    result = _batch_norm(flat, means, variances, weight, bias, use_input_stats, momentum, eps)
    for running, each in ((running_mean, means), (running_var, variances)):
        if running is not None:
            own = emit("alias", running)
            emit("copy_", own, emit("mean.dim", emit("view", each, [n, c]), [0]))
    return emit("view", result, list(input.shape))


def _rms_norm(input, normalized_shape, weight=None, eps=None):
    if input.dtype not in (rushlight.float32, rushlight.float64):
        return NotImplemented
    eps = rushlight.finfo(input.dtype).eps if eps is None else eps
    dims = [input.dim() - 1 - d for d in range(len(normalized_shape))]
    mean = emit("mean.dim", emit("pow.Tensor_Scalar", input, 2), dims, True)
    scale = emit("rsqrt", emit("add_.Scalar", mean, eps))
    result = emit("mul.Tensor", input, scale)
    return result if weight is None else emit("mul.Tensor", result, weight)


# ---- activations with parameters, and dropout


def _prelu(input, weight):
    if weight.dim() > 1:
        return NotImplemented
    if weight.numel() != 1 and (input.dim() < 2 or weight.numel() != input.shape[1]):
        return NotImplemented
    if weight.dim() != input.dim():
        shape = [1] * input.dim()
        if weight.numel() != 1:
            shape[1] = weight.numel()
        weight = reshape(weight, shape)
    return emit("_prelu_kernel", input, weight)


def _rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    noise = emit("empty_like", input)
    name = "rrelu_with_noise_" if inplace else "rrelu_with_noise"
    return emit(name, input, noise, lower, upper, training)


def _dropping(input, p, training, inplace, by_channel=False, alpha=False):
    """Dropout of elements or channels, to zero or to what saturates SELU."""
    times = "mul_.Tensor" if inplace else "mul.Tensor"
    if not 0 <= p <= 1:
        return NotImplemented
    if p == 0 or not training or not input.numel():
        return input
    if p == 1:
        return emit(times, input, emit("zeros", [], dtype=input.dtype))
    if by_channel:
        shape = [*input.shape[:2], *[1] * (input.dim() - 2)]
        noise = emit("new_empty", input, shape)
    else:
        noise = emit("empty_like", input)
    noise = emit("bernoulli_.float", noise, 1 - p)
    if not alpha:
        return emit(times, input, emit("div_.Scalar", noise, 1 - p))
    saturated = 1.7580993408473766
    a = 1.0 / math.sqrt((saturated**2 * p + 1) * (1 - p))
    shift = emit("mul_.Scalar", emit("add.Scalar", noise, -1), saturated * a)
    shift = emit("add_.Scalar", shift, saturated * a * p)
    kept = emit(times, input, emit("mul_.Scalar", noise, a))
    return emit("add_.Tensor", kept, shift)


def _dropout(input, p=0.5, training=True, inplace=False, *, train=True):
    return _dropping(input, p, training and train, inplace)


def _alpha_dropout(input, p=0.5, training=False, inplace=False):
    return _dropping(input, p, training, inplace, alpha=True)


def _feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    return _dropping(input, p, training, inplace, by_channel=True, alpha=True)


def _dropout_of_channels(dims):
    def dropout(input, p=0.5, training=True, inplace=False):
        if input.dim() not in (dims + 1, dims + 2):
            return NotImplemented
        alone = input.dim() == dims + 1 and dims != 2
        if alone:
            input = emit("unsqueeze_" if inplace else "unsqueeze", input, 0)
        result = _dropping(input, p, training, inplace, by_channel=True)
        if not alone or result is NotImplemented:
            return result
        return emit("squeeze_.dim" if inplace else "squeeze.dim", result, 0)

    return dropout


# ---- embeddings, samples, attention


def _embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0,
               scale_grad_by_freq=False, sparse=False):  # fmt: skip
    if padding_idx is not None and padding_idx < 0:
        padding_idx += weight.shape[0]
    if max_norm is not None:
        input = input.contiguous()
        with rushlight.no_grad():
            emit("embedding_renorm_", emit("detach", weight), input, max_norm, norm_type)
    options = (-1 if padding_idx is None else padding_idx, scale_grad_by_freq, sparse)
    return emit("embedding", weight, input, *(options if options != (-1, False, False) else ()))


def _embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2,
                   scale_grad_by_freq=False, mode="mean", sparse=False, per_sample_weights=None,
                   include_last_offset=False, padding_idx=None):  # fmt: skip
    if max_norm is not None or input.dim() not in (1, 2) or mode not in ("sum", "mean", "max"):
        return NotImplemented
    if (input.dim() == 1) == (offsets is None):
        return NotImplemented
    if input.dim() == 2:
        count = input.numel()
        offsets = emit("arange.start_step", 0, count, max(input.shape[1], 1), dtype=input.dtype)
        input = reshape(input, (-1,))
        if per_sample_weights is not None:
            per_sample_weights = reshape(per_sample_weights, (-1,))
    if padding_idx is not None and padding_idx < 0:
        padding_idx += weight.shape[0]
    needs = rushlight._C._records() and weight.requires_grad
    return emit("_embedding_bag" if needs else "_embedding_bag_forward_only", weight, input,
                offsets, scale_grad_by_freq, ("sum", "mean", "max").index(mode), sparse,
                per_sample_weights, include_last_offset,
                -1 if padding_idx is None else padding_idx)[0]  # fmt: skip


def _grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    modes = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
    if mode not in modes[0] or padding_mode not in modes[1] or input.dim() not in (4, 5):
        return NotImplemented
    return emit(f"grid_sampler_{input.dim() - 2}d", input, grid, modes[0].index(mode),
                modes[1].index(padding_mode), bool(align_corners))  # fmt: skip


def _bias_of_mask(mask, dtype):
    """A mask of what is seen as what is added to the scores."""
    if mask.dtype is not rushlight.bool:
        return mask
    low = emit("scalar_tensor", -math.inf, dtype=dtype)
    zero = emit("scalar_tensor", 0.0, dtype=dtype)
    return emit("where.self", mask, zero, low)


def _attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None,
               enable_gqa=False):  # fmt: skip
    if enable_gqa or (is_causal and attn_mask is not None) or query.dim() < 2:
        return NotImplemented
    if _has_flash(query, key, value, attn_mask, dropout_p):
        mask = None if attn_mask is None else _bias_of_mask(attn_mask, query.dtype)
        options = {} if mask is None else {"attn_mask": mask}
        options |= {} if scale is None else {"scale": scale}
        given = (0.0, True) if is_causal else ()
        name = "_scaled_dot_product_flash_attention_for_cpu"
        return emit(name, query, key, value, *given, **options)[0]
    if attn_mask is not None:
        attn_mask = _bias_of_mask(attn_mask, query.dtype)
    factor = math.sqrt(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    query = emit("mul.Scalar", query, factor)
    if is_causal:
        shape = [query.shape[-2], key.shape[-2]]
        attn_mask = _bias_of_mask(emit("tril", emit("ones", shape, dtype=rushlight.bool)),
                                  query.dtype)  # fmt: skip
    turned = emit("mul.Scalar", emit("transpose.int", key, -2, -1), factor)
    scores = matmul(query, turned)
    if attn_mask is not None:
        scores = emit("add.Tensor", scores, attn_mask)
    weights = emit("_safe_softmax", scores, -1)
    if dropout_p > 0:
        weights = _dropping(weights, dropout_p, True, False)
    return matmul(weights, value)


def _has_flash(query, key, value, mask, dropout_p):
    """Whether torch has one operation for it, on the CPU."""
    tensors = (query, key, value)
    sizes = {t.shape[-1] for t in tensors}
    return (
        not dropout_p
        and all(t.dim() == 4 and t.shape[:2] == query.shape[:2] for t in tensors)
        and len(sizes) == 1
        and all(t.is_floating_point() and t.numel() and t.stride(-1) == 1 for t in tensors)
        and (mask is None or (not mask.requires_grad and mask.dim() in (2, 4)))
    )


def _unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    settings = [_tuple(v, 2) for v in (kernel_size, dilation, padding, stride)]
    return emit("im2col", input, *settings)


def _fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    settings = [_tuple(v, 2) for v in (output_size, kernel_size, dilation, padding, stride)]
    return emit("col2im", input, *settings)


def _each(name, make, dims=(1, 2, 3)):
    return {f"{name}{n}d": make(n) for n in dims}


WRITTEN: dict[str, Callable[..., Any]] = {
    "softmax": _softmax, "log_softmax": _log_softmax, "linear": _linear,
    "matmul": matmul, "__matmul__": matmul, "bilinear": _bilinear,
    **_each("conv", _convolution), **_each("conv_transpose", _transposed_convolution),
    **_each("max_pool", _max_pool, (2, 3)), "max_pool1d": _max_pool1d,
    "max_pool1d_with_indices": lambda *a, **k: _max_pool1d(*a, both=True, **k),
    "avg_pool1d": _avg_pool1d, **_each("adaptive_avg_pool", _adaptive_avg_pool),
    **_each("adaptive_max_pool", _adaptive_max_pool), **_each("max_unpool", _max_unpool),
    **_each("fractional_max_pool", _fractional_max_pool, (2, 3)),
    "pad": _pad, "interpolate": _interpolate, "layer_norm": _layer_norm,
    "group_norm": _group_norm, "batch_norm": _batch_norm, "instance_norm": _instance_norm,
    "rms_norm": _rms_norm, "prelu": _prelu, "rrelu": _rrelu, "dropout": _dropout,
    **_each("dropout", _dropout_of_channels), "alpha_dropout": _alpha_dropout,
    "feature_alpha_dropout": _feature_alpha_dropout, "embedding": _embedding,
    "embedding_bag": _embedding_bag, "grid_sample": _grid_sample,
    "scaled_dot_product_attention": _attention, "functional.unfold": _unfold, "fold": _fold,
    **{name: opaque(name) for name in (
        "native_layer_norm", "native_group_norm", "native_batch_norm",
        "_native_batch_norm_legit", "grid_sampler_2d",
        "grid_sampler_3d", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    )},
}  # fmt: skip
