"""Fourier transforms; rushlight.fft makes all forms of this one."""
from ops.schema import kernel

kernel("fft_c2c(input: Tensor, dim: list[int], inverse: bool, scale: float)", names=("fft._c2c",),
       doc="scale times the complex transform over the given dims.", grad={"input": "fft_c2c(grad, dim, not inverse, scale)"})
