"""Elements around an image, and images as columns of blocks."""
from ops.schema import FIXED_DIMS, composite, kernel

composite("pad(input: Tensor, pad: list[int], mode: str = 'constant', value: float | None = None)",
          r"""
    check(length(pad) % 2 == 0, "pad: Padding length must be divisible by 2, got ", length(pad))
    check(length(pad) <= 2 * dim_of(input),
          "pad: Padding length should be less than or equal to two times the input dimension but "
          "got padding length ", length(pad), " and input of dimension ", dim_of(input))
    if mode == "constant":
        return constant_pad_nd(input, pad, value_or(value, 0))
    check(value is None or given(value) == 0, 'pad: Padding mode "', mode,
          "\" doesn't take in value argument")
    check_padded(input, mode, pad)
    return pad_kernel(input, pad, mode)
          """,
          names=("nn.functional.pad",),
          doc="Adds elements around: pad lists (before, after) from the last dim on; mode "
              "constant, reflect, replicate or circular.",
          batch="pad", autocast="float32_unless_constant")
kernel("pad_kernel(input: Tensor, pad: list[int], mode: str)", names=(),
       node="{padding_name(mode)}Pad{pad.size() / 2}DBackward0",
       doc="Adds elements of the input around it.",
       grad={"input": "pad_backward(grad, sizes(input), pad, mode)"})
kernel("pad_backward(grad_output: Tensor, size: list[int], pad: list[int], mode: str)", names=(),
       doc="Sums what padding showed of each element.",
       grad={"grad_output": "pad_kernel(grad, pad, mode)"}, batch="spread_merged")

_BLOCKS = ("kernel_size: list[int, 2], dilation: list[int, 2], padding: list[int, 2], "
           "stride: list[int, 2]")
kernel(f"unfold_kernel(input: Tensor, {_BLOCKS})", node="Im2ColBackward0", names=(),
       doc="Blocks of (N, C, H, W) as columns.",
       grad={"input": "fold_kernel(grad, spatial_of(sizes(input)), kernel_size, dilation, padding, "
                      "stride)"}, batch="spread_merged")
kernel(f"fold_kernel(input: Tensor, output_size: list[int], {_BLOCKS})", node="Col2ImBackward0",
       names=(), doc="Sums columns back into blocks of (N, C, H, W).",
       grad={"input": "unfold_kernel(grad, kernel_size, dilation, padding, stride)"},
       batch="spread_merged")
_BLOCKS = "dilation: list[int, 2] = 1, padding: list[int, 2] = 0, stride: list[int, 2] = 1"
composite(f"functional_unfold(input: Tensor, kernel_size: list[int, 2], {_BLOCKS})", """
    check_image_blocks(input, kernel_size, dilation, padding, stride)
    if dim_of(input) == 4:
        return unfold_kernel(input, kernel_size, dilation, padding, stride)
    columns = unfold_kernel(unsqueeze(input, 0), kernel_size, dilation, padding, stride)
    return without_base(squeeze(columns, [0]))
          """,
          names=("nn.functional.unfold",),
          doc="Blocks of images (N, C, H, W) as columns (N, C * block, blocks).", batch=FIXED_DIMS)
composite(f"fold(input: Tensor, output_size: list[int, 2], kernel_size: list[int, 2], {_BLOCKS})",
          """
    check_columns(input, output_size, kernel_size, dilation, padding, stride)
    if dim_of(input) == 3:
        return fold_kernel(input, output_size, kernel_size, dilation, padding, stride)
    image = fold_kernel(unsqueeze(input, 0), output_size, kernel_size, dilation, padding, stride)
    return without_base(squeeze(image, [0]))
          """,
          names=("nn.functional.fold",),
          doc="Sums columns (N, C * block, blocks) back into images of output_size.",
          batch=FIXED_DIMS)
