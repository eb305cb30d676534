"""The base class of distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Size, Tensor
from rushlight._ignored import warn_program as _warn_program
from rushlight.distributions import constraints
from rushlight.distributions.constraints import Constraint
from rushlight.distributions.utils import broadcast_all, lazy_property


class Distribution:
    """A distribution over events of `event_shape`, one for each place of `batch_shape`.

    Args:
        batch_shape: shape of independent, differently parameterised distributions.
        event_shape: shape of one draw.
        validate_args: check parameters now and values later; by default, as
            `set_default_validate_args` says.

    A subclass states its parameters in `arg_constraints` and its values in `support`. Parameters
    are attributes of shape batch_shape + (as many event dims as their constraint has), by which
    `expand` knows how to expand them.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Switch the checks of parameters and values on or off where none were asked for."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: expected True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = batch_shape
        self._event_shape = event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _start(self, validate_args, **parameters):
        """Begin a distribution of single numbers whose parameters broadcast together."""
        tensors = broadcast_all(*parameters.values())
        self.__dict__.update(zip(parameters, tensors))
        Distribution.__init__(self, tensors[0].shape, validate_args=validate_args)

    def _check_parameters(self):
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            _warn_program(
                f"{type(self).__name__} states no arg_constraints: its parameters are not checked",
            )
            return
        for name, constraint in arg_constraints.items():
            lazy = isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or (lazy and name not in self.__dict__):
                continue
            value = getattr(self, name)
            valid = constraint.check(value)
            if not rushlight._is_all_true(valid):
                raise ValueError(
                    f"{type(self).__name__}: parameter {name} of shape {tuple(value.shape)} does "
                    f"not satisfy the constraint {constraint!r}:\n{value}"
                )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return this distribution for a larger batch, without copying its parameters.

        Args:
            batch_shape: shape to which `batch_shape` broadcasts.
            _instance: for overriding methods, the new object that is to be filled in.
        """
        batch_shape = Size(batch_shape)
        new = object.__new__(type(self)) if _instance is None else _instance
        for name, value in self.__dict__.items():
            constraint = self.arg_constraints.get(name)
            if constraint is not None and isinstance(value, Tensor):
                event = value.shape[value.dim() - constraint.event_dim :]
                value = value.expand(batch_shape + event)
            elif isinstance(value, Distribution):
                inner = value.batch_shape[len(self.batch_shape) :]
                value = value.expand(batch_shape + inner)
            new.__dict__[name] = value
        new._batch_shape = batch_shape
        return new

    def _get_checked_instance(self, cls, _instance=None):
        """Return the object that an overriding `expand` fills in."""
        return object.__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Size:
        """Shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """Shape of one draw."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        """Constraint of each parameter, by name."""
        raise NotImplementedError

    @property
    def support(self) -> Constraint | None:
        """Constraint that the values of the distribution satisfy."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """Mean, of shape batch_shape + event_shape."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """Place of the highest density."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """Variance of each element."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """Standard deviation of each element."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw `sample_shape` samples from each distribution, without gradients."""
        with rushlight.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw samples through which gradients reach the parameters."""
        raise NotImplementedError(
            f"{type(self).__name__} has no differentiable samples; use sample()"
        )

    def sample_n(self, n: int) -> Tensor:
        """Draw n samples: the older form of sample((n,))."""
        _warn_program("sample_n(n) will be removed. Use .sample((n,)) instead", FutureWarning)
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density or probability at `value`."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most `value`."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile: the place where `cdf` is `value`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values of a discrete distribution along a new first dim."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy in nats, of shape batch_shape."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """Return exp(entropy)."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape=()):
        return Size(sample_shape) + self._batch_shape + self._event_shape

    def _check_sample(self, value):
        """`_validate_sample`, if this distribution checks its arguments."""
        if self._validate_args:
            self._validate_sample(value)

    def _validate_sample(self, value):
        """Raise ValueError unless `value` can be a sample of this distribution."""
        name = type(self).__name__
        if not isinstance(value, Tensor):
            raise ValueError(
                f"{name}: the value argument must be a Tensor, got {type(value).__name__}"
            )
        first_event_dim = value.dim() - len(self._event_shape)
        if value.shape[max(first_event_dim, 0) :] != self._event_shape:
            raise ValueError(
                f"{name}: the last dims of the value's shape {tuple(value.shape)} are not "
                f"the event shape {tuple(self._event_shape)}"
            )
        expected = self._batch_shape + self._event_shape
        for ours, theirs in zip(reversed(expected), reversed(value.shape)):
            if ours != 1 and theirs != 1 and ours != theirs:
                raise ValueError(
                    f"{name}: the value's shape {tuple(value.shape)} does not broadcast with "
                    f"the batch and event shape {tuple(expected)}"
                )
        try:
            support = self.support
        except NotImplementedError:
            _warn_program(f"{name} states no support: its values are not checked")
            return
        if not rushlight._is_all_true(support.check(value)):
            raise ValueError(
                f"{name}: a value of shape {tuple(value.shape)} is not within the support "
                f"({support!r}):\n{value}"
            )

    def __repr__(self) -> str:
        shown = []
        for name in self.arg_constraints:
            value = self.__dict__.get(name)
            if isinstance(value, Tensor):
                shown.append(f"{name}: {value if value.numel() == 1 else value.size()}")
        return f"{type(self).__name__}({', '.join(shown)})"
