"""Pairs of modules that one operation computes: a Sequential runs them so where no program can
tell, that is without hooks, modes, subclasses or patches (`_call_in_turn`, written in C, looks).
Why they are no lazy expressions: docs/layout_and_laziness.md.
"""

import rushlight
from rushlight._table import nn_functional as _table
from rushlight.nn import functional as F
from rushlight.nn.modules.activation import GELU, ReLU
from rushlight.nn.modules.linear import Linear

_linear, _relu, _gelu = F.linear, F.relu, F.gelu
_GELUS = {"none": "gelu", "tanh": "gelu_tanh"}


def _linear_relu(input, weight, bias, relu):
    if F.linear is not _linear or F.relu is not _relu:
        return NotImplemented
    return _table._linear_activation(input, weight, bias, "relu")


def _linear_gelu(input, weight, bias, gelu):
    kind = _GELUS.get("none" if gelu is _gelu else gelu.approximate)
    if F.linear is not _linear or F.gelu is not _gelu or kind is None:
        return NotImplemented
    return _table._linear_activation(input, weight, bias, kind)


# What stands for a module here is its forward; a function stands for itself.
FUSED = {
    Linear.forward: {
        ReLU.forward: _linear_relu,
        F.relu: _linear_relu,
        rushlight.relu: _linear_relu,
        GELU.forward: _linear_gelu,
        F.gelu: _linear_gelu,
    }
}
