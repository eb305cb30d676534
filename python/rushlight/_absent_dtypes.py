"""The dtypes and layouts that torch has and no kernel knows. Tensors of some hold their bits in a
tensor of another dtype (`_carried/_tensor.py`, and `_quantized/_tensor.py` for qint8, quint8 and
qint32); the others are names to compare with.
"""

from __future__ import annotations

from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import dtype


class _AbsentDtype:
    """Refused where a dtype is wanted: no tensor is of this dtype here."""

    itemsize: int
    is_floating_point: bool
    is_complex: bool

    def __init__(
        self, name: str, itemsize: int, is_floating_point: bool = False, is_complex: bool = False
    ) -> None:
        self._name, self.itemsize = name, itemsize
        self.is_floating_point, self.is_complex = is_floating_point, is_complex
        self.is_signed: bool = not name.startswith(("uint", "quint", "float8_e8m0"))

    @property
    def __class__(self) -> Any:
        import rushlight

        return rushlight.dtype  # isinstance(torch.uint16, torch.dtype)

    @property
    def abbr(self) -> str:
        """The short name that listings of graphs use, as f8e5m2."""
        name = self._name
        if name.startswith("bits"):
            return f"b{name[4:]}" if "x" in name else f"b{name[4:]}x1"
        for long, short in (("float", "f"), ("complex", "c")):
            if name.startswith(long):
                return f"{short}{name.removeprefix(long).replace('_', '')}"
        return f"u{name[4:]}" if name in ("uint16", "uint32", "uint64") else name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return self._name  # in the module that its class names


class _CarriedDtype(_AbsentDtype):
    """A dtype whose tensors are `CarriedTensor`s. It takes over every function it is given to."""

    _is_of_core = True

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        from rushlight._carried._functions import call

        return call(func, args, kwargs or {})

    def to_real(self) -> Any:
        """Return the dtype of the real part."""
        import rushlight

        return rushlight.float16 if self.is_complex else self

    def to_complex(self) -> Any:
        """Return the complex dtype of such parts; RuntimeError where there is none."""
        if not self.is_complex:
            raise RuntimeError(f"to_complex: there is no complex type for {self}")
        return self


set_module("rushlight", _AbsentDtype, _CarriedDtype)  # as those of the core
uint16: dtype = _CarriedDtype("uint16", 2)
uint32: dtype = _CarriedDtype("uint32", 4)
uint64: dtype = _CarriedDtype("uint64", 8)
float8_e4m3fn: dtype = _CarriedDtype("float8_e4m3fn", 1, is_floating_point=True)
float8_e4m3fnuz: dtype = _CarriedDtype("float8_e4m3fnuz", 1, is_floating_point=True)
float8_e5m2: dtype = _CarriedDtype("float8_e5m2", 1, is_floating_point=True)
float8_e5m2fnuz: dtype = _CarriedDtype("float8_e5m2fnuz", 1, is_floating_point=True)
float8_e8m0fnu: dtype = _CarriedDtype("float8_e8m0fnu", 1, is_floating_point=True)
complex32: dtype = _CarriedDtype("complex32", 4, is_complex=True)
chalf = complex32
qint8: dtype = _AbsentDtype("qint8", 1)
quint8: dtype = _AbsentDtype("quint8", 1)
qint32: dtype = _AbsentDtype("qint32", 4)
quint4x2: dtype = _AbsentDtype("quint4x2", 1)
quint2x4: dtype = _AbsentDtype("quint2x4", 1)
float4_e2m1fn_x2: dtype = _AbsentDtype("float4_e2m1fn_x2", 1, is_floating_point=True)
uint1: dtype = _AbsentDtype("uint1", 1)
uint2: dtype = _AbsentDtype("uint2", 1)
uint3: dtype = _AbsentDtype("uint3", 1)
uint4: dtype = _AbsentDtype("uint4", 1)
uint5: dtype = _AbsentDtype("uint5", 1)
uint6: dtype = _AbsentDtype("uint6", 1)
uint7: dtype = _AbsentDtype("uint7", 1)
int1: dtype = _AbsentDtype("int1", 1)
int2: dtype = _AbsentDtype("int2", 1)
int3: dtype = _AbsentDtype("int3", 1)
int4: dtype = _AbsentDtype("int4", 1)
int5: dtype = _AbsentDtype("int5", 1)
int6: dtype = _AbsentDtype("int6", 1)
int7: dtype = _AbsentDtype("int7", 1)
bits1x8: dtype = _AbsentDtype("bits1x8", 1)
bits2x4: dtype = _AbsentDtype("bits2x4", 1)
bits4x2: dtype = _AbsentDtype("bits4x2", 1)
bits8: dtype = _AbsentDtype("bits8", 1)
bits16: dtype = _AbsentDtype("bits16", 2)
bit = uint1
CARRIED = {k: v for k, v in tuple(globals().items()) if type(v) is _CarriedDtype}


class _AbsentLayout:
    """Refused where a layout is wanted: no tensor has it here."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return self._name


jagged: _AbsentLayout = _AbsentLayout("jagged")
