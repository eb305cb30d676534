"""Where classes and functions say that they live."""

from __future__ import annotations

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
