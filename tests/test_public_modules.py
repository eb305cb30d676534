"""Public modules of torch 2.13 import in rushlight, with the names of their `__all__`."""

import importlib
import pkgutil
import warnings

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

ROOTS = ("fx", "export")

# Left out, with the reason: a module stands for what is below it too.
LEFT_OUT = {
    "fx.passes.tests": "torch's own tests",
}


def public_modules(root):
    """The names of a package and its public modules, without "torch."."""
    package = importlib.import_module(f"torch.{root}")
    yield root
    for module in pkgutil.walk_packages(package.__path__, f"torch.{root}.", onerror=lambda _: None):
        name = module.name.removeprefix("torch.")
        if not any(part.startswith("_") for part in name.split(".")):
            yield name


def is_left_out(name):
    return any(name == known or name.startswith(f"{known}.") for known in LEFT_OUT)


@pytest.mark.parametrize("root", ROOTS)
def test_public_modules_have_their_names(root):
    missing = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in public_modules(root):
            if is_left_out(name):
                continue
            theirs = importlib.import_module(f"torch.{name}")
            try:
                ours = importlib.import_module(f"rushlight.{name}")
            except ModuleNotFoundError as error:
                missing[name] = str(error)
                continue
            absent = [n for n in getattr(theirs, "__all__", ()) if not hasattr(ours, n)]
            if absent:
                missing[name] = absent
    assert not missing


def test_what_is_left_out_is_there():
    for name in LEFT_OUT:
        importlib.import_module(f"torch.{name}")
