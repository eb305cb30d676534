"""How much is compiled again for a new row or kernel, by the include graph."""

import copy
import re
from pathlib import Path

import pytest

from gen.__main__ import read_tables, texts_of
from gen.row import Op
from ops import schema
from ops.kernels import KERNELS

ROOT = Path(__file__).parent.parent
INSTRUCTION_SETS = 3
MOST_OBJECTS = 15
# What src/dispatch itself calls; new rows belong to other tables.
BASIC = "basic"
IN_ONE_LOOP_WITH_THOSE = {"isposinf", "minimum"}


def sources():
    """The text of every source, by the name under which others include it.

    But of those of src/api: that library is built to be installed, not in place.
    """
    paths = [p for p in (ROOT / "src").rglob("*") if p.suffix in (".cpp", ".h")]
    paths = [p for p in paths if "api" not in p.parts]
    found = {p.relative_to(ROOT / "src").as_posix(): p.read_text() for p in paths}
    return found | texts_of(read_tables())


def including(sources):
    """For each header, who includes it."""
    found = {name: set() for name in sources}
    for name, text in sources.items():
        for header in re.findall(r'^#include "([^"]+)"', text, re.MULTILINE):
            if header in found:
                found[header].add(name)
    return found


def objects(changed, include_graph):
    """The objects that changed files are compiled into, themselves or as headers."""
    reached, waiting = set(), set(changed)
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting |= include_graph[name] - reached
    compiled = [name for name in reached if name.endswith(".cpp")]
    return [
        name
        for name in compiled
        for _ in range(INSTRUCTION_SETS if name.endswith(".isa.cpp") else 1)
    ]


def with_new_row(table):
    schema.TABLE.clear()
    schema.elementwise(
        "brand_new(input: Tensor)", "exp(input)", result="float", inplace=True,
        dtypes=schema.FLOATING, doc="New.", grad={"input": "grad * exp(input)"},
    )  # fmt: skip
    tables = dict(read_tables())
    with_it = copy.copy(tables[table])
    with_it.append(Op(schema.TABLE[0], table))
    return tables | {table: with_it}


@pytest.fixture(scope="module")
def before():
    return sources()


@pytest.fixture(scope="module")
def include_graph(before):
    return including(before)


TABLES = [
    name
    for name, ops in read_tables().items()
    if any(op.row.kind == "elementwise" for op in ops) and name != BASIC
]


@pytest.mark.parametrize("table", TABLES)
def test_a_new_elementwise_row_compiles_few_objects(table, before, include_graph):
    after = texts_of(with_new_row(table))
    changed = [name for name, text in after.items() if before[name] != text]
    assert f"ops_{table}.h" in changed and f"kernels/loops_{table}.isa.cpp" in changed
    compiled = objects(changed, include_graph)
    assert len(compiled) <= MOST_OBJECTS, sorted(compiled)


@pytest.mark.parametrize("header", KERNELS)
def test_a_new_kernel_compiles_few_objects(header, include_graph):
    """Of dispatch and bind: a header of src/kernels also compiles its kernels again."""
    changed = [f"kernels/table_{header}.h", f"launch_{header}.h", "kernels/table.h"]
    compiled = objects(changed, include_graph)
    assert len(compiled) <= MOST_OBJECTS, sorted(compiled)


def test_no_source_includes_all(include_graph):
    assert not include_graph["ops.h"]


def test_what_no_source_calls_is_not_basic(before):
    """Each basic op, or a form of it, is called by hand-written C++, is an operator, or stands in
    the body of a row or of a function that rows share."""
    texts = [text for name, text in before.items() if name.startswith(("dispatch/", "bind/"))]
    rows = [f.row for ops in read_tables().values() for f in [*ops, *ops.functions]]
    texts += [row.body for row in rows if row.body]
    written = "\n".join(texts)
    words = set(re.findall(r"\b(\w+)\(", written))
    idle = {
        op.name
        for op in read_tables()[BASIC]
        if not op.row.slot and not {op.cxx_name, f"{op.name}_"} & words
    }
    assert idle <= IN_ONE_LOOP_WITH_THOSE
