"""stft and istft: against NumPy's transforms of each stretch, against torch, and there and back."""

import numpy as np
import pytest

import rushlight as rl

pytestmark = [
    pytest.mark.kernels,
    pytest.mark.filterwarnings("ignore:A window was not provided:UserWarning"),
]

SIGNAL = rl.arange(61, dtype=rl.float64).mul(0.7).sin() + 0.25
WINDOW = rl.arange(1, 9, dtype=rl.float64).mul(np.pi / 9).sin()


def test_each_column_is_the_transform_of_a_stretch():
    got = rl.stft(SIGNAL, 16, 4, 8, WINDOW, center=False, return_complex=True).numpy()
    window = np.pad(WINDOW.numpy(), 4)
    stretches = [SIGNAL.numpy()[at : at + 16] * window for at in range(0, 61 - 15, 4)]
    np.testing.assert_allclose(got, np.stack([np.fft.rfft(s) for s in stretches], 1), atol=1e-12)


def test_center_pads_the_signal():
    padded = rl.nn.functional.pad(SIGNAL[None], (8, 8), "reflect")[0]
    centred = rl.stft(SIGNAL, 16, return_complex=True)
    assert rl.equal(centred, rl.stft(padded, 16, center=False, return_complex=True))


def test_align_to_window_begins_with_the_signal():
    got = rl.stft(SIGNAL, 16, 4, 8, WINDOW, center=False, align_to_window=True, return_complex=True)
    assert got.shape == (9, 1 + (61 - 8) // 4)
    size = rl.fft.rfft(SIGNAL[:8] * WINDOW, n=16).abs()
    assert rl.allclose(got[:, 0].abs(), size)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("onesided", [False, True])
@pytest.mark.parametrize("window", [None, WINDOW])
def test_there_and_back(normalized, onesided, window):
    batch = rl.stack([SIGNAL, SIGNAL.flip(0)])
    options = {
        "hop_length": 2,
        "win_length": 8,
        "window": window,
        "normalized": normalized,
        "onesided": onesided,
    }
    spectrum = rl.stft(batch, 16, return_complex=True, **options)
    assert spectrum.shape == (2, 9 if onesided else 16, 31)
    back = rl.istft(spectrum, 16, length=61, **options)
    assert rl.allclose(back, batch, atol=1e-12)


def test_complex_signals():
    signal = rl.complex(SIGNAL, SIGNAL.flip(0))
    back = rl.istft(rl.stft(signal, 16), 16, return_complex=True, length=61)
    assert rl.allclose(back, signal, atol=1e-12)


def test_real_and_imaginary_parts():
    parts = rl.stft(SIGNAL, 16, return_complex=False)
    assert rl.equal(rl.view_as_complex(parts), SIGNAL.stft(16, return_complex=True))


def test_gradients():
    signal = SIGNAL[:20].clone().requires_grad_()
    window = WINDOW.clone().requires_grad_()

    def through(signal, window):
        spectrum = rl.stft(signal, 8, 2, window=window, return_complex=True)
        return rl.view_as_real(spectrum), rl.istft(spectrum * 2, 8, 2, window=window)

    assert rl.autograd.gradcheck(through, (signal, window))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_fft": 8}, "return_complex"),
        ({"n_fft": 70, "center": False, "return_complex": True}, "n_fft"),
        (
            {"n_fft": 0, "center": False, "return_complex": True, "hop_length": 1, "win_length": 1},
            "n_fft",
        ),
        ({"n_fft": 8, "hop_length": 0, "return_complex": True}, "hop_length"),
        ({"n_fft": 8, "win_length": 9, "return_complex": True}, "win_length"),
        ({"n_fft": 9, "window": WINDOW, "return_complex": True}, "window"),
        ({"n_fft": 8, "align_to_window": True, "return_complex": True}, "align_to_window"),
    ],
)
def test_stft_refuses(options, message):
    with pytest.raises(RuntimeError, match=message):
        rl.stft(SIGNAL, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_fft": 20}, "frequency"),
        ({"n_fft": 16, "hop_length": 0}, "hop_length"),
        ({"n_fft": 16, "hop_length": 9, "win_length": 8}, "hop_length"),
        ({"n_fft": 16, "window": WINDOW}, "window"),
        ({"n_fft": 16, "return_complex": True}, "onesided"),
        ({"n_fft": 16, "window": rl.zeros(16)}, "overlap"),
    ],
)
def test_istft_refuses(options, message):
    spectrum = rl.stft(SIGNAL, 16, return_complex=True)
    with pytest.raises(RuntimeError, match=message):
        rl.istft(spectrum, **options)
    with pytest.raises(RuntimeError, match="complex-valued"):
        rl.istft(spectrum.abs(), 16)


@pytest.mark.torch
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("win_length", [16, 11])
@pytest.mark.filterwarnings("ignore")
def test_like_torch(center, win_length):
    torch = pytest.importorskip("torch")
    for options in (
        {"hop_length": 3, "center": center, "win_length": win_length, "normalized": True},
        {"center": center, "onesided": False, "win_length": win_length},
    ):
        both = []
        for library in (torch, rl):
            signal = library.tensor(SIGNAL.tolist(), dtype=library.float64)
            window = library.linspace(0.5, 1.5, win_length, dtype=library.float64)
            spectrum = library.stft(signal, 16, window=window, return_complex=True, **options)
            both.append([spectrum.numpy()])
            if center:  # else the first elements are under no window
                back = library.istft(spectrum, 16, window=window, length=60, **options)
                both[-1].append(back.numpy())
        for expected, got in zip(*both):
            np.testing.assert_allclose(got, expected, atol=1e-12)


def test_a_window_that_is_not_given_is_warned_of():
    with pytest.warns(UserWarning, match="A window was not provided: stft"):
        spectrum = rl.stft(SIGNAL, 16, return_complex=True)
    with pytest.warns(UserWarning, match="A window was not provided: istft"):
        rl.istft(spectrum, 16)
    assert rl.equal(spectrum, rl.stft(SIGNAL, 16, window=rl.ones(16).double(), return_complex=True))
