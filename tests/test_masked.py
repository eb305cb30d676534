"""rushlight.masked: as the operation over what the mask keeps, line by line."""

import math

import numpy as np
import pytest

import rushlight as rl
from rushlight import masked

X = rl.tensor(
    [[3.0, -1.0, 2.5, 0.5], [1.0, 2.0, -4.0, 7.0], [0.25, 0.5, 5.0, -6.0]], dtype=rl.float64
)
MASK = rl.tensor(
    [[True, False, True, True], [False, False, True, False], [False, False, False, False]]
)

# of the elements kept in a line
PLAIN = {
    "sum": np.sum,
    "prod": np.prod,
    "amax": lambda v: v.max(initial=-math.inf),
    "amin": lambda v: v.min(initial=math.inf),
    "mean": lambda v: v.mean() if v.size else math.nan,
    "median": lambda v: np.sort(v)[(v.size - 1) // 2] if v.size else math.nan,
    "norm": lambda v: math.sqrt((v * v).sum()),
    "var": lambda v: v.var(ddof=1) if v.size > 1 else math.nan,
    "std": lambda v: v.std(ddof=1) if v.size > 1 else math.nan,
    "logsumexp": lambda v: np.log(np.exp(v).sum()) if v.size else -math.inf,
}


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions(name, keepdim):
    expected = [PLAIN[name](row[keep]) for row, keep in zip(X.numpy(), MASK.numpy())]
    got = getattr(masked, name)(X, dim=1, keepdim=keepdim, mask=MASK)
    assert got.shape == ((3, 1) if keepdim else (3,))
    np.testing.assert_allclose(got.numpy().ravel(), expected)


@pytest.mark.parametrize("name", [*PLAIN, "argmax", "argmin"])
def test_no_mask_keeps_all(name):
    function = getattr(masked, name)
    everything = rl.ones(3, 4, dtype=rl.bool)
    assert rl.allclose(function(X, dim=1), function(X, dim=1, mask=everything))


@pytest.mark.parametrize("keepdim", [False, True])
def test_median_of_integers(keepdim):
    large = 2**53
    x = rl.tensor([[large + 3, large + 1, large + 2, 0], [5, -7, 1, 2**63 - 1]])
    mask = rl.tensor([[True, True, True, False], [True, False, False, True]])
    found = masked.median(x, 1, keepdim=keepdim, mask=mask)
    assert found.dtype is rl.int64 and found.shape == ((2, 1) if keepdim else (2,))
    assert found.ravel().tolist() == [large + 2, 5]
    assert masked.median(x, 0).tolist() == [5, -7, 1, 0]
    assert masked.median(x[0, 0], mask=rl.tensor(True)) == large + 3
    bools = masked.median(x.bool(), 1, mask=mask)
    assert bools.dtype is rl.bool and bools.tolist() == [True, True]
    assert masked.median(x, 1, mask=~mask, dtype=rl.float64).tolist() == [0, -7]
    with pytest.raises(ValueError, match="keeps no element"):
        masked.median(x, 1, mask=rl.tensor([[True], [False]]))


def test_places():
    assert masked.argmax(X, 1, mask=MASK).tolist() == [0, 2, 0]
    assert masked.argmin(X, 1, mask=MASK).tolist() == [3, 2, 0]


def test_over_all_dims_and_several():
    assert masked.sum(X, mask=MASK).item() == 2.0
    assert masked.mean(X, (0, 1), mask=MASK).item() == 0.5
    assert masked.prod(X, (0, 1), keepdim=True, mask=MASK).tolist() == [[-15.0]]
    assert masked.sum(X[0, 0], mask=rl.tensor(False)).item() == 0


def test_softmax():
    kept = masked.softmax(X, 1, mask=MASK)
    assert rl.allclose(kept[0, [0, 2, 3]], X[0, [0, 2, 3]].softmax(0)) and kept[0, 1] == 0
    assert kept[1].tolist() == [0, 0, 1, 0] and kept[2].isnan().all()
    assert rl.allclose(masked.log_softmax(X, 1, mask=MASK)[0].exp(), kept[0])
    assert rl.allclose(masked.softmin(-X, 1, mask=MASK)[:2], kept[:2])


def test_scans_and_normalize():
    assert masked.cumsum(X, 1, mask=MASK)[0].tolist() == [3, 3, 5.5, 6]
    assert masked.cumprod(X, 1, mask=MASK)[0].tolist() == [3, 3, 7.5, 3.75]
    unit = masked.normalize(X, 2.0, 1, mask=MASK)
    assert rl.allclose(unit.norm(dim=1), rl.tensor([1.0, 1.0, 0.0], dtype=rl.float64))


def test_logaddexp():
    other = X.flip(1)
    got = masked.logaddexp(X, other, input_mask=MASK, other_mask=~MASK)
    assert rl.equal(got, rl.where(MASK, X, other))


def test_integers():
    whole = X.to(rl.int32)
    assert masked.sum(whole, 1, mask=MASK).dtype == rl.int64
    assert masked.amax(whole, 1, mask=MASK).tolist() == [3, -4, rl.iinfo(rl.int32).min]
    assert masked.mean(whole, 1, mask=MASK).dtype == rl.float32


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "norm", "logsumexp"])
def test_gradients(name):
    x = X[:1].clone().requires_grad_()
    assert rl.autograd.gradcheck(lambda x: getattr(masked, name)(x, dim=1, mask=MASK[:1]), (x,))


def test_masks_are_bool_and_fit():
    with pytest.raises(TypeError, match="bool"):
        masked.sum(X, mask=MASK.int())
    with pytest.raises(IndexError, match="broadcast"):
        masked.sum(X[0], mask=MASK)
    with pytest.raises(ValueError, match="unbiased"):
        masked.var(X, unbiased=True, correction=0)


SPARSE = rl.tensor([[0.0, -3, 2], [4, 0, 0], [0, 0, 0]])
KEPT = rl.tensor([[True, False, True], [True, False, False], [False, True, False]])


@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean"])
@pytest.mark.parametrize("dim", [None, 0, 1, (0, 1)])
def test_sparse_inputs_are_reduced_over_the_mask(layout, name, dim):
    reduce = getattr(masked, name)
    x, mask = (getattr(t, f"to_sparse_{layout}")() for t in (SPARSE, KEPT))
    if name == "mean" and layout == "coo":
        with pytest.raises(ValueError, match="expects strided"):
            reduce(x, dim, mask=mask)
        return
    expected = reduce(SPARSE, dim, keepdim=layout == "csr", mask=KEPT)
    for given in (mask, KEPT):
        found = reduce(x, dim, keepdim=layout == "csr", mask=given)
        assert found.layout is x.layout and found.to_dense().equal(expected)
    assert reduce(SPARSE, dim, mask=mask).equal(reduce(SPARSE, dim, mask=KEPT))


def test_what_is_not_reduced_in_sparse_layouts():
    x = SPARSE.to_sparse()
    assert masked.sum(x, 1).to_dense().tolist() == [-1, 4, 0]
    assert masked.sum(x, dtype=rl.float64).dtype is rl.float64
    for call in (lambda: masked.amax(x, 0), lambda: masked.prod(x)):
        with pytest.raises(ValueError, match="explicit mask for sparse_coo"):
            call()
    for call in (lambda: masked.softmax(x, 0), lambda: masked.var(x), lambda: masked.norm(x)):
        with pytest.raises(ValueError, match="expects strided tensor"):
            call()
    with pytest.raises(RuntimeError, match="keepdim"):
        masked.sum(SPARSE.to_sparse_csr(), 0)


def test_gradients_of_reduced_sparse_inputs():
    x = SPARSE.to_sparse().requires_grad_()
    masked.sum(x, 1, mask=KEPT.to_sparse()).to_dense().sum().backward()
    assert x.grad.to_dense().tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("layout", ["strided", "sparse_coo", "sparse_csr"])
@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin", "mean", "var", "logsumexp"])
def test_no_dims_are_all_dims(layout, name):
    """A reduction over () once gave back the input."""
    x, reduce = SPARSE.to_sparse(layout=getattr(rl, layout)), getattr(masked, name)
    refused = ["var", "logsumexp", *(["mean"] if layout == "sparse_coo" else [])]
    if layout != "strided" and name in refused:
        with pytest.raises(ValueError, match="expects strided"):
            reduce(x, (), mask=KEPT)
        return
    found = reduce(x, (), keepdim=True, mask=KEPT)
    assert found.to_dense().equal(reduce(SPARSE, (0, 1), keepdim=True, mask=KEPT))
    assert found.shape == (1, 1)


def test_dims_are_in_range_and_different():
    for dim in ((0, 0), (0, -2)):
        with pytest.raises(RuntimeError, match="multiple times"):
            masked.prod(X, dim, mask=MASK)
    for reduce in (masked.sum, masked.prod, masked.amax, masked.mean):
        with pytest.raises(IndexError, match="out of range"):
            reduce(X, 2, mask=MASK)


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_all_elements_of_a_sparse_input_and_none(layout):
    """Nothing was 0 for each reduction, and a maximum or product of nothing too."""
    x = SPARSE.to_sparse(layout=getattr(rl, layout))
    nothing = rl.zeros(3, 3, dtype=rl.bool)
    expected = {"sum": 0, "prod": 1, "amax": -math.inf, "amin": math.inf}
    for name, value in expected.items():
        for mask, wanted in ((nothing, value), (KEPT, getattr(masked, name)(SPARSE, mask=KEPT))):
            found = getattr(masked, name)(x, (0, 1), keepdim=True, mask=mask)
            assert found.layout is x.layout and found.to_dense().item() == wanted
            assert found._nnz() == (wanted != 0)
    ints = masked.amin(x.to(rl.int32), keepdim=True, mask=nothing).to_dense()
    assert ints.item() == 2**31 - 1
