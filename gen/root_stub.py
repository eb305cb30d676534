"""`rushlight/__init__.pyi`: what the package's own lists of names, and the table, put there.

rushlight's `__init__.py` fills its namespace from the core and loads modules on first use, which no
type checker follows; so the same lists are written out for them.
"""

import ast

_LITERAL = ("_SUBPACKAGES", "_ELSEWHERE")
# What the package's own files take from the core by way of the package.
_PRIVATE = ("_ModuleBase", "_disabled_torch_function_impl")
# What `_C/__init__.pyi` declares for itself.
_OF_CORE_ALONE = {"Node", "Number", "TensorBase"}


def _lists(source):
    """The literal lists of names in `__init__.py`."""
    return {
        target.id: ast.literal_eval(node.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in _LITERAL
    }


def _declared(source):
    """The public names that a stub declares."""
    names = []
    for node in ast.parse(source).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            names.append(node.name)
        elif isinstance(node, ast.AnnAssign):
            names.append(node.target.id)
    return [name for name in dict.fromkeys(names) if not name.startswith("_")]


def _import(module, names):
    lines = [f"from {module} import ("]
    lines += [f"    {name} as {name}," for name in sorted(names)]
    return [*lines, ")"]


def _written(package, module):
    """The names that a file of the package defines or imports where a type checker sees them."""
    path = package / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if path.with_suffix(".pyi").exists():
        path = path.with_suffix(".pyi")
    found, nodes = set(), [ast.parse(path.read_text())]
    for node in nodes:  # not what stands in functions and classes
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def write_root_stub(package, stubs):
    """The text, from the folder of the package and the stubs that were made of the table."""
    lists = _lists((package / "__init__.py").read_text())
    elsewhere = {name for names in lists["_ELSEWHERE"].values() for name in names}
    core = _declared((package / "_C" / "__init__.pyi").read_text())
    taken = elsewhere | _OF_CORE_ALONE
    lines = [
        '"""Made by gen/root_stub.py: run `make stubs` after changing a row or __init__.py."""',
        "from math import e as e, inf as inf, nan as nan, pi as pi",
        "from types import ModuleType",
        "from typing import Any",
        "",
        *_import("rushlight", lists["_SUBPACKAGES"]),
        *_import("rushlight._C", [*(name for name in core if name not in taken), *_PRIVATE]),
        *_import(
            "rushlight._C._torch",
            [name for name in _declared(stubs["_torch.pyi"]) if name not in taken],
        ),
    ]
    made_at_run_time = []
    for module, names in sorted(lists["_ELSEWHERE"].items()):
        written = _written(package, module)
        lines += _import(f"rushlight.{module}", [name for name in names if name in written])
        made_at_run_time += [name for name in names if name not in written]
    lines += [
        "from rushlight._version import __version__ as __version__",
        "",
        "newaxis: None",
        "legacy_contiguous_format: memory_format",
        *(f"{name}: Any" for name in sorted(made_at_run_time)),
        "",
        "def as_torch() -> ModuleType: ...",
    ]
    return "\n".join(lines) + "\n"
