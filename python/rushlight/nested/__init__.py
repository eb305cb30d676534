"""Batches of tensors whose sizes differ, in the layouts strided and jagged.

An operation on a nested tensor is computed for its tensors one by one; those without a rule raise
NotImplementedError by name.
"""

from __future__ import annotations

from rushlight.nested._tensor import (
    as_nested_tensor,
    masked_select,
    narrow,
    nested_tensor,
    nested_tensor_from_jagged,
    to_padded_tensor,
)

__all__ = [
    "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged",
    "to_padded_tensor",
]  # fmt: skip
