"""Normalisation."""
from ops.schema import FIXED_DIMS, composite, kernel

_STATE = "running_mean: Tensor | None, running_var: Tensor | None"
kernel(f"batch_norm_kernel(input: Tensor, weight: Tensor | None, bias: Tensor | None, {_STATE}, "
       f"training: bool, momentum: float, "
       "eps: float) -> tuple[output, mean, invstd]", node="NativeBatchNormBackward0", names=(),
       doc="Batch normalisation over dim 1, with what its gradient needs.",
       grad={"input, weight, bias": "batch_norm_gradients(grad, input, weight, mean, invstd, "
                                    "training, eps, wants(input), "
                                    "wants(weight), wants(bias))"})
composite(f"batch_norm(input: Tensor, {_STATE}, weight: Tensor | None = None, bias: Tensor | None "
          f"= None, training: bool = False, "
          "momentum: float = 0.1, eps: float = 1e-05)", """
    if dim_of(input) == 1 and numel(input) == 0:
        return clone(input)  # no channels, as in torch
    check_batch_norm(input, running_mean, running_var, weight, bias, training)
    return batch_norm_kernel(input, weight, bias, running_mean, running_var, training, momentum,
                             eps)[0]
          """, names=("nn.functional.batch_norm",),
          doc="Normalises each channel (dim 1) over all other dims.", batch=FIXED_DIMS)
kernel("layer_norm_kernel(input: Tensor, size: list[int], weight: Tensor | None, bias: Tensor | "
       "None, eps: float) "
       "-> tuple[output, mean, rstd]", node="NativeLayerNormBackward0", names=(),
       doc="Layer normalisation, with what its gradient needs.",
       grad={"input, weight, bias": "layer_norm_gradients(grad, input, size, mean, rstd, weight, "
                                    "eps, wants(input), wants(weight), wants(bias))"})
composite("layer_norm(input: Tensor, normalized_shape: list[int], weight: Tensor | None = None, "
          "bias: Tensor | None = None, "
          "eps: float = 1e-05)", """
    check_trailing("layer_norm", input, normalized_shape, weight, bias)
    return layer_norm_kernel(input, normalized_shape, weight, bias, eps)[0]
          """, names=("nn.functional.layer_norm", "torch.layer_norm"),
          doc="Normalises over the last dims.",
          batch="leading")
kernel("rms_norm_kernel(input: Tensor, size: list[int], weight: Tensor | None, eps: float) -> "
       "tuple[output, rstd]", names=(), node="FusedRmsNormBackward0",
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
          batch="leading")
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
          names=("nn.functional.group_norm", "torch.group_norm"),
          doc="Normalises each group of channels of each sample.",
          batch="group_norm")
