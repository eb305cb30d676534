"""Recurrent layers of int8 or float16 weights, of floating-point tensors.

Each input is rounded to 7 bits of its own range, as torch has it: a whole sequence at once before
its product with the input's weight, and the state anew in each step.
"""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._absent_dtypes import qint8
from rushlight.ao.nn.quantized._packed import Float16Weight, PackedWeight, quantize_weight
from rushlight.nn import functional as F
from rushlight.nn.modules import rnn as _rnn
from rushlight.nn.modules.container import ModuleList
from rushlight.nn.modules.module import Module
from rushlight.nn.utils.rnn import PackedSequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self


def pack_weight_bias(qweight: Tensor, bias: Tensor | None, dtype: Any) -> Any:
    """Return a weight and bias in the form that products take.

    Args:
        qweight: quantized to qint8, or float32 where dtype is float16.
        dtype: `qint8` or `float16`.
    """
    return PackedWeight(qweight, bias) if dtype is qint8 else Float16Weight(qweight, bias)


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """Return the tensor with its entries along a dim in another order."""
    return tensor.index_select(dim, permutation)


def _check_reference(cls, ref_mod, mark, kind):
    """Raise unless a module is a reference one, as those are that have the attribute `mark`."""
    if not hasattr(ref_mod, mark):
        raise AssertionError(
            f"{cls.__name__}.from_reference: expected a reference {kind}, got "
            f"{type(ref_mod).__name__}"
        )


def _in_one_dict(given):
    """Weights and biases by name, which may be in a dict for each kind."""
    if isinstance(given.get("weight"), dict):
        return {**given["weight"], **given["bias"]}
    return given


def _check_dtype(name, dtype):
    if dtype not in (qint8, rushlight.float16):
        raise RuntimeError(f"{name}: dtype must be qint8 or float16, got {dtype}")


def _zeros(rows, columns, dtype):
    zeros = rushlight.zeros(rows, columns)
    return rushlight.quantize_per_tensor(zeros, 1.0, 0, qint8) if dtype is qint8 else zeros


class PackedParameter(Module):
    """A pair of packed weights, of the input and of the state, with their biases."""

    def __init__(self, param: Any) -> None:
        super().__init__()
        self.param = param

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "param"] = _plain(self.param)

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, *rest):
        self.param = tuple(_packed(one) for one in state_dict.pop(prefix + "param"))
        super()._load_from_state_dict(state_dict, prefix, metadata, False, *rest)


def _plain(packed):
    if isinstance(packed, tuple):
        return tuple(_plain(one) for one in packed)
    return packed.weight, packed.bias


def _packed(pair):
    return pack_weight_bias(*pair, rushlight.float16 if not pair[0].is_quantized else qint8)


def _observed_pair(mod, dtype, names):
    """The packed weights of a layer that `convert` replaces."""
    packed = []
    for weight_name, bias_name in names:
        weight = getattr(mod, weight_name)
        bias = getattr(mod, bias_name) if mod.bias else None
        if dtype is qint8:
            observer = mod.qconfig.weight()
            observer(weight)
            weight = quantize_weight(weight, observer)
        packed.append(pack_weight_bias(weight, bias, dtype))
    return tuple(packed)


def _dtype_of(kind, mod):
    if getattr(mod, "qconfig", None) is None:
        raise AssertionError(f"dynamic {kind.__name__}.from_float: the layer has no qconfig")
    dtype = mod.qconfig.weight().dtype
    _check_dtype(f"dynamic {kind.__name__}", dtype)
    return dtype


def _lstm_step(gates, state):
    i, f, g, o = gates[0].add(gates[1]).chunk(4, 1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru_step(gates, state):
    own, other = gates[0].chunk(3, 1), gates[1].chunk(3, 1)
    reset, update = (own[0] + other[0]).sigmoid(), (own[1] + other[1]).sigmoid()
    new = (own[2] + reset * other[2]).tanh()
    return ((state[0] - new) * update + new,)


class RNNBase(Module):
    """What dynamically quantized recurrent layers have in common.

    Args:
        mode: "LSTM" or "GRU".
        dtype: `qint8` or `float16`, of the weights.
    """

    _FLOAT_MODULE: type[Module] = _rnn.RNNBase
    _version = 2

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
        dtype: Any = qint8,
    ) -> None:
        super().__init__()
        if mode not in ("LSTM", "GRU"):
            raise ValueError(f"dynamic RNNBase: mode must be LSTM or GRU, got {mode!r}")
        _check_dtype(f"dynamic {mode}", dtype)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout: float = float(dropout)
        self.bidirectional = bidirectional
        self.dtype: Any = dtype
        self.version: int = 2
        self.training = False
        self._directions = 2 if bidirectional else 1
        rows = (4 if mode == "LSTM" else 3) * hidden_size
        zeros = rushlight.zeros(rows) if bias else None
        pairs = []
        for layer in range(num_layers):
            size = input_size if layer == 0 else hidden_size * self._directions
            for _ in range(self._directions):
                weights = _zeros(rows, size, dtype), _zeros(rows, hidden_size, dtype)
                pairs.append(tuple(pack_weight_bias(weight, zeros, dtype) for weight in weights))
        self._all_weight_values: Any = ModuleList(PackedParameter(pair) for pair in pairs)

    def _get_name(self):
        return f"DynamicQuantized{self.mode}"

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, usual in (
            ("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0),
            ("bidirectional", False),
        ):  # fmt: skip
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    def get_weight(self) -> dict[str, Tensor]:
        """Return the quantized weights by the names that `nn.LSTM` gives them."""
        return {name: one.weight for name, one in self._named("weight")}

    def get_bias(self) -> dict[str, Tensor]:
        """Return the biases by the names that `nn.LSTM` gives them."""
        return {name: one.bias for name, one in self._named("bias")} if self.bias else {}

    def _named(self, kind):
        for place, value in enumerate(self._all_weight_values):
            layer, reverse = divmod(place, self._directions)
            for source, packed in zip(("ih", "hh"), value.param):
                yield f"{kind}_{source}_l{layer}{'_reverse' if reverse else ''}", packed

    def set_weight_bias(self, weight_bias_dict: dict[str, Tensor]) -> None:
        """Take quantized weights and biases by the names that `nn.LSTM` gives them."""
        weight_bias_dict = _in_one_dict(weight_bias_dict)
        names = [name for name, _ in self._named("weight")]
        for place, value in enumerate(self._all_weight_values):
            value.param = tuple(
                pack_weight_bias(
                    weight_bias_dict[name],
                    weight_bias_dict[name.replace("weight", "bias")] if self.bias else None,
                    self.dtype,
                )
                for name in names[2 * place : 2 * place + 2]
            )

    def _run(self, data, sizes, states):
        """Run the layers over steps of rows: `sizes` says how many rows each step has."""
        ends = []
        for layer in range(self.num_layers):
            outputs = []
            for reverse in range(self._directions):
                place = layer * self._directions + reverse
                steps, end = self._direction(data, sizes, [s[place] for s in states], place)
                outputs.append(steps)
                ends.append(end)
            data = outputs[0] if len(outputs) == 1 else rushlight.cat(outputs, 1)
            if self.dropout and self.training and layer < self.num_layers - 1:
                data = F.dropout(data, self.dropout)
        return data, [rushlight.stack(parts) for parts in zip(*ends)]

    def _direction(self, data, sizes, state, place):
        of_input, of_state = self._all_weight_values[place].param
        step = _lstm_step if self.mode == "LSTM" else _gru_step
        inputs = of_input.dynamic(data, True).split(sizes)
        reverse = place % self._directions
        outputs = []
        state, finished = [part.float() for part in state], []
        if reverse:  # rows come in as sequences begin
            current = [part[: sizes[-1]] for part in state]
        else:
            current = state
        for own in inputs[::-1] if reverse else inputs:
            rows, had = own.size(0), current[0].size(0)
            if rows < had:  # rows whose sequence has ended
                finished.append([part[rows:] for part in current])
                current = [part[:rows] for part in current]
            elif rows > had:
                current = [
                    rushlight.cat([part, first[had:rows]]) for part, first in zip(current, state)
                ]
            current = list(step((own, of_state.dynamic(current[0], True)), current))
            outputs.append(current[0])
        parts = [current, *finished[::-1]]
        end = [rushlight.cat(pieces) if len(parts) > 1 else pieces[0] for pieces in zip(*parts)]
        return rushlight.cat(outputs[::-1] if reverse else outputs), end

    check_input: Any = _rnn.RNNBase.check_input
    check_hidden_size: Any = _rnn.RNNBase.check_hidden_size
    check_forward_args: Any = _rnn.RNNBase.check_forward_args
    permute_hidden: Any = _rnn.RNNBase.permute_hidden

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """Return the shape of the state for an input.

        Args:
            input: (length, batch, features), or the data of a PackedSequence.
            batch_sizes: those of a PackedSequence.
        """
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.size(0 if self.batch_first else 1)
        return self.num_layers * self._directions, batch, self.hidden_size

    def forward_impl(
        self,
        input: Tensor,
        hx: Any,
        batch_sizes: Tensor | None,
        max_batch_size: int,
        sorted_indices: Tensor | None,
    ) -> tuple[Tensor, Any]:
        """Run the layers: the outputs and the states, in the order of `sorted_indices`.

        Args:
            input: (length, batch, features), or the data of a PackedSequence.
            hx: the states at the start; zeros if None.
            batch_sizes: those of a PackedSequence.
            max_batch_size: how many sequences there are.
            sorted_indices: the order of the sequences, which `hx` does not have yet.
        """
        pair = self.mode == "LSTM"
        if hx is None:
            zeros = input.new_zeros(
                self.num_layers * self._directions, max_batch_size, self.hidden_size
            )
            hx = (zeros, zeros) if pair else zeros
        else:
            hx = self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(input, hx, batch_sizes)
        states = [part.detach() for part in (hx if pair else (hx,))]
        if batch_sizes is not None:
            result, ends = self._run(input.detach().float(), batch_sizes.tolist(), states)
        else:
            steps = input.detach().transpose(0, 1) if self.batch_first else input.detach()
            length, batch = steps.shape[:2]
            rows = steps.reshape(length * batch, -1).float()
            result, ends = self._run(rows, [batch] * length, states)
            result = result.view(length, batch, -1)
            result = result.transpose(0, 1) if self.batch_first else result
        return result, tuple(ends) if pair else ends[0]

    def forward_tensor(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        """Run the layers over sequences of one length.

        Args:
            input: (length, batch, features), or as `batch_first` says.
            hx: the states at the start; zeros by default.
        """
        batch = input.size(0 if self.batch_first else 1)
        return self.forward_impl(input, hx, None, batch, None)

    def forward_packed(
        self, input: PackedSequence, hx: Any = None
    ) -> tuple[PackedSequence, Any]:  # fmt: skip
        """Run the layers over sequences of several lengths.

        Args:
            input: the sequences.
            hx: the states at the start; zeros by default.
        """
        data, sizes, order, back = input
        result, ends = self.forward_impl(data, hx, sizes, int(sizes[0]), order)
        return PackedSequence(result, sizes, order, back), self.permute_hidden(ends, back)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        if isinstance(input, PackedSequence):
            return self.forward_packed(input, hx)
        if input.dim() != 2:
            return self.forward_tensor(input, hx)
        at = 0 if self.batch_first else 1  # without batch
        pair = self.mode == "LSTM"
        if hx is not None:
            hx = tuple(part.unsqueeze(1) for part in hx) if pair else hx.unsqueeze(1)
        result, ends = self.forward_tensor(input.unsqueeze(at), hx)
        ends = tuple(part.squeeze(1) for part in ends) if pair else ends.squeeze(1)
        return result.squeeze(at), ends

    @classmethod
    def from_reference(cls, ref_mod: Module) -> Self:
        """Return the layer with the quantized weights of a reference layer.

        Args:
            ref_mod: a layer of ao.nn.quantized.reference.
        """
        _check_reference(cls, ref_mod, "weight_ih_l0_dtype", "layer")
        layer = cls(
            ref_mod.input_size, ref_mod.hidden_size, ref_mod.num_layers, ref_mod.bias,
            ref_mod.batch_first, ref_mod.dropout, ref_mod.bidirectional, ref_mod.weight_ih_l0_dtype,
        )  # fmt: skip
        layer.set_weight_bias(ref_mod.get_quantized_weight_bias_dict())
        return layer

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return what replaces an `nn.LSTM` or `nn.GRU` with a qconfig."""
        dtype = _dtype_of(cls, mod)
        if getattr(mod, "proj_size", 0):
            raise NotImplementedError(f"dynamic {cls.__name__}: projections are not supported")
        layer = cls(
            mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout,
            mod.bidirectional, dtype=dtype,
        )  # fmt: skip
        names = [name for name, _ in layer._named("weight")]
        for place, value in enumerate(layer._all_weight_values):
            pair = names[2 * place : 2 * place + 2]
            pairs = [(name, name.replace("weight", "bias")) for name in pair]
            value.param = _observed_pair(mod, dtype, pairs)
        return layer


class LSTM(RNNBase):
    """`nn.LSTM` of int8 or float16 weights, of floating-point tensors.

    Args: as `nn.LSTM` has them, and dtype, `qint8` or `float16`.

    Example:
        >>> from rushlight.ao.quantization import quantize_dynamic
        >>> model = rushlight.nn.ModuleList([rushlight.nn.LSTM(4, 3)])
        >>> quantize_dynamic(model, {rushlight.nn.LSTM})[0]
        DynamicQuantizedLSTM(4, 3)
    """

    _FLOAT_MODULE = _rnn.LSTM

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    permute_hidden = _rnn.LSTM.permute_hidden

    def check_forward_args(
        self, input: Tensor, hidden: tuple[Tensor, Tensor], batch_sizes: Tensor | None
    ) -> None:
        """Raise unless input and states fit this layer.

        Args:
            input, batch_sizes: as get_expected_hidden_size has them.
            hidden: both states.
        """
        self.check_input(input, batch_sizes)
        expected = self.get_expected_hidden_size(input, batch_sizes)
        for i, part in enumerate(hidden):
            self.check_hidden_size(part, expected, f"Expected hidden[{i}] size {{}}, got {{}}")


class GRU(RNNBase):
    """`nn.GRU` of int8 or float16 weights, of floating-point tensors.

    Args: as `nn.GRU` has them, and dtype, `qint8` or `float16`.
    """

    _FLOAT_MODULE = _rnn.GRU

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("GRU", *args, **kwargs)


class RNNCellBase(Module):
    """What dynamically quantized cells have in common.

    Args:
        num_chunks: how many gates the cell has.
        dtype: `qint8` or `float16`, of the weights.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        num_chunks: int = 4,
        dtype: Any = qint8,
    ) -> None:
        super().__init__()
        _check_dtype(type(self).__name__, dtype)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        self.weight_dtype = dtype
        rows = num_chunks * hidden_size
        zeros = rushlight.zeros(rows) if bias else None
        self._packed_weight_ih = pack_weight_bias(_zeros(rows, input_size, dtype), zeros, dtype)
        self._packed_weight_hh = pack_weight_bias(_zeros(rows, hidden_size, dtype), zeros, dtype)

    @property
    def bias_ih(self) -> Tensor | None:
        """The bias of the input's product."""
        return self._packed_weight_ih.bias

    @property
    def bias_hh(self) -> Tensor | None:
        """The bias of the state's product."""
        return self._packed_weight_hh.bias

    def _get_name(self):
        return f"DynamicQuantized{type(self).__name__}"

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        text = text if self.bias else f"{text}, bias={self.bias}"
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"

    def check_forward_input(self, input: Tensor) -> None:
        """Raise unless `input` has the features that this cell takes.

        Args:
            input: (batch, features).
        """
        if input.size(1) != self.input_size:
            raise RuntimeError(
                f"input has inconsistent input_size: got {input.size(1)}, expected "
                f"{self.input_size}"
            )

    def check_forward_hidden(self, input: Tensor, hx: Tensor, hidden_label: str = "") -> None:
        """Raise unless a state fits the input and this cell.

        Args:
            input: (batch, features).
            hx: the state.
            hidden_label: what the message adds to its name.
        """
        if input.size(0) != hx.size(0):
            raise RuntimeError(
                f"Input batch size {input.size(0)} doesn't match hidden{hidden_label} batch size "
                f"{hx.size(0)}"
            )
        if hx.size(1) != self.hidden_size:
            raise RuntimeError(
                f"hidden{hidden_label} has inconsistent hidden_size: got {hx.size(1)}, expected "
                f"{self.hidden_size}"
            )

    def _gates(self, input, *states):
        self.check_forward_input(input)
        for i, state in enumerate(states):
            label = f"[{i}]" if len(states) > 1 else ""
            self.check_forward_hidden(input, state, label)
        hx = states[0]
        return (
            self._packed_weight_ih.dynamic(input.detach().float(), True),
            self._packed_weight_hh.dynamic(hx.detach().float(), True),
        )

    def _zeros(self, input):
        return input.new_zeros(input.size(0), self.hidden_size)

    def get_weight(self) -> dict[str, Tensor]:
        """Return the weights by the names that `nn.LSTMCell` gives them."""
        return {
            "weight_ih": self._packed_weight_ih.weight, "weight_hh": self._packed_weight_hh.weight
        }  # fmt: skip

    def get_bias(self) -> dict[str, Tensor]:
        """Return the biases by the names that `nn.LSTMCell` gives them."""
        return {"bias_ih": self._packed_weight_ih.bias, "bias_hh": self._packed_weight_hh.bias}

    def set_weight_bias(self, weight_bias_dict: dict[str, Tensor]) -> None:
        """Take weights and biases by the names that `nn.LSTMCell` gives them."""
        weight_bias_dict = _in_one_dict(weight_bias_dict)
        for kind in ("ih", "hh"):
            bias = weight_bias_dict[f"bias_{kind}"] if self.bias else None
            packed = pack_weight_bias(weight_bias_dict[f"weight_{kind}"], bias, self.weight_dtype)
            setattr(self, f"_packed_weight_{kind}", packed)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in ("_packed_weight_ih", "_packed_weight_hh"):
            destination[prefix + name] = _plain(getattr(self, name))

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, *rest):
        for name in ("_packed_weight_ih", "_packed_weight_hh"):
            setattr(self, name, _packed(state_dict.pop(prefix + name)))
        super()._load_from_state_dict(state_dict, prefix, metadata, False, *rest)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return what replaces a cell with a qconfig."""
        dtype = _dtype_of(cls, mod)
        options = {"nonlinearity": mod.nonlinearity} if hasattr(mod, "nonlinearity") else {}
        layer = cls(mod.input_size, mod.hidden_size, bias=mod.bias, dtype=dtype, **options)
        names = [("weight_ih", "bias_ih"), ("weight_hh", "bias_hh")]
        layer._packed_weight_ih, layer._packed_weight_hh = _observed_pair(mod, dtype, names)
        return layer

    @classmethod
    def from_reference(cls, ref_mod: Module) -> Self:
        """Return the cell with the quantized weights of a reference cell.

        Args:
            ref_mod: a cell of ao.nn.quantized.reference.
        """
        _check_reference(cls, ref_mod, "weight_ih_dtype", "cell")
        named = {"nonlinearity": ref_mod.nonlinearity} if hasattr(ref_mod, "nonlinearity") else {}
        layer = cls(
            ref_mod.input_size, ref_mod.hidden_size, ref_mod.bias, dtype=ref_mod.weight_ih_dtype,
            **named,
        )  # fmt: skip
        layer.set_weight_bias(
            {
                "weight_ih": ref_mod.get_quantized_weight_ih(),
                "weight_hh": ref_mod.get_quantized_weight_hh(),
                "bias_ih": ref_mod.bias_ih,
                "bias_hh": ref_mod.bias_hh,
            }
        )
        return layer


class RNNCell(RNNCellBase):
    """`nn.RNNCell` of int8 or float16 weights.

    Args:
        nonlinearity: "tanh" or "relu".
        dtype: `qint8` or `float16`, of the weights.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        dtype: Any = qint8,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=1, dtype=dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        hx = self._zeros(input) if hx is None else hx
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"RNNCell: unknown nonlinearity {self.nonlinearity}")
        own, other = self._gates(input, hx)
        return getattr(own + other, self.nonlinearity)()


class LSTMCell(RNNCellBase):
    """`nn.LSTMCell` of int8 or float16 weights."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, num_chunks=4, **kwargs)

    def forward(
        self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        hx = (self._zeros(input),) * 2 if hx is None else hx
        return _lstm_step(self._gates(input, *hx), hx)


class GRUCell(RNNCellBase):
    """`nn.GRUCell` of int8 or float16 weights."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, dtype: Any = qint8
    ) -> None:
        super().__init__(input_size, hidden_size, bias, num_chunks=3, dtype=dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        hx = self._zeros(input) if hx is None else hx
        return _gru_step(self._gates(input, hx), (hx,))[0]


__all__ = [
    "GRU", "GRUCell", "LSTM", "LSTMCell", "PackedParameter", "RNNBase", "RNNCell", "RNNCellBase",
    "apply_permutation", "pack_weight_bias",
]  # fmt: skip
