"""The chi-squared distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The sum of `df` squared standard normal numbers: Gamma(df / 2, 1 / 2).

    Args:
        df: degrees of freedom; need not be whole.

    Example:
        >>> torch.distributions.Chi2(torch.tensor(3.0)).variance
        tensor(6.)
    """

    arg_constraints: dict[str, Constraint] = {"df": constraints.positive}

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Chi2:
        new = object.__new__(type(self)) if _instance is None else _instance
        new.__dict__.update(self.__dict__)
        new.concentration = self.concentration.expand(batch_shape)
        new.rate = self.rate.expand(batch_shape)
        new._batch_shape = new.concentration.shape
        return new

    @property
    def df(self) -> Tensor:
        return self.concentration * 2
