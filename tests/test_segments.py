"""segment_reduce: against NumPy's reductions of each part."""

import numpy as np
import pytest

import rushlight
from rushlight.autograd import gradcheck

pytestmark = pytest.mark.kernels

NUMPY = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "max": np.max, "min": np.min}
EMPTY = {"sum": 0, "mean": np.nan, "prod": 1, "max": -np.inf, "min": np.inf}
LENGTHS = {
    0: [1, 0, 2],
    1: [[1, 3, 0], [2, 2, 0], [0, 4, 0]],
}


def expected(data, reduce, lengths, initial):
    """Row after row, part after part."""
    if lengths.ndim > 1:
        rows = [expected(d, reduce, n, initial) for d, n in zip(data, lengths, strict=True)]
        return np.stack(rows)
    parts = []
    for part in np.split(data, np.cumsum(lengths)[:-1]):
        if reduce == "mean" and initial is not None:
            parts.append((initial + part.sum(0)) / max(len(part), 1))
        elif initial is not None:
            start = np.full((1, *part.shape[1:]), initial)
            parts.append(NUMPY[reduce](np.concatenate([start, part]), 0))
        else:
            empty = np.full(part.shape[1:], EMPTY[reduce])
            parts.append(NUMPY[reduce](part, 0) if len(part) else empty)
    return np.stack(parts)


@pytest.mark.parametrize("initial", [None, 2.0])
@pytest.mark.parametrize("axis", LENGTHS)
@pytest.mark.parametrize("reduce", NUMPY)
def test_parts_are_reduced_each_for_itself(reduce, axis, initial):
    data = rushlight.randn(3, 4, 5, dtype=rushlight.float64)
    lengths = rushlight.tensor(LENGTHS[axis])
    out = rushlight.segment_reduce(data, reduce, lengths=lengths, axis=axis, initial=initial)
    right = expected(data.numpy(), reduce, lengths.numpy(), initial)
    assert np.allclose(out.numpy(), right, equal_nan=True)
    offsets = rushlight.cat([rushlight.zeros_like(lengths[..., :1]), lengths.cumsum(-1)], -1)
    again = rushlight.segment_reduce(data, reduce, offsets=offsets, axis=axis, initial=initial)
    assert np.array_equal(out.numpy(), again.numpy(), equal_nan=True)


@pytest.mark.parametrize("reduce", NUMPY)
def test_gradients(reduce):
    data = rushlight.randn(5, 2, dtype=rushlight.float64, requires_grad=True)
    lengths = rushlight.tensor([2, 3], dtype=rushlight.int32)
    assert gradcheck(lambda x: rushlight.segment_reduce(x, reduce, lengths=lengths), data)


def test_what_does_not_fit_is_refused():
    data, lengths = rushlight.ones(3), rushlight.tensor([1, 2])
    for bad in ([4, -1], [1, 1], [[1, 2]]):
        with pytest.raises(RuntimeError, match="lengths"):
            rushlight.segment_reduce(data, "sum", lengths=rushlight.tensor(bad))
    with pytest.raises(RuntimeError, match="unsupported reduction"):
        rushlight.segment_reduce(data, "median", lengths=lengths)
    with pytest.raises(RuntimeError, match="lengths or offsets"):
        rushlight.segment_reduce(data, "sum")
    with pytest.raises(RuntimeError, match="begin with 0"):
        rushlight.segment_reduce(data, "sum", offsets=rushlight.tensor([1, 3]))
    with pytest.raises(IndexError, match="out of range"):
        rushlight.segment_reduce(data, "sum", lengths=lengths, axis=1)
    with pytest.raises(NotImplementedError, match="int64"):
        rushlight.segment_reduce(rushlight.arange(3), "sum", lengths=lengths)
    assert rushlight.segment_reduce(data[:0], "sum", lengths=lengths[:0]).shape == (0,)


def test_elements_of_no_segment():
    data = rushlight.arange(10.0)
    by_lengths = rushlight.segment_reduce(
        data, "sum", lengths=rushlight.tensor([3, 2, 4]), unsafe=True
    )
    assert by_lengths.tolist() == [3, 7, 26]
    by_offsets = rushlight.segment_reduce(
        data, "max", offsets=rushlight.tensor([1, 3, 9]), unsafe=True
    )
    assert by_offsets.tolist() == [2, 8]
    rows = rushlight.arange(6.0).reshape(2, 3)
    lengths = rushlight.tensor([[1, 1], [2, 0]])
    by_row = rushlight.segment_reduce(rows, "sum", lengths=lengths, axis=1, unsafe=True)
    assert by_row.tolist() == [[0, 1], [7, 0]]


def test_gradients_where_there_are_nans():
    nan = float("nan")

    def gradient(values, reduce, **kwargs):
        x = rushlight.tensor([float(v) for v in values], requires_grad=True)
        rushlight.segment_reduce(x, reduce, **kwargs).sum().backward()
        return x.grad.tolist()

    two = {"lengths": rushlight.tensor([2, 2])}
    for reduce in ("min", "max"):
        assert gradient([nan, 2, 3, 3], reduce, **two) == [1, 0, 0.5, 0.5]
        assert gradient([nan, nan, 3, 3], reduce, **two) == [0.5, 0.5, 0.5, 0.5]
        assert gradient([3, 3, 3, 3], reduce, initial=3, **two) == [0.5, 0.5, 0.5, 0.5]
    found = gradient([nan, 2, 3, 0], "prod", **two)
    assert found[0] == 2 and found[1] != found[1] and found[2:] == [0, 3]
    assert gradient([nan, 2], "prod", initial=5, lengths=rushlight.tensor([1, 1])) == [5, 5]


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("width", [1, 2, 5, 16, 33, 70, 200])
def test_bags_of_embeddings_of_every_width(width, dtype, mode):
    table = rushlight.randn(40, width).to(getattr(rushlight, dtype))
    places = rushlight.arange(301) * 7 % 40
    starts = rushlight.tensor([0, 0, 3, 50, 50, 300, 301])
    scale = rushlight.rand(301).to(table.dtype) if mode == "sum" else None
    bag = rushlight.nn.functional.embedding_bag
    result = bag(places, table, starts, mode=mode, per_sample_weights=scale)
    ends = [*starts.tolist()[1:], 301]
    for b, (begin, end) in enumerate(zip(starts.tolist(), ends)):
        chosen = table.double()[places[begin:end]]
        if scale is not None:
            chosen = chosen * scale[begin:end, None].double()
        expected = chosen.sum(0) / (max(1, end - begin) if mode == "mean" else 1)
        tolerance = 2e-2 if dtype == "bfloat16" else 1e-4
        assert (result[b].double() - expected).abs().max() <= tolerance * (1 + expected.abs().max())
    for outside in (40, -1):
        places[77] = outside
        with pytest.raises(RuntimeError, match=f"index {outside} is out of bounds"):
            bag(places, table, starts, mode=mode, per_sample_weights=scale)
