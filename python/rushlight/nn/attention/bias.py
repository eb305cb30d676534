"""Causal masks of attention for queries and keys of different numbers, named by their corner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

import rushlight
from rushlight._ignored import warn_program as _warn_program
from rushlight.nn import functional as F

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """The corner in which the diagonal of a causal mask ends or begins."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(rushlight.Tensor):
    """The `attn_mask` of `scaled_dot_product_attention` that stands for a causal mask.

    Args:
        variant: with UPPER_LEFT the first query sees the first key alone; with LOWER_RIGHT the
            last query sees all of them.
        seq_len_q: the number of queries.
        seq_len_kv: the number of keys.
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> Self:
        return rushlight.Tensor._make_subclass(cls, rushlight.empty(seq_len_q, seq_len_kv))

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"CausalBias: expected a CausalVariant but got {variant!r}")
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant is CausalVariant.LOWER_RIGHT:
            _warn_program(
                "Lower right causal bias will produce NaNs in the output when seq_len_q > "
                "seq_len_kv!"
            )

    def _materialize(self, device=None):
        """The mask, True where a query may see a key."""
        lower_right = self.variant is CausalVariant.LOWER_RIGHT
        shape = self.seq_len_q, self.seq_len_kv
        diagonal = self.seq_len_kv - self.seq_len_q if lower_right else 0
        return rushlight.ones(shape, dtype=rushlight.bool, device=device).tril(diagonal)

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type[Any]],
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        if func is not F.scaled_dot_product_attention:
            return super().__torch_function__(func, types, args, kwargs)
        return cls._attention(*args, **(kwargs or {}))

    @staticmethod
    def _attention(
        query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
        enable_gqa=False,
    ):  # fmt: skip
        if is_causal:
            raise ValueError("CausalBias should not be used with causal=True")
        upper_left = attn_mask.variant is CausalVariant.UPPER_LEFT
        is_causal = upper_left or attn_mask.seq_len_q == attn_mask.seq_len_kv
        return F.scaled_dot_product_attention(
            query, key, value, None if is_causal else attn_mask._materialize(query.device),
            dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa,
        )  # fmt: skip

    def __repr__(self) -> str:
        return self._materialize().__repr__()


def causal_upper_left(*size: Any) -> CausalBias:
    """The causal mask of (queries, keys) whose diagonal begins at the first query and key."""
    return _of_size("causal_upper_left", CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size: Any) -> CausalBias:
    """The causal mask of (queries, keys) whose diagonal ends at the last query and key."""
    return _of_size("causal_lower_right", CausalVariant.LOWER_RIGHT, size)


def _of_size(name, variant, size):
    if len(size) != 2:
        raise AssertionError(f"{name} only supports 2D tensors")
    return CausalBias(variant, *size)
