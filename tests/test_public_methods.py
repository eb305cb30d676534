"""Public classes have the public attributes of torch's: methods, properties, what instances hold.

What `ABSENT` names has a reason not to be there; an entry that is no longer needed fails too.
"""

import ast
import enum
import functools
import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import rushlight

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")

# Namespaces that are compared another time.
FOR_LATER = ("torch.ao", "torch.distributed", "torch.fx.experimental")
# Programs of their own, and what needs other libraries or compilers.
NOT_WALKED = ("__main__", "_internal", "bottleneck", "contrib", "tensorboard")

UNKNOWN_SIZES = "no number is one: all sizes are known"
KINETO = "a configuration of torch's own profiling library"
NO_OBJECTS = "no object of a compiled class can be made here, so there is nothing to ask of one"
# Class: reason, and the attributes.
ABSENT = {
    "torch.ScriptObject": (NO_OBJECTS, "getattr hasattr setattr"),
    "torch.SymFloat": (UNKNOWN_SIZES, "as_integer_ratio conjugate hex is_integer"),
    "torch.SymInt": (UNKNOWN_SIZES, "as_integer_ratio bit_length conjugate"),
    "torch.autograd.profiler.profile": (KINETO, "config"),
    "torch.autograd.profiler_legacy.profile": (KINETO, "config"),
}


def modules():
    """The names of torch's public modules that are here too, without "torch"."""
    yield ""
    for module in pkgutil.walk_packages(rushlight.__path__, "rushlight."):
        name = module.name.removeprefix("rushlight")
        parts = name.split(".")[1:]
        if any(part.startswith("_") or part in NOT_WALKED for part in parts):
            continue
        if not f"torch{name}".startswith(FOR_LATER):
            yield name


def found_in(home, name):
    try:
        return getattr(home, name, None)
    except Exception:  # of what is not built
        return None


def classes():
    """Yield (name, ours, torch's) of all public classes."""
    seen = set()
    for module_name in modules():
        try:
            theirs = importlib.import_module(f"torch{module_name}")
            ours = importlib.import_module(f"rushlight{module_name}")
        except (ImportError, RuntimeError):
            continue
        listed = getattr(theirs, "__all__", None)
        for name in listed or [n for n in dir(theirs) if not n.startswith("_")]:
            kind = found_in(theirs, name)
            if not inspect.isclass(kind) or kind in seen:
                continue
            seen.add(kind)
            home, here = str(kind.__module__), found_in(ours, name)
            is_compared = home.startswith("torch") and not home.startswith(FOR_LATER)
            if is_compared and inspect.isclass(here):
                yield f"torch{module_name}.{name}", here, kind


@functools.cache
def of_instances(cls):
    """What a class says that its instances have: in annotations, or as `self.name = ...`."""
    names = set(cls.__dict__.get("__annotations__", ()))
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return names
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                names.add(node.attr)
    return names


def has(cls, name):
    if issubclass(cls, enum.Enum) and name in ("name", "value"):
        return True
    return hasattr(cls, name) or any(name in of_instances(base) for base in cls.__mro__)


def is_refused(cls):
    """Does the class only say why there are no instances of it?"""
    return str(cls.__doc__).startswith(("Raises NotImplementedError", "Needs a device"))


def compare():
    """How many classes there are, and what is missing of which."""
    missing, compared = {}, list(classes())
    for name, ours, theirs in compared:
        if not is_refused(ours):
            names = [n for n in dir(theirs) if not n.startswith("_") and not has(ours, n)]
            if names:
                missing[name] = " ".join(names)
    return len(compared), missing


def test_public_attributes():
    # In a process of its own, which imports all of torch.
    code = (
        f"import json, sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import test_public_methods as t; print(json.dumps(t.compare()))"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    count, missing = json.loads(found.splitlines()[-1])
    assert count > 700
    known = {name: attributes for name, (_, attributes) in ABSENT.items()}
    assert {n: a for n, a in missing.items() if known.get(n) != a} == {}
    assert {n: a for n, a in known.items() if missing.get(n) != a} == {}
