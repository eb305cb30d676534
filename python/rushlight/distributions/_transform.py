"""The base class of invertible maps, and those that are made of others: inverse, composition."""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions.constraints import (
    _GreaterThan,
    _IndependentConstraint,
    _Interval,
    _Real,
    _Simplex,
)
from rushlight.distributions.utils import _same_as, _sum_rightmost, broadcast_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self

    from rushlight.distributions.transforms import TanhTransform


class Transform:
    """A map y = f(x) from `domain` to `codomain`.

    Args:
        cache_size: 1 keeps the last pair (x, y), so that f.inv(f(x)) is x itself; 0 keeps none.

    A subclass states `domain` and `codomain`, implements `_call` and `_inverse`, and, if it is
    bijective, `log_abs_det_jacobian`. One that keeps arguments names them in `_arguments`, in the
    order of its constructor, by which transforms are compared and copied.
    """

    bijective = False
    _arguments = ()

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"{type(self).__name__}: cache_size must be 0 or 1, got {cache_size}")
        self._cache_size = cache_size
        self._inv = None
        self._cached_x_y = None, None
        super().__init__()

    def __getstate__(self) -> Any:
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self) -> int:
        """Number of dims that one event takes, on both sides."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """The inverse transform; its own inverse is this one."""
        inverse = self._inv() if self._inv is not None else None
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)  # weak: it holds this one
        return inverse

    @property
    def sign(self) -> int:
        """1 if the map of numbers increases, -1 if it decreases."""
        raise NotImplementedError(f"{type(self).__name__} has no sign")

    def with_cache(self, cache_size: int = 1) -> Self | TanhTransform:
        """Return this transform, with another size of cache."""
        if self._cache_size == cache_size:
            return self
        if self._arguments or type(self).__init__ is Transform.__init__:
            arguments = (getattr(self, name) for name in self._arguments)
            return type(self)(*arguments, cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Transform) or type(self) is not type(other):
            return False
        if type(self).__init__ is not Transform.__init__ and not self._arguments:
            return self is other
        pairs = [(getattr(self, name), getattr(other, name)) for name in self._arguments]
        return all(_same(a, b) for a, b in pairs)

    __hash__: Any = None

    def __call__(self, x: Tensor) -> Tensor:
        """Return f(x)."""
        if self._cache_size == 0:
            return self._call(x)
        if x is not self._cached_x_y[0]:
            self._cached_x_y = x, self._call(x)
        return self._cached_x_y[1]

    def _inv_call(self, y):
        if self._cache_size == 0:
            return self._inverse(y)
        if y is not self._cached_x_y[1]:
            self._cached_x_y = self._inverse(y), y
        return self._cached_x_y[0]

    def _call(self, x):
        raise NotImplementedError(f"{type(self).__name__} has no forward map")

    def _inverse(self, y):
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |dy / dx|, given both sides."""
        raise NotImplementedError(f"{type(self).__name__} is not bijective: it has no Jacobian")

    def forward_shape(self, shape: Sequence[int]) -> Size:
        """Return the shape of f(x), given that of x."""
        return rushlight.Size(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        """Return the shape of x, given that of f(x)."""
        return rushlight.Size(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _same(a, b):
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        a, b = broadcast_all(a, b) if a is not b else (a, b)
        return a is b or bool((a == b).all())
    return a == b


class _InverseTransform(Transform):
    """A transform the other way round."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._forward = transform

    @constraints.dependent_property
    def domain(self) -> _GreaterThan | _Interval | _Real:
        return self._forward.codomain

    @constraints.dependent_property
    def codomain(self) -> _Real:
        return self._forward.domain

    bijective = _same_as("_forward.bijective")
    sign = _same_as("_forward.sign")
    inv = _same_as("_forward")

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._forward.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._forward == other._forward

    __hash__ = None

    def __call__(self, x: Tensor) -> Tensor:
        return self._forward._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._forward.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return self._forward.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return self._forward.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._forward!r})"


class ComposeTransform(Transform):
    """Transforms one after the other; the first in the list is applied first."""

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts: list[Transform | TanhTransform] | list[Transform] = (
            [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)
        )

    @constraints.dependent_property
    def domain(self) -> _GreaterThan | _IndependentConstraint | _Interval | _Real:
        if not self.parts:
            return constraints.real
        event_dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            event_dim += part.domain.event_dim - part.codomain.event_dim
            event_dim = max(event_dim, part.domain.event_dim)
        return _with_event_dim(self.parts[0].domain, event_dim)

    @constraints.dependent_property
    def codomain(self) -> _GreaterThan | _Interval | _Real | _Simplex:
        if not self.parts:
            return constraints.real
        event_dim = self.parts[0].domain.event_dim
        for part in self.parts:
            event_dim += part.codomain.event_dim - part.domain.event_dim
            event_dim = max(event_dim, part.codomain.event_dim)
        return _with_event_dim(self.parts[-1].codomain, event_dim)

    @property
    def bijective(self) -> bool:
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        return functools.reduce(operator.mul, (part.sign for part in self.parts), 1)

    @property
    def inv(self) -> Transform:
        inverse = self._inv() if self._inv is not None else None
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(inverse)
            inverse._inv = weakref.ref(self)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Self:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__: Any = None

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return rushlight.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)

        # Each part's logarithm has the batch of its events: sum what is within the whole's events.
        total = 0
        event_dim = self.domain.event_dim
        for part, before, after in zip(self.parts, values, values[1:]):
            term = part.log_abs_det_jacobian(before, after)
            total = total + _sum_rightmost(term, event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape: Sequence[int]) -> Size:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        inner = ",\n    ".join(map(repr, self.parts))
        return f"{type(self).__name__}(\n    {inner}\n)"


def _with_event_dim(constraint, event_dim):
    more = event_dim - constraint.event_dim
    return constraints.independent(constraint, more) if more else constraint


identity_transform: ComposeTransform = ComposeTransform([])


class IndependentTransform(Transform):
    """Another transform whose rightmost batch dims count as part of the event."""

    _arguments = ("base_transform", "reinterpreted_batch_ndims")

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform: Transform | TanhTransform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @constraints.dependent_property
    def domain(self) -> _IndependentConstraint:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property
    def codomain(self) -> _IndependentConstraint:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    bijective: property = _same_as("base_transform.bijective")
    sign: property = _same_as("base_transform.sign")

    def _checked(self, value, constraint):
        if value.dim() < constraint.event_dim:
            raise ValueError(
                f"IndependentTransform: expected at least {constraint.event_dim} dims, "
                f"got shape {tuple(value.shape)}"
            )
        return value

    def _call(self, x):
        return self.base_transform(self._checked(x, self.domain))

    def _inverse(self, y):
        return self.base_transform.inv(self._checked(y, self.codomain))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        base = self.base_transform.log_abs_det_jacobian(x, y)
        return _sum_rightmost(base, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        inner = f"{self.base_transform!r}, {self.reinterpreted_batch_ndims}"
        return f"{type(self).__name__}({inner})"


class ReshapeTransform(Transform):
    """Another shape for the rightmost dims."""

    in_shape: Size
    out_shape: Size

    bijective = True
    _arguments = ("in_shape", "out_shape")

    def __init__(self, in_shape: Size, out_shape: Size, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = rushlight.Size(in_shape), rushlight.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError(
                f"ReshapeTransform: in_shape {tuple(self.in_shape)} and out_shape "
                f"{tuple(self.out_shape)} have different numbers of elements"
            )
        super().__init__(cache_size)

    @constraints.dependent_property
    def domain(self) -> _IndependentConstraint:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> _IndependentConstraint:
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x):
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y):
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Sequence[int]) -> Size:
        return self._exchanged(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Size:
        return self._exchanged(shape, self.out_shape, self.in_shape)

    def _exchanged(self, shape, old, new):
        batch = len(shape) - len(old)
        if batch < 0 or tuple(shape[batch:]) != tuple(old):
            raise ValueError(
                f"ReshapeTransform: the last dims of shape {tuple(shape)} are not {tuple(old)}"
            )
        return rushlight.Size(shape[:batch]) + new
