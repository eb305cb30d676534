"""Every row of the op table, forward: against its reference, in all layouts, sizes and variants."""

import functools

import numpy as np
import pytest
import scipy.special
from table import (
    COMPLEX,
    DTYPES,
    FLOATING,
    HALF,
    PUBLIC,
    ROWS,
    TOLERANCE,
    Array,
    as_numpy,
    assert_same,
    assert_values,
    case,
    cases,
    dtype_name,
    function,
    is_random,
    listed,
    plain_dtype,
    texts_of,
)  # fmt: skip

import rushlight as rl

pytestmark = [pytest.mark.kernels, pytest.mark.filterwarnings("ignore")]

DETERMINISTIC = [op for op in PUBLIC if not is_random(op) and "empty" not in op.full_name]
WITH_REFERENCE = [op for op in DETERMINISTIC if op.row.ref and not op.full_name.startswith("to")]
ELEMENTWISE = [op for op in DETERMINISTIC if op.row.kind == "elementwise"]
IN_PLACE = [op for op in PUBLIC if op.row.inplace]
LARGE = 300_007  # more than one thread's share, and no multiple of a vector


def tensors(result):
    return [r for r in listed(result) if isinstance(r, rl.Tensor)]


def takes(op, dtype):
    """Whether the row promises the dtype; kernels promise float32 and float64."""
    if op.row.kind != "elementwise":
        return dtype in FLOATING
    if dtype in HALF:
        return "float32" in op.row.dtypes
    if op.row.result == "float" and dtype not in (*FLOATING, *COMPLEX):
        return True
    return dtype in op.row.dtypes


# ---- samples


@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.full_name)
def test_samples_or_a_reason(op):
    """Rows without Python names are reached through others: test_ops_gradients.py."""
    if op.python_names:
        assert texts_of(op), f"{op.row.where}: the signature gives no samples"


def test_samples_name_rows():
    from samples import SAMPLES

    unknown = set(SAMPLES) - {
        n for op in ROWS for n in (op.full_name, op.row.signature.partition("(")[0])
    }
    assert not unknown, f"samples.py names rows that are not in the table: {unknown}"


# ---- values


def wide(array, as_float=False):
    """What NumPy is to compute with: the numbers that the dtype can hold, in double precision."""
    held = array.tensor(rl)
    if held.is_floating_point() or as_float and not held.is_complex():
        held = held.double()
    elif held.is_complex():
        held = held.to(rl.complex128)
    return held.numpy()


def reference(op, call):
    scope = {"numpy": np, "scipy": scipy, "functools": functools}
    args, named = call.arguments(lambda array: wide(array, as_float=op.row.result == "float"))
    names = {"dim": "axis", "keepdim": "keepdims"}
    named = {names.get(key, key): value for key, value in named.items()}
    scope.update(args=args, named=named)
    with np.errstate(all="ignore"):
        return eval(f"{op.row.ref}(*args, **named)", scope)


def of_one_dtype(op, number):
    """Whether the sample follows the test's dtype."""
    arrays = case(op, number, "float32").arrays()
    return all(array.dtype in ("float32", "int64", "bool") for array in arrays)


def in_numpy_too(op, number):
    """Whether NumPy's function has the arguments of the sample."""
    named = case(op, number).named
    return set(named) <= {"dim", "keepdim"} and (
        not named or op.table in ("reduction", "statistics")
    )


NO_COMPLEX_REFERENCE = {
    "logaddexp",
    "logaddexp2",
    "sigmoid",
}  # NumPy and SciPy have it for real numbers
REFERENCE_CASES = [
    pytest.param(op, number, dtype, id=f"{op.full_name}-{number}-{dtype}")
    for op in WITH_REFERENCE
    for number in range(len(texts_of(op)))
    if of_one_dtype(op, number) and in_numpy_too(op, number)
    for dtype in DTYPES
    if takes(op, dtype)
    and not (dtype in COMPLEX and op.full_name in NO_COMPLEX_REFERENCE)
    and not (dtype == "bool" and op.full_name == "sign")
]


@pytest.mark.parametrize(("op", "number", "dtype"), REFERENCE_CASES)
def test_reference(op, number, dtype):
    call = case(op, number, dtype)
    actual = call.run(rl)
    expected = reference(op, call)
    if op.signature.returns == "tuple":
        assert len(actual) == len(expected)
    else:
        actual, expected = [actual], [expected]
    for a, e in zip(actual, map(np.asarray, expected)):
        if not isinstance(a, rl.Tensor):
            assert a == e
            continue
        assert tuple(a.shape) == e.shape
        got = as_numpy(a)
        with np.errstate(all="ignore"):
            assert_values(got, e.astype(got.dtype), TOLERANCE.get(dtype_name(a), 0))


# ---- layouts


def transposed(t):
    order = list(range(t.dim()))[::-1]
    return t.permute(order).contiguous().permute(order)


def strided(t):
    if t.dim() == 0:
        return t
    wide = rl.zeros((*t.shape[:-1], 2 * t.shape[-1]), dtype=t.dtype)
    wide[..., ::2] = t
    return wide[..., ::2]


def shifted(t):
    storage = rl.zeros(t.numel() + 3, dtype=t.dtype)
    storage[3:] = t.reshape(-1)
    return storage[3:].view(t.shape)


LAYOUTS = (transposed, strided, shifted)
ABOUT_STRIDES = {
    "as_strided",
    "as_strided_",
    "as_strided_copy",
    "as_strided_scatter",
    "view",
    "view_copy",
    "view_as",
    "view_as_complex",
    "resize_",
    "resize_as_",
}


@pytest.mark.parametrize(
    ("op", "number"), cases(op for op in DETERMINISTIC if op.name not in ABOUT_STRIDES)
)
def test_layouts(op, number):
    call = case(op, number)
    plain = call.run(rl)
    for layout in LAYOUTS:
        assert_same(call.run(rl, lambda array, layout=layout: layout(array.tensor(rl))), plain)


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.full_name)
def test_expanded_inputs_of_elementwise_rows(op):
    for dtype in ("float32", "int64", "bfloat16"):
        if takes(op, dtype):
            call = case(op, 0, dtype, shape=(1, 7))
            expanded = call.run(rl, lambda array: array.tensor(rl).expand(5, 7))
            plain = call.run(rl, lambda array: array.tensor(rl).expand(5, 7).contiguous())
            assert_same(expanded, plain)


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.full_name)
def test_shapes_of_elementwise_rows(op):
    """An element's result does not depend on the shape it stands in."""
    for shape in [(), (0,), (2, 0, 3), (1,), (3, 1, 2)]:
        call = case(op, 0, shape=shape)
        result = call.run(rl)
        assert tuple(result.shape) == shape
        flat = call.run(rl, lambda array: array.tensor(rl).reshape(-1))
        assert_same(result.reshape(-1), flat)


@pytest.mark.parametrize("op", ELEMENTWISE, ids=lambda op: op.full_name)
def test_large_inputs_of_elementwise_rows(op):
    """As piece by piece, and the same for any number of threads."""
    call = case(op, 0, "float32" if plain_dtype(op) == "float64" else None, shape=(LARGE,))
    threads = rl.get_num_threads()
    try:
        rl.set_num_threads(1)
        alone = call.run(rl)
        rl.set_num_threads(2)
        together = call.run(rl)
    finally:
        rl.set_num_threads(threads)
    assert_same(together, alone, exact=True)
    for start in (0, 100_003, LARGE - 5):
        piece = call.run(rl, lambda array, start=start: array.tensor(rl)[start : start + 5])
        assert_same(together[start : start + 5], piece)


REDUCTIONS = [op for op in DETERMINISTIC if op.table == "reduction"]


@pytest.mark.parametrize("op", REDUCTIONS, ids=lambda op: op.full_name)
def test_large_reductions_on_any_number_of_threads(op):
    call = case(op, 0, "float32", shape=(2, LARGE // 2))
    threads = rl.get_num_threads()
    try:
        results = []
        for count in (1, 2, 3):
            rl.set_num_threads(count)
            results.append(listed(call.run(rl)))
    finally:
        rl.set_num_threads(threads)
    for other in results[1:]:
        assert_same(other, results[0], exact=True)


# ---- variants


def convert_first(call, first):
    """Make arguments tensors, the first of them `first`."""
    seen = []

    def convert(array: Array):
        seen.append(array)
        return first if len(seen) == 1 else array.tensor(rl)

    return convert


@pytest.mark.parametrize(("op", "number"), cases(IN_PLACE))
def test_in_place(op, number):
    call = case(op, number)
    expected = call.run(rl)
    if not isinstance(call.args[0], Array):
        pytest.skip("the sample has a number in the tensor's place")
    target = call.args[0].tensor(rl)
    if target.dtype != expected.dtype or target.shape != expected.shape:
        if expected.dtype != rl.bool or target.shape != expected.shape:
            with pytest.raises(RuntimeError):
                call.run(rl, convert_first(call, target), in_place_name(op))
            return
        expected = expected.to(target.dtype)
    result = call.run(rl, convert_first(call, target), in_place_name(op))
    assert result is target
    assert_same(target, expected)


def in_place_name(op):
    methods = [name for name in op.python_names if name.startswith("Tensor.")]
    return (methods or op.python_names)[0] + "_"


@pytest.mark.parametrize(("op", "number"), cases([op for op in DETERMINISTIC if op.row.out]))
def test_out(op, number):
    call = case(op, number)
    if not isinstance(call.args[0], (Array, list, tuple)) and op.tensor_parameters:
        pytest.skip("torch takes no out where a number stands for the tensor")
    expected = call.run(rl)
    name = next((n for n in op.python_names if not n.startswith("Tensor.")), None)
    if name is None:
        pytest.skip("methods take no out")
    kept = tuple(rl.empty_like(e) for e in listed(expected))
    args, named = call.arguments(lambda array: array.tensor(rl))
    given = kept if isinstance(expected, (tuple, list)) else kept[0]
    result = function(rl, name)(*args, **named, out=given)
    assert all(r is k for r, k in zip(listed(result), kept))
    assert_same(kept, listed(expected))
    empty = tuple(rl.empty(0, dtype=e.dtype) for e in listed(expected))
    function(rl, name)(
        *args, **named, out=empty if isinstance(expected, (tuple, list)) else empty[0]
    )
    assert_same(empty, listed(expected))


def spelled_otherwise(op):
    """All names of a row but the first; a method is there if the row's function has that name."""
    return op.python_names[1:]


@pytest.mark.parametrize(
    ("op", "name"),
    [
        pytest.param(op, name, id=f"{op.full_name}-{name}")
        for op in DETERMINISTIC
        for name in spelled_otherwise(op)
    ],
)
def test_all_names_mean_the_same(op, name):
    call = case(op, 0)
    if name.startswith("Tensor.") and not isinstance(call.args[0], Array):
        pytest.skip("the sample has a number in the tensor's place")
    assert_same(call.run(rl, name=name), call.run(rl))
