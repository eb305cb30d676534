"""Recurrent layers of parts that `ao.quantization` observes and replaces one by one."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.nn.modules.activation import Sigmoid, Tanh
from rushlight.nn.modules.container import ModuleList
from rushlight.nn.modules.dropout import Dropout
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module
from rushlight.nn.quantized import FloatFunctional

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

__all__ = ["LSTM", "LSTMCell"]


class LSTMCell(Module):
    """One step of an LSTM.

    Args:
        input_dim, hidden_dim: the sizes of the input and of the state.
        bias: whether there are biases.

    Shape:
        - x: (batch, input_dim); hidden: two of (batch, hidden_dim), zeros by default.

    Returns:
        The new state, h and c.
    """

    input_size: int
    hidden_size: int
    bias: bool
    igates: Module
    hgates: Module
    gates: FloatFunctional
    input_gate: Module
    forget_gate: Module
    cell_gate: Module
    output_gate: Module
    fgate_cx: FloatFunctional
    igate_cgate: FloatFunctional
    fgate_cx_igate_cgate: FloatFunctional
    ogate_cy: FloatFunctional

    def __init__(
        self,
        input_dim: int,
        hidden_dim: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        split_gates: bool = False,
    ) -> None:
        super().__init__()
        if split_gates:
            raise NotImplementedError("quantizable.LSTMCell: split_gates=True is not supported")
        self.input_size, self.hidden_size, self.bias = input_dim, hidden_dim, bias
        self.igates = Linear(input_dim, 4 * hidden_dim, bias=bias, device=device, dtype=dtype)
        self.hgates = Linear(hidden_dim, 4 * hidden_dim, bias=bias, device=device, dtype=dtype)
        self.gates = FloatFunctional()
        self.input_gate, self.forget_gate = Sigmoid(), Sigmoid()
        self.cell_gate, self.output_gate = Tanh(), Sigmoid()
        self.fgate_cx, self.igate_cgate = FloatFunctional(), FloatFunctional()
        self.fgate_cx_igate_cgate, self.ogate_cy = FloatFunctional(), FloatFunctional()

    def forward(
        self, x: Tensor, hidden: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        if hidden is None:
            hidden = self.initialize_hidden(x.shape[0], x.is_quantized)
        hx, cx = hidden
        gates = self.gates.add(self.igates(x), self.hgates(hx))
        first, second, third, fourth = gates.chunk(4, 1)
        kept = self.fgate_cx.mul(self.forget_gate(second), cx)
        new = self.igate_cgate.mul(self.input_gate(first), self.cell_gate(third))
        cy = self.fgate_cx_igate_cgate.add(kept, new)
        return self.ogate_cy.mul(self.output_gate(fourth), rushlight.tanh(cy)), cy

    def initialize_hidden(
        self, batch_size: int, is_quantized: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Return a state of zeros."""
        if is_quantized:
            raise NotImplementedError("quantizable.LSTMCell: give the state of a quantized input")
        like = self.hgates.weight
        return like.new_zeros(batch_size, self.hidden_size), like.new_zeros(
            batch_size, self.hidden_size
        )

    @classmethod
    def from_params(
        cls, wi: Tensor, wh: Tensor, bi: Tensor | None = None, bh: Tensor | None = None
    ) -> Self:
        """Return a cell with these weights (4 * hidden, input), (4 * hidden, hidden) and biases."""
        if (bi is None) != (bh is None):
            raise AssertionError("LSTMCell.from_params: give both biases, or none")
        cell = cls(wi.shape[1], wh.shape[1], bias=bi is not None, device="meta")
        parameter = rushlight.nn.Parameter
        cell.igates.weight, cell.hgates.weight = parameter(wi), parameter(wh)
        if bi is not None:
            cell.igates.bias, cell.hgates.bias = parameter(bi), parameter(bh)
        return cell

    @classmethod
    def from_float(cls, other: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return what replaces an `nn.LSTMCell`."""
        del use_precomputed_fake_quant  # weights are not quantized yet
        biases = (other.bias_ih, other.bias_hh) if other.bias else ()
        return cls.from_params(other.weight_ih, other.weight_hh, *biases)


class _Layer(Module):
    """The steps in time, forward and perhaps backward."""

    def __init__(self, input_dim, hidden_dim, bias, bidirectional, device, dtype):
        super().__init__()
        self.layer_fw = LSTMCell(input_dim, hidden_dim, bias, device, dtype)
        if bidirectional:
            self.layer_bw = LSTMCell(input_dim, hidden_dim, bias, device, dtype)

    def forward(self, x, states):
        outputs, ends = [], []
        for cell, state, backward in zip(self.children(), states, (False, True)):
            steps = []
            for step in reversed(x.unbind(0)) if backward else x.unbind(0):
                state = cell(step, state)
                steps.append(state[0])
            outputs.append(rushlight.stack(steps[::-1] if backward else steps, 0))
            ends.append(state)
        return outputs[0] if len(outputs) == 1 else rushlight.cat(outputs, -1), ends


class LSTM(Module):
    """`nn.LSTM` whose parts `ao.quantization` can observe.

    Args: as `nn.LSTM` has them, without projections.
    """

    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    layers: ModuleList

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        split_gates: bool = False,
    ) -> None:
        super().__init__()
        if split_gates:
            raise NotImplementedError("quantizable.LSTM: split_gates=True is not supported")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional = bidirectional
        self.directions = 2 if bidirectional else 1
        self.layers = ModuleList(
            _Layer(
                hidden_size * self.directions if place else input_size, hidden_size, bias,
                bidirectional, device, dtype,
            )
            for place in range(num_layers)
        )  # fmt: skip
        self._between = Dropout(self.dropout)

    def forward(
        self, x: Tensor, hidden: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        if self.batch_first:
            x = x.transpose(0, 1)
        count = self.num_layers * self.directions
        states = [None] * count if hidden is None else list(zip(hidden[0], hidden[1]))
        ends = []
        for place, layer in enumerate(self.layers):
            if place and self.dropout:
                x = self._between(x)
            x, own = layer(x, states[place * self.directions : (place + 1) * self.directions])
            ends += own
        # As views, as torch has them.
        h, c = (rushlight.stack(parts, 0).view(count, *parts[0].shape) for parts in zip(*ends))
        return x.transpose(0, 1) if self.batch_first else x, (h, c)

    def _get_name(self):
        return "QuantizableLSTM"

    @classmethod
    def from_float(cls, other: Module, qconfig: Any = None, split_gates: bool = False) -> Self:
        """Return what replaces an `nn.LSTM`."""
        if other.proj_size:
            raise NotImplementedError("quantizable.LSTM: projections are not supported")
        layer = cls(
            other.input_size, other.hidden_size, other.num_layers, other.bias, other.batch_first,
            other.dropout, other.bidirectional, split_gates=split_gates,
        )  # fmt: skip
        for place, one in enumerate(layer.layers):
            for cell, suffix in zip(list(one._modules), ("", "_reverse")):
                names = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if other.bias else [])]
                values = [getattr(other, f"{name}_l{place}{suffix}") for name in names]
                setattr(one, cell, LSTMCell.from_params(*values))
        qconfig = getattr(other, "qconfig", None) if qconfig is None else qconfig
        if qconfig is not None:
            layer.qconfig = qconfig
        return layer
