"""Settings of `onnx.export`, and ONNX's numbers of dtypes."""

from __future__ import annotations

import contextlib

from rushlight._enums import NativeEnum
from rushlight.nn._modes import modes_kept

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


class TrainingMode(NativeEnum):
    """The mode in which a module is exported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(NativeEnum):
    """What becomes of operations: operators of ONNX, the one way there is here."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


TensorProtoDataType: Any = NativeEnum(
    "TensorProtoDataType",
    "UNDEFINED FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 STRING BOOL FLOAT16 DOUBLE UINT32 UINT64 "
    "COMPLEX64 COMPLEX128 BFLOAT16 FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ",
    start=0,
)


@contextlib.contextmanager
def exported_in(model: Any, training: TrainingMode | int | None) -> Iterator[None]:
    """Have a module in a mode for a while: None and PRESERVE leave it as it is."""
    if training in (None, TrainingMode.PRESERVE):
        yield
        return
    with modes_kept(model):
        model.train(TrainingMode(training) is TrainingMode.TRAINING)
        yield
