"""The paths of modules, by which events and errors name them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.nn import Module


def paths_of(root: Module) -> list[tuple[str, Module]]:
    """(path, module) of a module that the program calls, and of those inside of it.

    The root goes by the name of its class, the others by their attributes: layer2.0.conv1.
    """
    return [(path or type(root).__name__, module) for path, module in root.named_modules()]
