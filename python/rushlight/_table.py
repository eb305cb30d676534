"""The functions of the op table, by the namespace they appear in."""

from types import SimpleNamespace

from rushlight import _C


def _namespace(name):
    return SimpleNamespace(**_C._functions.get(name, {}))


nn_functional = _namespace("nn.functional")
linalg = _namespace("linalg")
special = _namespace("special")
fft = _namespace("fft")
