"""How tensors are printed, by the names under which libraries ask for it."""

from __future__ import annotations

from rushlight import _printing
from rushlight._printing import _contents, printoptions, set_printoptions, tensor_repr

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _PrintOptions:
    """The print options as attributes."""

    def __getattr__(self, name: str) -> Any:
        options = _printing.get_printoptions()
        if name not in options:
            raise AttributeError(name)
        return options[name]


PRINT_OPTS = _PrintOptions()


def _tensor_str(self, indent):
    return _contents(self, indent)


def _str(self, *, tensor_contents=None):
    return tensor_repr(self, tensor_contents=tensor_contents)


_str_intern = _str


def _add_suffixes(tensor_str, suffixes, indent, force_newline):
    """The text of a tensor's elements, with what is said after them, in lines of their width."""
    width = _printing.get_printoptions()["linewidth"]
    parts = [tensor_str]
    length = len(tensor_str) - tensor_str.rfind("\n")
    for suffix in suffixes:
        if force_newline or length + len(suffix) + 2 > width:
            parts.append(",\n" + " " * indent + suffix)
            length, force_newline = indent + len(suffix), False
        else:
            parts.append(", " + suffix)
            length += len(suffix) + 2
    return "".join(parts) + ")"


__all__ = ["PRINT_OPTS", "printoptions", "set_printoptions"]
