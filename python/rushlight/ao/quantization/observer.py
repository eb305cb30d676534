"""Modules that watch tensors and choose the scale and zero point to quantize them with."""

from __future__ import annotations

import functools

import rushlight
from rushlight import Tensor
from rushlight._absent_dtypes import qint8, qint32, quint4x2, quint8
from rushlight._ignored import warn_program as _warn_program
from rushlight._quantized._fake import set_values as _set_values
from rushlight._quantized._tensor import (
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
    qscheme as _qscheme,
)
from rushlight._set_module import set_module as _set_module
from rushlight.ao.quantization._granularity import (
    AffineQuantizedObserverBase,
    Granularity,
    MappingType,
    PerAxis,
    PerBlock,
    PerGroup,
    PerRow,
    PerTensor,
    PerToken,
    TorchAODType,
    ZeroPointDomain,
    get_block_size,
)
from rushlight.nn import factory_kwargs as _factory_kwargs
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_EPS = 2.0**-23  # of float32
_INF = float("inf")
_PER_TENSOR = (per_tensor_affine, per_tensor_symmetric)
_PER_CHANNEL = (per_channel_affine, per_channel_symmetric, per_channel_affine_float_qparams)
# dtype -> its least and largest integer, and those of one bit less.
_RANGES = {
    qint8: ((-128, 127), (-64, 63)),
    rushlight.int8: ((-128, 127), (-64, 63)),
    quint8: ((0, 255), (0, 127)),
    rushlight.uint8: ((0, 255), (0, 127)),
    qint32: ((-(2**31), 2**31 - 1),) * 2,
    rushlight.int32: ((-(2**31), 2**31 - 1),) * 2,
    rushlight.int16: ((-(2**15), 2**15 - 1),) * 2,
    rushlight.uint16: ((0, 2**16 - 1),) * 2,
    quint4x2: ((0, 15),) * 2,
}


class _PartialWrapper:
    """A constructor with some arguments given: what `with_args` returns."""

    def __init__(self, p: Callable[..., Any]) -> None:
        self.p = p
        made = p
        while isinstance(made, functools.partial):
            made = made.func
        self.__module__ = made.__module__  # of what it makes
        self.callable_args: dict[str, Callable[[], Any]] = {}

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        made = {name: make() for name, make in self.callable_args.items() if name not in keywords}
        return self.p(*args, **keywords, **made)

    def __repr__(self) -> str:
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, **kwargs: Any) -> _PartialWrapper:
        """Return this constructor with more arguments given."""
        wrapper = _PartialWrapper(functools.partial(self, **kwargs))
        return wrapper

    def with_callable_args(self, **kwargs: Any) -> _PartialWrapper:
        """Return this constructor with arguments that are computed when it is called."""
        result = _PartialWrapper(self.p)
        result.callable_args = {**self.callable_args, **kwargs}
        return result


class ObserverBase(Module):
    """What all observers have: `forward` returns its input, `calculate_qparams` the result.

    Args:
        dtype: the quantized dtype that the observer chooses for.
        is_dynamic: the scale is chosen anew for each tensor.
    """

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype = dtype
        self.is_dynamic = is_dynamic

    def calculate_qparams(self, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Return scale and zero point."""
        raise RuntimeError(f"{type(self).__name__} does not choose a scale and zero point")

    @classmethod
    def with_args(cls, **kwargs: Any) -> _PartialWrapper:
        """Return a constructor of this class with arguments given.

        Example:
            >>> from rushlight.ao.quantization import MinMaxObserver
            >>> MinMaxObserver.with_args(quant_min=0, quant_max=127)().quant_max
            127
        """
        return _PartialWrapper(functools.partial(cls, **kwargs))

    @classmethod
    def with_callable_args(cls, **kwargs: Any) -> _PartialWrapper:
        """Return a constructor with arguments that are computed when it is called."""
        return _PartialWrapper(cls).with_callable_args(**kwargs)


def _range_of(quant_min, quant_max, dtype, reduce_range):
    if quant_min is None or quant_max is None:
        return _RANGES[dtype][reduce_range]
    if not quant_min <= 0 <= quant_max or quant_min >= quant_max:
        raise AssertionError(
            f"quant_min and quant_max must be a range that includes 0, got {quant_min} and "
            f"{quant_max}"
        )
    if dtype in (qint8, rushlight.int8) and quant_max - quant_min > 255:
        raise AssertionError(f"{dtype} has 256 integers, got {quant_min} to {quant_max}")
    return (quant_min // 2, quant_max // 2) if reduce_range else (quant_min, quant_max)


class UniformQuantizationObserverBase(ObserverBase):
    """Observers that choose steps of equal width.

    Args:
        dtype: `quint8`, `qint8` or another of up to 32 bits.
        qscheme: `per_tensor_affine`, `per_channel_symmetric` and so on. Symmetric schemes have the
            zero point in the middle of the integers.
        reduce_range: use one bit less.
        quant_min, quant_max: the integers to use; by default all of the dtype.
        eps: the least scale.
    """

    qscheme: Any
    reduce_range: bool
    quant_min: int
    quant_max: int

    _version = 3
    _allowed: tuple[_qscheme, ...] = (*_PER_TENSOR, *_PER_CHANNEL)
    _halves_symmetric_quint8 = False
    eps: Tensor

    def __init__(
        self,
        dtype: Any = quint8,
        qscheme: _qscheme = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: Any = None,
        eps: float = _EPS,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if qscheme not in self._allowed:
            raise NotImplementedError(f"{type(self).__name__}: qscheme {qscheme} is not supported")
        if dtype not in _RANGES:
            raise AssertionError(f"{type(self).__name__}: dtype {dtype} is not supported")
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        if qscheme in (per_tensor_symmetric, per_channel_symmetric) and (
            reduce_range and dtype is quint8 and not self._halves_symmetric_quint8
        ):
            raise NotImplementedError("reduce_range with a symmetric qscheme of quint8")
        if reduce_range:
            _warn_program("reduce_range is deprecated; give quant_min and quant_max instead")
        self.qscheme, self.reduce_range = qscheme, reduce_range
        options = _factory_kwargs(factory_kwargs)
        self.register_buffer("eps", rushlight.tensor([eps], **options))
        self.has_customized_qrange: Any = quant_min is not None and quant_max is not None
        self.quant_min, self.quant_max = _range_of(quant_min, quant_max, dtype, reduce_range)

    def _calculate_qparams(self, min_val: Tensor, max_val: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scales (float32) and zero points with which the integers cover a range."""
        if not _check_range(min_val, max_val):
            return rushlight.tensor([1.0]), rushlight.tensor([0])
        steps = float(self.quant_max - self.quant_min)
        least, most = min_val.clamp(max=0), max_val.clamp(min=0)
        zero_point = rushlight.zeros(least.shape, dtype=rushlight.int64)
        if self.qscheme in (per_tensor_symmetric, per_channel_symmetric):
            scale = rushlight.maximum(rushlight.maximum(-least, most) / (steps / 2), self.eps)
            if self.dtype in (quint8, rushlight.uint8):
                middle = (self.quant_min + self.quant_max) // 2
                zero_point.fill_(middle if self.has_customized_qrange else 128)
            elif self.dtype is rushlight.uint16:
                zero_point.fill_(2**15)
        elif self.qscheme is per_channel_affine_float_qparams:
            scale = (max_val - min_val) / steps
            scale = rushlight.where(scale > self.eps, scale, 1.0)
            zero_point = -min_val / scale
        else:
            scale = rushlight.maximum((most - least) / steps, self.eps)
            zero_point = self.quant_min - (least / scale).round().to(rushlight.int32)
            zero_point = zero_point.clamp(self.quant_min, self.quant_max)
        return scale.reshape(-1), zero_point.reshape(-1)

    def reset_min_max_vals(self) -> None:
        """Forget the range that was seen, where an observer keeps one."""
        raise NotImplementedError(
            f"{type(self).__name__}.reset_min_max_vals: this observer does not reset its range"
        )


def _check_range(min_val, max_val):
    empty = min_val.numel() == 0 or max_val.numel() == 0
    if empty or (min_val.dim() == 0 and min_val == _INF and max_val == -_INF):
        _warn_program(
            "calculate_qparams: the observer has seen no tensor; scale 1 and zero point 0 are "
            "returned",
        )
        return False
    if (min_val > max_val).any():
        raise AssertionError(f"min {min_val} should be less than max {max_val}")
    return True


class MinMaxObserver(UniformQuantizationObserverBase):
    """Chooses from the least and largest element of all tensors seen.

    Example:
        >>> from rushlight.ao.quantization import MinMaxObserver
        >>> observer = MinMaxObserver()
        >>> _ = observer(rushlight.tensor([-1.0, 1.55]))
        >>> observer.calculate_qparams()
        (tensor([0.0100]), tensor([100], dtype=torch.int32))
    """

    _allowed = _PER_TENSOR
    min_val: Tensor
    max_val: Tensor

    def __init__(
        self,
        dtype: Any = quint8,
        qscheme: _qscheme = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: Any = None,
        eps: float = _EPS,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic,
            **kwargs,
        )  # fmt: skip
        options = _factory_kwargs(factory_kwargs)
        self.register_buffer("min_val", rushlight.tensor(_INF, **options))
        self.register_buffer("max_val", rushlight.tensor(-_INF, **options))

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            with rushlight.no_grad():
                self._update(*x_orig.detach().to(self.min_val.dtype).aminmax())
        return x_orig

    def _update(self, least, most):
        self.min_val.copy_(rushlight.minimum(least, self.min_val))
        self.max_val.copy_(rushlight.maximum(most, self.max_val))

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return scale and zero point, each of shape (1,)."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self) -> None:
        """Forget what was seen."""
        self.min_val.fill_(_INF)
        self.max_val.fill_(-_INF)


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Chooses from moving averages of the least and largest elements.

    Args:
        averaging_constant: the weight of a new tensor's range, from 0 to 1.
    """

    def __init__(
        self,
        averaging_constant: float = 0.01,
        dtype: Any = quint8,
        qscheme: _qscheme = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = _EPS,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if is_dynamic and averaging_constant != 1:
            raise NotImplementedError(
                "MovingAverageMinMaxObserver: is_dynamic needs averaging_constant=1, got "
                f"{averaging_constant}"
            )
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps, is_dynamic=is_dynamic,
            **kwargs,
        )  # fmt: skip
        self.averaging_constant = averaging_constant

    def _update(self, least, most):
        fresh = self.min_val == _INF and self.max_val == -_INF
        for running, now in ((self.min_val, least), (self.max_val, most)):
            running.copy_(now if fresh else running + self.averaging_constant * (now - running))


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """Chooses for each index of a dim from its least and largest element.

    Args:
        ch_axis: the dim of the channels.
    """

    _allowed = _PER_CHANNEL
    min_val: Tensor
    max_val: Tensor

    def __init__(
        self,
        ch_axis: int = 0,
        dtype: Any = quint8,
        qscheme: _qscheme = per_channel_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: Any = None,
        eps: float = _EPS,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if is_dynamic:
            raise NotImplementedError(f"{type(self).__name__}: is_dynamic is not supported")
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic,
            **kwargs,
        )  # fmt: skip
        self.ch_axis = ch_axis
        options = _factory_kwargs(factory_kwargs)
        self.register_buffer("min_val", rushlight.tensor([], **options))
        self.register_buffer("max_val", rushlight.tensor([], **options))

    def forward(self, x_orig: Tensor) -> Tensor:
        if x_orig.numel():
            with rushlight.no_grad():
                x = x_orig.detach().to(self.min_val.dtype)
                least, most = x.transpose(self.ch_axis, 0).flatten(1).aminmax(dim=1)
                if self.min_val.numel():
                    least, most = self._merge(least, most)
                self._take_shape(least.shape)
                self.min_val.copy_(least)
                self.max_val.copy_(most)
        return x_orig

    def _merge(self, least, most):
        return rushlight.minimum(least, self.min_val), rushlight.maximum(most, self.max_val)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return scales and zero points, one of each per channel."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self) -> None:
        """Forget what was seen."""
        self._take_shape((0,))

    def _take_shape(self, shape):
        """Give both buffers new memory where their shape changes: a state dict may hold the old."""
        for value in (self.min_val, self.max_val):
            if value.shape != shape:
                value.data = value.new_empty(shape)

    def _load_from_state_dict(self, state_dict, prefix, *rest):
        if prefix + "min_val" in state_dict:
            self._take_shape(state_dict[prefix + "min_val"].shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Chooses for each index of a dim from moving averages of its least and largest element.

    Args:
        averaging_constant: the weight of a new tensor's range, from 0 to 1.
        ch_axis: the dim of the channels.
    """

    def __init__(
        self,
        averaging_constant: float = 0.01,
        ch_axis: int = 0,
        dtype: Any = quint8,
        qscheme: _qscheme = per_channel_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = _EPS,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            ch_axis, dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps,
            is_dynamic=is_dynamic, **kwargs,
        )  # fmt: skip
        self.averaging_constant = averaging_constant

    def _merge(self, least, most):
        constant = self.averaging_constant
        return (
            self.min_val + constant * (least - self.min_val),
            self.max_val + constant * (most - self.max_val),
        )


class HistogramObserver(UniformQuantizationObserverBase):
    """Chooses the range with the least squared error over a histogram of the elements.

    Args:
        bins: how many bins the histogram has.
    """

    _allowed = _PER_TENSOR
    _halves_symmetric_quint8 = True
    histogram: Tensor
    min_val: Tensor
    max_val: Tensor

    def __init__(
        self,
        bins: int = 2048,
        dtype: Any = quint8,
        qscheme: _qscheme = per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: Any = None,
        eps: float = _EPS,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if is_dynamic:
            raise NotImplementedError("HistogramObserver: is_dynamic is not supported")
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic,
            **kwargs,
        )  # fmt: skip
        options = _factory_kwargs(factory_kwargs)
        self.bins = bins
        self.register_buffer("histogram", rushlight.zeros(bins, **options))
        self.register_buffer("min_val", rushlight.tensor(_INF, **options))
        self.register_buffer("max_val", rushlight.tensor(-_INF, **options))
        least, most = _RANGES[dtype][0]
        self.dst_nbins: Any = most - least + 1
        self.upsample_rate = 16

    def reset_histogram(self, x: Tensor, min_val: Tensor, max_val: Tensor) -> None:
        """Forget what was seen, and begin with a tensor.

        Args:
            x: the tensor.
            min_val, max_val: the range of the histogram; elements outside are left out.
        """
        if min_val.numel() != 1 or max_val.numel() != 1:
            raise AssertionError("histogram min/max values must be scalar.")
        _set_values(self.min_val, min_val)
        _set_values(self.max_val, max_val)
        counts = rushlight.histc(x.detach(), self.bins, min_val.item(), max_val.item())
        self.histogram.copy_(counts)

    def forward(self, x_orig: Tensor) -> Tensor:
        if not x_orig.numel():
            return x_orig
        with rushlight.no_grad():
            x = x_orig.detach()
            least, most = x.aminmax()
            if least == -_INF or most == _INF:
                _warn_program("HistogramObserver: infinite elements are left out")
                x = x[x.abs() != _INF]
                if not x.numel():
                    return x_orig
                least, most = x.aminmax()
            self._add(x, least, most)
        return x_orig

    def _add(self, x, least, most):
        if self.min_val == _INF or self.max_val == -_INF:
            histogram = rushlight.histc(x, self.bins, least.item(), most.item())
        else:
            least = rushlight.minimum(self.min_val, least)
            most = rushlight.maximum(self.max_val, most)
            histogram = rushlight.histc(x, self.bins, least.item(), most.item())
            histogram = histogram + self._spread(least, most)
        self.histogram.copy_(histogram)
        self.min_val.copy_(least)
        self.max_val.copy_(most)

    def _spread(self, least, most):
        """The histogram so far, in the bins of a range that contains its own."""
        if least == self.min_val and most == self.max_val:
            return self.histogram
        if self.min_val == self.max_val:
            one = rushlight.histc(self.min_val, self.bins, least.item(), most.item())
            return one * self.histogram.sum()
        fine = self.bins * self.upsample_rate
        counts = self.histogram.repeat_interleave(self.upsample_rate) / self.upsample_rate
        width = (self.max_val - self.min_val) / fine
        edges = rushlight.linspace(self.min_val.item(), self.max_val.item(), fine + 1)
        middles = edges[:-1] + 0.5 * width
        bounds = rushlight.linspace(least.item(), most.item(), self.bins + 1)
        places = (rushlight.bucketize(middles, bounds, right=True) - 1).clamp(0, self.bins - 1)
        return rushlight.bincount(places, weights=counts, minlength=self.bins)

    def _error(self, first, last):
        """The squared error of steps that cover these bins, elements even within each bin."""
        width = (self.max_val.item() - self.min_val.item()) / self.bins
        step = width * (last - first + 1) / self.dst_nbins
        if step == 0.0:
            return 0.0
        begin = (rushlight.arange(self.bins) - first) * width
        end = begin + width
        limits = (0, self.dst_nbins - 1)
        step_of_begin = rushlight.div(begin, step, rounding_mode="floor").clamp(*limits)
        step_of_end = rushlight.div(end, step, rounding_mode="floor").clamp(*limits)
        density = self.histogram / width

        def norm(a, b):  # of the distance to a step's middle, from a to b
            return density * ((b * b * b - a * a * a) / 3)

        half = rushlight.ones(self.bins) * (step / 2)
        total = rushlight.zeros(self.bins)
        total += norm(begin - (step_of_begin + 0.5) * step, half)
        total += (step_of_end - step_of_begin - 1) * norm(
            rushlight.tensor(-step / 2), rushlight.tensor(step / 2)
        )
        total += norm(rushlight.tensor(-step / 2), end - (step_of_end * step + step / 2))
        return total.sum().item()

    def _search(self):
        """The range with the least error, narrowed from the side that leaves more bins out."""
        width = (self.max_val - self.min_val) / self.bins
        # As torch compares: sums in float32 with products rounded to it.
        sums = self.histogram.cumsum(0).tolist()
        total = self.histogram.sum().item()
        low, high, step = 0.0, 1.0, 1e-5
        first, last, least_error = 0, self.bins - 1, _INF
        while low < high:
            next_low, next_high = low + step, high - step
            left, right = first, last
            least, most = _to_float32(next_low * total), _to_float32(next_high * total)
            while left < last and sums[left] < least:
                left += 1
            while right > first and sums[right] > most:
                right -= 1
            begin, end = first, last
            if left - first > last - right:
                begin, low = left, next_low
            else:
                end, high = right, next_high
            if (begin, end) == (first, last):
                continue
            error = self._error(begin, end)
            if error > least_error:
                break
            least_error, first, last = error, begin, end
        return self.min_val + width * first, self.min_val + width * (last + 1)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return scale and zero point, each of shape (1,)."""
        if self.min_val == _INF and self.max_val == -_INF:
            return self._calculate_qparams(self.min_val, self.max_val)
        return self._calculate_qparams(*self._search())

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}"


def _to_float32(number):
    import ctypes

    return ctypes.c_float(number).value


class FixedQParamsObserver(ObserverBase):
    """Has a scale and zero point that are given, for results of a known range such as sigmoid's.

    Args:
        scale: of one step.
        zero_point: the integer that stands for 0.
    """

    quant_min: int
    quant_max: int
    qscheme: Any

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self,
        scale: float,
        zero_point: int,
        dtype: Any = quint8,
        qscheme: _qscheme = per_tensor_affine,
        quant_min: int = 0,
        quant_max: int = 255,
        is_dynamic: bool = False,
        **kwargs: Any,
    ) -> None:
        if is_dynamic:
            raise NotImplementedError("FixedQParamsObserver: is_dynamic is not supported")
        super().__init__(dtype, is_dynamic, **kwargs)
        self.quant_min, self.quant_max, self.qscheme = quant_min, quant_max, qscheme
        self.register_buffer("scale", rushlight.tensor([scale]))
        self.register_buffer("zero_point", rushlight.tensor([zero_point], dtype=rushlight.int32))

    def forward(self, X: Tensor) -> Tensor:
        return X

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return the scale and zero point that were given."""
        return self.scale, self.zero_point


class PlaceholderObserver(ObserverBase):
    """Watches nothing and says what dtype is wanted, for dynamic quantization."""

    quant_min: int | None
    quant_max: int | None

    def __init__(
        self,
        dtype: Any = rushlight.float32,
        custom_op_name: str = "",
        compute_dtype: Any = None,
        quant_min: int | None = None,
        quant_max: int | None = None,
        qscheme: _qscheme | None = None,
        eps: float | None = None,
        is_dynamic: bool = False,
    ) -> None:
        super().__init__(dtype, is_dynamic or bool(compute_dtype))
        self.qscheme: Any = qscheme or per_tensor_affine
        self.quant_min, self.quant_max = quant_min, quant_max
        self.eps: Any = _EPS if eps is None else eps
        self.custom_op = custom_op_name
        if compute_dtype:
            _warn_program("compute_dtype is deprecated; give is_dynamic instead")

    def forward(self, x: Tensor) -> Tensor:
        return x

    def extra_repr(self) -> str:
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"


class RecordingObserver(ObserverBase):
    """Keeps a copy of each tensor it sees."""

    def __init__(self, dtype: Any = quint8) -> None:
        super().__init__(dtype)
        self.tensor_val: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.tensor_val.append(x.clone())
        return x

    def get_tensor_value(self) -> list[Tensor]:
        """Return the copies, in order."""
        return self.tensor_val


class NoopObserver(ObserverBase):
    """Watches nothing."""

    def __init__(self, dtype: Any = rushlight.float16, custom_op_name: str = "") -> None:
        super().__init__(dtype)
        self.custom_op = custom_op_name

    def forward(self, x: Tensor) -> Tensor:
        return x


class ReuseInputObserver(ObserverBase):
    """Marks a result that has its input's scale and zero point."""

    def __init__(self) -> None:
        super().__init__(quint8)

    def forward(self, x: Tensor) -> Tensor:
        return x


default_observer: Any = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_weight_observer: Any = MinMaxObserver.with_args(dtype=qint8, qscheme=per_tensor_symmetric)
weight_observer_range_neg_127_to_127: Any = MinMaxObserver.with_args(
    dtype=qint8, qscheme=per_tensor_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
default_histogram_observer: Any = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_per_channel_weight_observer: Any = PerChannelMinMaxObserver.with_args(
    dtype=qint8, qscheme=per_channel_symmetric
)
per_channel_weight_observer_range_neg_127_to_127: Any = PerChannelMinMaxObserver.with_args(
    dtype=qint8, qscheme=per_channel_symmetric, quant_min=-127, quant_max=127, eps=2**-12
)
default_dynamic_quant_observer: Any = PlaceholderObserver.with_args(
    dtype=quint8, quant_min=0, quant_max=255, is_dynamic=True
)
default_float_qparams_observer: Any = PerChannelMinMaxObserver.with_args(
    dtype=quint8, qscheme=per_channel_affine_float_qparams, ch_axis=0
)
default_float_qparams_observer_4bit: Any = PerChannelMinMaxObserver.with_args(
    dtype=quint4x2, qscheme=per_channel_affine_float_qparams, ch_axis=0
)
default_fixed_qparams_range_neg1to1_observer: Any = FixedQParamsObserver.with_args(
    scale=2.0 / 256, zero_point=128, dtype=quint8, quant_min=0, quant_max=255
)
default_fixed_qparams_range_0to1_observer: Any = FixedQParamsObserver.with_args(
    scale=1.0 / 256, zero_point=0, dtype=quint8, quant_min=0, quant_max=255
)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
default_reuse_input_observer = ReuseInputObserver


def _with_args(cls, **kwargs):
    return _PartialWrapper(functools.partial(cls, **kwargs))


AffineQuantizedObserverBase.with_args = classmethod(_with_args)
_set_module(
    __name__, AffineQuantizedObserverBase, Granularity, MappingType, PerAxis, PerBlock, PerGroup,
    PerRow, PerTensor, PerToken, TorchAODType, ZeroPointDomain, get_block_size,
)  # fmt: skip


def _is_activation_post_process(module: Any) -> bool:
    from rushlight.ao.quantization.fake_quantize import FakeQuantizeBase

    return isinstance(module, (ObserverBase, FakeQuantizeBase, AffineQuantizedObserverBase))


def get_observer_state_dict(mod: Module) -> dict[str, Any]:
    """Return the part of a prepared model's state that is of its observers."""
    state = mod.state_dict()
    found = type(state)(
        (name, value) for name, value in state.items() if "activation_post_process" in name
    )
    found._metadata = state._metadata
    return found


def load_observer_state_dict(mod: Module, obs_dict: dict[str, Any]) -> None:
    """Give the observers of a prepared model the state that `get_observer_state_dict` returned.

    Raises:
        RuntimeError: the state lacks an observer, or has another's.
    """
    missing: list[str] = []
    unexpected: list[str] = []
    for name, module in mod.named_modules():
        if _is_activation_post_process(module):
            rest = (missing, unexpected, [])
            module._load_from_state_dict(obs_dict, f"{name}.", {}, False, *rest)
    for what, names in (("no", missing), ("an unexpected", unexpected)):
        names = [name for name in names if "activation_post_process" in name]
        if names:
            raise RuntimeError(f"load_observer_state_dict: {what} observer {names[0]}")


__all__ = [
    "AffineQuantizedObserverBase", "FixedQParamsObserver", "Granularity", "HistogramObserver",
    "MappingType", "MinMaxObserver", "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver", "NoopObserver", "ObserverBase", "PerAxis", "PerBlock",
    "PerChannelMinMaxObserver", "PerGroup", "PerRow", "PerTensor", "PerToken",
    "PlaceholderObserver", "RecordingObserver", "ReuseInputObserver", "TorchAODType",
    "UniformQuantizationObserverBase", "ZeroPointDomain", "default_affine_fixed_qparams_observer",
    "default_debug_observer", "default_dynamic_quant_observer",
    "default_fixed_qparams_range_0to1_observer", "default_fixed_qparams_range_neg1to1_observer",
    "default_float_qparams_observer", "default_float_qparams_observer_4bit",
    "default_histogram_observer", "default_observer", "default_per_channel_weight_observer",
    "default_placeholder_observer", "default_reuse_input_observer",
    "default_symmetric_fixed_qparams_observer", "default_weight_observer", "get_block_size",
    "get_observer_state_dict", "load_observer_state_dict",
    "per_channel_weight_observer_range_neg_127_to_127", "weight_observer_range_neg_127_to_127",
]  # fmt: skip
