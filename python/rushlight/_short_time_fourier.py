"""The short-time Fourier transform and its inverse."""

from __future__ import annotations

import rushlight
from rushlight._autocast import autocasts
from rushlight._ignored import warn_program
from rushlight.nn import functional as F

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor


@autocasts("float32")
def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:  # fmt: skip
    """Fourier transforms of short, overlapping stretches of a signal.

    Args:
        input: signal of shape (L) or (B, L).
        n_fft: length of a transform.
        hop_length: from the start of a stretch to the start of the next; n_fft // 4 by default.
        win_length: length of the window, n_fft by default; zeros fill what is left on both sides.
        window: factors of shape (win_length); ones by default.
        center: stretches lie around multiples of hop_length: the signal is padded by n_fft // 2.
        pad_mode: how it is padded, as for `nn.functional.pad`.
        normalized: divide by the root of n_fft.
        onesided: only the n_fft // 2 + 1 frequencies that are not negative; by default where signal
            and window are real.
        return_complex: a complex result; if not, real and imaginary parts in a last dim of size 2.
        align_to_window: without `center`, the window (not the transform) begins with the signal.

    Shape:
        (frequencies, stretches) or (B, frequencies, stretches).

    Raises:
        RuntimeError: for lengths that do not fit; for real input without return_complex.

    Example::

        >>> signal, window = rushlight.arange(16.0).sin(), rushlight.hann_window(8)
        >>> rushlight.stft(signal, 8, window=window, return_complex=True).shape
        torch.Size([5, 9])
    """
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    is_complex = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not is_complex:
            raise RuntimeError(
                "stft requires the return_complex parameter for real inputs: True gives complex "
                "numbers, False (deprecated) pairs of real ones"
            )
        return_complex = True
    if not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError(
            f"stft: expected a tensor of floating point or complex values, got {input.dtype}"
        )
    if input.dim() not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, got shape {tuple(input.shape)}")
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false")
    signal = input if input.dim() == 2 else input.unsqueeze(0)
    if center:
        signal = F.pad(signal.unsqueeze(1), (n_fft // 2, n_fft // 2), pad_mode).squeeze(1)
    elif align_to_window and 0 < win_length <= n_fft:
        before = (n_fft - win_length) // 2
        signal = F.pad(signal, (before, n_fft - win_length - before))
    length = signal.shape[-1]
    if not 0 < n_fft <= length:
        raise RuntimeError(
            f"stft: expected 0 < n_fft <= {length} (the signal's length), got n_fft={n_fft}"
        )
    if hop_length <= 0:
        raise RuntimeError(f"stft: expected hop_length > 0, but got hop_length={hop_length}")
    _warn_without_window("stft", window)
    _check_window("stft", window, win_length, n_fft)
    if onesided is None:
        onesided = not is_complex
    elif onesided and is_complex:
        raise RuntimeError("stft: Cannot have onesided output if window or input is complex")
    stretches = signal.unfold(-1, n_fft, hop_length)
    if window is not None or win_length < n_fft:
        stretches = stretches * _padded_window(window, win_length, n_fft, input)
    transform = rushlight.fft.rfft if onesided else rushlight.fft.fft
    spectrum = transform(stretches, norm="ortho" if normalized else "backward").transpose(1, 2)
    if input.dim() == 1:
        spectrum = spectrum.squeeze(0)
    return rushlight._C._without_base(
        spectrum if return_complex else rushlight.view_as_real(spectrum)
    )


@autocasts("float32")
def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """The signal of least squared error to a short-time Fourier transform.

    Args:
        input: what `stft` gives, complex, of shape (frequencies, stretches) or (B, ...).
        length: of the signal; by default that of the stretches, without what `center` had added.
        return_complex: a complex signal; not from onesided spectra.
        n_fft, hop_length, win_length, window, center, normalized, onesided: as `stft` had them.

    Raises:
        RuntimeError: for lengths that do not fit; where the windows overlap to zero.

    Griffin and Lim, "Signal estimation from modified short-time Fourier transform", 1984.

    Example::

        >>> signal, window = rushlight.arange(16.0).sin(), rushlight.hann_window(8)
        >>> spectrum = rushlight.stft(signal, 8, window=window, return_complex=True)
        >>> bool((rushlight.istft(spectrum, 8, window=window) - signal).abs().max() < 1e-5)
        True
    """
    hop_length = n_fft // 4 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor, as stft(..., return_complex=True) "
            "returns it"
        )
    if input.numel() == 0:
        raise RuntimeError(f"istft: input tensor cannot be empty, got shape {tuple(input.shape)}")
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"istft: expected a tensor with 2 or 3 dimensions, got shape {tuple(input.shape)}"
        )
    frequencies, count = input.shape[-2:]
    if onesided is None:
        onesided = frequencies != n_fft
    expected = n_fft // 2 + 1 if onesided else n_fft
    if frequencies != expected:
        raise RuntimeError(
            "istft: expected the frequency dimension (3rd to the last) of the input tensor to "
            "match "
            f"n_fft={n_fft} with onesided={onesided}: {expected}, but got {frequencies}"
        )
    if not 0 < hop_length <= win_length:
        raise RuntimeError(
            f"istft: expected 0 < hop_length <= win_length, got {hop_length} and {win_length}"
        )
    _warn_without_window("istft", window)
    _check_window("istft", window, win_length, n_fft)
    if return_complex and onesided:
        raise RuntimeError("istft: cannot have onesided input if output is complex")
    if not return_complex and window is not None and window.is_complex():
        raise RuntimeError("istft: complex windows are incompatible with return_complex=False")
    spectra = (input if input.dim() == 3 else input.unsqueeze(0)).transpose(1, 2)
    norm = "ortho" if normalized else "backward"
    if return_complex:
        stretches = rushlight.fft.ifft(spectra, norm=norm)
    else:
        stretches = rushlight.fft.irfft(spectra[..., : n_fft // 2 + 1], n=n_fft, norm=norm)
    factors = _padded_window(window, win_length, n_fft, stretches)
    full = n_fft + hop_length * (count - 1)
    signal = _overlap_add(stretches * factors, full, hop_length)
    weight = _overlap_add((factors * factors).expand(1, count, n_fft), full, hop_length)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else full - n_fft // 2 if center else full
    signal, weight = signal[:, start:end], weight[:, start:end]
    if weight.numel() and not bool(weight.abs().min() > 1e-11):
        raise RuntimeError(
            "istft: window overlap add min: the windows overlap to zero, so the signal is not "
            "determined"
        )
    signal = signal / weight
    if end > full:
        warn_program(
            "The length of signal is shorter than the length parameter. istft adds zeros: check "
            "center and hop_length"
        )
        signal = F.pad(signal, (0, end - full))
    return signal if input.dim() == 3 else signal.squeeze(0)


def _warn_without_window(name, window):
    if window is None:
        warn_program(
            f"A window was not provided: {name} weighs all samples alike, which leaks spectrally;"
            " give window=torch.hann_window(win_length), or torch.ones(win_length)"
        )


def _check_window(op, window, win_length, n_fft):
    if not 0 < win_length <= n_fft:
        raise RuntimeError(
            f"{op}: expected 0 < win_length <= n_fft, but got win_length={win_length}, "
            f"n_fft={n_fft}"
        )
    if window is not None and tuple(window.shape) != (win_length,):
        raise RuntimeError(
            f"{op}: expected a 1D window tensor of size equal to win_length={win_length}, but got "
            f"window with size {tuple(window.shape)}"
        )


def _padded_window(window, win_length, n_fft, like):
    if window is None:
        window = rushlight.ones(
            win_length,
            dtype=like.abs().dtype if like.is_complex() else like.dtype,
            device=like.device,
        )
    before = (n_fft - win_length) // 2
    return F.pad(window, (before, n_fft - win_length - before))


def _overlap_add(stretches, length, hop):
    """The signal (B, length) that stretches (B, count, n) give when each is added in its place."""
    if stretches.is_complex():
        real, imag = (_overlap_add(part, length, hop) for part in (stretches.real, stretches.imag))
        return rushlight.complex(real, imag)
    columns = stretches.transpose(1, 2)
    return F.fold(columns, (1, length), (1, stretches.shape[-1]), stride=(1, hop)).flatten(1)


rushlight.overrides._make_overridable(globals(), "rushlight", core=("istft",))
