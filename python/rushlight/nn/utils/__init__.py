"""Tools for the parameters and modules of a model."""

from rushlight.nn.utils import rnn

__all__ = ["rnn"]
