"""The programs of tests/listings.py give what they give in torch, from the same seed."""

import numbers

import numpy as np
import pytest
from listings import OF_2017, PROGRAMS

import rushlight

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def results(name, library):
    library.manual_seed(0)
    return [
        value.numpy() if isinstance(value, library.Tensor) else value
        for value in PROGRAMS[name](library)
    ]


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - OF_2017))
def test_programs(name):
    found, expected = results(name, rushlight), results(name, torch)
    assert len(found) == len(expected)
    for mine, other in zip(found, expected):
        if isinstance(other, (np.ndarray, numbers.Real)) and not isinstance(other, bool):
            np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-6)
        else:
            assert mine == other


@pytest.mark.parametrize("name", sorted(OF_2017))
def test_torch_has_dropped_these(name):
    with pytest.raises((AttributeError, TypeError, AssertionError)):
        results(name, torch)
