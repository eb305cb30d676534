"""What parameters and values of distributions must satisfy, as objects with a `check(value)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rushlight
from rushlight import Tensor

__all__ = [
    "Constraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "independent", "integer_interval", "interval",
    "half_open_interval", "is_dependent", "less_than", "lower_cholesky", "lower_triangular",
    "MixtureSameFamilyConstraint", "multinomial", "nonnegative", "nonnegative_integer", "one_hot",
    "positive", "positive_semidefinite", "positive_definite", "positive_integer", "real",
    "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A set of tensors: `check` tells which events of a value lie in it.

    An event takes the last `event_dim` dims of the value; `check` drops them.
    """

    is_discrete = False
    event_dim = 0
    _shown = ()

    def check(self, value: Any) -> Tensor:
        """Return a bool tensor, an element for each event of `value`."""
        raise NotImplementedError

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)
        return f"{type(self).__name__.removeprefix('_')}({shown})"


def _all_of(checked, dims):
    """Whether each event holds throughout: all() over the last `dims` dims."""
    return (
        checked.reshape(checked.shape[: checked.dim() - dims] + (-1,)).all(-1) if dims else checked
    )


# ---- constraints known only from an object's other parameters ------------------------------------


class _Dependent(Constraint):
    def __init__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> None:
        self._is_discrete = is_discrete
        self._event_dim = event_dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> int:
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> Any:
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Any) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: Constraint) -> bool:
    """Return whether a constraint is known only from an object's parameters."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property that computes a constraint of the object; of the class, it is a dependent one."""

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: bool | None = NotImplemented,
        event_dim: int | None = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Callable[..., Any]) -> _DependentProperty:
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


# ---- numbers -------------------------------------------------------------------------------------


class _Real(Constraint):
    def check(self, value: Any) -> Tensor:
        return value == value  # not NaN


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Any) -> Tensor:
        return (value == 0) | (value == 1)


class _GreaterThan(Constraint):
    _shown = ("lower_bound",)

    def __init__(self, lower_bound: Tensor | float) -> None:
        self.lower_bound = lower_bound
        super().__init__()

    def check(self, value: Any) -> Tensor:
        return self.lower_bound < value


class _GreaterThanEq(_GreaterThan):
    def check(self, value: Any) -> Tensor:
        return self.lower_bound <= value


class _LessThan(Constraint):
    _shown = ("upper_bound",)

    def __init__(self, upper_bound: Tensor | float) -> None:
        self.upper_bound = upper_bound
        super().__init__()

    def check(self, value: Any) -> Tensor:
        return value < self.upper_bound


class _Interval(Constraint):
    _shown = ("lower_bound", "upper_bound")

    def __init__(self, lower_bound: Tensor | float, upper_bound: Tensor | float) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        super().__init__()

    def check(self, value: Any) -> Tensor:
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Interval):
    def check(self, value: Any) -> Tensor:
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _IntegerInterval(_Interval):
    is_discrete = True

    def check(self, value: Any) -> Tensor:
        return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerLessThan(_LessThan):
    is_discrete = True

    def check(self, value: Any) -> Tensor:
        return (value % 1 == 0) & (value <= self.upper_bound)


class _IntegerGreaterThan(_GreaterThan):
    is_discrete = True

    def check(self, value: Any) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)


# ---- vectors -------------------------------------------------------------------------------------


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Any) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: int) -> None:
        self.upper_bound = upper_bound
        super().__init__()

    def check(self, value: Any) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


# ---- matrices ------------------------------------------------------------------------------------


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Tensor:
        square = value.shape[-1] == value.shape[-2]
        return rushlight.full(value.shape[:-2], square, dtype=rushlight.bool, device=value.device)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Any) -> Tensor:
        return _all_of(value.tril() == value, 2)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Any) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value: Any) -> Tensor:
        # A row of n products rounds n times.
        tolerance = rushlight.finfo(value.dtype).eps * value.shape[-1] * 10
        unit_rows = ((value.norm(dim=-1) - 1).abs() < tolerance).all(-1)
        return super().check(value) & unit_rows


class _Symmetric(_Square):
    def check(self, value: Any) -> Tensor:
        square = super().check(value)
        if not rushlight._is_all_true(square):
            return square
        return _all_of(rushlight.isclose(value, value.mT, atol=1e-6), 2)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Any) -> Tensor:
        symmetric = super().check(value)
        if not rushlight._is_all_true(symmetric):
            return symmetric
        return (rushlight.linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Any) -> Tensor:
        symmetric = super().check(value)
        if not rushlight._is_all_true(symmetric):
            return symmetric
        return rushlight.linalg.cholesky_ex(value).info == 0


# ---- constraints made of others ------------------------------------------------------------------


class _ConstraintOfAnother(Constraint):
    """A constraint that follows from another one."""

    def __init__(self, name: str, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise TypeError(f"{name}: expected a Constraint, got {base_constraint!r}")
        self.base_constraint = base_constraint
        super().__init__()

    @property
    def is_discrete(self) -> Any:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim

    def _check_dims(self, value):
        if value.dim() < self.event_dim:
            raise ValueError(
                f"{self!r}: expected a value of at least {self.event_dim} dims, "
                f"got shape {tuple(value.shape)}"
            )


class _IndependentConstraint(_ConstraintOfAnother):
    """Another constraint, with `reinterpreted_batch_ndims` more dims to an event."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        super().__init__("independent", base_constraint)
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise ValueError(
                f"independent: expected a number of dims, got {reinterpreted_batch_ndims!r}"
            )
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def event_dim(self) -> int:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Tensor:
        self._check_dims(value)
        return _all_of(self.base_constraint.check(value), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        name = type(self).__name__.removeprefix("_")
        return f"{name}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(_ConstraintOfAnother):
    """The support of a mixture: that of its components, which have one batch dim more."""

    def __init__(self, base_constraint: Constraint) -> None:
        super().__init__("MixtureSameFamilyConstraint", base_constraint)

    def check(self, value: Any) -> Tensor:
        self._check_dims(value)
        components_dim = -1 - self.event_dim
        return self.base_constraint.check(value.unsqueeze(components_dim)).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Cat(Constraint):
    """Constraints for consecutive pieces along a dim."""

    def __init__(
        self, cseq: Sequence[Any], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        self.cseq: list[Any] = list(cseq)
        if not all(isinstance(c, Constraint) for c in self.cseq):
            raise TypeError(f"cat: expected constraints, got {self.cseq!r}")
        self.lengths: list[int] = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise ValueError(
                f"cat: got {len(self.lengths)} lengths for {len(self.cseq)} constraints"
            )
        self.dim = dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Any) -> Tensor:
        _check_dim(self, value)
        pieces = value.split(self.lengths, self.dim)
        return rushlight.cat([c.check(v) for c, v in zip(self.cseq, pieces)], self.dim)


class _Stack(Constraint):
    """Constraints for the slices along a dim."""

    def __init__(self, cseq: Sequence[Any], dim: int = 0) -> None:
        self.cseq: list[Any] = list(cseq)
        if not all(isinstance(c, Constraint) for c in self.cseq):
            raise TypeError(f"stack: expected constraints, got {self.cseq!r}")
        self.dim = dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Any) -> Tensor:
        _check_dim(self, value)
        slices = [value.select(self.dim, i) for i in range(value.shape[self.dim])]
        return rushlight.stack([c.check(v) for c, v in zip(self.cseq, slices)], self.dim)


def _check_dim(constraint, value):
    if not isinstance(value, Tensor) or not -value.dim() <= constraint.dim < value.dim():
        shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"{constraint!r}: dim {constraint.dim} is not one of {shape}")


# ---- public names --------------------------------------------------------------------------------

dependent: Any = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean: Any = _Boolean()
one_hot: Any = _OneHot()
nonnegative_integer: Any = _IntegerGreaterThan(0)
positive_integer: Any = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real: Any = _Real()
real_vector: Any = independent(real, 1)
positive: Any = _GreaterThan(0.0)
nonnegative: Any = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval: Any = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex: Any = _Simplex()
lower_triangular: Any = _LowerTriangular()
lower_cholesky: Any = _LowerCholesky()
corr_cholesky: Any = _CorrCholesky()
square: Any = _Square()
symmetric: Any = _Symmetric()
positive_semidefinite: Any = _PositiveSemidefinite()
positive_definite: Any = _PositiveDefinite()
cat = _Cat
stack = _Stack
