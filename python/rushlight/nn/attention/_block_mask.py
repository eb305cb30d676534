"""Masks by blocks of queries and keys: which blocks each row has, as lists of their columns."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import rushlight as rl

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from rushlight import Tensor
    from rushlight.types import Device

DEFAULT_SIZE = 128


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """The mask_mod that lets every pair count."""
    return batch.new_ones((), dtype=rl.bool)


def sliced_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """The mask_mod of a part of a mask, which nobody knows: raises RuntimeError."""
    raise RuntimeError(
        "Cannot use mask_mod from a sliced BlockMask: places in it are not those of the whole mask."
        " Set its mask_mod from that of the mask which was sliced, with an offset if need be"
    )


def ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """How many blocks of each row there are, and their columns, those that are there first."""
    counts = dense.int()
    columns = rl.argsort(counts, dim=-1, descending=True, stable=True)
    return counts.sum(-1).int(), columns.int()


def _dense(num_blocks, indices):
    """1 where a block is listed: the opposite of `ordered`."""
    columns = indices.shape[-1]
    listed = rl.arange(columns, device=indices.device) < num_blocks.unsqueeze(-1)
    target = rl.where(listed, indices, columns).long()  # what is not listed goes beyond the end
    dense = indices.new_zeros((*indices.shape[:-1], columns + 1), dtype=rl.int32)
    return dense.scatter(-1, target, 1)[..., :columns].contiguous()


def _transposed(num_blocks, indices):
    return ordered(_dense(num_blocks, indices).transpose(-2, -1))


def _of_pairs(dense, block_size, lengths):
    """Whether each pair of a query and a key is in such a block."""
    rows = dense.bool().repeat_interleave(block_size[0], -2)[..., : lengths[0], :]
    return rows.repeat_interleave(block_size[1], -1)[..., : lengths[1]]


def count_pairs(mask: Tensor, block_size: tuple[int, int]) -> Tensor:
    """How many pairs of each block count."""
    (rows, columns), (height, width) = mask.shape[-2:], block_size
    padded = rl.nn.functional.pad(mask, (0, -columns % width, 0, -rows % height))
    return padded.unflatten(3, (-1, width)).unflatten(2, (-1, height)).sum((3, 5))


class BlockMask:
    """The pairs of queries and keys that count, block by block, for `flex_attention`.

    `create_block_mask` makes one, or `from_kv_blocks`. Of a block that is listed as partial the
    pairs count for which mask_mod is true, of one that is listed as full all of them, of others
    none.

    Attributes:
        seq_lengths: (Q_LEN, KV_LEN).
        kv_num_blocks, kv_indices: of each row of blocks, how many are partial, and their columns.
        full_kv_num_blocks, full_kv_indices: the same of the full blocks, or None.
        q_num_blocks, q_indices, full_q_num_blocks, full_q_indices: the same of columns and their
            rows, or None.
        BLOCK_SIZE: the queries and the keys of a block.
        mask_mod: which pairs of partial blocks count.
        shape: (B, H, Q_LEN, KV_LEN).
    """

    seq_lengths: tuple[int, int]
    kv_num_blocks: Tensor
    kv_indices: Tensor
    full_kv_num_blocks: Tensor | None
    full_kv_indices: Tensor | None
    q_num_blocks: Tensor | None
    q_indices: Tensor | None
    full_q_num_blocks: Tensor | None
    full_q_indices: Tensor | None
    dq_write_order: None = None  # of a kernel of GPUs that is not there
    dq_write_order_full: None = None
    dq_kv_order: None = None
    dq_kv_order_spt: None = None
    BLOCK_SIZE: tuple[int, int]
    mask_mod: Callable[..., Any]

    _TENSOR_ATTRS = (
        "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks",
        "q_indices", "full_q_num_blocks", "full_q_indices",
    )  # fmt: skip

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (DEFAULT_SIZE, DEFAULT_SIZE),
        mask_mod: Callable[..., Any] = noop_mask,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | None = None,
        dq_kv_order_spt: bool | None = None,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        _check_pair("full_kv", full_kv_num_blocks, full_kv_indices)
        _check_pair("full_q", full_q_num_blocks, full_q_indices)
        _refuse_order(
            "BlockMask", dq_write_order=dq_write_order, dq_write_order_full=dq_write_order_full,
            dq_kv_order=dq_kv_order, dq_kv_order_spt=dq_kv_order_spt,
        )  # fmt: skip
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE, self.mask_mod = BLOCK_SIZE, mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = DEFAULT_SIZE,
        mask_mod: Callable[..., Any] | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | bool | None = None,
    ) -> Self:
        """Return the mask of these blocks.

        Args:
            kv_num_blocks: (B, H, rows), how many partial blocks each row of blocks has.
            kv_indices: (B, H, rows, columns), their columns; what comes after them is not read.
            full_kv_num_blocks, full_kv_indices: the same of the blocks all of whose pairs count.
            BLOCK_SIZE: the queries and the keys of a block.
            mask_mod: which pairs of partial blocks count, all by default.
            seq_lengths: (Q_LEN, KV_LEN), by default all of the blocks.
            compute_q_blocks: whether q_num_blocks and so on are made.
            dq_write_order, dq_write_order_full, dq_kv_order: refused: no kernel needs them.

        Example:
            >>> from rushlight.nn.attention.flex_attention import BlockMask
            >>> count = rushlight.tensor([[[1, 2]]])
            >>> columns = rushlight.tensor([[[[0, 1], [0, 1]]]])
            >>> mask = BlockMask.from_kv_blocks(count, columns, BLOCK_SIZE=4)
            >>> mask.shape, mask.to_dense().tolist()
            ((1, 1, 8, 8), [[[[1, 0], [1, 1]]]])
        """
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        _check_pair("full_kv", full_kv_num_blocks, full_kv_indices)
        if dq_kv_order is not None and not isinstance(dq_kv_order, (bool, rl.Tensor)):
            raise ValueError("dq_kv_order must be a bool, Tensor, or None")
        _refuse_order(
            "BlockMask.from_kv_blocks", dq_write_order=dq_write_order,
            dq_write_order_full=dq_write_order_full, dq_kv_order=dq_kv_order,
        )  # fmt: skip
        q_blocks: tuple[Any, ...] = (None, None, None, None)
        if compute_q_blocks:
            full = (None, None)
            if full_kv_indices is not None:
                full = _transposed(full_kv_num_blocks, full_kv_indices)
            q_blocks = (*_transposed(kv_num_blocks, kv_indices), *full)
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1])
        return cls(
            seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, *q_blocks,
            BLOCK_SIZE=size, mask_mod=noop_mask if mask_mod is None else mask_mod,
        )  # fmt: skip

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Return all attributes in the order of the constructor.

        Args:
            flatten: seq_lengths and BLOCK_SIZE are two numbers each, in place of a tuple.
        """
        lengths = tuple(self.seq_lengths) if flatten else (self.seq_lengths,)
        size = tuple(self.BLOCK_SIZE) if flatten else (self.BLOCK_SIZE,)
        tensors = (getattr(self, name) for name in self._TENSOR_ATTRS)
        order = (
            self.dq_write_order, self.dq_write_order_full, self.dq_kv_order, self.dq_kv_order_spt
        )  # fmt: skip
        return (*lengths, *tensors, *order, *size, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """How many pairs there are."""
        return math.prod(self.shape)

    def _full(self):
        if self.full_kv_indices is None:
            return None
        return _dense(self.full_kv_num_blocks, self.full_kv_indices)

    def to_dense(self) -> Tensor:
        """int32 (B, H, blocks of queries, blocks of keys): 1 for the blocks that are listed."""
        partial, full = _dense(self.kv_num_blocks, self.kv_indices), self._full()
        return partial if full is None else partial | full

    def _mask(self, places):
        """Whether each pair counts, given the places in batch, heads, queries and keys."""
        if self.mask_mod is noop_mask:
            return _of_pairs(self.to_dense(), self.BLOCK_SIZE, self.seq_lengths)
        partial, full = _dense(self.kv_num_blocks, self.kv_indices), self._full()
        mask = rl.as_tensor(self.mask_mod(*places), dtype=rl.bool)
        mask = mask & _of_pairs(partial, self.BLOCK_SIZE, self.seq_lengths)
        return mask if full is None else mask | _of_pairs(full, self.BLOCK_SIZE, self.seq_lengths)

    def sparsity(self) -> float:
        """How many of a hundred pairs lie in blocks that are not listed."""
        blocks = self.kv_num_blocks.sum()
        if self.full_kv_num_blocks is not None:
            blocks = blocks + self.full_kv_num_blocks.sum()
        return 100 * (1 - blocks.item() * math.prod(self.BLOCK_SIZE) / self.numel())

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """Return a picture of the blocks, for each batch and head: full, shaded or empty.

        Args:
            grid_size: at most so many rows and columns, each of which then stands for several.
            limit: how many batches and heads are shown.
        """
        dense = self.to_dense()
        most = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        steps = [max(1, -(-n // m)) for n, m in zip(dense.shape[-2:], most)]
        shown = []
        for count, place in enumerate(itertools.product(*map(range, dense.shape[:-2]))):
            if count == limit:
                shown += [
                    "...", "To print out more, set BlockMask.to_string(limit=N)",
                    "You can also index (BlockMask[batch, head]) to choose a specific batch or "
                    "head",
                ]  # fmt: skip
                break
            lines = [str(place)]
            for rows in dense[place].split(steps[0]):
                parts = [part.float().mean().item() for part in rows.split(steps[1], 1)]
                lines.append("".join(("█" if p == 1 else "░" if p else " ") * 2 for p in parts))
            shown.append("\n".join(lines) + "\n")
        return "\n".join(shown)

    def to(self, device: Device) -> BlockMask:
        """Return the mask on that device."""
        tensors = [getattr(self, name) for name in self._TENSOR_ATTRS]
        moved = [None if t is None else t.to(device) for t in tensors]
        return BlockMask(
            self.seq_lengths, *moved, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod
        )

    def __getitem__(self, index: int | slice | Tensor | tuple[int | slice | Tensor, ...]) -> Self:
        """Of some batches, heads or rows of blocks; its mask_mod is to be set before it is used."""
        index = index if isinstance(index, tuple) else (index,)
        index = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in index)
        lists = [
            self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices
        ]  # fmt: skip
        return type(self).from_kv_blocks(
            *(None if t is None else t[index] for t in lists), BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=sliced_mask, seq_lengths=self.seq_lengths,
            compute_q_blocks=self.q_indices is not None,
        )  # fmt: skip

    def _adjust(self, new_q_len: int, new_kv_len: int) -> Self:
        """Return the upper left corner of the mask, for these lengths."""
        rows = -(-new_q_len // self.BLOCK_SIZE[0])
        columns = -(-new_kv_len // self.BLOCK_SIZE[1])
        lists: list[Any] = []
        for num_blocks, indices in (
            (self.kv_num_blocks, self.kv_indices), (self.full_kv_num_blocks, self.full_kv_indices)
        ):  # fmt: skip
            if indices is None:
                lists += [None, None]
            else:
                lists += ordered(_dense(num_blocks, indices)[..., :rows, :columns])
        return type(self).from_kv_blocks(
            *lists, BLOCK_SIZE=self.BLOCK_SIZE, mask_mod=self.mask_mod,
            seq_lengths=(new_q_len, new_kv_len), compute_q_blocks=self.q_indices is not None,
        )  # fmt: skip

    def __str__(self) -> str:
        picture = self.to_string().strip()
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{picture}\n)"

    def __repr__(self) -> str:
        tensors = {name: getattr(self, name) for name in self._TENSOR_ATTRS}
        members = {name: None if t is None else t.shape for name, t in tensors.items()}
        members |= {"BLOCK_SIZE": self.BLOCK_SIZE, "shape": self.shape}
        members["sparsity"] = f"{self.sparsity():.2f}%"
        members["mask_mod"] = getattr(self.mask_mod, "__name__", self.mask_mod)
        return f"BlockMask(\n    {_lines(members)}\n)"


def _lines(members):
    last = len(members) - 1
    lines = (f"{n}={v}{',' if i < last else ''}" for i, (n, v) in enumerate(members.items()))
    return "\n    ".join(lines)


def _check_pair(name, num_blocks, indices):
    if (num_blocks is None) != (indices is None):
        raise AssertionError(
            f"{name}_num_blocks and {name}_indices must be both provided or omitted"
        )


def _refuse_order(function, **given):
    for name, value in given.items():
        if value is not None:
            raise NotImplementedError(
                f"{function}: {name} is for a kernel of GPUs that adds gradients in that order; "
                "there is none, and gradients are the same each time"
            )
