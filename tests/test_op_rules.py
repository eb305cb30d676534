"""Each public op says how vmap, autocast and forward mode treat it, or its row says why not."""

import numpy as np
import pytest
from table import ROWS, TABLES, case, cases, function, listed, texts_of

import rushlight as rl
from gen.rules import AUTOCAST, Rules
from ops.schema import WITHOUT_GRADIENT
from rushlight import _op_rules
from rushlight.func._batching._rules import RULES, rules_of_ops

RULE_OF = Rules(TABLES)
NEEDS_NO_CODE = {"factory", "metadata", "random", "value"}  # func._batching.compute knows them


def public(op):
    """Its names without those that are for the Python layer alone."""
    return [n for n in op.python_names if not n.rpartition(".")[2].startswith("_")]


PUBLIC = [op for op in ROWS if public(op)]


@pytest.mark.parametrize("op", PUBLIC, ids=lambda op: op.full_name)
def test_vmap_has_a_rule(op):
    rule = RULE_OF.batch(op)
    assert rule, (
        f"{op.row.where}: {op.full_name}: fill the column batch: a rule of func/_batching, or "
        "'loop: ' and why there is none"
    )
    by_itself = rule in NEEDS_NO_CODE or rule.startswith("spread_")
    assert rule in RULES or by_itself or rule.partition("loop: ")[2], rule
    if not rule.startswith("loop: "):
        for name in public(op):
            assert rule in rules_of_ops()[name.rpartition(".")[2]]


@pytest.mark.parametrize("op", PUBLIC, ids=lambda op: op.full_name)
def test_forward_mode_has_a_rule(op):
    """A composite has those of its ops; others a gradient, a sentence, or a result of no kind that
    moves."""
    returns_tensor = op.signature.returns in ("Tensor", "tuple", "list[Tensor]")
    takes = any(p.is_tensor or p.is_tensor_list for p in op.signature.parameters)
    constant = op.row.result == "bool"
    composed = op.row.kind in WITHOUT_GRADIENT
    assert op.gradients or op.no_gradient or constant or composed or not (returns_tensor and takes)


LINEAR = [op for op in PUBLIC if any(n.rpartition(".")[2] in _op_rules.LINEAR for n in public(op))]


@pytest.mark.parametrize(("op", "number"), cases(LINEAR))
def test_what_is_called_linear_is(op, number):
    call = case(op, number)
    (array, *others) = call.arrays()
    assert not others
    random = np.random.default_rng(1)  # small whole numbers are exact in 16 bits too
    x, y = (
        rl.from_numpy(random.integers(-4, 5, array.values.shape)).to(getattr(rl, array.dtype))
        for _ in range(2)
    )

    def run(t):
        return listed(call.run(rl, lambda _: t))

    for whole, a, b in zip(run(2 * x - 3 * y), run(x), run(y)):
        rl.testing.assert_close(whole, 2 * a - 3 * b)


def test_autocast_names_ops_that_there_are():
    assert set(_op_rules.AUTOCAST) == set(AUTOCAST)
    for names in _op_rules.AUTOCAST.values():
        for name in names:
            assert callable(function(rl, name))


def test_matrix_products_run_in_lower_precision():
    """What multiplies matrices by its name and its kernel is on the list."""
    listed_ops = {op.full_name for op in PUBLIC if op.row.autocast == "lower_precision"}
    assert {"mm", "bmm", "addmm", "baddbmm", "linear", "matmul", "conv2d"} <= listed_ops


def test_operators_are_ops():
    x, y = rl.tensor([5, 3]), rl.tensor([2, 2])
    for op in ROWS:
        if op.row.slot is None:
            continue
        for method in op.row.slot[1:]:
            assert hasattr(rl.Tensor, method), f"{op.full_name}: {method}"
    assert (x % y).tolist() == [1, 1] and (7 - x).tolist() == [2, 4] and (2**y).tolist() == [4, 4]


def test_rules_are_read_when_they_are_needed():
    import subprocess
    import sys

    program = "import sys, rushlight; print('rushlight._op_rules' in sys.modules)"
    assert subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.split() == ["False"]


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("op", PUBLIC, ids=lambda op: op.full_name)
def test_autocast_gives_the_dtypes_of_torch(op, dtype):
    """Where torch has no kernel, and raises, there is nothing to compare."""
    torch = pytest.importorskip("torch")
    if isinstance(texts_of(op), str):
        pytest.skip(texts_of(op))

    def dtypes(library, name):
        call = case(op, 0, dtype)
        with library.autocast("cpu", dtype=library.bfloat16):
            results = listed(call.run(library, name=name))
        return [str(r.dtype) for r in results if isinstance(r, library.Tensor)]

    for name in public(op):
        try:
            expected = dtypes(torch, name)
        except (RuntimeError, TypeError, ValueError, AttributeError, IndexError):
            continue
        assert dtypes(rl, name) == expected, name
