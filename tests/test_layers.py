"""The layers of the source: who may include or import whom."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ["core", "math", "kernels", "tensor", "autograd", "dispatch", "bind"]
SOURCES = sorted(p for p in (ROOT / "src").rglob("*") if p.suffix in (".cpp", ".h"))
MODULES = sorted((ROOT / "python" / "rushlight").rglob("*.py"))


def relative(path):
    return str(path.relative_to(ROOT))


def includes(path):
    return re.findall(r'^\s*#\s*include\s*[<"]([^">]+)[">]', path.read_text(), re.MULTILINE)


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_a_source_includes_only_lower_layers(path):
    layer = path.relative_to(ROOT / "src").parts[0]
    assert layer in LAYERS, f"src/{layer} is not a layer"
    allowed = LAYERS[: LAYERS.index(layer) + 1]
    for name in includes(path):
        folder = name.split("/")[0]
        if folder in LAYERS:
            assert folder in allowed, f"{layer} must not include {name}"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_only_bind_knows_python(path):
    if path.relative_to(ROOT / "src").parts[0] != "bind":
        assert "Python.h" not in includes(path)


def imports(path):
    """Dotted names of what a module imports, `from . import x` resolved."""
    package = ["rushlight", *path.relative_to(ROOT / "python" / "rushlight").parent.parts]
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*base, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def is_in(name, package):
    return name == package or name.startswith(package + ".")


# Folder of python/rushlight -> what it must not import.
FORBIDDEN = {
    "nn": ["rushlight._C", "rushlight.optim"],
    "optim": ["rushlight._C", "rushlight.nn"],
    "utils/data": ["rushlight._C"],
    "": ["gen", "ops", "torch"],
}


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_a_module_imports_only_what_its_layer_may(path):
    place = path.relative_to(ROOT / "python" / "rushlight").as_posix()
    forbidden = [
        package
        for folder, packages in FORBIDDEN.items()
        if not folder or place.startswith(folder + "/")
        for package in packages
    ]
    wrong = {name for name in imports(path) for package in forbidden if is_in(name, package)}
    assert not wrong
