"""The collective operations on tensors."""

from __future__ import annotations

import contextlib
import ctypes

import rushlight
from rushlight._ignored import warn_program
from rushlight.autograd.graph import increment_version
from rushlight.distributed._agreement import Call, agree, fits_agreement
from rushlight.distributed._engine import Work
from rushlight.distributed._errors import DistBackendError
from rushlight.distributed._group import resolve
from rushlight.distributed._options import options
from rushlight.distributed._process_group import host_tensors
from rushlight.distributed._reduction import (
    IN_PLACE,
    PremultipliedSum,
    ReduceOp,
    check,
    elementary,
)
from rushlight.distributed._shared_memory import SMALLEST, view_of
from rushlight.distributed._stores import seconds_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from typing import Any

    from rushlight import Tensor
    from rushlight.distributed import ProcessGroup

# ------------------------------------------------------------------ arguments


def check_tensor(name: str, tensor: Tensor, parameter: str = "tensor") -> None:
    """Raise unless `tensor` is one that can be sent."""
    if not isinstance(tensor, rushlight.Tensor):
        raise TypeError(
            f"{name}: Invalid function argument. Expected parameter `{parameter}` of type "
            f"torch.Tensor but got {type(tensor)} instead."
        )
    if tensor.device.type == "cuda":
        from rushlight.distributed import _nccl

        if not _nccl.is_available():
            raise RuntimeError(
                f"{name}: {parameter} is on {tensor.device}, and NCCL was not found: pip install "
                "nvidia-nccl-cu13, which carries tensors between GPUs"
            )
    elif tensor.device.type != "cpu":
        raise RuntimeError(f"{name}: No backend type associated with device type {tensor.device}")
    if tensor.layout is not rushlight.strided:
        raise RuntimeError(f"{name}: {parameter} must be dense, got layout {tensor.layout}")


def _check_list(name, tensors, parameter):
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            f"{name}: Invalid function argument. Expected parameter `{parameter}` of type "
            f"List[torch.Tensor] but got {type(tensors)} instead."
        )
    for tensor in tensors:
        check_tensor(name, tensor, parameter)
    dtypes = list(dict.fromkeys(tensor.dtype for tensor in tensors))
    if len(dtypes) > 1:
        raise ValueError(
            f"{name}: Invalid usage of tensors with different dtypes: {parameter} has {dtypes[0]} "
            f"and {dtypes[1]}"
        )


def _check_length(name, tensors, size, parameter):
    if len(tensors) != size:
        raise ValueError(
            f"{name}: expected a list of {size} tensor{'s' if size != 1 else ''} as {parameter}, "
            f"one for each member, got {len(tensors)}"
        )


def _same_dtype(name, first, second):
    if first.dtype is not second.dtype:
        raise ValueError(
            f"{name}: Invalid usage of tensors with different dtypes: output has {first.dtype} and "
            f"input {second.dtype}"
        )


def member(group: ProcessGroup | None, name: str) -> Any:
    """The group that an argument means; None, with a warning, in a process not in it."""
    found = resolve(group)
    if found is None:
        warn_program(
            f"Running {name} on global rank which does not belong to the given group.",
        )
    return found


def root_of(
    group: ProcessGroup | None,
    name: str,
    rank: int,
    group_rank: Any,
    default: Any = None,
    parameter: str = "src",
) -> Any:
    """The member's number that `rank`, in the world, or `group_rank` means."""
    if rank is not None and group_rank is not None:
        raise ValueError(f"{name}: Can't specify both group_{parameter} and {parameter}")
    if rank is None and group_rank is None:
        if default is None:
            raise ValueError(f"{name}: Must specify {parameter} or group_{parameter}")
        group_rank = default
    size = group.size()
    what = "a world" if group._ranks == list(range(size)) else "a group"
    if group_rank is not None:
        if not 0 <= group_rank < size:
            raise ValueError(f"{name}: rank {group_rank} is not in {what} of {size}")
        return group_rank
    if rank not in group._ranks:
        raise ValueError(f"{name}: rank {rank} is not in {what} of {size}")
    return group._ranks.index(rank)


def _written(*tensors):
    """Views to write to, without history; what was saved of the tensors for backward is void."""
    if tensors:
        increment_version(list(tensors))
    return [tensor.detach() for tensor in tensors]


def _plain(tensor):
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def _apart(tensor, other):
    """A contiguous tensor of the CPU, copied where it shares bytes with another: MPI wants that."""
    begin, start = tensor.data_ptr(), other.data_ptr()
    overlaps = begin < start + other.nbytes and start < begin + tensor.nbytes
    return tensor.clone() if overlaps and tensor.is_cpu else tensor


# ------------------------------------------------------------------ reductions


def _is_native(found, tensor, op):
    """Does the carrier average, or multiply by a factor, by itself? NCCL does."""
    scales = op is ReduceOp.AVG or isinstance(op, PremultipliedSum)
    return scales and tensor.is_cuda and found.size() > 1 and tensor.dtype.is_floating_point


def _staged(found, tensor, op):
    """A contiguous tensor to reduce, for one of any layout: itself where possible."""
    if _is_native(found, tensor, op):
        return tensor.resolve_neg().contiguous(), op
    operation, dtype = elementary(op, tensor.dtype)
    staged = tensor.resolve_conj().resolve_neg()
    if staged.dtype is not dtype:
        staged = staged.to(dtype)
    staged = staged.contiguous()
    if isinstance(op, PremultipliedSum):
        staged = staged * op.factor
    return staged, operation


def _finished(found, staged, tensor, op):
    """Bring the reduced values to where they belong."""
    size = found.size()
    if op is ReduceOp.AVG and not _is_native(found, tensor, op):
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            staged.div_(size)
        else:
            staged.copy_(rushlight.div(staged, size, rounding_mode="trunc"))
    if staged.data_ptr() != tensor.data_ptr() or staged.dtype is not tensor.dtype:
        tensor.copy_(staged.view(tensor.shape))


def _combine(staged, operation, enclosed):
    """Reduce what the members have enclosed in their agreement."""
    for rank, data in enumerate(enclosed):
        other = rushlight.frombuffer(data, dtype=staged.dtype, count=staged.numel())
        other = other.view(staged.shape)
        if rank == 0:
            staged.copy_(other)
        else:
            IN_PLACE[operation](staged, other)


def all_reduce(
    tensor: Tensor,
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """Reduce the members' tensors into each of them.

    Args:
        tensor: this member's, of the same dtype and number of elements in all; of sparse tensors
            there are sums.
        op: how; a ReduceOp.
        group: the members; all processes by default.
        async_op: return a Work and go on, instead of waiting.

    Returns:
        A Work if `async_op`, else None.

    Raises:
        DistBackendError: a member died, is missing, or called something else; the message says who
            and where.

    Example:
        >>> rushlight.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> x = rushlight.ones(2)
        >>> rushlight.distributed.all_reduce(x)
        >>> x
        tensor([1., 1.])
        >>> rushlight.distributed.destroy_process_group()
    """
    if isinstance(tensor, rushlight.Tensor) and tensor.is_sparse:
        return _all_reduce_sparse(tensor, op, group, async_op)
    check_tensor("all_reduce", tensor)
    found = member(group, "all_reduce")
    if found is None:
        return None
    check("all_reduce", op, tensor.dtype)
    call = Call("all_reduce", tensor, op)
    (into,) = _written(tensor)

    def steps(work):
        if fits_agreement(found, into):
            staged, operation = _staged(found, into, op)
            mine = ctypes.string_at(staged.data_ptr(), staged.numel() * staged.element_size())
            _combine(staged, operation, (yield from agree(found, call, work, mine)))
            _finished(found, staged, into, op)
        elif found.size() > 1 or isinstance(op, PremultipliedSum):
            staged, operation = _staged(found, into, op)
            is_begun = found.carrier(staged).early(staged, operation)
            yield from agree(found, call, work)
            if staged.numel():
                yield found.carrier(staged).all_reduce(staged, operation, is_begun)
            _finished(found, staged, into, op)

    def derived():
        return found.allreduce([tensor], options("Allreduce", async_op, reduceOp=op))

    return found.run(steps, call, [tensor], async_op, derived=derived)


def sparse_sum(tensor: Tensor, group: ProcessGroup) -> Tensor:
    """The sum of the members' sparse tensors, of which each may have other elements."""
    tensor = tensor.detach().coalesce()
    indices, values = tensor.indices(), tensor.values()
    counts = rushlight.empty(group.size(), dtype=rushlight.int64)
    with host_tensors():
        all_gather_into_tensor(counts, rushlight.tensor([indices.size(1)]), group)
    all_indices = [indices.new_empty(indices.size(0), n) for n in counts.tolist()]
    all_values = [values.new_empty(n, *values.shape[1:]) for n in counts.tolist()]
    all_gather(all_indices, indices, group)
    all_gather(all_values, values, group)
    return rushlight.sparse_coo_tensor(
        rushlight.cat(all_indices, 1), rushlight.cat(all_values), tensor.shape
    ).coalesce()


def _all_reduce_sparse(tensor, op, group, async_op):
    """all_reduce of sparse tensors, which is done when the call returns."""
    if op is not ReduceOp.SUM:
        raise ValueError(f"all_reduce: {op!r} of sparse tensors: only SUM is supported")
    found = member(group, "all_reduce")
    if found is None:
        return None
    with rushlight.no_grad():
        tensor.copy_(sparse_sum(tensor, found))
    return Work(outputs=[tensor]) if async_op else None


class SharedTensor:
    """A tensor of one dim in each member of a group on one machine, in memory that all see.

    Args:
        group: the members; all make the call, with the same arguments.
        count: number of elements.
        dtype: theirs.

    `tensor` is this member's, or None where the operating system refuses such memory.
    """

    def __init__(self, group: ProcessGroup | None, count: Any, dtype: rushlight.dtype) -> None:
        self._group, self._all, self.tensor = group, None, None
        memory = group._transport.memory
        size = count * dtype.itemsize
        if memory is None or memory.is_refused or size < SMALLEST:
            return
        call = Call("shared memory", count=size)

        def steps(work):
            yield from agree(group, call, work)
            segments = yield from memory.segments(size)
            if segments is not None:
                self._all = [view_of(segment, count, dtype) for segment in segments]
                self.tensor = self._all[group.rank()]

        group.run(steps, call, [], False)

    def all_reduce(self, factor: Any) -> Any:
        """Multiply the members' tensors and reduce them into each; returns a Work."""
        call = Call("all_reduce", self.tensor, ReduceOp.SUM)

        def steps(work):
            yield from agree(self._group, call, work)
            yield from self._group._transport.memory.all_reduce_in_place(self._all, factor)

        return self._group.run(steps, call, [self.tensor], True)


def all_reduce_coalesced(
    tensors: Sequence[Tensor],
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """all_reduce of several tensors at once; with `async_op`, returns a Future of them."""
    work = _all_reduce_coalesced(tensors, op, group, async_op)
    return None if work is None else work.get_future()


def _all_reduce_coalesced(tensors, op=ReduceOp.SUM, group=None, async_op=False):
    tensors = [tensors] if isinstance(tensors, rushlight.Tensor) else tensors
    _check_list("all_reduce_coalesced", tensors, "tensors")
    found = member(group, "all_reduce_coalesced")
    if found is None or not tensors:
        return None
    check("all_reduce_coalesced", op, tensors[0].dtype)
    total = sum(tensor.numel() for tensor in tensors)
    call = Call("all_reduce_coalesced", tensors[0], op, count=total)
    into = _written(*tensors)

    def steps(work):
        yield from agree(found, call, work)
        flat = rushlight.cat([tensor.reshape(-1) for tensor in into])
        staged, operation = _staged(found, flat, op)
        yield found.carrier(staged).all_reduce(staged, operation)
        _finished(found, staged, flat, op)
        for tensor, part in zip(into, flat.split([tensor.numel() for tensor in into])):
            tensor.copy_(part.view(tensor.shape))

    def derived():
        chosen = options("AllreduceCoalesced", async_op, reduceOp=op)
        return found.allreduce_coalesced(list(tensors), chosen)

    return found.run(steps, call, list(tensors), async_op, derived=derived)


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: Any = None,
) -> Any:
    """Reduce the members' tensors into that of `dst`; those of the others stay as they are.

    Args:
        dst, group_dst: who gets the result, by its rank in the world or in the group.
        others: see all_reduce.
    """
    check_tensor("reduce", tensor)
    found = member(group, "reduce")
    if found is None:
        return None
    root = root_of(found, "reduce", dst, group_dst, parameter="dst")
    check("reduce", op, tensor.dtype)
    call = Call("reduce", tensor, op, root)
    (into,) = _written(tensor)

    def steps(work):
        yield from agree(found, call, work)
        if found.size() > 1 or isinstance(op, PremultipliedSum):
            staged, operation = _staged(found, into, op)
            if staged.numel():
                yield found.carrier(staged).reduce(staged, operation, root)
            if found.rank() == root:
                _finished(found, staged, into, op)

    def derived():
        return found.reduce([tensor], options("Reduce", async_op, reduceOp=op, rootRank=root))

    return found.run(steps, call, [tensor], async_op, derived=derived)


def reduce_scatter(
    output: Any,
    input_list: Any,
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """Reduce the members' lists, and give tensor i of the result to member i.

    Args:
        output: where this member's tensor goes.
        input_list: a tensor for each member; they may differ in size.
        others: see all_reduce.
    """
    check_tensor("reduce_scatter", output, "output")
    _check_list("reduce_scatter", input_list, "input_list")
    found = member(group, "reduce_scatter")
    if found is None:
        return None
    _check_length("reduce_scatter", input_list, found.size(), "input_list")
    _same_dtype("reduce_scatter", output, input_list[0])
    counts = [tensor.numel() for tensor in input_list]
    _check_part("reduce_scatter", output, counts[found.rank()])
    call = Call("reduce_scatter", input_list[0], op, count=sum(counts))

    def flat():
        return rushlight.cat([tensor.detach().reshape(-1) for tensor in input_list])

    def derived():
        chosen = options("ReduceScatter", async_op, reduceOp=op)
        return found.reduce_scatter([output], [list(input_list)], chosen)

    return _reduce_scatter(found, call, output, flat, counts, op, async_op, derived)


def reduce_scatter_tensor(
    output: Any,
    input: Tensor,
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """Reduce the members' tensors, and give each member its part of the result.

    Args:
        output: where this member's part goes.
        input: the parts for all members, one behind the other or stacked.
        others: see all_reduce.
    """
    check_tensor("reduce_scatter_tensor", output, "output")
    check_tensor("reduce_scatter_tensor", input, "input")
    found = member(group, "reduce_scatter_tensor")
    if found is None:
        return None
    _same_dtype("reduce_scatter_tensor", output, input)
    if input.numel() != output.numel() * found.size():
        raise ValueError(
            "reduce_scatter_tensor: input tensor must be the same size as output size times world "
            f"size, got {tuple(input.shape)} for {tuple(output.shape)} and {found.size()} members"
        )
    call = Call("reduce_scatter_tensor", input, op)
    counts = [output.numel()] * found.size()

    def flat():
        return input.detach().reshape(-1)

    def derived():
        chosen = options("ReduceScatter", async_op, reduceOp=op)
        return found._reduce_scatter_base(output, input, chosen)

    return _reduce_scatter(found, call, output, flat, counts, op, async_op, derived)


def _check_part(name, output, count):
    if output.numel() != count:
        raise ValueError(
            f"{name}: output has {output.numel()} elements, and this member's part {count}"
        )


def _reduce_scatter(found, call, output, flat, counts, op, async_op, derived):
    check(call.name, op, output.dtype)
    (into,) = _written(output)

    def steps(work):
        yield from agree(found, call, work)
        staged, operation = _staged(found, flat(), op)
        part = staged.new_empty(counts[found.rank()])
        if staged.numel():
            yield found.carrier(staged).reduce_scatter(part, staged, operation, counts)
        _finished(found, part, into, op)

    return found.run(steps, call, [output], async_op, derived=derived)


def reduce_scatter_tensor_coalesced(
    outputs: Any,
    inputs: Any,
    op: Any = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """reduce_scatter_tensor of several tensors."""
    works = [
        reduce_scatter_tensor(output, input, op, group, async_op=True)
        for output, input in zip(outputs, inputs, strict=True)
    ]
    return _all(works, async_op)


# ------------------------------------------------------------------ copies


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: Any = None,
) -> Any:
    """Copy the tensor of `src` to all members.

    Args:
        src, group_src: whose, by its rank in the world or in the group.
        others: see all_reduce.
    """
    check_tensor("broadcast", tensor)
    found = member(group, "broadcast")
    if found is None:
        return None
    root = root_of(found, "broadcast", src, group_src)
    call = Call("broadcast", tensor, root=root)
    (into,) = _written(tensor) if found.rank() != root else (tensor.detach(),)

    def steps(work):
        yield from agree(found, call, work)
        staged = _plain(into)
        if staged.numel():
            yield found.carrier(staged).broadcast(staged, root)
        if found.rank() != root and staged.data_ptr() != into.data_ptr():
            into.copy_(staged)

    def derived():
        return found.broadcast([tensor], options("Broadcast", async_op, rootRank=root))

    return found.run(steps, call, [tensor], async_op, derived=derived)


def all_gather(
    tensor_list: Any, tensor: Tensor, group: ProcessGroup | None = None, async_op: bool = False
) -> Any:
    """Copy the tensors of all members into the list of each.

    Args:
        tensor_list: a tensor for each member, of the size of that member's.
        tensor: this member's.
        others: see all_reduce.
    """
    _check_list("all_gather", tensor_list, "tensor_list")
    check_tensor("all_gather", tensor)
    found = member(group, "all_gather")
    if found is None:
        return None
    _check_length("all_gather", tensor_list, found.size(), "tensor_list")
    _same_dtype("all_gather", tensor_list[0], tensor)
    counts = [part.numel() for part in tensor_list]
    if counts[found.rank()] != tensor.numel():
        raise ValueError(
            f"all_gather: tensor has {tensor.numel()} elements, and its place in tensor_list "
            f"{counts[found.rank()]}"
        )
    call = Call("all_gather", tensor, count=sum(counts))
    parts = _written(*tensor_list)

    def steps(work):
        yield from agree(found, call, work)
        flat = tensor.detach().new_empty(sum(counts))
        if flat.numel():
            yield found.carrier(flat).all_gather(flat, _plain(tensor).view(-1), counts)
        for part, piece in zip(parts, flat.split(counts)):
            part.copy_(piece.view(part.shape))

    def derived():
        return found.allgather([list(tensor_list)], [tensor], options("Allgather", async_op))

    return found.run(steps, call, list(tensor_list), async_op, derived=derived)


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: ProcessGroup | None = None, async_op: bool = False
) -> Any:
    """Copy the tensors of all members into one, one behind the other or stacked.

    Args:
        output_tensor: has room for all.
        input_tensor: this member's.
        others: see all_reduce.
    """
    check_tensor("all_gather_into_tensor", output_tensor, "output_tensor")
    check_tensor("all_gather_into_tensor", input_tensor, "input_tensor")
    found = member(group, "all_gather_into_tensor")
    if found is None:
        return None
    _same_dtype("all_gather_into_tensor", output_tensor, input_tensor)
    count = input_tensor.numel()
    if output_tensor.numel() != count * found.size():
        raise ValueError(
            "output tensor size must be equal to world_size times input tensor size: "
            f"all_gather_into_tensor: {tuple(output_tensor.shape)} for "
            f"{tuple(input_tensor.shape)} of {found.size()} members"
        )
    call = Call("all_gather_into_tensor", input_tensor)
    (into,) = _written(output_tensor)

    def steps(work):
        yield from agree(found, call, work)
        staged = into if into.is_contiguous() else into.new_empty(into.shape)
        if staged.numel():
            flat = staged.view(-1)
            sent = _apart(_plain(input_tensor).view(-1), flat)
            yield found.carrier(flat).all_gather(flat, sent, [count] * found.size())
        if staged is not into:
            into.copy_(staged)

    def derived():
        chosen = options("Allgather", async_op)
        return found._allgather_base(output_tensor, input_tensor, chosen)

    return found.run(steps, call, [output_tensor], async_op, derived=derived)


def all_gather_into_tensor_coalesced(
    outputs: Any, inputs: Any, group: ProcessGroup | None = None, async_op: bool = False
) -> Any:
    """all_gather_into_tensor of several tensors."""
    works = [
        all_gather_into_tensor(output, input, group, async_op=True)
        for output, input in zip(outputs, inputs, strict=True)
    ]
    return _all(works, async_op)


def all_gather_coalesced(
    output_tensor_lists: Any,
    input_tensor_list: Any,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """all_gather of several tensors: list i gets those of member i; with `async_op`, returns a
    Future of them.
    """
    work = _all_gather_coalesced(output_tensor_lists, input_tensor_list, group, async_op)
    return None if work is None else work.get_future()


def _all_gather_coalesced(output_tensor_lists, input_tensor_list, group=None, async_op=False):
    if member(group, "all_gather_coalesced") is None:
        return None
    works = [
        all_gather([parts[i] for parts in output_tensor_lists], tensor, group, async_op=True)
        for i, tensor in enumerate(input_tensor_list)
    ]
    return _all(works, async_op)


def gather(
    tensor: Tensor,
    gather_list: Any = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: Any = None,
) -> Any:
    """Copy the tensors of all members into the list of `dst`.

    Args:
        tensor: this member's, of the same size in all.
        gather_list: a tensor for each member, at `dst`; None elsewhere.
        dst, group_dst: who gets them; rank 0 by default.
        others: see all_reduce.
    """
    check_tensor("gather", tensor)
    found = member(group, "gather")
    if found is None:
        return None
    root = root_of(found, "gather", dst, group_dst, 0, "dst")
    if found.rank() == root:
        _check_list("gather", gather_list or [], "gather_list")
        _check_length("gather", gather_list or [], found.size(), "gather_list")
        for part in gather_list:
            _check_part("gather", part, tensor.numel())
            _same_dtype("gather", part, tensor)
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    call = Call("gather", tensor, root=root)
    parts = _written(*gather_list) if found.rank() == root else []

    def steps(work):
        yield from agree(found, call, work)
        flat = tensor.detach().new_empty(len(parts) * tensor.numel())
        if tensor.numel():
            yield found.carrier(flat).gather(flat, _plain(tensor).view(-1), root)
        for i, part in enumerate(parts):
            part.copy_(flat[i * tensor.numel() : (i + 1) * tensor.numel()].view(part.shape))

    def derived():
        outputs = [list(gather_list)] if found.rank() == root else []
        return found.gather(outputs, [tensor], options("Gather", async_op, rootRank=root))

    return found.run(steps, call, list(gather_list or []), async_op, derived=derived)


def scatter(
    tensor: Tensor,
    scatter_list: Any = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: Any = None,
) -> Any:
    """Give each member a tensor of the list of `src`.

    Args:
        tensor: where this member's goes.
        scatter_list: a tensor for each member, at `src`; None elsewhere.
        src, group_src: whose; rank 0 by default.
        others: see all_reduce.
    """
    check_tensor("scatter", tensor)
    found = member(group, "scatter")
    if found is None:
        return None
    root = root_of(found, "scatter", src, group_src, 0)
    if found.rank() == root:
        _check_list("scatter", scatter_list or [], "scatter_list")
        _check_length("scatter", scatter_list or [], found.size(), "scatter_list")
        for part in scatter_list:
            _check_part("scatter", part, tensor.numel())
            _same_dtype("scatter", part, tensor)
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    call = Call("scatter", tensor, root=root)
    (into,) = _written(tensor)

    def steps(work):
        yield from agree(found, call, work)
        if found.rank() == root:
            flat = rushlight.cat([_plain(part).view(-1) for part in scatter_list])
        else:
            flat = into.new_empty(0)
        staged = into.new_empty(into.numel())
        if staged.numel():
            yield found.carrier(staged).scatter(staged, flat, root)
        into.copy_(staged.view(into.shape))

    def derived():
        inputs = [list(scatter_list)] if found.rank() == root else []
        return found.scatter([tensor], inputs, options("Scatter", async_op, rootRank=root))

    return found.run(steps, call, [tensor], async_op, derived=derived)


def all_to_all_single(
    output: Any,
    input: Tensor,
    output_split_sizes: Any = None,
    input_split_sizes: Any = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """Give part i of each member's tensor to member i.

    Args:
        output: where the parts from all members go, one behind the other.
        input: the parts for all members, one behind the other.
        output_split_sizes, input_split_sizes: the parts' sizes along dim 0; equal by default.
        others: see all_reduce.
    """
    check_tensor("all_to_all_single", output, "output")
    check_tensor("all_to_all_single", input, "input")
    found = member(group, "all_to_all_single")
    if found is None:
        return None
    _same_dtype("all_to_all_single", output, input)
    output_counts = _split_counts(found, output, output_split_sizes, "output")
    input_counts = _split_counts(found, input, input_split_sizes, "input")
    call = Call("all_to_all_single", input, count=-1)
    (into,) = _written(output)

    def steps(work):
        yield from agree(found, call, work)
        staged = into if into.is_contiguous() else into.new_empty(into.shape)
        sent = _apart(_plain(input).view(-1), staged)
        yield from _all_to_all(found, work, staged.view(-1), sent, output_counts, input_counts)
        if staged is not into:
            into.copy_(staged)

    def derived():
        sizes = list(output_split_sizes or ()), list(input_split_sizes or ())
        return found.alltoall_base(output, input, *sizes, options("AllToAll", async_op))

    return found.run(steps, call, [output], async_op, derived=derived)


def _split_counts(found, tensor, sizes, which):
    name, size = "all_to_all_single", found.size()
    length = tensor.size(0) if tensor.dim() else tensor.numel()
    if not sizes:
        if length % size:
            raise ValueError(
                f"{name}: Tensor's dim 0 does not divide equally across group size: {which} of "
                f"{length} for {size}"
            )
        sizes = [length // size] * size
    if len(sizes) != size or sum(sizes) != length:
        raise ValueError(f"{name}: {list(sizes)} are no parts of {length} for {size}: {which}")
    row = tensor.numel() // length if length else 0
    return [count * row for count in sizes]


def _all_to_all(found, work, output, input, output_counts, input_counts):
    """Steps that exchange parts, once all know that sizes fit."""
    size = found.size()
    if size > 1:
        announced = rushlight.tensor(input_counts)
        coming = rushlight.empty(size, dtype=rushlight.int64)
        yield found._transport.all_to_all(coming, announced, [1] * size, [1] * size)
        wrong = [i for i in range(size) if coming[i].item() != output_counts[i]]
        flag = rushlight.tensor([len(wrong)])
        yield found._transport.all_reduce(flag, ReduceOp.SUM)
        if flag.item():
            texts = [
                f"rank {found._ranks[i]} sends {coming[i].item()} elements to rank "
                f"{found._ranks[found.rank()]}, which expects {output_counts[i]}"
                for i in wrong
            ] or ["another rank expects other sizes than are sent"]
            raise DistBackendError(f"{work.describe()}: {'; '.join(texts)}")
    if sum(output_counts) + sum(input_counts) == 0:
        # The others may have something for each other.
        output, input = output.view(-1), input.view(-1)
    yield found.carrier(output).all_to_all(output, input, output_counts, input_counts)


def all_to_all(
    output_tensor_list: Any,
    input_tensor_list: Any,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """Give tensor i of each member's list to member i.

    Args:
        output_tensor_list: where those from all members go.
        input_tensor_list: a tensor for each member.
        others: see all_reduce.
    """
    _check_list("all_to_all", output_tensor_list, "output_tensor_list")
    _check_list("all_to_all", input_tensor_list, "input_tensor_list")
    found = member(group, "all_to_all")
    if found is None:
        return None
    _check_length("all_to_all", output_tensor_list, found.size(), "output_tensor_list")
    _check_length("all_to_all", input_tensor_list, found.size(), "input_tensor_list")
    _same_dtype("all_to_all", output_tensor_list[0], input_tensor_list[0])
    output_counts = [tensor.numel() for tensor in output_tensor_list]
    input_counts = [tensor.numel() for tensor in input_tensor_list]
    call = Call("all_to_all", input_tensor_list[0], count=-1)
    parts = _written(*output_tensor_list)

    def steps(work):
        yield from agree(found, call, work)
        sent = rushlight.cat([_plain(tensor).view(-1) for tensor in input_tensor_list])
        flat = sent.new_empty(sum(output_counts))
        yield from _all_to_all(found, work, flat, sent, output_counts, input_counts)
        for part, piece in zip(parts, flat.split(output_counts)):
            part.copy_(piece.view(part.shape))

    def derived():
        return found.alltoall(
            list(output_tensor_list), list(input_tensor_list), options("AllToAll", async_op)
        )

    return found.run(steps, call, list(output_tensor_list), async_op, derived=derived)


# ------------------------------------------------------------------ meeting


def barrier(
    group: ProcessGroup | None = None, async_op: bool = False, device_ids: Any = None
) -> Any:
    """Wait until all members have come here.

    Args:
        group, async_op: see all_reduce.
        device_ids: GPUs whose work has to be done too, where NCCL serves them; the current one by
            default.
    """
    found = member(group, "barrier")
    if found is None:
        return None
    if device_ids is not None and not isinstance(device_ids, list):
        raise TypeError("Invalid function argument: device_ids type should be List[int]")
    call = Call("barrier")
    devices = device_ids if device_ids is not None else [None]

    def steps(work):
        if found.serves_gpus():
            for device in devices:
                rushlight.cuda.synchronize(device)
        # Agreement is a meeting of all.
        yield from agree(found, call, work)

    def derived():
        chosen = options("Barrier", async_op, device_ids=device_ids or [])
        return found.barrier(opts=chosen)

    return found.run(steps, call, [], async_op, derived=derived)


def monitored_barrier(
    group: ProcessGroup | None = None,
    timeout: timedelta | None = None,
    wait_all_ranks: bool = False,
) -> None:
    """Wait until all members have come here, or fail with the names of those that have not.

    Args:
        group: the members; all processes by default.
        timeout: a timedelta; that of the group by default.
        wait_all_ranks: name all that are missing, which happens in any case.
    """
    found = member(group, "monitored_barrier")
    if found is None:
        return
    if not isinstance(wait_all_ranks, bool):
        raise TypeError(f"monitored_barrier: wait_all_ranks must be a bool, got {wait_all_ranks!r}")
    if timeout is not None and seconds_of(timeout) <= 0:
        raise ValueError(f"monitored_barrier: timeout must be positive, got {timeout}")
    call = Call("monitored_barrier")
    found.run(lambda work: agree(found, call, work), call, [], False, timeout=timeout)


class _All(Work):
    """Several operations as one."""

    def __init__(self, works: Any) -> None:
        self._works = works

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for all."""
        return all([work.wait(timeout) for work in self._works])

    def is_completed(self) -> bool:
        """Have all ended?"""
        return all([work.is_completed() for work in self._works])

    def is_success(self) -> bool:
        """Have all ended well?"""
        return all(work.is_success() for work in self._works)

    def exception(self) -> Any:
        """The first error."""
        return next((e for e in (work.exception() for work in self._works) if e), None)

    def result(self) -> Any:
        """The tensors they wrote."""
        return [tensor for work in self._works for tensor in work.result()]

    def get_future(self) -> Any:
        """A future of the tensors they write."""
        futures = [work.get_future() for work in self._works]
        return rushlight.futures.collect_all(futures).then(
            lambda done: [tensor for future in done.value() for tensor in future.value()]
        )


def _all(works, async_op):
    works = [work for work in works if work is not None]
    together = _All(works)
    if async_op:
        return together if works else None
    together.wait()
    return None


class _Coalescing:
    """What `_coalescing_manager` yields: the works that began within."""

    def __init__(self) -> None:
        self.works = []

    def append(self, work: Any) -> None:
        """Add an operation."""
        if work is not None:
            self.works.append(work)

    def wait(self) -> None:
        """Wait for all."""
        for work in self.works:
            work.wait()


@contextlib.contextmanager
def _coalescing_manager(group=None, device=None, async_ops=False):
    """Gather operations, begun with `async_op=True`, and wait for them together."""
    resolve(group)
    if device is not None and rushlight.device(device).type not in ("cpu", "cuda"):
        raise RuntimeError(f"_coalescing_manager: no backend for device {device}")
    manager = _Coalescing()
    yield manager
    if not async_ops:
        manager.wait()
