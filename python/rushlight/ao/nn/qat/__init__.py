"""Layers whose weights are rounded to quantized steps while they are trained."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight._module_paths import add_modules as _add_modules
from rushlight.nn import functional as F
from rushlight.nn.modules import conv as _conv, linear as _linear, sparse as _sparse
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.nn.utils import parametrize as _parametrize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

_CONV_OPTIONS = (
    "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups",
)  # fmt: skip


def conv_options(layer: Module) -> dict[str, Any]:
    """Return the arguments with which a convolution was made."""
    options = {name: getattr(layer, name) for name in _CONV_OPTIONS}
    return {**options, "bias": layer.bias is not None, "padding_mode": layer.padding_mode}


def check_source(kind: type[Module], layer: Module) -> Any:
    """Return the qconfig of a layer that `kind.from_float` takes."""
    if _parametrize.type_before_parametrizations(layer) is not kind._FLOAT_MODULE:
        raise AssertionError(
            f"{kind.__name__}.from_float: expected {kind._FLOAT_MODULE.__name__}, got "
            f"{type(layer).__name__}"
        )
    if not getattr(layer, "qconfig", None):
        raise AssertionError(f"{kind.__name__}.from_float: the layer has no qconfig")
    return layer.qconfig


def share_parameters(source: Module, layer: Module) -> None:
    """Give `layer` the parameters of `source`, or its parametrizations with their originals."""
    for name in ("weight", "bias"):
        if _parametrize.is_parametrized(source, name):
            _parametrize.transfer_parametrizations_and_params(source, layer, name)
        else:
            setattr(layer, name, getattr(source, name))


def _set_float_parameters(layer, source):
    """Give a plain layer the weight, of which a parametrization may have made it, and the bias."""
    layer.weight = Parameter(source.weight.detach())
    layer.bias = None if source.bias is None else Parameter(source.bias.detach())


def check_qconfig(kind: type[Module], qconfig: Any) -> None:
    """Raise an error where a layer is made without a qconfig."""
    if not qconfig:
        raise AssertionError(f"{kind.__name__}: qconfig must be provided for QAT module")


class Linear(_linear.Linear):
    """`nn.Linear` whose weight passes `qconfig.weight()`."""

    _FLOAT_MODULE = _linear.Linear

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        qconfig: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        check_qconfig(type(self), qconfig)
        super().__init__(in_features, out_features, bias, device=device, dtype=dtype)
        self.qconfig = qconfig
        self.weight_fake_quant: Any = qconfig.weight()

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return such a layer that shares the parameters of an `nn.Linear` with a qconfig."""
        qconfig = check_source(cls, mod)
        mod = mod if isinstance(mod, _linear.Linear) else mod[0]
        layer = cls(mod.in_features, mod.out_features, mod.bias is not None, qconfig)
        share_parameters(mod, layer)
        return layer

    def to_float(self) -> Module:
        """Return an `nn.Linear` with the same parameters."""
        layer = _linear.Linear(self.in_features, self.out_features, self.bias is not None)
        _set_float_parameters(layer, self)
        return layer.train(self.training)


class _QatConv:
    """What convolutions with a fake-quantized weight have in common."""

    def __init__(self, *args: Any, qconfig: Any = None, **kwargs: Any) -> None:
        check_qconfig(type(self), qconfig)
        super().__init__(*args, **kwargs)
        self.qconfig = qconfig
        self.weight_fake_quant: Any = qconfig.weight()

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return such a layer that shares the parameters of a convolution with a qconfig."""
        qconfig = check_source(cls, mod)
        mod = mod if isinstance(mod, _conv._ConvNd) else mod[0]
        layer = cls(**conv_options(mod), qconfig=qconfig)
        share_parameters(mod, layer)
        return layer

    def to_float(self) -> Module:
        """Return a convolution with the same parameters."""
        kind = {1: _conv.Conv1d, 2: _conv.Conv2d, 3: _conv.Conv3d}[self.weight.dim() - 2]
        layer = kind(**conv_options(self))
        _set_float_parameters(layer, self)
        return layer.train(self.training)


class Conv1d(_QatConv, _conv.Conv1d):
    """`nn.Conv1d` whose weight passes `qconfig.weight()`."""

    _FLOAT_MODULE = _conv.Conv1d


class Conv2d(_QatConv, _conv.Conv2d):
    """`nn.Conv2d` whose weight passes `qconfig.weight()`."""

    _FLOAT_MODULE = _conv.Conv2d


class Conv3d(_QatConv, _conv.Conv3d):
    """`nn.Conv3d` whose weight passes `qconfig.weight()`."""

    _FLOAT_MODULE = _conv.Conv3d


def _check_embedding_weight(kind, qconfig):
    check_qconfig(kind, qconfig)
    observer = qconfig.weight()
    floats = "per_channel_affine_float_qparams"
    if floats not in str(observer.qscheme):
        raise AssertionError(
            f"{kind.__name__}: the weight's observer must have qscheme {floats}, got "
            f"{observer.qscheme}"
        )
    return observer


class Embedding(_sparse.Embedding):
    """`nn.Embedding` whose weight passes `qconfig.weight()`."""

    _FLOAT_MODULE = _sparse.Embedding

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        device: Any = None,
        dtype: Any = None,
        qconfig: Any = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq,
            sparse, _weight, device=device, dtype=dtype,
        )  # fmt: skip
        self.qconfig = qconfig
        self.weight_fake_quant: Any = _check_embedding_weight(type(self), qconfig)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight_fake_quant(self.weight), self.padding_idx, self.max_norm,
            self.norm_type, self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return such a layer that shares the weight of an `nn.Embedding` with a qconfig."""
        qconfig = check_source(cls, mod)
        layer = cls(
            mod.num_embeddings, mod.embedding_dim, mod.padding_idx, mod.max_norm, mod.norm_type,
            mod.scale_grad_by_freq, mod.sparse, mod.weight, qconfig=qconfig,
        )  # fmt: skip
        layer.weight = mod.weight
        return layer

    def to_float(self) -> Module:
        """Return an `nn.Embedding` with the same weight."""
        layer = _sparse.Embedding(
            self.num_embeddings, self.embedding_dim, self.padding_idx, self.max_norm,
            self.norm_type, self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip
        layer.weight = rushlight.nn.Parameter(self.weight.detach())
        return layer.train(self.training)


class EmbeddingBag(_sparse.EmbeddingBag):
    """`nn.EmbeddingBag` whose weight passes `qconfig.weight()`."""

    _FLOAT_MODULE = _sparse.EmbeddingBag

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        qconfig: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
            _weight, include_last_offset, padding_idx, device=device, dtype=dtype,
        )  # fmt: skip
        self.qconfig = qconfig
        self.weight_fake_quant: Any = _check_embedding_weight(type(self), qconfig)

    def forward(
        self,
        input: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ) -> Tensor:
        return F.embedding_bag(
            input, self.weight_fake_quant(self.weight), offsets, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights,
            self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return such a layer that shares the weight of an `nn.EmbeddingBag` with a qconfig."""
        qconfig = check_source(cls, mod)
        layer = cls(
            mod.num_embeddings, mod.embedding_dim, mod.max_norm, mod.norm_type,
            mod.scale_grad_by_freq, mod.mode, mod.sparse, mod.weight, mod.include_last_offset,
            mod.padding_idx, qconfig=qconfig,
        )  # fmt: skip
        layer.weight = mod.weight
        return layer

    def to_float(self) -> Module:
        """Return an `nn.EmbeddingBag` with the same weight."""
        layer = _sparse.EmbeddingBag(
            self.num_embeddings, self.embedding_dim, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.mode, self.sparse, None, self.include_last_offset,
            self.padding_idx,
        )  # fmt: skip
        layer.weight = rushlight.nn.Parameter(self.weight.detach())
        return layer.train(self.training)


def __getattr__(name: str) -> Any:
    if name == "dynamic":
        import importlib

        return importlib.import_module("rushlight.ao.nn.qat.dynamic")
    raise AttributeError(f"module 'rushlight.ao.nn.qat' has no attribute {name!r}")


__all__ = ["Conv1d", "Conv2d", "Conv3d", "Embedding", "EmbeddingBag", "Linear"]

_add_modules(
    __name__,
    {
        "modules": "*",
        "modules.conv": "Conv1d Conv2d Conv3d",
        "modules.embedding_ops": "Embedding EmbeddingBag",
        "modules.linear": "Linear",
    },
)
