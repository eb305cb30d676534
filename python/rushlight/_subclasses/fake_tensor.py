"""Tensors that stand for others while a program is traced: nothing traces here, and none exist."""

from rushlight import Tensor


class FakeTensor(Tensor):
    """Refused: shapes without data are tensors on the meta device."""

    def __new__(cls, *args, **kwargs):
        raise NotImplementedError("FakeTensor: use a tensor on the meta device")


class FakeTensorMode:
    """Refused: shapes without data are tensors on the meta device."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("FakeTensorMode: use torch.device('meta') as a context")


def is_fake(x):
    """Is it a FakeTensor? None is."""
    return isinstance(x, FakeTensor)
