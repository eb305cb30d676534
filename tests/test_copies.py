"""Copies of long runs at any offset, and conversions that go by blocks of numbers."""

import pytest

import rushlight

pytestmark = pytest.mark.kernels

INTEGERS = [rushlight.int32, rushlight.int16, rushlight.int8, rushlight.uint8]


@pytest.mark.parametrize("offset", [0, 1, 3, 8, 13, 63])
@pytest.mark.parametrize("count", [2047, 2048, 2049, 4084, 65536 + 5])
def test_runs_are_copied_to_any_offset(count, offset):
    source = (rushlight.arange(count + 7) % 251).to(rushlight.uint8)
    target = rushlight.full((count + 128,), 255, dtype=rushlight.uint8)
    target[offset : offset + count] = source[7:]
    assert target[offset : offset + count].tolist() == source[7:].tolist()
    assert (target[:offset] == 255).all() and (target[offset + count :] == 255).all()


def test_rows_of_a_page_are_rolled():
    x = rushlight.arange(5 * 1024).view(5, 1024).float()
    for shift in (1, 3, 17):
        moved = [row[-shift:] + row[:-shift] for row in x.tolist()]
        assert x.roll(shift, 1).tolist() == moved


@pytest.mark.parametrize("to", INTEGERS, ids=str)
@pytest.mark.parametrize("dtype", [rushlight.float32, rushlight.float64], ids=str)
def test_floats_become_integers_alike_in_blocks_and_one_by_one(dtype, to):
    ends = [2.0**31, -(2.0**31), 2.0**31 - 1, 2.0**31 - 128, 3e9, -3e9, 1e12, 2.0**62, 0.0, -0.0]
    values = [0.5 * i - 70 for i in range(300)]
    for place, value in enumerate(ends):
        values[64 + 20 * place] = value  # some blocks without, too
    x = rushlight.tensor(values, dtype=dtype)
    assert x.to(to).tolist() == [one.to(to).item() for one in x.unbind()]
