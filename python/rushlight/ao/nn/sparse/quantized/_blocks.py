"""The size of the blocks in which a sparse weight is zero."""

from __future__ import annotations

import threading
from typing import NoReturn


def refuse(name: str, *given: object) -> NoReturn:
    """Say that a sparse quantized layer is not there, whatever it was given."""
    del given
    raise NotImplementedError(
        f"sparse.quantized.{name}: there is no kernel for int8 weights that are zero in blocks; "
        "ao.nn.quantized.Linear takes such a weight as a dense one"
    )


class LinearBlockSparsePattern:
    """The blocks in which weights are zero, for a `with` statement.

    Args:
        row_block_size, col_block_size: rows and columns of a block.
    """

    rlock: threading.RLock = threading.RLock()
    row_block_size = 1
    col_block_size = 4
    prev_row_block_size = 1
    prev_col_block_size = 4

    def __init__(self, row_block_size: int = 1, col_block_size: int = 4) -> None:
        kind = LinearBlockSparsePattern
        with kind.rlock:
            kind.prev_row_block_size = kind.row_block_size
            kind.prev_col_block_size = kind.col_block_size
            kind.row_block_size, kind.col_block_size = row_block_size, col_block_size

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        kind = LinearBlockSparsePattern
        with kind.rlock:
            kind.row_block_size = kind.prev_row_block_size
            kind.col_block_size = kind.prev_col_block_size

    @staticmethod
    def block_size() -> tuple[int, int]:
        """Return rows and columns of a block."""
        return LinearBlockSparsePattern.row_block_size, LinearBlockSparsePattern.col_block_size
