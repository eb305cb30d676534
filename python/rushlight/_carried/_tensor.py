"""Tensors of carried dtypes.

A `CarriedTensor` is a tensor of uint8, int16, int32 or int64 whose bits are those of the elements,
and whose class answers the functions of tensors from the tables in `_functions`: so no kernel has
to know these dtypes, and no function of ordinary tensors asks about them.
"""

from __future__ import annotations

import rushlight
from rushlight import _C, Tensor
from rushlight._carried._codecs import is_unsigned, numbers_of
from rushlight._own_class import OwnClass
from rushlight._tensor import _reduce_elements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


# What DLPack calls these dtypes.
_DLPACK_CODES = {
    "uint16": 1, "uint32": 1, "uint64": 1, "complex32": 5, "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14,
}  # fmt: skip


class CarriedTensor(OwnClass):
    """A tensor of uint16, uint32, uint64, complex32 or a float of 8 bits."""

    _carried: Any  # the dtype

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self._carried

    @property
    def _dlpack_code(self):
        return _DLPACK_CODES[str(self.dtype).removeprefix("torch.")]

    _is_of_core = True  # asked also where programs have switched __torch_function__ off

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        from rushlight._carried._functions import call

        return call(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        from rushlight._printing import contents_of_unsigned, get_printoptions, tensor_repr

        bits, suffix = plain(self), f"dtype={self.dtype}"
        if self.grad_fn is not None:
            suffix += f", grad_fn=<{self.grad_fn.name()}>"
        elif self.requires_grad:
            suffix += ", requires_grad=True"
        if bits.is_meta:
            return tensor_repr(bits).replace(f"dtype={bits.dtype}", suffix)
        if self.dtype.itemsize == 8 and bits.numel():
            shown, tensor_contents = bits, tensor_contents or contents_of_unsigned(bits)
        else:
            shown = numbers_of(bits, self.dtype)
        text = tensor_repr(shown, tensor_contents=tensor_contents)[:-1]
        if shown.numel() == 0:
            text = text.partition(", dtype=")[0]
        column = len(text) - text.rfind("\n") + len(suffix) + 2
        if column > get_printoptions()["linewidth"]:
            return f"{text},\n       {suffix})"
        return f"{text}, {suffix})"

    def __format__(self, spec: str) -> str:
        is_number = self.dim() == 0 and not self.is_meta
        return self.item().__format__(spec) if is_number else object.__format__(self, spec)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the legacy type's name, as "torch.UInt16Tensor", or a copy of another dtype."""
        if dtype is not None:
            return self.to(dtype, non_blocking=non_blocking)
        short = str(self.dtype).removeprefix("torch.")
        name = {"complex32": "ComplexHalf"}.get(short, short[0].upper() + short[1:])
        return f"torch.{name.replace('Uint', 'UInt')}Tensor"

    def __deepcopy__(self, memo: dict[int, Any]) -> CarriedTensor:
        if id(self) not in memo:
            memo[id(self)] = make(plain(self).clone(), self.dtype)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: int) -> tuple[Any, ...]:
        return _reduce_elements(self)


def plain(tensor: Tensor) -> Tensor:
    """Return the bits of a carried tensor without a copy, or an ordinary tensor itself."""
    if not isinstance(tensor, CarriedTensor):
        return tensor
    with _C._SubclassesOff():
        return Tensor.as_subclass(tensor, Tensor)


def make(bits: Tensor, dtype: Any) -> CarriedTensor:
    """Return the tensor of `dtype` over these bits, which it shares."""
    if bits._is_view():
        tensor = bits.as_subclass(CarriedTensor)
    else:  # the only one on its memory, which resize_ may then move
        tensor = Tensor._make_subclass(CarriedTensor, bits)
    tensor._carried = dtype
    return tensor


def elements(tensor: CarriedTensor) -> list[Any]:
    """Return the elements as Python numbers, in nested lists."""
    bits = plain(tensor)
    if not (is_unsigned(tensor.dtype) and tensor.dtype.itemsize == 8):
        return numbers_of(bits, tensor.dtype).tolist()

    def unsigned(value):
        return [unsigned(v) for v in value] if isinstance(value, list) else value % 2**64

    return unsigned(bits.tolist())


def array_of(tensor: CarriedTensor) -> Any:
    """Return the NumPy array over the bits of unsigned integers."""
    if not is_unsigned(tensor.dtype):
        raise TypeError(f"Got unsupported ScalarType {str(tensor.dtype).removeprefix('torch.')}")
    return plain(tensor).numpy().view(str(tensor.dtype).removeprefix("torch."))


def from_dlpack_bits(bits: Tensor, code: int, width: int) -> CarriedTensor:
    """Return the tensor over bits that came by DLPack, of the type with this code and width."""
    for name, known in _DLPACK_CODES.items():
        dtype = getattr(rushlight, name)
        if known == code and dtype.itemsize * 8 == width:
            return make(bits, dtype)
    raise RuntimeError(f"from_dlpack: unsupported data type (code {code}, {width} bits)")


def from_array(array: Any, dtype: Any = None, copy: bool = False) -> Tensor:
    """Return the tensor over the memory of an array of uint16, uint32 or uint64.

    Args:
        dtype: of the result, if it is another.
        copy: share no memory.
    """
    own = getattr(rushlight, array.dtype.name)
    bits = rushlight.as_tensor(array.view(f"i{array.dtype.itemsize}"))
    tensor = make(bits.clone() if copy else bits, own)
    return tensor if dtype is None or dtype == own else tensor.to(dtype)
