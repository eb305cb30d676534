"""PowerSGD: gradients travel as products of two thin matrices, and what that loses is added to the
next (T. Vogels, S. P. Karimireddy, M. Jaggi: PowerSGD, 2019).
"""

from __future__ import annotations

import logging
import math

import rushlight
from rushlight.distributed import _collectives as collectives
from rushlight.distributed._group import resolve
from rushlight.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor
    from rushlight.distributed import ProcessGroup

_log = logging.getLogger(__name__)


class PowerSGDState:
    """What the hook keeps from one iteration to the next.

    Args:
        process_group: the processes; all if None.
        matrix_approximation_rank: columns of the thin matrices.
        start_powerSGD_iter: gradients travel as they are in the iterations before this one.
        min_compression_rate: a matrix is replaced by two where that sends so many times less.
        use_error_feedback: what is lost is added to the next gradient.
        warm_start: begin with the matrices of the last iteration.
        orthogonalization_epsilon: added to norms before they divide.
        random_seed: for the first matrices; the same in all processes.
        compression_stats_logging_frequency: after so many iterations each, `compression_stats` are
            logged, by the logger of this module at level INFO.
        batch_tensors_with_same_shape: matrices of equal shapes are multiplied together.
    """

    def __init__(
        self,
        process_group: ProcessGroup | None,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1000,
        min_compression_rate: int = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: int = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is "
                "enabled, because PowerSGD can only be applied after the first two iterations in "
                "DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback = use_error_feedback
        self.warm_start = warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.generator: Any = rushlight.Generator().manual_seed(random_seed)
        self.compression_stats_logging_frequency = compression_stats_logging_frequency
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape
        self.error_dict: dict[int, Tensor] = {}
        self.p_memory_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[int, Tensor] = {}
        self.iter: int = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0
        self.next_stats_report: int = 0  # the iteration in which they are logged

    def _report(self, bucket):
        """Log the compression with the last bucket, from time to time."""
        if bucket.is_last() and self.iter >= self.next_stats_report:
            ratio, before, after = self.compression_stats()
            _log.info(
                "Compression stats: iter %d, total before compression %d, total after compression "
                "%d, rate %s", self.iter, before, after, ratio,
            )  # fmt: skip
            self.next_stats_report = self.iter + self.compression_stats_logging_frequency

    def maybe_increase_iter(self, bucket: Any) -> None:
        """Count an iteration when its last bucket comes."""
        if bucket.is_last():
            self.iter += 1

    def compression_stats(self) -> Any:
        """(ratio, numbers before, numbers after compression)."""
        after = self.total_numel_after_compression
        ratio = self.total_numel_before_compression / after if after else 0
        return ratio, self.total_numel_before_compression, after


def _orthogonalize(matrices, epsilon):
    """Make the columns of each matrix orthonormal, in place."""
    if epsilon == 0 and matrices.shape[-1] > 1:
        matrices.copy_(rushlight.linalg.qr(matrices)[0])
        return
    for i in range(matrices.shape[-1]):
        column = matrices[..., i : i + 1]
        norm = rushlight.linalg.vector_norm(column, dim=-2, keepdim=True)
        column.div_(norm + epsilon if epsilon else norm.clamp_min(1e-30))
        rest = matrices[..., i + 1 :]
        if rest.numel():
            rest.sub_(column @ (column.transpose(-1, -2) @ rest))


def powerSGD_hook(state: Any, bucket: Any) -> Any:
    """Reduce matrices of a bucket as products of two thin ones, the rest as it is.

    Args:
        state: a PowerSGDState.
        bucket: a GradBucket.

    Returns:
        A Future of the reduced buffer.
    """
    group, buffer = resolve(state.process_group), bucket.buffer()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(group, bucket)
    size, index = group.size(), bucket.index()
    copy = None
    if state.use_error_feedback:
        if index in state.error_dict and state.error_dict[index].shape == buffer.shape:
            buffer.add_(state.error_dict[index])
        else:
            state.error_dict[index] = rushlight.zeros_like(buffer)
        copy = buffer.clone()
    compressed, plain = _divide(state, bucket.gradients())
    if plain:
        flat = rushlight.cat([tensor.reshape(-1) for tensor in plain]).div_(size)
        plain_work = collectives.all_reduce(flat, group=group, async_op=True)
    for number, (shape, matrices) in enumerate(compressed):
        _reduce_by_factors(state, group, (index, number, shape), matrices)
    if plain:
        plain_work.wait()
        for tensor, part in zip(plain, flat.split([tensor.numel() for tensor in plain])):
            tensor.copy_(part.view(tensor.shape))
    if state.use_error_feedback:
        # Of tensors that were not compressed the errors of all processes add up to 0.
        state.error_dict[index].copy_(copy - buffer)
    state._report(bucket)
    state.maybe_increase_iter(bucket)
    future = rushlight.futures.Future()
    future.set_result(buffer)
    return future


def _divide(state, gradients):
    """Lists of matrices of one shape that are worth compressing, and what is not."""
    plain, by_shape, order = [], {}, []
    for tensor in gradients:
        rows = tensor.shape[0] if tensor.dim() else 1
        columns = tensor.numel() // max(1, rows)
        rank = min(rows, columns, state.matrix_approximation_rank)
        after = (rows + columns) * rank
        state.total_numel_before_compression += tensor.numel()
        if tensor.dim() < 2 or after * state.min_compression_rate >= tensor.numel():
            plain.append(tensor)
            state.total_numel_after_compression += tensor.numel()
            continue
        state.total_numel_after_compression += after
        matrix = tensor.view(rows, columns)
        key = (rows, columns) if state.batch_tensors_with_same_shape else len(order)
        if key not in by_shape:
            by_shape[key] = []
            order.append(key)
        by_shape[key].append(matrix)
    return [((tuple(by_shape[key][0].shape)), by_shape[key]) for key in order], plain


def _reduce_by_factors(state, group, key, matrices):
    size, (rows, columns) = group.size(), matrices[0].shape
    rank = min(rows, columns, state.matrix_approximation_rank)
    stacked = rushlight.stack(matrices)
    q = state.q_memory_dict.get(key) if state.warm_start else None
    if q is None:
        q = rushlight.randn(
            len(matrices), columns, rank, generator=state.generator, dtype=stacked.dtype
        )
    else:
        q = q.clone()
    _orthogonalize(q, state.orthogonalization_epsilon)
    p = stacked @ q
    collectives.all_reduce(p, group=group)
    _orthogonalize(p, state.orthogonalization_epsilon)
    q = stacked.transpose(1, 2) @ p
    collectives.all_reduce(q, group=group)
    q.div_(size)
    if state.warm_start:
        state.p_memory_dict[key], state.q_memory_dict[key] = p, q
    product = p @ q.transpose(1, 2)
    for matrix, result in zip(matrices, product):
        matrix.copy_(result)


def batched_powerSGD_hook(state: Any, bucket: Any) -> Any:
    """As powerSGD_hook, but the whole bucket is one square matrix: quicker and less exact."""
    group, buffer = resolve(state.process_group), bucket.buffer()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(group, bucket)
    index, side = bucket.index(), math.ceil(math.sqrt(buffer.numel()))
    state.total_numel_before_compression += buffer.numel()
    state.total_numel_after_compression += 2 * side * state.matrix_approximation_rank
    padded = rushlight.zeros(side * side, dtype=buffer.dtype, device=buffer.device)
    padded[: buffer.numel()] = buffer
    if state.use_error_feedback:
        if index in state.error_dict and state.error_dict[index].shape == padded.shape:
            padded.add_(state.error_dict[index])
        before = padded.clone()
    matrix = padded.view(side, side)
    _reduce_by_factors(state, group, (index, 0, (side, side)), [matrix])
    if state.use_error_feedback:
        state.error_dict[index] = before - padded
    buffer.copy_(padded[: buffer.numel()])
    state._report(bucket)
    state.maybe_increase_iter(bucket)
    future = rushlight.futures.Future()
    future.set_result(buffer)
    return future


__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]
