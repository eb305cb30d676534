"""What the documentation shows, runs: examples in docstrings, and Python blocks in Markdown."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import rushlight

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def modules():
    yield "rushlight"
    for info in pkgutil.walk_packages(rushlight.__path__, "rushlight."):
        if not info.name.endswith("__main__"):
            yield info.name


def documented(module):
    """(name, object) of the functions and classes that a module's own table of names offers."""
    for name in getattr(module, "__all__", None) or vars(module):
        value = getattr(module, name)
        if callable(value) and not name.startswith("_"):
            yield f"{module.__name__}.{name}", value


def docstrings_with_examples():
    """(name, docstring) of every public function, class and method that shows an example."""
    seen = set()
    for module_name in modules():
        for name, value in documented(importlib.import_module(module_name)):
            if id(value) in seen:
                continue
            seen.add(id(value))
            members = vars(value).items() if isinstance(value, type) else ()
            for target, member in [(name, value), *((f"{name}.{k}", m) for k, m in members)]:
                text = getattr(member, "__doc__", None)
                if isinstance(text, str) and ">>>" in text:
                    yield target, text


DOCSTRINGS = dict(docstrings_with_examples())


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_docstring_examples(name):
    # `torch` too, so that a docstring reads as the programs that users have.
    names = {"torch": rushlight, "rushlight": rushlight, "nn": rushlight.nn}
    test = doctest.DocTestParser().get_doctest(DOCSTRINGS[name], names, name, None, None)
    report = []
    failed, _ = doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=report.append)
    assert not failed, "".join(report)


def blocks(path):
    """Python blocks of a page; those that go on from one another share their names."""
    return re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_blocks_of_pages_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": path.stem}
    for block in blocks(path):
        exec(compile(block, str(path), "exec"), names)
    names.clear()
