"""Which part of a sequence each process gets."""

from __future__ import annotations

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor
    from rushlight.types import Device


class _LoadBalancer:
    """An order of a sequence: process i gets its i-th part."""

    def _generate_indices(self, restore: bool = False) -> Tensor | None:
        """The positions in their new order, (1, length) or (batch, length).

        Args:
            restore: instead, the places at which the positions are found again.
        """
        raise NotImplementedError(f"{type(self).__name__}: _generate_indices is not defined")


class _HeadTailLoadBalancer(_LoadBalancer):
    """Process i gets part i of twice as many parts as processes, and the i-th from the end: the
    work of causal attention is then the same in all.

    Args:
        seq_length: the sequence's length, a multiple of twice the processes.
        world_size: the number of processes.
        device: where the indices are to be.
    """

    def __init__(self, seq_length: int, world_size: int, device: Device) -> None:
        self.seq_length, self.world_size, self.device = seq_length, world_size, device

    def _generate_indices(self, restore: bool = False) -> Tensor:
        if self.seq_length % (2 * self.world_size):
            raise ValueError(
                f"a sequence of {self.seq_length} positions cannot be divided into "
                f"{2 * self.world_size} parts of equal length"
            )
        positions = rushlight.arange(self.seq_length, device=self.device)
        parts = positions.view(2 * self.world_size, -1)
        # Head and tail of each process, one behind the other.
        order = rushlight.stack([parts[: self.world_size], parts[self.world_size :].flip(0)], 1)
        order = order.reshape(1, -1)
        return order.argsort(1) if restore else order


def default_load_balancer(length: int, size: int, device: Device) -> _LoadBalancer | None:
    """The order of a sequence of so many positions, unless it cannot or shall not be balanced."""
    from rushlight.distributed.tensor.experimental._context_parallel._options import _cp_options

    if _cp_options.enable_load_balance and length % (2 * size) == 0:
        return _HeadTailLoadBalancer(length, size, device)
    return None


__all__ = ["default_load_balancer"]
