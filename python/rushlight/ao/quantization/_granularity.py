"""What shares a scale: the whole tensor, a channel, a group of elements, or a block."""

from __future__ import annotations

import enum
from abc import ABCMeta, abstractmethod
from dataclasses import dataclass

from rushlight import Tensor
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.types import _dtype


class MappingType(enum.Enum):
    """How numbers map to integers: zero in the middle, or where the range has it."""

    SYMMETRIC = enum.auto()
    SYMMETRIC_NO_CLIPPING_ERR = enum.auto()
    ASYMMETRIC = enum.auto()


class ZeroPointDomain(enum.Enum):
    """Whether a zero point is an integer, a number, or there is none."""

    INT = enum.auto()
    FLOAT = enum.auto()
    NONE = enum.auto()


class TorchAODType(enum.Enum):
    """Integers of fewer than 8 bits."""

    INT1 = enum.auto()
    INT2 = enum.auto()
    INT3 = enum.auto()
    INT4 = enum.auto()
    INT5 = enum.auto()
    INT6 = enum.auto()
    INT7 = enum.auto()


@dataclass(frozen=True)
class Granularity:
    """What shares a scale."""


@dataclass(frozen=True)
class PerTensor(Granularity):
    """The whole tensor."""


@dataclass(frozen=True)
class PerAxis(Granularity):
    """Each index of a dim.

    Args:
        axis: the dim.
    """

    axis: int


@dataclass(frozen=True)
class PerGroup(Granularity):
    """Elements in a row of the last dim.

    Args:
        group_size: how many.
    """

    group_size: int


@dataclass(frozen=True)
class PerRow(Granularity):
    """Each row of the last dim."""


@dataclass(frozen=True)
class PerToken(Granularity):
    """Each row of the last dim, of results."""


@dataclass(frozen=True)
class PerBlock(Granularity):
    """Blocks of a tensor.

    Args:
        block_size: the sizes of a block, one for each dim.
    """

    block_size: tuple[int, ...]


def get_block_size(input_shape: tuple[int, ...], granularity: Granularity) -> tuple[int, ...]:
    """Return the sizes of the block of a tensor that shares a scale.

    Example:
        >>> from rushlight.ao.quantization.observer import PerAxis, get_block_size
        >>> get_block_size((4, 6), PerAxis(0))
        (1, 6)
    """
    shape = tuple(input_shape)
    if isinstance(granularity, PerTensor):
        return shape
    if isinstance(granularity, PerAxis):
        return tuple(1 if dim == granularity.axis else n for dim, n in enumerate(shape))
    if isinstance(granularity, (PerRow, PerToken)):
        return (1,) * (len(shape) - 1) + shape[-1:]
    if isinstance(granularity, PerGroup):
        if len(shape) != 2:
            raise AssertionError(f"get_block_size: PerGroup needs a shape of 2 dims, got {shape}")
        return (1, granularity.group_size)
    raise ValueError(f"get_block_size: unsupported granularity {granularity}")


class AffineQuantizedObserverBase(Module, metaclass=ABCMeta):
    """What observers have that choose a scale for each block of a tensor.

    Args:
        mapping_type: symmetric or not.
        target_dtype: of the integers.
        granularity: what shares a scale.
        quant_min, quant_max: the integers to use.
        eps: the least scale.
        scale_dtype, zero_point_dtype: of scales and zero points.
        preserve_zero: an integer stands for 0.
        zero_point_domain: whether zero points are integers.
    """

    with_args: Any

    def __init__(
        self,
        mapping_type: MappingType,
        target_dtype: Any,
        granularity: Granularity,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float | None = None,
        scale_dtype: Any = None,
        zero_point_dtype: Any = None,
        preserve_zero: bool = True,
        zero_point_domain: ZeroPointDomain | None = ZeroPointDomain.INT,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if zero_point_domain is None:
            raise ValueError("AffineQuantizedObserverBase: zero_point_domain must be given")
        if kwargs:
            self.dtype: _dtype | None = kwargs.get("dtype")
            self.is_dynamic: bool = kwargs.get("is_dynamic", False)
        self.mapping_type = mapping_type
        self.target_dtype: Any = target_dtype
        self.granularity = granularity
        self.quant_min = quant_min
        self.quant_max = quant_max
        self.eps = eps
        self.scale_dtype: Any = scale_dtype
        self.zero_point_dtype: Any = zero_point_dtype
        self.preserve_zero = preserve_zero
        self.zero_point_domain = zero_point_domain
        self.block_size: Any = None

    @abstractmethod
    def forward(self, input: Tensor) -> Tensor:
        """Look at a tensor, and return it."""

    @abstractmethod
    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return scale and zero point."""

    def convert(self, model: Any, observer_node: Any) -> None:
        """Refused: it writes a graph of export-based quantization, which is not here."""
        raise NotImplementedError(
            "AffineQuantizedObserverBase.convert: graphs of torchao's export-based quantization "
            "are not here; prepare_fx and convert_fx are"
        )
