"""Modules that round to quantized steps and back, so that training sees the rounding."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._absent_dtypes import qint8, quint4x2, quint8
from rushlight._quantized._fake import set_values as _set_values
from rushlight._quantized._tensor import (
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
)
from rushlight.ao.quantization.observer import (
    _PER_CHANNEL,
    _RANGES,
    FixedQParamsObserver,
    HistogramObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    _PartialWrapper,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
)
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class FakeQuantizeBase(Module):
    """What fake-quantizing modules have: switches of observing and of rounding."""

    fake_quant_enabled: Tensor
    observer_enabled: Tensor
    _switch_dtype = rushlight.uint8

    def __init__(self) -> None:
        super().__init__()
        for name in ("fake_quant_enabled", "observer_enabled"):
            self.register_buffer(name, rushlight.ones(1, dtype=self._switch_dtype))

    def calculate_qparams(self, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Return scale and zero point."""
        raise NotImplementedError(f"{type(self).__name__}.calculate_qparams: a class defines it")

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Round, or do not."""
        self.fake_quant_enabled.fill_(int(enabled))

    def disable_fake_quant(self) -> None:
        """Do not round."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Choose scale and zero point anew from each tensor, or keep them."""
        self.observer_enabled.fill_(int(enabled))

    def disable_observer(self) -> None:
        """Keep scale and zero point."""
        self.enable_observer(False)

    @classmethod
    def with_args(cls, **kwargs: Any) -> _PartialWrapper:
        """Return a constructor of this class with arguments given."""
        import functools

        return _PartialWrapper(functools.partial(cls, **kwargs))


class FakeQuantize(FakeQuantizeBase):
    """Observes its input, then rounds it to the steps that the observer chooses.

    Args:
        observer: the class of the observer.
        quant_min, quant_max: the integers to use.
        is_dynamic: scale and zero point are chosen anew for each tensor.
        observer_kwargs: arguments of the observer.
    """

    activation_post_process: Any
    quant_min: int
    quant_max: int
    is_dynamic: bool
    dtype: Any
    qscheme: Any
    scale: Tensor
    zero_point: Tensor

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        observer: Callable[..., Any] = MovingAverageMinMaxObserver,
        quant_min: int | None = None,
        quant_max: int | None = None,
        is_dynamic: bool = False,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__()
        if quant_min is not None and quant_max is not None:
            keywords = getattr(getattr(observer, "p", None), "keywords", {})
            dtype = keywords.get("dtype", observer_kwargs.get("dtype", quint8))
            least, most = _RANGES[dtype][0]
            if not least <= quant_min <= quant_max <= most:
                raise AssertionError(
                    f"FakeQuantize: quant_min and quant_max must be from {least} to {most} for "
                    f"{dtype}, got {quant_min} and {quant_max}"
                )
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        observer_kwargs["is_dynamic"] = is_dynamic
        observed = self.activation_post_process = observer(**observer_kwargs)
        self.quant_min, self.quant_max = observed.quant_min, observed.quant_max
        self.is_dynamic, self.dtype, self.qscheme = (
            observed.is_dynamic, observed.dtype, observed.qscheme
        )  # fmt: skip
        floats = observed.qscheme is per_channel_affine_float_qparams
        zero_dtype = rushlight.float32 if floats else rushlight.int32
        self.register_buffer("scale", rushlight.ones(1))
        self.register_buffer("zero_point", rushlight.zeros(1, dtype=zero_dtype))
        self.ch_axis: Any = getattr(observed, "ch_axis", -1)
        self.is_per_channel: bool = observed.qscheme in _PER_CHANNEL

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return scale and zero point, as the observer chooses them."""
        return self.activation_post_process.calculate_qparams()

    def forward(self, X: Tensor) -> Tensor:
        if self.observer_enabled[0] == 1:
            self.activation_post_process(X.detach())
            scale, zero_point = self.calculate_qparams()
            _set_values(self.scale, scale)
            _set_values(self.zero_point, zero_point)
        if self.fake_quant_enabled[0] != 1:
            return X
        limits = self.activation_post_process.quant_min, self.activation_post_process.quant_max
        if self.is_per_channel:
            return rushlight.fake_quantize_per_channel_affine(
                X, self.scale, self.zero_point, self.ch_axis, *limits
            )
        return rushlight.fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, *limits)

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, "
            f"observer_enabled={self.observer_enabled}, quant_min={self.quant_min}, "
            f"quant_max={self.quant_max}, dtype={self.dtype}, qscheme={self.qscheme}, "
            f"ch_axis={self.ch_axis}, scale={self.scale}, zero_point={self.zero_point}"
        )

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        for name in ("scale", "zero_point"):
            held, given = getattr(self, name), state_dict.get(prefix + name)
            if given is not None and given.shape != held.shape:
                self._buffers[name] = held.new_empty(given.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class FixedQParamsFakeQuantize(FakeQuantize):
    """Rounds to steps that are given.

    Args:
        observer: a constructor of `FixedQParamsObserver`.
    """

    scale: Any
    zero_point: Any

    def __init__(self, observer: Callable[..., Any]) -> None:
        super().__init__(observer=observer)
        if type(self.activation_post_process) is not FixedQParamsObserver:
            raise AssertionError(
                "FixedQParamsFakeQuantize: observer must make a FixedQParamsObserver, got "
                f"{type(self.activation_post_process).__name__}"
            )
        self._observer_ctr = observer
        self.scale = self.activation_post_process.scale
        self.zero_point = self.activation_post_process.zero_point

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return the scale and zero point that were given."""
        return self.scale, self.zero_point


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """`FakeQuantize` of moving averages, in one function.

    Its scale is chosen by that function, which differs from the observer's in the last digits.
    """

    is_symmetric_quant: bool

    _switch_dtype = rushlight.int64

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int = 0,
        quant_max: int = 255,
        **observer_kwargs: Any,
    ) -> None:
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        if not isinstance(
            self.activation_post_process,
            (MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver),
        ):
            raise AssertionError(
                "FusedMovingAvgObsFakeQuantize: observer must make a MovingAverageMinMaxObserver "
                "or a MovingAveragePerChannelMinMaxObserver"
            )
        self.is_symmetric_quant = self.qscheme in (per_tensor_symmetric, per_channel_symmetric)

    def forward(self, X: Tensor) -> Tensor:
        observed = self.activation_post_process
        return rushlight.fused_moving_avg_obs_fake_quant(
            X, self.observer_enabled, self.fake_quant_enabled, observed.min_val, observed.max_val,
            self.scale, self.zero_point, observed.averaging_constant, observed.quant_min,
            observed.quant_max, self.ch_axis, self.is_per_channel, self.is_symmetric_quant,
        )  # fmt: skip


def _fused(observer, least, most, dtype, **options):
    return FusedMovingAvgObsFakeQuantize.with_args(
        observer=observer, quant_min=least, quant_max=most, dtype=dtype, **options
    )


default_fake_quant: Any = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=quint8,
    qscheme=per_tensor_affine, reduce_range=True,
)  # fmt: skip
default_weight_fake_quant: Any = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=qint8,
    qscheme=per_tensor_symmetric, reduce_range=False,
)  # fmt: skip
default_dynamic_fake_quant: Any = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, is_dynamic=True,
    dtype=quint8, averaging_constant=1,
)  # fmt: skip
default_fixed_qparams_range_neg1to1_fake_quant: Any = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant: Any = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer
)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
default_per_channel_weight_fake_quant: Any = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, dtype=qint8,
    qscheme=per_channel_symmetric, reduce_range=False, ch_axis=0,
)  # fmt: skip
default_embedding_fake_quant: Any = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, qscheme=per_channel_affine_float_qparams,
    dtype=quint8, quant_min=0, quant_max=255, ch_axis=0, averaging_constant=1,
)  # fmt: skip
default_embedding_fake_quant_4bit: Any = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, qscheme=per_channel_affine_float_qparams,
    ch_axis=0, dtype=quint4x2, averaging_constant=1,
)  # fmt: skip
default_histogram_fake_quant: Any = FakeQuantize.with_args(
    observer=HistogramObserver, quant_min=0, quant_max=255, dtype=quint8,
    qscheme=per_tensor_affine, reduce_range=True,
)  # fmt: skip
default_fused_act_fake_quant: Any = _fused(MovingAverageMinMaxObserver, 0, 255, quint8)
default_fused_wt_fake_quant: Any = _fused(
    MovingAverageMinMaxObserver, -128, 127, qint8, qscheme=per_tensor_symmetric
)
default_fused_per_channel_wt_fake_quant: Any = _fused(
    MovingAveragePerChannelMinMaxObserver, -128, 127, qint8, qscheme=per_channel_symmetric
)
fused_wt_fake_quant_range_neg_127_to_127: Any = _fused(
    MovingAverageMinMaxObserver, -127, 127, qint8, qscheme=per_tensor_symmetric, eps=2**-12
)
fused_per_channel_wt_fake_quant_range_neg_127_to_127: Any = _fused(
    MovingAveragePerChannelMinMaxObserver, -127, 127, qint8, qscheme=per_channel_symmetric,
    eps=2**-12,
)  # fmt: skip


def disable_fake_quant(mod: Module) -> None:
    """Stop rounding in a module: `model.apply(disable_fake_quant)`."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_fake_quant()


def enable_fake_quant(mod: Module) -> None:
    """Round in a module: `model.apply(enable_fake_quant)`."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_fake_quant()


def disable_observer(mod: Module) -> None:
    """Keep the scales of a module: `model.apply(disable_observer)`."""
    if isinstance(mod, FakeQuantizeBase):
        mod.disable_observer()


def enable_observer(mod: Module) -> None:
    """Choose the scales of a module anew: `model.apply(enable_observer)`."""
    if isinstance(mod, FakeQuantizeBase):
        mod.enable_observer()


__all__ = [
    "FakeQuantize", "FakeQuantizeBase", "FixedQParamsFakeQuantize", "FusedMovingAvgObsFakeQuantize",
    "default_affine_fixed_qparams_fake_quant", "default_dynamic_fake_quant",
    "default_embedding_fake_quant", "default_embedding_fake_quant_4bit", "default_fake_quant",
    "default_fixed_qparams_range_0to1_fake_quant", "default_fixed_qparams_range_neg1to1_fake_quant",
    "default_fused_act_fake_quant", "default_fused_per_channel_wt_fake_quant",
    "default_fused_wt_fake_quant", "default_histogram_fake_quant",
    "default_per_channel_weight_fake_quant", "default_symmetric_fixed_qparams_fake_quant",
    "default_weight_fake_quant", "disable_fake_quant", "disable_observer", "enable_fake_quant",
    "enable_observer", "fused_per_channel_wt_fake_quant_range_neg_127_to_127",
    "fused_wt_fake_quant_range_neg_127_to_127",
]  # fmt: skip
