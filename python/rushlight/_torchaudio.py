"""The operations of torchaudio's compiled libraries, which are linked with PyTorch's own.
`torch.ops.load_library` defines them where torchaudio loads those: recursive filters, the loss of
transducers, and the forced alignment of CTC.
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


def _rnnt_costs(
    logits: Tensor, targets: Tensor, lengths: Tensor, target_lengths: Tensor, blank: int
) -> Tensor:
    """-log of the probability that a transducer gives the targets, summed over alignments, from
    log-probabilities: each time, what came is passed on by the blank, and then along the targets.
    """
    blanks = logits[..., blank]
    index = targets.long().clamp(min=0)[:, None, :, None].expand(-1, logits.size(1), -1, -1)
    labels = logits[:, :, :-1].gather(3, index).squeeze(3)
    along = rushlight.nn.functional.pad(labels.cumsum(2), (1, 0))
    ways = [along[:, 0]]
    for t in range(1, logits.size(1)):
        passed_on = ways[-1] + blanks[:, t - 1]
        ways.append(along[:, t] + (passed_on - along[:, t]).logcumsumexp(1))
    each = rushlight.arange(logits.size(0), device=logits.device)
    ends = (each, lengths.long() - 1, target_lengths.long())
    return -(rushlight.stack(ways, 1) + blanks)[ends]


def _rnnt_loss_forward(
    logits: Tensor,
    targets: Tensor,
    logit_lengths: Tensor,
    target_lengths: Tensor,
    blank: int,
    clamp: float,
    fused_log_softmax: bool,
) -> tuple[Tensor, Tensor]:
    """The loss of each sequence, and its gradient (Graves 2012).

    Args:
        logits: of shape (N, T, U + 1, classes).
        targets: of shape (N, U).
        logit_lengths, target_lengths: of shape (N).
        blank: its class; -1 is the last.
        clamp: bound of each element of the gradient, if it is positive.
        fused_log_softmax: False if the logits are log-probabilities.
    """
    if logits.dim() != 4 or targets.dim() != 2:
        raise RuntimeError(
            "rnnt_loss: expected logits of 4 dims and targets of 2, got shapes "
            f"{tuple(logits.shape)} and {tuple(targets.shape)}"
        )
    longest = (int(logit_lengths.max()), int(target_lengths.max()) + 1)
    if longest != tuple(logits.shape[1:3]) or targets.size(1) + 1 < longest[1]:
        raise RuntimeError(
            f"rnnt_loss: input length mismatch: the longest sequences need logits of {longest} "
            f"steps and targets, got shape {tuple(logits.shape)}"
        )
    targets = targets[:, : logits.size(2) - 1]
    with rushlight.enable_grad():
        given = logits.detach().requires_grad_()
        scores = given.float() if given.dtype == rushlight.float16 else given
        if fused_log_softmax:
            scores = scores.log_softmax(3)
        costs = _rnnt_costs(scores, targets, logit_lengths, target_lengths, blank)
        (grad,) = rushlight.autograd.grad(costs.sum(), given)
    if clamp > 0:
        grad = grad.clamp(-clamp, clamp)
    return costs.detach().to(logits.dtype), grad


def _forced_align(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """The likeliest path of CTC through the targets, as the label of each step, and `log_probs`.

    Args:
        log_probs: of shape (1, T, classes).
        targets: of shape (1, L).
        input_lengths, target_lengths: of shape (1): T and L.
        blank: its class.
    """
    if log_probs.size(0) != 1 or targets.size(0) != 1:
        raise RuntimeError(
            f"forced_align: only batches of 1 are supported, got {log_probs.size(0)}"
        )
    steps, labels = log_probs.size(1), targets[0].long()
    repeats = int((labels[1:] == labels[:-1]).sum())
    if steps < len(labels) + repeats:
        raise RuntimeError(
            f"forced_align: targets length is too long for CTC: {steps} steps, {len(labels)} "
            f"targets, of which {repeats} repeat"
        )
    states = labels.new_full((2 * len(labels) + 1,), blank)
    states[1::2] = labels
    scores, lowest = log_probs[0].detach()[:, states], -float("inf")
    no_skip = rushlight.ones(len(states), dtype=rushlight.bool, device=labels.device)
    no_skip[3::2] = labels[1:] == labels[:-1]
    best = scores[0].clone()
    best[2:] = lowest
    origins = []
    for row in scores[1:]:
        by_one = best.roll(1).index_fill(0, labels.new_tensor([0]), lowest)
        by_two = best.roll(2).masked_fill(no_skip, lowest)
        stays = best.maximum(by_one)
        origins.append((by_one > best).long().masked_fill(by_two > stays, 2))
        best = stays.maximum(by_two) + row
    state = len(states) - 1
    if len(states) > 1 and best[-2] >= best[-1]:
        state -= 1
    path = [state]
    for origin in rushlight.stack(origins[::-1]).tolist() if origins else ():
        state -= origin[state]
        path.append(state)
    return states[path[::-1]].to(targets.dtype)[None], log_probs


OPERATIONS: dict[str, dict[str, Any]] = {
    "torchaudio": {
        "_lfilter_core_loop(Tensor input_signal_windows, Tensor a_coeffs_flipped, "
        "Tensor(a!) padded_output_waveform) -> ()": _lfilter_core_loop,
        "_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor last_in, Tensor last_out, "
        "Tensor(a!) output_waveform) -> ()": _overdrive_core_loop,
        "rnnt_loss_forward(Tensor logits, Tensor targets, Tensor logit_lengths, "
        "Tensor target_lengths, int blank, float clamp, bool fused_log_softmax) -> "
        "(Tensor, Tensor)": _rnnt_loss_forward,
        "forced_align(Tensor log_probs, Tensor targets, Tensor input_lengths, "
        "Tensor target_lengths, int blank) -> (Tensor, Tensor)": _forced_align,
    },
    "_torchaudio": {
        "cuda_version() -> int?": lambda: None,
        "is_align_available() -> bool": lambda: True,
    },
}
GRADIENTS: dict[str, Any] = {}
