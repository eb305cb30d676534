"""Attention whose scores a function of the program changes, and whose pairs one selects.

Both kinds of function take places of a score, `score_mod(score, b, h, q, kv)` to return another one
and `mask_mod(b, h, q, kv)` to return whether the pair counts. They are called once, with tensors of
places that broadcast against each other and the scores, so they are written for one score and
computed for all: arithmetic, comparisons, `where`, and indexing of tensors with places.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

import rushlight as rl
from rushlight import Tensor
from rushlight._ignored import warn_of, warn_program as _warn_program
from rushlight._set_module import set_module
from rushlight.nn.attention._block_mask import (
    DEFAULT_SIZE as _DEFAULT_SPARSE_BLOCK_SIZE,
    BlockMask,
    count_pairs,
    noop_mask,
    ordered,
    sliced_mask,
)
from rushlight.types import Device

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask",
    "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip


class AuxRequest(NamedTuple):
    """What flex_attention should return beside its output."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for: logarithms of the sums of exponentials, and the greatest scores."""

    lse: rl.Tensor | None = None
    max_scores: rl.Tensor | None = None


def and_masks(*mask_mods: Any) -> Callable[..., Any]:
    """The mask_mod of the pairs that all of them let count."""
    return _joined(mask_mods, rl.bitwise_and, True)


def or_masks(*mask_mods: Any) -> Callable[..., Any]:
    """The mask_mod of the pairs that one of them lets count."""
    return _joined(mask_mods, rl.bitwise_or, False)


def _joined(mask_mods, join, start):
    if not all(map(callable, mask_mods)):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def mask_mod(b, h, q, kv):
        result = b.new_full((), start, dtype=rl.bool)
        for mod in mask_mods:
            result = join(result, mod(b, h, q, kv))
        return result

    return mask_mod


def _places(sizes, device):
    return [
        rl.arange(n, device=device).view([-1 if i == dim else 1 for i in range(4)])
        for dim, n in enumerate(sizes)
    ]


def _takes_scores(mod_fn):
    """Is it a score_mod, rather than a mask_mod?"""
    parameters = inspect.signature(mod_fn).parameters.values()
    return sum(p.default is p.empty and p.kind < p.VAR_POSITIONAL for p in parameters) == 5


def create_mask(
    mod_fn: Callable[..., Any],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Device = None,
) -> Tensor:
    """The mask (B, H, Q_LEN, KV_LEN) of a mask_mod; of a score_mod, where it gives no -inf.

    Args:
        B, H: None where the function does not depend on the batch or the head; then they are 1.
        device: by default a GPU if there is one, else the CPU.
    """
    device = rl.accelerator.current_accelerator() or "cpu" if device is None else device
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    places = _places(shape, device)
    if _takes_scores(mod_fn):
        scores = mod_fn(rl.zeros(shape, device=device), *places).expand(shape)
        return ~scores.isneginf()
    return rl.as_tensor(mod_fn(*places), dtype=rl.bool).expand(shape).contiguous()


def create_block_mask(
    mask_mod: Callable[..., Any],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Device = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:  # fmt: skip
    """The mask that flex_attention takes: of the pairs for which mask_mod is true.

    Args:
        B, H: None where the function does not depend on the batch or the head; then they are 1.
        BLOCK_SIZE: the queries and the keys of a block.
        separate_full_blocks: blocks all of whose pairs count are listed apart from others.
        compute_dq_write_order: refused: no kernel needs it.
        dq_kv_order: for compute_dq_write_order.
    """
    if _takes_scores(mask_mod):
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    if _compile:
        _warn_program(
            "create_block_mask: _compile is deprecated; the mask is made by the function as it is",
            DeprecationWarning,
        )
    if not isinstance(dq_kv_order, bool):
        raise ValueError("dq_kv_order must be a bool when using create_block_mask")
    if compute_dq_write_order:
        raise NotImplementedError(
            "create_block_mask: compute_dq_write_order is for a kernel of GPUs that adds gradients "
            "in that order; there is none, and gradients are the same each time"
        )
    warn_of("create_block_mask", "there is no write order", dq_kv_order=not dq_kv_order)
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    pairs = count_pairs(create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device), size)
    full = pairs == size[0] * size[1]
    lists = [*ordered(pairs > 0), None, None]
    if separate_full_blocks:
        lists = [*ordered((pairs > 0) & ~full), *ordered(full)]
    return BlockMask.from_kv_blocks(
        *lists, BLOCK_SIZE=size, mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN)
    )


class FlexKernelOptions(TypedDict, total=False):
    """How a GPU's kernel would divide its work: `flex_attention` refuses it on the CPU."""

    BLOCK_M: int
    BLOCK_N: int
    BLOCKS_ARE_CONTIGUOUS: bool
    FORCE_USE_FLEX_ATTENTION: bool
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    USE_TMA: bool
    WRITE_DQ: bool
    num_stages: int
    num_warps: int


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Tensor | tuple[Tensor, Tensor] | tuple[Tensor, AuxOutput]:  # fmt: skip
    """softmax(score_mod(query key^T scale)) value, over the pairs that block_mask lets count.

    Args:
        query: (B, H, Q, E).
        key: (B, H, KV, E); with enable_gqa of fewer heads, each for as many of the query.
        value: (B, H, KV, V).
        score_mod: changes scores; see the module.
        block_mask: from create_block_mask.
        scale: 1 / sqrt(E) if None.
        return_lse: return (output, logarithms of the sums of exponentials) too.
        kernel_options: accepted; there is nothing to choose.
        return_aux: an AuxRequest; then (output, AuxOutput) is returned.

    A query for which no pair counts gives zeros, and -inf as its logarithm.
    """
    for name, t in (("query", query), ("key", key), ("value", value)):
        if t.dim() != 4:
            raise ValueError(f"flex_attention: expected 4 dims of {name} but got {tuple(t.shape)}")
    heads, key_heads = query.shape[1], key.shape[1]
    if heads != key_heads:
        if not enable_gqa:
            raise ValueError(
                f"flex_attention: {heads} heads of query and {key_heads} of key need "
                "enable_gqa=True"
            )
        if heads % key_heads:
            raise ValueError(f"flex_attention: {heads} heads are no multiple of {key_heads}")
        key, value = (t.repeat_interleave(heads // key_heads, 1) for t in (key, value))
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query @ key.transpose(2, 3)).to(rl.promote_types(query.dtype, rl.float32)) * scale
    if score_mod is not None:
        scores = score_mod(scores, *_places(scores.shape, scores.device)).to(scores.dtype)
    if block_mask is not None:
        rows, columns = scores.shape[2:]
        if block_mask.mask_mod is sliced_mask:
            raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")
        if tuple(block_mask.seq_lengths) != (rows, columns):
            raise ValueError(
                f"block_mask was created for block_mask.shape={block_mask.shape} but got "
                f"q_len={rows} and kv_len={columns}: create it with these lengths, or cut it by "
                "block_mask._adjust(q_len, kv_len) if it is longer"
            )
        if query.device != block_mask.kv_num_blocks.device:
            raise RuntimeError(
                "Expect q/k/v and block_mask to be on the same device but got "
                f"{query.device} and {block_mask.kv_num_blocks.device}."
            )
        mask = block_mask._mask(_places(scores.shape, scores.device))
        scores = scores.masked_fill(~mask, -math.inf)
    lse = scores.logsumexp(3)
    weights = (scores - lse.unsqueeze(3)).exp().masked_fill((lse == -math.inf).unsqueeze(3), 0)
    output = weights.to(query.dtype) @ value
    if return_aux is not None:
        greatest = scores.amax(3) if return_aux.max_scores else None
        return output, AuxOutput(lse if return_aux.lse else None, greatest)
    return (output, lse) if return_lse else output


set_module(__name__, BlockMask, noop_mask)
