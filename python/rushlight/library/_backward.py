"""The gradients of operations as functions of their own, which torch has in `torch.ops.aten`:
`sigmoid_backward(grad_output, output)` and their kin, with torch's names and order of arguments.

Most ask the engine for the gradient of the operation that they belong to, and so can be
differentiated as often as that.
"""

from __future__ import annotations

import rushlight
from rushlight import Tensor, autograd
from rushlight._lower_functions import _reduction
from rushlight.nn import functional as F
from rushlight.nn._channels_last import in_format_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _gradients(
    function: Callable[..., Tensor], grad: Tensor, *inputs: Tensor
) -> tuple[Tensor, ...]:
    """The gradients of `function(*inputs)` by each of the inputs, weighted by `grad`."""
    recorded = rushlight._C._records() and any(t.requires_grad for t in (grad, *inputs))
    with rushlight.enable_grad():
        own = [t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in inputs]
        result = function(*own)
    return autograd.grad(
        result, own, grad, create_graph=recorded, allow_unused=True, materialize_grads=True
    )


def _gradient(function: Callable[..., Tensor], grad: Tensor, input: Tensor) -> Tensor:
    return _gradients(function, grad, input)[0]


def _masked(
    function: Callable[..., Tensor],
    grad: Tensor,
    inputs: Sequence[Tensor | None],
    mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """The gradients by those inputs that the mask names and that there are, None for the others."""
    places = [i for i, wanted in enumerate(mask) if wanted and inputs[i] is not None]

    def of_those(*given):
        values = list(inputs)
        for i, value in zip(places, given):
            values[i] = value
        return function(*values)

    found = iter(_gradients(of_those, grad, *[inputs[i] for i in places]))
    return tuple(next(found) if i in places else None for i in range(len(inputs)))


def _zeros_like(grad, sizes):
    return grad.new_zeros(tuple(sizes))


def _like(grad, sizes, function):
    """The gradient of a function that is linear, of an input of these sizes."""
    return _gradient(function, grad, _zeros_like(grad, sizes))


def _loss(function, **fixed):
    """Of a loss: (grad_output, self, target, reduction, ...)."""

    def backward(grad_output, self, target, reduction=1):
        name = _reduction(reduction)
        return _gradient(lambda x: function(x, target, reduction=name, **fixed), grad_output, self)

    return backward


def _pad(mode):
    return lambda grad_output, self, padding: _gradient(
        lambda x: F.pad(x, tuple(padding), mode), grad_output, self
    )


def _upsample(mode, corners):
    def resize(grad_output, output_size, input_size, align_corners, scales):
        return _like(
            grad_output,
            input_size,
            lambda x: _lower_upsample(mode, corners)(x, output_size, align_corners, scales),
        )

    if corners:
        return lambda grad_output, output_size, input_size, align_corners, *scales: resize(
            grad_output, output_size, input_size, align_corners, scales
        )
    return lambda grad_output, output_size, input_size, *scales: resize(
        grad_output, output_size, input_size, None, scales
    )


def _lower_upsample(mode, corners):
    def forward(x, output_size, align_corners, scales):
        if any(scale is not None for scale in scales):
            scaled = F.interpolate(x, scale_factor=tuple(scales), mode=mode,
                                   align_corners=align_corners)  # fmt: skip
            if tuple(scaled.shape[2:]) == tuple(output_size):
                return scaled
        return F.interpolate(x, tuple(output_size), mode=mode, align_corners=align_corners)

    return forward


def _pool(function):
    return lambda grad_output, self, *options: _gradient(
        lambda x: function(x, *options), grad_output, self
    )


def _max_pool2d_backward(
    grad_output, self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False
):
    return _gradient(
        lambda x: F.max_pool2d(x, kernel_size, stride or None, padding, dilation, ceil_mode),
        grad_output,
        self,
    )


def _at_places(dims):
    """Of pooling that has told where its maxima are: adds the gradients there."""

    def backward(grad_output, self, *sizes_and_indices, indices=None):
        indices = sizes_and_indices[-1] if indices is None else indices
        flat = rushlight.zeros_like(self).flatten(-dims)
        added = flat.scatter_add(-1, indices.flatten(-dims), grad_output.flatten(-dims))
        return in_format_of(self, added.view_as(self))

    return backward


def _elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result):
    negative = input_scale * alpha * scale
    if is_result:
        below = input_scale * (self_or_result + alpha * scale)
    else:
        below = negative * (self_or_result * input_scale).exp()
    return rushlight.where(self_or_result <= 0, grad_output * below, grad_output * scale)


def _rrelu_backward(grad_output, self, noise, lower, upper, training, self_is_result):
    if training and upper - lower > 1e-6:
        return grad_output * noise
    slope = (lower + upper) / 2
    return grad_output * rushlight.where(self > 0, 1.0, slope)


def _convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation,
                          transposed, output_padding, groups, output_mask):  # fmt: skip
    bias = None if bias_sizes is None else weight.new_zeros(tuple(bias_sizes))
    wanted = [*output_mask]
    if bias is None and wanted[2]:
        bias = weight.new_zeros(weight.shape[1] * groups if transposed else weight.shape[0])

    def forward(x, w, b):
        return rushlight.convolution(
            x, w, b, stride, padding, dilation, transposed, output_padding, groups
        )

    return _masked(forward, grad_output, (input, weight, bias), wanted)


def _linear_backward(self, grad_output, weight, output_mask):
    bias = weight.new_zeros(weight.shape[0])
    return _masked(F.linear, grad_output, (self, weight, bias), output_mask)


def _norm_backward(forward, grad_out, input, weight, bias_like, mask):
    bias = None if bias_like is None else rushlight.zeros_like(bias_like)
    return _masked(forward, grad_out, (input, weight, bias), mask)


def _layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias,
                         output_mask):  # fmt: skip
    # The epsilon that the forward pass took, of 1 / sqrt(variance + epsilon).
    dims = tuple(range(-len(normalized_shape), 0))
    variance = input.detach().var(dims, correction=0, keepdim=True)
    eps = float((rstd.detach().reshape_as(variance) ** -2 - variance).clamp(min=0).mean())

    def forward(x, w, b):
        return F.layer_norm(x, tuple(normalized_shape), w, b, eps)

    return _norm_backward(forward, grad_out, input, weight, bias, output_mask)


def _batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean,
                         save_invstd, train, eps, output_mask):  # fmt: skip
    scale = input.new_ones(input.shape[1]) if weight is None else weight

    def forward(x, w, b):
        mean, var = (None, None) if train else (running_mean, running_var)
        return F.batch_norm(x, mean, var, w, b, bool(train), 0.0, eps)

    found = _norm_backward(forward, grad_out, input, scale, scale, output_mask)
    return found if weight is not None else (found[0], None, found[2])


def _grid_sampler_backward(grad_output, input, grid, interpolation_mode, padding_mode,
                           align_corners, output_mask):  # fmt: skip
    mode = ("bilinear", "nearest", "bicubic")[interpolation_mode]
    padding = ("zeros", "border", "reflection")[padding_mode]

    def forward(x, g):
        return F.grid_sample(x, g, mode, padding, align_corners)

    return _masked(forward, grad_output, (input, grid), output_mask)


def _embedding_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq, sparse=False):
    weight = grad.new_zeros((num_weights, grad.shape[-1]))
    padding = padding_idx if padding_idx >= 0 else None
    return _gradient(
        lambda w: F.embedding(indices, w, padding, scale_grad_by_freq=scale_grad_by_freq,
                              sparse=sparse), grad, weight)  # fmt: skip


def _nll_loss_backward(grad_output, self, target, weight, reduction, ignore_index, total_weight):
    return _gradient(
        lambda x: F.nll_loss(
            x, target, weight, ignore_index=ignore_index, reduction=_reduction(reduction)
        ),
        grad_output,
        self,
    )


def _cumulative_extreme_backward(grad, input, indices, dim):
    return rushlight.zeros_like(input).scatter_add(dim, indices, grad)


def _selected_backward(grad, dim, indices, sizes, keepdim):
    if not keepdim and sizes:
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return _zeros_like(grad, sizes).scatter_add(dim, indices, grad)


def _sliced(grad_output, input_sizes, dim, start, end, step):
    at = (*(slice(None),) * (dim % len(input_sizes)), slice(start, end, step))
    return _like(grad_output, input_sizes, lambda x: x[at])


FUNCTIONS = {
    "adaptive_avg_pool3d_backward": lambda grad_output, self: _gradient(
        lambda x: F.adaptive_avg_pool3d(x, grad_output.shape[-3:]), grad_output, self
    ),
    "adaptive_max_pool2d_backward": _at_places(2),
    "adaptive_max_pool3d_backward": _at_places(3),
    "affine_grid_generator_backward": lambda grad, size, align_corners: _like(
        grad,
        (size[0], len(size) - 2, len(size) - 1),
        lambda theta: F.affine_grid(theta, tuple(size), align_corners=align_corners),
    ),
    "avg_pool2d_backward": _pool(F.avg_pool2d),
    "avg_pool3d_backward": _pool(F.avg_pool3d),
    "binary_cross_entropy_backward": lambda grad_output, self, target, weight=None, reduction=1: (
        _loss(F.binary_cross_entropy, weight=weight)(grad_output, self, target, reduction)
    ),
    "convolution_backward": _convolution_backward,
    "cummaxmin_backward": _cumulative_extreme_backward,
    "cumprod_backward": lambda grad, input, dim, output: _gradient(
        lambda x: x.cumprod(dim), grad, input
    ),
    "diagonal_backward": lambda grad_output, input_sizes, offset, dim1, dim2: _like(
        grad_output, input_sizes, lambda x: x.diagonal(offset, dim1, dim2)
    ),
    "elu_backward": _elu_backward,
    "embedding_backward": _embedding_backward,
    "embedding_dense_backward": _embedding_backward,
    "embedding_sparse_backward": lambda grad, indices, num_weights, padding_idx, by_freq: (
        _embedding_backward(grad, indices, num_weights, padding_idx, by_freq, sparse=True)
    ),
    "fractional_max_pool2d_backward": _at_places(2),
    "fractional_max_pool3d_backward": _at_places(3),
    "gather_backward": lambda grad, self, dim, index, sparse_grad: _gradient(
        lambda x: x.gather(dim, index, sparse_grad=sparse_grad), grad, self
    ),
    "gelu_backward": lambda grad_output, self, *, approximate="none": _gradient(
        lambda x: F.gelu(x, approximate=approximate), grad_output, self
    ),
    "glu_backward": lambda grad_output, self, dim: _gradient(
        lambda x: F.glu(x, dim), grad_output, self
    ),
    "grid_sampler_2d_backward": _grid_sampler_backward,
    "grid_sampler_3d_backward": _grid_sampler_backward,
    "hardshrink_backward": lambda grad_out, self, lambd: _gradient(
        lambda x: F.hardshrink(x, lambd), grad_out, self
    ),
    "hardsigmoid_backward": lambda grad_output, self: _gradient(F.hardsigmoid, grad_output, self),
    "hardswish_backward": lambda grad_output, self: _gradient(F.hardswish, grad_output, self),
    "hardtanh_backward": lambda grad_output, self, min_val, max_val: _gradient(
        lambda x: F.hardtanh(x, min_val, max_val), grad_output, self
    ),
    "huber_loss_backward": lambda grad_output, self, target, reduction, delta: _loss(
        F.huber_loss, delta=delta
    )(grad_output, self, target, reduction),
    "index_select_backward": lambda grad, self_sizes, dim, index: _like(
        grad, self_sizes, lambda x: x.index_select(dim, index)
    ),
    "infinitely_differentiable_gelu_backward": lambda grad, self: _gradient(F.gelu, grad, self),
    "leaky_relu_backward": lambda grad_output, self, negative_slope, self_is_result: (
        grad_output * rushlight.where(self > 0, 1.0, negative_slope)
    ),
    "linear_backward": _linear_backward,
    "log_sigmoid_backward": lambda grad_output, self, buffer: _gradient(
        F.logsigmoid, grad_output, self
    ),
    "logit_backward": lambda grad_output, self, eps=None: _gradient(
        lambda x: rushlight.logit(x, eps), grad_output, self
    ),
    "masked_select_backward": lambda grad, input, mask: _gradient(
        lambda x: x.masked_select(mask), grad, input
    ),
    "matmul_backward": lambda grad, self, other, mask: _masked(
        rushlight.matmul, grad, (self, other), mask
    ),
    "matrix_exp_backward": lambda self, grad: _gradient(rushlight.matrix_exp, grad, self),
    "max_pool2d_backward": _max_pool2d_backward,
    "max_pool2d_with_indices_backward": _at_places(2),
    "max_pool3d_with_indices_backward": _at_places(3),
    "mish_backward": lambda grad_output, self: _gradient(F.mish, grad_output, self),
    "mse_loss_backward": _loss(F.mse_loss),
    "multi_margin_loss_backward": (
        lambda grad_output, self, target, p, margin, weight=None, reduction=1: _loss(
            F.multi_margin_loss, p=p, margin=margin, weight=weight
        )(grad_output, self, target, reduction)
    ),
    "multilabel_margin_loss_backward": lambda grad_output, self, target, reduction, is_target: (
        _loss(F.multilabel_margin_loss)(grad_output, self, target, reduction)
    ),
    "native_batch_norm_backward": _batch_norm_backward,
    "native_dropout_backward": lambda grad_output, mask, scale: grad_output * mask * scale,
    "native_layer_norm_backward": _layer_norm_backward,
    "nll_loss2d_backward": _nll_loss_backward,
    "nll_loss_backward": _nll_loss_backward,
    "reflection_pad1d_backward": _pad("reflect"),
    "reflection_pad2d_backward": _pad("reflect"),
    "reflection_pad3d_backward": _pad("reflect"),
    "replication_pad1d_backward": _pad("replicate"),
    "replication_pad2d_backward": _pad("replicate"),
    "replication_pad3d_backward": _pad("replicate"),
    "rrelu_with_noise_backward": _rrelu_backward,
    "select_backward": lambda grad_output, input_sizes, dim, index: _like(
        grad_output, input_sizes, lambda x: x.select(dim, index)
    ),
    "sigmoid_backward": lambda grad_output, output: grad_output * (output * (1 - output)).conj(),
    "silu_backward": lambda grad_output, self: _gradient(F.silu, grad_output, self),
    "slice_backward": _sliced,
    "smooth_l1_loss_backward": lambda grad_output, self, target, reduction, beta: _loss(
        F.smooth_l1_loss, beta=beta
    )(grad_output, self, target, reduction),
    "soft_margin_loss_backward": _loss(F.soft_margin_loss),
    "softplus_backward": lambda grad_output, self, beta, threshold: _gradient(
        lambda x: F.softplus(x, beta, threshold), grad_output, self
    ),
    "softshrink_backward": lambda grad_output, self, lambd: _gradient(
        lambda x: F.softshrink(x, lambd), grad_output, self
    ),
    "tanh_backward": lambda grad_output, output: grad_output * (1 - output * output).conj(),
    "threshold_backward": lambda grad_output, self, threshold: rushlight.where(
        self <= threshold,
        0.0,
        grad_output,  # where self is NaN, the gradient passes
    ),
    "trace_backward": lambda grad, sizes: _like(grad, sizes, rushlight.trace),
    "unfold_backward": lambda grad_in, input_sizes, dim, size, step: _like(
        grad_in, input_sizes, lambda x: x.unfold(dim, size, step)
    ),
    "upsample_bicubic2d_backward": _upsample("bicubic", True),
    "upsample_bilinear2d_backward": _upsample("bilinear", True),
    "upsample_linear1d_backward": _upsample("linear", True),
    "upsample_nearest1d_backward": _upsample("nearest", False),
    "upsample_nearest2d_backward": _upsample("nearest", False),
    "upsample_nearest3d_backward": _upsample("nearest", False),
    "upsample_trilinear3d_backward": _upsample("trilinear", True),
    "value_selecting_reduction_backward": _selected_backward,
}
