"""Pooling, convolutions and losses."""

import rushlight
from rushlight.func._batching._rules import FUNCTIONS, RULES, of_first, padded, register
from rushlight.nn import functional as F


def _of_batches(func, x, rank, spatial, *args, **kwargs):
    """An op of inputs (N, C, *spatial), or of one without N: all examples in one batch."""
    if rank == spatial + 1:
        return func(x, *args, **kwargs)
    if rank != spatial + 2:
        return NotImplemented
    result = func(x.flatten(0, 1), *args, **kwargs)
    parts = result if isinstance(result, tuple) else (result,)
    parts = [part.unflatten(0, x.shape[:2]) for part in parts]
    return tuple(parts) if isinstance(result, tuple) else parts[0]


for _n in (1, 2, 3):

    @of_first(f"spatial_{_n}d")
    def _spatial(func, x, rank, *args, _n=_n, **kwargs):
        return _of_batches(func, x, rank, _n, *args, **kwargs)


@of_first("to_size")
def _to_size(func, x, rank, size, *args, **kwargs):
    return _of_batches(func, x, rank, len(size), size, *args, **kwargs)


@of_first("group_norm")
def _of_one_batch(func, x, rank, *args, **kwargs):
    if rank < 2:
        return NotImplemented
    return func(x.flatten(0, 1), *args, **kwargs).unflatten(0, x.shape[:2])


register("instance_norm", RULES["group_norm"], FUNCTIONS)


def _norm(shared, scaled):
    """A norm with weights that all examples share, or with those of each by `scaled`."""

    def rule(level, func, args, kwargs):
        result = RULES[shared](level, func, args, kwargs)
        return level.run_inside(scaled, args, kwargs) if result is NotImplemented else result

    return rule


def _layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    result = F.layer_norm(input, normalized_shape, eps=eps)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


def _rms_norm(input, normalized_shape, weight=None, eps=None):
    result = F.rms_norm(input, normalized_shape, eps=eps)
    return result if weight is None else result * weight


def _group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    return _scaled(F.group_norm(input, num_groups, eps=eps), weight, bias)


def _by_channel(numbers, like):
    return numbers.reshape(-1, *[1] * (like.dim() - 2))


def _scaled(result, weight, bias):
    result = result if weight is None else result * _by_channel(weight, result)
    return result if bias is None else result + _by_channel(bias, result)


def _batch_norm(level, func, args, kwargs):
    """By statistics of each example's own, or by those that are given."""
    names = "input running_mean running_var weight bias training momentum eps".split()
    given = {"training": False, "eps": 1e-5, **dict(zip(names, args)), **kwargs}
    x, mean, var = (given.get(name) for name in names[:3])
    if x.dim() < 2 or (given["training"] and mean is not None):
        return NotImplemented
    if not given["training"]:
        return level.run_inside(_by_statistics, (x, mean, var), _rest(given))
    examples = level.all_examples(x)
    channels = examples.transpose(0, 1).flatten(1, 2)
    normal = func(channels, None, None, training=True, eps=given["eps"])
    normal = normal.unflatten(1, (level.size, -1)).transpose(0, 1)
    return level.run_inside(_scaled, (level.batched_tensor(normal),), _rest(given, "eps"))


def _rest(given, *without):
    return {k: given.get(k) for k in ("weight", "bias", "eps") if k not in without}


def _by_statistics(input, mean, var, weight, bias, eps):
    mean, var = mean.detach(), var.detach()  # which have no gradients
    scale = _by_channel((var + eps).rsqrt(), input)
    return _scaled((input - _by_channel(mean, input)) * scale, weight, bias)


register("layer_norm", _norm("leading", _layer_norm))
register("rms_norm", _norm("leading", _rms_norm))
register("scaled_group_norm", _norm("group_norm", _group_norm))
register("batch_norm", _batch_norm)


@of_first("pad")
def _pad(func, x, rank, pad, mode="constant", value=None):
    if mode == "constant" or rank == len(pad) // 2 + 1:
        return func(x, pad, mode, value)
    return func(x.flatten(0, 1), pad, mode).unflatten(0, x.shape[:2])


def _convolution(spatial):
    def rule(level, func, args, kwargs):
        names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
        given = {"bias": None, "groups": 1, **dict(zip(names, args)), **kwargs}
        tensor, weight, bias = (given.pop(name) for name in names[:3])
        groups = given.pop("groups")
        x = level.examples(tensor)
        batch = tensor.dim() == spatial + 2
        if level.examples(weight) is None and level.examples(bias) is None:
            flat = x.flatten(0, 1) if batch else x
            result = func(flat, weight, bias, groups=groups, **given)
            return level.batched_tensor(result.unflatten(0, x.shape[:2]) if batch else result)
        # The examples as groups of one convolution.
        x = level.all_examples(tensor)
        x = x if batch else x.unsqueeze(1)
        w = level.all_examples(weight).flatten(0, 1)
        b = None if bias is None else level.all_examples(bias).flatten(0, 1)
        result = func(x.transpose(0, 1).flatten(1, 2), w, b, groups=groups * level.size, **given)
        result = result.unflatten(1, (level.size, -1)).transpose(0, 1)
        return level.batched_tensor(result if batch else result.squeeze(1))

    return rule


for _n in (1, 2, 3):
    register(f"convolution_{_n}d", _convolution(_n))


def _nll_loss_gradient(level, func, args, kwargs):
    """That of 1, scaled: each element of the loss goes to one score."""
    grad, target, *rest, size = args
    g = level.examples(grad)
    if g is None or any(level.examples(a) is not None for a in (target, *rest)):
        return NotImplemented
    of_one = func(rushlight.ones_like(g[0]), target, *rest, size, **kwargs)
    if grad.dim():  # of each loss, beside the classes
        return level.batched_tensor(of_one * g.unsqueeze(2))
    return level.batched_tensor(of_one * g.reshape(-1, *[1] * of_one.dim()))


register("nll_loss_gradient", _nll_loss_gradient)


def _class_loss(level, func, args, kwargs):
    """cross_entropy and nll_loss of class numbers, all classes of equal weight."""
    names = ("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction")
    given = {"ignore_index": -100, "reduction": "mean", **dict(zip(names, args)), **kwargs}
    tensor, target, reduction = given.pop("input"), given.pop("target"), given["reduction"]
    plain = given.get("size_average") is None and given.get("reduce") is None
    if not plain or given.get("weight") is not None or target.is_floating_point():
        return NotImplemented
    if reduction not in ("none", "mean", "sum"):
        return NotImplemented
    x, t = level.all_examples(tensor), level.all_examples(target)
    batch = tensor.dim() > 1
    options = {k: given[k] for k in ("ignore_index", "label_smoothing") if k in given}
    if batch:
        loss = func(x.flatten(0, 1), t.flatten(0, 1), reduction="none", **options)
        loss = loss.unflatten(0, x.shape[:2])
    else:
        loss = func(x, t, reduction="none", **options)
    if reduction == "none":
        return level.batched_tensor(loss)
    total = loss.flatten(1).sum(1) if batch else loss
    if reduction == "mean":
        counted = (t != given["ignore_index"]).reshape(level.size, -1).sum(1)
        total = total / counted
    return level.batched_tensor(total)


register("class_loss", _class_loss)


def _element_loss(level, func, args, kwargs):
    """Losses of pairs of elements, which are then averaged or summed."""
    options = {"reduction": "mean", **{k: v for k, v in kwargs.items() if v is not None}}
    reduction = options.pop("reduction")
    if len(args) != 2 or set(options) - {"beta", "delta", "log_target"}:
        return NotImplemented
    if reduction not in _REDUCTIONS:
        return NotImplemented
    rank = max(a.dim() for a in args)
    pair = [padded(level.all_examples(a), rank) for a in args]
    loss = func(*pair, reduction="none", **options)
    reduced = loss if reduction == "none" else _REDUCTIONS[reduction](padded(loss, 1).flatten(1))
    return level.batched_tensor(reduced)


_REDUCTIONS = {
    "none": None, "mean": lambda loss: loss.mean(1), "sum": lambda loss: loss.sum(1)
}  # fmt: skip
register("element_loss", _element_loss)
