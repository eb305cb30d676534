"""Floating-point operations of ops, from the shapes of what they were given and returned.

A multiplication and an addition count as two. An op whose work the ops inside of it do counts
nothing by itself.
"""

from __future__ import annotations

import math

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# An operation on each element of the result.
_BY_ELEMENT = frozenset(
    """
    abs acos acosh add addcdiv addcmul asin asinh atan atan2 atanh ceil celu clamp clamp_max
    clamp_min copysign cos cosh deg2rad div dropout elu erf erfc erfinv exp exp2 expm1 floor fmod
    frac gelu hardshrink hardsigmoid hardswish hardtanh hypot leaky_relu lerp log log10 log1p log2
    logaddexp logsigmoid logit maximum minimum mish mul neg pow rad2deg reciprocal relu relu6
    remainder round rsqrt rsub selu sgn sigmoid sign silu sin sinc sinh softplus softshrink
    softsign sqrt square sub tan tanh threshold trunc where xlogy
""".split()
)

# An operation on each element of the first argument.
_BY_INPUT = frozenset(
    """
    amax amin argmax argmin cumprod cumsum max mean min norm prod std sum var linalg_vector_norm
    logsumexp nansum
""".split()
)

# Some operations on each element of the first argument: exponentials, sums, products.
_BY_ROW = {
    "_softmax": 4, "_log_softmax": 4, "_softmax_backward_data": 4, "_log_softmax_backward_data": 4,
    "native_layer_norm": 8, "native_batch_norm": 8, "native_group_norm": 8, "rms_norm": 6,
    "cross_entropy_loss": 5,
}  # fmt: skip


def _sizes(argument):
    return argument[1] if isinstance(argument, tuple) else None


def _tensors(arguments):
    return [a[1] for a in arguments or () if isinstance(a, tuple)]


def _product(inputs, results):
    """Of a matrix product, batched or not: each element of the result sums over the last dim."""
    return 2 * math.prod(results[0]) * inputs[0][-1] if inputs[0] else 0


def _added_product(inputs, results):
    return 2 * math.prod(results[0]) * inputs[1][-1]


def _convolution(inputs, results):
    """Each element of the result sums over the window and the channels of its group."""
    weight = inputs[1]
    return 2 * math.prod(results[0]) * math.prod(weight[1:])


def _convolution_gradient(weight):
    def count(inputs, results):
        # As many as forward: an element of the gradient of the result for each of the result's.
        grad = inputs[0]
        kernel = results[0] if weight else inputs[1]
        return 2 * math.prod(grad) * math.prod(kernel[1:])

    return count


def _attention(inputs, results):
    query, key, value = inputs[:3]
    scores = math.prod(query[:-1]) * key[-2]
    return 2 * scores * query[-1] + 2 * scores * value[-1]


_STRUCTURED = {
    "mm": _product, "bmm": _product, "mv": _product, "dot": _product, "linear": _product,
    "matmul": _product, "_linear_activation": _product,
    "addmm": _added_product, "baddbmm": _added_product, "addmv": _added_product,
    "convolution": _convolution, "conv1d": _convolution, "conv2d": _convolution,
    "conv3d": _convolution,
    "convolution_backward_input": _convolution_gradient(weight=False),
    "convolution_backward_weight": _convolution_gradient(weight=True),
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "scaled_dot_product_attention": _attention,
}  # fmt: skip


def _is_causal(inputs):
    return any(a is True for a in inputs or ())


def flops_of(name: str, inputs: Any, results: Any) -> Any:
    """The operations of one op by itself; 0 where they are not known.

    Args:
        name: of the op.
        inputs, results: (dtype, sizes, strides) for each tensor, other things for other arguments.

    Example:
        >>> a, b = ("float32", [2, 3], [3, 1]), ("float32", [3, 5], [5, 1])
        >>> flops_of("mm", [a, b], [("float32", [2, 5], [5, 1])])
        60
    """
    given, made = _tensors(inputs), _tensors(results)
    if not given or not made:
        return 0
    name = name.removesuffix("_") if not name.startswith("_") else name
    try:
        if name in _STRUCTURED:
            count = _STRUCTURED[name](given, made)
            masked = _STRUCTURED[name] is _attention and _is_causal(inputs)
            return count // 2 if masked else count
        if name in _BY_ROW:
            return _BY_ROW[name] * math.prod(given[0])
    except IndexError:  # a form of the op that has not so many tensors
        return 0
    if name in _BY_ELEMENT:
        return math.prod(made[0])
    if name in _BY_INPUT:
        return math.prod(given[0])
    return 0


def count_flops(pairs: Any) -> None:
    """Set the flops of events, from the innermost out; `pairs`: of what was recorded and events."""
    inside = {}
    for raw, event in reversed(pairs):  # children come after their parents
        own = 0
        if raw.kind == 0 and not inside.get(id(event)):
            own = flops_of(raw.name, raw.inputs, raw.results)
        event.flops = own or None
        total = own or inside.get(id(event), 0)
        if total and event.cpu_parent is not None:
            parent = id(event.cpu_parent)
            inside[parent] = inside.get(parent, 0) + total
