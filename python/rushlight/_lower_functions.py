"""The functions of `torch` that stand below those of `torch.nn.functional`: the same work, with
the arguments in one fixed order and the reduction as a number: 0 for none, which is the default
as in torch, 1 for the mean, 2 for the sum.
"""

from __future__ import annotations

import rushlight
from rushlight._integers import integers
from rushlight._numpy_names import take_numpy_names
from rushlight.nn import functional as F
from rushlight.nn._reduction import reduce_loss

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_REDUCTIONS = ("none", "mean", "sum")


def _reduction(number: Any) -> Any:
    if number not in (0, 1, 2):
        raise ValueError(f"reduction: expected 0 (none), 1 (mean) or 2 (sum) but got {number!r}")
    return _REDUCTIONS[number]


def adaptive_max_pool1d(input: Any, output_size: Any) -> Any:
    """Return (maxima, their places); see `nn.functional.adaptive_max_pool1d`."""
    return F.adaptive_max_pool1d(input, output_size, return_indices=True)


def affine_grid_generator(theta: Any, size: Any, align_corners: Any) -> Any:
    """Return the sampling grid of affine maps; see `nn.functional.affine_grid`."""
    return F.affine_grid(theta, size, align_corners=align_corners)


def alpha_dropout(input: Any, p: Any, train: Any) -> Any:
    """Drop out, keeping mean and variance; see `nn.functional.alpha_dropout`."""
    return F.alpha_dropout(input, p, train)


def alpha_dropout_(input: Any, p: Any, train: Any) -> Any:
    """Apply `nn.functional.alpha_dropout` in place."""
    return F.alpha_dropout(input, p, train, inplace=True)


def feature_alpha_dropout(input: Any, p: Any, train: Any) -> Any:
    """Drop out whole channels; see `nn.functional.feature_alpha_dropout`."""
    return F.feature_alpha_dropout(input, p, train)


def feature_alpha_dropout_(input: Any, p: Any, train: Any) -> Any:
    """Apply `nn.functional.feature_alpha_dropout` in place."""
    return F.feature_alpha_dropout(input, p, train, inplace=True)


def feature_dropout(input: Any, p: Any, train: Any) -> Any:
    """Zero whole channels, the second dim's, with probability p, and scale the others."""
    return _feature_dropout(input, p, train, inplace=False)


def feature_dropout_(input: Any, p: Any, train: Any) -> Any:
    """Apply `feature_dropout` in place."""
    return _feature_dropout(input, p, train, inplace=True)


def _feature_dropout(input: Any, p: Any, train: Any, inplace: Any) -> Any:
    if input.dim() < 2:
        raise RuntimeError(
            f"feature_dropout: expected an input with 2 or more dims but got shape "
            f"{tuple(input.shape)}"
        )
    from rushlight.nn import _random

    return _random._feature_dropout(input, p, train, inplace)


def batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: Any,
    momentum: Any,
    eps: Any,
    cudnn_enabled: Any,
) -> Any:
    """Normalise each channel; see `nn.functional.batch_norm`. `cudnn_enabled` says which library
    may do it, where there are two.
    """
    del cudnn_enabled
    return F._batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: Any,
    momentum: Any,
    eps: Any,
    cudnn_enabled: Any,
) -> Any:
    """Normalise each channel of each example; see `nn.functional.instance_norm`. `cudnn_enabled`
    says which library may do it, where there are two.
    """
    del cudnn_enabled
    return F.instance_norm(
        input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps
    )


def layer_norm(
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: Any = 1e-05,
    cudnn_enable: Any = True,
) -> Any:
    """Normalise over the last dims; see `nn.functional.layer_norm`. `cudnn_enable` says which
    library may do it, where there are two.
    """
    del cudnn_enable
    return F.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Any,
    num_groups: Any,
    weight: Any = None,
    bias: Any = None,
    eps: Any = 1e-05,
    cudnn_enabled: Any = True,
) -> Any:
    """Normalise each group of channels; see `nn.functional.group_norm`. `cudnn_enabled` says which
    library may do it, where there are two.
    """
    del cudnn_enabled
    return F.group_norm(input, num_groups, weight, bias, eps)


def rrelu(
    input: Any,
    lower: Any = 1.0 / 8,
    upper: Any = 1.0 / 3,
    training: Any = False,
    generator: Any = None,
) -> Any:
    """Return input where it is positive, elsewhere a share of it that is drawn; see
    `nn.functional.rrelu`.
    """
    from rushlight.nn import _random

    return _random._rrelu(input, lower, upper, training, False, generator)


def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    pos_weight: Any = None,
    reduction: Any = 0,
) -> Any:
    """Return the loss of `nn.functional.binary_cross_entropy_with_logits`."""
    return F.binary_cross_entropy_with_logits(
        input, target, weight, pos_weight=pos_weight, reduction=_reduction(reduction)
    )


def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: Any = 0.0,
    reduction: Any = 0,
) -> Any:
    """Return the loss of `nn.functional.cosine_embedding_loss`."""
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_reduction(reduction))


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: Any = 0,
    reduction: Any = 0,
    zero_infinity: Any = False,
) -> Any:
    """Return the loss of `nn.functional.ctc_loss`."""
    return F.ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _reduction(reduction),
        zero_infinity,
    )  # fmt: skip


def hinge_embedding_loss(input: Any, target: Any, margin: Any = 1.0, reduction: Any = 0) -> Any:
    """Return the loss of `nn.functional.hinge_embedding_loss`."""
    return F.hinge_embedding_loss(input, target, margin, reduction=_reduction(reduction))


def kl_div(input: Any, target: Any, reduction: Any = 0, *, log_target: Any = False) -> Any:
    """Return the loss of `nn.functional.kl_div`; the mean is over all elements."""
    terms = F.kl_div(input, target, reduction="none", log_target=log_target)
    return reduce_loss(terms, _reduction(reduction))


def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: Any = 0.0,
    reduction: Any = 0,
) -> Any:
    """Return the loss of `nn.functional.margin_ranking_loss`."""
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_reduction(reduction))


def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: Any,
    full: Any,
    eps: Any,
    reduction: Any,
) -> Any:
    """Return the loss of `nn.functional.poisson_nll_loss`."""
    return F.poisson_nll_loss(
        input, target, log_input, full, eps=eps, reduction=_reduction(reduction)
    )


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: Any = 1.0,
    p: Any = 2.0,
    eps: Any = 1e-06,
    swap: Any = False,
    reduction: Any = 0,
) -> Any:
    """Return the loss of `nn.functional.triplet_margin_loss`."""
    return F.triplet_margin_loss(
        anchor, positive, negative, margin, p, eps, swap, reduction=_reduction(reduction)
    )


def embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: Any = False,
    mode: Any = 0,
    sparse: Any = False,
    per_sample_weights: Any = None,
    include_last_offset: Any = False,
    padding_idx: Any = None,
) -> Any:
    """Return (bags, bag of each index, size of each bag, places of maxima).

    Args:
        mode: 0 for the sum, of which the other results are empty or zeros; 1 for the mean, of
            which the last result is the sizes; 2 for the maximum. See
            `nn.functional.embedding_bag`.
    """
    if mode not in (0, 1, 2):
        raise RuntimeError(f"embedding_bag: mode must be 0, 1 or 2 but got {mode}")
    result = F.embedding_bag(
        indices, weight, offsets, None, 2.0, scale_grad_by_freq, ("sum", "mean", "max")[mode],
        sparse, per_sample_weights, include_last_offset, padding_idx,
    )  # fmt: skip
    starts = offsets[:-1] if include_last_offset else offsets
    if mode == 0:
        zeros = rushlight.zeros_like(starts)
        return result, indices.new_empty(0), zeros, rushlight.zeros_like(starts)
    ends = rushlight.cat([starts[1:], starts.new_tensor([indices.numel()])])
    sizes = ends - starts
    numbers = rushlight.arange(len(starts), dtype=indices.dtype, device=indices.device)
    bags = rushlight.repeat_interleave(numbers, sizes)
    kept = rushlight.ones_like(indices, dtype=rushlight.bool)
    if padding_idx is not None:
        kept = indices != padding_idx % weight.size(0)
        sizes = rushlight.zeros_like(sizes).index_add_(0, bags, kept.to(sizes.dtype))
    maxima = sizes.clone()
    if mode == 2:
        maxima = indices.new_zeros(len(starts), weight.size(1))
        for place in range(len(starts)):
            chosen = indices[(bags == place) & kept]
            if len(chosen):
                maxima[place] = chosen[weight.detach()[chosen].argmax(0)]
    return result, bags, sizes, maxima


def frobenius_norm(input: Any, dim: Any, keepdim: Any = False, *, out: Any = None) -> Any:
    """Return the root of the sum of squares along one or two dims."""
    dims = integers(dim)
    return rushlight.linalg.vector_norm(input, 2, dims or None, keepdim, out=out)


def nuclear_norm(input: Any, dim: Any = None, keepdim: Any = False, *, out: Any = None) -> Any:
    """Return the sum of the singular values of a matrix, or of those in two dims."""
    if isinstance(dim, bool):
        dim, keepdim = None, dim
    dims = (-2, -1) if dim is None else dim
    return rushlight.linalg.matrix_norm(input, "nuc", dims, keepdim, out=out)


def norm_except_dim(v: Any, pow: Any = 2, dim: Any = 0) -> Any:
    """Return the norms of slices along `dim`, with all dims kept; of all elements for dim -1."""
    if dim == -1:
        return v.norm(pow)
    rest = [d for d in range(v.dim()) if d != dim]
    return rushlight.linalg.vector_norm(v, pow, rest, keepdim=True) if rest else v.abs()


def _weight_norm(v: Any, g: Any, dim: Any = 0) -> Any:
    """Return v * (g / norm_except_dim(v, 2, dim))."""
    return v * (g / norm_except_dim(v, 2, dim))


_OPTIONS = ("has_biases", "num_layers", "dropout", "train", "bidirectional")
_PADDED = ("input", "hx", "params", *_OPTIONS, "batch_first")
_PACKED = ("data", "batch_sizes", "hx", "params", *_OPTIONS)


def _in_order(mode: Any, arguments: Any, named: Any) -> Any:
    """All arguments of `lstm` and its kin by position."""
    order = _PACKED if "data" in named or "batch_sizes" in named else _PADDED
    if arguments and "params" in named and "hx" not in named and len(arguments) == 3:
        order = _PACKED
    rest = order[len(arguments) :]
    if sorted(named) != sorted(rest):
        raise TypeError(
            f"{mode.lower()}() got {len(arguments)} positional arguments and {sorted(named)}; "
            f"expected ({', '.join(_PADDED)}) or ({', '.join(_PACKED)})"
        )
    return (*arguments, *(named[name] for name in rest))


def _recurrent(mode: Any, states: Any, arguments: Any, named: Any) -> Any:
    """What `lstm` and its kin share: arguments are (input, hx, params, ..., batch_first), or
    (data, batch_sizes, hx, params, ...).
    """
    from rushlight.nn import _recurrent

    if named:
        arguments = _in_order(mode, arguments, named)
    packed = isinstance(arguments[3], (list, tuple)) and isinstance(arguments[1], rushlight.Tensor)
    batch_sizes, batch_first = None, False
    if packed and len(arguments) == 9 and not isinstance(arguments[2], bool):
        if isinstance(arguments[3], (list, tuple)):
            input, batch_sizes, hx, params, *options = arguments
    if batch_sizes is None:
        input, hx, params, *options, batch_first = arguments
    has_biases, num_layers, dropout, train, bidirectional = options
    hx = tuple(hx) if states == 2 else (hx,)
    count = num_layers * (2 if bidirectional else 1)
    each = len(params) // count
    if each * count != len(params):
        raise RuntimeError(
            f"{mode.lower()}: {len(params)} parameters are not the same number for each of "
            f"{count} layers and directions"
        )
    if batch_first:
        input = input.transpose(0, 1)
    output, last = _recurrent.run(
        mode, input, hx, [list(params[i * each : (i + 1) * each]) for i in range(count)],
        has_biases=has_biases, dropout=dropout if train else 0.0, bidirectional=bidirectional,
        batch_sizes=batch_sizes,
    )  # fmt: skip
    return (output.transpose(0, 1) if batch_first else output), *last


def lstm(*arguments: Any, **named: Any) -> Any:
    """Run a long short-term memory: (output, last h, last c).

    Args: input, (h, c), params, has_biases, num_layers, dropout, train, bidirectional,
        batch_first; or for packed sequences data, batch_sizes, (h, c), params, has_biases,
        num_layers, dropout, train, bidirectional. See `nn.LSTM`.
    """
    return _recurrent("LSTM", 2, arguments, named)


def gru(*arguments: Any, **named: Any) -> Any:
    """Run gated recurrent units: (output, last h). Args as of `lstm`, with h alone."""
    return _recurrent("GRU", 1, arguments, named)


def rnn_tanh(*arguments: Any, **named: Any) -> Any:
    """Run a recurrent network with tanh: (output, last h). Args as of `lstm`, with h alone."""
    return _recurrent("RNN_TANH", 1, arguments, named)


def rnn_relu(*arguments: Any, **named: Any) -> Any:
    """Run a recurrent network with relu: (output, last h). Args as of `lstm`, with h alone."""
    return _recurrent("RNN_RELU", 1, arguments, named)


def _cell(mode: Any, input: Any, states: Any, weights: Any) -> Any:
    from rushlight.nn import _recurrent

    return _recurrent.step(mode, input, tuple(states), weights)


def lstm_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """Return (h, c) after one step from `hx`, a pair of them."""
    return _cell("LSTM", input, hx, (w_ih, w_hh, b_ih, b_hh))


def gru_cell(input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    """Return the state after one step from `hx`."""
    return _cell("GRU", input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


def rnn_tanh_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """Return the state after one step from `hx`."""
    return _cell("RNN_TANH", input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


def rnn_relu_cell(
    input: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None
) -> Any:
    """Return the state after one step from `hx`."""
    return _cell("RNN_RELU", input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


def nonzero_static(input: Any, *, size: Any, fill_value: Any = -1) -> Any:
    """Return the places of the first `size` elements that are not zero, in a tensor of `size` rows.

    Args:
        fill_value: what stands in the rows for which there is no element.
    """
    if size < 0:
        raise RuntimeError(f"nonzero_static: size must be an non-negative integer, got {size}")
    if input.is_meta:
        return input.new_empty((size, input.dim()), dtype=rushlight.int64)
    found = input.nonzero()[:size]
    rows = size - len(found)
    return rushlight.cat([found, found.new_full((rows, input.dim()), fill_value)])


def unsafe_split_with_sizes(input: Any, split_sizes: Any, dim: Any = 0) -> Any:
    """Return the parts as `split_with_sizes`."""
    return input.split_with_sizes(split_sizes, dim)


def slice_inverse(
    input: Any,
    src: Any,
    dim: Any = 0,
    start: Any = None,
    end: Any = None,
    step: Any = 1,
) -> Any:
    """Return the tensor of src's shape and strides of which `input` is this slice: a view of
    input's memory.
    """
    start = 0 if start is None else start
    start += src.size(dim) if start < 0 else 0
    offset = input.storage_offset() - start * src.stride(dim)
    del end, step  # what they say is in input's shape and strides
    return input.as_strided(src.shape, src.stride(), offset)


def dsmm(input: Any, mat2: Any) -> Any:
    """Return the product of two matrices, of which the first may be sparse; see `mm`."""
    return rushlight.mm(input, mat2)


def hsmm(mat1: Any, mat2: Any) -> Any:
    """Return the product of a sparse matrix and a dense one with sparse rows; see `hspmm`."""
    return rushlight.hspmm(mat1, mat2)


def saddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return beta * input + alpha * (mat1 @ mat2), mat1 being sparse; see `sspaddmm`."""
    return rushlight.sspaddmm(input, mat1, mat2, beta=beta, alpha=alpha)


def resize_as_sparse_(input: Any, the_template: Any) -> Any:
    """Give a sparse tensor the shape and the counts of dims of another."""
    return input.resize_as_sparse_(the_template)


def _shape_as_tensor(input: Any) -> Any:
    """Return the sizes as a tensor of int64."""
    return rushlight.tensor(input.shape, dtype=rushlight.int64)


def _assert_tensor_metadata(
    a: Any,
    size: Any = None,
    stride: Any = None,
    dtype: Any = None,
    *,
    device: Any = None,
    layout: Any = None,
) -> None:
    """Raise RuntimeError unless a tensor has these sizes, strides, dtype, device and layout."""
    found = {
        "sizes": (size and list(size), list(a.shape)),
        "strides": (stride and list(stride), None if stride is None else list(a.stride())),
        "dtype": (dtype, a.dtype),
        "device": (device and rushlight.device(device), a.device),
        "layout": (layout, a.layout),
    }
    for name, (expected, got) in found.items():
        if expected is not None and expected != got:
            raise RuntimeError(f"Tensor {name} mismatch! Expected: {expected}, Got: {got}")


def _convert_indices_from_coo_to_csr(input: Any, size: Any, *, out_int32: Any = False) -> Any:
    """Return where each row begins, given the sorted row of each element."""
    counts = rushlight.bincount(input, minlength=size)
    starts = rushlight.cat([counts.new_zeros(1), counts.cumsum(0)])
    return starts.to(rushlight.int32 if out_int32 else rushlight.int64)


def _convert_indices_from_csr_to_coo(
    crow_indices: Any,
    col_indices: Any,
    *,
    out_int32: Any = False,
    transpose: Any = False,
) -> Any:
    """Return the (2, number) indices of elements, given where each row begins."""
    lines = rushlight.arange(crow_indices.numel() - 1, device=crow_indices.device)
    rows = lines.repeat_interleave(crow_indices.diff())
    pair = (col_indices, rows) if transpose else (rows, col_indices)
    kind = rushlight.int32 if out_int32 else rushlight.int64
    return rushlight.stack([part.to(kind) for part in pair])


def _softmax_backward_data(grad_output: Any, output: Any, dim: Any, input_dtype: Any) -> Any:
    """Return the gradient of softmax by its input, given its output."""
    product = grad_output * output
    return (product - output * product.sum(dim, keepdim=True)).to(input_dtype)


def _log_softmax_backward_data(grad_output: Any, output: Any, dim: Any, input_dtype: Any) -> Any:
    """Return the gradient of log_softmax by its input, given its output."""
    return (grad_output - output.exp() * grad_output.sum(dim, keepdim=True)).to(input_dtype)


def init_num_threads() -> Any:
    """Does nothing: the number of threads is known from the start."""


def is_vulkan_available() -> Any:
    """Return False: no build has Vulkan."""
    return False


def while_loop(cond_fn: Any, body_fn: Any, carried_inputs: Any) -> Any:
    """Return what `carried_inputs` become by `body_fn` as long as `cond_fn` holds of them.

    Example:
        >>> i, x = rushlight.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2),
        ...                             (rushlight.tensor(0), rushlight.tensor(1.0)))
        >>> x
        tensor(8.)
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("while_loop: cond_fn and body_fn must be callable")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(
            f"while_loop: carried_inputs must be a tuple but is {type(carried_inputs).__name__}"
        )
    values = tuple(carried_inputs)
    while cond_fn(*values):
        values = body_fn(*values)
        values = tuple(values) if isinstance(values, (tuple, list)) else (values,)
    return values


take_numpy_names(
    globals(),
    """_assert_tensor_metadata
    _convert_indices_from_coo_to_csr _log_softmax_backward_data _shape_as_tensor
    _softmax_backward_data _weight_norm adaptive_max_pool1d alpha_dropout alpha_dropout_ batch_norm
    binary_cross_entropy_with_logits dsmm feature_alpha_dropout feature_alpha_dropout_
    feature_dropout_ frobenius_norm group_norm hinge_embedding_loss instance_norm kl_div layer_norm
    nonzero_static nuclear_norm poisson_nll_loss resize_as_sparse_ saddmm""",
)
rushlight.overrides._make_overridable(
    globals(), "rushlight",
    only="""embedding_bag feature_dropout gru gru_cell lstm lstm_cell nonzero_static norm_except_dim
    rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell rrelu slice_inverse
    unsafe_split_with_sizes""".split(),
)  # fmt: skip
# What calls one other function alone leaves it to that to be seen by modes, and computed.
rushlight.overrides._make_overridable(
    globals(), "rushlight", classes_alone=True,
    only="""adaptive_max_pool1d affine_grid_generator alpha_dropout alpha_dropout_ batch_norm
    binary_cross_entropy_with_logits cosine_embedding_loss ctc_loss dsmm feature_alpha_dropout
    feature_alpha_dropout_ feature_dropout_ frobenius_norm group_norm hinge_embedding_loss hsmm
    instance_norm kl_div layer_norm margin_ranking_loss nuclear_norm poisson_nll_loss saddmm
    triplet_margin_loss""".split(),
)  # fmt: skip
