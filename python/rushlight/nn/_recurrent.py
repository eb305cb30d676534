"""The steps of RNN, LSTM and GRU, and runs of them over sequences, layers and directions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.nn.parameter import Parameter


def _rnn_tanh(x, hidden, weights):
    return (rushlight.tanh(x + F.linear(hidden[0], weights[1], weights[3])),)


def _rnn_relu(x, hidden, weights):
    return (rushlight.relu(x + F.linear(hidden[0], weights[1], weights[3])),)


def _lstm(x, states, weights):
    hidden, cell = states
    i, f, g, o = (x + F.linear(hidden, weights[1], weights[3])).chunk(4, 1)
    cell = rushlight.sigmoid(f) * cell + rushlight.sigmoid(i) * rushlight.tanh(g)
    hidden = rushlight.sigmoid(o) * rushlight.tanh(cell)
    if weights[4] is not None:
        hidden = F.linear(hidden, weights[4])
    return hidden, cell


def _gru(x, states, weights):
    hidden = states[0]
    x_r, x_z, x_n = x.chunk(3, 1)
    h_r, h_z, h_n = F.linear(hidden, weights[1], weights[3]).chunk(3, 1)
    r = rushlight.sigmoid(x_r + h_r)
    z = rushlight.sigmoid(x_z + h_z)
    n = rushlight.tanh(x_n + r * h_n)
    return (n + z * (hidden - n),)


# step(x, states, weights) -> states, where x = W_ih input + b_ih is made for all steps at once.
_STEPS = {"RNN_TANH": _rnn_tanh, "RNN_RELU": _rnn_relu, "LSTM": _lstm, "GRU": _gru}


def _five(weights, has_biases):
    """(w_ih, w_hh, b_ih, b_hh, w_hr) with None for what is not there."""
    w_ih, w_hh, *rest = weights
    b_ih, b_hh = rest[:2] if has_biases else (None, None)
    w_hr = rest[-1] if len(rest) % 2 else None
    return w_ih, w_hh, b_ih, b_hh, w_hr


def step(
    mode: str, input: Tensor, states: Sequence[Tensor], weights: Sequence[Parameter]
) -> tuple[Any, ...]:
    """One step of a cell: input (N, in), states a tuple of (N, size)."""
    weights = (*weights, None)
    if mode in ("LSTM", "GRU") and _have_one_dtype(input, *states, *weights):
        return _states_over_steps(mode, input, states, weights, [input.size(0)], False)
    return _STEPS[mode](F.linear(input, weights[0], weights[2]), states, weights)


def _have_one_dtype(first, *others):
    """Whether the tensors, or None, are of one dtype that the operations over all steps take."""
    dtype = first.dtype
    if not (dtype is rushlight.float32 or dtype is rushlight.float64) or not first.size(0):
        return False
    for t in others:
        if t is not None and t.dtype is not dtype:
            return False
    return not rushlight.is_autocast_enabled("cpu")


def run(
    mode: str,
    input: Tensor,
    states: Sequence[Tensor],
    all_weights: Sequence[Any],
    *,
    has_biases: bool,
    dropout: float,
    bidirectional: bool,
    batch_sizes: Tensor | None = None,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """All layers and directions over a sequence.

    Args:
        input: (L, N, in), or with `batch_sizes` the data of a PackedSequence.
        states: a tuple of (layers * directions, N, size).
        all_weights: one list for each layer and direction.

    Returns:
        The outputs of the last layer in the form of `input`, and the last states.
    """
    if input.size(0) == 0:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    if mode == "LSTM" and batch_sizes is None and rushlight.is_autocast_enabled("cpu"):
        input, states, all_weights = _in_dtype_of_autocast(input, states, all_weights, has_biases)
    directions = 2 if bidirectional else 1
    sizes = None if batch_sizes is None else batch_sizes.tolist()
    last = []
    for layer in range(len(all_weights) // directions):
        outputs = []
        for direction in range(directions):
            place = layer * directions + direction
            output, final = _scan(
                mode,
                input,
                tuple(state[place] for state in states),
                _five(all_weights[place], has_biases),
                sizes,
                backwards=direction == 1,
            )
            outputs.append(output)
            last.append(final)
        input = outputs[0] if directions == 1 else rushlight.cat(outputs, -1)
        if dropout > 0 and layer < len(all_weights) // directions - 1:
            input = F.dropout(input, dropout, True)
    return input, tuple(rushlight.stack(finals) for finals in zip(*last))


def _in_dtype_of_autocast(input, states, all_weights, has_biases):
    """The tensors of an LSTM as torch's whole-layer operation has them, which takes none with
    projections; the other kinds run step by step there, and only their products in 16 bits.
    """
    tensors = (input, *states, *all_weights[0])
    has_projections = _five(all_weights[0], has_biases)[4] is not None
    if has_projections or any(t.dtype is rushlight.float64 for t in tensors):
        return input, states, all_weights
    dtype = rushlight.get_autocast_dtype("cpu")
    return (
        input.to(dtype),
        tuple(state.to(dtype) for state in states),
        [[weight.to(dtype) for weight in weights] for weights in all_weights],
    )


def _scan(mode, input, states, weights, sizes, backwards):
    """One layer in one direction: its outputs in the order of the input, and its last states."""
    tensors, dtype = (input, *states, *weights), input.dtype
    at_once = weights[4] is None and all(t is None or t.dtype is dtype for t in tensors)
    # Gradients of float16 on their way through the steps would be below its least numbers.
    if at_once and dtype is rushlight.bfloat16 and input.device.type != "cuda":
        output, last = _scan_at_once(mode, input, states, weights, sizes, backwards)
        return output, tuple(state.to(dtype) for state in last)
    if at_once and dtype in (rushlight.bfloat16, rushlight.float16):
        with rushlight.autocast("cpu", enabled=False):  # the sums of all steps in 32 bits
            states = tuple(state.float() for state in states)
            weights = [None if weight is None else weight.float() for weight in weights]
            output, last = _scan_at_once(mode, input.float(), states, weights, sizes, backwards)
            return output.to(dtype), tuple(state.to(dtype) for state in last)
    if at_once and not rushlight.is_autocast_enabled("cpu"):
        return _scan_at_once(mode, input, states, weights, sizes, backwards)
    return _scan_by_steps(_STEPS[mode], input, states, weights, sizes, backwards)


def _scan_by_steps(step, input, states, weights, sizes, backwards):
    x = F.linear(input, weights[0], weights[2])
    if sizes is not None:
        return _scan_packed(step, x, states, weights, sizes, backwards)
    outputs = []
    steps = x.unbind(0)
    for x_t in reversed(steps) if backwards else steps:
        states = step(x_t, states, weights)
        outputs.append(states[0])
    if backwards:
        outputs.reverse()
    return rushlight.stack(outputs), states


def _scan_at_once(mode, input, states, weights, sizes, backwards):
    """By one operation over all steps."""
    sizes = sizes or []
    over_steps = _states_over_steps(mode, input, states, weights, sizes, backwards)
    return over_steps[0], tuple(_last(t, sizes, backwards) for t in over_steps)


def _states_over_steps(mode, input, states, weights, sizes, backwards):
    """The states after each step, which for all steps lie in the form of `input`: (hidden,), or of
    an LSTM (hidden, cells)."""
    w_ih, w_hh, b_ih, b_hh, _ = weights
    cell = states[1] if mode == "LSTM" else None
    made = F._recurrent_layer(
        input, states[0], cell, w_ih, w_hh, b_ih, b_hh, mode, sizes, backwards
    )
    return made[:2] if mode == "LSTM" else made[:1]


def _last(over_steps, sizes, backwards):
    """Each sequence's state after the step that ran last, from those after all steps."""
    if not sizes:
        return over_steps[0 if backwards else -1]
    if len(sizes) == 1:
        return over_steps
    if backwards:
        return over_steps[: sizes[0]]
    parts, end = [], over_steps.size(0)
    for size, longer in zip(reversed(sizes), (0, *reversed(sizes[1:]))):
        if size > longer:  # sequences that end with this step
            parts.append(over_steps[end - size + longer : end])
        end -= size
    return parts[0] if len(parts) == 1 else rushlight.cat(parts)


def _scan_packed(step, x, states, weights, sizes, backwards):
    """Step t has the `sizes[t]` longest sequences, which are the first ones of the batch."""
    steps = x.split(sizes)
    if backwards:
        first = states
        states = tuple(state[: sizes[-1]] for state in first)
        outputs = []
        for x_t, size in zip(reversed(steps), reversed(sizes)):
            running = states[0].size(0)
            if size > running:  # shorter sequences begin here
                states = tuple(
                    rushlight.cat([now, start[running:size]]) for now, start in zip(states, first)
                )
            states = step(x_t, states, weights)
            outputs.append(states[0])
        outputs.reverse()
        return rushlight.cat(outputs), states
    outputs, finished = [], []
    for x_t, size in zip(steps, sizes):
        if size < states[0].size(0):  # the shortest sequences have ended
            finished.append(tuple(state[size:] for state in states))
            states = tuple(state[:size] for state in states)
        states = step(x_t, states, weights)
        outputs.append(states[0])
    finished.append(states)
    return rushlight.cat(outputs), tuple(rushlight.cat(parts) for parts in zip(*finished[::-1]))
