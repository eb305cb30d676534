"""Made by gen/stubs.py from the op table: run `make stubs` after changing a row."""
from builtins import bool as _bool, complex as _complex, float as _float, int as _int
from collections.abc import Sequence
from typing import TypeAlias, overload

from rushlight._C import Generator, Tensor, _return_types
from rushlight._C import device as _device, dtype as _dtype, layout as _layout
from rushlight._C import memory_format as _memory_format

# Functions named bool, int, float and complex hide the types.
Number: TypeAlias = _bool | _int | _float | _complex


def _c2c(input: Tensor, dim: Sequence[_int], inverse: _bool, scale: _float, keep_order: _bool = False) -> Tensor: ...
def _c2r(input: Tensor, dim: _int, n: _int, inverse: _bool, scale: _float, twice: _bool) -> Tensor: ...
def _r2c(input: Tensor, dim: _int, n: _int, inverse: _bool, scale: _float, twice: _bool) -> Tensor: ...
