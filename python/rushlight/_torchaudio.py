"""The operations of torchaudio's compiled libraries, which are linked with PyTorch's own.
`torch.ops.load_library` defines them where torchaudio loads those: recursive filters; the losses of
transducers and forced alignment refuse.
"""

from __future__ import annotations

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

_BLOCK = 64  # samples that one product gives


def _lfilter_core_loop(
    input_signal_windows: Tensor, a_coeffs_flipped: Tensor, padded_output_waveform: Tensor
) -> None:
    """y[t] = x[t] - a[1] y[t - 1] - ... - a[n - 1] y[t - n + 1], for each channel: the outputs of a
    block are a product of its inputs, by the filter's response to an impulse, less one of those
    before it.

    Args:
        input_signal_windows: x, of shape (N, C, T).
        a_coeffs_flipped: of shape (C, n), the last one first; a[0] is 1.
        padded_output_waveform: y, behind n - 1 earlier outputs: (N, C, T + n - 1). Written.
    """
    x, order = input_signal_windows, a_coeffs_flipped.size(1)
    length, before = x.size(2), order - 1
    block = max(min(_BLOCK, length), 1)
    coefficients = a_coeffs_flipped.flip(1)
    step = rushlight.arange(block, device=x.device)
    behind = step[:, None] - step  # how many samples an output of the block lies behind another
    square = coefficients[:, behind.clamp(0, before)] * ((behind >= 0) & (behind <= before))
    square.diagonal(dim1=1, dim2=2).fill_(1)
    earlier = step[:, None] + before - rushlight.arange(before, device=x.device)
    of_earlier = coefficients[:, earlier.clamp(0, before)] * (earlier <= before)
    whole = rushlight.eye(block, dtype=x.dtype, device=x.device).expand_as(square)
    response = rushlight.linalg.solve_triangular(square, whole, upper=False)
    of_earlier = response @ of_earlier
    for begin in range(0, length, block):
        count = min(block, length - begin)
        known = padded_output_waveform[:, :, begin : begin + before, None]
        given = x[:, :, begin : begin + count, None]
        y = response[:, :count, :count] @ given - of_earlier[:, :count] @ known
        padded_output_waveform[:, :, begin + before : begin + before + count] = y[..., 0]


def _overdrive_core_loop(
    waveform: Tensor, temp: Tensor, last_in: Tensor, last_out: Tensor, output_waveform: Tensor
) -> None:
    """Half of the waveform, and of `temp` what a filter leaves that takes constants away.

    Args:
        waveform, temp: of shape (C, T).
        last_in, last_out: the filter's input and output before the first sample, of shape (C).
        output_waveform: of shape (C, T). Written.
    """
    changes = rushlight.diff(temp, prepend=last_in[:, None])[None]
    coefficients = temp.new_tensor([[-0.995, 1.0]]).expand(temp.size(0), 2)
    filtered = rushlight.cat([last_out[None, :, None], changes], 2)
    _lfilter_core_loop(changes, coefficients, filtered)
    output_waveform.copy_(waveform * 0.5 + filtered[0, :, 1:] * 0.75)


OPERATIONS: dict[str, dict[str, Any]] = {
    "torchaudio": {
        "_lfilter_core_loop(Tensor input_signal_windows, Tensor a_coeffs_flipped, "
        "Tensor(a!) padded_output_waveform) -> ()": _lfilter_core_loop,
        "_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor last_in, Tensor last_out, "
        "Tensor(a!) output_waveform) -> ()": _overdrive_core_loop,
        "rnnt_loss_forward(Tensor logits, Tensor targets, Tensor logit_lengths, "
        "Tensor target_lengths, int blank, float clamp, bool fused_log_softmax) -> "
        "(Tensor, Tensor)": None,
    },
    "_torchaudio": {
        "cuda_version() -> int?": lambda: None,
        "is_align_available() -> bool": lambda: False,
    },
}
GRADIENTS: dict[str, Any] = {}
