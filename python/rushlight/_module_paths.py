"""Modules that have names of another one: where torch has a file, and rushlight a part of one."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import FunctionType, ModuleType

from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def add_modules(package: str, paths: Mapping[str, str]) -> None:
    """Let `import package.path` give a module that has what the named modules have.

    Args:
        package: a module that is being imported.
        paths: for each path below it, its names, separated by spaces, which are the package's; "*"
            for all of those; or one name with dots, the module of rushlight whose names it has.
    """
    home = sys.modules[package]
    if not hasattr(home, "__path__"):
        home.__path__ = []  # lets the import system look for modules below
    for path in paths:
        _add_module(home, path, paths[path])


def _add_module(home, path, names):
    parent_name, _, own = f"{home.__name__}.{path}".rpartition(".")
    source, listed = home, home.__all__ if names == "*" else names.split()
    if "." in names:
        source = importlib.import_module(f"rushlight.{names}")
        listed = source.__all__
    module = ModuleType(f"{parent_name}.{own}", source.__doc__)
    module.__spec__ = ModuleSpec(module.__name__, None, is_package=True)
    module.__path__ = []
    module.__package__ = module.__name__
    module.__all__ = list(listed)
    for name in listed:
        value = getattr(source, name)
        setattr(module, name, value)
        if _is_of(value, home.__name__):
            set_module(module.__name__, value)
    sys.modules[module.__name__] = module
    if not hasattr(sys.modules[parent_name], own):  # a function may have the name of its file
        setattr(sys.modules[parent_name], own, module)


def _is_of(value, package):
    """Is it a class or function of the package or a private file of it, not of another path yet?"""
    home = getattr(value, "__module__", None)
    if not isinstance(value, (type, FunctionType)) or not isinstance(home, str):
        return False
    rest = home.removeprefix(package)
    return rest in ("", ".modules") or (rest != home and rest.startswith("._"))


def copy_modules(package: str, home: str, *more: str) -> None:
    """Let paths below `package` give what the same paths below another package give.

    Args:
        more: paths below `home` that importing it does not import.
    """
    for name in (home, *(f"{home}.{path}" for path in more)):
        importlib.import_module(name)
    inside = [name for name in list(sys.modules) if name.startswith(f"{home}.")]
    paths = [name.removeprefix(f"{home}.") for name in sorted(inside)]
    add_modules(
        package,
        {
            path: f"{home.removeprefix('rushlight.')}.{path}"
            for path in paths
            if not any(part.startswith("_") for part in path.split("."))
            and f"{package}.{path}" not in sys.modules
            and hasattr(sys.modules[f"{home}.{path}"], "__all__")
        },
    )
