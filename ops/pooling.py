"""Pooling."""
from ops.schema import composite, kernel

_MAX = ("kernel_size: list[int], stride: list[int], padding: list[int], dilation: list[int], "
        "ceil_mode: bool")
kernel(f"max_pool_kernel(input: Tensor, {_MAX}) -> tuple[values, indices]", names=(),
       node="MaxPool{kernel_size.size() > 2 ? 3 : 2}DWithIndicesBackward0",
       doc="Largest element of each window over the last len(kernel_size) dims, and its place in "
           "its plane.",
       grad={"input": "max_pool_gradient(grad, indices, sizes(input), length(kernel_size))"})
kernel(f"max_pool_values(input: Tensor, {_MAX})", names=(), called="max_pool",
       doc="Largest element of each window over the last len(kernel_size) dims.",
       grad="max_pool_kernel has it")
kernel("max_pool_gradient(grad_output: Tensor, indices: Tensor, size: list[int], ndim: int)",
       names=(),
       doc="Adds each gradient at its place.",
       grad={"grad_output": "gather_planes(grad, indices, ndim)"}, batch="spread_merged")
kernel("max_unpool_kernel(input: Tensor, indices: Tensor, size: list[int], ndim: int)",
       names=("nn.functional._max_unpool",), node="MaxUnpool{ndim}DBackward0",
       doc="Zeros, with each element at its place.",
       grad={"input": "gather_planes(grad, indices, ndim)"})
_AVG = ("kernel_size: list[int], stride: list[int], padding: list[int], ceil_mode: bool, "
        "count_include_pad: bool, "
        "divisor_override: int")
_A = "kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override"
kernel(f"avg_pool_kernel(input: Tensor, {_AVG})", names=(), doc="Mean of each window.",
       node="AvgPool{kernel_size.size() > 2 ? 3 : 2}DBackward0",
       grad={"input": f"avg_pool_gradient(grad, sizes(input), {_A})"})
kernel(f"avg_pool_gradient(grad_output: Tensor, size: list[int], {_AVG})", names=(),
       doc="Spreads each gradient over its window.",
       grad={"grad_output": f"avg_pool_kernel(grad, {_A})"}, batch="spread_merged")
kernel("adaptive_avg_pool_kernel(input: Tensor, output_size: list[int])",
       names=("nn.functional._adaptive_avg_pool",), doc="Mean of output_size windows.",
       node="AdaptiveAvgPool{output_size.size() > 2 ? 3 : 2}DBackward0",
       grad={"input": "adaptive_avg_pool_gradient(grad, sizes(input), output_size, "
                      "has_physical_layout(input))"},
       batch="to_size")
kernel("adaptive_avg_pool_gradient(grad_output: Tensor, size: list[int], output_size: list[int], "
       "hidden: bool)", names=(),
       doc="Spreads each gradient over its window.",
       grad={"grad_output": "adaptive_avg_pool_kernel(grad, output_size)"}, batch="spread_merged")
kernel("adaptive_max_pool_kernel(input: Tensor, output_size: list[int]) -> tuple[values, indices]",
       names=("nn.functional._adaptive_max_pool",),
       node="AdaptiveMaxPool{output_size.size() > 2 ? 3 : 2}DBackward0",
       doc="Largest element of output_size windows, and its place in its plane.",
       grad={"input": "max_pool_gradient(grad, indices, sizes(input), length(output_size))"},
       batch="to_size")

for _d in (1, 2, 3):
    _n = f"list[int, {_d}]"
    _rules = {"batch": f"spatial_{_d}d", "autocast": "float32" if _d == 3 else None}
    _arguments = (f"input: Tensor, kernel_size: {_n}, stride: {_n} | None = None, padding: {_n} = "
                  f"0, dilation: {_n} = 1, "
                  "ceil_mode: bool = False")
    composite(f"max_pool{_d}d_with_indices({_arguments}) -> tuple[values, indices]",
              "max_pool_kernel(input, kernel_size, or_else(stride, kernel_size), padding, "
              "dilation, ceil_mode)",
              names=(f"torch.max_pool{_d}d_with_indices",
                     f"nn.functional._max_pool{_d}d_with_indices"), named=False,
              doc=f"Largest element of each {_d}-D window, and its place in its plane.", **_rules)
    composite(f"max_pool{_d}d({_arguments})",
              f"""
    if is_recorded(input):
        return first(max_pool{_d}d_with_indices(input, kernel_size, stride, padding, dilation,
                                                ceil_mode))
    values = max_pool_values(input, kernel_size, or_else(stride, kernel_size), padding, dilation,
                             ceil_mode)
    return {"contiguous(values)" if _d == 1 else "values"}
              """,
              names=(f"torch.max_pool{_d}d", f"nn.functional._max_pool{_d}d"),
              doc=f"Largest element of each {_d}-D window.", **_rules)
    composite(f"avg_pool{_d}d(input: Tensor, kernel_size: {_n}, stride: {_n} | None = None, "
              f"padding: {_n} = 0, ceil_mode: bool = False, "
              "count_include_pad: bool = True"
              + ", divisor_override: int | None = None" * (_d > 1) + ")",
              "avg_pool_kernel(input, kernel_size, or_else(stride, kernel_size), padding, "
              "ceil_mode, count_include_pad, "
              + ("checked_divisor(divisor_override)" if _d > 1 else "0") + ")",
              names=(f"nn.functional.avg_pool{_d}d",
                     "torch.avg_pool1d") if _d == 1 else (f"nn.functional.avg_pool{_d}d",),
              doc=f"Mean of each {_d}-D window.", out=_d > 1, **_rules)
