"""The layers of the source: who may include or import whom."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = "core math kernels tensor autograd dispatch program api command bind".split()
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


# What else asks the processor itself: which instructions it has, its counter, modes and fences.
INSTRUCTIONS = ("core/denormals.h", "core/processor.h", "kernels/cpu/isa.cpp",
                "kernels/cpu/isa.h", "kernels/cpu/simd.h", "kernels/cpu/stream.h",
                "kernels/cpu/tile_registers.h")  # fmt: skip
INSTRUCTION = re.compile(
    r"\b_mm\d*_|\b(immintrin|xmmintrin|arm_neon)\b|__builtin_(ia32|cpu)_|\basm\b|\b__asm__\b"
    r"|\b__(AVX|SSE|FMA|F16C|ARM|x86_64|aarch64)\w*"
)


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_one_place_names_instructions(path):
    name = path.relative_to(ROOT / "src").as_posix()
    found = INSTRUCTION.search(path.read_text())
    if name in INSTRUCTIONS:
        assert found, f"{name} need not be listed"
    elif name != "math/arithmetic.h" and "/cuda/" not in name:
        assert not found, f"{name} names {found[0]}; simd.h has portable forms"


LAYOUT_AND_LAZINESS = [
    p
    for p in SOURCES
    if p.stem in ("leased_buffer", "physical_layout", "lazy_expression") or p.name == "norm.cpp"
]


# Public memory formats and their strides are no layout behind the strides.
CORE = [p for p in SOURCES if p.parent.name == "core" and p.stem not in ("memory_format", "shape")]


@pytest.mark.parametrize("path", CORE, ids=relative)
def test_core_names_no_layout_and_no_lazy_expression(path):
    found = re.search(r"channels_last|physical_?layout\w|lazy|formula", path.read_text(), re.I)
    assert not found, f"{relative(path)} names {found.group()}: docs/layout_and_laziness.md"


@pytest.mark.parametrize("path", LAYOUT_AND_LAZINESS, ids=relative)
def test_ownership_of_buffers_is_no_reference_count(path):
    """Buffers have an owner and leases: another handle on a tensor must change nothing."""
    assert not re.search(r"\brefs\b|use_count", path.read_text())


def run_nodes(node):
    """The nodes of a program that run: not those of `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from run_nodes(child)


def imports(path):
    """Dotted names of what a module imports, `from . import x` resolved."""
    package = ["rushlight", *path.relative_to(ROOT / "python" / "rushlight").parent.parts]
    for node in run_nodes(ast.parse(path.read_text(), str(path))):
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


def test_nothing_that_functional_imports_imports_it():
    home = ROOT / "python" / "rushlight" / "nn"
    reached, waiting = set(), [home / "functional.py"]
    while waiting:
        path = waiting.pop()
        for name in imports(path):
            file = home / f"{name.removeprefix('rushlight.nn.')}.py"
            if is_in(name, "rushlight.nn") and file.exists() and file not in reached:
                reached.add(file)
                waiting.append(file)
    assert home / "_losses.py" in reached
    assert home / "functional.py" not in reached
