"""Nodes of the graph as objects: called, listed and hooked as torch's are."""

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch


def leaves(lib):
    values = [[1.0, 2.0], [3.0, 4.0]], [[0.5, -1.0], [2.0, 1.5]]
    return [lib.tensor(v, dtype=lib.float64, requires_grad=True) for v in values]


PROGRAMS = {
    "product": lambda lib, a, b: a * b,
    "number first": lambda lib, a, b: 2 * b,
    "number added": lambda lib, a, b: 2 + b,
    "number less": lambda lib, a, b: 2 - b,
    "number to a power": lambda lib, a, b: 2**b,
    "least": lambda lib, a, b: a.clamp_min(1.5),
    "between": lambda lib, a, b: lib.lerp(a, b, 0.25),
    "quotient": lambda lib, a, b: a / b,
    "tanh": lambda lib, a, b: a.tanh(),
    "matrices": lambda lib, a, b: a @ b,
    "sum": lambda lib, a, b: a.sum(),
    "power": lambda lib, a, b: a**3,
    "concatenated": lambda lib, a, b: lib.cat([a, b]),
    "view": lambda lib, a, b: a.view(4),
    "two outputs": lambda lib, a, b: a.unbind(0)[1],
}


def called(lib, program):
    """The gradients that the node gives, and those of its second call with recording."""
    out = program(lib, *leaves(lib))
    ones = lib.ones(out.shape, dtype=lib.float64)
    grads = [ones] if "Unbind" not in out.grad_fn.name() else [out.detach(), None]
    found = out.grad_fn(*grads)
    found = found if isinstance(found, tuple) else (found,)
    return [None if g is None else (g.detach().numpy(), g.requires_grad) for g in found]


@pytest.mark.parametrize("name", PROGRAMS)
def test_nodes_can_be_called(name):
    ours, theirs = called(rl, PROGRAMS[name]), called(torch, PROGRAMS[name])
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs):
        assert (mine is None) == (other is None)
        if mine is not None:
            np.testing.assert_allclose(mine[0], other[0], rtol=1e-13)
            assert mine[1] == other[1]


def test_a_call_is_checked():
    a, b = leaves(rl)
    node = (a * b).grad_fn
    with pytest.raises(TypeError, match="MulBackward0: expected 1 arguments, got 2"):
        node(a, b)
    with pytest.raises(TypeError, match="argument 0 must be a Tensor or None, not int"):
        node(3)
    with pytest.raises(TypeError, match="by position alone"):
        node(grad=a)
    with pytest.raises(RuntimeError, match="expected shape compatible"):
        node(rl.ones(5))


def test_an_accumulator_can_be_called():
    for lib in (rl, torch):
        a, b = leaves(lib)
        accumulator = (a * b).grad_fn.next_functions[0][0]
        accumulator(lib.ones(2, 2))
        accumulator(lib.ones(2, 2))
        assert a.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]] and b.grad is None


@pytest.mark.parametrize("name", [
    "product", "number first", "number added", "quotient", "number less", "number to a power",
    "least", "between",
])  # fmt: skip
def test_order_of_next_functions(name):
    def shown(lib):
        node = PROGRAMS[name](lib, *leaves(lib)).grad_fn
        return [(n and n.name(), nr) for n, nr in node.next_functions]

    assert shown(rl) == shown(torch)


@pytest.mark.parametrize("name", ["number first", "number less", "least", "between"])
def test_hooks_see_what_next_functions_show(name):
    def seen(lib):
        a, b = leaves(lib)
        out, told = PROGRAMS[name](lib, a, b), []
        out.grad_fn.register_hook(lambda inputs, outputs: told.append([x is None for x in inputs]))
        out.grad_fn.register_hook(
            lambda inputs, outputs: tuple(x if x is None else x * 10 for x in inputs)
        )
        out.sum().backward()
        return told, [None if x.grad is None else x.grad.tolist() for x in (a, b)]

    assert seen(rl) == seen(torch)


def test_saved_things_are_listed():
    for lib in (rl, torch):
        a, b = leaves(lib)
        names = {n for n in dir((a * b).grad_fn) if "_saved_" in n}
        assert names == {"_saved_self", "_saved_other", "_raw_saved_self", "_raw_saved_other"}
        assert "_saved_result" in dir(a.tanh().grad_fn)
        assert "_saved_dim" in dir(a.softmax(1).grad_fn)
        part = a.split((1, 1))[0].grad_fn
        assert part._saved_split_sizes == (1, 1) and part._saved_self_sym_sizes == a.shape
        assert a.sum().grad_fn._saved_self_sym_sizes == a.shape
        assert a.mean().grad_fn._saved_self_sym_numel == a.numel()


def test_a_move_to_another_device_is_one_node():
    for lib in (rl, torch):
        a, _ = leaves(lib)
        moved = (a * 1).to("meta")
        assert moved.grad_fn.name() == "ToCopyBackward0"
        ((before, place),) = moved.grad_fn.next_functions
        assert before.name() == "MulBackward0" and place == 0


def test_hooks_of_one_saved_tensor():
    for lib in (rl, torch):
        a, b = leaves(lib)
        out = a * b
        said = []
        out.grad_fn._raw_saved_self.register_hooks(
            lambda t, said=said: said.append("packed") or t.detach() * 10,
            lambda t, said=said: said.append("unpacked") or t,
        )
        out.sum().backward()
        assert said == ["packed", "unpacked"]
        assert b.grad.tolist() == [[10.0, 20.0], [30.0, 40.0]] and a.grad.tolist() == b.tolist()
        with pytest.raises(RuntimeError):
            out.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)


def test_hooks_of_one_saved_tensor_keep_derivatives():
    (a, b), (c, d) = leaves(rl), leaves(torch)
    grads = []
    for x, y, lib in ((a, b, rl), (c, d, torch)):
        out = x * x * y
        out.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
        (first,) = lib.autograd.grad(out.sum(), y, create_graph=True)
        grads.append(lib.autograd.grad(first.sum(), x)[0].tolist())
    assert grads[0] == grads[1]
