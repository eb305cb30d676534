"""Distances, similarities and norms of vectors; `functional` exports them."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """x / max(|x|_p, eps) along `dim`."""
    norm = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return rushlight.div(input, norm, out=out) if out is not None else input / norm


def value_at_least(x: Tensor, least: float) -> Tensor:
    """max(x, least), whose derivative by x is 1 for both: the bound concerns the value alone."""
    if rushlight._C._current_level():  # transforms of func would see a change in place differently
        return x + (least - x.detach()).clamp_min(0)
    bounded = x.clone()
    with rushlight.no_grad():
        bounded.clamp_min_(least)
    return bounded


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Any:
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along `dim`, after broadcasting."""
    dtype = rushlight.promote_types(x1.dtype, x2.dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"cosine_similarity: expected floating-point inputs but got {dtype}")
    x1, x2 = x1.to(dtype), x2.to(dtype)
    if x1.shape != x2.shape:
        x1, x2 = rushlight.broadcast_tensors(x1, x2)
    parts = []
    for x in (x1, x2):
        norm = rushlight.linalg.vector_norm(x, 2, dim, keepdim=True)
        parts.append(x / value_at_least(norm, eps))
    return (parts[0] * parts[1]).sum(dim)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """|x1 - x2 + eps|_p over the last dim."""
    return rushlight.norm(x1 - x2 + eps, p, -1, keepdim)
