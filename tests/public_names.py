"""All that a program can reach by a public name, for tests of every class and function.

python tests/public_names.py            writes golden/modules.txt anew
python tests/public_names.py --print    shows what it would be
"""

import importlib
import pkgutil
import sys
import types
import warnings
from pathlib import Path

import rushlight
from rushlight._set_module import set_module

GOLDEN = Path(__file__).with_name("golden") / "modules.txt"
# Programs of their own, and what needs another library.
_LEFT_OUT = ("__main__", "pytest_plugin", "tensorboard")


def modules():
    """The names of the public modules, without "rushlight"."""
    found = [""]
    for module in pkgutil.walk_packages(rushlight.__path__, "rushlight."):
        parts = module.name.split(".")[1:]
        if not any(part.startswith("_") or part in _LEFT_OUT for part in parts):
            found.append("." + ".".join(parts))
    return sorted(found)


def public_objects():
    """Yield (module without "rushlight", name, object) of all public classes and functions."""
    for module_name in modules():
        module = importlib.import_module(f"rushlight{module_name}")
        for name in sorted(dir(module)):
            if name.startswith("_") or name in _LEFT_OUT:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of names that are old
                value = getattr(module, name)
            if value is set_module or isinstance(value, types.ModuleType):
                continue
            if getattr(value, "__module__", None) == "rushlight._ignored":
                continue  # how the library warns, which many modules import
            if callable(value):
                yield module_name, name, value


def homes():
    """Which classes and functions say that they live in which module, as text."""
    told = {}
    for module_name, name, value in public_objects():
        home = getattr(value, "__module__", None)
        if isinstance(home, str) and home.partition(".")[0] == "rushlight":
            told.setdefault(home, set()).add(f"{module_name}.{name}".lstrip("."))
    lines = []
    for home in sorted(told):
        lines += [home, *(f"    {name}" for name in sorted(told[home]))]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--print" in sys.argv:
        print(homes(), end="")
    else:
        GOLDEN.write_text(homes())
