"""Fourier transforms of every length and layout, beside NumPy's."""

import functools

import numpy as np
import pytest

import rushlight as rl

pytestmark = pytest.mark.kernels

# Radices 2 to 127, powers of each; lengths that are cut into rows and columns; primes beyond 127.
SHORT = [*range(1, 70), 101, 121, 125, 127, 128, 131, 137, 144, 169, 226, 243, 254, 256, 262, 343,
         361, 394, 500, 512, 529, 841, 961]  # fmt: skip
LONG = [997, 1000, 1009, 1024, 2022, 2048, 4096, 5040, 8192, 10000, 16384]


def close(got, expected, single):
    expected = np.asarray(expected)
    assert got.shape == expected.shape
    bound = (2e-6 if single else 5e-15) * max(1.0, np.abs(expected).max(initial=0.0))
    np.testing.assert_allclose(got, expected, rtol=0, atol=bound)


def numbers(shape, dtype, seed=0):
    generator = np.random.default_rng(seed)
    return (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(dtype)


def check_all(x, n, axis, norm=None):
    """Every transform along an axis of n complex points, and of their real parts."""
    single = x.dtype == np.complex64
    half = np.take(x, range(n // 2 + 1), axis)
    for name, given, options in (
        ("fft", x, {}), ("ifft", x, {}), ("rfft", x.real, {}), ("ihfft", x.real, {}),
        ("irfft", half, {"n": n}), ("hfft", half, {"n": n}),
    ):  # fmt: skip
        wide = given.astype(np.complex128 if np.iscomplexobj(given) else np.float64)
        expected = getattr(np.fft, name)(wide, axis=axis, norm=norm, **options)
        got = getattr(rl.fft, name)(rl.from_numpy(given.copy()), dim=axis, norm=norm, **options)
        close(got.numpy(), expected, single)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("lines", [1, 3, 16, 37])
def test_short_lines(lines, dtype):
    for n in SHORT:
        check_all(numbers((lines, n), dtype), n, 1)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("n", LONG)
def test_long_lines(n, dtype):
    for lines in (1, 17):
        check_all(numbers((lines, n), dtype), n, 1)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("beside", [(2,), (3, 5), (16,), (20,), (2, 33)])
def test_lines_side_by_side(beside, dtype):
    for n in (1, 2, 7, 12, 32, 37, 60, 128, 131, 144, 500):
        check_all(numbers((2, n, *beside), dtype), n, 1)


def test_long_lines_side_by_side():
    x = numbers((8192, 16), np.complex64)
    close(rl.fft.fft(rl.from_numpy(x), dim=0).numpy(), np.fft.fft(x, axis=0), True)


@pytest.mark.parametrize("norm", ["forward", "backward", "ortho"])
def test_norms(norm):
    for n in (5, 6, 96, 131):
        check_all(numbers((4, n), np.complex128), n, -1, norm)


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_lengths_are_cut_and_filled(name):
    x = numbers((3, 12), np.complex128)
    x = x.real if name in ("rfft", "ihfft") else x
    for n in (1, 4, 11, 12, 13, 24, 25, 40):
        got = getattr(rl.fft, name)(rl.from_numpy(x.copy()), n)
        close(got.numpy(), getattr(np.fft, name)(x, n), False)


@pytest.mark.parametrize("dims", [(0,), (2, 0), (0, 1, 2), (1, 2), (-1, -2)])
def test_several_dims(dims):
    x = numbers((6, 10, 9), np.complex128)
    for name in ("fftn", "ifftn"):
        got = getattr(rl.fft, name)(rl.from_numpy(x), dim=dims)
        close(got.numpy(), getattr(np.fft, name)(x, axes=dims), False)
    spectrum = rl.fft.rfftn(rl.from_numpy(x.real.copy()), dim=dims)
    close(spectrum.numpy(), np.fft.rfftn(x.real, axes=dims), False)
    sizes = [x.shape[d] for d in dims]
    back = rl.fft.irfftn(spectrum, s=sizes, dim=dims)
    close(back.numpy(), x.real, False)


def test_layouts():
    x = numbers((6, 4, 8), np.complex64)
    t = rl.from_numpy(x)
    close(rl.fft.fft(t.transpose(0, 2)).numpy(), np.fft.fft(x.transpose(2, 1, 0)), True)
    close(rl.fft.fft(t[:, ::2, 1::3], dim=0).numpy(), np.fft.fft(x[:, ::2, 1::3], axis=0), True)
    close(rl.fft.rfft(t.real, dim=1).numpy(), np.fft.rfft(x.real, axis=1), True)
    close(rl.fft.fft(t[:1, 0].expand(5, 8)).numpy(), np.fft.fft(x[:1, 0].repeat(5, 0)), True)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0, 4)])
def test_no_lines(shape):
    assert rl.fft.fft(rl.zeros(shape)).shape == shape
    assert rl.fft.rfft(rl.zeros(shape)).shape == (*shape[:-1], 3)
    assert rl.fft.irfft(rl.zeros(shape), 5).shape == (*shape[:-1], 5)


def test_special_values_stay_in_their_line():
    x = numbers((20, 96), np.complex64)
    x[3, 5], x[7, 0] = np.nan, np.inf
    got = rl.fft.fft(rl.from_numpy(x)).numpy()
    whole = [i for i in range(20) if i not in (3, 7)]
    close(got[whole], np.fft.fft(x[whole]), True)
    assert np.isnan(got[3]).all() and not np.isfinite(got[7]).any()


@pytest.mark.parametrize("n", [6, 7, 32, 37])
def test_gradients_of_spectra(n):
    x = rl.randn(2, n, dtype=rl.float64, requires_grad=True)
    assert rl.autograd.gradcheck(rl.fft.rfft, x)
    assert rl.autograd.gradgradcheck(lambda x: rl.fft.rfft(x, dim=0) ** 2, x)
    y = rl.randn(2, n // 2 + 1, dtype=rl.complex128, requires_grad=True)
    assert rl.autograd.gradcheck(lambda y: rl.fft.irfft(y, n), y)
    assert rl.autograd.gradgradcheck(lambda y: rl.fft.hfft(y, n) ** 2, y)


def test_mapped_over_examples():
    x = rl.randn(5, 3, 8)
    for dim in (0, 1, -1):
        for f in (rl.fft.fft, rl.fft.rfft, rl.fft.irfft):
            found = rl.func.vmap(functools.partial(f, dim=dim))(x)
            rl.testing.assert_close(found, f(x, dim=dim % 2 + 1))


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: rl.fft.rfft(rl.ones(3, dtype=rl.complex64)), RuntimeError, "real input"),
        (lambda: rl.fft.fft(rl.ones(3), 0), RuntimeError, "Invalid number of data points"),
        (lambda: rl.fft.irfft(rl.ones(1)), RuntimeError, "Invalid number of data points"),
        (lambda: rl.fft.fft(rl.ones(3), dim=1), IndexError, "out of range"),
        (lambda: rl.fft.fft(rl.ones(3), norm="other"), RuntimeError, "normalization mode"),
        (lambda: rl.fft.fft(rl.ones(3).half()), RuntimeError, "Unsupported dtype"),
    ],
)
def test_bad_calls(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_errors_say_what_is_wrong():
    with pytest.raises(IndexError, match="specified as 0 but tensor has no dimensions"):
        rl.fft.fft(rl.tensor(1.0), dim=0)
    with pytest.raises(RuntimeError, match="rfft expects a real input tensor"):
        rl.fft.rfft(rl.ones(2, dtype=rl.complex64))
