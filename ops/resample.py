"""Images of another size."""
from ops.schema import FIXED_DIMS, kernel

for _name, _factor, _inverse, _sizes, _doc in (
    ("pixel_shuffle", "upscale_factor", "pixel_unshuffle", ("2, 8, 3, 2", "4, 1, 2"),
     "(*, C r^2, H, W) to (*, C, H r, W r), r the upscale_factor: the channels of a pixel become a "
     "block of pixels."),
    ("pixel_unshuffle", "downscale_factor", "pixel_shuffle", ("2, 2, 4, 6", "1, 2, 4"),
     "(*, C, H r, W r) to (*, C r^2, H, W), r the downscale_factor: undoes pixel_shuffle."),
):
    kernel(f"{_name}(input: Tensor, {_factor}: int)",
           names=(f"torch.{_name}", f"nn.functional.{_name}"), doc=_doc,
           grad={"input": f"{_inverse}(grad, {_factor})"}, batch="leading",
           samples=tuple(f"x({sizes}), 2" for sizes in _sizes))
kernel("channel_shuffle(input: Tensor, groups: int)",
       names=tuple(f"{module}.{prefix}channel_shuffle" for module in ("torch", "nn.functional")
                   for prefix in ("", "native_")),
       doc="Interleaves groups of channels: of (N, C, *), channel g C / groups + i becomes "
           "i groups + g.",
       grad={"input": "channel_unshuffle(grad, groups)"}, batch=FIXED_DIMS,
       samples=("x(2, 6, 2), 3", "x(1, 4, 2, 3), 2"))

_HOW = "mode: str, align_corners: bool, antialias: bool, scales: list[float]"
_PASS = "mode, align_corners, antialias, scales"
kernel(f"interpolate_kernel(input: Tensor, size: list[int], {_HOW})",
       names=("nn.functional._interpolate",),
       node='Upsample{camel_case(mode)}{input_sizes.size() - 2}D{antialias ? "Aa" : ""}Backward0',
       doc="Resamples the spatial dims of (N, C, *) to size; scales are the factors to use, or "
           "empty to take them from the sizes.",
       grad={"input": f"interpolate_gradient(grad, spatial_of(sizes(input)), {_PASS})"},
       batch="to_size")
kernel(f"interpolate_gradient(grad_output: Tensor, size: list[int], {_HOW})", names=(),
       doc="Gradient of interpolate_kernel.",
       grad={"grad_output": f"interpolate_kernel(grad, spatial_of(sizes(grad_output)), {_PASS})"},
       batch="spread_merged")

_GRID = "orders: list[int], mode: str, padding_mode: str, align_corners: bool"
_LIKE = "orders, mode, padding_mode, align_corners"
kernel(f"grid_sample_kernel(input: Tensor, grid: Tensor, {_GRID})",
       names=("nn.functional._grid_sample",), node="GridSampler{orders.size()}DBackward0",
       doc="Derivatives, of the given orders by the columns of grid, of samples of (N, C, *) at "
           "the places that grid lists; "
           "orders of 0 are the samples themselves.",
       grad={"input": f"grid_sample_adjoint(grad, grid, spatial_of(sizes(input)), {_LIKE})",
             "grid": f"grid_gradient(grad, input, grid, {_LIKE})"}, batch="spread_merged")
kernel(f"grid_sample_adjoint(grad_output: Tensor, grid: Tensor, size: list[int], {_GRID})",
       names=(),
       doc="Adds each element to the places that grid_sample_kernel reads it from.",
       grad={"grad_output": f"grid_sample_kernel(grad, grid, {_LIKE})",
             "grid": f"grid_gradient(grad_output, grad, grid, {_LIKE})"}, batch="spread_merged")
