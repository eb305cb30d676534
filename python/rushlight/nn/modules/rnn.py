"""Recurrent layers and their cells."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight._ignored import warn_program as _warn_program
from rushlight.nn import _recurrent, init
from rushlight.nn.modules._printing import _changed_options
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.nn.utils.rnn import PackedSequence
from rushlight.types import Device, _dtype

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNN", "RNNBase", "RNNCell", "RNNCellBase"]

_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "GRU": 3, "LSTM": 4}


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """The entries of `tensor` along `dim` in the order of `permutation`."""
    return tensor.index_select(dim, permutation)


_apply_permutation = apply_permutation


class _FlatWeights(list):
    """The weights that forward uses, in one list; to set one of them is to set it there."""

    def __init__(self, rnn: Module) -> None:
        super().__init__(rnn._weight(name) for name in rnn._flat_weights_names)
        self._rnn = rnn

    def __setitem__(self, index: int, weight: Tensor) -> None:
        super().__setitem__(index, weight)
        self._rnn._flat_weights = self

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


class RNNBase(Module):
    """What RNN, LSTM and GRU share.

    Args:
        input_size: size of each step's input.
        hidden_size: size of the state.
        num_layers: how many layers, each fed with the outputs of the one before.
        bias: whether there are biases.
        batch_first: (N, L, H) instead of (L, N, H).
        dropout: probability of dropping outputs between layers in training.
        bidirectional: whether a second direction runs from the end; outputs are joined.
        proj_size: LSTM only; if positive the outputs are projected to this size.

    Parameters start uniform in +-1/sqrt(hidden_size).
    """

    _assigned_weights = None  # by name: (the attribute then, the weight in its place)

    __constants__: list[str] = [
        "mode",
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "proj_size",
    ]

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        super().__init__()
        _check_sizes(mode, input_size, hidden_size, num_layers, dropout, proj_size)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout: float = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        directions = 2 if bidirectional else 1
        gate_size = _GATES[mode] * hidden_size
        out_size = proj_size if proj_size > 0 else hidden_size
        self._all_weights = []
        for layer in range(num_layers):
            layer_input = input_size if layer == 0 else out_size * directions
            for direction in range(directions):
                suffix = f"_l{layer}" + ("_reverse" if direction else "")
                shapes = {
                    "weight_ih": (gate_size, layer_input),
                    "weight_hh": (gate_size, out_size),
                }
                if bias:
                    shapes["bias_ih"] = shapes["bias_hh"] = (gate_size,)
                if proj_size > 0:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    weight = rushlight.empty(shape, device=device, dtype=dtype)
                    setattr(self, name + suffix, Parameter(weight))
                self._all_weights.append([name + suffix for name in shapes])
        self.reset_parameters()

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters, one list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights_names(self):
        return [name for names in self._all_weights for name in names]

    @property
    def _flat_weights(self):
        return _FlatWeights(self)

    @_flat_weights.setter
    def _flat_weights(self, weights):
        names = self._flat_weights_names
        if len(weights) != len(names):
            raise ValueError(
                f"{type(self).__name__}: expected {len(names)} weights ({', '.join(names)}), got"
                f" {len(weights)}"
            )
        replaced = [getattr(self, name, None) for name in names]
        self._assigned_weights = dict(zip(names, zip(replaced, weights), strict=True))

    def _weight(self, name):
        """The weight that forward uses: the attribute, or what was assigned to `_flat_weights`
        after it.
        """
        if self._assigned_weights:
            replaced, weight = self._assigned_weights[name]
            if getattr(self, name, None) is replaced:
                return weight
        return getattr(self, name)

    def _apply(self, fn, recurse=True):
        self._assigned_weights = None
        return super()._apply(fn, recurse)

    def flatten_parameters(self) -> None:
        """Accepted for compatibility: the parameters need no common buffer here."""

    def reset_parameters(self) -> None:
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise unless `input` has the dims and size that this layer takes."""
        weight = self._parameters.get("weight_ih_l0")
        if weight is not None and input.dtype is not weight.dtype:
            if not rushlight.is_autocast_enabled(input.device.type):
                raise ValueError(
                    f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype})"
                )
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, "
                f"got {input.size(-1)}"
            )

    def _batch_size(self, input, batch_sizes):
        if batch_sizes is not None:
            return int(batch_sizes[0])
        return input.size(0) if self.batch_first else input.size(1)

    def _stack_size(self):
        return self.num_layers * (2 if self.bidirectional else 1)

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of the hidden state for this input."""
        size = self.proj_size if self.proj_size > 0 else self.hidden_size
        return (self._stack_size(), self._batch_size(input, batch_sizes), size)

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Raise unless a state has the expected shape."""
        if tuple(hx.size()) != tuple(expected_hidden_size):
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise unless input and state fit this layer."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Tensor, permutation: Tensor | None) -> Tensor:
        """The state with its batch in the order of `permutation`."""
        return hx if permutation is None else apply_permutation(hx, permutation)

    def extra_repr(self) -> str:
        changed = _changed_options(
            self,
            proj_size=0,
            num_layers=1,
            bias=True,
            batch_first=False,
            dropout=0,
            bidirectional=False,
        )
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *changed])

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Other libraries' files hold these as attributes; here they are computed.
        for name in ("_flat_weights", "_flat_weights_names", "_flat_weight_refs"):
            state.pop(name, None)
        state.setdefault("proj_size", 0)
        super().__setstate__(state)

    # The states go through forward as a tuple: (h,) for RNN and GRU, (h, c) for LSTM.

    def _zero_states(self, input, batch_sizes):
        shape = self.get_expected_hidden_size(input, batch_sizes)
        return (rushlight.zeros(shape, dtype=input.dtype, device=input.device),)

    def _pack_states(self, states):
        return states[0]

    def _unpack_states(self, hx):
        return (hx,)

    def _check_unbatched_state(self, hx, batched):
        expected = 3 if batched else 2
        if hx.dim() != expected:
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(f"For {kind} input, hx should be {expected}-D but got {hx.dim()}-D")

    def forward(self, input: Tensor | PackedSequence, hx: Any = None) -> Any:
        """Run over the whole sequence.

        Args:
            input: (L, N, input_size), (L, input_size) or a PackedSequence.
            hx: the first states, (num_layers * directions, N, size); zeros if None.

        Returns:
            The outputs of the last layer at every step, and the last states.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.dim() not in (2, 3):
            raise ValueError(
                f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D instead"
            )
        batched = input.dim() == 3
        batch_dim = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(batch_dim)
        if hx is None:
            states = self._zero_states(input, None)
        else:
            states = self._unpack_states(hx)
            for state in states:
                self._check_unbatched_state(state, batched)
            if not batched:
                states = tuple(state.unsqueeze(1) for state in states)
        self.check_forward_args(input, self._pack_states(states), None)
        if self.batch_first:
            input = input.transpose(0, 1)
        output, states = self._run(input, states, None)
        if self.batch_first:
            output = output.transpose(0, 1)
        if not batched:
            output = output.squeeze(batch_dim)
            states = tuple(state.squeeze(1) for state in states)
        return output, self._pack_states(states)

    def _forward_packed(self, packed, hx):
        data, batch_sizes, sorted_indices, unsorted_indices = packed
        if hx is None:
            states = self._zero_states(data, batch_sizes)
        else:
            states = self._unpack_states(self.permute_hidden(hx, sorted_indices))
        self.check_forward_args(data, self._pack_states(states), batch_sizes)
        output, states = self._run(data, states, batch_sizes)
        output = PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices)
        return output, self.permute_hidden(self._pack_states(states), unsorted_indices)

    def _run(self, input, states, batch_sizes):
        return _recurrent.run(
            self.mode,
            input,
            states,
            [[self._weight(name) for name in names] for names in self._all_weights],
            has_biases=self.bias,
            dropout=self.dropout if self.training else 0.0,
            bidirectional=self.bidirectional,
            batch_sizes=batch_sizes,
        )


def _check_sizes(mode, input_size, hidden_size, num_layers, dropout, proj_size):
    if mode not in _GATES:
        raise ValueError(f"mode: {mode!r} is not one of {', '.join(_GATES)}")
    is_number = isinstance(dropout, (int, float)) and not isinstance(dropout, bool)
    if not is_number or not 0 <= dropout <= 1:
        raise ValueError(f"dropout: expected a probability between 0 and 1 but got {dropout!r}")
    if dropout > 0 and num_layers == 1:
        _warn_program(f"dropout={dropout}: acts between layers, of which num_layers=1 has none")
    if input_size <= 0:
        raise ValueError(f"input_size must be greater than zero but is {input_size}")
    if not isinstance(hidden_size, int):
        raise TypeError(f"hidden_size: expected an int but got {type(hidden_size).__name__}")
    if hidden_size <= 0:
        raise ValueError(f"hidden_size must be greater than zero but is {hidden_size}")
    if num_layers <= 0:
        raise ValueError(f"num_layers must be greater than zero but is {num_layers}")
    if proj_size < 0:
        raise ValueError(f"proj_size: must not be negative but got {proj_size}")
    if proj_size >= hidden_size:
        raise ValueError(f"proj_size: {proj_size} must be below hidden_size={hidden_size}")
    if proj_size and mode != "LSTM":
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(RNNBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu by `nonlinearity`.

    Args: input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True,
        batch_first=False, dropout=0.0, bidirectional=False, device=None, dtype=None; see
        `RNNBase`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity {nonlinearity!r}: select from tanh and relu")
        self.nonlinearity = nonlinearity
        super().__init__("RNN_" + nonlinearity.upper(), *args, **kwargs)


class LSTM(RNNBase):
    """Long short-term memory: gates i, f, o = sigmoid(...), g = tanh(...) of W x + b + U h + d;
    c' = f c + i g, h' = o tanh(c').

    Args: see `RNNBase`.

    Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The shape of the cell state for this input."""
        return (self._stack_size(), self._batch_size(input, batch_sizes), self.hidden_size)

    def check_forward_args(
        self, input: Tensor, hidden: tuple[Tensor, Tensor], batch_sizes: Tensor | None
    ) -> None:
        self.check_input(input, batch_sizes)
        self.check_hidden_size(
            hidden[0],
            self.get_expected_hidden_size(input, batch_sizes),
            "Expected hidden[0] size {}, got {}",
        )
        self.check_hidden_size(
            hidden[1],
            self.get_expected_cell_size(input, batch_sizes),
            "Expected hidden[1] size {}, got {}",
        )

    def permute_hidden(
        self, hx: tuple[Tensor, Tensor], permutation: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        if permutation is None:
            return hx
        return tuple(apply_permutation(state, permutation) for state in hx)

    def _zero_states(self, input, batch_sizes):
        cell = self.get_expected_cell_size(input, batch_sizes)
        zeros = rushlight.zeros(cell, dtype=input.dtype, device=input.device)
        return (*super()._zero_states(input, batch_sizes), zeros)

    def _pack_states(self, states):
        return tuple(states)

    def _unpack_states(self, hx):
        return tuple(hx)


class GRU(RNNBase):
    """Gated recurrent unit: r, z = sigmoid(...), n = tanh(W x + b + r (U h + d)),
    h' = (1 - z) n + z h.

    Args: see `RNNBase`.

    Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """One step of a recurrent layer, on (N, input_size) or (input_size)."""

    __constants__: list[str] = ["input_size", "hidden_size", "bias"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = num_chunks * hidden_size
        self.weight_ih: Parameter = Parameter(rushlight.empty((gates, input_size), **factory))
        self.weight_hh: Parameter = Parameter(rushlight.empty((gates, hidden_size), **factory))
        for name in ("bias_ih", "bias_hh"):
            value = Parameter(rushlight.empty(gates, **factory)) if bias else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def extra_repr(self) -> str:
        parts = [f"{self.input_size}, {self.hidden_size}"]
        if self.bias is not True:
            parts.append(f"bias={self.bias}")
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            parts.append(f"nonlinearity={self.nonlinearity}")
        return ", ".join(parts)

    def reset_parameters(self) -> None:
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)


def _step(cell, mode, input, states):
    """One step from `states`, a tuple or None, with unbatched inputs made a batch of one."""
    batched = input.dim() == 2
    if states is None or not batched:
        input, states = _as_batch(cell, mode, input, states)
    shape = (input.size(0), cell.hidden_size)
    for state in states:
        if state.shape != shape:
            if batched and state.dim() not in (1, 2):
                raise ValueError(f"{type(cell).__name__}: Expected hidden to be 1D or 2D")
            raise RuntimeError(
                f"{type(cell).__name__}: hidden has inconsistent hidden_size: got "
                f"{tuple(state.shape)}, expected {shape}"
            )
    if input.size(1) != cell.input_size:
        raise RuntimeError(
            f"{type(cell).__name__}: input has inconsistent input_size: got {input.size(1)} "
            f"expected {cell.input_size}"
        )
    weights = (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)
    states = _recurrent.step(mode, input, states, weights)
    return states if batched else tuple(state.squeeze(0) for state in states)


def _as_batch(cell, mode, input, states):
    """(N, input_size) and (N, hidden_size), of zeros where there are no states."""
    name, dim = type(cell).__name__, input.dim()
    if dim not in (1, 2):
        raise ValueError(f"{name}: Expected input to be 1D or 2D, got {dim}D instead")
    if dim == 1:
        input = input.unsqueeze(0)
    if states is None:
        count = 2 if mode == "LSTM" else 1
        zeros = rushlight.zeros(
            input.size(0), cell.hidden_size, dtype=input.dtype, device=input.device
        )
        return input, (zeros,) * count
    if any(state.dim() not in (1, 2) for state in states):
        raise ValueError(f"{name}: Expected hidden to be 1D or 2D")
    return input, tuple(state.unsqueeze(0) for state in states)


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu by `nonlinearity`."""

    __constants__: list[str] = ["input_size", "hidden_size", "bias", "nonlinearity"]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=1, device=device, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"nonlinearity: unknown {self.nonlinearity!r}")
        mode = "RNN_" + self.nonlinearity.upper()
        return _step(self, mode, input, None if hx is None else (hx,))[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM: (h, c) to (h', c')."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=4, device=device, dtype=dtype)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        return _step(self, "LSTM", input, None if hx is None else tuple(hx))


class GRUCell(RNNCellBase):
    """One step of a GRU."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, device=device, dtype=dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return _step(self, "GRU", input, None if hx is None else (hx,))[0]
