"""Properties that hold for any input: overlap, indexing, broadcasting, promotion."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

import rushlight as rl

SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)
DTYPES = (
    "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
).split()


def numbers(shape):
    return np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape)


@given(
    st.integers(2, 40),
    st.integers(0, 5),
    st.integers(0, 5),
    st.sampled_from(["add_", "mul_", "sub_", "copy_"]),
)
def test_overlapping_in_place_ops_equal_the_out_of_place_result(size, to, of, name):
    x = rl.arange(1.0, size + 6)
    target, source = x[to : to + size], x[of : of + size]
    expected = source.clone() if name == "copy_" else getattr(target, name[:-1])(source)
    getattr(target, name)(source)
    assert target.tolist() == expected.tolist()


@given(st.integers(1, 30))
def test_reversed_and_transposed_overlap(size):
    x = rl.arange(float(size * size)).view(size, size)
    expected = x + x.t()
    x.add_(x.t())
    assert x.tolist() == expected.tolist()


ROWS, EACH = rl.tensor([2, 0, 2]), rl.tensor([[0, 2, 1], [2, 2, 0], [1, 0, 0]])
CHOSEN = rl.tensor([[True, False, True], [False, True, True], [True, True, True]])


@pytest.mark.parametrize("shared", ["itself", "transposed", "shifted", "elsewhere"])
@pytest.mark.parametrize(
    "name, arguments",
    [
        ("index_add", lambda s: (0, ROWS, s)), ("index_copy", lambda s: (0, ROWS, s)),
        ("index_fill", lambda s: (1, ROWS, s[1, 1])), ("index_put", lambda s: ((ROWS,), s)),
        ("index_put", lambda s: ((ROWS, ROWS), s[0], True)),
        ("index_put", lambda s: ((CHOSEN,), s[0, 0])),
        ("index_put", lambda s: ((CHOSEN,), s.flatten()[:7])), ("put", lambda s: (EACH, s)),
        ("scatter", lambda s: (1, EACH, s)), ("scatter_add", lambda s: (0, EACH, s)),
        ("scatter_reduce", lambda s: (1, EACH, s, "mean")),
        ("masked_fill", lambda s: (CHOSEN, s[2, 2])),
        ("masked_scatter", lambda s: (CHOSEN, s)), ("cumsum", lambda s: (1,)),
        ("cumprod", lambda s: (0,)),
        ("tril", lambda s: ()), ("triu", lambda s: (1,)), ("pow", lambda s: (2,)),
        ("fill", lambda s: (s[0, 1],)),
        ("nextafter", lambda s: (s,)),
    ],
)  # fmt: skip
def test_in_place_kernels_equal_the_plain_op(name, arguments, shared):
    """Whatever memory operands share, in a window of a larger tensor, whose rest stays."""
    whole = (rl.arange(60.0) * 7 % 11 + 1).view(5, 12)
    target = whole[1:4, 1:7:2]
    shares = {"itself": target, "transposed": target.t(), "shifted": whole[2:5, 3:9:2]}
    source = shares.get(shared, target + 1)
    if name == "fill":
        expected = rl.full_like(target, source[0, 1].item())
    else:
        plain = getattr(target, name, None) or getattr(rl, name)
        expected = plain(*arguments(source))
    before, version = whole.clone(), whole._version
    assert getattr(target, name + "_")(*arguments(source)) is target
    assert target.tolist() == expected.tolist() and whole._version == version + 1
    before[1:4, 1:7:2] = expected
    assert rl.equal(whole, before)


def test_in_place_kernels_keep_shape_and_dtype():
    x, wide = rl.ones(3), rl.ones(2, 3, dtype=rl.bool)
    for call in (
        lambda: x.masked_fill_(wide, 0.0),
        lambda: x.masked_scatter_(wide, rl.zeros(6)),
        lambda: rl.arange(3).cumsum_(0, dtype=rl.float32),
        lambda: rl.arange(3).pow_(0.5),
    ):
        with pytest.raises(RuntimeError):
            call()
    assert x.tolist() == [1, 1, 1]
    assert x.cumsum_(0, dtype=rl.float64).dtype == rl.float32 and x.tolist() == [1, 2, 3]
    with pytest.raises(IndexError):
        x.index_put_((rl.tensor([0, 7]),), rl.tensor([9.0, 9.0]))
    assert x.tolist() == [1, 2, 3]


@given(
    SHAPES.flatmap(
        lambda shape: st.tuples(st.just(shape), hnp.basic_indices(shape, allow_newaxis=True))
    )
)
def test_basic_indexing(case):
    shape, index = case
    if any(
        isinstance(i, slice) and (i.step or 1) < 0
        for i in (index if isinstance(index, tuple) else (index,))
    ):
        return  # torch has no negative steps
    values = numbers(shape)
    x = rl.from_numpy(values.copy())
    np.testing.assert_array_equal(x[index].numpy(), values[index])
    x[index] = -1.0
    values[index] = -1.0
    np.testing.assert_array_equal(x.numpy(), values)


@given(SHAPES.flatmap(lambda shape: st.tuples(st.just(shape), hnp.integer_array_indices(shape))))
def test_advanced_indexing(case):
    shape, index = case
    values = numbers(shape)
    x = rl.from_numpy(values.copy())
    places = tuple(rl.from_numpy(np.ascontiguousarray(i)) for i in index)
    np.testing.assert_array_equal(x[places].numpy(), values[index])
    x[places] = 5.0
    values[index] = 5.0
    np.testing.assert_array_equal(x.numpy(), values)


@given(SHAPES.flatmap(lambda shape: hnp.arrays(bool, shape)))
def test_masks(mask):
    values = numbers(mask.shape)
    x, m = rl.from_numpy(values.copy()), rl.from_numpy(mask)
    np.testing.assert_array_equal(x[m].numpy(), values[mask])
    x[m] = 0
    values[mask] = 0
    np.testing.assert_array_equal(x.numpy(), values)


@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=3))
def test_broadcasting(shapes):
    a, b = (numbers(shape) for shape in shapes.input_shapes)
    result = rl.from_numpy(np.array(a)) * rl.from_numpy(np.array(b))
    assert tuple(result.shape) == shapes.result_shape
    np.testing.assert_array_equal(result.numpy(), a * b)


@given(SHAPES, SHAPES)
def test_broadcasting_refuses_what_numpy_refuses(first, second):
    try:
        expected = np.broadcast_shapes(first, second)
    except ValueError:
        with pytest.raises(RuntimeError):
            rl.zeros(first) + rl.zeros(second)
    else:
        assert tuple((rl.zeros(first) + rl.zeros(second)).shape) == expected


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("first", DTYPES)
@pytest.mark.parametrize("second", DTYPES)
def test_promotion_is_that_of_torch(first, second):
    torch = pytest.importorskip("torch")

    def results(library):
        a, b = (library.ones(2, dtype=getattr(library, name)) for name in (first, second))
        return [str(r.dtype) for r in (a + b, a + b[0], a[0] + b, a * 2, a * 2.5, a * 2j, a + True)]

    ours = [name.replace("rushlight.", "torch.") for name in results(rl)]
    for actual, expected in zip(ours, results(torch)):
        assert actual == expected or expected == "torch.complex32"  # which there is none of here
