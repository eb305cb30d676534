"""The marks at which a model would be quantised: tensors pass them as they are."""

from rushlight.nn.modules.module import Module


class QuantStub(Module):
    """Where a model's input would be quantised: the identity."""

    def __init__(self, qconfig=None):
        super().__init__()
        self.qconfig = qconfig

    def forward(self, x):
        return x


class DeQuantStub(QuantStub):
    """Where a model's output would become floating-point again: the identity."""


__all__ = ["DeQuantStub", "QuantStub"]
