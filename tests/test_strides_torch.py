"""Strides beside torch: every row, its tensors in several layouts; the results and gradients."""

import pytest
from golden_strides import calls, operands, strides_of
from layouts import LAYOUTS, laid_out
from table import PUBLIC, case, listed, plain_dtype, texts_of
from test_ops_torch import REFUSALS, in_torch

import rushlight as rl

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize(("call", "expected"), list(calls()))
def test_the_golden_strides_are_those_of_torch(call, expected):
    assert strides_of(call, operands(torch)) == expected


def strides(results):
    return [tuple(t.stride()) for t in listed(results) if hasattr(t, "stride")]


def telling(grad):
    """Strides of a gradient, but for dims of size 1, where they follow from how it was summed."""
    return None if grad is None else [s for s, n in zip(grad.stride(), grad.shape) if n != 1]


class Run:
    """One call of a row with its tensors in a layout."""

    def __init__(self, library, call, layout, differentiates):
        self.leaves, made, self.is_laid_out = [], {}, False
        wanted = call.differentiable() if differentiates else []

        def convert(array):
            if id(array) in made:
                return made[id(array)]
            plain = array.tensor(library)
            t = laid_out(plain, layout)
            self.is_laid_out = self.is_laid_out or t is not None
            t = plain if t is None else t
            if any(array is w for w in wanted):
                t = t.detach().requires_grad_()
                self.leaves.append(t)
            made[id(array)] = t
            return t

        self.results = call.run(library, convert)

    def gradients(self):
        total = sum(
            (out.abs() ** 2).sum()
            for out in listed(self.results)
            if getattr(out, "requires_grad", 0)
        )
        if not hasattr(total, "backward"):
            return []
        total.backward()
        return [telling(leaf.grad) for leaf in self.leaves]


# Rows whose strides are not torch's, with the reason.
OTHER_STRIDES = {
    **dict.fromkeys(
        ("addr", "addr_first", "addr_first_unscaled", "addr_second", "addr_second_unscaled"),
        "one matrix product, contiguous; torch's is elementwise",
    ),
    "conj_physical": "torch returns a real tensor itself",
    "logsigmoid": "elementwise here, contiguous in torch",
    "pow": "torch makes a power of a number contiguous; elementwise here",
    "functional_dropout": "its sample changes a leaf in place",
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("op", [op for op in PUBLIC if in_torch(op)], ids=lambda op: op.full_name)
def test_strides(op, layout):
    if op.full_name in OTHER_STRIDES:
        pytest.skip(OTHER_STRIDES[op.full_name])
    for number in range(max(1, len(texts_of(op)))):
        try:
            expected = Run(torch, case(op, number), layout, plain_dtype(op) == "float64")
        except REFUSALS:
            continue
        if not expected.is_laid_out:
            continue
        actual = Run(rl, case(op, number), layout, plain_dtype(op) == "float64")
        where = f"sample {number}: {texts_of(op)[number]}"
        assert strides(actual.results) == strides(expected.results), where
        try:
            wanted = expected.gradients()
        except REFUSALS:
            continue
        if wanted:
            assert actual.gradients() == wanted, f"gradients of {where}"
