"""Recurrent layers and attention of parts that `ao.quantization` observes one by one."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._absent_dtypes import quint8
from rushlight._module_paths import add_modules as _add_modules
from rushlight.ao.nn.quantizable._attention import MultiheadAttention
from rushlight.nn import functional as F
from rushlight.nn.modules.activation import Sigmoid, Tanh
from rushlight.nn.modules.container import ModuleDict, ModuleList
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module
from rushlight.nn.quantized import FloatFunctional

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

__all__ = ["LSTM", "LSTMCell", "MultiheadAttention"]

_GATES = ("input", "forget", "cell", "output")


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
    igates: Any
    hgates: Any
    gates: Any
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
        self.input_size, self.hidden_size, self.bias = input_dim, hidden_dim, bias
        self.split_gates: bool = split_gates
        options = {"bias": bias, "device": device, "dtype": dtype}
        if split_gates:
            for own, size in (("igates", input_dim), ("hgates", hidden_dim)):
                parts = {gate: Linear(size, hidden_dim, **options) for gate in _GATES}
                setattr(self, own, ModuleDict(parts))
            self.gates = ModuleDict({gate: FloatFunctional() for gate in _GATES})
        else:
            self.igates = Linear(input_dim, 4 * hidden_dim, **options)
            self.hgates = Linear(hidden_dim, 4 * hidden_dim, **options)
            self.gates = FloatFunctional()
        self.input_gate, self.forget_gate = Sigmoid(), Sigmoid()
        self.cell_gate, self.output_gate = Tanh(), Sigmoid()
        self.fgate_cx, self.igate_cgate = FloatFunctional(), FloatFunctional()
        self.fgate_cx_igate_cgate, self.ogate_cy = FloatFunctional(), FloatFunctional()
        # Scales, zero points and dtypes of the state at the start, which is zeros.
        self.initial_hidden_state_qparams: tuple[float, int] = (1.0, 0)
        self.initial_cell_state_qparams: tuple[float, int] = (1.0, 0)
        self.hidden_state_dtype: Any = quint8
        self.cell_state_dtype: Any = quint8

    def forward(
        self, x: Tensor, hidden: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        if hidden is None:
            hidden = self.initialize_hidden(x.shape[0], x.is_quantized)
        hx, cx = hidden
        if self.split_gates:
            first, second, third, fourth = (
                self.gates[gate].add(self.igates[gate](x), self.hgates[gate](hx)) for gate in _GATES
            )
        else:
            first, second, third, fourth = self.gates.add(self.igates(x), self.hgates(hx)).chunk(
                4, 1
            )
        kept = self.fgate_cx.mul(self.forget_gate(second), cx)
        new = self.igate_cgate.mul(self.input_gate(first), self.cell_gate(third))
        cy = self.fgate_cx_igate_cgate.add(kept, new)
        return self.ogate_cy.mul(self.output_gate(fourth), rushlight.tanh(cy)), cy

    def initialize_hidden(
        self, batch_size: int, is_quantized: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Return a state of zeros."""
        zeros = rushlight.zeros(batch_size, self.hidden_size)
        if not is_quantized:
            return zeros, zeros
        h = rushlight.quantize_per_tensor(
            zeros, *self.initial_hidden_state_qparams, self.hidden_state_dtype
        )
        c = rushlight.quantize_per_tensor(
            zeros, *self.initial_cell_state_qparams, self.cell_state_dtype
        )
        return h, c

    def _get_name(self):
        return "QuantizableLSTMCell"

    @classmethod
    def from_params(
        cls,
        wi: Tensor,
        wh: Tensor,
        bi: Tensor | None = None,
        bh: Tensor | None = None,
        split_gates: bool = False,
    ) -> Self:
        """Return a cell with these weights (4 * hidden, input), (4 * hidden, hidden) and biases."""
        if (bi is None) != (bh is None):
            raise AssertionError("LSTMCell.from_params: give both biases, or none")
        cell = cls(wi.shape[1], wh.shape[1], bi is not None, "meta", split_gates=split_gates)
        parameter = rushlight.nn.Parameter
        for gates, weight, bias in ((cell.igates, wi, bi), (cell.hgates, wh, bh)):
            layers = list(gates.values()) if split_gates else [gates]
            for place, layer in enumerate(layers):
                layer.weight = parameter(weight.chunk(len(layers))[place])
                if bias is not None:
                    layer.bias = parameter(bias.chunk(len(layers))[place])
        return cell

    @classmethod
    def from_float(
        cls, other: Module, use_precomputed_fake_quant: bool = False, split_gates: bool = False
    ) -> Self:
        """Return what replaces an `nn.LSTMCell`."""
        del use_precomputed_fake_quant  # weights are not quantized yet
        biases = (other.bias_ih, other.bias_hh) if other.bias else (None, None)
        cell = cls.from_params(other.weight_ih, other.weight_hh, *biases, split_gates)
        if getattr(other, "qconfig", None) is not None:
            cell.qconfig = other.qconfig
            for gates in (cell.igates, cell.hgates):
                for layer in gates.values() if split_gates else [gates]:
                    layer.qconfig = other.qconfig
        return cell


class _LSTMSingleLayer(Module):
    """The steps in time, in one direction."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x, state, backward):
        outputs = []
        for step in x.unbind(0)[::-1] if backward else x.unbind(0):
            state = self.cell(step, state)
            outputs.append(state[0])
        return rushlight.stack(outputs[::-1] if backward else outputs, 0), state


class _LSTMLayer(Module):
    """The steps in time, forward and perhaps backward."""

    def __init__(self, *cells):
        super().__init__()
        self.layer_fw = _LSTMSingleLayer(cells[0])
        if len(cells) > 1:
            self.layer_bw = _LSTMSingleLayer(cells[1])

    def forward(self, x, states):
        results = [
            layer(x, state, backward)
            for layer, state, backward in zip(self.children(), states, (False, True))
        ]
        outputs, ends = [result[0] for result in results], [result[1] for result in results]
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
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional = bidirectional
        self.directions = 2 if bidirectional else 1
        self.layers = ModuleList(
            _LSTMLayer(*(
                LSTMCell(
                    hidden_size * self.directions if place else input_size, hidden_size, bias,
                    device, dtype, split_gates=split_gates,
                )
                for _ in range(self.directions)
            ))
            for place in range(num_layers)
        )  # fmt: skip

    def forward(
        self, x: Tensor, hidden: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        if self.batch_first:
            x = x.transpose(0, 1)
        count = self.num_layers * self.directions
        states = [None] * count if hidden is None else list(zip(hidden[0], hidden[1]))
        ends = []
        for place, layer in enumerate(self.layers):
            if place and self.dropout and self.training:
                x = F.dropout(x, self.dropout)
            x, own = layer(x, states[place * self.directions : (place + 1) * self.directions])
            ends += own
        # As views, as torch has them.
        h, c = (rushlight.stack(parts, 0).view(count, *parts[0].shape) for parts in zip(*ends))
        return x.transpose(0, 1) if self.batch_first else x, (h, c)

    def _get_name(self):
        return "QuantizableLSTM"

    @classmethod
    def from_float(cls, other: Module, qconfig: Any = None, split_gates: bool = False) -> Self:
        """Return what replaces an `nn.LSTM`, observed where that has a qconfig."""
        if other.proj_size:
            raise NotImplementedError("quantizable.LSTM: projections are not supported")
        layer = cls(
            other.input_size, other.hidden_size, other.num_layers, other.bias, other.batch_first,
            other.dropout, other.bidirectional, "meta", split_gates=split_gates,
        )  # fmt: skip
        names = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if other.bias else [])]
        for place, one in enumerate(layer.layers):
            for direction, suffix in zip(one.children(), ("", "_reverse")):
                values = [getattr(other, f"{name}_l{place}{suffix}") for name in names]
                direction.cell = LSTMCell.from_params(*values, split_gates=split_gates)
        layer.train(other.training)
        qconfig = getattr(other, "qconfig", qconfig)
        if qconfig is None:
            return layer
        from rushlight.ao.quantization.quantize import prepare, prepare_qat

        layer.qconfig = qconfig
        return (prepare_qat if other.training else prepare)(layer, inplace=True)

    @classmethod
    def from_observed(cls, other: Module) -> Self:
        """Refused: `quantized.LSTM.from_observed` makes a quantized layer."""
        raise NotImplementedError("quantizable.LSTM: quantized.LSTM.from_observed takes this layer")


_add_modules(
    __name__,
    {"modules": "*", "modules.activation": "MultiheadAttention", "modules.rnn": "LSTM LSTMCell"},
)
