"""rushlight.masked.MaskedTensor."""

import pytest

import rushlight

DATA = rushlight.arange(6.0).reshape(2, 3)
MASK = rushlight.tensor([[True, False, True], [False, False, False]])


def masked():
    return rushlight.masked.masked_tensor(DATA, MASK, requires_grad=True)


def test_a_masked_tensor_prints_what_counts():
    mt = masked()
    assert repr(mt[0]) == "MaskedTensor(\n  [  0.0000,       --,   2.0000]\n)"
    assert repr(mt.sum()) == "MaskedTensor(  2.0000, True)"
    assert repr(mt[1].sum()) == "MaskedTensor(--, False)"
    assert repr(mt.detach().to(rushlight.int64)[:, :2]).split() == (
        "MaskedTensor( [ [0, --], [ --, --] ] )".split()
    )


@pytest.mark.parametrize(
    "call",
    [lambda x: x.exp(), lambda x: -x, lambda x: x * 2 + x, lambda x: 1 / (x + 1), lambda x: x > 1,
     lambda x: x.T, lambda x: x.reshape(3, 2), lambda x: x.softmax(1), lambda x: x.clamp(0, 1),
     lambda x: rushlight.cat([x, x]), lambda x: rushlight.stack([x, x], 1), lambda x: x[:, 1:],
     lambda x: x.to(rushlight.float64), lambda x: x + rushlight.ones(3)],
)  # fmt: skip
def test_operations_on_elements_keep_the_mask(call):
    mt = masked()
    result, plain = call(mt), call(DATA)
    assert rushlight.masked.is_masked_tensor(result) and result.shape == plain.shape
    assert result.dtype is plain.dtype
    if plain.dtype is not rushlight.bool and "softmax" not in call.__code__.co_names:
        expected = plain.where(result.get_mask(), rushlight.zeros(()).to(plain))
        rushlight.testing.assert_close(result.to_tensor(0).detach(), expected, equal_nan=True)


def test_reductions_leave_out_what_is_masked():
    mt = masked()
    assert mt.sum(1).to_tensor(-1).tolist() == [2, -1]
    assert mt.mean(0).get_mask().tolist() == [True, False, True]
    assert mt.amax().get_data().item() == 2 and mt.prod(1, keepdim=True).shape == (2, 1)
    assert mt.all(1).get_mask().tolist() == [True, False]
    assert mt.argmax(1).get_data()[0].item() == 2


def test_gradients_of_masked_tensors():
    mt = masked()
    (mt.exp() * 2).sum().backward()
    assert rushlight.masked.is_masked_tensor(mt.grad)
    rushlight.testing.assert_close(
        mt.grad.to_tensor(0), (DATA.exp() * 2).where(MASK, rushlight.zeros(()))
    )
    x = rushlight.tensor([1.0, -1.0], requires_grad=True)
    half = rushlight.masked.as_masked_tensor(x, rushlight.tensor([True, False]))
    half.sqrt().sum().backward()
    assert x.grad.tolist() == [0.5, 0.0]


def test_what_masked_tensors_refuse():
    mt = masked()
    with pytest.raises(ValueError, match="masks must match"):
        mt + rushlight.masked.masked_tensor(DATA, ~MASK)
    with pytest.raises(TypeError, match="MaskedTensor: cumsum"):
        mt.cumsum(1)
    with pytest.raises(ValueError, match="must equal mask.size"):
        rushlight.masked.masked_tensor(DATA, MASK[:1])
    with pytest.raises(TypeError, match="dtype bool"):
        rushlight.masked.masked_tensor(DATA, DATA)
    with pytest.raises(TypeError, match="data must be a Tensor"):
        rushlight.masked.masked_tensor([1.0], MASK)


def test_numbers_of_masked_tensors():
    mt = masked()
    assert bool(mt[0, 2] > 1) and float(mt[0, 2]) == 2 and int(mt[0, 2]) == 2
    assert "abc"[mt[0, 2].long()] == "c" and not mt[0, 0] and mt[0, 2].is_nonzero()
    assert mt._masked_data.equal(DATA) and mt._masked_mask.equal(MASK)
    for number in (bool, float, int, complex, rushlight.is_nonzero):
        with pytest.raises(ValueError, match="masked out"):
            number(mt[0, 1])
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(mt)


def test_assignment_to_masked_tensors():
    mt = rushlight.masked.masked_tensor(DATA, MASK)
    mt[:, 0] = 5.0
    mt[0, 1:] = rushlight.tensor([7.0, 8.0])
    mt[0] = mt[0] * 2
    assert mt.get_data()[:, :2].tolist() == [[10, 14], [5, 4]] and mt.get_mask().equal(MASK)
    with pytest.raises(ValueError, match="masks must match"):
        mt[0] = mt[1]
    plain = rushlight.zeros(3)
    plain[:] = mt.sum(0)
    assert type(plain) is rushlight.Tensor and plain.tolist() == [10, 0, 16]
