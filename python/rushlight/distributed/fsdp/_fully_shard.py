"""fully_shard: ZeRO stage 3 (S. Rajbhandari et al., 2019) with parameters that are DTensors.

A module's parameters are put together before its forward pass and again in backward, where an
operation that has saved one needs it; its gradient is reduced and divided in one go. Both are one
operation of autograd, `_Unshard`.
"""

from __future__ import annotations

import dataclasses
import functools

import rushlight
from rushlight._ignored import older_name, warn_once
from rushlight._set_module import set_module
from rushlight.autograd import Function
from rushlight.autograd.graph import saved_tensors_hooks
from rushlight.distributed import _collectives as collectives
from rushlight.distributed._casts import cast_floating, moved
from rushlight.distributed._group import get_process_group_ranks, get_world_size, new_group
from rushlight.distributed._reduction import ReduceOp
from rushlight.distributed.device_mesh import init_device_mesh
from rushlight.distributed.tensor._dtensor import DTensor
from rushlight.distributed.tensor.placement_types import Replicate, Shard, _StridedShard
from rushlight.nn import Module, Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from rushlight import Tensor
    from rushlight.distributed.device_mesh import DeviceMesh


@dataclasses.dataclass(frozen=True)
class MixedPrecisionPolicy:
    """In which dtypes a module computes and reduces; None leaves them.

    Args:
        param_dtype: of parameters in forward and backward.
        reduce_dtype: in which gradients are reduced; param_dtype by default.
        output_dtype: of floating-point outputs.
        cast_forward_inputs: floating-point inputs become param_dtype too.
    """

    param_dtype: rushlight.dtype | None = None
    reduce_dtype: rushlight.dtype | None = None
    output_dtype: rushlight.dtype | None = None
    cast_forward_inputs: bool = True


@dataclasses.dataclass
class OffloadPolicy:
    """Parameters stay on the device where they are."""


@dataclasses.dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters, gradients and what optimizers keep stay on the CPU, where they are.

    Args:
        pin_memory: page-locked memory, for copies to a GPU; refused.

    Example:
        >>> CPUOffloadPolicy(pin_memory=False)
        CPUOffloadPolicy(pin_memory=False)
    """

    pin_memory: bool = True


@dataclasses.dataclass
class DataParallelMeshDims:
    """Which dims of a mesh of all processes are those of data parallelism.

    Args:
        shard: name or names of the dims along which parameters are divided.
        replicate: name or names of the dims along which they are copied.

    Raises:
        ValueError: both are None.

    Example:
        >>> DataParallelMeshDims(shard=("dp", "cp")).shard_names
        ('dp', 'cp')
    """

    shard: str | tuple[str, ...] | None = None
    replicate: str | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.shard is None and self.replicate is None:
            raise ValueError(
                "At least one of shard or replicate must be set in DataParallelMeshDims"
            )

    @property
    def shard_names(self) -> tuple[str, ...]:
        """The names of `shard` as a tuple."""
        return _names(self.shard)

    @property
    def replicate_names(self) -> tuple[str, ...]:
        """The names of `replicate` as a tuple."""
        return _names(self.replicate)


def _names(dims):
    return () if dims is None else (dims,) if isinstance(dims, str) else tuple(dims)


class UnshardHandle:
    """What FSDPModule.unshard(async_op=True) returns."""

    def wait(self) -> None:
        """Return: the parameters were put together when `unshard` returned."""


class _Outside:
    """How tensor parallelism has divided a parameter before.

    Args:
        parameter: a DTensor on a mesh of tensor parallelism.
        mesh: along whose last dim its parts are to be divided.
        way: the placements on that mesh.
    """

    def __init__(self, parameter: DTensor, mesh: DeviceMesh, way: Any) -> None:
        self.mesh, self.placements = parameter.device_mesh, parameter.placements
        self.shape = parameter.shape
        root = mesh._root
        if root is None or self.mesh._root is not root:
            raise ValueError(
                "fully_shard: the mesh of data parallelism and that of tensor parallelism must be "
                f"parts of one mesh, got {mesh} and {self.mesh}"
            )
        self.all_dims = root[(*mesh.mesh_dim_names, *self.mesh.mesh_dim_names)]
        before = 1
        for i, placement in enumerate(self.placements):
            if placement.is_partial():
                raise NotImplementedError(f"fully_shard: a parameter with {placement}")
            if placement._divides(0):
                before *= self.mesh.size(i)
        own = _StridedShard(0, split_factor=before) if before > 1 else way[-1]
        self.way = (*way[:-1], own, *self.placements)

    def put_on(self, tensor: Tensor) -> DTensor:
        """This process's part of tensor parallelism as such."""
        return DTensor._make(tensor, self.mesh, self.placements, self.shape)


@dataclasses.dataclass
class _Settings:
    """What methods of FSDPModule, or FullyShardedDataParallel, have set.

    Args:
        reduces_copies: gradients are reduced along the mesh's dim of copies too.
        reshards_after_backward: whole parameters are dropped after backward.
        gathers_in_backward: they may be put together in backward.
        reduces_unused: parameters without a gradient take part in reductions, by zeros.
        only_sums: collectives add up, and the division comes afterwards.
        gather, reduce_scatter: what exchanges in place of the collectives.
        hook, stream: called with what was reduced, on a stream of its own.
        event: for which the next forward pass waits.
        communication: FullyShardedDataParallel's hook and its state.
    """

    reduces_copies: bool = True
    reshards_after_backward: bool = True
    gathers_in_backward: bool = True
    reduces_unused: bool = False
    only_sums: bool = False
    gather: Any = None
    reduce_scatter: Any = None
    hook: Any = None
    stream: Any = None
    event: Any = None
    communication: Any = None


class _Parameters:
    """The parameters that one call of fully_shard has divided."""

    def __init__(self, places: Any, mesh: DeviceMesh, policy: Any) -> None:
        self.places = places  # lists of (module, name), for each parameter
        self.mesh, self.policy = mesh, policy
        self.group = mesh.get_group(mesh.ndim - 1)
        self.copies = mesh.get_group(0) if mesh.ndim == 2 else None
        way = (Replicate(), Shard(0)) if mesh.ndim == 2 else (Shard(0),)
        self.sharded, self.shapes, self.steps = [], [], []
        self.outside: list[_Outside | None] = []  # for each: how tensor parallelism has divided it
        for users in places:
            module, name = users[0]
            whole = module._parameters[name]
            outside = _Outside(whole, mesh, way) if isinstance(whole, DTensor) else None
            self.outside.append(outside)
            requires_grad = whole.requires_grad
            if outside is not None:
                whole = whole.to_local()
            if whole.dim() == 0:
                raise ValueError(f"fully_shard doesn't support scalar parameters: {name}")
            count, first = Shard.local_shard_size_and_offset(
                whole.size(0), self.group.size(), self.group.rank()
            )
            with rushlight.no_grad():
                local = whole.detach().narrow(0, first, count).clone()
            if outside is None:
                divided = DTensor._make(local, mesh, way, whole.shape)
            else:
                divided = DTensor._make(local, outside.all_dims, outside.way, outside.shape)
            parameter = Parameter(divided, requires_grad=requires_grad)
            self.sharded.append(parameter)
            self.shapes.append(tuple(whole.shape))
            longest, _ = Shard.local_shard_size_and_offset(whole.size(0), self.group.size(), 0)
            self.steps.append(longest)
        self.reshards = True
        self.reduces = True
        self.kept_gradients = None  # of passes without reduction
        self.full, self._again = None, None
        self.forward_prefetch, self.backward_prefetch = (), ()
        self.divide_factor = None
        self.is_root = None  # known at the first forward pass
        self.settings = _Settings()
        self.kept = None  # whole parameters that a backward pass has left for the next forward
        self.partial: dict[int, Any] = {}  # sums of gradients that wait for those of the copies
        self.group_of_reduction = self.group
        self.put_sharded()

    # ------------------------------------------------------------ in modules

    def _put(self, tensors):
        for users, tensor in zip(self.places, tensors):
            for module, name in users:
                module._parameters[name] = tensor

    def put_sharded(self) -> None:
        """Let the modules have the parts."""
        # They may have been replaced meanwhile, by load_state_dict(assign=True) or by the program.
        self._put(self.sharded)

    def unshard(self) -> None:
        """Put the parameters together, and let the modules have them."""
        if self.full is None:
            self._again = None  # of a backward pass that never came
            for i, users in enumerate(self.places):
                module, name = users[0]
                self.sharded[i] = module._parameters[name]
            full = _Unshard.apply(self, *[parameter.to_local() for parameter in self.sharded])
            self.full = list(full)
            self._put(
                [
                    tensor if outside is None else outside.put_on(tensor)
                    for tensor, outside in zip(full, self.outside)
                ]
            )

    def reshard(self) -> None:
        """Let the modules have the parts again."""
        if self.full is not None:
            self.full = None
            self.put_sharded()

    def forget(self) -> None:
        """Drop all that a pass which did not end has left."""
        self.reshard()
        self._again = self.kept = self.kept_gradients = None
        self.partial.clear()

    # ------------------------------------------------------------ exchanging

    def _rests(self):
        """Elements of a row, of each parameter."""
        return [rushlight.Size(shape[1:]).numel() for shape in self.shapes]

    def gather(self, locals_: Any, is_exact: bool = False) -> Any:
        """The whole parameters, of this process's parts; `is_exact`: in their own dtypes."""
        dtype = None if is_exact else self.policy.param_dtype
        size, padded, counts = self.group.size(), [], []
        for local, step, rest in zip(locals_, self.steps, self._rests()):
            flat = local.reshape(-1).to(dtype) if dtype is not None else local.reshape(-1)
            missing = step * rest - flat.numel()
            if missing:
                flat = rushlight.cat([flat, flat.new_zeros(missing)])
            padded.append(flat)
            counts.append(step * rest)
        whole = []
        for indices in _by_dtype(padded):
            sent = rushlight.cat([padded[i] for i in indices])
            rows = self._exchange(sent)
            columns = rows.split([counts[i] for i in indices], 1)
            for i, column in zip(indices, columns):
                shape = self.shapes[i]
                together = column.reshape(size * self.steps[i], *shape[1:])
                whole.append((i, together[: shape[0]].contiguous()))
        return [tensor for _, tensor in sorted(whole, key=lambda pair: pair[0])]

    def _exchange(self, sent):
        """The flat tensors of all processes, as rows."""
        size, comm = self.group.size(), self.settings.gather
        if comm is None or size == 1:
            rows = sent.new_empty(size, sent.numel())
            collectives.all_gather_into_tensor(rows, sent, group=self.group)
            return rows
        count = sent.numel()
        rows = comm.allocate((size * count,), dtype=sent.dtype, device=sent.device)
        mine = rows.narrow(0, self.group.rank() * count, count).copy_(sent)
        work = comm(output_tensor=rows, input_tensor=mine, group=self.group, async_op=False)
        if work is not None:
            work.wait()
        return rows.view(size, count)

    def reduce(self, gradients: Any, dtypes: Any) -> Any:
        """This process's parts of the mean of all gradients; None where there is no gradient."""
        size, rank, laid_out = self.group.size(), self.group.rank(), {}
        dtype = self.policy.reduce_dtype or self.policy.param_dtype
        for i, (gradient, step) in enumerate(zip(gradients, self.steps)):
            if gradient is None:
                continue
            gradient = gradient.to(dtype) if dtype is not None else gradient
            missing = size * step - gradient.size(0)
            if missing:
                rows = gradient.new_zeros(missing, *gradient.shape[1:])
                gradient = rushlight.cat([gradient, rows])
            laid_out[i] = gradient.reshape(size, -1)
        parts = [None] * len(gradients)
        for indices in _by_dtype(laid_out):
            mine = self._reduced(rushlight.cat([laid_out[i] for i in indices], 1))
            pieces = mine.split([laid_out[i].size(1) for i in indices])
            for i, piece in zip(indices, pieces):
                if i in self.partial:
                    piece += self.partial.pop(i)
            if self.copies is not None and not self.settings.reduces_copies:
                self.partial.update(zip(indices, pieces))
                continue
            self._finish(mine)
            for i, piece in zip(indices, pieces):
                count, _ = Shard.local_shard_size_and_offset(self.shapes[i][0], size, rank)
                piece = piece.view(self.steps[i], *self.shapes[i][1:])[:count]
                parts[i] = piece.to(dtypes[i]).contiguous()
        return parts

    def reduce_kept(self) -> None:
        """Reduce the gradients that passes without reduction have added up."""
        if self.kept_gradients is None:
            return
        kept, self.kept_gradients = self.kept_gradients, None
        parts = self.reduce(kept, [sharded.dtype for sharded in self.sharded])
        for sharded, part in zip(self.sharded, parts):
            if part is None or not sharded.requires_grad:
                continue
            way = sharded.device_mesh, sharded.placements, sharded.shape
            if sharded.grad is None:
                sharded.grad = DTensor._make(part, *way)
            else:
                sharded.grad.to_local().add_(part)

    def _operation(self):
        is_mean = self.divide_factor is None and not self.settings.only_sums
        return ReduceOp.AVG if is_mean else ReduceOp.SUM

    def _reduced(self, sent):
        """This process's row of the sum or mean of all processes' rows."""
        settings, group, op = self.settings, self.group_of_reduction, self._operation()
        if settings.communication is not None:
            return self._by_hook(sent)
        comm = settings.reduce_scatter
        if comm is None or group.size() == 1:
            mine = sent.new_empty(sent.size(1))
            collectives.reduce_scatter_tensor(mine, sent, op, group)
            return mine
        place = {"dtype": sent.dtype, "device": sent.device}
        whole = comm.allocate((sent.numel(),), **place).copy_(sent.view(-1))
        mine = comm.allocate((sent.size(1),), **place)
        work = comm(output_tensor=mine, input_tensor=whole, group=group, op=op, async_op=False)
        if work is not None:
            work.wait()
        return mine

    def _by_hook(self, sent):
        """What FullyShardedDataParallel's hook makes of the flat gradients."""
        hook, state, is_whole = self.settings.communication
        flat = sent.reshape(-1)
        if is_whole:
            hook(state, flat)
            return flat
        mine = flat.new_empty(sent.size(1))
        hook(state, flat, mine)
        return mine

    def _finish(self, mine):
        """Reduce among copies, divide, and call the program's hook."""
        settings = self.settings
        if settings.communication is not None:
            return
        if self.copies is not None:
            collectives.all_reduce(mine, self._operation(), self.copies)
        if settings.only_sums:  # the hook adds up too
            self._call_hook(mine)
        if self._operation() is ReduceOp.SUM:
            processes = self.group.size() * (1 if self.copies is None else self.copies.size())
            mine.div_(processes if self.divide_factor is None else self.divide_factor)
        if not settings.only_sums:
            self._call_hook(mine)

    def _call_hook(self, mine):
        hook, stream = self.settings.hook, self.settings.stream
        if hook is None:
            return
        if stream is None:
            hook(mine)
            return
        stream.wait_stream(rushlight.cuda.current_stream(mine.device))
        with rushlight.cuda.stream(stream):
            hook(mine)
        rushlight.cuda.current_stream(mine.device).wait_stream(stream)

    # -------------------------------------------------- what backward has to get again

    def pack(self, tensor: Tensor) -> Any:
        """What autograd keeps of a tensor: of a whole parameter only which it is."""
        if self.full is None or (tensor.numel(), tensor.dtype) not in self._kinds():
            return tensor
        address = tensor.untyped_storage().data_ptr()
        for i, full in enumerate(self.full):
            if full.untyped_storage().data_ptr() == address:
                place = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
                return _Saved(i, *place)
        return tensor

    def _kinds(self):
        return {(full.numel(), full.dtype) for full in self.full}

    def unpack(self, packed: Any) -> Any:
        """The tensor again."""
        if not isinstance(packed, _Saved):
            return packed
        if self._again is None:
            if not self.settings.gathers_in_backward and self.kept is None:
                raise RuntimeError(
                    "set_unshard_in_backward(False): backward needs a parameter of shape "
                    f"{list(self.shapes[packed.index])}, which is not put together"
                )
            self.gather_again()
            for parameters in self.backward_prefetch:
                wanted = parameters.reshards and parameters.settings.gathers_in_backward
                if wanted and parameters._again is None:
                    parameters.gather_again()
        whole = self._again[packed.index]
        return whole.as_strided(packed.size, packed.stride, packed.offset)

    def gather_again(self) -> None:
        """Put together for backward what forward has dropped."""
        if self.kept is not None:
            self._again = self.kept
            return
        with rushlight.no_grad():
            locals_ = [parameter.to_local().detach() for parameter in self.sharded]
            self._again = self.gather(locals_)

    def end_of_backward(self) -> None:
        """Forget what was put together, or keep it for the next forward pass."""
        if self.settings.reshards_after_backward:
            self.kept = None
        elif self._again is not None:
            self.kept = self._again
        self._again = None


@dataclasses.dataclass
class _Saved:
    """A whole parameter, or a view of it, that an operation has saved for backward."""

    index: int
    size: tuple
    stride: tuple
    offset: int


def _by_dtype(tensors):
    """Lists of the places in a list, or keys in a dict, of tensors of one dtype."""
    groups = {}
    for i, tensor in tensors.items() if isinstance(tensors, dict) else enumerate(tensors):
        groups.setdefault(tensor.dtype, []).append(i)
    return list(groups.values())


class _Unshard(Function):
    """Whole parameters of parts; backward reduces and divides their gradients."""

    @staticmethod
    def forward(ctx: Any, parameters: Any, *locals_: Any) -> Any:
        ctx.parameters, ctx.dtypes = parameters, [local.dtype for local in locals_]
        ctx.devices = [local.device for local in locals_]
        ctx.set_materialize_grads(False)
        if parameters.kept is None:
            whole = parameters.gather([local.detach() for local in locals_])
            if parameters.reshards or parameters.settings.reshards_after_backward:
                return tuple(whole)
            parameters.kept = whole
        return tuple(tensor.detach() for tensor in parameters.kept)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        parameters = ctx.parameters
        parameters.end_of_backward()
        whole = list(gradients)
        if parameters.kept_gradients is not None:
            for i, kept in enumerate(parameters.kept_gradients):
                if kept is not None:
                    whole[i] = kept if whole[i] is None else whole[i] + kept
            parameters.kept_gradients = None
        if not parameters.reduces:
            parameters.kept_gradients = whole
            return (None,) * (1 + len(whole))
        for i, sharded in enumerate(parameters.sharded):
            takes_part = parameters.settings.reduces_unused and sharded.requires_grad
            if whole[i] is None and (takes_part or i in parameters.partial):
                dtype = parameters.policy.param_dtype or ctx.dtypes[i]
                whole[i] = rushlight.zeros(parameters.shapes[i], dtype=dtype, device=ctx.devices[i])
        parts = parameters.reduce(whole, ctx.dtypes)
        return None, *(
            part if sharded.requires_grad else None
            for part, sharded in zip(parts, parameters.sharded)
        )


class FSDPModule:
    """What fully_shard adds to the class of a module."""

    _fsdp: _Parameters

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """A module of the class before: parts of containers are made of their own class."""
        made = cls.__mro__[2].__new__(cls.__mro__[2])
        made.__init__(*args, **kwargs)
        return made

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise AssertionError(
            "fully_shard: the module cannot be copied: its state dict can, into another one"
        )

    def _all(self):
        for module in self.modules():
            if isinstance(module, FSDPModule):
                yield module._fsdp

    def _chosen(self, recurse):
        return list(self._all()) if recurse else [self._fsdp]

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Put this module's parameters together, before it runs.

        Args:
            async_op: return a handle to wait for; the parameters are there when the call returns.
        """
        self._fsdp.unshard()
        return UnshardHandle() if async_op else None

    def reshard(self) -> None:
        """Keep this process's parts alone."""
        self._fsdp.reshard()
        self._fsdp.kept = None

    def reset_iter_state(self) -> None:
        """After an exception in forward or backward: forget all that the pass has left.

        Gradients that were not reduced yet are lost. Call it on the outermost module.

        Raises:
            RuntimeError: this module is in another one.
        """
        if self._fsdp.is_root is False:
            raise RuntimeError("reset_iter_state must be called on the root FSDP module")
        for module in self.modules():
            if isinstance(module, FSDPModule):
                object.__setattr__(module, "_fsdp_inside", False)
                module._fsdp.forget()

    def set_requires_gradient_sync(
        self, requires_gradient_sync: Any, *, recurse: bool = True
    ) -> None:
        """False: backward adds gradients up in this process, for the next pass that reduces."""
        for parameters in self._chosen(recurse):
            parameters.reduces = requires_gradient_sync
            parameters.settings.reduces_copies = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """False: gradients are reduced and divided, but not among copies, and add up until a pass
        that reduces those too. For a mesh of two dims; with one dim there are no copies.

        Args:
            requires_all_reduce: True or False.
            recurse: of the modules in this one too.
        """
        for parameters in self._chosen(recurse):
            parameters.settings.reduces_copies = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Whether whole parameters are dropped between forward and backward."""
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(
                f"reshard_after_forward should be a bool, got {type(reshard_after_forward)}"
            )
        for parameters in self._chosen(recurse):
            parameters.reshards = reshard_after_forward

    def set_reshard_after_backward(
        self, reshard_after_backward: bool, *, recurse: bool = True
    ) -> None:
        """Whether whole parameters are dropped after backward.

        False spares the next forward pass an exchange, while gradients add up: set it to True
        again for the backward pass before the optimizer's step, whose changes are not seen else.

        Args:
            reshard_after_backward: True or False.
            recurse: of the modules in this one too.
        """
        for parameters in self._chosen(recurse):
            parameters.settings.reshards_after_backward = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Modules whose parameters are put together when this one begins its forward pass.

        Args:
            modules: those that run next.
        """
        self._fsdp.forward_prefetch = _parameters_of(modules, "set_modules_to_forward_prefetch")

    def set_modules_to_backward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Modules whose parameters are put together when this one begins its backward pass.

        Args:
            modules: those whose backward pass comes next.
        """
        self._fsdp.backward_prefetch = _parameters_of(modules, "set_modules_to_backward_prefetch")

    def set_custom_all_gather(self, comm: Any) -> None:
        """Let an object put parameters together in place of all_gather_into_tensor.

        Args:
            comm: `allocate(size, dtype=, device=)` gives memory; `comm(output_tensor=,
                input_tensor=, group=, async_op=)` exchanges, and returns None or a Work.
        """
        self._fsdp.settings.gather = comm

    def set_custom_reduce_scatter(self, comm: Any) -> None:
        """Let an object reduce gradients in place of reduce_scatter_tensor.

        Args:
            comm: as that of set_custom_all_gather, but called with `op` too.
        """
        self._fsdp.settings.reduce_scatter = comm

    def set_all_reduce_hook(
        self, hook: Callable[[Tensor], None], *, stream: rushlight.cuda.Stream | None = None
    ) -> None:
        """Let a function change reduced gradients, as to reduce them among further processes.

        Args:
            hook: called with this process's part of them, one behind the other; works in place.
            stream: of a GPU, on which it is called; not with a mesh of two dims.
        """
        if stream is not None and self._fsdp.copies is not None:
            raise ValueError("stream cannot be set when using native HSDP")
        self._fsdp.settings.hook = hook
        if stream is not None:
            self._fsdp.settings.stream = stream

    def set_post_optim_event(self, event: rushlight.Event) -> None:
        """An event of the optimizer's step for which the next forward pass waits, once.

        Args:
            event: recorded after the step.
        """
        if not callable(getattr(event, "wait", None)):
            raise TypeError(f"set_post_optim_event: expected an Event, got {event!r}")
        self._fsdp.settings.event = event

    def set_reduce_scatter_divide_factor(self, factor: float) -> None:
        """The older name of set_gradient_divide_factor.

        Args:
            factor: the number.
        """
        older_name("set_reduce_scatter_divide_factor", "set_gradient_divide_factor")
        self.set_gradient_divide_factor(factor)

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Divide this module's gradients by a number instead of the number of processes.

        Args:
            factor: the number.
        """
        if not factor > 0:
            raise ValueError(f"set_gradient_divide_factor: factor must be positive, got {factor}")
        self._fsdp.divide_factor = float(factor)

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """Whether collectives only add up, with a division of its own afterwards.

        Args:
            enable: True or False.
        """
        self._fsdp.settings.only_sums = enable

    def set_reduce_scatter_unused_params(
        self, reduce_scatter_unused_params: bool, *, recurse: bool = True
    ) -> None:
        """Whether parameters to which backward gives no gradient take part in reductions, by zeros:
        for processes that use different ones.

        Args:
            reduce_scatter_unused_params: True or False.
            recurse: of the modules in this one too.
        """
        for parameters in self._chosen(recurse):
            parameters.settings.reduces_unused = reduce_scatter_unused_params

    def set_reduce_scatter_max_input_buffers(
        self, max_input_buffers: int, *, recurse: bool = True
    ) -> None:
        """How many reductions of gradients may be under way; warns of more than one, which is what
        there is.

        Args:
            max_input_buffers: the number, at least 1.
            recurse: of the modules in this one too.
        """
        if isinstance(max_input_buffers, bool) or not isinstance(max_input_buffers, int):
            raise TypeError(
                f"max_input_buffers must be an int, got {type(max_input_buffers).__name__}"
            )
        if max_input_buffers < 1:
            raise ValueError(f"max_input_buffers must be a positive int, got {max_input_buffers}")
        if max_input_buffers > 1 and self._chosen(recurse):
            warn_once(
                "set_reduce_scatter_max_input_buffers: max_input_buffers has no effect: each "
                "reduction is waited for before the next begins"
            )

    def set_separate_reduce_scatter_group(
        self, enable: bool = True, *, recurse: bool = True
    ) -> None:
        """Whether gradients are reduced in a group of their own. All processes make the call.

        Args:
            enable: True, or False for that of the parameters again.
            recurse: of the modules in this one too.
        """
        made = {}
        for parameters in self._chosen(recurse):
            group = parameters.group
            if not enable:
                parameters.group_of_reduction = group
            elif parameters.group_of_reduction is group:
                ranks = tuple(get_process_group_ranks(group))
                if ranks not in made:
                    made[ranks] = new_group(list(ranks), use_local_synchronization=True)
                parameters.group_of_reduction = made[ranks]

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """Whether parameters may be put together in backward. With False, a backward pass that
        needs one raises a RuntimeError; that of an embedding needs none.

        Args:
            unshard_in_backward: True or False.
        """
        self._fsdp.settings.gathers_in_backward = unshard_in_backward

    def set_allocate_memory_from_process_group_for_comm(self, enable: bool) -> None:
        """Whether what is exchanged lies in memory of the group's own; warns that groups have none.

        Args:
            enable: True or False.
        """
        settings = self._fsdp.settings
        if settings.gather is not None or settings.reduce_scatter is not None:
            raise AssertionError(
                "set_allocate_memory_from_process_group_for_comm: not with set_custom_all_gather "
                "or set_custom_reduce_scatter, which have memory of their own"
            )
        if enable:
            warn_once(
                "set_allocate_memory_from_process_group_for_comm: enable has no effect: process "
                "groups have no allocator of their own"
            )

    def set_symm_mem_for_comm(self, backend: str = "NCCL") -> NoReturn:
        """Raises NotImplementedError: there is no symmetric memory.

        Args:
            backend: what gives it.
        """
        raise NotImplementedError(
            f"set_symm_mem_for_comm: symmetric memory of {backend} is not supported"
        )

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Whether the next backward pass is the last of several.

        Each pass waits for its own exchange here, so nothing is left for the last one to do.

        Args:
            is_last_backward: True or False.
        """
        if not isinstance(is_last_backward, bool):
            raise TypeError(f"set_is_last_backward: expected a bool, got {is_last_backward!r}")


def _parameters_of(modules, name):
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"{name}: expected modules of fully_shard, got {type(module)}")
    return tuple(module._fsdp for module in modules)


def share_comm_ctx(modules: list[FSDPModule]) -> None:
    """Let several modules use the same streams of a GPU for their collectives.

    On the CPU there are no streams: all exchange in the order of their calls already.

    Args:
        modules: modules of fully_shard.

    Raises:
        ValueError: another module is among them.
    """
    _parameters_of(modules, "share_comm_ctx")


def _run_whole(module, forward, args, kwargs):
    parameters = module._fsdp
    policy = parameters.policy
    if parameters.is_root is None:
        for inner in module._all():
            inner.is_root = inner is parameters
    if parameters.settings.event is not None:
        parameters.settings.event.wait()
        parameters.settings.event = None
    if parameters.sharded and parameters.sharded[0].is_cuda:
        args, kwargs = moved((args, kwargs), parameters.sharded[0].device)
    if policy.param_dtype is not None and policy.cast_forward_inputs:
        args, kwargs = cast_floating((args, kwargs), policy.param_dtype)
    for one in (parameters, *parameters.forward_prefetch):
        one.unshard()
    object.__setattr__(module, "_fsdp_inside", True)
    try:
        if parameters.reshards:
            with saved_tensors_hooks(parameters.pack, parameters.unpack):
                output = forward(*args, **kwargs)
        else:
            output = forward(*args, **kwargs)
    finally:
        object.__setattr__(module, "_fsdp_inside", False)
        parameters.reshard()
        if parameters.reshards:
            parameters.kept = None
    return output if policy.output_dtype is None else cast_floating(output, policy.output_dtype)


def _wrap(module, name):
    """Let a method of the module run with whole parameters."""
    original = getattr(module, name)

    @functools.wraps(original)
    def whole(*args, **kwargs):
        if module._fsdp_inside:
            return original(*args, **kwargs)
        return _run_whole(module, original, args, kwargs)

    object.__setattr__(module, name, whole)


def fully_shard(
    module: Module,
    *,
    mesh: DeviceMesh | None = None,
    reshard_after_forward: Any = None,
    shard_placement_fn: Any = None,
    mp_policy: Any = None,
    offload_policy: Any = None,
    ignored_params: Any = None,
    dp_mesh_dims: Any = None,
) -> Any:
    """Divide a module's parameters among processes, each along its first dim.

    Parameters of submodules that were divided before are left to them: call it for the layers, then
    for the whole. The parameters become DTensors, and so do their gradients; make the optimizer
    afterwards.

    Args:
        module: changed in place.
        mesh: the processes: of one dim, or of two, of which parameters are divided along the second
            and copied along the first. All by default.
        reshard_after_forward: drop the whole parameters between forward and backward, where they
            are put together again. By default so for all but the outermost module.
        shard_placement_fn, dp_mesh_dims: None.
        offload_policy: an OffloadPolicy or a CPUOffloadPolicy without pinned memory: parameters
            are on the CPU.
        mp_policy: dtypes to compute and to reduce in, a MixedPrecisionPolicy.
        ignored_params: a set of parameters that stay as they are.

    Returns:
        The module, whose class is now one of FSDPModule too.

    Example:
        >>> rushlight.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> net = rushlight.nn.Sequential(rushlight.nn.Linear(2, 4), rushlight.nn.Linear(4, 1))
        >>> net = fully_shard(net)
        >>> net(rushlight.ones(3, 2)).sum().backward()
        >>> net[1].bias.grad.full_tensor()
        tensor([3.])
        >>> rushlight.distributed.destroy_process_group()
    """
    if not isinstance(module, Module):
        raise NotImplementedError("fully_shard: give one module, not a list")
    if isinstance(module, FSDPModule):
        raise ValueError(f"fully_shard has already been applied to {type(module).__name__}")
    for name, value in (
        ("shard_placement_fn", shard_placement_fn),
        ("dp_mesh_dims", dp_mesh_dims),
    ):
        if value is not None:
            raise NotImplementedError(f"fully_shard: {name} is not supported")
    if isinstance(offload_policy, CPUOffloadPolicy) and offload_policy.pin_memory:
        raise NotImplementedError(
            "fully_shard: CPUOffloadPolicy: shards are not put in page-locked memory:"
            " pin_memory=False"
        )
    if offload_policy is not None and not isinstance(offload_policy, OffloadPolicy):
        raise TypeError(f"fully_shard: offload_policy: expected one, got {offload_policy!r}")
    if reshard_after_forward is not None and not isinstance(reshard_after_forward, bool):
        raise NotImplementedError("fully_shard: reshard_after_forward must be True, False or None")
    if mesh is None:
        on_gpu = any(parameter.is_cuda for parameter in module.parameters())
        mesh = init_device_mesh("cuda" if on_gpu else "cpu", (get_world_size(),))
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    ignored = {id(parameter) for parameter in ignored_params or ()}
    users = {}
    for child in module.modules():
        for name, parameter in child._parameters.items():
            if parameter is None or id(parameter) in ignored:
                continue
            if isinstance(parameter, DTensor):
                if not any(
                    parameter is mine
                    for inner in module.modules()
                    if isinstance(inner, FSDPModule)
                    for mine in inner._fsdp.sharded
                ):
                    users.setdefault(id(parameter), []).append((child, name))
                continue
            if isinstance(child, rushlight.nn.RNNBase):
                raise NotImplementedError(
                    f"fully_shard: {type(child).__name__} keeps its weights in a list of its own"
                )
            users.setdefault(id(parameter), []).append((child, name))
    inner = [m for m in module.modules() if isinstance(m, FSDPModule)]
    parameters = _Parameters(list(users.values()), mesh, mp_policy or MixedPrecisionPolicy())
    # The outermost module's backward begins as its forward ends; this one may not be the last.
    parameters.reshards = bool(reshard_after_forward)
    parameters.has_default = reshard_after_forward is None
    for child in inner:
        if child._fsdp.has_default:
            child._fsdp.reshards = True
    object.__setattr__(module, "_fsdp", parameters)
    object.__setattr__(module, "_fsdp_inside", False)
    before = type(module)
    module.__class__ = type(f"FSDP{before.__name__}", (FSDPModule, before), {})
    _wrap(module, "forward")
    module.register_load_state_dict_pre_hook(_drop_kept)
    return module


def _drop_kept(module, *_):
    """Whole parameters that were kept are not those of the state that is loaded."""
    module._fsdp.kept = None


def register_fsdp_forward_method(module: Module, method_name: Any) -> None:
    """Let another method than forward run with whole parameters too.

    Args:
        module: one that fully_shard was applied to; others are left as they are.
        method_name: the method.
    """
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    _wrap(module, method_name)


set_module(
    "rushlight.distributed.fsdp",
    CPUOffloadPolicy,
    DataParallelMeshDims,
    UnshardHandle,
    share_comm_ctx,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
