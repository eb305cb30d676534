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
uint16 = _CarriedDtype("uint16", 2)
uint32 = _CarriedDtype("uint32", 4)
uint64 = _CarriedDtype("uint64", 8)
float8_e4m3fn = _CarriedDtype("float8_e4m3fn", 1, is_floating_point=True)
float8_e4m3fnuz = _CarriedDtype("float8_e4m3fnuz", 1, is_floating_point=True)
float8_e5m2 = _CarriedDtype("float8_e5m2", 1, is_floating_point=True)
float8_e5m2fnuz = _CarriedDtype("float8_e5m2fnuz", 1, is_floating_point=True)
float8_e8m0fnu = _CarriedDtype("float8_e8m0fnu", 1, is_floating_point=True)
complex32 = _CarriedDtype("complex32", 4, is_complex=True)
chalf = complex32
qint8 = _AbsentDtype("qint8", 1)
quint8 = _AbsentDtype("quint8", 1)
qint32 = _AbsentDtype("qint32", 4)
quint4x2 = _AbsentDtype("quint4x2", 1)
quint2x4 = _AbsentDtype("quint2x4", 1)
float4_e2m1fn_x2 = _AbsentDtype("float4_e2m1fn_x2", 1, is_floating_point=True)
uint1, uint2, uint3, uint4, uint5, uint6, uint7 = (_AbsentDtype(f"uint{n}", 1) for n in range(1, 8))
int1, int2, int3, int4, int5, int6, int7 = (_AbsentDtype(f"int{n}", 1) for n in range(1, 8))
bits1x8, bits2x4, bits4x2, bits8 = (
    _AbsentDtype(name, 1) for name in ("bits1x8", "bits2x4", "bits4x2", "bits8")
)
bits16 = _AbsentDtype("bits16", 2)
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
