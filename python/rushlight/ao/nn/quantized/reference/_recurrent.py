"""Recurrent layers in float32 whose weights are rounded to quantized steps."""

from __future__ import annotations

from rushlight import Tensor
from rushlight.ao.nn.quantized.reference._weights import quantized, set_qparams
from rushlight.nn.modules import rnn as _rnn
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self


def get_quantized_weight(module: Module, wn: str) -> Tensor | None:
    """Return a weight of a layer, by its name, quantized as the layer says."""
    return quantized(module, wn) if hasattr(module, wn) else None


class _Rounded:
    """Runs a layer with its weights replaced by what their quantized forms stand for."""

    def _set(self, qparams, names, device):
        self._rounded = tuple(names)
        usual = {"qscheme": None, "dtype": None}
        for name in names:
            set_qparams(self, name, (qparams or {}).get(name, usual), device)

    def _weight(self, name):
        weight = quantized(self, name)
        return weight.dequantize() if weight.is_quantized else weight.float()

    def _get_name(self):
        return f"Quantized{type(self).__name__}(Reference)"

    def forward(self, input: Any, hx: Any = None) -> Any:
        from rushlight.func import functional_call

        weights = {name: self._weight(name) for name in self._rounded}
        # By itself: in a program that runs as torch's it says that its module is torch's.
        float_class = next(k for k in type(self).__mro__ if vars(_rnn).get(k.__name__) is k)
        plain = float_class.__new__(float_class)
        plain.__dict__ = dict(self.__dict__)
        return functional_call(plain, weights, (input, hx))


_CELL_WEIGHTS = ("weight_ih", "weight_hh")


class RNNCellBase(_Rounded, _rnn.RNNCellBase):
    """Cells whose weights are rounded to quantized steps."""

    def __init__(
        self, *args: Any, weight_qparams_dict: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._set(weight_qparams_dict, _CELL_WEIGHTS, kwargs.get("device"))

    def get_quantized_weight_ih(self) -> Tensor:
        """Return the quantized weight of the input."""
        return quantized(self, "weight_ih")

    def get_quantized_weight_hh(self) -> Tensor:
        """Return the quantized weight of the state."""
        return quantized(self, "weight_hh")

    def get_weight_ih(self) -> Tensor:
        """Return the numbers that the quantized weight of the input stands for."""
        return self._weight("weight_ih")

    def get_weight_hh(self) -> Tensor:
        """Return the numbers that the quantized weight of the state stands for."""
        return self._weight("weight_hh")

    @classmethod
    def from_float(
        cls, mod: Module, weight_qparams_dict: dict[str, Any],
        use_precomputed_fake_quant: bool = False,
    ) -> Self:  # fmt: skip
        """Return such a cell with the parameters of a float32 one."""
        options = {"nonlinearity": mod.nonlinearity} if hasattr(mod, "nonlinearity") else {}
        layer = cls(
            mod.input_size, mod.hidden_size, mod.bias, **options, device=mod.weight_ih.device,
            dtype=mod.weight_ih.dtype, weight_qparams_dict=weight_qparams_dict,
        )  # fmt: skip
        for name, value in mod._parameters.items():
            setattr(layer, name, value)
        return layer


class RNNCell(RNNCellBase, _rnn.RNNCell):
    """`nn.RNNCell` whose weights are rounded to quantized steps."""


class LSTMCell(RNNCellBase, _rnn.LSTMCell):
    """`nn.LSTMCell` whose weights are rounded to quantized steps."""


class GRUCell(RNNCellBase, _rnn.GRUCell):
    """`nn.GRUCell` whose weights are rounded to quantized steps."""


class RNNBase(_Rounded, _rnn.RNNBase):
    """Recurrent layers whose weights are rounded to quantized steps."""

    def __init__(
        self, *args: Any, weight_qparams_dict: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        names = [name for name in self._parameters if name.startswith("weight")]
        self._set(weight_qparams_dict, names, kwargs.get("device"))

    def get_quantized_weight_bias_dict(self) -> dict[str, Tensor | None]:
        """Return the quantized weights and the biases, by their names."""
        return {
            name: quantized(self, name) if name in self._rounded else getattr(self, name, None)
            for name in self._flat_weights_names
        }

    def get_flat_weights(self) -> list[Tensor]:
        """Return weights, rounded, and biases in the order in which the layer has them."""
        return [
            self._weight(name) if name in self._rounded else getattr(self, name)
            for name in self._flat_weights_names
        ]

    @classmethod
    def from_float(cls, mod: Module, weight_qparams_dict: dict[str, Any]) -> Self:
        """Return such a layer with the parameters of a float32 one."""
        layer = cls(
            mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout,
            mod.bidirectional, weight_qparams_dict=weight_qparams_dict,
        )  # fmt: skip
        for name, value in mod._parameters.items():
            setattr(layer, name, value)
        return layer


class LSTM(RNNBase, _rnn.LSTM):
    """`nn.LSTM` whose weights are rounded to quantized steps."""


class GRU(RNNBase, _rnn.GRU):
    """`nn.GRU` whose weights are rounded to quantized steps."""


__all__ = [
    "GRU", "GRUCell", "LSTM", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase",
    "get_quantized_weight",
]  # fmt: skip
