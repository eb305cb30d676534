"""uint16, uint32, uint64, complex32 and the floats of 8 bits: tensors of dtypes without kernels."""

import copy
import io
import pickle
import warnings

import pytest

import rushlight as rl

UNSIGNED = [rl.uint16, rl.uint32, rl.uint64]
FLOAT8 = [rl.float8_e4m3fn, rl.float8_e4m3fnuz, rl.float8_e5m2, rl.float8_e5m2fnuz]
ALL = [*UNSIGNED, *FLOAT8, rl.float8_e8m0fnu, rl.complex32]


def small(dtype):
    return rl.tensor([[1, 2, 4], [8, 16, 1]], dtype=dtype)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_a_tensor_says_its_dtype(dtype):
    x = small(dtype)
    assert x.dtype is dtype and isinstance(dtype, rl.dtype)
    assert x.element_size() == dtype.itemsize and x.is_floating_point() == dtype.is_floating_point
    assert x.tolist() == [[1, 2, 4], [8, 16, 1]] and x[1, 0].item() == 8
    assert repr(x).endswith(f"dtype={dtype})")
    real = x.real if dtype.is_complex else x
    assert real.to(rl.int64).tolist() == x.tolist() and real.float().dtype is rl.float32
    assert real.float().to(dtype).tolist() == x.tolist()


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_moving_elements(dtype):
    x = small(dtype)
    mask, chosen = x.to(rl.complex64).real > 2, rl.tensor([True, False, True])
    for moved in (
        x.T, x.reshape(6), x[0], x[rl.tensor([1, 0])], x[mask], x.clone(), rl.cat([x, x]),
        rl.stack([x, x]), x.flip(0), x.expand(2, 2, 3), x[:, 1:], rl.where(chosen, x, x),
        x.contiguous(), x.roll(1),
    ):  # fmt: skip
        assert moved.dtype is dtype
    assert rl.cat([x, x]).tolist() == [*x.tolist(), *x.tolist()]
    assert [part.dtype for part in x.unbind()] == [dtype, dtype]


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_writing_elements(dtype):
    x = small(dtype)
    x[0, 0] = 2
    x[1] = rl.tensor([4.0, 4.0, 4.0])
    x[:, 2] = x[:, 1]
    assert x.tolist() == [[2, 2, 2], [4, 4, 4]]
    assert x.copy_(small(dtype)).tolist() == small(dtype).tolist()
    assert x.fill_(2).tolist() == [[2] * 3] * 2
    plain = rl.zeros(2, 3)
    plain.copy_(small(dtype).real)
    assert plain.tolist() == small(dtype).tolist()


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_making_tensors(dtype):
    ones = [
        rl.ones(2, dtype=dtype),
        rl.full((2,), 1, dtype=dtype),
        rl.ones_like(small(dtype)[0, :2]),
    ]
    assert [t.tolist() for t in ones] == [[1, 1]] * 3
    assert {t.dtype for t in (*ones, rl.empty(2, dtype=dtype), rl.empty_like(ones[0]))} == {dtype}
    assert rl.empty(3, dtype=dtype, device="meta").dtype is dtype
    if dtype is not rl.float8_e8m0fnu:
        assert rl.zeros(2, dtype=dtype).tolist() == [0, 0]


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_files_and_copies(dtype):
    x = small(dtype).T
    stream = io.BytesIO()
    rl.save({"x": x, "dtype": dtype}, stream)
    stream.seek(0)
    loaded = rl.load(stream)
    assert loaded["dtype"] is dtype
    for again in (loaded["x"], copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert again.dtype is dtype and again.tolist() == x.tolist()
    assert pickle.loads(pickle.dumps(dtype)) is dtype


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_unsigned_numbers(dtype):
    largest = 2 ** (8 * dtype.itemsize) - 1
    x = rl.tensor([largest, 1, 2], dtype=dtype)
    assert x.tolist() == [largest, 1, 2] and str(largest) in repr(x)
    assert (x * 2).tolist() == [largest - 1, 2, 4] and (x + x).tolist() == [largest - 1, 2, 4]
    assert (x & 3).tolist() == [3, 1, 2] and (x ^ x).tolist() == [0, 0, 0]
    assert (x == x).all() and (x != 2).tolist() == [True, True, False]
    assert (x > rl.tensor([1, 1, 1], dtype=dtype)).tolist() == [True, False, True]
    assert x.sort()[0].tolist() == [1, 2, largest] and x.max().item() == largest
    assert (x[1:] / 2).tolist() == [0.5, 1.0] and (x[1:] * 2.5).dtype is rl.float32
    assert x.float()[0].item() == pytest.approx(largest) and x[1:].sum().tolist() == 3
    assert rl.tensor([-1]).to(dtype).tolist() == [largest]
    assert rl.iinfo(dtype).max == largest and rl.iinfo(dtype).min == 0
    assert [10, 20][x[1]] == 20 and int(x[2]) == 2 and bool(x[0])
    x *= 2
    assert x.dtype is dtype and x.tolist() == [largest - 1, 2, 4]


def test_promotion():
    x = small(rl.uint16)
    for other in (rl.ones(3, dtype=rl.int64), rl.ones(3, dtype=rl.uint8), small(rl.uint32)):
        with pytest.raises(RuntimeError, match="uint16"):
            x * other
    assert (x * rl.ones(3)).dtype is rl.float32
    assert rl.promote_types(rl.uint32, rl.float16) is rl.float16
    with pytest.raises(RuntimeError):
        rl.promote_types(rl.uint16, rl.int32)
    with pytest.raises(NotImplementedError, match="uint16"):
        x.matmul(x)
    assert rl.promote_types(rl.complex32, rl.float32) is rl.complex64
    assert (small(rl.complex32) + 1j).dtype is rl.complex32


def test_numpy():
    np = pytest.importorskip("numpy")
    for name in ("uint16", "uint32", "uint64"):
        array = np.array([[1, 2], [3, np.iinfo(name).max]], dtype=name)
        x = rl.from_numpy(array)
        assert x.dtype is getattr(rl, name) and x.tolist() == array.tolist()
        array[0, 0] = 7
        assert x[0, 0].item() == 7 and x.numpy().dtype == array.dtype
        assert np.array_equal(np.asarray(x), array)
        assert rl.tensor(array).dtype is x.dtype and rl.as_tensor(array).dtype is x.dtype
        assert rl.tensor(array, dtype=rl.float64).dtype is rl.float64
    with pytest.raises(TypeError, match="float8"):
        small(rl.float8_e5m2).numpy()


def test_rounding_of_small_floats():
    values = rl.tensor([448.0, 464.0, 465.0, 0.3, -0.3, 2.0**-10, float("nan")])
    assert values.to(rl.float8_e4m3fn).float().tolist()[:4] == [448.0, 448.0, 448.0, 0.3125]
    assert values.to(rl.float8_e4m3fn).isnan().tolist() == [False] * 6 + [True]
    assert rl.tensor([1e9, -1e9]).to(rl.float8_e5m2).float().tolist() == [
        float("inf"),
        -float("inf"),
    ]
    assert rl.tensor([0.3]).to(rl.float8_e5m2).item() == 0.3125
    assert small(rl.float8_e4m3fn).view(rl.uint8).dtype is rl.uint8


def test_halves_of_complex_numbers():
    z = rl.tensor([1 + 2j, 3 - 4j], dtype=rl.complex32)
    assert z.real.dtype is rl.float16 and z.imag.tolist() == [2, -4]
    z.imag.fill_(1)
    assert z.tolist() == [1 + 1j, 3 + 1j] and (z * z).tolist() == [2j, 8 + 6j]
    assert rl.view_as_real(z).shape == (2, 2) and z.conj().tolist() == [1 - 1j, 3 - 1j]
    assert rl.ones(2).chalf().dtype is rl.complex32 and abs(z[1]).dtype is rl.float16


def test_hashes_are_exclusive_ors_of_bits():
    assert rl.hash_tensor(rl.tensor([1.0, 2.0])).item() == 0x7FF0000000000000
    assert rl.tensor([-1], dtype=rl.int8).hash_tensor().item() == 2**64 - 1
    negative = rl.tensor([1 + 2j]).conj().imag
    assert negative.is_neg() and negative.hash_tensor() == rl.tensor([-2.0]).hash_tensor()
    rows = rl.arange(6.0).view(2, 3).hash_tensor(1, keepdim=True)
    assert rows.tolist() == [[9218868437227405312], [4615063718147915776]]
    with pytest.raises(IndexError, match="dim"):
        rl.ones(0).hash_tensor()


@pytest.mark.torch
@pytest.mark.parametrize("dtype", [str(d).removeprefix("torch.") for d in ALL])
def test_files_of_torch(dtype):
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = torch.tensor([[1, 2, 4], [8, 16, 1]]).to(getattr(torch, dtype))
    stream = io.BytesIO()
    torch.save(values, stream)
    stream.seek(0)
    loaded = rl.load(stream)
    assert loaded.dtype is getattr(rl, dtype) and loaded.tolist() == values.tolist()
    stream = io.BytesIO()
    rl.save(loaded, stream)
    stream.seek(0)
    assert torch.equal(torch.load(stream).view(torch.uint8), values.view(torch.uint8))


@pytest.mark.torch
@pytest.mark.parametrize("dtype", [str(d).removeprefix("torch.") for d in (*FLOAT8, ALL[7])])
def test_casts_are_those_of_torch(dtype):
    torch = pytest.importorskip("torch")
    np = pytest.importorskip("numpy")
    every = torch.arange(256, dtype=torch.uint8).view(getattr(torch, dtype)).float()
    known = rl.arange(256).to(rl.uint8).view(getattr(rl, dtype)).float()
    assert np.array_equal(every.numpy(), known.numpy(), equal_nan=True)
    finite = np.unique(every[every.isfinite()].numpy())
    draw = np.random.RandomState(0).randn(4000)
    values = np.concatenate(
        [draw, draw * 100, draw * 1e5, draw * 1e-3, finite, (finite[1:] + finite[:-1]) / 2]
    ).astype("float32")
    values = abs(values) if dtype == "float8_e8m0fnu" else values
    theirs = torch.tensor(values).to(getattr(torch, dtype)).view(torch.uint8).numpy()
    ours = rl.tensor(values).to(getattr(rl, dtype)).view(rl.uint8).numpy()
    assert np.array_equal(theirs, ours)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_dlpack(dtype):
    x = small(dtype)
    for given in (x, x.T, x.__dlpack__(), rl.utils.dlpack.to_dlpack(x[:, 1:])):
        y = rl.from_dlpack(given)
        assert y.dtype is dtype and isinstance(y, type(x))
    y = rl.from_dlpack(x.T)
    assert y.stride() == (1, 3) and y.tolist() == x.T.tolist()
    y[0, 0] = 4
    assert x[0, 0].item() == 4


def test_dlpack_with_numpy():
    np = pytest.importorskip("numpy")
    for name in ("uint16", "uint32", "uint64"):
        array = np.array([1, np.iinfo(name).max], dtype=name)
        x = rl.from_dlpack(array)
        assert x.dtype is getattr(rl, name) and x.tolist() == array.tolist()
        assert np.array_equal(np.from_dlpack(x), array)


def test_products_of_small_floats():
    rl.manual_seed(0)
    a, b = rl.randn(4, 8).to(rl.float8_e4m3fn), rl.randn(8, 3).to(rl.float8_e5m2)
    exact = a.float() @ b.float()
    one, two = rl.tensor(0.5), rl.tensor([[4.0]])
    full = rl._scaled_mm(a, b, one, two, out_dtype=rl.float32)
    rl.testing.assert_close(full, exact * 2)
    assert rl._scaled_mm(a, b, one, two).dtype is rl.float8_e4m3fn
    rows, columns, bias = rl.rand(4, 1), rl.rand(1, 3), rl.ones(3, dtype=rl.bfloat16)
    by_row = rl._scaled_mm(a, b, rows, columns, bias=bias, out_dtype=rl.bfloat16)
    rl.testing.assert_close(by_row, (exact * rows * columns + 1).bfloat16())
    kept = {"scale_result": two, "out_dtype": rl.float8_e5m2}
    assert rl._scaled_mm(a, b, one, two, **kept).tolist() == (exact / 2).to(b.dtype).tolist()
    assert rl.equal(rl._scaled_mm(a, b, one, two, out_dtype=rl.float32, scale_result=two), full)
    with pytest.raises(ValueError, match="scales"):
        rl._scaled_mm(a, b, one, columns)
    with pytest.raises(ValueError, match="floats of 8 bits"):
        rl._scaled_mm(a.float(), b, one, two)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        rl._scaled_mm(a, a, one, two)
    assert (a @ a.T).dtype is rl.float8_e4m3fn
    assert rl.nn.functional.linear(a, a).tolist() == (a.float() @ a.float().T).to(a.dtype).tolist()


def test_casts_keep_the_order_in_memory():
    z = rl.randn(2, 3, 4, dtype=rl.complex64)
    images = rl.randn(2, 3, 4, 5).to(memory_format=rl.channels_last)
    for x in (z.transpose(0, 2), z[:, ::2], z[:1].expand(2, 3, 4), images, z.conj(), z[0, 0, 0]):
        half = x.chalf()
        assert half.stride() == x.clone().stride()
        again = half.to(rl.complex64)
        assert again.stride() == half.stride()
        rl.testing.assert_close(again, x.to(rl.complex64), rtol=1e-3, atol=1e-3)
        on_meta = x.to("meta").chalf()
        assert on_meta.stride() == half.stride() and on_meta.dtype is rl.complex32
    given = images.contiguous().chalf(memory_format=rl.channels_last)
    assert given.stride() == images.stride() and given.dtype is rl.complex32
    plain = z.transpose(0, 2).to(rl.complex32, memory_format=rl.contiguous_format)
    assert plain.is_contiguous() and plain.tolist() == z.transpose(0, 2).chalf().tolist()


FLOATING = [*FLOAT8, rl.float8_e8m0fnu]


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_gradients_pass_through_casts_and_are_rounded(dtype):
    x = rl.tensor([0.3, 1.7, 2.2, 90.0], requires_grad=True)
    y = x.to(dtype)
    assert y.requires_grad and not y.is_leaf and y.grad_fn is not None
    weights = rl.tensor([1.03, 2.0, 3.0, 4.0])
    (y.float() * weights).sum().backward()
    assert x.grad.tolist() == weights.to(dtype).tolist()
    with rl.no_grad():
        assert not x.to(dtype).requires_grad
    assert not y.detach().requires_grad and not x.to(rl.uint16).requires_grad


@pytest.mark.parametrize("dtype", [*FLOAT8, rl.complex32], ids=str)
def test_leaves_that_need_a_gradient(dtype):
    x = small(dtype).requires_grad_()
    assert x.is_leaf and x.requires_grad and x.grad is None
    assert repr(x).endswith(f"dtype={dtype}, requires_grad=True)")
    picked = x.t().clone()[1:].reshape(4)
    picked.to(rl.complex64).abs().sum().backward()
    assert x.grad.dtype is dtype and x.grad.tolist() == [[0, 1, 1], [0, 1, 1]]
    with rl.no_grad():
        x.fill_(2)
    x.to(rl.complex64).abs().square().sum().backward()
    assert x.grad.tolist() == [[4, 5, 5], [4, 5, 5]]  # 2x of what it is now
    with pytest.raises(NotImplementedError, match="mul_: in place"):
        x.mul_(2)


def test_complex32_records_products():
    x = rl.tensor([1 + 2j, 3 - 1j], dtype=rl.complex32, requires_grad=False).requires_grad_()
    (x * x).to(rl.complex64).abs().sum().backward()
    wanted = rl.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    (wanted * wanted).abs().sum().backward()
    rl.testing.assert_close(x.grad.to(rl.complex64), wanted.grad, rtol=1e-3, atol=1e-3)
    assert x.real.dtype is rl.float16 and x.real.requires_grad


def test_copies_record_where_they_come_from():
    x, y = rl.ones(2, requires_grad=True), rl.empty(2, dtype=rl.float8_e5m2)
    y.copy_(x).float().mul(3).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_whole_numbers_need_no_gradient():
    with pytest.raises(RuntimeError, match="floating point and complex"):
        rl.ones(2, dtype=rl.uint16).requires_grad_()


def test_conjugates_of_complex32():
    x = rl.tensor([[1 + 2j, 3 - 1j], [0.5j, -2]], dtype=rl.complex32)
    expected = x.to(rl.complex64).conj()
    for got in (x.conj(), x.conj_physical(), x.clone().conj_physical_(), x.mT.mH, x.T.H):
        assert got.dtype is rl.complex32
        assert got.to(rl.complex64).tolist() == expected.tolist()
    assert x.adjoint().to(rl.complex64).tolist() == expected.T.tolist()


def test_values_by_name():
    x = rl.tensor([1, 2], dtype=rl.uint16)
    assert rl.fill(x, value=7).tolist() == [7, 7]
    assert rl.full_like(x, fill_value=3).tolist() == [3, 3]
    assert x.masked_fill(rl.tensor([True, False]), value=9).tolist() == [9, 2]
    assert x.index_fill(0, rl.tensor([1]), value=8).tolist() == [1, 8]


def test_copies_of_views():
    x = rl.tensor([[1, 2], [3, 4]], dtype=rl.uint16)
    assert rl.transpose_copy(x, 0, 1).tolist() == [[1, 3], [2, 4]]
    assert rl.diag_embed(x[0]).tolist() == [[1, 0], [0, 2]]
    assert rl.block_diag(x[:1], x[:1]).tolist() == [[1, 2, 0, 0], [0, 0, 1, 2]]
    assert rl.fft.fftshift(x[0]).tolist() == [2, 1] and rl.unbind_copy(x)[1].tolist() == [3, 4]
    assert rl.as_strided_scatter(x, x[0], (2,), (2,)).tolist() == [[1, 2], [2, 4]]


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_special_functions_of_unsigned_integers(dtype):
    x = rl.tensor([1, 2, 3], dtype=dtype)
    for name in ("i0e", "i1", "entr", "log_ndtr", "erfcx", "airy_ai", "bessel_y1"):
        function = getattr(rl.special, name)
        assert function(x).tolist() == function(x.float()).tolist()
    for name in ("zeta", "xlog1py", "hermite_polynomial_h", "chebyshev_polynomial_t"):
        function = getattr(rl.special, name)
        assert function(x, x).tolist() == function(x.float(), x.float()).tolist()


class Image(rl.Tensor):
    pass


@pytest.mark.parametrize(
    "make",
    [
        lambda: rl.tensor([1, 40000], dtype=rl.uint16),
        lambda: rl.quantize_per_tensor(rl.ones(2), 0.1, 0, rl.quint8),
        lambda: rl.nested.nested_tensor([rl.ones(2), rl.ones(3)], layout=rl.jagged),
    ],
    ids=["carried", "quantized", "nested"],
)
def test_tensors_that_their_class_tells_keep_it(make):
    x = make()
    assert x.as_subclass(rl.Tensor) is x
    assert type(x.as_subclass(type(x))) is type(x)
    for convert in (x.as_subclass, lambda cls: rl.Tensor._make_subclass(cls, x)):
        with pytest.raises(NotImplementedError, match="Image cannot take its place"):
            convert(Image)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_single_elements_are_copies(dtype):
    """What a number of one was converted to was a view of the table of all numbers."""
    one = rl.tensor(1, dtype=dtype)
    for converted in (one.cfloat(), one.to(rl.complex128), one.real.double()):
        converted.mul_(0)
    assert one.item() == 1 and rl.ones((), dtype=dtype).item() == 1
    assert rl.ones(2).to(dtype).tolist() == [1, 1]


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_what_changes_shape_in_place(dtype):
    x = small(dtype)
    assert x.t_() is x and x.shape == (3, 2) and x.dtype is dtype
    assert x.unsqueeze_(0).transpose_(0, 1).shape == x.shape == (3, 1, 2)
    assert x.squeeze_().tolist() == small(dtype).T.tolist()
    assert x.as_strided_((2,), (1,), 1).tolist() == [2, 4]
    grown = rl.ones(2, dtype=dtype)
    assert grown.resize_(5).shape == (5,) and grown.tolist()[:2] == [1, 1]
    assert grown.resize_as_(small(rl.uint8)).shape == (2, 3)
    assert grown.set_(x) is grown and grown.data_ptr() == x.data_ptr()
    grown.data = small(dtype)
    assert grown.tolist() == small(dtype).tolist()
    grown.set_(small(dtype).untyped_storage(), 2, (2, 2))
    assert grown.tolist() == [[4, 8], [16, 1]] and grown.set_().numel() == 0
    with pytest.raises(RuntimeError, match="Could not set tensor of type"):
        grown.set_(rl.zeros(2, dtype=rl.uint8))
    with pytest.raises(RuntimeError, match="have no memory in common"):
        grown.data = rl.zeros(2, dtype=rl.uint8)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_results_are_written_into_given_tensors(dtype):
    x = small(dtype)
    for given in (rl.empty(0, dtype=dtype), rl.zeros(2, 3).to(rl.float64).cfloat()):
        for function in (rl.cat, rl.stack):
            assert function([x, x], out=given) is given
            assert given.tolist() == function([x, x]).tolist()
    assert rl.full((2,), 4, out=given) is given and given.tolist() == [4, 4]
    kept = rl.empty(2, dtype=dtype)
    assert rl.ones(2, out=kept) is kept and kept.tolist() == [1, 1] and kept.dtype is dtype
    if not dtype.is_complex:
        parts = rl.empty(0, dtype=dtype), rl.empty(0, dtype=rl.int64)
        assert rl.sort(x[1], out=parts).indices is parts[1]
        assert parts[0].tolist() == [1, 8, 16] and parts[1].tolist() == [2, 0, 1]
    if dtype.is_complex or dtype.is_floating_point:
        with pytest.raises(RuntimeError, match="cat: result type .* can't be cast to torch.int32"):
            rl.cat([x, x], out=rl.empty(0, dtype=rl.int32))


def test_out_that_is_resized_warns():
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        rl.cat([small(rl.uint16)], out=rl.zeros(2, dtype=rl.uint16))


KINDS = "uint8 int32 int64 bool float16 bfloat16 float32 float64 complex64 complex128".split()


@pytest.mark.torch
@pytest.mark.parametrize("shape", [(3,), ()], ids=str)
@pytest.mark.parametrize("dtype", [str(d).removeprefix("torch.") for d in ALL])
def test_promotion_is_that_of_torch(dtype, shape):
    torch = pytest.importorskip("torch")
    choice = [True, False, True]
    functions = {
        "result_type": lambda library, a, b: library.result_type(a, b),
        "cat": lambda library, a, b: library.cat([a, b]).dtype,
        "stack": lambda library, a, b: library.stack([a, b]).dtype,
        "hstack": lambda library, a, b: library.hstack([b, a]).dtype,
        "where": lambda library, a, b: library.where(library.tensor(choice), a, b).dtype,
    }

    def outcome(library, function, other, other_shape):
        a = library.ones(shape).to(getattr(library, dtype))
        b = other if isinstance(other, complex | float | int) else library.ones(other_shape)
        if b is not other:
            b = b.to(getattr(library, other))
        try:
            return str(function(library, a, b))
        except RuntimeError:
            return "refused"
        except TypeError:  # of numbers that are joined
            return "not a tensor"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's complex32 is experimental
        for name, function in functions.items():
            for other in (*KINDS, "uint16", "complex32", "float8_e5m2", True, 2, 2.5, 2j):
                for other_shape in ((3,), ()):
                    found, wanted = (
                        outcome(library, function, other, other_shape) for library in (rl, torch)
                    )
                    assert found == wanted, (name, other, other_shape)


def test_arithmetic_beside_other_dtypes():
    x = rl.tensor([1, 2, 40000], dtype=rl.uint16)
    assert (x + rl.ones(3, dtype=rl.float16)).dtype is rl.float16
    assert (x * rl.tensor(2)).dtype is rl.uint16 and (x * 2.5).dtype is rl.float32
    total = x[2] + rl.tensor([1, 2])  # one of no dims gives way
    assert total.dtype is rl.int64 and total.tolist() == [40001, 40002]
    big = rl.tensor(2**63 + 5, dtype=rl.uint64)
    assert (big & rl.tensor([7], dtype=rl.int32)).tolist() == [5]
    assert (big.reshape(1) + 2j).dtype is rl.complex64
    x &= rl.tensor(3)
    assert x.tolist() == [1, 2, 0] and x.dtype is rl.uint16
    x |= 4
    x ^= 1
    assert x.tolist() == [4, 7, 5]
    with pytest.raises(RuntimeError, match="result type torch.float32 can't be cast"):
        x *= 2.5
    with pytest.raises(RuntimeError, match="uint16 and torch.int64 have no common dtype"):
        x + rl.ones(3, dtype=rl.int64)
    rl.testing.assert_close(x, rl.tensor([4, 7, 5]), check_dtype=False)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_values_in_files_and_storages(dtype, tmp_path):
    path = str(tmp_path / "elements")
    mapped = rl.from_file(path, shared=True, size=4, dtype=dtype)
    mapped.fill_(2)
    again = rl.from_file(path, shared=False, size=4, dtype=dtype)
    assert again.dtype is dtype and again.tolist() == [2] * 4
    storage = small(dtype).storage()
    assert storage.dtype is dtype and len(storage) == 6 and storage[1] == 2


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_tensors_alike_of_other_dtypes(dtype):
    """One of the dtypes holds the bits, and was taken for them."""
    x = small(dtype)
    for other in (rl.uint8, rl.int16, rl.int32, rl.int64, rl.float32):
        for made in (
            rl.ones_like(x, dtype=other),
            rl.full_like(x, 1, dtype=other),
            x.new_ones((2, 3), dtype=other),
            x.new_full((2, 3), 1, dtype=other),
            rl.zeros_like(x, dtype=other) + 1,
        ):
            assert made.dtype is other and made.tolist() == [[1] * 3] * 2
    parts = rl.atleast_1d(x[0, 0], rl.tensor(300, dtype=rl.int32))
    assert [part.dtype for part in parts] == [dtype, rl.int32] and parts[1].tolist() == [300]


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_what_moves_several(dtype):
    x = small(dtype)
    rows, columns = rl.meshgrid(x[0], x[0, :2], indexing="ij")
    assert rows.tolist() == [[1, 1], [2, 2], [4, 4]] and columns.dtype is dtype
    wide, beside = rl.broadcast_tensors(x[0], rl.zeros(2, 1))
    assert wide.tolist() == [[1, 2, 4]] * 2 and wide.dtype is dtype and beside.shape == (2, 3)
    assert rl.cartesian_prod(x[0, :2], x[1, :1]).tolist() == [[1, 8], [2, 8]]
    assert 8 in x and 3 not in x and f"{x[1, 0]:.1f}".startswith("8.0")
    if dtype is not rl.float8_e8m0fnu:
        assert rl.outer(x[0], x[0]).tolist() == [[1, 2, 4], [2, 4, 8], [4, 8, 16]]
        assert rl.kron(x[0], x[0, :2]).dtype is dtype


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_runs_and_random_numbers_of_unsigned_integers(dtype):
    values, counts = rl.unique_consecutive(rl.tensor([1, 1, 9], dtype=dtype), return_counts=True)
    assert values.dtype is dtype and values.tolist() == [1, 9] and counts.tolist() == [2, 1]
    x = rl.randint_like(small(dtype), 5)
    assert x.dtype is dtype and max(map(max, x.tolist())) < 5
    assert 100 < x.random_(100, 1000).max().item() < 1000
    assert (3 | x[0]).dtype is (5 ^ x[0]).dtype is dtype
    assert rl.tensor([1, 2, 3], dtype=dtype).cumprod(0).tolist() == [1, 2, 6]
    assert rl.float_power(x, 2).dtype is rl.float64


@pytest.mark.parametrize("dtype", [d for d in ALL if d.itemsize <= 4], ids=str)
def test_asarray_shares_the_memory_of_buffers_and_copies_when_told(dtype):
    memory = bytearray(8)
    shared = rl.asarray(memory, dtype=dtype)
    assert shared.dtype is dtype and shared.numel() == 8 // dtype.itemsize
    copied = rl.asarray(memory, dtype=dtype, copy=True)
    memory[:] = bytes(small(dtype).contiguous().view(rl.uint8).ravel().tolist() * 8)[:8]
    assert shared[0].item() == 1 != copied[0].item()
    assert rl.asarray(shared, dtype=dtype, copy=False).data_ptr() == shared.data_ptr()
    assert rl.asarray(shared, dtype=dtype, copy=True).data_ptr() != shared.data_ptr()
    for other in ([1, 2], rl.ones(2)):
        assert rl.asarray(other, dtype=dtype).dtype is dtype
        with pytest.raises(ValueError, match="leave out copy=False"):
            rl.asarray(other, dtype=dtype, copy=False)


@pytest.mark.parametrize("dtype", [rl.uint16, rl.float8_e5m2, rl.complex32], ids=str)
@pytest.mark.parametrize(
    "make",
    [
        lambda **k: rl.tensor([1.0], **k),
        lambda **k: rl.asarray([1.0], **k),
        lambda **k: rl.asarray(bytearray(8), **k),
        lambda **k: rl.zeros(2, **k),
        lambda **k: rl.full((2,), 1.0, **k),
        lambda **k: rl.ones_like(rl.ones(2), **k),
        lambda **k: rl.empty(2, **k),
    ],
)
def test_new_tensors_require_a_gradient_where_they_can(make, dtype):
    assert not make(dtype=dtype).requires_grad
    if dtype is rl.uint16:
        with pytest.raises(RuntimeError, match="floating point and complex dtype can require"):
            make(dtype=dtype, requires_grad=True)
    else:
        x = make(dtype=dtype, requires_grad=True)
        assert x.requires_grad and x.is_leaf and x.dtype is dtype
