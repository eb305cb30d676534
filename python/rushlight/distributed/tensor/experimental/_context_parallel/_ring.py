"""Attention of the queries of one part of a sequence to the keys and values of all parts.

Each process computes with one part of keys and values after the other. A part gives an output and,
for each query, the logarithm of its sum of exponentials, by which outputs are weighed and added.
The gradients of a part need the output and the logarithm of the whole.
"""

from __future__ import annotations

import rushlight
from rushlight.autograd.function import Function, once_differentiable
from rushlight.distributed import _collectives as collectives, _messages as messages
from rushlight.distributed.tensor.experimental._context_parallel._options import _RotateMethod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight import Tensor
    from rushlight.distributed import ProcessGroup

_ALL, _HEAD, _TAIL = "all", "head", "tail"


def work_of(
    rank: int, source: int, is_causal: bool, is_balanced: bool
) -> tuple[bool, str, str] | None:
    """What a process computes with the keys of another: (causally?, which queries, which keys), or
    None for nothing.

    Args:
        rank, source: the processes.
        is_causal: a query attends to keys before it alone.
        is_balanced: each process has a part of the sequence's first half, and the one that lies as
            far from the end.
    """
    if not is_causal:
        return False, _ALL, _ALL
    if source == rank:
        return True, _ALL, _ALL
    if source < rank:
        return False, _ALL, _HEAD if is_balanced else _ALL
    return (False, _TAIL, _ALL) if is_balanced else None


def _part(tensor, which):
    """All positions of (N, H, L, ...), or the first or second half of them."""
    if which == _ALL:
        return tensor
    half = tensor.size(2) // 2
    return tensor.narrow(2, 0 if which == _HEAD else half, half)


def _add(output, log_sum, more, more_log_sum):
    """Add a part's output, in place."""
    total = rushlight.logaddexp(log_sum, more_log_sum)
    output.mul_((log_sum - total).exp_().unsqueeze(3))
    output.addcmul_(more, (more_log_sum - total).exp_().unsqueeze(3))
    log_sum.copy_(total)


def _neighbours(group):
    return (group.rank() + 1) % group.size(), (group.rank() - 1) % group.size()


def _pass_on(tensors, group):
    """Begin to send tensors to the next process: those that come from the one before, and the
    messages under way.
    """
    after, before = _neighbours(group)
    coming = [rushlight.empty_like(one) for one in tensors]
    works = [messages.isend(one, group=group, group_dst=after) for one in tensors]
    works += [messages.irecv(one, group=group, group_src=before) for one in coming]
    return coming, works


def _each_part(
    tensors: list[Tensor], group: ProcessGroup, method: _RotateMethod
) -> Iterator[tuple[int, list[Tensor]]]:
    """(source, its tensors) of all processes, this one's first; the next ones travel meanwhile."""
    rank, size = group.rank(), group.size()
    if method is _RotateMethod.ALL_GATHER:
        gathered = [one.new_empty((size, *one.shape)) for one in tensors]
        works = [
            collectives.all_gather_into_tensor(all_of_it.flatten(0, 1), one, group, async_op=True)
            for all_of_it, one in zip(gathered, tensors)
        ]
        yield rank, tensors
        for work in works:
            work.wait()
        for step in range(1, size):
            source = (rank - step) % size
            yield source, [all_of_it[source] for all_of_it in gathered]
        return
    for step in range(size):
        coming, works = _pass_on(tensors, group) if step < size - 1 else ([], [])
        yield (rank - step) % size, tensors
        for work in works:
            work.wait()
        tensors = coming


class _Gradients:
    """Sums the gradients of keys and values in the processes whose they are."""

    def __init__(self, tensors: list[Tensor], group: ProcessGroup, method: _RotateMethod) -> None:
        self.group, self.is_ring = group, method is _RotateMethod.ALL_TO_ALL
        count = 1 if self.is_ring else group.size()
        self.sums = [one.new_zeros((count, *one.shape)) for one in tensors]

    def add(self, source: int, part: str, gradients: Any) -> None:
        """Add those of some keys of a process."""
        for total, gradient in zip(self.sums, gradients):
            _part(total[0 if self.is_ring else source], part).add_(gradient)

    def part_done(self) -> None:
        """On a ring, the sums travel with what they are the gradients of."""
        if self.is_ring:
            coming, works = _pass_on(self.sums, self.group)
            for work in works:
                work.wait()
            self.sums = coming

    def result(self) -> list[Tensor]:
        """The gradients of this process's keys and values."""
        if self.is_ring:
            return [total[0] for total in self.sums]
        results = []
        for total in self.sums:
            mine = rushlight.empty_like(total[0])
            collectives.reduce_scatter_tensor(mine, total.flatten(0, 1), group=self.group)
            results.append(mine)
        return results


class RingAttention(Function):
    """scaled_dot_product_attention of (N, H, L, E) in parts along L, of equal length."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, group: ProcessGroup,
        is_causal: bool, scale: float, dropout_p: float, is_balanced: bool, method: _RotateMethod,
    ) -> Tensor:  # fmt: skip
        output = query.new_zeros((*query.shape[:3], value.size(3)))
        log_sum = query.new_full(query.shape[:3], -float("inf"))
        all_kept = {}
        for source, (k, v) in _each_part([key.contiguous(), value.contiguous()], group, method):
            work = work_of(group.rank(), source, is_causal, is_balanced)
            if work is None:
                continue
            causal, of_query, of_key = work
            q, k, v = _part(query, of_query), _part(k, of_key), _part(v, of_key)
            kept = None
            if dropout_p > 0:
                kept = rushlight.empty((*q.shape[:3], k.size(2)), dtype=bool, device=q.device)
                kept = all_kept[source] = kept.bernoulli_(1 - dropout_p)
            found = rushlight._attention_of(q, k, v, None, kept, causal, scale, 1 / (1 - dropout_p))
            _add(_part(output, of_query), _part(log_sum, of_query), *found)
        ctx.save_for_backward(query, key, value, output, log_sum)
        ctx.how = group, is_causal, scale, dropout_p, is_balanced, method
        ctx.all_kept = all_kept
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        query, key, value, output, log_sum = ctx.saved_tensors
        group, is_causal, scale, dropout_p, is_balanced, method = ctx.how
        of_query = rushlight.zeros_like(query)
        of_pairs = _Gradients([key, value], group, method)
        for source, (k, v) in _each_part([key.contiguous(), value.contiguous()], group, method):
            work = work_of(group.rank(), source, is_causal, is_balanced)
            if work is not None:
                causal, queries, keys = work
                dq, dk, dv = rushlight._attention_gradients_of(
                    _part(grad, queries), _part(query, queries), _part(k, keys), _part(v, keys),
                    None, ctx.all_kept.get(source), _part(output, queries),
                    _part(log_sum, queries).contiguous(), causal, scale, 1 / (1 - dropout_p),
                )  # fmt: skip
                _part(of_query, queries).add_(dq)
                of_pairs.add(source, keys, (dk, dv))
            of_pairs.part_done()
        return of_query, *of_pairs.result(), *(None,) * 6


__all__ = ["RingAttention", "work_of"]
