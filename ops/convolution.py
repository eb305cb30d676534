"""Convolutions. Each gradient of one is one of the three kernels again, so all orders follow."""
from ops.schema import composite, function, kernel

_GEOMETRY = ("stride: list[int], padding: list[int], dilation: list[int], transposed: bool, "
             "output_padding: list[int], groups: int")
_G = "stride, padding, dilation, transposed, output_padding, groups"

function("convolution_bias(grad: Tensor)", "sum(grad, other_dims(dim_of(grad), 1), False)")
kernel(f"convolution(input: Tensor, weight: Tensor, bias: Tensor | None, {_GEOMETRY})",
       names=("torch.convolution",),
       doc="Convolution of (N, C, *) with (O, C / groups, *) over 1 to 3 dims, or its transpose.",
       grad={"input": f"convolution_input(grad, conj(weight), sizes(input), {_G})",
             "weight": f"convolution_weight(grad, conj(input), sizes(weight), {_G})",
             "bias": "convolution_bias(grad)"},
       batch="spread_images")
kernel(f"convolution_input(grad_output: Tensor, weight: Tensor, size: list[int], {_GEOMETRY})",
       names=(),
       doc="Gradient of a convolution by its input.",
       grad={"grad_output": f"convolution(grad, conj(weight), None, {_G})",
             "weight": f"convolution_weight(conj(grad_output), grad, sizes(weight), {_G})"},
       batch="spread_images")
kernel(f"convolution_weight(grad_output: Tensor, input: Tensor, size: list[int], {_GEOMETRY})",
       names=(),
       doc="Gradient of a convolution by its weight.",
       grad={"grad_output": f"convolution(conj(input), grad, None, {_G})",
             "input": f"convolution_input(conj(grad_output), grad, sizes(input), {_G})"},
       batch="spread_channels")

for _d in (1, 2, 3):
    composite(f"conv{_d}d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: "
              f"list[int, {_d}] = 1, "
              f"padding: list[int, {_d}] = 0, dilation: list[int, {_d}] = 1, groups: int = 1)",
              f"convolve({_d}, input, weight, bias, stride, padding, dilation, groups)",
              names=(f"nn.functional.conv{_d}d", f"torch.conv{_d}d"),
              doc=f"{_d}-D convolution of (N, C, *) or (C, *) with (O, C / groups, *).",
              batch=f"convolution_{_d}d", autocast="lower_precision")
    composite(f"conv{_d}d__named(input: Tensor, weight: Tensor, bias: Tensor | None = None, "
              f"stride: list[int, {_d}] = 1, "
              f"padding: str = 'valid', dilation: list[int, {_d}] = 1, groups: int = 1)",
              f"convolve_named({_d}, input, weight, bias, stride, padding, dilation, groups)",
              names=(f"nn.functional.conv{_d}d", f"torch.conv{_d}d"),
              doc=f"{_d}-D convolution with padding 'valid' or 'same'.",
              batch=f"convolution_{_d}d", autocast="lower_precision")
    composite(f"conv_transpose{_d}d(input: Tensor, weight: Tensor, bias: Tensor | None = None, "
              f"stride: list[int, {_d}] = 1, "
              f"padding: list[int, {_d}] = 0, output_padding: list[int, {_d}] = 0, groups: int = "
              f"1, dilation: list[int, {_d}] = 1)",
              f"convolve_transposed({_d}, input, weight, bias, stride, padding, output_padding, "
              f"groups, dilation)",
              names=(f"nn.functional.conv_transpose{_d}d", f"torch.conv_transpose{_d}d"),
              doc=f"Transposed {_d}-D convolution of (N, C, *) or (C, *) with (C, O / groups, *).",
              batch=f"spatial_{_d}d", autocast="lower_precision")
