"""What runs the suites of libraries: the table in README.md, and how outcomes are compared."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from ecosystem import report, suites, table  # noqa: E402
from ecosystem.docstrings import compare, same  # noqa: E402
from ecosystem.libraries import Library  # noqa: E402
from ecosystem.torch_suites import ALL  # noqa: E402


def test_the_table_is_that_of_the_results():
    text = table.README.read_text()
    assert table.with_table(text) == text, "make test-ecosystem writes it"
    names = {library.name: library.version for library in ALL}
    for name, version, ours, reference in table.results():
        assert names[name] == version and 0 <= ours <= reference > 0


def test_libraries_are_named_once():
    assert len({library.name for library in ALL}) == len(ALL) >= 40
    for library in ALL:
        assert bool(library.repository) == bool(library.commit)


@pytest.fixture
def library(tmp_path, monkeypatch):
    monkeypatch.setattr(suites, "ROOT", tmp_path)
    (tmp_path / "outcomes").mkdir()
    one = Library("one", "1.0")
    suites.record_of(one, "torch").write_text(
        '{"test": "a.py::x", "outcome": "passed"}\n{"test": "a.py::y", "outcome": "passed"}\n'
        '{"test": "a.py::y", "outcome": "failed", "message": "", "at": ""}\n'
        '{"test": "a.py::z", "outcome": "passed"}\n{"test": "b.py::z", "outcome": "passed"}\n'
    )
    suites.record_of(one, "rushlight").write_text(
        '{"test": "a.py::x", "outcome": "passed"}\n'
        '{"test": "a.py::z", "outcome": "failed", "message": "wrong: 12", "at": "f.py:1"}\n'
        '{"test": "b.py", "outcome": "error", "message": "wrong: 34", "at": ""}\n'
    )
    return one


def test_outcomes(library):
    assert report.counts(library) == (3, 1), "what fails in a later phase has not passed"
    assert list(report.failures(library)) == [
        ("a.py::z", "wrong: 12", "f.py:1"), ("b.py::z", "wrong: 34", ""),
    ]  # fmt: skip
    ((text, members),) = report.classes([library])
    assert text == "wrong: N" and len(members) == 2


def test_examples_are_compared_by_their_values():
    assert same("tensor([1.0000, 2.0000])", "tensor([1.0001,  2.0000])")
    assert not same("tensor([1.0, 2.0])", "tensor([1.1, 2.0])")
    assert not same("tensor([1.0])", "tensor([1.0], dtype=torch.float64)")
    assert same("<function f at 0x12>", "<function f at 0x34>")
    good, bad = [["value", "1"]], [["error", "TypeError", "no"]]
    assert compare((good, {}), (bad, {})) == "TypeError: no"
    assert compare((bad, {}), (good, {})) is None, "torch has no value for it"
    more = ([*bad, *good], {"x": "1"})
    assert compare(more, ([*good, *bad], {})) is None, "it follows from what torch cannot run"
    assert compare(more, ([*bad, *bad], {})) == "TypeError: no"
    assert same("<built-in function dot>", "<built-in method dot of type object at 0x1>")
    assert compare((good, {"x": "1"}), (good, {"x": "2"})).startswith("x differs")


def test_a_library_that_was_not_run_keeps_its_row(library, tmp_path, monkeypatch):
    monkeypatch.setattr(table, "RESULTS", tmp_path / "results.tsv")
    monkeypatch.setattr(table, "README", tmp_path / "README.md")
    table.README.write_text(f"{table.BEGIN}{table.END}")
    head = "library\tversion\trushlight\ttorch\n"
    table.RESULTS.write_text(f"{head}one\t1.0\t3\t3\nother\t2.0\t5\t6\nold\t1.0\t1\t1\n")
    table.write([library, Library("other", "2.0"), Library("old", "1.1")])
    assert list(table.results()) == [("one", "1.0", 1, 3), ("other", "2.0", 5, 6)]
    assert "other 2.0 | 5 of 6" in table.README.read_text()
