"""Every row beside torch: the same call gives the same values, dtypes, shapes, strides and
gradients."""

import importlib

import pytest
from table import (
    DTYPES,
    PUBLIC,
    assert_same,
    case,
    cases,
    dtype_name,
    function,
    is_random,
    listed,
    plain_dtype,
    texts_of,
)

import rushlight as rl

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)
# Rows of the same name as a function of torch, but with other arguments; nothing outside calls
# them.
OURS = {"softmax_kernel", "log_softmax_kernel", "unique", "result_type", "promote_types"}


def in_torch(op):
    name = op.python_names[0]
    module = name.rpartition(".")[0].removeprefix("torch").strip(".")
    if module and module != "Tensor":
        importlib.import_module(f"torch.{module}")
    try:
        function(torch, name)
    except AttributeError:
        return False
    return op.full_name not in OURS and op.table != "optim"


SHARED = [op for op in PUBLIC if in_torch(op)]
UNSET = {op.full_name for op in SHARED if op.full_name.startswith(("empty", "new_empty"))}


# Vectors of these have a free sign or phase.
FREE_PHASE = {"linalg_eigh", "linalg_eig", "linalg_svd", "svd"}


def compare(actual, expected, op):
    if op.full_name in FREE_PHASE:
        actual, expected = ([part.abs() for part in result] for result in (actual, expected))
    if op.full_name in UNSET:
        assert (tuple(actual.shape), str(actual.dtype)[-7:]) == (
            tuple(expected.shape),
            str(expected.dtype)[-7:],
        )
    else:
        assert_same(actual, expected)
    for a, e in zip(listed(actual), listed(expected)):
        if hasattr(e, "stride"):
            assert a.stride() == e.stride()


@pytest.mark.parametrize(("op", "number"), cases(SHARED))
def test_values(op, number):
    call = case(op, number)
    compare(call.run(rl), call.run(torch), op)


# torch's mean square of complex numbers is the mean of x * x, not of |x| ** 2, its matrix
# exponential overflows in half precision, and its transposed convolutions of volumes are added up
# in half precision on some processors (0.0045 from the exact result, ours 0.0033).
# The negative of truth values is refused where the view is made, not where it is read.
OTHER_VALUES = {
    ("neg_view", "bool"),
    ("rms_norm", "complex64"),
    ("rms_norm", "complex128"),
    ("conv_transpose3d", "float16"),
    ("matrix_exp", "float16"),
    ("linalg_matrix_exp", "float16"),
    ("matrix_exp", "bfloat16"),
    ("linalg_matrix_exp", "bfloat16"),
}


@pytest.mark.parametrize(
    "op", [op for op in SHARED if not is_random(op)], ids=lambda op: op.full_name
)
def test_dtypes(op):
    """What torch takes, we take; what it makes of it, we make of it."""
    for number in range(len(texts_of(op))):
        for dtype in DTYPES:
            call = case(op, number, dtype)
            try:
                expected = call.run(torch)
            except REFUSALS:
                continue
            if not all(dtype_name(e) in DTYPES for e in listed(expected) if hasattr(e, "dtype")):
                continue  # complex32, which we do not have
            if (op.full_name, dtype) in OTHER_VALUES:
                continue
            try:
                compare(call.run(rl), expected, op)
            except (AssertionError, *REFUSALS) as error:
                raise AssertionError(f"{dtype}, {texts_of(op)[number]}: {error}") from error


# Where torch's gradient is not that of the function.
TORCH_IS_WRONG = {
    "as_strided_scatter": "the places that are written over get the gradient, the others get none",
    "cholesky_solve": "the half of the factor that is not read gets a gradient too",
    "cholesky_inverse": "the half of the factor that is not read gets a gradient too",
    "ldexp": "the factor 2 ** -1 of an integer exponent is taken as 0",
    "view_dtype": "even the same dtype leaves the graph, silently",
}


def gradients(library, call, op):
    """Of a weighted sum of the outputs, for each input that has one."""
    wanted = call.differentiable()
    leaves = {id(array): array.tensor(library).requires_grad_() for array in wanted}
    result = call.run(
        library, lambda a: leaves[id(a)].clone() if id(a) in leaves else a.tensor(library)
    )
    outputs = [out for out in listed(result) if getattr(out, "requires_grad", False)]
    if op.full_name in FREE_PHASE:
        outputs = [out.abs() for out in outputs]
    if not outputs:
        return [None for _ in wanted]
    for n, out in enumerate(outputs):
        weight = library.arange(out.numel()).reshape(out.shape).to(out.dtype) * 0.1 + n + 0.5
        out.backward(weight, retain_graph=True)
    # torch's sgn gives a zero without memory, which clone() makes an ordinary one.
    return [None if leaf.grad is None else leaf.grad.clone() for leaf in leaves.values()]


# torch treats these as constants; test_ops_gradients.py checks them by differences.
DIFFERENTIABLE_HERE_ALONE = {
    op.full_name for op in SHARED if op.table == "special" and "_bessel_k" in op.full_name
} | {
    "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "spherical_bessel_j0",
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
    "legendre_polynomial_p", "chebyshev_polynomial_t", "chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
}  # fmt: skip


def has_gradient_in_both(op):
    if op.no_gradient or op.full_name in DIFFERENTIABLE_HERE_ALONE:
        return False
    return op.row.result != "bool" and plain_dtype(op) == "float64"


@pytest.mark.parametrize(("op", "number"), cases(op for op in SHARED if has_gradient_in_both(op)))
def test_gradients(op, number):
    if op.full_name in TORCH_IS_WRONG:
        pytest.skip(f"torch is wrong: {TORCH_IS_WRONG[op.full_name]}")
    call = case(op, number)
    try:
        expected = gradients(torch, call, op)
    except REFUSALS:
        return  # torch has none
    for a, e in zip(gradients(rl, call, op), expected):
        if a is None or e is None:
            given = next((g for g in (a, e) if g is not None), None)
            assert given is None or not given.any(), f"{a} is not {e}"
        else:
            assert_same(a, e)


# Of these torch's results are views of what the op computed, by the way it computes them; of
# view(dtype) they are none.
OTHER_VIEWS = {"cov", "linalg_multi_dot", "avg_pool1d", "max_pool1d_with_indices", "view_dtype"}


@pytest.mark.parametrize(("op", "number"), cases(SHARED))
def test_views(op, number):
    """What is a view in torch is one here, and nothing else: detach_ and changes in place ask."""
    call = case(op, number)
    for actual, expected in zip(listed(call.run(rl)), listed(call.run(torch))):
        if hasattr(expected, "_is_view") and op.full_name not in OTHER_VIEWS:
            assert actual._is_view() == expected._is_view()
