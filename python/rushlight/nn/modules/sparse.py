"""Embedding tables."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F, init
from rushlight.nn.modules._printing import _changed_options
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.types import Device, _dtype

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """A table of vectors, looked up by index."""

    def _make_weight(self, given, padding_idx, freeze, device, dtype):
        shape = [self.num_embeddings, self.embedding_dim]
        if padding_idx is not None:
            if not -self.num_embeddings <= padding_idx < self.num_embeddings:
                raise AssertionError(
                    "padding_idx must be within num_embeddings, which is "
                    f"{self.num_embeddings}, but got {padding_idx}"
                )
            padding_idx %= self.num_embeddings
        self.padding_idx: Any = padding_idx
        if given is None:
            weight = rushlight.empty(shape, device=device, dtype=dtype)
            self.weight = Parameter(weight, requires_grad=not freeze)
            self.reset_parameters()
            return
        if list(given.shape) != shape:
            raise AssertionError(f"_weight: expected shape {shape} but got {list(given.shape)}")
        self.weight: Parameter = Parameter(given, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self):
        if self.padding_idx is not None:
            with rushlight.no_grad():
                self.weight[self.padding_idx].fill_(0)


def _table_shape(embeddings):
    if embeddings.dim() != 2:
        raise AssertionError(f"embeddings: expected 2 dims but got {embeddings.dim()}")
    return embeddings.shape


class Embedding(_Table):
    """A table of `num_embeddings` vectors of size `embedding_dim`, looked up by index.

    Args:
        padding_idx: the row that starts at zero and gets no gradient.
        max_norm: rows looked up are first scaled to at most this norm, in place.
        norm_type: the p of that norm.
        scale_grad_by_freq: divide gradients by how often the index occurs in the batch.
        sparse: make the gradient a sparse tensor.

    Shape:
        (*) of integers to (*, embedding_dim). The rows start normal with variance 1.
    """

    __constants__: list[str] = [
        "num_embeddings",
        "embedding_dim",
        "padding_idx",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "sparse",
    ]

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
        _freeze: bool = False,
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self._make_weight(_weight, padding_idx, _freeze, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        changed = _changed_options(
            self,
            padding_idx=None,
            max_norm=None,
            norm_type=2,
            scale_grad_by_freq=False,
            sparse=False,
        )
        return ", ".join([f"{self.num_embeddings}, {self.embedding_dim}", *changed])

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        padding_idx: Any = None,
        max_norm: Any = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Any:
        """A table of given vectors, (num_embeddings, embedding_dim); not trained if `freeze`."""
        return cls(
            *_table_shape(embeddings),
            _weight=embeddings,
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )


class EmbeddingBag(_Table):
    """Sums, means or maxima of bags of embeddings, without the vectors in between.

    Args:
        mode: "sum", "mean" or "max".
        include_last_offset: whether `offsets` ends with the total number of indices.
        padding_idx: the row that starts at zero and does not count in a bag.
        max_norm, norm_type, scale_grad_by_freq, sparse: as in `Embedding`.

    Shape:
        (B, N) indices, or (N,) with the bags' starts in `offsets`, to (B, embedding_dim).
    """

    __constants__: list[str] = [
        "num_embeddings",
        "embedding_dim",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "mode",
        "sparse",
        "include_last_offset",
        "padding_idx",
    ]

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
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self._make_weight(_weight, padding_idx, False, device, dtype)

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        parts += _changed_options(self, max_norm=None, norm_type=2, scale_grad_by_freq=False)
        parts += [f"mode={self.mode!r}", *_changed_options(self, padding_idx=None)]
        return ", ".join(parts)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Bags over given vectors, (num_embeddings, embedding_dim); not trained if `freeze`."""
        bag = cls(
            *_table_shape(embeddings),
            _weight=embeddings,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        bag.weight.requires_grad = not freeze
        return bag
