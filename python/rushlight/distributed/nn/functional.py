"""Collective operations with gradients: each returns new tensors, and backward is the collective
operation that carries gradients the other way.
"""

from __future__ import annotations

import rushlight
from rushlight.autograd import Function
from rushlight.distributed import _collectives as collectives
from rushlight.distributed._group import resolve
from rushlight.distributed._reduction import ReduceOp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor
    from rushlight.distributed import ProcessGroup

_Sum = ReduceOp.SUM


def _root(found, rank):
    return collectives.root_of(found, "distributed.nn", rank, None)


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, found: Any, op: Any, tensor: Tensor) -> Any:
        ctx.found, ctx.op = found, op
        result = tensor.clone(memory_format=rushlight.contiguous_format)
        collectives.all_reduce(result, op, found)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, _AllReduce.apply(ctx.found, ctx.op, grad)


def all_reduce(tensor: Tensor, op: Any = _Sum, group: ProcessGroup | None = None) -> Any:
    """The reduced tensor, in all members; the gradient is the sum of the members' gradients.

    Args:
        tensor: this member's.
        op: SUM or AVG, which have gradients; others without.
        group: the members; all processes by default.
    """
    return _AllReduce.apply(resolve(group), op, tensor)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, found: Any, src: int, tensor: Tensor) -> Any:
        ctx.found, ctx.src = found, src
        result = tensor.clone(memory_format=rushlight.contiguous_format)
        collectives.broadcast(result, src, found)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        reduced = _Reduce.apply(ctx.found, ctx.src, _Sum, grad)
        return None, None, reduced if _is(ctx.found, ctx.src) else rushlight.zeros_like(reduced)


def _is(found, rank):
    return _root(found, rank) == found.rank()


def broadcast(tensor: Tensor, src: int, group: ProcessGroup | None = None) -> Any:
    """The tensor of rank `src`, in all members; its gradient is the sum of theirs."""
    return _Broadcast.apply(resolve(group), src, tensor)


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, found: Any, dst: int, op: Any, tensor: Tensor) -> Any:
        ctx.found, ctx.dst = found, dst
        result = tensor.clone(memory_format=rushlight.contiguous_format)
        collectives.reduce(result, dst, op, found)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, None, _Broadcast.apply(ctx.found, ctx.dst, grad)


def reduce(tensor: Tensor, dst: int, op: Any = _Sum, group: ProcessGroup | None = None) -> Any:
    """The reduced tensor at rank `dst`; the gradients of all members are that of `dst`."""
    return _Reduce.apply(resolve(group), dst, op, tensor)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, found: Any, tensor: Tensor) -> Any:
        ctx.found = found
        parts = [rushlight.empty_like(tensor) for _ in range(found.size())]
        collectives.all_gather(parts, tensor, found)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        result = rushlight.empty_like(grads[ctx.found.rank()])
        return None, _ReduceScatter.apply(ctx.found, _Sum, result, *grads)


def all_gather(tensor: Tensor, group: ProcessGroup | None = None) -> Any:
    """The tensors of all members; a gradient is the sum of what the members have for it."""
    return _AllGather.apply(resolve(group), tensor)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, found: Any, op: Any, output: Any, *inputs: Any) -> Any:
        ctx.found = found
        result = rushlight.empty_like(output)
        collectives.reduce_scatter(result, [t.contiguous() for t in inputs], op, found)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return (None, None, None, *_AllGather.apply(ctx.found, grad.contiguous()))


def reduce_scatter(
    output: Any, input_list: Any, op: Any = _Sum, group: ProcessGroup | None = None
) -> Any:
    """Tensor i of the reduced lists, at member i; `output` says the shape."""
    return _ReduceScatter.apply(resolve(group), op, output, *input_list)


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, found: Any, dst: int, tensor: Tensor) -> Any:
        ctx.found, ctx.dst = found, dst
        parts = [rushlight.zeros_like(tensor) for _ in range(found.size())]
        collectives.gather(tensor, parts if _is(found, dst) else None, dst, found)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None, _Scatter.apply(ctx.found, ctx.dst, *grads)


def gather(tensor: Tensor, dst: int = 0, group: ProcessGroup | None = None) -> Any:
    """The tensors of all members at rank `dst`, zeros elsewhere."""
    return _Gather.apply(resolve(group), dst, tensor)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, found: Any, src: int, *tensors: Any) -> Any:
        ctx.found, ctx.src = found, src
        result = rushlight.zeros_like(tensors[0])
        given = [t.contiguous() for t in tensors] if _is(found, src) else None
        collectives.scatter(result, given, src, found)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return (None, None, *_Gather.apply(ctx.found, ctx.src, grad.contiguous()))


def scatter(tensors: Sequence[Tensor], src: int = 0, group: ProcessGroup | None = None) -> Any:
    """Tensor i of the list of rank `src`, at member i; the others' lists say the shapes."""
    return _Scatter.apply(resolve(group), src, *tensors)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, found: Any, shapes: Any, *tensors: Any) -> Any:
        ctx.found, ctx.shapes = found, [tuple(t.shape) for t in tensors]
        outputs = [tensors[0].new_empty(shape) for shape in shapes]
        collectives.all_to_all(outputs, [t.contiguous() for t in tensors], found)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, None, *_AllToAll.apply(ctx.found, ctx.shapes, *grads))


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: ProcessGroup | None = None
) -> Any:
    """Tensor i of each member's list, at member i; the first list says the shapes."""
    shapes = [tuple(t.shape) for t in output_tensor_list]
    return _AllToAll.apply(resolve(group), shapes, *input_tensor_list)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(
        ctx: Any, found: Any, shape: Any, output_splits: Any, input_splits: Any, tensor: Tensor
    ) -> Any:
        ctx.found, ctx.shape = found, tuple(tensor.shape)
        ctx.splits = input_splits, output_splits
        output = tensor.new_empty(shape)
        collectives.all_to_all_single(
            output, tensor.contiguous(), output_splits, input_splits, found
        )
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        back = _AllToAllSingle.apply(ctx.found, ctx.shape, *ctx.splits, grad.contiguous())
        return None, None, None, None, back


def all_to_all_single(
    output: Any,
    input: Tensor,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: ProcessGroup | None = None,
) -> Any:
    """Part i of each member's tensor, at member i; `output` says the shape."""
    return _AllToAllSingle.apply(
        resolve(group), tuple(output.shape), output_split_sizes, input_split_sizes, input
    )


__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]
