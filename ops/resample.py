"""Images of another size."""
from ops.schema import kernel

_HOW = "mode: str, align_corners: bool, antialias: bool, scales: list[float]"
_PASS = "mode, align_corners, antialias, scales"
kernel(f"interpolate_kernel(input: Tensor, size: list[int], {_HOW})", names=("nn.functional._interpolate",),
       doc="Resamples the spatial dims of (N, C, *) to size; scales are the factors to use, or empty to take them from the sizes.",
       grad={"input": f"interpolate_gradient(grad, spatial_of(sizes(input)), {_PASS})"})
kernel(f"interpolate_gradient(grad_output: Tensor, size: list[int], {_HOW})", names=(), doc="Gradient of interpolate_kernel.",
       grad={"grad_output": f"interpolate_kernel(grad, spatial_of(sizes(grad_output)), {_PASS})"})
