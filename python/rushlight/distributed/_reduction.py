"""How the tensors of members become one: ReduceOp, and the functions by which MPI computes it."""

from __future__ import annotations

import enum
import functools

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HALVES = (rushlight.float16, rushlight.bfloat16)
_NAMES = {
    rushlight.float32: "FLOAT",
    rushlight.float64: "DOUBLE",
    rushlight.uint8: "UINT8_T",
    rushlight.int8: "INT8_T",
    rushlight.int16: "INT16_T",
    rushlight.int32: "INT32_T",
    rushlight.int64: "INT64_T",
    rushlight.complex64: "C_FLOAT_COMPLEX",
    rushlight.complex128: "C_DOUBLE_COMPLEX",
    # MPI need not know them: functions of ours reduce pairs of bytes.
    rushlight.float16: "INT16_T",
    rushlight.bfloat16: "INT16_T",
}


class ReduceOp(enum.Enum):
    """How the tensors of the members become one."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    @property
    def op(self) -> ReduceOp:
        """This member: torch has objects that hold one."""
        return self


ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  # torch has the members there


class PremultipliedSum:
    """The sum of tensors that are multiplied by `factor` first."""

    value, name = ReduceOp.PREMUL_SUM.value, "PREMUL_SUM"

    def __init__(self, factor: Any) -> None:
        self.factor = factor


def mpi_name(dtype: rushlight.dtype) -> Any:
    """What MPI calls a dtype."""
    return _NAMES[dtype]


def check(name: str, op: Any, dtype: rushlight.dtype) -> None:
    """Raise where a dtype cannot be reduced so."""
    if not isinstance(op, (ReduceOp, PremultipliedSum)):
        raise TypeError(f"{name}: op must be a ReduceOp, got {op!r}")
    if op is ReduceOp.PREMUL_SUM:
        raise ValueError(f"{name}: PREMUL_SUM needs its factor: _make_nccl_premul_sum(factor)")
    if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR) and (
        dtype.is_floating_point or dtype.is_complex
    ):
        raise ValueError(f"{name}: cannot use ReduceOp.{op.name} with non-integral dtype {dtype}")
    if op in (ReduceOp.MIN, ReduceOp.MAX) and dtype.is_complex:
        raise ValueError(f"{name}: ReduceOp.{op.name} does not support complex tensors")
    if dtype is rushlight.bool and (op is ReduceOp.AVG or isinstance(op, PremultipliedSum)):
        raise ValueError(f"{name}: ReduceOp.{op.name} does not support bool tensors")
    if dtype not in _NAMES and dtype is not rushlight.bool:
        raise ValueError(f"{name}: {dtype} cannot be reduced")


# Sums of booleans are "any", products "all": 0 and 1 as bytes have these as extremes.
_OF_BOOLEANS = {ReduceOp.SUM: ReduceOp.MAX, ReduceOp.PRODUCT: ReduceOp.MIN}


def elementary(op: Any, dtype: rushlight.dtype) -> Any:
    """The operation and the dtype of what is reduced, for `op` on tensors of `dtype`."""
    if dtype is rushlight.bool:
        return _OF_BOOLEANS.get(op, op), rushlight.uint8
    if op is ReduceOp.AVG or isinstance(op, PremultipliedSum):
        op = ReduceOp.SUM
    return op, dtype


_MPI_OPS = {
    ReduceOp.SUM: "SUM",
    ReduceOp.PRODUCT: "PROD",
    ReduceOp.MIN: "MIN",
    ReduceOp.MAX: "MAX",
    ReduceOp.BAND: "BAND",
    ReduceOp.BOR: "BOR",
    ReduceOp.BXOR: "BXOR",
}
IN_PLACE = {
    ReduceOp.SUM: lambda into, other: into.add_(other),
    ReduceOp.PRODUCT: lambda into, other: into.mul_(other),
    ReduceOp.MIN: lambda into, other: into.copy_(rushlight.minimum(into, other)),
    ReduceOp.MAX: lambda into, other: into.copy_(rushlight.maximum(into, other)),
    ReduceOp.BAND: lambda into, other: into.bitwise_and_(other),
    ReduceOp.BOR: lambda into, other: into.bitwise_or_(other),
    ReduceOp.BXOR: lambda into, other: into.bitwise_xor_(other),
}


@functools.cache
def kernel(mpi: Any, dtype: rushlight.dtype, op: Any) -> Any:
    """MPI's function for an elementary operation."""
    if dtype not in _HALVES:
        return getattr(mpi, _MPI_OPS[op])
    combine = IN_PLACE[op]

    def function(other, into, datatype):
        # MPI calls this while it makes progress, in whatever thread that is.
        with rushlight.no_grad():
            combine(
                rushlight.frombuffer(into, dtype=dtype), rushlight.frombuffer(other, dtype=dtype)
            )

    return mpi.Op.Create(function, commute=True)
