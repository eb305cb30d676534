"""The public surface of the table is a golden file: a change of it shows in review as a diff."""

import ast
from pathlib import Path

import pytest

from gen.__main__ import read_tables
from gen.stubs import write_stubs

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def stubs():
    return write_stubs(read_tables())


def test_stubs_are_the_golden_ones(stubs):
    kept = {path.name: path.read_text() for path in GOLDEN.glob("*.pyi")}
    assert set(kept) == set(stubs), "run `make stubs`"
    for name, text in stubs.items():
        assert kept[name].splitlines() == text.splitlines(), (
            f"{name} changed: run `make stubs` and review"
        )


def test_stubs_are_python(stubs):
    for name, text in stubs.items():
        ast.parse(text, name)
