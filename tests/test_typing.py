"""Annotations that are checked when a program runs, and the lists that type checkers read.

`make lint` has `mypy --strict` on tests/typing and the examples, and pyright's measure of how many
public names have a known type.
"""

import ast
from pathlib import Path
from typing import Any

import pytest

import rushlight

HERE = Path(__file__).parent


def test_jaxtyping_checks_shapes_and_dtypes():
    jaxtyping = pytest.importorskip("jaxtyping")
    beartype = pytest.importorskip("beartype")
    Float, Int = jaxtyping.Float[rushlight.Tensor, "n m"], jaxtyping.Int[rushlight.Tensor, "n"]

    @jaxtyping.jaxtyped(typechecker=beartype.beartype)
    def rows(x: Float, places: Int) -> jaxtyping.Float[rushlight.Tensor, "n"]:  # noqa: F821
        return x[rushlight.arange(len(places)), places]

    places = rushlight.tensor([0, 2])
    assert rows(rushlight.ones(2, 3), places).tolist() == [1.0, 1.0]
    for x, where in (
        (rushlight.ones(3, 3), places),  # n is 3 here and 2 there
        (rushlight.ones(2, 3, dtype=rushlight.int64), places),
        (rushlight.ones(2), places),
    ):
        with pytest.raises(jaxtyping.TypeCheckError):
            rows(x, where)


def test_beartype_checks_tensors_and_modules():
    beartype = pytest.importorskip("beartype")

    @beartype.beartype
    def apply(module: rushlight.nn.Module, x: rushlight.Tensor) -> rushlight.Tensor:
        return module(x)

    layer = rushlight.nn.Linear(2, 3)
    assert apply(layer, rushlight.ones(1, 2)).shape == (1, 3)
    with pytest.raises(beartype.roar.BeartypeCallHintParamViolation):
        apply(layer, [1.0, 2.0])


def test_the_programs_for_type_checkers_are_long_enough():
    program = (HERE / "typing" / "program.py").read_text()
    assert sum(bool(line.strip()) for line in program.splitlines()) >= 180
    expressions = ast.parse((HERE / "typing" / "expressions.py").read_text())
    asked = [
        node
        for node in ast.walk(expressions)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "assert_type"
    ]
    assert len(asked) >= 100


def candidates():
    """Tensors of which one or other suits each expression."""
    yield rushlight.ones(2, 2)
    yield rushlight.ones(1)
    yield rushlight.arange(6.0).reshape(2, 3)
    yield rushlight.rand(1, 1, 4, 4)
    yield rushlight.tensor(6, dtype=rushlight.int64)


def matches(value, kind):
    """Is the value of the kind, as far as an instance tells?"""
    return kind is Any or isinstance(value, getattr(kind, "__origin__", None) or kind)


def asked_expressions():
    tree = ast.parse((HERE / "typing" / "expressions.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "assert_type":
            yield [ast.unparse(argument) for argument in node.args]


@pytest.mark.filterwarnings("ignore")  # what suits none of the tensors may warn
def test_the_expressions_have_the_types_that_checkers_see():
    for text, kind in asked_expressions():
        names = {
            "torch": rushlight, "Tensor": rushlight.Tensor, "nn": rushlight.nn, "Any": Any,
            "F": rushlight.nn.functional, **vars(rushlight.utils.data),
        }  # fmt: skip
        found, reasons = False, []
        for x in candidates():
            names["x"], names["layer"] = x, rushlight.nn.Linear(3, 4)
            try:
                value = eval(text, names)
            except (RuntimeError, IndexError, ValueError, TypeError) as error:
                reasons.append(error)
                continue
            assert matches(value, eval(kind, names)), (text, kind, value)
            found = True
        assert found, (text, reasons)


# What a default of a type may be declared as.
ALLOWED = {
    "NoneType": {"None", "Device"},
    "bool": {"bool", "int", "float"},
    "int": {"int", "float", "complex"},
    "float": {"float", "complex"},
    "str": {"str", "Device"},
}


def defaults(function):
    """(argument, its default) of what has both an annotation and a literal default."""
    arguments = function.args
    placed = arguments.posonlyargs + arguments.args
    first = len(placed) - len(arguments.defaults)
    pairs = [*zip(placed[first:], arguments.defaults)]
    pairs += zip(arguments.kwonlyargs, arguments.kw_defaults)
    for argument, default in pairs:
        if argument.annotation and isinstance(default, ast.Constant):
            yield argument, default.value


def test_defaults_have_the_types_that_are_declared():
    wrong, seen = [], 0
    for path in sorted(Path(rushlight.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for argument, value in defaults(node) if isinstance(node, ast.FunctionDef) else ():
                declared = ast.unparse(argument.annotation).replace("builtins.", "")
                kinds = set(declared.replace(" ", "").split("|"))
                allowed = ALLOWED.get(type(value).__name__)
                seen += 1
                if allowed and not kinds & {"Any", "object", *allowed}:
                    wrong.append(f"{path.name}: {argument.arg}: {declared} = {value!r}")
    assert seen > 1500 and not wrong, wrong
