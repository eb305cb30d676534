"""Tensors that lie in parts along a sequence while a context lasts, and what
scaled_dot_product_attention does there.
"""

from __future__ import annotations

import contextlib
import math

import rushlight
from rushlight.distributed import _collectives as collectives
from rushlight.distributed.tensor._dtensor import DTensor
from rushlight.distributed.tensor.experimental._context_parallel._load_balancer import (
    _LoadBalancer,
    default_load_balancer,
)
from rushlight.distributed.tensor.experimental._context_parallel._options import _cp_options
from rushlight.distributed.tensor.experimental._context_parallel._ring import RingAttention
from rushlight.nn import functional as F
from rushlight.utils._pytree import tree_flatten, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from rushlight import Tensor
    from rushlight.distributed.device_mesh import DeviceMesh


def _in_order(tensor, dim, indices):
    """A tensor whose positions along a dim are in another order: (1, L) or (batch, L)."""
    if indices.dim() != 2 or indices.size(0) not in (1, tensor.size(0)):
        raise ValueError(
            f"a load balancer gives indices of shape (1, length) or ({tensor.size(0)}, length), "
            f"got {tuple(indices.shape)}"
        )
    if indices.size(0) == 1:
        return tensor.index_select(dim, indices[0])
    rows = [one.index_select(dim - 1, order) for one, order in zip(tensor, indices)]
    return rushlight.stack(rows)


def _shard(mesh, tensor, dim, balancer):
    """This process's part of a tensor."""
    if not isinstance(tensor, rushlight.Tensor) or isinstance(tensor, DTensor):
        raise TypeError(f"context_parallel: expected tensors, got {type(tensor).__name__}")
    dim = dim if dim >= 0 else dim + tensor.dim()
    size = mesh.size()
    if not 0 <= dim < tensor.dim() or tensor.size(dim) % size:
        raise ValueError(
            f"context_parallel: dim {dim} of a tensor of shape {tuple(tensor.shape)} cannot be "
            f"divided into {size} parts of equal length"
        )
    if balancer is not None:
        tensor = _in_order(tensor, dim, balancer._generate_indices())
    return tensor.chunk(size, dim)[mesh.get_local_rank()]


def _context_parallel_shard(
    mesh: DeviceMesh, buffers: Any, seq_dims: Any, load_balancer: _LoadBalancer | None = None
) -> Any:
    """This process's parts of tensors along a sequence.

    Args:
        mesh: the processes, a mesh of one dim.
        buffers: tensors, in lists or dicts; they stay as they are.
        seq_dims: along which dim each is divided, in the same lists or dicts.
        load_balancer: changes the order of positions first.
    """
    _cp_options.enable_load_balance = load_balancer is not None
    flat, structure = tree_flatten(buffers)
    dims, _ = tree_flatten(seq_dims)
    if len(flat) != len(dims):
        raise ValueError(
            f"_context_parallel_shard: {len(flat)} buffers, but {len(dims)} numbers in seq_dims"
        )
    parts = [_shard(mesh, one, dim, load_balancer) for one, dim in zip(flat, dims)]
    return tree_unflatten(parts, structure)


def _with_four_dims(tensor):
    while tensor.dim() < 4:
        tensor = tensor.unsqueeze(0)
    return tensor


def _attention(mesh, is_balanced, of_one_process):
    """scaled_dot_product_attention of tensors that lie in parts along dim -2."""
    method, group = _cp_options.rotate_method, mesh.get_group()

    def scaled_dot_product_attention(
        query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
        enable_gqa=False,
    ):  # fmt: skip
        if isinstance(query, DTensor):
            return of_one_process(
                query, key, value, attn_mask, dropout_p, is_causal, scale=scale,
                enable_gqa=enable_gqa,
            )  # fmt: skip
        if attn_mask is not None:
            raise NotImplementedError(
                "scaled_dot_product_attention: attn_mask is not supported in context_parallel"
            )
        _check(query, key, value, is_causal, dropout_p, enable_gqa)
        dtype = query.dtype
        wide = dtype if dtype == rushlight.float64 else rushlight.float32
        q, k, v = (_with_four_dims(one.to(wide)) for one in (query, key, value))
        scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
        output = RingAttention.apply(
            q, k, v, group, is_causal, scale, dropout_p, is_balanced, method
        )
        return output.to(dtype).reshape(*query.shape[:-1], value.size(-1))

    return scaled_dot_product_attention


def _check(query, key, value, is_causal, dropout_p, enable_gqa):
    shapes = [tuple(one.shape) for one in (query, key, value)]
    text = f"scaled_dot_product_attention in context_parallel: query, key, value of {shapes}"
    dims = {one.dim() for one in (query, key, value)}
    if len(dims) > 1 or not dims <= {2, 3, 4} or key.shape[:-1] != value.shape[:-1]:
        raise ValueError(f"{text}: expected (N, H, L, E), and as many keys as values")
    if len({one.dtype for one in (query, key, value)}) > 1 or not query.is_floating_point():
        raise TypeError(f"{text}: expected one floating-point dtype")
    if is_causal and query.size(-2) != key.size(-2):
        raise ValueError(f"{text}: is_causal=True expects as many queries as keys")
    if query.size(-1) != key.size(-1) or (query.numel() and 0 in key.shape):
        raise ValueError(f"{text}: expected queries and keys of the same length")
    lead, of_key = query.shape[:-2], key.shape[:-2]
    grouped = enable_gqa and len(lead) and of_key[-1] and not lead[-1] % of_key[-1]
    if lead != of_key and not (grouped and lead[:-1] == of_key[:-1]):
        raise ValueError(f"{text}: expected the same heads, or with enable_gqa a divisor of them")
    if not 0 <= dropout_p < 1:
        raise ValueError(f"{text}: expected dropout_p in [0, 1), got {dropout_p}")


@contextlib.contextmanager
def context_parallel(
    mesh: DeviceMesh,
    *,
    buffers: Sequence[Tensor] | None = None,
    buffer_seq_dims: Sequence[int] | None = None,
    no_restore_buffers: set[Tensor] | None = None,
) -> Iterator[None]:
    """A context in which a sequence lies in parts in several processes.

    Tensors become this process's part, in place, and `nn.functional.scaled_dot_product_attention`
    attends to keys and values of all processes: also in backward, during the context or after it.
    Where the length is a multiple of twice the processes, each gets a part of the first half and
    the one that lies as far from the end, so that all have as much to do for causal attention.

    Args:
        mesh: the processes, a mesh of one dim.
        buffers: what all processes have whole: inputs, targets, embeddings of positions.
        buffer_seq_dims: along which dim each of them is divided.
        no_restore_buffers: those of them that need not be whole again after the context.

    Raises:
        ValueError: a length that cannot be divided among the processes.
    """
    buffers, dims = list(buffers or ()), list(buffer_seq_dims or ())
    if len(buffers) != len(dims):
        raise ValueError(
            f"context_parallel: {len(buffers)} buffers, but {len(dims)} buffer_seq_dims"
        )
    kept = [id(one) for one in no_restore_buffers or ()]
    if not set(kept) <= {id(one) for one in buffers}:
        raise ValueError("context_parallel: no_restore_buffers holds a tensor not in buffers")
    if mesh.ndim != 1:
        raise ValueError(f"context_parallel: expected a mesh of one dim, got {mesh.ndim}")
    balancer, wholes = None, []
    if buffers:
        length = buffers[0].size(dims[0])
        balancer = default_load_balancer(length, mesh.size(), buffers[0].device)
    with rushlight.no_grad():
        parts = [_shard(mesh, one, dim, balancer).clone() for one, dim in zip(buffers, dims)]
        for buffer, part in zip(buffers, parts):
            wholes.append(None if id(buffer) in kept else buffer.clone())
            buffer.resize_(part.shape).copy_(part)
    before_balance, before = _cp_options.enable_load_balance, F.scaled_dot_product_attention
    _cp_options.enable_load_balance = balancer is not None
    F.scaled_dot_product_attention = _attention(mesh, balancer is not None, before)
    try:
        yield
    finally:
        F.scaled_dot_product_attention = before
        _cp_options.enable_load_balance = before_balance
        with rushlight.no_grad():
            for buffer, whole in zip(buffers, wholes):
                if whole is not None:
                    buffer.resize_(whole.shape).copy_(whole)


def context_parallel_unshard(
    mesh: DeviceMesh,
    buffers: Sequence[Tensor],
    seq_dims: Sequence[int],
    load_balancer: _LoadBalancer | None = None,
) -> list[Tensor]:
    """Tensors whose parts the processes have, whole and in order in each of them.

    Args:
        mesh: the processes, a mesh of one dim.
        buffers: this process's parts.
        seq_dims: along which dim each is divided.
        load_balancer: how they were divided; by default as `context_parallel` does.
    """
    if len(buffers) != len(seq_dims):
        raise ValueError(
            f"context_parallel_unshard: {len(buffers)} buffers, but {len(seq_dims)} seq_dims"
        )
    size, group, wholes = mesh.size(), mesh.get_group(), []
    with rushlight.no_grad():
        for part, dim in zip(buffers, seq_dims):
            moved = part.detach().movedim(dim, 0).contiguous()
            whole = moved.new_empty((size * moved.size(0), *moved.shape[1:]))
            collectives.all_gather_into_tensor(whole, moved, group)
            whole = whole.movedim(0, dim).contiguous()
            length = whole.size(dim)
            balancer = load_balancer or default_load_balancer(length, size, whole.device)
            if balancer is not None:
                whole = _in_order(whole, dim % whole.dim(), balancer._generate_indices(True))
            wholes.append(whole)
    return wholes


__all__ = ["context_parallel", "context_parallel_unshard"]
