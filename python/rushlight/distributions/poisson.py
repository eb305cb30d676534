"""The Poisson distribution."""

import rushlight
from rushlight.distributions import constraints
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import _same_as

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """The number of independent events: P(k) = rate^k exp(-rate) / k!.

    Args:
        rate: the mean, nonnegative.

    Example:
        >>> torch.distributions.Poisson(torch.tensor(4.0)).stddev
        tensor(2.)
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate, validate_args=None):
        self._start(validate_args, rate=rate)

    mean = _same_as("rate")

    @property
    def mode(self):
        return self.rate.floor()

    variance = _same_as("rate")

    def sample(self, sample_shape=()):
        with rushlight.no_grad():
            return rushlight.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return value.xlogy(self.rate) - self.rate - (value + 1).lgamma()

    @property
    def _natural_params(self):
        return (self.rate.log(),)

    def _log_normalizer(self, x):
        return x.exp()
