"""Tensors of given numbers that the op table does not make: windows, histograms, ranges, and
Tensor.set_."""

import numpy as np
import pytest

import rushlight as rl


def test_windows():
    assert rl.hann_window(4).tolist() == pytest.approx([0.0, 0.5, 1.0, 0.5])
    assert rl.hann_window(5, periodic=False).tolist() == pytest.approx([0.0, 0.5, 1.0, 0.5, 0.0])
    assert rl.hamming_window(3, alpha=0.5, beta=0.5, dtype=rl.float64).dtype is rl.float64
    assert rl.bartlett_window(4).tolist() == pytest.approx([0.0, 0.5, 1.0, 0.5])
    assert rl.blackman_window(1).tolist() == [1.0] and rl.kaiser_window(0).shape == (0,)
    assert rl.kaiser_window(4, requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="non-negative"):
        rl.hann_window(-1)
    with pytest.raises(RuntimeError, match="floating point"):
        rl.hann_window(3, dtype=rl.int64)


def test_histogram():
    x = rl.tensor([1.0, 2.0, 1.0, 4.0])
    found = rl.histogram(x, bins=4)
    assert found.hist.tolist() == [2.0, 1.0, 0.0, 1.0]
    assert found.bin_edges.tolist() == [1.0, 1.75, 2.5, 3.25, 4.0]
    weighted, _ = rl.histogram(x, 4, range=(0, 3), weight=rl.tensor([1.0, 2.0, 3.0, 4.0]))
    assert weighted.tolist() == [0.0, 4.0, 2.0, 0.0]
    density, edges = rl.histogram(x, rl.tensor([0.0, 2.0, 5.0]), density=True)
    assert density.tolist() == pytest.approx([0.25, 1 / 6]) and edges.tolist() == [0.0, 2.0, 5.0]
    assert rl.histogram(rl.ones(2), 2).bin_edges.tolist() == [0.5, 1.0, 1.5]
    assert x.histogram().hist.shape == (100,)
    assert rl.histogram(rl.ones(0), 2).hist.tolist() == [0.0, 0.0]
    for bins, options, why in (
        (0, {}, "bins must be"),
        (2, {"range": (3, 1)}, "min should not exceed"),
    ):
        with pytest.raises(RuntimeError, match=why):
            rl.histogram(x, bins, **options)
    with pytest.raises(RuntimeError, match="not finite"):
        rl.histogram(rl.tensor([1.0, float("nan")]), 2)
    with pytest.raises(NotImplementedError, match="int64"):
        rl.histogram(rl.tensor([1, 2]), 2)


def test_ranges_and_scalars():
    assert rl.range(1, 4).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert rl.range(1, 2, 0.5).tolist() == [1.0, 1.5, 2.0] and rl.range(4, 1, -1).tolist() == [
        4.0,
        3.0,
        2.0,
        1.0,
    ]
    assert rl.range(0, 3, dtype=rl.int64).dtype is rl.int64
    for step, why in ((0, "nonzero"), (-1, "inconsistent")):
        with pytest.raises(RuntimeError, match=why):
            rl.range(1, 4, step)
    assert rl.scalar_tensor(2).dtype is rl.float32 and rl.scalar_tensor(2).shape == ()


def test_set_looks_elsewhere():
    x, y = rl.zeros(2, 3), rl.arange(6.0)
    assert x.set_(y) is x and x.shape == (6,)
    y[0] = 9
    assert x[0] == 9
    assert x.set_(y, 1, (2,), (3,)).tolist() == [1.0, 4.0]
    assert x.set_(y.untyped_storage(), 1, (2, 2), (2, 1)).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert x.set_().shape == (0,)
    storage = rl.ones(2).untyped_storage()
    x.set_(storage, 0, (5,))
    assert x.shape == (5,) and x[:2].tolist() == [1.0, 1.0] and storage.nbytes() == 20  # it grew
    with pytest.raises(RuntimeError, match="Could not set"):
        x.set_(rl.arange(3))
    with pytest.raises(RuntimeError, match="requires grad"):
        rl.ones(2, requires_grad=True).set_(y)


def test_numbers_first():
    x = rl.tensor([1.0, 4.0])
    assert rl.mul(2, x).tolist() == [2.0, 8.0] and rl.sub(2, x).tolist() == [1.0, -2.0]
    assert rl.div(2, x).tolist() == [2.0, 0.5] and rl.add(2, 3).item() == 5
    with pytest.raises(TypeError, match="must be Tensor"):
        rl.maximum(2, x)
    with pytest.raises(TypeError):
        rl.float_power(2, 3)


def test_errors_of_truth_values_and_indices():
    mask = rl.tensor([True, False])
    for act in (lambda: -mask, lambda: mask - mask, lambda: 1 - mask, lambda: mask - 1.0):
        with pytest.raises(RuntimeError, match="is not supported"):
            act()
    with pytest.raises(IndexError, match=r"broadcast together with shapes \[2\], \[3\]"):
        rl.ones(3, 4)[rl.tensor([0, 1]), rl.tensor([0, 1, 2])]
    with pytest.raises(NotImplementedError):
        rl.arange(3, dtype=rl.bool)


def test_next_numbers_of_half_precision():
    for dtype, step in ((rl.float16, 2**-10), (rl.bfloat16, 2**-7)):
        x = rl.tensor([1.0, 1.0, -1.0, 0.0, 0.0, 2.0, float("nan")], dtype=dtype)
        y = rl.tensor([2.0, 1.0, -2.0, 1.0, -1.0, float("inf"), 1.0], dtype=dtype)
        found = rl.nextafter(x, y).double().tolist()
        assert found[:3] == [1 + step, 1.0, -1 - step]
        assert 0 < found[3] < 1e-7 and found[4] == -found[3] and found[5] == 2 + 2 * step
        assert found[6] != found[6]


def test_grids_may_point_anywhere():
    image = rl.ones(1, 2, 3, 4, requires_grad=True)
    grid = (
        rl.tensor([float("nan"), float("inf"), -float("inf"), 1e30])
        .reshape(1, 1, 2, 2)
        .requires_grad_()
    )
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            out = rl.nn.functional.grid_sample(image, grid, mode, padding, False)
            out.sum().backward()
            assert out.shape == (1, 2, 1, 2)


def test_ranges_over_all_integers():
    least, largest = -(2**63), 2**63 - 1
    assert rl.arange(least, largest, 2**62).tolist() == [least, -(2**62), 0, 2**62]
    assert rl.arange(0, largest, 2**62).tolist() == [0, 2**62]
    for start, end, step in ((0, least, -1), (least, largest, 1)):
        with pytest.raises(RuntimeError, match="arange: invalid size"):
            rl.arange(start, end, step)
    with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
        rl.empty(0).set_(rl.ones(3).untyped_storage(), 0, (2**62,), (1,))


DTYPES = [getattr(rl, name) for name in (
    "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
).split()]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_random_numbers_like_a_tensor_have_the_dtype_asked_for(dtype, device):
    drawn = dtype.is_floating_point or dtype.is_complex
    for make in (rl.rand, rl.randn):
        like = getattr(rl, make.__name__ + "_like")
        for given in DTYPES:
            model = rl.ones(2, 3, dtype=given, device=device)
            if not drawn:
                with pytest.raises(NotImplementedError, match="not implemented for dtype"):
                    like(model, dtype=dtype)
                continue
            rl.manual_seed(0)
            found = like(model, dtype=dtype, requires_grad=True)
            assert found.dtype is dtype and found.device.type == device and found.requires_grad
            if device == "cpu":
                rl.manual_seed(0)
                assert rl.equal(found, make(2, 3, dtype=dtype))
        if not drawn:
            with pytest.raises(NotImplementedError, match="not implemented for dtype"):
                make(2, dtype=dtype, device=device)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_least_squares_of_batches_that_broadcast(driver):
    a, b = rl.rand(2, 1, 4, 3), rl.rand(2, 3, 4, 2)
    found = rl.linalg.lstsq(a, b, driver=driver)
    assert found.solution.shape == (2, 3, 3, 2)
    assert found.rank.shape == ((0,) if driver == "gels" else (2, 1))
    assert found.singular_values.shape == ((2, 1, 3) if driver in ("gelsd", "gelss") else (0,))
    alone = rl.linalg.lstsq(a[1, 0], b[1, 2], driver=driver)
    assert rl.allclose(found.solution[1, 2], alone.solution, atol=1e-4)
    assert repr(found).startswith("torch.return_types.linalg_lstsq(\nsolution=")


@pytest.mark.parametrize("dtype", [rl.int32, rl.int64])
def test_places_repeated(dtype):
    counts = rl.tensor([1, 0, 3], dtype=dtype)
    for found in (
        rl.repeat_interleave(counts),
        rl.repeat_interleave(repeats=counts),
        rl.repeat_interleave(counts, output_size=4),
    ):
        assert found.tolist() == [0, 2, 2, 2] and found.dtype is dtype
    for bad in (counts[0], counts.view(1, 3), counts.float(), -counts):
        with pytest.raises(RuntimeError):
            rl.repeat_interleave(bad)


SHAPE_ALONE = ["unsqueeze_(0)", "unsqueeze_(-1)", "squeeze_()", "squeeze_(0)", "t_()",
               "transpose_(0, 1)", "swapaxes_(0, 1)", "swapdims_(0, 1)",
               "as_strided_((1,), (1,))"]  # fmt: skip


@pytest.mark.parametrize("call", SHAPE_ALONE)
def test_changes_of_shape_alone_write_nothing(call):
    """So elements that share memory, or may not be written, do not matter."""
    numpy = pytest.importorskip("numpy")
    shared = numpy.arange(3.0, dtype=numpy.float32).reshape(1, 3)
    shared.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        read_only = rl.from_numpy(shared)
    for tensor in (rl.arange(3.0).expand(1, 3), read_only, rl.ones(1, 1).expand(1, 3)):
        expected = eval("tensor." + call.replace("_(", "(", 1), {"tensor": tensor})
        expected_stride, version = expected.stride(), tensor._version
        assert eval("tensor." + call, {"tensor": tensor}) is tensor
        assert tensor.stride() == expected_stride and rl.equal(tensor, expected)
        assert tensor._version == version + 1
    leaf = rl.ones(1, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        eval("leaf." + call, {"leaf": leaf})


def test_logspace_of_integers_has_integer_exponents():
    found = rl.logspace(1.9, 3.2, 3, dtype=rl.int64)
    assert found.tolist() == [10, 100, 1000]
    assert rl.logspace(4.3, -3, 2, dtype=rl.int32).tolist() == [10000, 0]
    assert rl.logspace(0.5, 0.5, 1, base=4.0).tolist() == [2]


def test_arrays_without_elements_keep_their_strides():
    array = np.empty((2, 0, 3), np.float32)
    expected = tuple(stride // 4 for stride in array.strides)
    assert rl.from_numpy(array).stride() == expected
    assert rl.as_tensor(array).stride() == expected


def test_the_class_of_tensors_is_the_default_dtype():
    x = rl.tensor([1, 2])
    assert x.type(rl.Tensor).dtype is x.type("torch.Tensor").dtype is rl.float32
    previous = rl.get_default_dtype()
    rl.set_default_dtype(rl.float64)
    try:
        assert x.type(rl.Tensor).dtype is rl.float64
    finally:
        rl.set_default_dtype(previous)


def test_complex_numbers_where_float16_is_the_default():
    previous = rl.get_default_dtype()
    rl.set_default_dtype(rl.float16)
    try:
        for made in (rl.tensor([1.5, 3j]), rl.tensor(2j), rl.as_tensor((2j,))):
            assert made.dtype is rl.complex32
        assert rl.tensor([1.5, 3j]).tolist() == [1.5, 3j]
        assert rl.tensor([2j], requires_grad=True).requires_grad
        assert rl.tensor(2j, dtype=rl.complex64).dtype is rl.complex64
        assert rl.tensor(np.ones(1, "complex64")).dtype is rl.complex64
    finally:
        rl.set_default_dtype(previous)


def test_the_cpu_and_meta_have_no_numbers():
    """A tensor asked for on "cpu:0" is on "cpu", as one that was not asked for anywhere."""
    x = rl.ones(2)
    for device in ("cpu:0", "cpu:1", rl.device("cpu", 0)):
        made = [
            rl.ones(2, device=device), rl.tensor([1.0], device=device),
            rl.arange(3, device=device), rl.zeros_like(x, device=device),
            x.new_zeros(2, device=device), rl.randn(2, device=device), x.to(device),
            rl.nn.Linear(2, 2, device=device).weight, rl.as_tensor([1.0], device=device),
            rl.empty_strided((2,), (1,), device=device), x.double().to(device),
            rl.empty(2, 3, 4, 5, device=device, memory_format=rl.channels_last),
        ]  # fmt: skip
        with rl.device(device):
            made.append(rl.ones(2))
        assert [one.device for one in made] == [rl.device("cpu")] * len(made)
    assert rl.ones(2, device="meta:0").device == rl.device("meta")
    weight = rl.ones(2, device="cpu:0", requires_grad=True)
    (weight * x).sum().backward()
    assert weight.grad.device == rl.device("cpu")
