"""Shapes as tensors, which exporters to ONNX keep computed."""

from __future__ import annotations

import rushlight
from rushlight import Tensor


def shape_as_tensor(x: Tensor) -> Tensor:
    """The sizes of a tensor, as int64."""
    return rushlight.tensor(tuple(x.shape), dtype=rushlight.int64)


def reshape_from_tensor_shape(x: Tensor, shape: Tensor) -> Tensor:
    """The tensor with the sizes that another tensor holds."""
    return x.reshape(tuple(shape.tolist()))
