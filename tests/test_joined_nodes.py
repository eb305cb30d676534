"""One node for an op that is made of others: its edges, gradients of any order, and its memory."""

import gc
import threading

import pytest

import rushlight as rl
from rushlight.autograd import grad, gradcheck, gradgradcheck

F = rl.nn.functional


def leaf(*shape):
    return rl.randn(*shape, dtype=rl.float64, requires_grad=True)


def lower(n):
    matrix = rl.randn(n, n, dtype=rl.float64).tril() + 3 * rl.eye(n, dtype=rl.float64)
    return matrix.requires_grad_()


def labels(*values):
    return rl.tensor(values)


# name: the function, its arguments, the node and how many edges it has
JOINED = {
    "soft_margin_loss": (lambda x: F.soft_margin_loss(x, rl.ones(3, dtype=rl.float64)),
                         lambda: [leaf(3)], "SoftMarginLossBackward0", 1),
    "multi_margin_loss": (lambda x: F.multi_margin_loss(x, labels(1, 0), p=2), lambda: [leaf(2, 3)],
                          "MultiMarginLossBackward0", 1),
    "cholesky_solve": (rl.cholesky_solve, lambda: [leaf(3, 2), lower(3)],
                       "CholeskySolveBackward0", 2),
    "solve of a vector": (rl.linalg.solve, lambda: [lower(3), leaf(3)],
                          "LinalgSolveExBackward0", 2),
    "solve, broadcast": (rl.linalg.solve, lambda: [lower(3), leaf(2, 3, 2)],
                         "LinalgSolveExBackward0", 2),
    "lu_solve": (lambda lu, b: rl.linalg.lu_solve(lu, labels(1, 2, 3).int(), b),
                 lambda: [lower(3), leaf(3, 2)], "LinalgLuSolveBackward0", 2),
    "renorm": (lambda x: rl.renorm(x, 2, 0, 1.0), lambda: [leaf(3, 4)], "RenormBackward0", 1),
    "block_diag": (rl.block_diag, lambda: [leaf(2, 2), leaf(1, 3)], "BlockDiagBackward0", 2),
    "masked_select": (lambda x: rl.masked_select(x, rl.tensor([True, False, True])),
                      lambda: [leaf(2, 3)], "MaskedSelectBackward0", 1),
}  # fmt: skip


def made(name):
    function, arguments, node, edges = JOINED[name]
    inputs = arguments()
    return function, inputs, node, edges


@pytest.mark.parametrize("name", JOINED)
def test_one_node_whose_gradient_is_that_of_the_steps(name):
    function, inputs, node, edges = made(name)
    out = function(*inputs)
    assert out.grad_fn.name() == node and not out._is_view()
    assert [n.variable for n, _ in out.grad_fn.next_functions] == inputs
    assert len(inputs) == edges
    assert gradcheck(function, inputs) and gradgradcheck(function, inputs)


def test_what_has_no_gradient_has_no_edge():
    a, b = lower(3), leaf(3)
    out = rl.linalg.solve(a.detach(), b)
    assert [n and n.variable for n, _ in out.grad_fn.next_functions] == [None, b]
    with rl.no_grad():
        assert rl.linalg.solve(a, b).grad_fn is None


def test_another_argument_that_needs_a_gradient_comes_last():
    x, target = leaf(3), leaf(3)
    out = F.soft_margin_loss(x, target)
    assert [n.variable for n, _ in out.grad_fn.next_functions] == [x, target]
    assert grad(out, target)[0].isfinite().all()


def test_the_same_tensor_twice():
    a = lower(3)
    (found,) = grad(rl.linalg.solve(a, a * 1).sum(), a)  # the identity
    assert found.abs().max() < 1e-12
    product = rl.cholesky_solve(a, a)
    assert gradcheck(lambda t: rl.cholesky_solve(t, t), [a]) and product.shape == (3, 3)


def test_gradients_of_some_inputs():
    a, b = lower(3), leaf(3, 2)
    both = grad(rl.cholesky_solve(b, a).sum(), (a, b))
    one = grad(rl.cholesky_solve(b, a).sum(), b)
    other = grad(rl.cholesky_solve(b, a).sum(), a)
    assert one[0].equal(both[1]) and other[0].equal(both[0])


def test_a_second_pass_needs_what_was_saved():
    a, b = lower(3), leaf(3, 2)
    out = rl.cholesky_solve(b, a)
    out.sum().backward(retain_graph=True)
    out.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        out.sum().backward()
    joined = rl.block_diag(leaf(2, 2))  # which saves nothing
    joined.sum().backward()
    joined.sum().backward()


def test_hooks_and_calls():
    x, seen = leaf(2, 2), []
    out = rl.block_diag(x)
    out.grad_fn.register_prehook(lambda grads: seen.append("before"))
    out.grad_fn.register_hook(lambda results, grads: seen.append(results[0].shape))
    out.register_hook(lambda g: g * 2)
    out.sum().backward()
    assert seen == ["before", x.shape] and x.grad.equal(rl.full_like(x, 2))
    assert out.grad_fn(rl.ones_like(out)).equal(rl.ones_like(x))


def test_results_change_in_place():
    x = leaf(2, 2)
    out = rl.block_diag(x)
    out[:, 0].mul_(3)
    out.sum().backward()
    assert sorted(set(x.grad.flatten().tolist())) == [1.0, 3.0]
    a, b = lower(3), leaf(3)
    solved = rl.linalg.solve(a, b)
    solved.mul_(2)  # what backward needs of it was saved before
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        solved.sum().backward()


def test_views_of_an_input_stay_views():
    x = leaf(4) * 1
    for part in x.split(2):
        assert part.grad_fn.name() == "SplitBackward0" and part._is_view()


def test_tensors_of_threads_that_have_recorded_more():
    made = []

    def work():
        x = leaf(2, 2)
        for _ in range(500):
            x = x * 1
        made.append(x)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    out = rl.block_diag(made[0])
    ((before, _),) = out.grad_fn.next_functions
    assert before is made[0].grad_fn


def test_memory_is_freed_at_once():
    gc.disable()
    try:
        before = rl._C._live_nodes(), rl._C._live_tensors()
        for name in JOINED:
            function, inputs, _, _ = made(name)
            function(*inputs)
        rl.linalg.lu(lower(3))
        rl.triangular_solve(leaf(3, 2), lower(3))
        del inputs
        assert (rl._C._live_nodes(), rl._C._live_tensors()) == before
    finally:
        gc.enable()


def test_a_chain_of_many():
    x = leaf(2, 2)
    y = x
    for _ in range(6000):
        y = rl.block_diag(y)
    y.sum().backward()
    assert x.grad.equal(rl.ones_like(x))
    del y


def test_through_transforms():
    def loss(x):
        return (rl.block_diag(x) ** 2).sum()

    x = rl.randn(3, 2, 2, dtype=rl.float64)
    assert rl.func.grad(loss)(x[0]).allclose(2 * x[0])
    assert rl.func.vmap(rl.func.grad(loss))(x).allclose(2 * x)
    primal, tangent = rl.func.jvp(lambda t: rl.block_diag(t, t), (x[0],), (x[1],))
    assert primal.equal(rl.block_diag(x[0], x[0])) and tangent.equal(rl.block_diag(x[1], x[1]))


@pytest.mark.parametrize("case", JOINED)
def test_second_derivatives_free_the_graph(case):
    function, arguments, *_ = JOINED[case]
    given = arguments()
    places = [i for i, x in enumerate(given) if isinstance(x, rl.Tensor) and x.requires_grad]
    sources = [given[i] for i in places]
    outputs = function(*given)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    outputs = [out.pow(2).sum() for out in outputs if out.requires_grad]
    first = grad(outputs, sources, create_graph=True, allow_unused=True)
    first = [g.sum() for g in first if g is not None and g.requires_grad]
    if first:
        grad(first, sources, allow_unused=True)
        with pytest.raises(RuntimeError, match="second time"):
            grad(first, sources, allow_unused=True)
