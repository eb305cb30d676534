"""Hooks that send gradients as bytes."""

from __future__ import annotations

import rushlight
from rushlight.ao.quantization import MinMaxObserver, PerChannelMinMaxObserver
from rushlight.distributed import _collectives as collectives
from rushlight.distributed._group import resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.distributed import ProcessGroup


def _mean_of_bytes(rows, scales, group):
    """The mean of rows of all processes, each quantized by its own scale and zero point.

    Args:
        rows: (R, C).
        scales: (2, R): scales and zero points.
        group: the processes.
    """
    all_scales = scales.new_empty(group.size(), *scales.shape)
    collectives.all_gather_into_tensor(all_scales.flatten(0, 1), scales, group)
    scale, zero = scales.unsqueeze(2)
    sent = (rows / scale).round_().add_(zero).clamp_(0, 255).to(rushlight.uint8)
    received = sent.new_empty(group.size(), *sent.shape)
    collectives.all_gather_into_tensor(received.flatten(0, 1), sent, group)
    steps = received.float() - all_scales[:, 1].unsqueeze(2)
    return (steps * all_scales[:, 0].unsqueeze(2)).sum(0).div_(group.size())


def _done(buffer, result):
    future = rushlight.futures.Future()
    future.set_result(result.to(buffer.dtype))
    return future


def quantization_pertensor_hook(process_group: ProcessGroup | None, bucket: Any) -> Any:
    """The mean of the gradients as bytes, with one scale for each bucket in each process.

    Args:
        process_group: the processes; all if None.
        bucket: a GradBucket.

    Returns:
        A Future of the reduced buffer.
    """
    buffer = bucket.buffer()
    observer = MinMaxObserver()
    observer(buffer.float())
    scale, zero = observer.calculate_qparams()
    scales = rushlight.stack([scale.float().reshape(1), zero.float().reshape(1)]).to(buffer.device)
    rows = buffer.float().unsqueeze(0)
    return _done(buffer, _mean_of_bytes(rows, scales, resolve(process_group))[0])


def quantization_perchannel_hook(
    process_group: ProcessGroup | None, bucket: Any, bucket_size: int = 512
) -> Any:
    """The mean of the gradients as bytes, with a scale for each `bucket_size` of them.

    Args:
        process_group: the processes; all if None.
        bucket: a GradBucket.
        bucket_size: how many gradients have one scale.

    Returns:
        A Future of the reduced buffer.
    """
    buffer = bucket.buffer()
    missing = -buffer.numel() % bucket_size
    rows = rushlight.nn.functional.pad(buffer.float(), (0, missing)).view(-1, bucket_size)
    observer = PerChannelMinMaxObserver()
    observer(rows)
    scale, zero = observer.calculate_qparams()
    scales = rushlight.stack([scale.float(), zero.float()]).to(buffer.device)
    mean = _mean_of_bytes(rows, scales, resolve(process_group))
    return _done(buffer, mean.flatten()[: buffer.numel()])


__all__ = ["quantization_perchannel_hook", "quantization_pertensor_hook"]
