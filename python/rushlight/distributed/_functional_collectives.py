"""Collective operations that return new tensors, with reductions named by strings.

The results are there when the calls return, so `wait_tensor` and their method `wait` have nothing
to wait for. `..._autograd` have gradients.
"""

from __future__ import annotations

import rushlight
from rushlight.distributed import _collectives as collectives
from rushlight.distributed._group import group_of_ranks, groups, resolve
from rushlight.distributed._reduction import ReduceOp
from rushlight.distributed.nn import functional as differentiable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor
    from rushlight.distributed import ProcessGroup


def _group(group):
    """A group, its name, a mesh of one dim, (mesh, dim), or ranks."""
    if isinstance(group, str):
        if group not in groups.by_name:
            raise ValueError(f"functional collectives: there is no process group {group!r}")
        return groups.by_name[group]
    if isinstance(group, tuple):
        mesh, dim = group
        return mesh.get_group(dim)
    if hasattr(group, "get_group"):
        return group.get_group()
    if isinstance(group, (list, range)):
        return group_of_ranks(list(group))
    return resolve(group)


def _op(name):
    return name if isinstance(name, ReduceOp) else ReduceOp[name.upper()]


class AsyncCollectiveTensor(rushlight.Tensor):
    """What functional collectives return: operations on it give plain tensors."""

    __torch_function__ = rushlight._C._disabled_torch_function_impl

    def wait(self) -> Tensor:
        """The plain tensor, whose values are there."""
        return self.as_subclass(rushlight.Tensor)

    trigger_wait = wait


def _result(tensor):
    return tensor.as_subclass(AsyncCollectiveTensor)


def wait_tensor(tensor: Tensor) -> Any:
    """The tensor, whose values are there."""
    return tensor.wait() if isinstance(tensor, AsyncCollectiveTensor) else tensor


def broadcast(self: Any, src: int, group: ProcessGroup | None, tag: str = "") -> Any:
    """The tensor of member `src`."""
    _check_tag(tag)
    result = self.clone()
    collectives.broadcast(result, group=_group(group), group_src=src)
    return _result(result)


def _check_tag(tag):
    if tag:
        raise NotImplementedError(f"functional collectives: tag {tag!r} is not supported")


def all_reduce(self: Any, reduceOp: Any, group: ProcessGroup | None, tag: str = "") -> Any:
    """The reduced tensor."""
    _check_tag(tag)
    result = self.clone()
    collectives.all_reduce(result, _op(reduceOp), _group(group))
    return _result(result)


def all_gather_tensor(self: Any, gather_dim: Any, group: ProcessGroup | None, tag: str = "") -> Any:
    """The tensors of all members, one behind the other along a dim."""
    _check_tag(tag)
    found = _group(group)
    parts = [rushlight.empty_like(self) for _ in range(found.size())]
    collectives.all_gather(parts, self, found)
    return _result(rushlight.cat(parts, gather_dim))


def reduce_scatter_tensor(
    self: Any, reduceOp: Any, scatter_dim: Any, group: ProcessGroup | None, tag: str = ""
) -> Any:
    """This member's part, along a dim, of the reduced tensor."""
    _check_tag(tag)
    found = _group(group)
    parts = _even_parts(self, scatter_dim, found)
    result = rushlight.empty_like(parts[0])
    collectives.reduce_scatter(result, parts, _op(reduceOp), found)
    return _result(result)


def _even_parts(tensor, dim, found):
    if tensor.size(dim) % found.size():
        raise ValueError(
            f"input dimension {dim} ({tensor.size(dim)}) must be a multiple of group_size "
            f"{found.size()}"
        )
    return [part.contiguous() for part in tensor.chunk(found.size(), dim)]


def all_to_all_single(
    self: Any,
    output_split_sizes: Any,
    input_split_sizes: Any,
    group: ProcessGroup | None,
    tag: str = "",
) -> Any:
    """Part i of each member's tensor, at member i."""
    _check_tag(tag)
    rows = sum(output_split_sizes) if output_split_sizes is not None else self.size(0)
    result = self.detach().new_empty(rows, *self.shape[1:])
    collectives.all_to_all_single(
        result, self, output_split_sizes, input_split_sizes, _group(group)
    )
    return _result(result)


def all_reduce_coalesced(
    self: Any, reduceOp: Any, group: ProcessGroup | None, tag: str = ""
) -> Any:
    """all_reduce of several tensors."""
    _check_tag(tag)
    results = [tensor.clone() for tensor in self]
    collectives.all_reduce_coalesced(results, _op(reduceOp), _group(group))
    return [_result(tensor) for tensor in results]


def all_gather_into_tensor_coalesced(self: Any, group: ProcessGroup | None, tag: str = "") -> Any:
    """all_gather_tensor along dim 0 of several tensors."""
    return [all_gather_tensor(tensor, 0, group, tag) for tensor in self]


def reduce_scatter_tensor_coalesced(
    inputs: Any, reduceOp: Any, scatter_dim: Any, group: ProcessGroup | None, tag: str = ""
) -> Any:
    """reduce_scatter_tensor of several tensors, each along a dim of its own."""
    return [
        reduce_scatter_tensor(tensor, reduceOp, dim, group, tag)
        for tensor, dim in zip(inputs, scatter_dim, strict=True)
    ]


def all_gather_tensor_autograd(
    self: Any, gather_dim: Any, group: ProcessGroup | None, tag: str = ""
) -> Any:
    """all_gather_tensor with a gradient."""
    _check_tag(tag)
    return _result(rushlight.cat(differentiable.all_gather(self, _group(group)), gather_dim))


def reduce_scatter_tensor_autograd(
    self: Any, reduceOp: Any, scatter_dim: Any, group: ProcessGroup | None, tag: str = ""
) -> Any:
    """reduce_scatter_tensor with a gradient."""
    _check_tag(tag)
    found = _group(group)
    parts = _even_parts(self, scatter_dim, found)
    return _result(differentiable.reduce_scatter(parts[0], parts, _op(reduceOp), found))


def all_to_all_single_autograd(
    self: Any,
    output_split_sizes: Any,
    input_split_sizes: Any,
    group: ProcessGroup | None,
    tag: str = "",
) -> Any:
    """all_to_all_single with a gradient."""
    _check_tag(tag)
    rows = sum(output_split_sizes) if output_split_sizes is not None else self.size(0)
    output = self.detach().new_empty(rows, *self.shape[1:])
    return _result(
        differentiable.all_to_all_single(
            output, self, output_split_sizes, input_split_sizes, _group(group)
        )
    )


def permute_tensor(self: Any, src_dst: Any, group: ProcessGroup | None, tag: str = "") -> Any:
    """The flat tensor of the member that sends to this one: member i sends to `src_dst[i]`."""
    _check_tag(tag)
    found = _group(group)
    sent, received = [0] * found.size(), [0] * found.size()
    sent[src_dst[found.rank()]] = self.numel()
    received[src_dst.index(found.rank())] = self.numel()
    return all_to_all_single(self.reshape(-1), received, sent, found)


all_gather_single, all_gather_single_autograd = all_gather_tensor, all_gather_tensor_autograd
all_gather_single_coalesced = all_gather_into_tensor_coalesced
reduce_scatter_single = reduce_scatter_tensor
reduce_scatter_single_autograd = reduce_scatter_tensor_autograd
reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
