"""Attention whose scores a function of the program changes, and whose pairs one selects.

Both kinds of function take places of a score, `score_mod(score, b, h, q, kv)` to return another one
and `mask_mod(b, h, q, kv)` to return whether the pair counts. They are called once, with tensors of
places that broadcast against each other and the scores, so they are written for one score and
computed for all: arithmetic, comparisons, `where`, and indexing of tensors with places.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypedDict

import rushlight as rl
from rushlight import Tensor
from rushlight.types import Device

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self


__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask",
    "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip

_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """What flex_attention should return beside its output."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for: logarithms of the sums of exponentials, and the greatest scores."""

    lse: rl.Tensor | None = None
    max_scores: rl.Tensor | None = None


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """The mask_mod that lets every pair count."""
    return batch.new_ones((), dtype=rl.bool)


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


def create_mask(
    mod_fn: Callable[..., Any],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Device = None,
) -> Tensor:
    """The mask (B, H, Q_LEN, KV_LEN) of a mask_mod; of a score_mod, what it makes of zeros.

    Args:
        B, H: None where the function does not depend on the batch or the head; then they are 1.
    """
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    places = _places(shape, device)
    parameters = inspect.signature(mod_fn).parameters.values()
    positional = sum(p.default is p.empty and p.kind < p.VAR_POSITIONAL for p in parameters)
    if positional == 5:
        return mod_fn(rl.zeros(shape, device=device), *places).expand(shape).contiguous()
    return rl.as_tensor(mod_fn(*places), dtype=rl.bool).expand(shape).contiguous()


class BlockMask:
    """The pairs that count, made by create_block_mask.

    Attributes:
        mask_mod: the function it was made of.
        shape: (B, H, Q_LEN, KV_LEN).
        seq_lengths: (Q_LEN, KV_LEN).
        BLOCK_SIZE: queries and keys of a block, in which to_dense counts.
    """

    mask_mod: Any

    def __init__(
        self, mask: Tensor, mask_mod: Callable[..., Any], block_size: Sequence[int]
    ) -> None:
        self._mask, self.mask_mod, self.BLOCK_SIZE = mask, mask_mod, block_size

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._mask.shape)

    @property
    def seq_lengths(self) -> tuple[int, int]:
        return self.shape[2:]

    def numel(self) -> int:
        """How many pairs there are."""
        return self._mask.numel()

    def to_dense(self) -> Tensor:
        """int32 (B, H, blocks of queries, blocks of keys): 1 where a pair of the block counts."""
        (rows, columns), (height, width) = self.seq_lengths, self.BLOCK_SIZE
        padded = rl.nn.functional.pad(self._mask, (0, -columns % width, 0, -rows % height))
        blocks = padded.unflatten(3, (-1, width)).unflatten(2, (-1, height))
        return blocks.any(5).any(3).int()

    def sparsity(self) -> float:
        """How many of a hundred pairs lie in blocks without one that counts."""
        height, width = self.BLOCK_SIZE
        return 100 * (1 - self.to_dense().sum().item() * height * width / self.numel())

    def to(self, device: Device) -> BlockMask:
        """The mask on that device."""
        return BlockMask(self._mask.to(device), self.mask_mod, self.BLOCK_SIZE)

    def __getitem__(self, index: int | slice | Tensor | tuple[int | slice | Tensor, ...]) -> Self:
        """Of some batches, or of batches and heads."""
        index = index if isinstance(index, tuple) else (index,)
        index = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in index)
        return BlockMask(self._mask[index], self.mask_mod, self.BLOCK_SIZE)

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def create_block_mask(
    mask_mod: Callable[..., Any],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Device = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
) -> BlockMask:  # fmt: skip
    """The mask that flex_attention takes: of the pairs for which mask_mod is true."""
    block_size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    return BlockMask(create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device), mask_mod, block_size)


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
        mask = block_mask._mask[:, :, :rows, :columns]
        if mask.shape[2:] != scores.shape[2:]:
            raise ValueError(
                f"flex_attention: block_mask was made for {block_mask.seq_lengths} queries and "
                f"keys, and there are {(rows, columns)}; create it with their lengths"
            )
        scores = scores.masked_fill(~mask, -math.inf)
    lse = scores.logsumexp(3)
    weights = (scores - lse.unsqueeze(3)).exp().masked_fill((lse == -math.inf).unsqueeze(3), 0)
    output = weights.to(query.dtype) @ value
    if return_aux is not None:
        greatest = scores.amax(3) if return_aux.max_scores else None
        return output, AuxOutput(lse if return_aux.lse else None, greatest)
    return (output, lse) if return_lse else output
