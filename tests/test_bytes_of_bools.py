"""Bool tensors in memory that others write, where any byte but 0 is true.

Every row that takes them gives what it gives for the bytes 0 and 1.
"""

import numpy as np
import pytest
from table import PUBLIC, as_numpy, case, listed, texts_of

import rushlight as rl

pytestmark = [pytest.mark.kernels, pytest.mark.filterwarnings("ignore")]

BYTES = np.array([1, 2, 255, 128, 3, 254], dtype=np.uint8)
UNDEFINED = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "resize_",
             "empty_permuted", "data_ptr"}  # fmt: skip
ROWS = [op for op in PUBLIC if op.full_name not in UNDEFINED and texts_of(op)]


def bytes_of(values, odd):
    """Odd bytes for the true ones of `values`, or 1."""
    values = np.asarray(values).astype(bool)
    return np.where(values, np.resize(BYTES, values.shape) if odd else 1, 0).astype(np.uint8)


def contiguous(values, odd=True):
    return rl.from_numpy(bytes_of(values, odd)).view(rl.bool)


def strided(values, odd=True):
    """The same in every second byte."""
    plain = bytes_of(values, odd)
    wide = np.full((*plain.shape, 2), 77 if odd else 1, np.uint8)
    wide[..., 0] = plain
    return rl.from_numpy(wide).view(rl.bool)[..., 0]


def transposed(values, odd=True):
    turned = contiguous(np.ascontiguousarray(np.asarray(values).T), odd)
    return turned.permute(tuple(reversed(range(np.ndim(values)))))


def normal(result):
    if not isinstance(result, rl.Tensor):
        return result
    if result.dtype == rl.bool:
        return as_numpy(result.contiguous().view(rl.uint8)) != 0
    return as_numpy(result)


def results(op, number, dtype, shape, layout, odd):
    call = case(op, number, dtype, shape)

    def convert(array):
        return layout(array.values, odd) if array.dtype == "bool" else array.tensor(rl)

    try:
        return [normal(result) for result in listed(call.run(rl, convert))]
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("layout", [contiguous, strided, transposed])
@pytest.mark.parametrize("op", ROWS, ids=lambda op: op.full_name)
def test_any_byte_but_zero_is_true(op, layout):
    shapes = (None, (3, 1500)) if op.row.kind == "elementwise" else (None,)
    for number in range(len(texts_of(op))):
        for dtype in ("bool", None):
            for shape in shapes:
                if not any(a.dtype == "bool" for a in case(op, number, dtype, shape).arrays()):
                    continue
                expected = results(op, number, dtype, shape, layout, False)
                found = results(op, number, dtype, shape, layout, True)
                if isinstance(expected, str):
                    assert found == expected
                    continue
                assert not isinstance(found, str), found
                for one, other in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("size", [5, 1000, 300_007])
def test_masks_of_odd_bytes_choose_what_they_should(size):
    truth = np.random.default_rng(0).integers(0, 2, size).astype(bool)
    values = np.arange(size, dtype=np.float32)
    for mask in (contiguous(truth), strided(truth)):
        x = rl.from_numpy(values.copy())
        assert mask.nonzero().shape == (truth.sum(), 1)
        assert mask.sum().item() == mask.count_nonzero().item() == truth.sum()
        np.testing.assert_array_equal(x[mask].numpy(), values[truth])
        np.testing.assert_array_equal(x.masked_select(mask).numpy(), values[truth])
        x.masked_scatter_(mask, rl.arange(float(size)) + 1)
        np.testing.assert_array_equal(x.numpy()[truth], np.arange(truth.sum()) + 1)
        np.testing.assert_array_equal(x.numpy()[~truth], values[~truth])
        x[mask] = -1.0
        assert (x.numpy() == -1).sum() == truth.sum()
        # along whole dims, whose tiles are loops of their own
        grid = mask[: size // 5 * 5].reshape(-1, 5)
        kept = truth[: size // 5 * 5].reshape(-1, 5)
        for dim in (0, 1):
            np.testing.assert_array_equal(grid.sum(dim).numpy(), kept.sum(dim))
            np.testing.assert_array_equal(normal(grid.any(dim)), kept.any(dim))
            np.testing.assert_array_equal(normal(grid.all(dim)), kept.all(dim))
            np.testing.assert_array_equal(grid.cumsum(dim).numpy(), kept.cumsum(dim))


def test_one_odd_byte_is_true_to_python():
    odd = rl.tensor([0, 2, 255], dtype=rl.uint8).view(rl.bool)
    assert odd.tolist() == [False, True, True]
    assert str(odd) == "tensor([False,  True,  True])"
    assert odd[1].item() is True and bool(odd[2]) and not bool(odd[0])
    assert rl.equal(odd, rl.tensor([False, True, True]))
    assert odd.unique().tolist() == [False, True]
    assert odd.sort().indices.tolist() == [0, 1, 2]
    assert odd.to(rl.uint8).tolist() == [0, 1, 1] and odd.float().tolist() == [0.0, 1.0, 1.0]
    assert (odd == True).tolist() == [False, True, True]  # noqa: E712
    assert rl.zeros(3)[odd[0]].shape == (0, 3) and rl.zeros(3)[odd[1]].shape == (1, 3)
