"""An LSTM of quantized parts."""

from __future__ import annotations

from rushlight.ao.nn import quantizable as _quantizable
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self


class LSTM(_quantizable.LSTM):
    """What replaces an observed `quantizable.LSTM`: its parts quantized."""

    _FLOAT_MODULE = _quantizable.LSTM

    def _get_name(self):
        return "QuantizedLSTM"

    @classmethod
    def from_float(cls, *args: object, **kwargs: object) -> Self:
        """Refused: observe a `quantizable.LSTM` first."""
        raise NotImplementedError(
            "quantized LSTM: observe a quantizable.LSTM, then from_observed; or quantize_dynamic"
        )

    @classmethod
    def from_observed(cls, other: Module) -> Self:
        """Return what replaces a `quantizable.LSTM` that has seen tensors."""
        from rushlight.ao.quantization.quantize import convert

        if not isinstance(other, _quantizable.LSTM):
            raise AssertionError(
                f"quantized LSTM: expected a quantizable.LSTM, got {type(other).__name__}"
            )
        converted = convert(other, inplace=False, remove_qconfig=True)
        converted.__class__ = cls
        return converted


__all__ = ["LSTM"]
