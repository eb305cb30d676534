"""Layers that take and return quantized tensors.

`Linear` multiplies bytes. Convolutions compute in float32 between quantized tensors, so that their
results differ from integer arithmetic by at most a step, and are no faster than float32.
"""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._absent_dtypes import qint8, quint8
from rushlight._module_paths import add_modules as _add_modules
from rushlight._quantized._scalars import add_scalar, mul_scalar
from rushlight._quantized._tensor import QuantizedTensor, dequantize, plain
from rushlight.ao.nn.qat import _CONV_OPTIONS
from rushlight.ao.nn.quantized._activation import (
    ELU,
    Hardswish,
    LeakyReLU,
    MultiheadAttention,
    PReLU,
    ReLU6,
    Sigmoid,
    Softmax,
)
from rushlight.ao.nn.quantized._normalization import (
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
)
from rushlight.ao.nn.quantized._packed import (
    Float16Weight,
    PackedWeight,
    WeightedQuantizedModule,
    observed_weight,
    quantize_weight,
)
from rushlight.nn import functional as F
from rushlight.nn.modules import conv as _conv, linear as _linear
from rushlight.nn.modules.dropout import Dropout as _Dropout
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.pooling import MaxPool2d
from rushlight.nn.quantized import FloatFunctional, FXFloatFunctional

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self


def _need_quantized(layer, x):
    if not isinstance(x, QuantizedTensor):
        raise NotImplementedError(
            f"{type(layer).__name__}: input must be a quantized tensor, got one of {x.dtype}; put a"
            " QuantStub before the layer, or quantize_per_tensor"
        )


class Quantize(Module):
    """Quantizes a float32 tensor.

    Args:
        scale, zero_point, dtype: as of `quantize_per_tensor`.
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, scale: float, zero_point: int, dtype: Any, factory_kwargs: Any = None
    ) -> None:
        super().__init__()
        options = rushlight.nn.factory_kwargs(factory_kwargs)
        self.register_buffer("scale", rushlight.tensor([scale], **options))
        self.register_buffer("zero_point", rushlight.tensor([zero_point], dtype=rushlight.int64))
        self.dtype = dtype

    def forward(self, X: Tensor) -> QuantizedTensor:
        return rushlight.quantize_per_tensor(X, float(self.scale), int(self.zero_point), self.dtype)

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> Quantize:
        """Return what replaces a `QuantStub` that has been observed."""
        observer = mod.activation_post_process
        scale, zero_point = observer.calculate_qparams()
        return Quantize(scale.float().item(), int(zero_point), observer.dtype)

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}, dtype={self.dtype}"


class DeQuantize(Module):
    """Returns the float32 numbers of a quantized tensor."""

    def forward(self, Xq: Tensor) -> Tensor:
        return Xq.dequantize()

    @staticmethod
    def from_float(mod: Module, use_precomputed_fake_quant: bool = False) -> DeQuantize:
        """Return what replaces a `DeQuantStub`."""
        return DeQuantize()


class Dropout(_Dropout):
    """The identity: a quantized model is not trained."""

    def forward(self, input: Tensor) -> Tensor:
        return input

    def _get_name(self):
        return "QuantizedDropout"

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return what replaces an `nn.Dropout`."""
        return cls(mod.p, mod.inplace)

    @classmethod
    def from_reference(cls, mod: Module, scale: float, zero_point: int) -> Self:
        """Return what replaces an `nn.Dropout`; scale and zero point are its input's."""
        del scale, zero_point
        return cls(mod.p, mod.inplace)


class LinearPackedParams(Module):
    """The quantized weight and the bias of a `Linear`."""

    _version = 3

    def __init__(self, dtype: Any = qint8) -> None:
        super().__init__()
        if dtype not in (qint8, rushlight.float16):
            raise NotImplementedError(
                f"quantized Linear: dtype must be qint8 or float16, got {dtype}"
            )
        self.dtype: Any = dtype
        zeros = rushlight.zeros(1, 1)
        if dtype is qint8:
            zeros = rushlight.quantize_per_tensor(zeros, 1.0, 0, qint8)
        self.set_weight_bias(zeros, None)

    def set_weight_bias(self, weight: Tensor, bias: Tensor | None) -> None:
        """Take a weight (out, in), of qint8 or to become float16, and a float32 bias (out,)."""
        packed = PackedWeight if self.dtype is qint8 else Float16Weight
        self._packed_params = packed(weight, bias)

    def _weight_bias(self):
        return self._packed_params.weight, self._packed_params.bias

    def forward(self, x: Tensor) -> Tensor:
        return x

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_params"] = self._weight_bias()

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, *rest):
        self.dtype = state_dict.pop(prefix + "dtype")
        self.set_weight_bias(*state_dict.pop(prefix + "_packed_params"))
        super()._load_from_state_dict(state_dict, prefix, metadata, False, *rest)

    def __repr__(self) -> str:
        return repr(self._weight_bias())


class Linear(WeightedQuantizedModule):
    """`nn.Linear` of int8 weights, from a quantized tensor to a quantized one.

    Args:
        in_features, out_features: the sizes of the last dim.
        bias_: whether there is a bias.
        dtype: `qint8`.
    """

    in_features: int
    out_features: int

    _version = 3

    def __init__(
        self, in_features: int, out_features: int, bias_: bool = True, dtype: Any = qint8
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self._packed_params = LinearPackedParams(dtype)
        zeros = rushlight.zeros(out_features, in_features)
        if dtype is qint8:
            zeros = rushlight.quantize_per_tensor(zeros, 1.0, 0, qint8)
        self.set_weight_bias(zeros, rushlight.zeros(out_features) if bias_ else None)
        self._set_result(1.0, 0)

    def _get_name(self):
        return "QuantizedLinear"

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"scale={self.scale}, zero_point={self.zero_point}, qscheme={self.weight().qscheme()}"
        )

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    def forward(self, x: Tensor) -> Tensor:
        _need_quantized(self, x)
        return rushlight.quantize_per_tensor(self._product(x), self.scale, self.zero_point, x.dtype)

    def _product(self, x):
        packed = self._packed_params._packed_params
        if x.dtype is not quint8:
            raise NotImplementedError(
                f"{type(self).__name__}: input must be of quint8, got {x.dtype}"
            )
        rows = plain(x).reshape(-1, self.in_features)
        result = packed.product(rows, x.q_scale(), x.q_zero_point())
        return result.reshape(*x.shape[:-1], self.out_features)

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        self._save_result(destination, prefix)

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, *rest):
        self._load_result(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, metadata, False, *rest)

    def _weight_bias(self):
        return self._packed_params._weight_bias()

    def set_weight_bias(self, w: QuantizedTensor, b: Tensor | None) -> None:
        """Take a qint8 weight (out, in) and a float32 bias (out,)."""
        self._packed_params.set_weight_bias(w, b)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return what replaces a layer that was observed or trained with fake quantization."""
        weight, bias, source = observed_weight(mod, use_precomputed_fake_quant)
        layer = cls(source.in_features, source.out_features, **cls._more_options(mod))
        layer.set_weight_bias(weight, bias)
        layer._set_result(*mod.activation_post_process.calculate_qparams())
        return layer

    @classmethod
    def _more_options(cls, mod):
        return {}

    @classmethod
    def from_reference(
        cls, ref_qlinear: Module, output_scale: float, output_zero_point: int
    ) -> Self:
        """Return the layer with the quantized weight of a reference layer."""
        layer = cls(ref_qlinear.in_features, ref_qlinear.out_features)
        layer.set_weight_bias(ref_qlinear.get_quantized_weight(), ref_qlinear.bias)
        layer._set_result(output_scale, output_zero_point)
        return layer


class _ConvNd(WeightedQuantizedModule):
    """Convolutions of int8 weights."""

    _float_class: type[Module]
    _relu = False
    _options = _CONV_OPTIONS

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        plain_layer = self._float_class(*args, device="meta", **kwargs)
        if plain_layer.padding_mode not in ("zeros", "reflect"):
            raise NotImplementedError(
                f"{type(self).__name__}: padding_mode must be 'zeros' or 'reflect', got "
                f"{plain_layer.padding_mode!r}"
            )
        if isinstance(plain_layer.padding, str):
            raise NotImplementedError(f"{type(self).__name__}: padding must be numbers")
        for name in (*self._options, "padding_mode", "output_padding", "transposed"):
            setattr(self, name, getattr(plain_layer, name))
        shape, has_bias = plain_layer.weight.shape, plain_layer.bias is not None
        self.set_weight_bias(
            rushlight._make_per_tensor_quantized_tensor(
                rushlight.zeros(shape, dtype=rushlight.int8), 1.0, 0
            ),
            rushlight.zeros(self.out_channels) if has_bias else None,
        )
        self._set_result(1.0, 0)

    def _get_name(self):
        return f"Quantized{type(self).__name__}"

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, scale={self.scale}, zero_point={self.zero_point}"
        )
        dims = len(self.kernel_size)
        for name, usual in (
            ("padding", (0,) * dims), ("dilation", (1,) * dims), ("output_padding", (0,) * dims),
            ("groups", 1),
        ):  # fmt: skip
            if getattr(self, name, usual) != usual:
                text += f", {name}={getattr(self, name)}"
        return text if self._bias is not None else text + ", bias=False"

    def set_weight_bias(self, w: QuantizedTensor, b: Tensor | None) -> None:
        """Take a qint8 weight and a float32 bias (out_channels,)."""
        self._weight, self._bias = w, None if b is None else b.detach().float()

    def _weight_bias(self):
        return self._weight, self._bias

    def forward(self, input: Tensor) -> Tensor:
        _need_quantized(self, input)
        return self._finish(self._sum(input), input)

    def _sum(self, input):
        """The convolution in float32."""
        x = dequantize(input)
        padding = self.padding
        if self.padding_mode != "zeros":
            both = [n for size in reversed(self.padding) for n in (size, size)]
            x, padding = F.pad(x, both, self.padding_mode), 0
        return self._convolve(x, padding)

    def _finish(self, numbers, input):
        numbers = F.relu(numbers) if self._relu else numbers
        return rushlight.quantize_per_tensor(numbers, self.scale, self.zero_point, input.dtype)

    def _convolve(self, x, padding):
        convolve = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(self.kernel_size)]
        return convolve(
            x, dequantize(self._weight), self._bias, self.stride, padding, self.dilation,
            self.groups,
        )  # fmt: skip

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "weight"], destination[prefix + "bias"] = self._weight_bias()
        self._save_result(destination, prefix)

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, *rest):
        self.set_weight_bias(state_dict.pop(prefix + "weight"), state_dict.pop(prefix + "bias"))
        self._load_result(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, metadata, False, *rest)

    @classmethod
    def get_qconv(
        cls, mod: Module, activation_post_process: Any, weight_post_process: Any = None
    ) -> Self:
        """Return the layer with the weight of a convolution.

        Args:
            mod: the convolution, which has a qconfig if there is no `weight_post_process`.
            activation_post_process: an observer that has seen the results; None, or one of float32,
                for layers that need no scale of them.
            weight_post_process: an observer that is shown the weight.
        """
        observer = mod.qconfig.weight() if weight_post_process is None else weight_post_process
        observer(mod.weight)
        if observer.dtype is not qint8:
            raise AssertionError(
                f"Weight observer must have a dtype of qint8, got {observer.dtype}"
            )
        options = {name: getattr(mod, name) for name in cls._options}
        layer = cls(**options | {"bias": mod.bias is not None}, padding_mode=mod.padding_mode)
        layer.set_weight_bias(quantize_weight(mod.weight, observer), mod.bias)
        if activation_post_process is not None:
            if activation_post_process.dtype is not rushlight.float32:
                layer._set_result(*activation_post_process.calculate_qparams())
        return layer

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return what replaces a layer that was observed or trained with fake quantization."""
        weight, bias, source = observed_weight(mod, use_precomputed_fake_quant)
        options = {name: getattr(source, name) for name in cls._options}
        layer = cls(**options, padding_mode=source.padding_mode)
        layer.set_weight_bias(weight, bias)
        layer._set_result(*mod.activation_post_process.calculate_qparams())
        return layer

    @classmethod
    def from_reference(cls, ref_qconv: Module, output_scale: float, output_zero_point: int) -> Self:
        """Return the layer with the quantized weight of a reference layer."""
        options = {name: getattr(ref_qconv, name) for name in cls._options}
        layer = cls(**options, padding_mode=ref_qconv.padding_mode)
        layer.set_weight_bias(ref_qconv.get_quantized_weight(), ref_qconv.bias)
        layer._set_result(output_scale, output_zero_point)
        return layer


class Conv1d(_ConvNd):
    """`nn.Conv1d` of an int8 weight, from a quantized tensor to a quantized one."""

    _float_class = _conv.Conv1d


class Conv2d(_ConvNd):
    """`nn.Conv2d` of an int8 weight, from a quantized tensor to a quantized one."""

    _float_class = _conv.Conv2d


class Conv3d(_ConvNd):
    """`nn.Conv3d` of an int8 weight, from a quantized tensor to a quantized one."""

    _float_class = _conv.Conv3d


class _ConvTransposeNd(_ConvNd):
    """Transposed convolutions of int8 weights."""

    _options = (*_CONV_OPTIONS, "output_padding")

    def _convolve(self, x, padding):
        dims = len(self.kernel_size)
        convolve = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[dims]
        return convolve(
            x, dequantize(self._weight), self._bias, self.stride, padding, self.output_padding,
            self.groups, self.dilation,
        )  # fmt: skip


class ConvTranspose1d(_ConvTransposeNd):
    """`nn.ConvTranspose1d` of an int8 weight, from a quantized tensor to a quantized one."""

    _float_class = _conv.ConvTranspose1d


class ConvTranspose2d(_ConvTransposeNd):
    """`nn.ConvTranspose2d` of an int8 weight, from a quantized tensor to a quantized one."""

    _float_class = _conv.ConvTranspose2d


class ConvTranspose3d(_ConvTransposeNd):
    """`nn.ConvTranspose3d` of an int8 weight, from a quantized tensor to a quantized one."""

    _float_class = _conv.ConvTranspose3d


class EmbeddingPackedParams(Module):
    """The quantized weight of an `Embedding`."""

    _version = 1

    def __init__(self, num_embeddings: int, embedding_dim: int, dtype: Any = quint8) -> None:
        super().__init__()
        if dtype is not quint8:
            raise NotImplementedError(f"quantized Embedding: dtype must be quint8, got {dtype}")
        self.dtype: Any = dtype
        zeros = rushlight.zeros(num_embeddings, embedding_dim, dtype=rushlight.uint8)
        self.set_weight(
            rushlight._make_per_channel_quantized_tensor(
                zeros, rushlight.ones(num_embeddings), rushlight.zeros(num_embeddings), 0
            )
        )

    def set_weight(self, weight: QuantizedTensor) -> None:
        """Take a quint8 weight (num_embeddings, embedding_dim) with a scale per row."""
        if weight.dtype is not quint8 or weight.q_per_channel_axis() != 0:
            raise RuntimeError("quantized Embedding: weight must be quint8 with a scale per row")
        self._packed_weight = weight

    def forward(self, x: Tensor) -> Tensor:
        return x

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_weight"] = self._packed_weight

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, *rest):
        self.dtype = state_dict.pop(prefix + "dtype")
        self.set_weight(state_dict.pop(prefix + "_packed_weight"))
        super()._load_from_state_dict(state_dict, prefix, metadata, False, *rest)

    def __repr__(self) -> str:
        return repr(self._packed_weight)


class Embedding(Module):
    """`nn.Embedding` of bytes with a scale and zero point per row; its rows are float32."""

    num_embeddings: int
    embedding_dim: int

    _version = 1

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        dtype: Any = quint8,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx
        self.dtype = dtype
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)

    def forward(self, indices: Tensor) -> Tensor:
        weight = self.weight()
        rows = F.embedding(indices, plain(weight)).float()
        scale = weight.q_per_channel_scales()[indices].unsqueeze(-1)
        zero_point = weight.q_per_channel_zero_points()[indices].unsqueeze(-1)
        return (rows - zero_point) * scale

    def weight(self) -> QuantizedTensor:
        """Return the quantized weight."""
        return self._packed_params._packed_weight

    def set_weight(self, w: QuantizedTensor) -> None:
        """Take a quint8 weight (num_embeddings, embedding_dim) with a scale per row."""
        self._packed_params.set_weight(w)

    def _get_name(self):
        return "QuantizedEmbedding"

    def extra_repr(self) -> str:
        return (
            f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, "
            f"dtype={self.dtype}, qscheme={self.weight().qscheme()}"
        )

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Embedding:
        """Return what replaces an `nn.Embedding` with a qconfig."""
        if mod.max_norm is not None:
            raise NotImplementedError("quantized Embedding: max_norm is not supported")
        observer = getattr(mod, "weight_fake_quant", None) or mod.qconfig.weight()
        observer(mod.weight)
        layer = cls(mod.num_embeddings, mod.embedding_dim, mod.padding_idx)
        layer.set_weight(quantize_weight(mod.weight, observer))
        return layer

    @classmethod
    def from_reference(cls, ref_embedding: Module) -> Embedding:
        """Return the layer with the quantized weight of a reference layer.

        Args:
            ref_embedding: a layer of ao.nn.quantized.reference.
        """
        if ref_embedding.max_norm is not None:
            raise NotImplementedError("quantized Embedding: max_norm is not supported")
        layer = cls(
            ref_embedding.num_embeddings, ref_embedding.embedding_dim, ref_embedding.padding_idx,
            dtype=ref_embedding.weight_dtype,
        )  # fmt: skip
        layer.set_weight(ref_embedding.get_quantized_weight())
        return layer


class EmbeddingBag(Embedding):
    """`nn.EmbeddingBag`, of sums, with a weight of bytes with a scale and zero point per row.

    Args:
        include_last_offset: the last offset is the number of indices.
    """

    mode: str
    include_last_offset: bool

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "sum",
        sparse: bool = False,
        _weight: QuantizedTensor | None = None,
        include_last_offset: bool = False,
        dtype: Any = quint8,
    ) -> None:
        if mode != "sum" or max_norm is not None or norm_type != 2.0:
            raise NotImplementedError(
                f"quantized EmbeddingBag: mode={mode!r}, max_norm={max_norm}, "
                f"norm_type={norm_type}: sums of rows as they are, are there"
            )
        if scale_grad_by_freq or sparse:
            raise NotImplementedError("quantized EmbeddingBag: its weight has no gradient")
        super().__init__(num_embeddings, embedding_dim, dtype=dtype)
        self.mode, self.include_last_offset = mode, include_last_offset
        self.pruned_weights: bool = False  # each row of the weight is there
        if _weight is not None:
            self.set_weight(_weight)

    def forward(
        self,
        indices: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
        compressed_indices_mapping: Tensor | None = None,
    ) -> Tensor:
        if compressed_indices_mapping is not None:
            raise NotImplementedError("quantized EmbeddingBag: compressed_indices_mapping")
        return F.embedding_bag(
            indices, dequantize(self.weight()), offsets, mode="sum",
            per_sample_weights=per_sample_weights, include_last_offset=self.include_last_offset,
        )  # fmt: skip

    def _get_name(self):
        return "QuantizedEmbeddingBag"

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> EmbeddingBag:
        """Return what replaces an `nn.EmbeddingBag` with a qconfig."""
        observer = getattr(mod, "weight_fake_quant", None) or mod.qconfig.weight()
        if not use_precomputed_fake_quant:
            observer(mod.weight)
        layer = cls(
            mod.num_embeddings, mod.embedding_dim, mod.max_norm, mode=mod.mode,
            include_last_offset=mod.include_last_offset,
        )  # fmt: skip
        layer.set_weight(quantize_weight(mod.weight, observer))
        return layer

    @classmethod
    def from_reference(cls, ref_embedding_bag: Module) -> EmbeddingBag:
        """Return the layer with the quantized weight of a reference layer.

        Args:
            ref_embedding_bag: a layer of ao.nn.quantized.reference.
        """
        one = ref_embedding_bag
        return cls(
            one.num_embeddings, one.embedding_dim, one.max_norm, one.norm_type,
            one.scale_grad_by_freq, one.mode, one.sparse, one.get_quantized_weight(),
            one.include_last_offset, one.weight_dtype,
        )  # fmt: skip


class QFunctional(Module):
    """What replaces a `FloatFunctional`: sums, products and `cat` of quantized tensors."""

    scale: float
    zero_point: int

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.zero_point = 1.0, 0
        self.activation_post_process: Any = _linear.Identity()

    def _again(self, result, like):
        return self.activation_post_process(
            rushlight.quantize_per_tensor(result, self.scale, self.zero_point, like.dtype)
        )

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Return x + y."""
        return self._again(dequantize(x) + dequantize(y), x)

    def add_relu(self, x: Tensor, y: Tensor) -> Tensor:
        """Return relu(x + y)."""
        return self._again(F.relu(dequantize(x) + dequantize(y)), x)

    def mul(self, x: Tensor, y: Tensor) -> Tensor:
        """Return x * y."""
        return self._again(dequantize(x) * dequantize(y), x)

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """Return x @ y."""
        return self._again(dequantize(x) @ dequantize(y), x)

    def cat(self, x: list[Tensor], dim: int = 0) -> Tensor:
        """Return the tensors one after the other."""
        return self._again(rushlight.cat([dequantize(part) for part in x], dim), x[0])

    def add_scalar(self, x: Tensor, y: float) -> Tensor:
        """Return x + y, with the zero point moved."""
        return add_scalar(x, y)

    def mul_scalar(self, x: Tensor, y: float) -> Tensor:
        """Return x * y, with the scale multiplied."""
        return mul_scalar(x, y)

    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("QFunctional has no forward: call add, mul or another of its methods")

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = rushlight.tensor(self.scale)
        destination[prefix + "zero_point"] = rushlight.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, *rest):
        self.scale = float(state_dict.pop(prefix + "scale"))
        self.zero_point = int(state_dict.pop(prefix + "zero_point"))
        super()._load_from_state_dict(state_dict, prefix, metadata, False, *rest)

    def _get_name(self):
        return "QFunctional"

    def extra_repr(self) -> str:
        return f"scale={self.scale}, zero_point={self.zero_point}"

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> QFunctional:
        """Return what replaces an observed `FloatFunctional`."""
        layer = cls()
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        layer.scale, layer.zero_point = float(scale), int(zero_point)
        return layer


__all__ = [
    "BatchNorm2d", "BatchNorm3d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d",
    "ConvTranspose2d", "ConvTranspose3d", "DeQuantize", "Dropout", "ELU", "Embedding",
    "EmbeddingBag", "FXFloatFunctional", "FloatFunctional", "GroupNorm", "Hardswish",
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LSTM", "LayerNorm", "LeakyReLU",
    "Linear", "MultiheadAttention", "PReLU", "QFunctional", "Quantize", "ReLU6", "Sigmoid",
    "Softmax",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("dynamic", "functional", "reference"):
        return importlib.import_module(f"rushlight.ao.nn.quantized.{name}")
    if name == "LSTM":
        return importlib.import_module("rushlight.ao.nn.quantized._recurrent").LSTM
    raise AttributeError(
        f"module 'rushlight.ao.nn.quantized' has no attribute {name!r}; docs/quantization.md lists "
        "the layers that there are"
    )


def _quantize_weight(float_wt: Tensor, observer: Module) -> QuantizedTensor:
    """`quantize_weight`, which layers of other libraries call by this name."""
    return quantize_weight(float_wt, observer)


_add_modules(
    __name__,
    {
        "modules": "*",
        "modules.activation": (
            "ReLU6 Hardswish ELU LeakyReLU Sigmoid Softmax MultiheadAttention PReLU"
        ),
        "modules.batchnorm": "BatchNorm2d BatchNorm3d",
        "modules.conv": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
        "modules.dropout": "Dropout",
        "modules.embedding_ops": "EmbeddingPackedParams Embedding EmbeddingBag",
        "modules.functional_modules": "FloatFunctional FXFloatFunctional QFunctional",
        "modules.linear": "LinearPackedParams Linear",
        "modules.normalization": (
            "LayerNorm GroupNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d"
        ),
        "modules.rnn": "ao.nn.quantized._recurrent",
        "modules.utils": "WeightedQuantizedModule _quantize_weight",
    },
)
