"""out=: what is written, what is resized, and what is refused before anything is written."""

import pytest

import rushlight as torch


def test_an_input_may_be_out():
    x = torch.arange(6.0)
    assert torch.add(x, 1, out=x) is x and x.tolist() == [1, 2, 3, 4, 5, 6]
    square = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    other = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert torch.mm(square, other, out=square).tolist() == [[2, 1], [4, 3]]
    assert torch.cumsum(x, 0, out=x).tolist() == [1, 3, 6, 10, 15, 21]


@pytest.mark.parametrize("call", [
    lambda x: torch.exp(x[:-1], out=x[1:]),
    lambda x: torch.take(x, torch.tensor([2, 1]), out=x),
    lambda x: torch.masked_select(x, x > 2, out=x),
    lambda x: torch.cat([x[:3], x[3:]], out=x[1:]),
    lambda x: torch.kthvalue(x, 2, out=(x, torch.empty(0, dtype=torch.int64))),
    lambda x: torch.gather(x, 0, torch.tensor([0, 1]), out=x[1:3]),
    lambda x: torch.linalg.vecdot(x, x, out=x[:1].expand(3)),
])  # fmt: skip
def test_out_that_overlaps_an_input_is_refused(call):
    x = torch.arange(6.0)
    with pytest.raises(RuntimeError, match="single memory location"):
        call(x)
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_out_with_gaps_between_those_of_an_input():
    pairs = torch.arange(6.0).view(3, 2)
    assert torch.neg(pairs[:, 0], out=pairs[:, 1]).tolist() == [0, -2, -4]
    assert pairs.tolist() == [[0, 0], [2, -2], [4, -4]]


def test_elementwise_results_are_cast():
    out = torch.empty(0, dtype=torch.float64)
    assert torch.exp(torch.zeros(2), out=out).tolist() == [1, 1] and out.shape == (2,)
    assert torch.cat([torch.ones(1), torch.zeros(1)], out=out).tolist() == [1, 0]
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.exp(torch.zeros(2), out=torch.empty(2, dtype=torch.int64))


@pytest.mark.parametrize("call", [
    lambda wide: torch.mm(torch.ones(1, 1), torch.ones(1, 1), out=wide),
    lambda wide: torch.gather(torch.ones(2), 0, torch.tensor([1]), out=wide),
    lambda wide: torch.multinomial(torch.ones(2), 1, out=wide),
    lambda wide: torch.aminmax(torch.ones(2), out=(torch.empty(0), wide)),
    lambda wide: torch.linalg.inv(torch.ones(1, 1), out=wide),
])  # fmt: skip
def test_other_results_have_their_own_dtype(call):
    wide = torch.full((1,), 7.0, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype"):
        call(wide)
    assert wide.tolist() == [7]


def test_nothing_is_written_if_one_of_several_is_refused():
    values, places = torch.full((2,), 7.0), torch.empty(2)
    with pytest.raises(RuntimeError, match="sort: Expected out tensor to have dtype"):
        torch.sort(torch.tensor([2.0, 1.0]), out=(values, places))
    assert values.tolist() == [7, 7]
    both = torch.empty(2)
    with pytest.raises(RuntimeError, match="tensors of out share memory"):
        torch.aminmax(torch.ones(3, 2), dim=0, out=(both, both))


def test_out_says_the_dtype_of_the_work():
    out = torch.empty(0, dtype=torch.float64)
    third = torch.linspace(0, 1, 4, out=out)[1].item()
    assert third == 1 / 3  # not of float32 and widened then
    assert torch.sum(torch.full((3,), 0.1), 0, out=out).item() == pytest.approx(0.3, abs=1e-8)
    whole = torch.empty(0, dtype=torch.int64)
    assert torch.cumsum(torch.tensor([1.5, 1.5]), 0, out=whole).tolist() == [1, 2]
    assert torch.zeros(2, out=whole).dtype == torch.int64
    with pytest.raises(ValueError, match="step must be nonzero"):
        torch.arange(0, 64, 0.5, out=whole)


def test_functions_in_python_resize_too():
    a, b = torch.ones(2, 3), torch.ones(3, 2)
    assert torch.tensordot(a, b, 1, out=torch.empty(5, 2, 2)).tolist() == [[3, 3], [3, 3]]
    assert torch.norm(a, out=torch.empty(4)).shape == ()
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.fft.fft(torch.ones(3), out=torch.empty(0))
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        torch.tensordot(a.requires_grad_(), b, 1, out=torch.empty(2, 2))


@pytest.mark.parametrize(
    "call",
    [
        lambda out: torch.ones(3, out=out),
        lambda out: torch.full((3,), 2, out=out),
        lambda out: torch.empty(3, out=out),
        lambda out: torch.arange(3, out=out),
        lambda out: torch.linspace(0, 2, 3, out=out),
        lambda out: torch.eye(3, out=out),
        lambda out: torch.rand(3, out=out),
        lambda out: torch.randint(5, (3,), out=out),
        lambda out: torch.randperm(3, out=out),
        lambda out: torch.normal(0.0, 1.0, (3,), out=out),
    ],
)
def test_new_tensors_have_the_dtype_and_the_device_of_out(call):
    out = torch.empty(0, dtype=torch.float64, device="meta")
    assert call(out) is out
    assert out.dtype == torch.float64 and out.is_meta and out.shape[0] == 3


def test_a_device_beside_out_must_be_its_own():
    with pytest.raises(RuntimeError, match="Expected out tensor to have device meta, but got cpu"):
        torch.ones(3, device="meta", out=torch.empty(3))


def test_the_warning_of_a_resized_out_names_both_shapes():
    with pytest.warns(UserWarning, match=r"was resized since it had shape \[2\].* shape \[3\]"):
        torch.add(torch.ones(3), 1, out=torch.empty(2))


def test_truth_goes_to_bools_and_bytes():
    x = torch.tensor([0.0, 2.0])
    for op in (torch.any, torch.all):
        assert op(x, out=torch.empty((), dtype=torch.uint8)).dtype is torch.uint8
        with pytest.raises(RuntimeError, match="only supports bool tensor for result"):
            op(x, out=torch.empty(()))


def test_extremes_of_two_go_to_any_dtype_that_holds_them():
    one, two = torch.tensor([1, 5]), torch.tensor([3, 2])
    out = torch.empty(0, dtype=torch.int32)
    assert torch.max(one, two, out=out).tolist() == [3, 5] and out.dtype is torch.int32
    assert torch.min(one, two, out=torch.empty(0)).tolist() == [1, 2]


def test_norms_of_the_older_names_take_out():
    x, out = torch.eye(2), torch.empty(())
    assert torch.nuclear_norm(x, out=out) is out and out.item() == 2
    assert torch.frobenius_norm(x, 1, out=torch.empty(2)).tolist() == [1, 1]


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_sums_without_nan_are_of_floats(dtype):
    x = torch.tensor([1.5, torch.nan])
    with pytest.raises(NotImplementedError, match=f"nansum: .*float32 in {dtype}"):
        torch.nansum(x, out=torch.empty((), dtype=dtype))
    with pytest.raises(NotImplementedError, match="nansum"):
        torch.nansum(x, dtype=dtype)
    assert torch.nansum(torch.tensor([1, 2]), dtype=torch.float64).dtype is torch.float64


def test_complex_numbers_fill_no_other_elements():
    where = torch.tensor([1])
    for dtype in (torch.bool, torch.float32, torch.int64):
        with pytest.raises(RuntimeError, match="complex number for an element|without overflow"):
            torch.zeros(3, dtype=dtype).index_fill(0, where, 1j)
    filled = torch.zeros(3, dtype=torch.complex64).index_fill(0, where, 1j)
    assert filled.tolist() == [0, 1j, 0]


LARGE = (160, 170)  # more elements than small calls have, which make their results elsewhere


@pytest.mark.parametrize("call", [
    lambda x, y, **o: torch.clamp(x, 0.5, 1.5, **o), lambda x, y, **o: torch.clamp(x, y, **o),
    lambda x, y, **o: torch.nan_to_num(x / (x > 1), **o), lambda x, y, **o: torch.angle(x, **o),
    lambda x, y, **o: torch.square(x, **o), lambda x, y, **o: torch.pow(x, 2, **o),
    lambda x, y, **o: torch.pow(x, -2, **o), lambda x, y, **o: torch.pow(x, 1, **o),
    lambda x, y, **o: torch.pow(x, 0, **o), lambda x, y, **o: torch.diff(x, **o),
    lambda x, y, **o: torch.diff(x, 2, **o), lambda x, y, **o: torch.maximum(x, y, **o),
    lambda x, y, **o: torch.detach_copy(x, **o), lambda x, y, **o: torch.hypot(x, y, **o),
    lambda x, y, **o: torch.isin(x, y[0, :3], **o), lambda x, y, **o: torch.isin(x, y, **o),
    lambda x, y, **o: torch.cat([x, y], 1, **o), lambda x, y, **o: torch.stack([x, y], 1, **o),
    lambda x, y, **o: torch.addcmul(x, y, y.t().contiguous().t(), **o),
    lambda x, y, **o: torch.matrix_power(x[:, :160], 3, **o),
    lambda x, y, **o: torch.logaddexp(x, y, **o), lambda x, y, **o: torch.outer(x[0], y[0], **o),
])  # fmt: skip
def test_results_of_several_steps_go_to_out(call):
    x, y = torch.rand(*LARGE) * 2, torch.rand(*LARGE) * 2
    before = x.clone(), y.clone()
    expected = call(x, y)
    out = torch.full_like(expected, 3).contiguous()
    address, version = out.data_ptr(), out._version
    assert call(x, y, out=out) is out
    assert torch.equal(out, expected) and out.data_ptr() == address and out._version == version + 1
    across = torch.full_like(expected, 3).transpose(0, -1).contiguous().transpose(0, -1)
    assert torch.equal(call(x, y, out=across), expected)
    assert torch.equal(call(x, y), expected)  # nothing is left of out
    assert torch.equal(x, before[0]) and torch.equal(y, before[1])


def test_out_of_several_steps_may_be_an_input():
    x = torch.rand(*LARGE) * 2
    for call in (lambda t, **o: torch.clamp(t, 0.5, 1.5, **o), lambda t, **o: torch.square(t, **o),
                 lambda t, **o: torch.pow(t, -2, **o), lambda t, **o: torch.angle(t - 1, **o)):
        changed = x.clone()
        assert torch.equal(call(changed, out=changed), call(x))


def test_out_that_needs_a_gradient_is_refused_and_stays():
    x, out = torch.rand(*LARGE), torch.zeros(*LARGE, requires_grad=True)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        torch.clamp(x, 0.5, out=out)
    assert not out.any()


@pytest.mark.parametrize("name, args", [
    ("pow", (2,)), ("pow", (-2,)), ("pow", (0,)), ("pow", (1,)), ("pow", (0.5,)), ("pow", (1.7,)),
    ("square", ()), ("nan_to_num", (0, 2)), ("gt", (1,)), ("eq", (1,)), ("logical_not", ()),
    ("clamp", (0.5,)),
])  # fmt: skip
def test_changes_in_place_are_those_of_new_tensors(name, args):
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64):
        if dtype == torch.int64 and (name == "clamp" or any(a < 0 or a % 1 for a in args)):
            continue
        x = (torch.rand(*LARGE) * 4).round().to(dtype)
        if x.is_floating_point():
            x[3, 4], x[5, 6] = torch.inf, torch.nan
        changed = x.clone()
        address = changed.data_ptr()
        assert getattr(changed, name + "_")(*args) is changed and changed.data_ptr() == address
        assert changed._version == 1
        expected = getattr(x, name)(*args).to(dtype)
        assert torch.equal(changed.nan_to_num(7), expected.nan_to_num(7))
