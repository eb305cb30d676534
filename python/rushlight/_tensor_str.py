"""How tensors are printed, by the names under which libraries ask for it."""

from rushlight import _printing
from rushlight._printing import _contents, printoptions, set_printoptions, tensor_repr


class _PrintOptions:
    """The print options as attributes."""

    def __getattr__(self, name):
        options = _printing.get_printoptions()
        if name not in options:
            raise AttributeError(name)
        return options[name]


PRINT_OPTS = _PrintOptions()


def _tensor_str(self, indent):
    return _contents(self, indent)


def _str(self, *, tensor_contents=None):
    return tensor_repr(self, tensor_contents=tensor_contents)


__all__ = ["PRINT_OPTS", "printoptions", "set_printoptions"]
