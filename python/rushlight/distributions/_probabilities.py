"""Distributions that take either probabilities or their logits."""

from __future__ import annotations

from rushlight import Size, Tensor
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)


class HasProbabilities(Distribution):
    """`probs` or `logits`, whichever was given; the other is computed when it is asked for.

    They are of separate events (`_is_binary`), logit = log(p / (1 - p)), or of the values along the
    last dim, logit = log p up to a constant.
    """

    _is_binary = True

    @lazy_property
    def logits(self) -> Tensor:
        return probs_to_logits(self.probs, self._is_binary)

    @lazy_property
    def probs(self) -> Tensor:
        return logits_to_probs(self.logits, self._is_binary)

    def _set_probabilities(self, probs, logits, **others):
        """Keep the one that was given, broadcast with other parameters; return it."""
        if (probs is None) == (logits is None):
            raise ValueError(
                f"{type(self).__name__}: either probs or logits must be specified, but not both"
            )
        given = "logits" if probs is None else "probs"
        others[given] = logits if probs is None else probs
        self.__dict__.update(zip(others, broadcast_all(*others.values())))
        return self.__dict__[given]

    @property
    def _param(self):
        return self.probs if "probs" in self.__dict__ else self.logits

    @property
    def param_shape(self) -> Size:
        """Shape of the probabilities."""
        return self._param.size()

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)
