"""Sliding blocks of images, taken out and put together."""

from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module

__all__ = ["Fold", "Unfold"]


class _Blocks(Module):
    def __init__(self, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def extra_repr(self):
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )


class Fold(_Blocks):
    """Sums sliding blocks, (N, C * block, L), into images, (N, C, *output_size)."""

    __constants__ = ["output_size", "kernel_size", "dilation", "padding", "stride"]

    def __init__(self, output_size, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input):
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )

    def extra_repr(self):
        return f"output_size={self.output_size}, {super().extra_repr()}"


class Unfold(_Blocks):
    """The sliding blocks of images, (N, C, H, W), as columns, (N, C * block, L)."""

    __constants__ = ["kernel_size", "dilation", "padding", "stride"]

    def forward(self, input):
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)
