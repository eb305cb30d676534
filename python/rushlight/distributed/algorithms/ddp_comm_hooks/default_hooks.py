"""Hooks that reduce gradients as they are, or in half as many bytes."""

from __future__ import annotations

import rushlight
from rushlight.distributed import _collectives as collectives
from rushlight.distributed._group import resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.distributed import ProcessGroup


def _reduce(buffer, group):
    """A Future of the mean of a buffer."""
    buffer.div_(group.size())
    return collectives.all_reduce(buffer, group=group, async_op=True).get_future()


def allreduce_hook(process_group: ProcessGroup | None, bucket: Any) -> Any:
    """The mean of the gradients, as without a hook.

    Args:
        process_group: the processes; all if None.
        bucket: a GradBucket.

    Returns:
        A Future of the reduced buffer.
    """
    group = resolve(process_group)
    return _reduce(bucket.buffer(), group).then(lambda future: future.value()[0])


def _compress_hook(dtype, process_group, bucket):
    group, buffer = resolve(process_group), bucket.buffer()

    def decompress(future):
        buffer.copy_(future.value()[0])
        return buffer

    return _reduce(buffer.to(dtype), group).then(decompress)


def fp16_compress_hook(process_group: ProcessGroup | None, bucket: Any) -> Any:
    """The mean of the gradients as float16, which halves what is sent; see allreduce_hook."""
    return _compress_hook(rushlight.float16, process_group, bucket)


def bf16_compress_hook(process_group: ProcessGroup | None, bucket: Any) -> Any:
    """The mean of the gradients as bfloat16, which halves what is sent; see allreduce_hook."""
    return _compress_hook(rushlight.bfloat16, process_group, bucket)


def _wrapper(dtype, hook):
    def wrapped(state, bucket):
        original = bucket.buffer()
        bucket.set_buffer(original.to(dtype))

        def decompress(future):
            value = future.value()
            original.copy_(value[0] if isinstance(value, (list, tuple)) else value)
            return original

        future = hook(state, bucket)
        bucket.set_buffer(original)
        return future.then(decompress)

    return wrapped


def fp16_compress_wrapper(hook: Callable[..., Any]) -> Any:
    """Another hook, on gradients as float16."""
    return _wrapper(rushlight.float16, hook)


def bf16_compress_wrapper(hook: Callable[..., Any]) -> Any:
    """Another hook, on gradients as bfloat16."""
    return _wrapper(rushlight.bfloat16, hook)


__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]
