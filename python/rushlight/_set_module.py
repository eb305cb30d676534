"""Where classes and functions say that they live."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def set_module(module: str, *objects: Any) -> None:
    """Let objects of a private file, or of one for several modules, name the public `module` as
    theirs, as torch has it: pickle and programs go by that name.
    """
    for thing in objects:
        # Python 3.13 drops it when a class moves.
        line = getattr(thing, "__dict__", {}).get("__firstlineno__")
        thing.__module__ = module
        if line is not None:
            thing.__firstlineno__ = line


def home_of(thing: Any) -> str:
    """The module that a function or class names, as rushlight has it, or "": where a program for
    torch runs, they name torch's.
    """
    home = getattr(thing, "__module__", None)
    if not isinstance(home, str):
        return ""
    top, dot, rest = home.partition(".")
    if top == "torch" and sys.modules.get("torch") is sys.modules["rushlight"]:
        return f"rushlight{dot}{rest}"
    return home


def function_of_core(name: str) -> Any:
    """The function of the core that the op table has by a name: "torch.sin", "Tensor.add_"."""
    from rushlight import _C

    module, _, bare = name.rpartition(".")
    if module == "Tensor":
        return getattr(_C._TensorBase, bare)
    return _C._functions["" if module == "torch" else module][bare]
