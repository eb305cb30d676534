"""Numbers that an element of a tensor cannot be, and other numbers on their way into tensors."""

import pytest

import rushlight

TOO_LARGE = [
    (rushlight.uint8, 300), (rushlight.uint8, -(2**63)), (rushlight.int8, -129),
    (rushlight.int16, 1e6),
    (rushlight.int32, 2**31), (rushlight.int32, float("nan")), (rushlight.int64, 1e30),
    (rushlight.float16, -1e9), (rushlight.bfloat16, 1e39), (rushlight.float32, 1e39),
    (rushlight.complex64, 1e39), (rushlight.float64, 1j),
]  # fmt: skip
MASK, PLACE = rushlight.tensor([True, False]), rushlight.tensor([0])
STORES = {
    "fill_": lambda x, v: x.fill_(v),
    "full": lambda x, v: rushlight.full((2,), v, dtype=x.dtype),
    "full_like": rushlight.full_like,
    "new_full": lambda x, v: x.new_full((2,), v),
    "scalar_tensor": lambda x, v: rushlight.scalar_tensor(v, dtype=x.dtype),
    "masked_fill": lambda x, v: x.masked_fill(MASK, v),
    "masked_fill of a tensor": lambda x, v: x.masked_fill(MASK, _exact(v)),
    "index_fill": lambda x, v: x.index_fill(0, PLACE, v),
    "index_fill of a tensor": lambda x, v: x.index_fill(0, PLACE, _exact(v)),
    "scatter": lambda x, v: x.scatter(0, PLACE, v),
    "pad": lambda x, v: rushlight.nn.functional.pad(x, (1, 0), value=v),
    "x[0]": lambda x, v: x.__setitem__(0, v),
    "x[:1]": lambda x, v: x.__setitem__(slice(1), v),
    "x[mask]": lambda x, v: x.__setitem__(MASK, v),
    "x[index]": lambda x, v: x.__setitem__(PLACE, v),
    "fill_diagonal_": lambda x, v: x.view(1, 2).fill_diagonal_(v),
}


def _exact(value):
    kinds = {int: rushlight.int64, float: rushlight.float64, complex: rushlight.complex128}
    return rushlight.tensor(value, dtype=kinds[type(value)])


@pytest.mark.parametrize("name", STORES)
def test_numbers_that_an_element_cannot_be_are_refused(name):
    for dtype, value in TOO_LARGE:
        if name.startswith("x[") and dtype in (rushlight.float16, rushlight.bfloat16):
            continue
        x = rushlight.zeros(2, dtype=dtype)
        if name == "pad" and isinstance(value, complex):
            continue
        with pytest.raises(RuntimeError, match="without overflow"):
            STORES[name](x, value)
        assert x.count_nonzero() == 0


@pytest.mark.parametrize("name", STORES)
def test_numbers_at_the_edge_are_stored(name):
    cases = [
        (rushlight.uint8, 255, 255), (rushlight.uint8, -1, 255), (rushlight.int8, -128, -128),
        (rushlight.int16, 2.7, 2), (rushlight.int64, 2**63 - 1, 2**63 - 1),
        (rushlight.float16, 65504, 65504), (rushlight.float32, float("-inf"), float("-inf")),
        (rushlight.bool, 300, True), (rushlight.float64, 1e300, 1e300),
    ]  # fmt: skip
    for dtype, value, stored in cases:
        if name == "pad" and value in (-1, 2**63 - 1):  # which it takes as floats
            continue
        x = rushlight.zeros(2, dtype=dtype)
        out = STORES[name](x, value)
        out = x if out is None else out
        assert out.reshape(-1)[0].item() == stored, (dtype, value)


def test_masks_of_scores_in_half_precision_take_numbers_too_large_for_it():
    for dtype in (rushlight.float16, rushlight.bfloat16):
        for place in (MASK, PLACE, 0, slice(1)):
            x = rushlight.zeros(2, dtype=dtype)
            x[place] = -1e39
            assert x.tolist() == [float("-inf"), 0]
    assert (rushlight.tensor([0.5, 2.0]) ** 1e40).tolist() == [0, float("inf")]


def test_bounds_and_branches_must_be_numbers_of_the_result():
    x = rushlight.tensor([1, 200], dtype=rushlight.uint8)
    for call in (
        lambda: x.clamp(max=300), lambda: x.clamp(min=-300), lambda: x.clamp(0, 300),
        lambda: x.clamp_min(300), lambda: x.clamp_max_(256), lambda: x.clone().clamp_(256, 257),
        lambda: rushlight.where(MASK, x, 300), lambda: rushlight.where(MASK, -300, x),
        lambda: x**300, lambda: x.pow_(256), lambda: x.half().clamp(max=1e5),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="without overflow"):
            call()
    assert x.tolist() == [1, 200]
    assert x.clamp(2, 199.5).tolist() == [2.0, 199.5]  # which is float32
    assert x.clamp(max=255).tolist() == [1, 200] and (x + 300).tolist() == [45, 244]
    assert rushlight.where(MASK, x, 3.5).tolist() == [1.0, 3.5]


def test_integers_have_no_negative_powers_in_place_either():
    for dtype in (rushlight.uint8, rushlight.int64):
        x = rushlight.tensor([1, 2], dtype=dtype)
        with pytest.raises(RuntimeError, match="negative integer powers"):
            x **= -1
        assert x.tolist() == [1, 2]
    x = rushlight.tensor([2.0, 4.0])
    x **= -1
    assert x.tolist() == [0.5, 0.25]


def test_a_mask_takes_one_value_of_any_dtype():
    for value in (rushlight.tensor(2.5), rushlight.tensor([2.5])):
        x = rushlight.zeros(2, dtype=rushlight.int64)
        x[MASK] = value
        assert x.tolist() == [2, 0]
        y = rushlight.zeros(2, 3, dtype=rushlight.float64)
        y[MASK] = value
        assert y.tolist() == [[2.5] * 3, [0] * 3]
        weight = value.clone().requires_grad_()
        z = rushlight.zeros(2, dtype=rushlight.float64)
        z[MASK] = weight
        z.sum().backward()
        assert weight.grad.sum() == 1 and weight.grad.dtype == rushlight.float32
    x = rushlight.zeros(2, dtype=rushlight.int32)
    assert x.masked_fill(MASK, rushlight.tensor(1.5)).tolist() == [1, 0]
    with pytest.raises(RuntimeError, match="dtypes match"):
        x[PLACE] = rushlight.tensor([2.5])


def test_statistics_of_too_few_elements_warn():
    for call in (rushlight.var, rushlight.std, lambda x: rushlight.var_mean(x, 0)):
        with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
            call(rushlight.ones(1))
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert rushlight.tensor([1 + 2j]).float().item() == 1


def test_a_tensor_of_no_dims_is_no_number():
    # A form that takes a tensor comes before the one with a number in that place.
    whole, wide = rushlight.tensor([1, 2, 3]), rushlight.tensor(2.5, dtype=rushlight.float64)
    for power in (whole.pow(wide), whole**wide, rushlight.pow(whole, wide)):
        assert power.dtype is rushlight.float64
    assert rushlight.tensor(2.0).pow(wide).dtype is rushlight.float64
    assert whole.pow(2.5).dtype is rushlight.float32
    for bounded in (whole.clamp(wide), whole.clamp(max=wide), rushlight.clip(whole, wide, wide)):
        assert bounded.dtype is rushlight.float64
    assert rushlight.tensor(1.0).clamp(wide).dtype is rushlight.float64
    assert whole.clamp(2).dtype is rushlight.int64
    assert whole.pow(rushlight.tensor(-1)).tolist() == [1, 0, 0]  # as for more dims


DIMS = {
    "fftn": lambda x, d: rushlight.fft.fftn(x, dim=d),
    "fftshift": lambda x, d: rushlight.fft.fftshift(x, dim=d),
    "gradient": lambda x, d: rushlight.gradient(x, dim=d)[0],
    "hash_tensor": lambda x, d: rushlight.hash_tensor(x, dim=d).view(rushlight.int64),
    "linalg.norm": lambda x, d: rushlight.linalg.norm(x, 2, dim=d),
    "masked.sum": lambda x, d: rushlight.masked.sum(x, d),
    "broadcast_shapes": lambda x, d: rushlight.empty(rushlight.broadcast_shapes(d, (2, 1))).zero_(),
    "unravel_index": lambda x, d: rushlight.unravel_index(rushlight.tensor([0]), d)[0],
    "adaptive_avg_pool1d": rushlight.nn.functional.adaptive_avg_pool1d,
    "Conv1d": lambda x, d: rushlight.nn.functional.conv1d(x, rushlight.ones(1, 3, d), padding=d),
}


@pytest.mark.parametrize("name", DIMS)
def test_one_integer_may_be_of_numpy_or_a_tensor(name):
    numpy = pytest.importorskip("numpy")
    x = rushlight.arange(12.0).reshape(3, 4)
    expected = DIMS[name](x, 1)
    for one in (numpy.int64(1), numpy.array(1), rushlight.tensor(1)):
        found = DIMS[name](x, one)
        assert found.shape == expected.shape and found.tolist() == expected.tolist()


OWN = {
    "add": lambda x, v: rushlight.add(x, x, alpha=v),
    "add_": lambda x, v: x.clone().add_(x, alpha=v),
    "sub": lambda x, v: rushlight.sub(x, x, alpha=v),
    "rsub": lambda x, v: rushlight.rsub(x, x, alpha=v),
    "addcmul": lambda x, v: rushlight.addcmul(x, x, x, value=v),
    "addcdiv": lambda x, v: rushlight.addcdiv(x, x, x, value=v),
    "lerp": lambda x, v: rushlight.lerp(x, x, v),
    "addmm": lambda x, v: rushlight.addmm(x, x[:, None], x[None], alpha=v),
    "addmm beta": lambda x, v: rushlight.addmm(x, x[:, None], x[None], beta=v),
    "addmv": lambda x, v: rushlight.addmv(x, x.diag(), x, beta=v),
    "addr": lambda x, v: rushlight.addr(x.diag(), x, x, alpha=v),
    "baddbmm": lambda x, v: rushlight.baddbmm(x, x[None, :, None], x[None, None], beta=v),
    "addbmm": lambda x, v: rushlight.addbmm(x, x[None, :, None], x[None, None], beta=v),
    "index_add": lambda x, v: x.index_add(0, rushlight.tensor([0, 1]), x, alpha=v),
    "softplus": lambda x, v: rushlight.nn.functional.softplus(x, v),
    "hardshrink": lambda x, v: rushlight.nn.functional.hardshrink(x, v),
    "softshrink": lambda x, v: rushlight.nn.functional.softshrink(x, v),
    "vector_norm": lambda x, v: rushlight.linalg.vector_norm(x, v),
    "dist": lambda x, v: rushlight.dist(x, x + 1, v),
    "std": lambda x, v: x.repeat(2).std(correction=v),
    "histc": lambda x, v: rushlight.histc(x, 3, 0, v),
}


@pytest.mark.parametrize("op", OWN)
def test_the_imaginary_part_of_an_own_number_is_not_dropped(op):
    x = rushlight.tensor([1.0, 2.0])
    with pytest.raises(RuntimeError):
        OWN[op](x, 1j)
    OWN[op](x, 2)  # a number that fits


@pytest.mark.parametrize("op", ["add", "add_", "sub", "rsub"])
def test_factors_are_of_the_kind_of_the_result(op):
    whole, real = rushlight.tensor([1, 2]), rushlight.tensor([1.0, 2.0])
    with pytest.raises(RuntimeError, match="Boolean alpha only supported for Boolean results"):
        OWN[op](real, True)
    with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
        OWN[op](whole, 0.5)
    with pytest.raises(RuntimeError, match="alpha must not be a complex number"):
        OWN[op](real, 2 + 0j)
    assert OWN[op](real.to(rushlight.complex64), 1j).dtype is rushlight.complex64
    assert OWN[op](rushlight.tensor([1, 2], dtype=rushlight.uint8), -1).dtype is rushlight.uint8


def test_threshold_of_integers_keeps_them_whole():
    x = rushlight.tensor([1, 5], dtype=rushlight.uint8)
    assert rushlight.nn.functional.threshold(x, 3, -9).tolist() == [247, 5]
    with pytest.raises(RuntimeError, match="without overflow"):
        rushlight.nn.functional.threshold(x, 300, 9)


def test_numbers_before_bits():
    x = rushlight.tensor([1, 2, 3], dtype=rushlight.int32)
    assert rushlight.bitwise_and(5, x).tolist() == [1, 0, 1]
    assert rushlight.bitwise_or(4, x).tolist() == [5, 6, 7]
    assert rushlight.bitwise_xor(True, x).tolist() == [0, 3, 2]
    assert rushlight.bitwise_left_shift(1, x).tolist() == [2, 4, 8]
    assert rushlight.bitwise_right_shift(16, x).tolist() == [8, 4, 2]


def test_operands_of_one_dtype():
    single, double = rushlight.ones(2), rushlight.ones(2, dtype=rushlight.float64)
    with pytest.raises(RuntimeError, match="lerp: .*expected dtype"):
        rushlight.lerp(single, double, 0.5)
    with pytest.raises(RuntimeError, match="lerp: .*expected dtype .* for `weight`"):
        rushlight.lerp(single, single, double)
    assert rushlight.lerp(single, single, double.sum()).dtype is rushlight.float32
    with pytest.raises(NotImplementedError, match="lerp"):
        rushlight.lerp(single.long(), single.long(), 0.5)
    with pytest.raises(RuntimeError, match="tensors of different dtypes"):
        rushlight.heaviside(single, double)
    with pytest.raises(RuntimeError, match="polar: .*tensors of different dtypes"):
        rushlight.polar(single, double)
    with pytest.raises(RuntimeError, match="operation's result requires dtype"):
        single.clone().float_power_(2)
    assert double.float_power_(2).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="In-place abs is not supported for complex tensors"):
        rushlight.tensor([3 + 4j]).abs_()


def test_no_integers_are_bools():
    with pytest.raises(TypeError, match="not supported by torch.iinfo"):
        rushlight.iinfo(rushlight.bool)
