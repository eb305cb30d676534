"""Matrix products beside NumPy's, for the sizes at which the kernels change their ways."""

import functools
import itertools

import numpy as np
import pytest

import rushlight
from rushlight._contraction_order import contraction_order
from rushlight._table import nn_functional

pytestmark = pytest.mark.kernels
linear_activation = nn_functional._linear_activation

DTYPES = [
    "float32",
    "float64",
    "complex64",
    "complex128",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
]
# (m, k, n): tiny, edges of tiles, vectors, few rows, several blocks of k, of rows and of columns;
# few rows or columns by dot products, also in several parts.
SIZES = [(1, 1, 1), (2, 3, 1), (8, 32, 32), (7, 16, 24), (17, 33, 49), (1, 70, 130), (130, 70, 1),
         (3, 65, 64), (5, 513, 8), (64, 40, 300), (33, 1030, 20), (300, 530, 65), (260, 20, 515),
         (270, 600, 280), (12, 1100, 45), (45, 1100, 12), (3, 5000, 5), (16, 128, 17),
         (70, 1, 33)]  # fmt: skip
LAYOUTS = ["rows", "columns", "steps"]


def matrix(generator, rows, columns, dtype, layout):
    """The same values as a tensor that lies in memory as `layout` says, and as an array."""
    values = generator.integers(-9 if dtype != "uint8" else 0, 10, (rows, columns)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        values += 1j * generator.integers(-9, 10, (rows, columns))
    if layout == "columns":
        return rushlight.tensor(np.ascontiguousarray(values.T)).t(), values
    if layout == "steps":
        wide = np.full((2 * rows, 3 * columns), 77, dtype)
        wide[::2, 1::3] = values
        return rushlight.tensor(wide)[::2, 1::3], values
    return rushlight.tensor(values), values


def product(x, y):
    """Exact: sums of the small integers that `matrix` draws fit, or wrap as ours do."""
    wide = {"c": np.complex128, "f": np.float64}.get(x.dtype.kind, np.int64)
    return (x.astype(wide) @ y.astype(wide)).astype(x.dtype)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_layout(dtype, size):
    generator = np.random.default_rng(0)
    m, k, n = size
    for left, right in itertools.product(LAYOUTS, LAYOUTS):
        a, x = matrix(generator, m, k, dtype, left)
        b, y = matrix(generator, k, n, dtype, right)
        np.testing.assert_array_equal((a @ b).numpy(), product(x, y), err_msg=f"{left}, {right}")


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_linear_adds_its_bias_once(size, layout):
    generator = np.random.default_rng(0)
    m, k, n = size
    a, x = matrix(generator, m, k, "float32", layout)
    w, y = matrix(generator, n, k, "float32", layout)
    bias = np.arange(n, dtype="float32")
    found = rushlight.nn.functional.linear(a, w, rushlight.tensor(bias))
    np.testing.assert_array_equal(found.numpy(), product(x, y.T) + bias)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [(1, 1, 1), (2, 3, 5), (16, 16, 16), (17, 33, 49), (64, 130, 70),
                                  (33, 1030, 20), (3, 0, 4), (0, 3, 4)])  # fmt: skip
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_bytes_of_any_size(dtype, size, layout):
    generator = np.random.default_rng(0)
    m, k, n = size

    def draw(dtype, *shape):
        bounds = np.iinfo(dtype)
        values = generator.integers(bounds.min, bounds.max + 1, shape).astype(dtype)
        values.reshape(-1)[: values.size // 2] = bounds.min  # sums of these are the largest
        t = rushlight.tensor(values)
        if len(shape) == 2:
            t = matrix(generator, *shape, dtype, layout)[0].copy_(t)
        return t, values

    (a, x), (b, y), (c, z) = draw(dtype, m, k), draw("int8", k, n), draw(dtype, k, n)
    sums = x.astype("int64") @ y.astype("int64")
    found = rushlight._int_mm(a, b)
    assert found.dtype == rushlight.int32
    np.testing.assert_array_equal(found.numpy(), sums)
    out = rushlight.empty(m, n, dtype=rushlight.int32)
    assert rushlight._int_mm(a, b, out=out) is out and out.equal(found)
    np.testing.assert_array_equal((a @ c).numpy(), product(x, z))
    many, ones = draw(dtype, 3, m, k), draw(dtype, 3, k, n)
    np.testing.assert_array_equal((many[0] @ ones[0]).numpy(), product(many[1], ones[1]))
    np.testing.assert_array_equal((many[0] @ c).numpy(), product(many[1], z))


def test_refusals_of_int_mm():
    a, b = (rushlight.ones(2, 2, dtype=rushlight.int8) for _ in range(2))
    for args, message in [
        ((a[0], b), "self to be of dimension 2 but got 1"),
        ((a, b[0]), "mat2 to be of dimension 2 but got 1"),
        ((a.short(), b), "self dtype to be int8 or uint8 but got .*int16"),
        ((a, b.byte()), "mat2 dtype to be int8 but got .*uint8"),
        ((a, b[:1]), r"self.size\(1\) needs to match mat2.size\(0\) but got 2 and 1"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            rushlight._int_mm(*args)
    with pytest.raises(RuntimeError, match="out"):
        rushlight._int_mm(a, b, out=rushlight.empty(2, 2))


def same_bits(found, expected):
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.float().numpy(), expected.float().numpy())
    signs = np.signbit(found.float().numpy()) == np.signbit(expected.float().numpy())
    assert (signs | found.isnan().numpy()).all()


F = rushlight.nn.functional
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu,
               "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}  # fmt: skip


@pytest.mark.parametrize("size", [*SIZES, (5, 0, 4), (0, 3, 4)],
                         ids=lambda size: "x".join(map(str, size)))  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "int8"])
def test_activation_of_a_product_in_one_pass(dtype, size):
    rushlight.manual_seed(0)
    (m, k, n), whole = size, dtype.startswith("int")

    def draw(*size):
        x = rushlight.randint(-9, 9, size) if whole else rushlight.randn(size)
        x.view(-1)[:1] = 0 if whole else float("nan")
        return x.to(getattr(rushlight, dtype))

    a, w, bias, square = draw(m, k), draw(n, k), draw(n), draw(n, m).t()
    for name in ["relu"] if whole else ACTIVATIONS:
        for x, given in ((a, bias), (a, None), (a.expand(2, m, k), bias)):
            expected = ACTIVATIONS[name](F.linear(x, w, given))
            same_bits(linear_activation(x, w, given, name), expected)
    for name in ["relu"] if whole else ["relu", "gelu"]:
        for added, right, scale in (
            (bias, w.t(), {}),
            (square, w.t().contiguous(), {}),
            (square, w.t(), {"beta": 3, "alpha": 2}),
        ):
            expected = ACTIVATIONS[name](rushlight.addmm(added, a, right, **scale))
            scale["use_gelu"] = name == "gelu"
            same_bits(rushlight._addmm_activation(added, a, right, **scale), expected)
            out = rushlight.empty_like(square)
            assert rushlight._addmm_activation(added, a, right, **scale, out=out) is out
            same_bits(out, expected)


def test_activation_of_extremes_and_refusals():
    inf, nan = float("inf"), float("nan")
    x = rushlight.tensor([[inf, -inf, nan, -0.0, 0.0, 1e-40, -1e-40, 3e38]] * 20).t()
    one = rushlight.ones(1, 1)
    for activation in ("relu", "gelu", "gelu_tanh"):
        rows = [linear_activation(x[:, i : i + 1], one, None, activation) for i in range(20)]
        expected = linear_activation(x[:, :1].contiguous(), one, one[0] * 0, activation)
        for row in rows:
            np.testing.assert_array_equal(row.numpy(), expected.numpy())
    i, z = rushlight.ones(2, 2, dtype=rushlight.int64), rushlight.ones(2, 2) * 1j
    with pytest.raises(NotImplementedError, match="gelu_erf.*int64"):
        rushlight._addmm_activation(i, i, i, use_gelu=True)
    with pytest.raises(NotImplementedError, match="relu.*complex64"):
        rushlight._addmm_activation(z, z, z)
    with pytest.raises(RuntimeError, match="unknown activation tanh"):
        linear_activation(one, one, None, "tanh")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_floats_are_rounded_once(dtype):
    generator = np.random.default_rng(0)
    a, b = (rushlight.tensor(generator.standard_normal((65, 65)).astype("float32"))
            .to(getattr(rushlight, dtype)) for _ in range(2))  # fmt: skip
    expected = (a.double() @ b.double()).to(a.dtype)
    assert rushlight.allclose((a @ b).double(), expected.double(), rtol=1e-2, atol=1e-3)
    # As float32 sums in any order are: what lies near the middle of two numbers goes to either.
    exact, magnitudes = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    lowest, highest = ((exact + sign * 2.0**-22 * magnitudes).to(a.dtype) for sign in (-1, 1))
    product = a @ b
    assert bool(((lowest <= product) & (product <= highest)).all())


@pytest.mark.parametrize("batch", [1, 3])
def test_batches(batch):
    generator = np.random.default_rng(0)
    x = generator.integers(-9, 10, (batch, 70, 33)).astype("float32")
    y = generator.integers(-9, 10, (batch, 33, 50)).astype("float32")
    a, b = rushlight.tensor(x), rushlight.tensor(y)
    np.testing.assert_array_equal((a @ b).numpy(), x @ y)
    np.testing.assert_array_equal((a @ b[0]).numpy(), x @ y[0])
    np.testing.assert_array_equal((a[0] @ b).numpy(), x[0] @ y)
    across = rushlight.tensor(np.ascontiguousarray(y.transpose(0, 2, 1)))
    np.testing.assert_array_equal((a @ across.transpose(1, 2)).numpy(), x @ y)


@pytest.mark.parametrize("size", [(3, 3, 3), (16, 16, 16), (8, 130, 20), (20, 130, 1), (33, 5, 47)])
@pytest.mark.parametrize("dtype", ["float32", "int16", "complex64"])
def test_many_products(dtype, size):
    generator = np.random.default_rng(0)
    m, k, n = size
    x = generator.integers(-9, 10, (70, m, k)).astype(dtype)
    y = generator.integers(-9, 10, (70, k, n)).astype(dtype)
    c = generator.integers(-9, 10, (70, m, n)).astype(dtype)
    a, b, added = map(rushlight.tensor, (x, y, c))
    across = rushlight.tensor(np.ascontiguousarray(y.transpose(0, 2, 1))).transpose(1, 2)
    np.testing.assert_array_equal((a @ b).numpy(), x @ y)
    np.testing.assert_array_equal((a @ across).numpy(), x @ y)
    np.testing.assert_array_equal(rushlight.baddbmm(added, a, b).numpy(), c + x @ y)


@pytest.mark.parametrize("dtype", ["float32", "int32", "complex128"])
@pytest.mark.parametrize("size", [(5, 7, 6), (4, 130, 20), (70, 33, 50), (33, 1, 20)])
@pytest.mark.parametrize("shape", ["mn", "n", "1n", "m1", "", "11", "steps"])
def test_addmm_broadcasts_what_it_adds(dtype, size, shape):
    generator = np.random.default_rng(0)
    m, k, n = size
    a, x = matrix(generator, m, k, dtype, "rows")
    b, y = matrix(generator, k, n, dtype, "columns")
    if shape == "steps":
        c, z = matrix(generator, m, n, dtype, "steps")
    else:
        z = generator.integers(-9, 10, [{"m": m, "n": n, "1": 1}[d] for d in shape]).astype(dtype)
        c = rushlight.tensor(z)
    expected = 3 * z + 2 * product(x, y)
    np.testing.assert_array_equal(rushlight.addmm(c, a, b, beta=3, alpha=2).numpy(), expected)
    once = z + 2 * product(x, y)
    np.testing.assert_array_equal(rushlight.addmm(c, a, b, alpha=2).numpy(), once)
    if z.shape == (m, n):
        np.testing.assert_array_equal(c.addmm_(a, b, beta=3, alpha=2).numpy(), expected)


@pytest.mark.parametrize("shape", [(3, 4, 5), (4, 5), (3, 1, 5), (3, 4, 1), (1,), ()])
def test_baddbmm_broadcasts_what_it_adds(shape):
    generator = np.random.default_rng(0)
    x, y, z = (generator.integers(-9, 10, s).astype("float32")
               for s in ((3, 4, 6), (3, 6, 5), shape))  # fmt: skip
    a, b, c = map(rushlight.tensor, (x, y, z))
    np.testing.assert_array_equal(rushlight.baddbmm(c, a, b).numpy(), z + x @ y)
    one = b[:1].expand(3, 6, 5)  # a single product of all rows, whose addend lies evenly or not
    np.testing.assert_array_equal(rushlight.baddbmm(c, a, one, beta=2).numpy(), 2 * z + x @ y[:1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_16_bit_sums_are_rounded_once(dtype):
    dtype = getattr(rushlight, dtype)
    rushlight.manual_seed(0)
    a, b, c = (rushlight.randn(20, 20).to(dtype) for _ in range(3))
    expected = rushlight.addmm(c.float(), a.float(), b.float(), beta=0.3, alpha=0.7).to(dtype)
    assert rushlight.equal(rushlight.addmm(c, a, b, beta=0.3, alpha=0.7), expected)
    assert rushlight.equal(rushlight.baddbmm(c, a[None], b[None], beta=0.3, alpha=0.7)[0], expected)
    halves = a.view(20, 2, 10).transpose(0, 1), b.view(2, 10, 20)
    assert rushlight.equal(rushlight.addbmm(c, *halves, beta=0.3, alpha=0.7), expected)
    column = rushlight.addmv(c[:, 0], a, b[:, 0], beta=0.3, alpha=0.7)
    assert rushlight.equal(column, expected[:, 0])
    outer = rushlight.addmm(c.float(), a[:, :1].float(), b[:1].float(), beta=0.3, alpha=0.7)
    assert rushlight.equal(rushlight.addr(c, a[:, 0], b[0], beta=0.3, alpha=0.7), outer.to(dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("size", [(40, 40, 40), (33, 65, 70), (1, 300, 130), (130, 301, 1)])
def test_narrow_integers_wrap(dtype, size):
    generator = np.random.default_rng(0)
    m, k, n = size
    info = np.iinfo(dtype)
    x, y, z = (generator.integers(info.min, info.max + 1, shape).astype(dtype)
               for shape in ((m, k), (k, n), (m, n)))  # fmt: skip
    x[0], y[:, 0] = info.min, info.min  # the largest products of all
    a, b, c = (rushlight.tensor(v) for v in (x, y, z))
    transposed = rushlight.tensor(np.ascontiguousarray(y.T)).t()
    for right in (b, transposed):
        np.testing.assert_array_equal((a @ right).numpy(), product(x, y))
    expected = (-3 * product(x, y).astype(np.int64) + 2 * z.astype(np.int64)).astype(dtype)
    np.testing.assert_array_equal(rushlight.addmm(c, a, b, beta=2, alpha=-3).numpy(), expected)
    both = rushlight.stack([a, a.flip(0)]) @ rushlight.stack([b, b])
    np.testing.assert_array_equal(both[1].numpy(), product(x[::-1], y))


def test_addr_of_bools_is_logical():
    c, v, w = (rushlight.tensor(x, dtype=rushlight.bool)
               for x in ([[0, 1], [0, 0]], [1, 0], [1, 0]))  # fmt: skip
    assert rushlight.addr(c, v, w).tolist() == [[True, True], [False, False]]
    assert rushlight.addr(c, v, w, beta=0).tolist() == [[True, False], [False, False]]
    assert rushlight.addr(c, v, w, alpha=0).tolist() == [[False, True], [False, False]]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("scales", [{}, {"alpha": 2}, {"beta": 2}, {"beta": 0, "alpha": 3}])
def test_addr_in_place(dtype, layout, scales):
    generator = np.random.default_rng(0)
    (c, z), (a, x), (b, y) = (matrix(generator, *size, dtype, layout)
                              for size in ((40, 33), (40, 1), (33, 1)))  # fmt: skip
    outer = (x.T[0][:, None] * y.T[0]).astype(dtype)
    expected = (scales.get("beta", 1) * z + scales.get("alpha", 1) * outer).astype(dtype)
    np.testing.assert_array_equal(rushlight.addr(c, a[:, 0], b[:, 0], **scales).numpy(), expected)
    assert c.addr_(a[:, 0], b[:, 0], **scales) is c
    np.testing.assert_array_equal(c.numpy(), expected)


def test_outer_products_lie_in_rows():
    a, b = rushlight.rand(6, 4).t()[:, :1], rushlight.rand(5, 1).t()
    added = rushlight.rand(5, 4).t()
    assert (a @ b).is_contiguous()
    assert rushlight.addmm(added, a, b).is_contiguous()
    out = rushlight.empty(5, 4).t()
    assert rushlight.equal(rushlight.addmm(added, a, b, out=out), rushlight.addmm(added, a, b))
    assert out.stride() == (1, 4)


def test_addr_of_its_own_rows():
    x = rushlight.arange(9.0).view(3, 3)
    expected = x + x[0].outer(x[1])
    assert rushlight.equal(x.addr_(x[0], x[1]), expected)
    bools = rushlight.tensor([[True, False], [False, True]])
    assert bools.addr_(bools[0], bools[1]).tolist() == [[True, True], [False, True]]


def test_sums_of_empty_batches_and_vectors():
    c = rushlight.ones(2, 3)
    nothing = rushlight.addbmm(c, rushlight.ones(0, 2, 4), rushlight.ones(0, 4, 3), beta=2)
    assert rushlight.equal(nothing, 2 * c)
    product = rushlight.addmv(c[:, 0], rushlight.ones(2, 0), rushlight.ones(0), beta=2)
    assert rushlight.equal(product, 2 * c[:, 0])
    assert rushlight.addr(c[:0], rushlight.ones(0), rushlight.ones(3)).shape == (0, 3)
    nan = rushlight.full((2,), float("nan"))
    assert rushlight.addmv(nan, c, rushlight.ones(3), beta=0).tolist() == [3, 3]


def test_addmm_of_its_own_operands():
    rushlight.manual_seed(0)
    x, y = rushlight.randn(40, 40), rushlight.randn(40, 40)
    expected = rushlight.addmm(x, x, x.t())
    assert rushlight.equal(x.clone().addmm_(x, x.t()), expected)
    mine = x.clone()
    assert rushlight.equal(mine.addmm_(mine, mine.t()), expected)
    assert rushlight.equal(rushlight.addmm(x, x, x.t(), out=y), expected)


def test_addmm_without_input_or_sums():
    nan = rushlight.full((3, 2), float("nan"))
    a, b = rushlight.ones(3, 4), rushlight.ones(4, 2)
    assert rushlight.equal(rushlight.addmm(nan, a, b, beta=0), rushlight.full((3, 2), 4.0))
    none = rushlight.ones(3, 0), rushlight.ones(0, 2)
    assert rushlight.equal(rushlight.addmm(nan, *none, beta=0), rushlight.zeros(3, 2))
    found = rushlight.addmm(rushlight.tensor([1.0, 2.0]), *none, beta=3)
    assert found.tolist() == [[3.0, 6.0]] * 3
    assert rushlight.addmm(rushlight.ones(2), rushlight.ones(0, 4), b).shape == (0, 2)
    with pytest.raises(RuntimeError, match="addmm"):
        rushlight.addmm(rushlight.ones(5, 3, 2), a, b)
    with pytest.raises(RuntimeError, match="addmm"):
        rushlight.ones(2).addmm_(a, b)


@pytest.mark.parametrize("shape", [(3, 5), (5,), (3, 1), ()])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_gradients_of_addmm(shape, dtype):
    rushlight.manual_seed(0)
    dtype = getattr(rushlight, dtype)
    c, a, b = (rushlight.randn(s, dtype=dtype, requires_grad=True)
               for s in (shape, (3, 4), (4, 5)))  # fmt: skip
    number = 0.5 - 0.25j if dtype.is_complex else 0.5

    def added(c, a, b):
        return rushlight.addmm(c, a, b, beta=number, alpha=3 * number)

    assert rushlight.autograd.gradcheck(added, (c, a, b))
    assert rushlight.autograd.gradgradcheck(added, (c, a, b))


def test_sums_over_nothing():
    assert rushlight.equal(rushlight.ones(3, 0) @ rushlight.ones(0, 2), rushlight.zeros(3, 2))
    assert (rushlight.ones(0, 3) @ rushlight.ones(3, 2)).shape == (0, 2)
    bias = rushlight.tensor([1.0, 2.0])
    found = rushlight.nn.functional.linear(rushlight.ones(3, 0), rushlight.ones(2, 0), bias)
    assert rushlight.equal(found, bias.expand(3, 2))


def test_nan_stays_in_its_row_and_column():
    a, b = rushlight.ones(70, 40), rushlight.ones(40, 90)
    a[3, 5] = float("nan")
    b[7, 80] = float("inf")
    found = a @ b
    assert found[3].isnan().all() and found.isnan().sum() == 90
    assert found[:, 80].isinf().sum() == 69


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "bfloat16"])
@pytest.mark.parametrize(
    "m, k, n",
    [
        (300, 530, 700),
        (20, 3000, 900),
        (1, 3000, 3000),
        (3000, 2000, 1),
        (9, 2000, 2000),
        (2000, 2000, 13),
        (20000, 7, 5),
        (5000, 65, 1),
        (40, 1000, 300),
        (64, 1030, 130),
        (64, 600, 70),
    ],
)
def test_the_same_for_any_number_of_threads(dtype, m, k, n):
    rushlight.manual_seed(0)
    a = rushlight.randn(m, k).to(getattr(rushlight, dtype))
    b, across = (rushlight.randn(*sizes).to(a.dtype) for sizes in ((k, n), (n, k)))
    before = rushlight.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3, 8):
            rushlight.set_num_threads(threads)
            results.append((a @ b, a @ across.t(), a.t().contiguous().t() @ b))
    finally:
        rushlight.set_num_threads(before)
    for found in results[1:]:
        assert all(
            rushlight.equal(one, other) for one, other in zip(found, results[0], strict=True)
        )


EQUATIONS = [
    "ab,bc,cd->ad", "ab,bc,cd,de->ae", "ab,ab,c->c", "aab,bc,c->a", "ij,ij,ij->", "a,b,c->cab",
    "bhid,bhjd,bhjk->bhik", "ab,bc,cd,de,ef,fa->", "...ab,...bc,c...->...a",
]  # fmt: skip


@pytest.mark.parametrize("equation", EQUATIONS)
@pytest.mark.parametrize("strategy", ["auto", "greedy", "optimal", None])
def test_einsum_in_any_order(equation, strategy):
    generator = np.random.default_rng(0)
    size = {c: 2 + i for i, c in enumerate("abcdefhijk")}
    arrays = []
    for term in equation.split("->")[0].split(","):
        shape = [n for c in term.replace("...", ".") for n in ([2, 3] if c == "." else [size[c]])]
        arrays.append(generator.integers(-3, 4, shape).astype("float64"))
    with rushlight.backends.opt_einsum.flags(strategy is not None, strategy):
        found = rushlight.einsum(equation, *map(rushlight.tensor, arrays))
    np.testing.assert_array_equal(found.numpy(), np.einsum(equation, *arrays))


def test_einsum_refuses_equations_that_are_none():
    a, b = rushlight.ones(2, 3), rushlight.ones(3, 4)
    for equation in ("ij,jk,kl", "ij,j-", "i1,jk", "ij..,jk"):
        with pytest.raises(RuntimeError, match="einsum"):
            rushlight.einsum(equation, a, b)


def test_the_order_of_products():
    order = [contraction_order(
        tuple(map(frozenset, ("ab", "bc", "cd"))), frozenset("ad"),
        (("a", 1000), ("b", 2), ("c", 1000), ("d", 2)), strategy)
        for strategy in ("optimal", "greedy", "auto")]  # fmt: skip
    assert order == [((1, 2), (0, 1))] * 3
    flags = rushlight.backends.opt_einsum
    with pytest.raises(ValueError, match="strategy"), flags.flags(strategy="fast"):
        rushlight.einsum("a,a,a->a", *[rushlight.ones(2)] * 3)
    assert flags.set_flags(False, "greedy") == (True, "auto")
    assert flags.set_flags(True, "auto") == (False, "greedy")


def test_multi_dot_of_any_sizes():
    generator = np.random.default_rng(0)
    for case in range(60):
        sizes = generator.integers(0 if case % 10 == 0 else 1, 9, generator.integers(3, 8))
        arrays = [generator.integers(-3, 4, pair).astype("float64")
                  for pair in zip(sizes, sizes[1:])]  # fmt: skip
        if case % 3 == 1:
            arrays[0] = arrays[0][0]
        if case % 4 == 1:
            arrays[-1] = arrays[-1][:, 0]
        expected = functools.reduce(np.matmul, arrays)
        found = rushlight.linalg.multi_dot([rushlight.tensor(a.copy()) for a in arrays])
        assert tuple(found.shape) == expected.shape
        np.testing.assert_array_equal(found.numpy(), expected)


def test_refusals_of_multi_dot():
    matrix, vector = rushlight.ones(2, 2), rushlight.ones(2)
    for tensors, message in [
        ([vector], "at least 2 tensors but got 1"),
        ([matrix, matrix[:1]], r"0 and 1 with shapes \[2, 2\] and \[1, 2\] cannot"),
        ([vector, matrix[0, :1]], r"0 and 1 with shapes \[2\] and \[1\] cannot"),
        ([matrix, vector, matrix], "tensor 1 must be 2D but got 1D"),
        ([vector[0], vector], "tensor 0 must be 1D or 2D but got 0D"),
        ([matrix, matrix.double()], "tensor 0 is .*float32 and tensor 1 .*float64"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            rushlight.linalg.multi_dot(tensors)


def assert_within(bound, found, expected):
    assert np.isfinite(bound).all() and np.isfinite(expected).all()
    assert (np.abs(found.double().numpy().reshape(expected.shape) - expected) <= bound).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [1, 2, 5, 8, 16, 17, 31, 47, 95])
def test_many_short_rows_by_few_columns(k, dtype):
    """Whatever way is chosen, beside sums in double; with what is added and where it lies."""
    random = np.random.default_rng(k)
    for rows, columns in ((63, 1), (64, 2), (600, 1), (600, 3)):
        x, w = (random.standard_normal(s).astype(dtype) for s in ((rows, k), (columns, k)))
        added = random.standard_normal((rows, columns)).astype(dtype)
        a, b, c = map(rushlight.from_numpy, (x, w, added))
        exact = x.astype("float64") @ w.astype("float64").T
        sizes = 2 * np.abs(x) @ np.abs(w).T + np.abs(added).max()
        bound = 4 * np.finfo(dtype).eps * sizes.max(1, keepdims=True)
        check = functools.partial(assert_within, bound)
        check(nn_functional.linear(a, b), exact)
        check(nn_functional.linear(a, b, c[0]), exact + added[:1])
        check(rushlight.addmm(c, a, b.T, beta=-0.5, alpha=2.0), 2 * exact - 0.5 * added)
        check((b @ a.T).T, exact)
        check(a.T.contiguous().T @ b.T, exact)
        wide = rushlight.zeros(rows, k + 5, dtype=a.dtype)
        wide[:, 2:-3] = a
        check(wide[:, 2:-3] @ b.T, exact)
        out = rushlight.zeros(rows, 2 * columns, dtype=a.dtype)[:, ::2]
        check(rushlight.mm(a, b.T, out=out), exact)
        check((a @ b[0])[:, None], exact[:, :1])


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize("n", [15, 63, 64, 203])
@pytest.mark.parametrize("k", [62, 128, 518, 1031])
def test_some_rows_by_a_matrix_in_columns(k, n, dtype):
    """As a layer has it; beside sums in double."""
    rushlight.manual_seed(k)
    w, bias = (rushlight.randn(*s).to(getattr(rushlight, dtype)) for s in ((n, k), (n,)))
    eps = rushlight.finfo(w.dtype).eps
    for m in (3, 5, 8, 16, 17, 33, 64, 65):
        x = rushlight.randn(m, k).to(w.dtype)
        exact = x.double() @ w.double().T
        sums = x.double().abs() @ w.double().abs().T
        bound = 4 * 2.0**-24 * sums + eps * (exact.abs() + 4)
        if dtype == "float64":
            bound = 4 * eps * sums + eps
        for found, expected in (
            (F.linear(x, w), exact),
            (F.linear(x, w, bias), exact + bias.double()),
            (rushlight.relu(F.linear(x, w, bias)), (exact + bias.double()).relu()),
            ((w @ x.T).T, exact),
            (x.T.contiguous().T @ w.T, exact),
            (x.expand(2, m, k) @ w.T, exact.expand(2, m, n)),
            (linear_activation(x, w, bias, "relu"), (exact + bias.double()).relu()),
        ):
            assert bool(((found.double() - expected).abs() <= bound).all())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("k", [1, 2, 7, 8, 16, 17])
def test_batches_of_short_dot_products(k, dtype):
    random = np.random.default_rng(k)
    for count in (31, 32, 600):
        x, y = (random.standard_normal((count, k)).astype(dtype) for _ in range(2))
        added = random.standard_normal((count, 1, 1)).astype(dtype)
        a, b, c = map(rushlight.from_numpy, (x, y, added))
        exact = (x.astype("float64") * y).sum(1)
        bound = 4 * np.finfo(dtype).eps * (2 * np.abs(x * y).sum(1) + np.abs(added).max())
        check = functools.partial(assert_within, bound)
        check(rushlight.einsum("bi,bi->b", a, b), exact)
        check(rushlight.bmm(a[:, None], b[:, :, None]), exact)
        check(rushlight.baddbmm(c, a[:, None], b[:, :, None], beta=0.5, alpha=-2),
              0.5 * added[:, 0, 0] - 2 * exact)  # fmt: skip
        check(a[:, None] @ b[:1, :, None].expand(count, k, 1), (x * y[:1]).sum(1))
        wide = rushlight.zeros(count, 2, k + 3, dtype=a.dtype)
        wide[:, 1, 2:-1] = a
        out = rushlight.zeros(count, 3, dtype=a.dtype)[:, 1:2, None]
        check(rushlight.bmm(wide[:, 1:, 2:-1], b[:, :, None], out=out), exact)


SMALL_DTYPES = [d for d in DTYPES if not d.startswith("complex")] + ["float16", "bfloat16"]


def draw_whole(random, dtype, *sizes):
    """Whole numbers as a tensor and as what exact sums are made of: all integers of the dtype, or
    floats whose sums float32 holds.
    """
    if "float" in dtype:
        values = random.integers(-9, 10, sizes).astype("float64")
        return rushlight.tensor(values).to(getattr(rushlight, dtype)), values
    info = np.iinfo(dtype)
    values = random.integers(info.min, info.max, sizes, dtype=dtype, endpoint=True)
    return rushlight.tensor(values), values.astype("int64")


def assert_rounds_to(found, exact):
    """Are they the exact sums in the dtype of `found`: rounded once, or wrapped?"""
    if found.is_floating_point():
        expected = rushlight.tensor(exact).to(found.dtype)
        np.testing.assert_array_equal(found.double().numpy(), expected.double().numpy())
    else:
        np.testing.assert_array_equal(found.numpy(), exact.astype(found.numpy().dtype))


@pytest.mark.parametrize("dtype", SMALL_DTYPES)
@pytest.mark.parametrize(
    "m, k, n",
    [(1, 2, 1), (1, 7, 1), (1, 16, 1), (1, 33, 1), (1, 130, 1), (1, 5, 3), (3, 3, 3), (4, 4, 4),
     (2, 10, 7), (7, 1, 5), (5, 12, 1), (10, 10, 10), (6, 24, 20)],
)  # fmt: skip
def test_batches_of_small_matrices(m, k, n, dtype):
    """As many as fill lanes, and a number that leaves some of them empty."""
    random = np.random.default_rng(k)
    for count in (7, 64, 601):
        a, x = draw_whole(random, dtype, count, m, k)
        b, y = draw_whole(random, dtype, count, k, n)
        c, z = draw_whole(random, dtype, count, m, n)
        assert_rounds_to(a @ b, x @ y)
        across = a.transpose(1, 2).contiguous().transpose(1, 2)
        assert_rounds_to(across @ b, x @ y)
        assert_rounds_to(a @ b.transpose(1, 2).contiguous().transpose(1, 2), x @ y)
        assert_rounds_to(a @ b[:1].expand(count, k, n), x @ y[:1])
        assert_rounds_to(a[:1].expand(count, m, k) @ b, x[:1] @ y)
        assert_rounds_to(rushlight.baddbmm(c, a, b, beta=2, alpha=-3), 2 * z - 3 * (x @ y))
        assert_rounds_to(rushlight.baddbmm(c[0], across, b), z[:1] + x @ y)
        wide = rushlight.zeros(count, m + 1, k + 3, dtype=a.dtype)
        wide[:, 1:, 2:-1] = a
        out = rushlight.zeros(count, n, 2 * m, dtype=a.dtype)[:, :, ::2].transpose(1, 2)
        assert_rounds_to(rushlight.bmm(wide[:, 1:, 2:-1], b, out=out), x @ y)


@pytest.mark.parametrize("dtype", SMALL_DTYPES)
@pytest.mark.parametrize("k, n", [
    (2, 1), (7, 1), (40, 1), (131, 1), (1, 3), (2, 2), (3, 10), (7, 7), (10, 3), (11, 20), (24, 5)
])  # fmt: skip
def test_many_short_rows_by_a_small_matrix(k, n, dtype):
    random = np.random.default_rng(k)
    for rows in (65, 600, 2049):
        a, x = draw_whole(random, dtype, rows, k)
        w, y = draw_whole(random, dtype, n, k)
        c, z = draw_whole(random, dtype, rows, n)
        assert_rounds_to(nn_functional.linear(a, w), x @ y.T)
        assert_rounds_to(nn_functional.linear(a, w, c[0]), x @ y.T + z[:1])
        assert_rounds_to(linear_activation(a, w, c[0], "relu"),
                         np.maximum(wrapped(x @ y.T + z[:1], dtype), 0))  # fmt: skip
        assert_rounds_to(rushlight.addmm(c, a, w.T, beta=2, alpha=-3), 2 * z - 3 * (x @ y.T))
        assert_rounds_to(a @ w.T.contiguous(), x @ y.T)
        assert_rounds_to((w @ a.T).T, x @ y.T)
        assert_rounds_to(a.T.contiguous().T @ w.T, x @ y.T)
        assert_rounds_to(a[:1].expand(rows, k) @ w.T, (x[:1] @ y.T).repeat(rows, 0))
        assert_rounds_to(rushlight.stack([a, a.flip(0)]) @ w.T, np.stack([x, x[::-1]]) @ y.T)
        wide = rushlight.zeros(rows, k + 5, dtype=a.dtype)
        wide[:, 2:-3] = a
        out = rushlight.zeros(rows, 2 * n, dtype=a.dtype)[:, ::2]
        assert_rounds_to(rushlight.mm(wide[:, 2:-3], w.T, out=out), x @ y.T)


def wrapped(values, dtype):
    return values if "float" in dtype else values.astype(dtype).astype("int64")


@pytest.mark.parametrize("dtype", SMALL_DTYPES[:2] + SMALL_DTYPES[-2:])
@pytest.mark.parametrize("k", [3, 40])
def test_nan_and_infinity_stay_in_their_lane(k, dtype):
    a, b = (rushlight.ones(*sizes).to(getattr(rushlight, dtype)) for sizes in ((600, k), (k, 3)))
    a[5, 1], a[7, k - 1] = float("nan"), float("inf")
    for found in (a @ b, (a @ b[:, 0])[:, None], (a[:, None] @ b[None].expand(600, k, 3))[:, 0]):
        assert found[5].isnan().all() and found[7].isinf().all()
        assert found.isfinite().all(1).sum() == 598


@pytest.mark.parametrize("left, right", [((0,), (0,)), ((2, 0), (3, 0)), ((2, 3, 0), (0,))])
def test_inner_products_of_nothing(left, right):
    got = rushlight.inner(rushlight.ones(left), rushlight.ones(right))
    np.testing.assert_array_equal(got.numpy(), np.inner(np.ones(left), np.ones(right)))


def test_addr_promotes():
    matrix, ints = rushlight.ones(2, 2, dtype=rushlight.int32), rushlight.tensor([1, 2])
    halves, doubles = ints.half(), ints.double()
    assert rushlight.addr(matrix, halves, ints).dtype is rushlight.float16
    assert rushlight.addr(matrix.float(), ints, doubles).tolist() == [[2, 3], [3, 5]]
    out = rushlight.empty(2, 2)
    assert rushlight.addr(matrix, ints, ints, out=out).tolist() == [[2, 3], [3, 5]]
    with pytest.raises(RuntimeError, match="can't be cast"):
        matrix.addr_(doubles, doubles)
    with pytest.raises(RuntimeError, match="beta must not be a floating point number"):
        rushlight.addr(matrix, ints, ints, beta=0.5)
    with pytest.raises(RuntimeError, match="Boolean beta only supported for Boolean results"):
        rushlight.addr(matrix, ints, ints, beta=True)
    leaf = doubles.clone().requires_grad_()
    rushlight.addr(matrix.float(), leaf, ints).sum().backward()
    assert leaf.grad.tolist() == [3, 3] and leaf.grad.dtype is rushlight.float64


@pytest.mark.parametrize(
    "equation, sizes",
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("bij,bkj->ik", [(2, 3, 4), (2, 5, 4)]),
        ("iij,j", [(3, 3, 4), (4,)]),
        ("...i,...ij->...j", [(2, 1, 3), (5, 3, 4)]),
        ("ij,jk,kl->li", [(2, 3), (3, 4), (4, 5)]),
        ("ij->ji", [(2, 3)]),
    ],
)
def test_an_einsum_of_the_same_shapes_again(equation, sizes):
    for _ in range(3):  # the second time its steps are known
        operands = [rushlight.randn(*size, dtype=rushlight.float64) for size in sizes]
        arrays = [t.numpy() for t in operands]
        result = rushlight.einsum(equation, *operands)
        np.testing.assert_allclose(result.numpy(), np.einsum(equation, *arrays))
        leaves = [rushlight.nn.Parameter(t) for t in operands]
        rushlight.einsum(equation, *leaves).sum().backward()
        assert all(leaf.grad.shape == leaf.shape for leaf in leaves)
    with pytest.raises(RuntimeError, match="number of subscripts"):
        rushlight.einsum(equation, *[t[None] if "..." not in equation else t[0, 0, 0]
                                     for t in operands])  # fmt: skip
