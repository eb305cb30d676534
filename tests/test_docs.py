"""What the documentation shows, runs: examples in docstrings, and Python blocks in Markdown."""

import ast
import builtins
import doctest
import importlib
import importlib.util
import inspect
import os
import pkgutil
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
import sanitizers

import rushlight
from gen import bindings, cxx, loops
from gen.__main__ import read_tables
from gen.row import Op
from ops import schema
from ops.arguments import ARGUMENTS, SHAPES
from ops.examples import EXAMPLES

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(p for f in ("docs", "examples", "licenses") for p in (ROOT / f).rglob("*.md")),
    ]
)
OF_THE_LIVE_SITE = ROOT / "docs" / "live"  # whose programs draw, and read digits
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
        text = importlib.import_module(module_name).__doc__ or ""
        if ">>>" in text:
            yield module_name, module_name, text
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
    names = dict(vars(importlib.import_module(module_name)))
    if module_name == "rushlight":  # whose `bool` and `sum` are not what a program means by these
        names |= vars(builtins)
    return names | {
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
    [
        pytest.param(
            module,
            text,
            id=name,
            marks=[sanitizers.no_compilers] if name.endswith("cpp_extension.load_inline") else [],
        )
        for name, module, text in docstrings_with_examples()
    ],
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
    monkeypatch.setattr(schema, "TABLE", [])  # not that of the build
    if path.parent == OF_THE_LIVE_SITE:
        put_in_a_page(tmp_path, monkeypatch)
    names = {"__name__": path.stem}
    if any("as_torch()" in block for block in blocks(path)):  # which changes the process
        program = tmp_path / f"{path.stem}_blocks.py"
        program.write_text("\n".join(blocks(path)))
        environment = {**os.environ, "PYTHONPATH": str(Path(rushlight.__file__).parent.parent)}
        subprocess.run([sys.executable, str(program)], env=environment, check=True)
        return
    for block in blocks(path):
        exec(compile(block, str(path), "exec"), names)
    names.clear()


def put_in_a_page(folder, monkeypatch):
    """What a program of the live site finds: the page, which shows nothing here, and a file."""
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(str(OF_THE_LIVE_SITE))
    page = types.ModuleType("live_page")
    page.show = lambda text: None
    monkeypatch.setitem(sys.modules, "live_page", page)
    digits = OF_THE_LIVE_SITE / "digits.py"
    subprocess.run([sys.executable, str(digits), str(folder / "digits.bin")], check=True)


def fences(path):
    """(language, text) of all blocks of a page, however they are indented."""
    return re.findall(r"^ *```([^\n`]*)\n(.*?)^ *```$", path.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_no_block_of_a_page_is_left_out(path):
    """Blocks are Python, which is run, shell commands, which must exist, or drawings."""
    assert path.read_text().count("```") == 2 * len(fences(path))
    for language, text in fences(path):
        assert language in ("python", "sh", "text"), f"{path.name}: a block of {language!r}"
        if language == "sh":
            for line in text.splitlines():
                check_command(line.partition(" #")[0].split())


def check_command(words):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    if words[:1] == ["make"]:
        named = [word for word in words[1:] if "=" not in word]
        assert named and set(named) <= set(targets), words
    elif words[:2] == ["python", "-m"]:
        place = words[2].replace(".", "/")
        roots = (ROOT, ROOT / "python")
        assert any(list(root.glob(f"{place}*")) for root in roots), words
    elif words[0].endswith("rushlight-run"):
        source = (ROOT / "src" / "command" / "rushlight_run.cpp").read_text()
        assert all(f'"{word}"' in source for word in words if word.startswith("--")), words
    else:
        assert words[:1] in (["pytest"], ["pip"], ["cmake"], ["python"]), words


def test_the_guide_has_rows():
    assert len(blocks(ROOT / "CONTRIBUTING.md")) == 2


GUIDE = [*zip(("unary", "shape"), blocks(ROOT / "CONTRIBUTING.md"))]


@pytest.mark.parametrize("table, block", GUIDE, ids=["tanh", "fliplr"])
def test_a_row_of_the_guide_is_that_of_the_table(table, block, monkeypatch):
    tables = read_tables()
    monkeypatch.setattr(schema, "TABLE", [])
    exec(compile(block, "CONTRIBUTING.md", "exec"), {})
    (row,) = schema.TABLE
    shown = Op(row, table)
    (built,) = [op for op in tables[table] if op.full_name == shown.full_name]
    assert row == built.row
    signatures = {op.name: [op.signature] for ops in tables.values() for op in ops}
    for write in (
        lambda op: loops.write(table, [op]) if op.kernel else op.name,
        lambda op: cxx.write_ops(table, {table: [op]}, signatures),
        lambda op: bindings.write_bindings(table, {table: [op]}),
    ):
        text = write(shown)
        assert shown.name in text and text == write(built)


def test_every_example_of_the_package_is_run():
    """Also of private modules and names: an example that nobody runs is soon wrong."""
    run = {inspect.cleandoc(text) for _, _, text in docstrings_with_examples()}
    left_out = []
    for path in sorted((ROOT / "python" / "rushlight").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                text = ast.get_docstring(node) or ""
                if ">>>" in text and text not in run and "tensorboard" not in path.parts:
                    left_out.append(f"{path.name}: {getattr(node, 'name', 'the module')}")
    assert not left_out, left_out


def test_every_function_of_the_table_is_documented():
    for _, names, members in bindings.groups_of(read_tables()):
        for target in names:
            if target.rpartition(".")[2].startswith("_"):
                continue
            text = bindings._doc(members, target)
            takes = max(len(op.signature.parameters) for op, _ in members)
            assert "\nReturns:\n" in text, target
            assert "\nArgs:\n" in text or takes <= target.startswith("Tensor."), target
            is_inplace = members[0][1]
            # An operation for a GPU alone has nothing to show here.
            assert "\nExample:\n" in text or is_inplace or target == "Tensor.cuda", target


def test_what_is_said_of_arguments_is_said_of_some():
    used = set()
    for ops in read_tables().values():
        for op in ops:
            for p in op.signature.parameters:
                keys = (f"{op.name}.{p.name}", f"{op.table}.{p.name}", p.name)
                used.add(next((key for key in keys if key in ARGUMENTS), None))
    assert set(ARGUMENTS) - used == {"out", "out (several)"}
    names = {op.name for ops in read_tables().values() for op in ops}
    assert set(EXAMPLES) <= names and set(SHAPES) <= names


def test_benches_find_what_they_import():
    """Most need torch, and are run by hand alone."""
    for path in sorted((ROOT / "bench").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bench."):
                source = (ROOT / f"{node.module.replace('.', '/')}.py").read_text()
                defined = re.findall(r"^(?:def |class )?(\w+)(?:\(|:| =)", source, re.MULTILINE)
                missing = {alias.name for alias in node.names} - set(defined)
                assert not missing, f"{path.name}: {node.module} has no {missing}"
