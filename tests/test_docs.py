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


def examples_in(name, value):
    parser = doctest.DocTestParser()
    targets = [(name, value)]
    if isinstance(value, type):
        targets += [(f"{name}.{key}", member) for key, member in vars(value).items()]
    for target, member in targets:
        text = getattr(member, "__doc__", None)
        if isinstance(text, str) and ">>>" in text:
            # `torch`, so that a docstring reads as the programs that users have.
            names = {"torch": rushlight, "rushlight": rushlight, "nn": rushlight.nn}
            yield parser.get_doctest(text, names, target, None, None)


def collect():
    seen, found = set(), []
    for module_name in modules():
        for name, value in documented(importlib.import_module(module_name)):
            if id(value) not in seen:
                seen.add(id(value))
                found += examples_in(name, value)
    return found


@pytest.mark.parametrize("test", collect(), ids=lambda test: test.name)
def test_docstring_examples(test):
    report = []
    rushlight.manual_seed(0)
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
