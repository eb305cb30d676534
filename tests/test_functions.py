"""Functions of the Python layer that are no row of the op table."""

import numpy as np
import pytest

import rushlight as rl

GRID = rl.arange(60, dtype=rl.float64).mul(0.37).sin().reshape(3, 4, 5)
PLACES = rl.tensor([0.0, 0.5, 2.0, 2.25], dtype=rl.float64)


@pytest.mark.parametrize("edge_order", [1, 2])
def test_gradient_of_a_grid(edge_order):
    for spacing, dims in ((1, (0, 1, 2)), (0.5, (2,)), ([2.0, 0.1], (1, -1)), ([PLACES], (1,))):
        got = rl.gradient(GRID, spacing=spacing, dim=dims, edge_order=edge_order)
        steps = spacing if isinstance(spacing, list) else [spacing] * len(dims)
        steps = [s.numpy() if isinstance(s, rl.Tensor) else s for s in steps]
        expected = np.gradient(GRID.numpy(), *steps, axis=dims, edge_order=edge_order)
        for g, e in zip(got, expected if len(dims) > 1 else [expected]):
            np.testing.assert_allclose(g.numpy(), e, atol=1e-13)


def test_gradient_of_two_values_and_of_integers():
    assert rl.gradient(rl.tensor([1.0, 3.0]), spacing=4)[0].tolist() == [0.5, 0.5]
    assert rl.gradient(rl.tensor([1, 4, 9]))[0].tolist() == [3, 4, 5]


def test_gradient_refuses():
    with pytest.raises(RuntimeError, match="edge_order"):
        rl.gradient(GRID, edge_order=3)
    with pytest.raises(RuntimeError, match="multiple times"):
        rl.gradient(GRID, dim=(1, -2))
    with pytest.raises(RuntimeError, match="spacing"):
        rl.gradient(GRID, spacing=[1.0], dim=(0, 1))
    with pytest.raises(RuntimeError, match="coordinates"):
        rl.gradient(GRID, spacing=[PLACES], dim=0)
    with pytest.raises(IndexError, match="out of range"):
        rl.gradient(GRID, dim=3)
    with pytest.raises(RuntimeError, match="edge_order"):
        rl.gradient(rl.ones(2), edge_order=2)


POINTS = rl.rand(50, 2, dtype=rl.float64, generator=rl.Generator().manual_seed(0))


@pytest.mark.parametrize("density", [False, True])
def test_histogramdd(density):
    weight = POINTS[:, 0] + 1
    edges = [
        rl.tensor([0.1, 0.2, 0.7], dtype=rl.float64),
        rl.tensor([0.0, 0.5, 0.9, 1.0], dtype=rl.float64),
    ]
    for bins, ends in ((3, None), ([2, 4], [0.0, 1.0, 0.25, 0.75]), (edges, None)):
        got = rl.histogramdd(POINTS, bins, range=ends, weight=weight, density=density)
        numpy_bins = [e.numpy() for e in bins] if bins is edges else bins
        numpy_ends = ends and list(zip(ends[::2], ends[1::2]))
        expected = np.histogramdd(
            POINTS.numpy(), numpy_bins, numpy_ends, density=density, weights=weight.numpy()
        )
        np.testing.assert_allclose(got.hist.numpy(), expected[0])
        for g, e in zip(got.bin_edges, expected[1]):
            np.testing.assert_allclose(g.numpy(), e)


def test_histogramdd_refuses():
    for arguments in (
        {"bins": [3]}, {"bins": 0}, {"bins": 2, "range": [0.0, 1.0]},
        {"bins": 2, "weight": rl.ones(3)}, {"bins": 2, "range": [1.0, 0.0, 0.0, 1.0]},
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="histogramdd"):
            rl.histogramdd(POINTS, **arguments)
    with pytest.raises(RuntimeError, match="finite"):
        rl.histogramdd(POINTS / 0, 3)


@pytest.mark.parametrize("shape", [(9, 6), (5, 8), (2, 7, 6)])
@pytest.mark.parametrize("dtype", [rl.float64, rl.complex128])
def test_svd_lowrank(shape, dtype):
    A = rl.randn(*shape[:-1], 3, dtype=dtype) @ rl.randn(*shape[:-2], 3, shape[-1], dtype=dtype)
    U, S, V = rl.svd_lowrank(A, q=4)
    assert rl.allclose((U * S.to(dtype).unsqueeze(-2)) @ V.mH, A, atol=1e-10)
    assert rl.allclose(S[..., :3], rl.linalg.svdvals(A)[..., :3])
    M = rl.ones(shape[-1], dtype=dtype)
    U, S, V = rl.svd_lowrank(A, q=4, M=M)
    assert rl.allclose((U * S.to(dtype).unsqueeze(-2)) @ V.mH, A - M, atol=1e-10)


def test_pca_lowrank():
    data = rl.randn(20, 3, dtype=rl.float64) + 5
    _, S, V = rl.pca_lowrank(data)
    values, vectors = np.linalg.eigh(np.cov(data.numpy().T))
    np.testing.assert_allclose((S**2 / 19).numpy(), values[::-1])
    np.testing.assert_allclose(abs(V.numpy()), abs(vectors[:, ::-1]))
    with pytest.raises(ValueError, match="q"):
        rl.pca_lowrank(data, q=4)


def test_lu():
    A = rl.randn(4, 3, dtype=rl.float64)
    LU, pivots, info = A.lu(get_infos=True)
    P, L, U = rl.lu_unpack(LU, pivots)
    assert rl.allclose(P @ L @ U, A) and info == 0
    assert len(rl.lu(rl.zeros(2, 2))) == 2  # singular is no error here


def test_tensordot_broadcasts_what_is_of_size_one():
    a, b = rl.ones(2, 1), rl.arange(6.0).reshape(3, 2)
    assert rl.tensordot(a, b, ([1], [0])).tolist() == [[6, 9], [6, 9]]


def test_functions_of_repeated_singular_values_have_gradients():
    for shape in ((3, 3), (3, 2)):
        A = rl.zeros(shape, dtype=rl.float64) + rl.eye(*shape, dtype=rl.float64)
        A.requires_grad_()
        (g,) = rl.autograd.grad(rl.linalg.svdvals(A).sum(), A)
        assert rl.allclose(g, A.detach())
    A = rl.eye(3, dtype=rl.float64).requires_grad_()
    (g,) = rl.autograd.grad(rl.linalg.eigvalsh(A).sum(), A)
    assert rl.allclose(g, A.detach())


def test_a_tensor_of_no_dims_is_no_dim_and_an_int_no_list():
    x = rl.tensor([[1, 9], [7, 2]])
    assert rl.max(x, rl.tensor(6)).tolist() == [[6, 9], [7, 6]]
    assert x.min(rl.tensor(1)).tolist() == [[1, 1], [1, 1]]
    assert x.max(1).values.tolist() == [9, 7]
    wide = rl.arange(6).reshape(1, 6)
    for parts in (
        wide.hsplit(2),
        rl.hsplit(wide, 2),
        wide.tensor_split(2, 1),
        wide.tensor_split(rl.tensor(2), 1),
    ):
        assert [part.shape[1] for part in parts] == [3, 3]
    assert [part.shape[1] for part in wide.hsplit([2])] == [2, 4]
    assert [part.shape[1] for part in wide.split(4, 1)] == [4, 2]


def test_two_numbers_are_no_tensor():
    for function in (rl.xlogy, rl.special.zeta, rl.float_power, rl.special.hermite_polynomial_h):
        with pytest.raises(TypeError, match="must be Tensor"):
            function(2, 3)


def test_inputs_without_a_gradient_say_so():
    a = rl.ones(2, requires_grad=True)
    for function in (rl.igamma, rl.igammac, rl.special.zeta):
        with pytest.raises(NotImplementedError, match="input' is not implemented"):
            function(a + 1, rl.ones(2)).sum().backward()


def test_incomplete_gamma_over_a_wide_range():
    special = pytest.importorskip("scipy.special")
    a = 10.0 ** np.linspace(-2, 5, 36)
    for factor in (0.1, 0.5, 0.9, 0.999, 1.0, 1.001, 1.2, 3.0):
        a_, x = rl.tensor(a, dtype=rl.float64), rl.tensor(a * factor, dtype=rl.float64)
        np.testing.assert_allclose(
            rl.igamma(a_, x).numpy(), special.gammainc(a, a * factor), rtol=1e-11
        )
        np.testing.assert_allclose(
            rl.igammac(a_, x).numpy(), special.gammaincc(a, a * factor), rtol=1e-10
        )
        a_, x = a_.float(), x.float()
        exact = a_.double().numpy(), x.double().numpy()
        np.testing.assert_allclose(rl.igamma(a_, x).numpy(), special.gammainc(*exact), 1e-6, 1e-38)
        np.testing.assert_allclose(
            rl.igammac(a_, x).numpy(), special.gammaincc(*exact), 1e-6, 1e-38
        )
    huge = rl.tensor([1e4, 1e30, 1e300], dtype=rl.float64)
    for a_ in (rl.tensor(0.5, dtype=rl.float64), rl.tensor(900.0, dtype=rl.float64)):
        assert not rl.igammac(a_, huge).any() and (rl.igamma(a_, huge) == 1).all()


def test_polynomials_of_high_degree():
    x = rl.linspace(-1, 1, 9, dtype=rl.float64)
    n = 1000
    assert rl.allclose(rl.special.chebyshev_polynomial_t(x, n), (n * x.acos()).cos(), atol=1e-10)
    assert rl.special.chebyshev_polynomial_u(x, n)[[0, -1]].tolist() == [n + 1, n + 1]
    assert rl.special.chebyshev_polynomial_v(x, n)[[0, -1]].tolist() == [2 * n + 1, 1]
    assert rl.special.chebyshev_polynomial_w(x, n)[[0, -1]].tolist() == [1, 2 * n + 1]
    assert rl.special.legendre_polynomial_p(x, 10**18).isnan().all()  # and no hour of recurrence


def test_ldl():
    A = rl.tensor(
        [[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 3.0, 1.0]], dtype=rl.float64
    )  # needs blocks of 2
    LD, pivots = rl.linalg.ldl_factor(A)
    assert (pivots < 0).any() and (LD.triu(1) == 0).all()
    B = rl.randn(3, 2, dtype=rl.float64).requires_grad_()
    assert rl.allclose(A @ rl.linalg.ldl_solve(LD, pivots, B), B)
    assert rl.autograd.gradcheck(lambda b: rl.linalg.ldl_solve(LD, pivots, b), (B,))
    C = rl.complex(A, rl.tensor([[0.0, 1, 0], [-1, 0, 2], [0, -2, 0]], dtype=rl.float64))
    for hermitian, matrix in ((True, C), (False, rl.complex(A, A))):
        LD, pivots = rl.linalg.ldl_factor(matrix, hermitian=hermitian)
        B = rl.randn(3, 2, dtype=rl.complex128).requires_grad_()
        X = rl.linalg.ldl_solve(LD, pivots, B, hermitian=hermitian)
        assert rl.allclose(matrix @ X, B)
        assert rl.autograd.gradcheck(
            lambda b, f=(LD, pivots), h=hermitian: rl.linalg.ldl_solve(*f, b, hermitian=h), (B,)
        )


def test_ldl_refuses():
    with pytest.raises(rl.linalg.LinAlgError, match="singular"):
        rl.linalg.ldl_factor(rl.zeros(2, 2))
    assert rl.linalg.ldl_factor_ex(rl.zeros(2, 2)).info == 1
    for pivots in ([0, 1], [1, 9], [-1, 2], [1, -2]):
        with pytest.raises(RuntimeError, match="pivot"):
            rl.linalg.ldl_solve(rl.eye(2), rl.tensor(pivots, dtype=rl.int32), rl.ones(2, 1))


def test_grid_sampler_numbers_its_modes():
    image, grid = rl.rand(1, 2, 4, 5), rl.rand(1, 3, 3, 2) * 2.4 - 1.2
    for number, mode in enumerate(("bilinear", "nearest", "bicubic")):
        for outside, padding in enumerate(("zeros", "border", "reflection")):
            expected = rl.nn.functional.grid_sample(image, grid, mode, padding, False)
            assert rl.equal(rl.grid_sampler_2d(image, grid, number, outside, False), expected)
    with pytest.raises(RuntimeError, match="interpolation_mode"):
        rl.grid_sampler(image, grid, 3, 0, False)
    with pytest.raises(RuntimeError, match="5 dims"):
        rl.grid_sampler_3d(image, grid, 0, 0, False)


def test_windows_refuse_what_torch_refuses():
    for options in ({"dtype": rl.bfloat16}, {"dtype": rl.int64}, {"layout": rl.sparse_coo}):
        with pytest.raises(ValueError, match="strided|float32"):
            rl.signal.windows.hann(3, **options)
    with pytest.raises(ValueError, match="non-negative"):
        rl.signal.windows.kaiser(-1)
    with pytest.raises(ValueError, match="beta"):
        rl.signal.windows.kaiser(3, beta=-1)
    with pytest.raises(TypeError, match="list"):
        rl.signal.windows.general_cosine(3, a=0.5)
    with pytest.raises(ValueError, match="empty"):
        rl.signal.windows.general_cosine(3, a=[])


def test_sums_of_integers_on_the_way_keep_the_dtype():
    a, b = rl.ones(2, 1, dtype=rl.int32), rl.ones(3, 2, dtype=rl.int32)
    assert rl.tensordot(a, b, ([1], [0])).dtype == rl.int32
    truth = rl.ones(2, dtype=rl.bool)
    added = rl.addr(rl.zeros(2, 2, dtype=rl.bool), truth, truth)
    assert added.dtype == rl.bool and added.all()


def test_unravel_index():
    rows, columns = rl.unravel_index(rl.tensor([0, 5, 7], dtype=rl.int32), (2, 3))
    assert rows.dtype == rl.int64 and rows.tolist() == [0, 1, 0] and columns.tolist() == [0, 2, 1]
    with pytest.raises(TypeError, match="integer dtype"):
        rl.unravel_index(rl.tensor([1.0]), (2, 3))
    with pytest.raises(ValueError, match="negative"):
        rl.unravel_index(rl.tensor([1]), (2, -3))


def test_combinations_that_are_none_are_still_of_the_input():
    x = rl.ones(2, requires_grad=True)
    none = rl.combinations(x, 4)
    assert none.shape == (0, 4) and none.requires_grad
    none.sum().backward()
    assert x.grad.tolist() == [0, 0]


@pytest.mark.parametrize("name", ["i1", "i1e", "bessel_j1"])
def test_second_derivatives_at_the_removable_singularity(name):
    x = rl.tensor([0.0], dtype=rl.float64, requires_grad=True)
    (slope,) = rl.autograd.grad(getattr(rl.special, name)(x), x, create_graph=True)
    (curvature,) = rl.autograd.grad(slope, x)
    assert slope.item() == 0.5 and curvature.item() == 0


@pytest.mark.parametrize("order", [2, 3])
def test_second_derivatives_of_a_norm_at_zero(order):
    x = rl.zeros(3, dtype=rl.float64, requires_grad=True)
    (slope,) = rl.autograd.grad(rl.linalg.vector_norm(x, order), x, create_graph=True)
    (curvature,) = rl.autograd.grad((slope * slope).sum(), x)
    assert slope.tolist() == [0] * 3 and curvature.tolist() == [0] * 3


def test_weights_of_embedding_bags_must_fit():
    table, places = rl.ones(4, 3), rl.tensor([0, 1, 2, 3, 0])
    with pytest.raises(RuntimeError, match="shape of the indices"):
        rl._embedding_bag_of(table, places, rl.tensor([0, 2]), "sum", rl.ones(0), -1, False)


EMBEDDINGS = rl.arange(8.0).view(4, 2)


@pytest.mark.parametrize(
    "places, offsets, ends, expected",
    [
        ([0, 1, 2], [0, 2], False, [[2, 4], [4, 5]]),
        ([0, 1, 2], [0, 3, 3], False, [[6, 9], [0, 0], [0, 0]]),
        ([0, 1, 2], [], False, []),
        ([], [0, 0], False, [[0, 0], [0, 0]]),
        ([0, 1, 2], [0, 1, 3], True, [[0, 1], [6, 8]]),
        ([0, 1, 2], [0, 2], True, [[2, 4]]),  # what comes after the last bag is in none
        ([0, 1, 2], [0], True, []),
    ],
)
def test_bags_end_where_the_next_begins(places, offsets, ends, expected):
    places, offsets = rl.tensor(places, dtype=rl.int64), rl.tensor(offsets, dtype=rl.int64)
    for factors in (None, rl.ones(len(places))):
        bags = rl.nn.functional.embedding_bag(
            places, EMBEDDINGS, offsets, mode="sum", per_sample_weights=factors,
            include_last_offset=ends,
        )  # fmt: skip
        assert bags.tolist() == expected and bags.shape == (len(expected), 2)
        on_meta = rl.nn.functional.embedding_bag(
            places.to("meta"), EMBEDDINGS.to("meta"), offsets.to("meta"), mode="sum",
            per_sample_weights=None if factors is None else factors.to("meta"),
            include_last_offset=ends,
        )  # fmt: skip
        assert on_meta.shape == bags.shape


@pytest.mark.parametrize(
    "offsets, ends, message",
    [
        ([1, 2], False, "offsets\\[0\\] has to be 0"),
        ([0, 4], False, "last offset 4 is beyond the 3 indices"),
        ([0, 4], True, "last offset 4 is beyond the 3 indices"),
        ([0, -1], True, "last offset -1"),
        ([0, 2, 1], False, "offsets must not fall"),
        ([0, -1], False, "offsets must not fall"),
        ([], True, "at least 1 offset"),
    ],
)
def test_offsets_of_bags_are_checked(offsets, ends, message):
    places = rl.tensor([0, 1, 2])
    with pytest.raises(RuntimeError, match=message):
        rl.nn.functional.embedding_bag(
            places, EMBEDDINGS, rl.tensor(offsets, dtype=rl.int64), include_last_offset=ends
        )


def test_max_pooling_with_indices_takes_the_question_for_them():
    image = rl.arange(16.0).view(1, 1, 4, 4)
    values, places = rl.nn.functional.max_pool2d_with_indices(image, 2, return_indices=False)
    assert values.tolist() == [[[[5, 7], [13, 15]]]] and places.tolist() == [[[[5, 7], [13, 15]]]]


def test_softshrink_refuses_a_negative_lambda():
    with pytest.raises(RuntimeError, match="softshrink: lambda"):
        rl.nn.functional.softshrink(rl.ones(1), -0.5)


def test_repeats_beyond_all_memory():
    x = rl.ones(4)
    for repeats in (2**62, [2**62] * 4, [2**63 - 1, 1, 0, 0]):
        counts = repeats if isinstance(repeats, int) else rl.tensor(repeats)
        with pytest.raises(RuntimeError):
            rl.repeat_interleave(x, counts)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8", "float32"])
@pytest.mark.parametrize("n", [63, 64, 300, 2000])
def test_keys_of_a_small_range(dtype, n):
    x = np.random.default_rng(n).integers(-9, 9, (4, n)).astype(dtype)
    x[1, 0] = np.iinfo(dtype).min if dtype != "float32" else -np.inf  # and of a large one
    values, places = rl.tensor(x).sort(1, stable=True)
    expected = np.argsort(x, 1, kind="stable")
    assert (places.numpy() == expected).all() and (values.numpy() == np.sort(x, 1)).all()
    most, at = rl.tensor(x).mode(1)
    for row, value, place in zip(x, most.tolist(), at.tolist()):
        distinct, counts = np.unique(row, return_counts=True)
        assert value == distinct[counts.argmax()] and place == np.flatnonzero(row == value)[-1]


def test_histogram_at_its_edges():
    inf, nan = float("inf"), float("nan")
    x = rl.tensor([-1.0, 0, 0.5, 1, 1, 2, 2.5, inf, -inf, nan])
    weight = rl.arange(10.0)
    for edges in ([0.0, 1, 2], [0.0, 1, 1, 2]):
        inside = x.numpy()[[1, 2, 3, 4, 5]]
        found = rl.histogram(x, rl.tensor(edges))
        assert found.hist.tolist() == np.histogram(inside, edges)[0].tolist()
        found = rl.histogram(x, rl.tensor(edges), weight=weight)
        expected = np.histogram(inside, edges, weights=weight.numpy()[[1, 2, 3, 4, 5]])[0]
        assert found.hist.tolist() == expected.tolist()


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("sizes", [(2, 3, 5, 7), (1, 2, 1, 4), (1, 2, 3, 4, 5)])
def test_gradients_of_grid_sample_are_those_that_are_recorded(sizes, padding, mode):
    if mode == "bicubic" and len(sizes) == 5:
        pytest.skip("bicubic is of images alone")
    x = rl.randn(sizes, dtype=rl.float64, requires_grad=True)
    grid = 1.5 * rl.randn(sizes[0], *[9] * (len(sizes) - 2), len(sizes) - 2, dtype=rl.float64)
    grid.requires_grad_()
    y = rl.nn.functional.grid_sample(x, grid, mode, padding, align_corners=False)
    weight = rl.randn_like(y)
    plain = rl.autograd.grad(y, (x, grid), weight, retain_graph=True)
    recorded = rl.autograd.grad(y, (x, grid), weight, create_graph=True)
    assert all(map(rl.allclose, plain, recorded))


def test_grid_sample_leaves_out_what_is_outside():
    x = rl.full((1, 1, 4, 4), float("inf"))
    outside = rl.tensor([[3.0, 3], [-9, 0], [7, 1e20], [1e30, 0]]).view(1, 1, 4, 2)
    for mode in ("bilinear", "nearest", "bicubic"):
        assert not rl.nn.functional.grid_sample(x, outside, mode, align_corners=False).any()


def test_binomial_takes_one_dtype():
    count = rl.full((2, 2), 3.0, dtype=rl.float64)
    with pytest.raises(ValueError, match="floating point dtype, got"):
        rl.binomial(count, rl.ones(2, 2, dtype=rl.uint8))
    with pytest.raises(RuntimeError, match="binomial: .* one dtype"):
        rl.binomial(count, rl.ones(2, 2))


def test_kernels_of_grids_check_their_words():
    """A wrong mode was taken for another, whose kernel knows no volumes and read out of bounds."""
    volumes, grid = rl.ones(2, 2, 2, 3, 2), rl.zeros(2, 2, 1, 2, 3)
    for mode, padding, error in (
        ("mean", "border", "expected mode"), ("bilinear", "same", "expected padding_mode"),
        ("bicubic", "zeros", "only supports 4D"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=error):
            rl.nn.functional._grid_sample(volumes, grid, (0, 0, 0), mode, padding, False)


@pytest.mark.parametrize("dim", [-1, 0])
@pytest.mark.parametrize("name", ["trapezoid", "trapz", "cumulative_trapezoid"])
def test_integrals_need_a_dim(name, dim):
    """The size of a dim that is not there was read from beside the sizes."""
    y, x = rl.tensor(2.0), rl.tensor([0.0, 1.0])
    for arguments in ((y,), (y, x), (y, x[0])):
        with pytest.raises(IndexError, match=f"specified as {dim} but tensor has no dimensions"):
            getattr(rl, name)(*arguments, dim=dim)


def test_two_numbers_that_functions_take():
    """As torch does where the operator would have made a number of them."""
    pairs = ((7, 2), (7.5, 2), (-7, 2), (2**40, 3))
    for a, b in pairs:
        for name, expected in (
            ("add", a + b), ("sub", a - b), ("mul", a * b), ("div", a / b),
            ("floor_divide", a // b),
        ):  # fmt: skip
            got = getattr(rl, name)(a, b)
            assert got.dim() == 0 and got.item() == pytest.approx(expected)
        assert rl.div(a, b, rounding_mode="floor").item() == a // b
        assert rl.div(a, b, rounding_mode="trunc").item() == int(a / b)
        assert rl.div(a, b, rounding_mode="floor").dtype == rl.floor_divide(a, b).dtype
    assert rl.div(7, 2, rounding_mode=None).item() == 3.5


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", ["logsigmoid", "soft_margin_loss"])
def test_second_derivative_of_log_sigmoid_far_from_zero(name, sign):
    x = sign * np.array([0, 1, 9, 17, 30, 40, 80], "float64")
    leaf = rl.tensor(x.astype("float32"), requires_grad=True)
    if name == "logsigmoid":
        value = -rl.nn.functional.logsigmoid(leaf)
    else:
        value = rl.nn.functional.soft_margin_loss(leaf, rl.ones(7), reduction="none")
    (first,) = rl.autograd.grad(value.sum(), leaf, create_graph=True)
    (second,) = rl.autograd.grad(first.sum(), leaf)
    small = np.exp(-abs(x))
    np.testing.assert_allclose(first.tolist(), -np.exp(-np.logaddexp(0, x)), rtol=2e-6)
    np.testing.assert_allclose(second.tolist(), small / (1 + small) ** 2, rtol=2e-6)


def test_soft_margin_loss_beyond_the_range_of_exp():
    x = rl.tensor([-200.0, 200.0], requires_grad=True)
    loss = rl.nn.functional.soft_margin_loss(x, rl.ones(2), reduction="sum")
    loss.backward()
    assert loss.item() == 200
    assert x.grad.tolist() == [-1, 0]


def test_linear_cross_entropy_names_a_weight_of_too_few_dims():
    x, target = rl.randn(3, 4), rl.tensor([0, 1, 0])
    with pytest.raises(RuntimeError, match="linear_weight with dimensionality at least 2, got 1"):
        rl.nn.functional.linear_cross_entropy(x, rl.randn(4), target)


@pytest.mark.parametrize("shift", [-(2**63), -(2**63) + 1, 2**63 - 1])
@pytest.mark.parametrize("dims", [None, 1, -2])
def test_gradients_of_shifts_without_a_negative(shift, dims):
    x = rl.arange(15.0).reshape(3, 5).requires_grad_()
    weights = rl.arange(15.0).reshape(3, 5) ** 2
    rolled = rl.roll(x, shift) if dims is None else rl.roll(x, shift, dims)
    turned = rl.rot90(x, shift)
    size = 15 if dims is None else x.size(dims)
    expected = np.roll(x.detach().numpy(), shift % size, dims)
    assert rolled.tolist() == expected.tolist()
    (found,) = rl.autograd.grad((rolled * weights).sum(), x)
    # Each element's weight is that of the place to which it went.
    assert (found.flatten()[rolled.detach().flatten().long()] == weights.flatten()).all()
    upright = weights.reshape(turned.shape)
    (found,) = rl.autograd.grad((turned * upright).sum(), x)
    assert (found.flatten()[turned.detach().flatten().long()] == upright.flatten()).all()


@pytest.mark.parametrize("equation, operands, message", [
    (". ..", 1, "found '.' for operand 0 that is not part of any ellipsis"),
    ("...a...", 1, "found '.' for operand 0 for which an ellipsis was already found"),
    ("a,b1", 2, "invalid subscript given at index 3"),
    ("a,b", 1, "fewer operands were provided"),
    ("a", 2, "more operands were provided"),
    ("ab", 1, r"\(2\) does not match the number of dimensions \(1\) for operand 0 and no ellipsis"),
    ("ab...", 1, r"\(2\) is more than the number of dimensions \(1\) for operand 0"),
    ("a->...a...", 1, "found '.' for output but an ellipsis"),
    ("a->..", 1, "found '.' for output that is not part of any ellipsis"),
    ("a->a2", 1, "invalid subscript given at index 4"),
])  # fmt: skip
def test_errors_of_einsum_say_where(equation, operands, message):
    with pytest.raises(RuntimeError, match=message):
        rl.einsum(equation, *[rl.ones(3)] * operands)


def test_einsum_of_spaces_and_lists():
    x = rl.arange(6.0).reshape(2, 3)
    assert rl.einsum(" i j , k j -> i k ", x, x).tolist() == (x @ x.T).tolist()
    assert rl.einsum(x, [0, 1], [1, 0]).tolist() == x.T.tolist()
    with pytest.raises(ValueError, match="at least one operand"):
        rl.einsum("", [])
    for number in (-1, 52):
        with pytest.raises(ValueError, match="not within the valid range"):
            rl.einsum(x, [number, 0])
    with pytest.raises(RuntimeError, match="has size 2 for operand 1 which does not broadcast"):
        rl.einsum("a,a", rl.ones(3), rl.ones(2))


def test_ranks_of_block_diag_and_cartesian_prod():
    with pytest.raises(RuntimeError, match="Input 1 has 3 dimensions"):
        rl.block_diag(rl.ones(2, 2), rl.ones(1, 2, 2))
    for wrong in (rl.tensor(1.0), rl.ones(2, 2)):
        with pytest.raises(RuntimeError, match="Expect a 1D vector"):
            rl.cartesian_prod(rl.ones(2), wrong)


def test_istft_warns_of_the_zeros_that_it_adds():
    spectrum = rl.stft(rl.ones(32), 8, window=rl.ones(8), return_complex=True)
    with pytest.warns(UserWarning, match="length of signal is shorter"):
        assert rl.istft(spectrum, 8, window=rl.ones(8), length=60).shape == (60,)
