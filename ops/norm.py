"""Normalisation."""
from ops.schema import FIXED_DIMS, composite, function, kernel

# The gradient by the input of y = centred * rstd, and y, with composed ops: statistics computed
# anew from the input, so that they are differentiated too. `dims` are those that they run over.
function("normalise_backward(grad: Tensor, input: Tensor, dims: list[int], centred: bool, "
         "eps: float) -> tuple[by_input, normalised]", """
    x = input - mean(input, dims, True) if centred else input
    rstd = rsqrt(mean(x * x, dims, True) + eps)
    y = x * rstd
    inner = grad - y * mean(grad * y, dims, True)
    return rstd * (inner - mean(grad, dims, True) if centred else inner), y
         """)
# Layer and RMS norm.
function("composed_row_norm(grad: Tensor, input: Tensor, size: list[int], weight: Tensor | None, "
         "centred: bool, eps: float, of_input: bool, of_weight: bool, of_bias: bool) "
         "-> tuple[a, b, c]", """
    by_bias = sum_to(grad, size) if of_bias else None
    if not of_input and not of_weight:
        return None, None, by_bias
    dims = last_dims(dim_of(input), length(size))
    by_input, y = normalise_backward(grad if weight is None else grad * weight, input, dims,
                                     centred, eps)
    return (by_input if of_input else None, sum_to(grad * y, size) if of_weight else None,
            by_bias)
         """)
function("composed_group_norm(grad: Tensor, input: Tensor, groups: int, weight: Tensor | None, "
         "eps: float, of_input: bool, of_weight: bool, of_bias: bool) -> tuple[a, b, c]", """
    others = other_dims(dim_of(input), 1)
    by_bias = sum(grad, others, False) if of_bias else None
    if not of_input and not of_weight:
        return None, None, by_bias
    weighted = grad if weight is None else grad * channel_shape(weight, dim_of(input))
    count = sizes(input)[0] * groups
    grouped = [sizes(input)[0], groups, numel(input) // count if count > 0 else 0]
    by_input, y = normalise_backward(reshape(weighted, grouped), reshape(input, grouped), [2],
                                     True, eps)
    by_weight = sum(grad * reshape(y, sizes(input)), others, False) if of_weight else None
    return reshape(by_input, sizes(input)) if of_input else None, by_weight, by_bias
         """)
function("composed_batch_norm(grad: Tensor, input: Tensor, weight: Tensor | None, mean: Tensor, "
         "invstd: Tensor, training: bool, eps: float, of_input: bool, of_weight: bool, "
         "of_bias: bool) -> tuple[a, b, c]", """
    dims = other_dims(dim_of(input), 1)
    by_bias = sum(grad, dims, False) if of_bias else None
    if not of_input and not of_weight:
        return None, None, by_bias
    weighted = grad if weight is None else grad * channel_shape(weight, dim_of(input))
    if training:
        by_input, y = normalise_backward(weighted, input, dims, True, eps)
        return (by_input if of_input else None,
                sum(grad * y, dims, False) if of_weight else None, by_bias)
    scale = channel_shape(invstd, dim_of(input))
    y = (input - channel_shape(mean, dim_of(input))) * scale
    return (weighted * scale if of_input else None,
            sum(grad * y, dims, False) if of_weight else None, by_bias)
         """)
function("channel_shape(t: Tensor, ndim: int)", "view(t, channel_sizes(ndim, numel(t)))")

_STATE = "running_mean: Tensor | None, running_var: Tensor | None"
# What is normalised and the affine parameters fit together.
function("check_trailing(op: name, input: Tensor, size: list[int], weight: Tensor | None, "
         "bias: Tensor | None) -> None", """
    check(not is_empty(size), op,
          ": Expected normalized_shape to be at least 1-dimensional, got ", size)
    check_norm_shape(op, "weight", weight, size)
    check_norm_shape(op, "bias", bias, size)
    check(ends_with(sizes(input), size), op, ": Given normalized_shape=", size,
          ", expected input with shape [*, ", size, "], but got input of size ", sizes(input))
         """)
function("check_norm_shape(op: name, what: name, t: Tensor | None, size: list[int]) -> None", """
    if t is not None:
        check(sizes(t) == size, op, ": Expected ", what,
              " to be of same shape as normalized_shape, but got ", what, " of shape ", sizes(t),
              " and normalized_shape = ", size)
         """)
function("check_channels(op: name, what: name, t: Tensor | None, channels: int) -> None", """
    if t is not None:
        check(dim_of(t) == 1 and numel(t) == channels, op, ": ", what, " should contain ",
              channels, " elements not ", sizes(t))
         """)
function("check_batch_norm(input: Tensor, running_mean: Tensor | None, "
         "running_var: Tensor | None, weight: Tensor | None, bias: Tensor | None, "
         "training: bool) -> None", """
    check(dim_of(input) >= 2,
          "batch_norm: expected input with at least 2 dims (N, C, *), got shape ", sizes(input))
    channels = sizes(input)[1]
    check_value(not training or numel(input) != channels or numel(input) == 0,
                "Expected more than 1 value per channel when training, got input size ",
                sizes(input))
    check(training or (running_mean is not None and running_var is not None),
          "batch_norm: Expected running_mean and running_var to be defined when training=False")
    check_channels("batch_norm", "running_mean", running_mean, channels)
    check_channels("batch_norm", "running_var", running_var, channels)
    check_channels("batch_norm", "weight", weight, channels)
    check_channels("batch_norm", "bias", bias, channels)
         """)
function("check_group_norm(input: Tensor, num_groups: int, weight: Tensor | None, "
         "bias: Tensor | None) -> None", """
    check(dim_of(input) >= 2,
          "group_norm: Expected at least 2 dimensions for input tensor but received ",
          dim_of(input))
    channels = sizes(input)[1]
    check(num_groups > 0, "group_norm: Expected num groups to be greater than 0, got ",
          num_groups)
    check(channels % num_groups == 0,
          "group_norm: Expected number of channels in input to be divisible by num_groups, but "
          "got input of shape ", sizes(input), " and num_groups=", num_groups)
    check_value(numel(input) != num_groups,
                "Expected more than 1 value per channel when training, got input size ",
                sizes(input), " for ", num_groups, " groups")
    check_channels("group_norm", "weight", weight, channels)
    check_channels("group_norm", "bias", bias, channels)
         """)
kernel(f"batch_norm_kernel(input: Tensor, weight: Tensor | None, bias: Tensor | None, {_STATE}, "
       f"training: bool, momentum: float, "
       "eps: float) -> tuple[output, mean, invstd]", node="NativeBatchNormBackward0", names=(),
       doc="Batch normalisation over dim 1, with what its gradient needs.",
       grad={"input, weight, bias": "batch_norm_gradients(grad, input, weight, mean, invstd, "
                                    "training, eps, wants(input), "
                                    "wants(weight), wants(bias))"})
_BATCH_NORM = f"input: Tensor, {_STATE}, weight: Tensor | None = None, bias: Tensor | None = None"
composite(f"batch_norm_of_any_eps({_BATCH_NORM}, training: bool = False, momentum: float = 0.1, "
          "eps: float = 1e-05)", """
    if dim_of(input) == 1 and numel(input) == 0:
        return clone(input)  # no channels, as in torch
    check_batch_norm(input, running_mean, running_var, weight, bias, training)
    return batch_norm_kernel(input, weight, bias, running_mean, running_var, training, momentum,
                             eps)[0]
          """, names=("nn.functional._batch_norm",),
          doc="Normalises each channel (dim 1) over all other dims, with any eps.",
          batch=FIXED_DIMS)
composite(f"batch_norm({_BATCH_NORM}, training: bool = False, momentum: float = 0.1, "
          "eps: float = 1e-05)", """
    check_value(not (eps < 0 or (eps == 0 and training)),
                "batch_norm eps must be positive during training, and not negative, but got ", eps)
    return batch_norm_of_any_eps(input, running_mean, running_var, weight, bias, training, momentum,
                                 eps)
          """, names=("nn.functional.batch_norm",),
          doc="Normalises each channel (dim 1) over all other dims.", batch="batch_norm")
kernel("layer_norm_kernel(input: Tensor, size: list[int], weight: Tensor | None, bias: Tensor | "
       "None, eps: float) "
       "-> tuple[output, mean, rstd]", node="NativeLayerNormBackward0", names=(),
       guard='check_floating("layer_norm", input)',
       shape="each(dense(input), of_rows(input, size), of_rows(input, size))",
       launch="layer_norm(ops::contiguous(input), ordered(weight), ordered(bias), eps, output, "
              "mean, rstd)",
       doc="Layer normalisation, with what its gradient needs.",
       grad={"input, weight, bias": "layer_norm_gradients(grad, input, size, mean, rstd, weight, "
                                    "eps, wants(input), wants(weight), wants(bias))"})
composite("layer_norm(input: Tensor, normalized_shape: list[int], weight: Tensor | None = None, "
          "bias: Tensor | None = None, "
          "eps: float = 1e-05)", """
    check_trailing("layer_norm", input, normalized_shape, weight, bias)
    return layer_norm_kernel(input, normalized_shape, weight, bias, eps)[0]
          """, names=("nn.functional.layer_norm",),
          doc="Normalises over the last dims.",
          batch="layer_norm")
kernel("rms_norm_kernel(input: Tensor, size: list[int], weight: Tensor | None, eps: float) -> "
       "tuple[output, rstd]", names=(), node="MulBackward0",
       doc="Root-mean-square normalisation, with what its gradient needs.",
       grad={"input, weight": "rms_norm_gradients(grad, input, size, rstd, weight, eps, "
                              "wants(input), wants(weight))"})
composite("rms_norm(input: Tensor, normalized_shape: list[int], weight: Tensor | None = None, eps: "
          "float | None = None)", """
    check_trailing("rms_norm", input, normalized_shape, weight, no_tensor)
    if is_complex(input):
        squares = mean(square(abs(input)), last_dims(dim_of(input), length(normalized_shape)), True)
        scaled = input * rsqrt(squares + value_or(eps, 1e-7))
        return scaled if weight is None else scaled * weight
    return rms_norm_kernel(input, normalized_shape, weight, value_or(eps, epsilon(dtype(input))))[0]
          """,
          names=("nn.functional.rms_norm", "torch.rms_norm"),
          doc="Divides by the root of the mean square over the last dims.",
          batch="rms_norm")
kernel("group_norm_kernel(input: Tensor, num_groups: int, weight: Tensor | None, bias: Tensor | "
       "None, eps: float) "
       "-> tuple[output, mean, rstd]", node="NativeGroupNormBackward0", names=(),
       doc="Group normalisation, with what its gradient needs.",
       grad={"input, weight, bias": "group_norm_gradients(grad, input, num_groups, mean, rstd, "
                                    "weight, eps, wants(input), wants(weight), wants(bias))"})
composite("group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | "
          "None = None, eps: float = 1e-05)", """
    check_group_norm(input, num_groups, weight, bias)
    return group_norm_kernel(input, num_groups, weight, bias, eps)[0]
          """,
          names=("nn.functional.group_norm",),
          doc="Normalises each group of channels of each sample.",
          batch="scaled_group_norm")
