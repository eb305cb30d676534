"""The operations of torchaudio's compiled libraries, beside loops over samples."""

import pytest

import rushlight as rl

pytestmark = pytest.mark.kernels


@pytest.fixture(scope="module")
def ops():
    rl.ops.load_library("/somewhere/torchaudio/lib/_torchaudio.abi3.so")
    rl.ops.load_library("/somewhere/torchaudio/lib/libtorchaudio.abi3.so")
    return rl.ops.torchaudio


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("length", [0, 1, 63, 64, 200])
def test_a_recursive_filter(ops, order, length):
    rl.manual_seed(0)
    x = rl.randn(2, 3, length, dtype=rl.float64)
    coefficients = rl.randn(3, order, dtype=rl.float64) * 0.3
    coefficients[:, 0] = 1
    flipped, y = coefficients.flip(1), rl.zeros(2, 3, length + order - 1, dtype=rl.float64)
    y[:, :, : order - 1] = rl.randn(2, 3, order - 1)
    expected, given = y.clone(), x.clone()
    for t in range(length):
        of_before = (expected[:, :, t : t + order] * flipped).sum(2)
        expected[:, :, t + order - 1] = x[:, :, t] - of_before
    assert ops._lfilter_core_loop(x, flipped, y) is None
    assert rl.allclose(y, expected, atol=1e-12) and rl.equal(x, given)


def test_overdrive(ops):
    rl.manual_seed(0)
    wave, driven = rl.randn(2, 150, dtype=rl.float64), rl.randn(2, 150, dtype=rl.float64)
    before, after = rl.randn(2, dtype=rl.float64), rl.randn(2, dtype=rl.float64)
    expected, out = rl.empty_like(wave), rl.empty_like(wave)
    ops._overdrive_core_loop(wave, driven, before, after, out)
    for t in range(150):
        after = driven[:, t] - before + 0.995 * after
        before = driven[:, t]
        expected[:, t] = wave[:, t] * 0.5 + after * 0.75
    assert rl.allclose(out, expected)


def test_what_is_not_there(ops):
    assert rl.ops._torchaudio.cuda_version() is None
    assert rl.ops._torchaudio.is_align_available() is False
    with pytest.raises(NotImplementedError, match="rnnt_loss"):
        ops.rnnt_loss_forward(rl.ones(1, 2, 2, 3), *[rl.ones(1)] * 3, 0, -1.0, True)
