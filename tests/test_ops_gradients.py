"""Every gradient formula of the op table against finite differences, and the gradients of those."""

import re

import numpy as np
import pytest
from table import COMPLEX, PUBLIC, ROWS, case, cases, is_random, listed, texts_of

import rushlight as rl
from ops.kernels import NOT_ON_CPU
from rushlight.autograd import gradcheck, gradgradcheck

pytestmark = pytest.mark.filterwarnings("ignore")

NO_GRADIENT = {"resize_", "resize_as_", "embedding_renorm_"}  # refuses tensors in a graph
FIRST_ALONE = {"linalg_lstsq_kernel"}  # rank and singular values come without a gradient
# The gradient of a random row is zero by definition, whatever it draws; dropout's is not.
DIFFERENTIABLE = [
    op
    for op in PUBLIC
    if op.no_gradient is None
    and op.row.result != "bool"
    and op.full_name not in NO_GRADIENT
    and (not is_random(op) or "dropout" in op.name)
]
# Vectors have a free sign or phase, so only what does not depend on it has a gradient.
FREE_PHASE = {"linalg_eigh", "linalg_eig", "linalg_svd", "svd"}
READS_A_TRIANGLE = {
    "cholesky_solve", "cholesky_inverse", "linalg_solve_triangular", "triangular_solve",
    "linalg_lu_solve", "lu_solve", "lu_unpack",
}  # fmt: skip


def is_precise(out):
    """Differences of a result in single precision say nothing about a gradient."""
    return takes_gradient(out) and out.dtype in (rl.float64, rl.complex128)


def takes_gradient(out):
    return isinstance(out, rl.Tensor) and out.requires_grad


def problem(op, number, dtype, shape=None, counts=is_precise):
    """(function of tensors, the tensors), or None where no input of the sample has a gradient."""
    call = case(op, number, dtype, shape)
    wanted = call.differentiable()
    if not wanted:
        return None

    def run(*tensors):
        places = {id(array): prepared(op, array, tensor) for array, tensor in zip(wanted, tensors)}
        result = call.run(rl, lambda a: places[id(a)] if id(a) in places else a.tensor(rl))
        outputs = [out for out in listed(result) if counts(out)]
        outputs = outputs[:1] if op.full_name in FIRST_ALONE else outputs
        return tuple(out.abs() if op.full_name in FREE_PHASE else out for out in outputs)

    return run, tuple(array.tensor(rl).requires_grad_() for array in wanted)


def prepared(op, array, tensor):
    """A leaf as the call may have it: in-place forms need a copy, matrices their symmetry."""
    if array.hermitian and op.full_name not in READS_A_TRIANGLE:
        return (tensor + tensor.mH) / 2
    return tensor.clone()


# The gradient is that of the logits, whose log_softmax the input is: tests/test_ctc_loss.py. It has
# no derivative.
OF_LOGITS = {"ctc_loss_kernel"}


def redefines_gradient(op, number):
    """Whether the op or an argument of the sample has a gradient that is not the derivative."""
    if op.full_name in OF_LOGITS:
        return True
    call = case(op, number)
    given = dict(zip((p.name for p in op.signature.parameters), call.args)) | call.named
    return bool(given.get("scale_grad_by_freq")) or given.get("padding_idx", -1) not in (-1, None)


@pytest.mark.parametrize(("op", "number"), cases(DIFFERENTIABLE))
def test_gradients(op, number):
    check(op, number, "float64")


def takes_complex(op):
    return op.row.kind != "elementwise" or bool(set(COMPLEX) & op.row.dtypes)


def complex_works(op, number):
    """Kernels say whether they take complex numbers only by taking them."""
    try:
        case(op, number, "complex128").run(rl)
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return False
    return True


@pytest.mark.parametrize(("op", "number"), cases(op for op in DIFFERENTIABLE if takes_complex(op)))
def test_complex_gradients(op, number):
    if op.row.kind != "elementwise" and not complex_works(op, number):
        pytest.skip("the kernel takes no complex numbers")
    check(op, number, "complex128")


def check(op, number, dtype):
    if redefines_gradient(op, number):
        pytest.skip("the op or an argument says that the gradient is another one; torch has it too")
    found = problem(op, number, dtype)
    if found is None:
        return
    run, inputs = found
    if not run(*inputs):
        assert not op.gradients or dtype != "float64", f"{op.full_name} records no gradient"
        return
    assert gradcheck(run, inputs, check_undefined_grad=False)
    assert gradgradcheck(run, inputs, check_undefined_grad=False)


OTHER_BITS = {"view_dtype"}  # of a float are no number
IN_FLOAT32 = [op for op in DIFFERENTIABLE if not is_random(op) and op.full_name not in OTHER_BITS]


def gradients_of(op, number, dtype, shape):
    """By all inputs, of the outputs weighted by drawn numbers."""
    found = problem(op, number, dtype, shape, takes_gradient)
    if found is None:
        return []
    run, inputs = found
    if not (outputs := run(*inputs)):
        return []
    random = np.random.default_rng(1)
    weights = [rl.tensor(random.standard_normal(out.shape)).to(out.dtype) for out in outputs]
    return rl.autograd.grad(outputs, inputs, weights, allow_unused=True)


def check_in_float32(op, number, shape=None):
    """Gradients have loops of their own in each precision, for each instruction set."""
    expected = gradients_of(op, number, "float64", shape)
    for a, e in zip(gradients_of(op, number, "float32", shape), expected, strict=True):
        if e is None:
            assert a is None
            continue
        a, e = a.detach().numpy(), e.detach().numpy()
        largest = np.abs(e[np.isfinite(e)]).max(initial=1)
        np.testing.assert_allclose(a, e, rtol=0, atol=1e-4 * largest)


@pytest.mark.kernels
@pytest.mark.parametrize(("op", "number"), cases(IN_FLOAT32))
def test_gradients_in_float32(op, number):
    check_in_float32(op, number)


@pytest.mark.kernels
@pytest.mark.parametrize(
    "op", [op for op in IN_FLOAT32 if op.row.kind == "elementwise"], ids=lambda op: op.full_name
)
def test_gradients_of_many_elements_in_float32(op):
    check_in_float32(op, 0, (7, 131))


def nodes(roots):
    """Names of all graph nodes that `roots` lead to."""
    found, stack = {}, [root.grad_fn for root in roots]
    while stack:
        node = stack.pop()
        if node is not None and id(node) not in found:
            found[id(node)] = node
            stack += [next_node for next_node, _ in node.next_functions]
    return {node.name() for node in found.values()}


def reached(op, number):
    """Nodes recorded by a call, by its backward, and by the backward of that."""
    made = problem(op, number, "float64")
    if made is None:
        return set()
    run, inputs = made
    outputs = run(*inputs)
    names = nodes(outputs)
    for _ in range(1 if op.full_name in OF_LOGITS else 2):
        if not outputs:
            break
        sizes = [out.abs() if out.is_complex() else out for out in outputs]
        total = sum((size * rl.ones_like(size, requires_grad=True)).sum() for size in sizes)
        if not total.requires_grad:
            break
        found = rl.autograd.grad(total, inputs, create_graph=True, allow_unused=True)
        outputs = [g for g in found if g is not None and g.requires_grad]
        names |= nodes(outputs)
    return names


def test_rows_without_names_are_reached_through_others():
    """What no program can call is tested as part of what it can; kernels of GPUs alone are in
    tests/cuda_programs."""
    names = set()
    for op in DIFFERENTIABLE:
        for number in range(len(texts_of(op))):
            names |= reached(op, number)
    hidden = [op for op in ROWS if op.gradients and not op.python_names and has_kernel(op)]
    missing = [op.full_name for op in hidden if not any(map(op_node(op).fullmatch, names))]
    assert not missing, f"no sample reaches {missing}"


def has_kernel(op):
    return (op.row.launch or "").partition("(")[0] not in NOT_ON_CPU


def op_node(op):
    """A pattern of its node's names: a row may say part of the name by an argument, in braces."""
    node = op.row.node
    name = (node[None] if isinstance(node, dict) else node) or "".join(
        part[:1].upper() + part[1:] for part in op.name.removesuffix("_kernel").split("_") if part
    ) + "Backward0"
    return re.compile(re.sub(r"\{.*?\}", ".+", name))


WITHOUT_GRADIENT = [
    op
    for op in PUBLIC
    if op.no_gradient is not None and op.row.result != "bool" and not is_random(op)
]


@pytest.mark.parametrize("op", WITHOUT_GRADIENT, ids=lambda op: op.full_name)
def test_gradients_of_what_has_none_are_refused_by_inputs_too(op):
    """`grad` went round the node that refuses, and gave the gradient of other ways."""
    call = case(op, 0, "float64")
    inputs = {id(a): a.tensor(rl).requires_grad_() for a in call.arrays() if a.differentiable}
    try:
        result = call.run(rl, lambda a: inputs[id(a)] if id(a) in inputs else a.tensor(rl))
    except NotImplementedError:
        pytest.skip("not of floating-point numbers")
    outputs = [out for out in listed(result) if takes_gradient(out)]
    if not outputs:
        pytest.skip("no result, or no input, is of a kind that has gradients")
    total = sum(rl.sum(x.abs()) for x in (*outputs, *inputs.values()))
    for x in inputs.values():
        with pytest.raises(RuntimeError, match="is not implemented"):
            rl.autograd.grad(total, x, retain_graph=True)
