"""Distributions of density p(x) = exp(<t(x), theta> - F(theta) + k(x))."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.distributions.distribution import Distribution


class ExponentialFamily(Distribution):
    """A distribution with natural parameters theta and log-normalizer F.

    A subclass that states `_natural_params`, `_log_normalizer` and `_mean_carrier_measure`, the
    mean of k(x), gets its entropy and its divergence from others of its class by differentiating F.
    """

    @property
    def _natural_params(self):
        raise NotImplementedError

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """F(theta) - <theta, grad F(theta)> - E[k]: after Nielsen and Nock (2010)."""
        params = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*params)
        gradients = rushlight.autograd.grad(normalizer.sum(), params, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        for param, gradient in zip(params, gradients):
            term = param * gradient
            result = result - term.reshape(self._batch_shape + (-1,)).sum(-1)
        return result
