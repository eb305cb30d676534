"""The type stubs are golden files, made of the op table: a change of the public surface shows in
review as a diff. What is written by hand beside them is compared with the module.
"""

import ast
import types
from pathlib import Path

import pytest

import rushlight
from gen.__main__ import read_tables
from gen.root_stub import write_root_stub
from gen.stubs import write_stubs

PACKAGE = Path(rushlight.__file__).parent
# Of Python's protocols, those that every class has or that only Python itself calls.


class Plain:
    """Has what the interpreter gives to every class, of which each version adds some."""


# A class has __annotations__ as soon as anybody has asked for them; Python 3.12 shows the slots of
# buffers, whose types are those of collections.abc.Buffer.
OF_EVERY_OBJECT = {*dir(Plain), "__annotations__", "__buffer__", "__release_buffer__"}


@pytest.fixture(scope="module")
def stubs():
    return write_stubs(read_tables())


def test_stubs_are_the_golden_ones(stubs):
    kept = {path.name: path.read_text() for path in (PACKAGE / "_C").glob("_[a-z]*.pyi")}
    assert set(kept) == set(stubs), "run `make stubs`"
    for name, text in stubs.items():
        assert kept[name].splitlines() == text.splitlines(), (
            f"{name} changed: run `make stubs` and review"
        )


def test_the_root_stub_is_the_golden_one(stubs):
    kept = (PACKAGE / "__init__.pyi").read_text()
    assert kept == write_root_stub(PACKAGE, stubs), "run `make stubs` and review"


def test_stubs_are_python(stubs):
    for name, text in stubs.items():
        ast.parse(text, name)


def names_in(body):
    """What a stub's module or class declares."""
    found = set()
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname for alias in node.names if alias.asname}
    return found


def class_body(name, path):
    (found,) = (
        node
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    return found.body


def test_the_stub_of_the_tensor_names_what_a_tensor_has():
    declared = names_in(class_body("Tensor", PACKAGE / "_C" / "__init__.pyi"))
    declared |= names_in(class_body("TensorMethods", PACKAGE / "_C" / "_tensor.pyi"))
    there = set(dir(rushlight.Tensor))
    public = {name for name in there if not name.startswith("_")}
    assert public - declared == set()
    assert {name for name in declared if not name.startswith("_")} - there == set()
    protocols = {name for name in there if name.startswith("__")} - OF_EVERY_OBJECT
    assert protocols - declared == set()


def test_the_stub_of_the_package_names_what_the_package_has():
    declared = names_in(ast.parse((PACKAGE / "__init__.pyi").read_text()).body)
    there = {name for name in dir(rushlight) if not name.startswith("_")}
    missing = there - declared - {"importlib", "os"}
    # A module that some other test has imported is an attribute from then on.
    assert not {n for n in missing if not isinstance(getattr(rushlight, n), types.ModuleType)}
    assert {name for name in declared if not name.startswith("_")} - there == set()
