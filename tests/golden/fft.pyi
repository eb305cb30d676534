"""Made by gen/stubs.py from the op table: run `make stubs` after changing a row."""
from builtins import bool as _bool, float as _float, int as _int
from collections.abc import Sequence
from typing import overload

from rushlight import Generator, Tensor
from rushlight import device as _device, dtype as _dtype, layout as _layout, memory_format as _memory_format

Number = _bool | _int | _float | complex  # functions named bool, int and float hide the types


def _c2c(input: Tensor, dim: Sequence[_int], inverse: _bool, scale: _float) -> Tensor: ...
def _c2r(input: Tensor, dim: _int, n: _int, inverse: _bool, scale: _float, twice: _bool) -> Tensor: ...
def _r2c(input: Tensor, dim: _int, n: _int, inverse: _bool, scale: _float, twice: _bool) -> Tensor: ...
