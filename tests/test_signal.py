"""Windows for spectra, beside those of SciPy."""

import numpy as np
import pytest
from scipy.signal import windows as reference

import rushlight
from rushlight.signal import windows

OPTIONS = {
    "bartlett": {}, "blackman": {}, "cosine": {}, "exponential": {"tau": 2.0},
    "gaussian": {"std": 3.0},
    "general_cosine": {"a": [0.5, 0.3, 0.2]}, "general_hamming": {"alpha": 0.6}, "hamming": {},
    "hann": {},
    "kaiser": {"beta": 9.0}, "nuttall": {},
}  # fmt: skip


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("length", [0, 1, 2, 7, 16])
def test_windows(name, sym, length):
    found = getattr(windows, name)(length, sym=sym, dtype=rushlight.float64, **OPTIONS[name])
    expected = getattr(reference, name)(length, sym=sym, **OPTIONS[name])
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-9)
    assert getattr(windows, name)(length, sym=sym, **OPTIONS[name]).dtype is rushlight.float32


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hann", "kaiser"])
def test_periodic_windows(name):
    function = getattr(rushlight, f"{name}_window")
    options = {"beta": 12.0} if name == "kaiser" else {}
    whole = getattr(reference, name)(9, **options)
    np.testing.assert_allclose(function(8, dtype=rushlight.float64).numpy(), whole[:8], atol=1e-7)
    np.testing.assert_allclose(
        function(9, False, dtype=rushlight.float64).numpy(), whole, atol=1e-7
    )
    assert function(4, requires_grad=True).requires_grad and function(4, device="meta").is_meta
    with pytest.raises(RuntimeError, match="non-negative"):
        function(-1)
    with pytest.raises(RuntimeError, match="floating point"):
        function(4, dtype=rushlight.int64)
