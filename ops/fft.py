"""Fourier transforms; rushlight.fft makes all forms of these."""
from ops.schema import kernel

kernel("fft_c2c(input: Tensor, dim: list[int], inverse: bool, scale: float, keep_order: bool = "
       "False)", names=("fft._c2c",),
       doc="scale times the complex transform over the given dims; these come last in memory, or "
           "keep_order keeps the order of dims there.",
       grad={"input": "fft_c2c(grad, dim, not inverse, scale)"})
kernel("fft_r2c(input: Tensor, dim: int, n: int, inverse: bool, scale: float, twice: bool)",
       names=("fft._r2c",),
       doc="scale times results 0 to n / 2 of n real numbers along a dim; with `twice`, times 2 "
           "those that have a conjugate beside them.",
       grad={"input": "fft_c2r(grad, dim, n, not inverse, scale, twice)"})
kernel("fft_c2r(input: Tensor, dim: int, n: int, inverse: bool, scale: float, twice: bool)",
       names=("fft._c2r",),
       doc="The real part of scale times the transform to n numbers of its points 0 to n / 2 along "
           "a dim; with `twice`, points other than "
           "these two count for their conjugates too.",
       grad={"input": "fft_r2c(grad, dim, n, not inverse, scale, twice)"})
