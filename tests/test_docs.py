"""What the documentation shows, runs: examples in docstrings, and Python blocks in Markdown."""

import doctest
import importlib
import importlib.util
import pkgutil
import re
from pathlib import Path

import pytest

import rushlight

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def modules():
    without = () if importlib.util.find_spec("tensorboard") else ("rushlight.utils.tensorboard",)
    yield "rushlight"
    for info in pkgutil.walk_packages(rushlight.__path__, "rushlight."):
        if not info.name.endswith("__main__") and info.name not in without:
            yield info.name


def documented(module):
    """(name, object) of the functions and classes that a module's own table of names offers."""
    for name in getattr(module, "__all__", None) or vars(module):
        value = getattr(module, name)
        home = getattr(value, "__module__", None) or ""
        if callable(value) and home.startswith("rushlight") and not name.startswith("_"):
            yield f"{module.__name__}.{name}", value


def docstrings_with_examples():
    """(name, module, docstring) of what shows an example: public functions, classes, methods."""
    seen = set()
    for module_name in modules():
        for name, value in documented(importlib.import_module(module_name)):
            if id(value) in seen:
                continue
            seen.add(id(value))
            members = vars(value).items() if isinstance(value, type) else ()
            for target, member in [(name, value), *((f"{name}.{k}", m) for k, m in members)]:
                text = getattr(member, "__doc__", None)
                if isinstance(text, str) and ">>>" in text and not isinstance(member, (int, str)):
                    yield target, module_name, text


def names_for(module_name):
    """What an example may name: its own module's names, the library, and some stock objects."""
    images, labels = rushlight.rand(6, 1, 8, 8), rushlight.arange(6)
    return vars(importlib.import_module(module_name)) | {
        "torch": rushlight,  # a docstring reads as the programs that users have
        "rushlight": rushlight,
        "nn": rushlight.nn,
        "x": rushlight.linspace(0, 1, 4).requires_grad_(),
        "model": rushlight.nn.Linear(4, 2),
        "digits": rushlight.utils.data.TensorDataset(images, labels),
        "train_on": lambda images, labels: None,
    }


@pytest.mark.parametrize(
    ("module_name", "text"),
    [pytest.param(module, text, id=name) for name, module, text in docstrings_with_examples()],
)
def test_docstring_examples(module_name, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    test = doctest.DocTestParser().get_doctest(text, names_for(module_name), "example", None, None)
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
