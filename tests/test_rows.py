"""How much of an op follows from its row: the share that needs no C++ of its own, and bodies."""

import re
from collections import defaultdict
from pathlib import Path

import pytest
from table import ROWS, TABLES

from gen.body import BY_HAND, CHECKS, TENSORS, VALUES, Body
from gen.row import Op
from gen.signature import TableError
from ops.schema import Row
from tools.count_rows import is_enough

ROOT = Path(__file__).parent.parent
LEAST = 0.82  # raise it with each row that loses its C++


def test_most_rows_are_enough():
    enough = [op for op in ROWS if is_enough(op.row)]
    assert len(enough) / len(ROWS) >= LEAST


def test_a_body_that_calls_a_composite_in_cpp_is_not_enough():
    rows = {op.full_name: op.row for op in ROWS}
    assert not is_enough(rows["conv2d"]) and not is_enough(rows["linalg_multi_dot"])
    assert is_enough(rows["narrow"]) and is_enough(rows["transpose"]) and is_enough(rows["zeros"])


@pytest.mark.parametrize("name", sorted(CHECKS | VALUES | TENSORS | BY_HAND))
def test_functions_of_bodies_are_declared_and_called(name):
    headers = [*(ROOT / "src").glob("dispatch/*.h"), *(ROOT / "src").glob("[ct]*/*.h")]
    headers += (ROOT / "src/autograd").glob("*.h")
    assert any(re.search(rf"\b{name}\(", path.read_text()) for path in headers)
    rows = [*ROWS, *(f for ops in TABLES.values() for f in ops.functions)]
    assert any(re.search(rf"\b{name}\(", op.row.body or "") for op in rows)


def body_of(signature, body):
    signatures = defaultdict(list)
    for ops in TABLES.values():
        for op in ops + ops.functions:
            signatures[op.name].append(op.signature)
    row = Row("composite", signature, body=body, where="made_up.py:1")
    return Body(Op(row, "made_up"), signatures)


def test_statements_become_cpp():
    body = body_of(
        "half(input: Tensor, dim: int | None = None)",
        """
        check(dim_of(input) > 0, "half: no dims in ", sizes(input))
        if dim is None:
            return flip(input, [0])
        n = size(input, given(dim)) // 2
        for i in range(1, n):
            n = n - i
        parts = [neg(t) for t in unbind(input)]
        low, high = aminmax(input)
        return where(input > low, stack(parts), n)
        """,
    )
    assert [line.strip() for line in body.lines()] == [
        'check((input.dim() > int64_t(0)), "half: no dims in ", input.sizes());',
        "if (!dim.has_value()) {",
        "return ops::flip(input, Dims{int64_t(0)});",
        "}",
        "auto n = (input.size((*dim)) / int64_t(2));",
        "for (int64_t i = int64_t(1); i < n; ++i) {",
        "n = (n - i);",
        "}",
        "auto parts = each_of(ops::unbind(input), [&](const Tensor& t) { return ops::neg(t); });",
        "const auto [low, high] = ops::aminmax(input);",
        "return ops::where(ops::gt(input, low), ops::stack(parts), wrap_number(Scalar(n)));",
    ]


@pytest.mark.parametrize(
    "body, message",
    [
        ("return undocumented(input)", "'undocumented' is neither an op nor a function"),
        ("return neg(other)", "unknown name 'other'"),
        ("while True:\n    pass", "a body cannot hold While"),
        ("return neg(input", "'(' was never closed"),
        ("return neg(input=input)", "pass them by position"),
    ],
)
def test_mistakes_in_bodies_are_named(body, message):
    with pytest.raises(TableError, match="made_up.py:1: wrong: body") as error:
        body_of("wrong(input: Tensor)", body).lines()
    assert message in str(error.value)


def test_functions_of_the_table_reach_gradients_and_other_tables():
    """A row's formula calls one by its name, and what it calls need not be an op."""
    tables = {name: list(ops) for name, ops in TABLES.items()}
    assert not {f.name for ops in TABLES.values() for f in ops.functions} & {
        op.name for ops in tables.values() for op in ops
    }
    unused = {
        f.name
        for ops in TABLES.values()
        for f in ops.functions
        if not any(re.search(rf"\b{f.name}\(", text) for text in texts_that_call(f))
    }
    assert not unused


def texts_that_call(function):
    """All that could call a function of the table: formulas, bodies, guards, shapes and C++."""
    for ops in TABLES.values():
        for op in ops + ops.functions:
            row = op.row
            formulas = row.grad.values() if isinstance(row.grad, dict) else ()
            yield from (text for text in (row.guard, row.shape, *formulas) if text)
            if row.body and op is not function:
                yield row.body
    for path in (ROOT / "src/dispatch").glob("*.cpp"):
        yield path.read_text()
