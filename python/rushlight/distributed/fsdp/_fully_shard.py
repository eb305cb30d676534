"""fully_shard: ZeRO stage 3 (S. Rajbhandari et al., 2019) with parameters that are DTensors.

A module's parameters are put together before its forward pass and again in backward, where an
operation that has saved one needs it; its gradient is reduced and divided in one go. Both are one
operation of autograd, `_Unshard`.
"""

from __future__ import annotations

import dataclasses
import functools

import rushlight
from rushlight._set_module import set_module
from rushlight.autograd import Function
from rushlight.autograd.graph import saved_tensors_hooks
from rushlight.distributed import _collectives as collectives
from rushlight.distributed._casts import cast_floating, moved
from rushlight.distributed._group import get_world_size
from rushlight.distributed._reduction import ReduceOp
from rushlight.distributed.device_mesh import init_device_mesh
from rushlight.distributed.tensor._dtensor import DTensor
from rushlight.distributed.tensor.placement_types import Replicate, Shard, _StridedShard
from rushlight.nn import Module, Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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

    param_dtype: rushlight.dtype = None
    reduce_dtype: rushlight.dtype = None
    output_dtype: rushlight.dtype = None
    cast_forward_inputs: bool = True


@dataclasses.dataclass
class OffloadPolicy:
    """Parameters stay on the device where they are."""


@dataclasses.dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Parameters, gradients and what optimizers keep stay on the CPU, where they are.

    Args:
        pin_memory: page-locked memory, for copies to a GPU; refused without one.

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
            if placement.is_shard(0):
                before *= self.mesh.size(i)
        own = _StridedShard(0, split_factor=before) if before > 1 else way[-1]
        self.way = (*way[:-1], own, *self.placements)

    def put_on(self, tensor: Tensor) -> DTensor:
        """This process's part of tensor parallelism as such."""
        return DTensor._make(tensor, self.mesh, self.placements, self.shape)


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
            rows = sent.new_empty(size, sent.numel())
            collectives.all_gather_into_tensor(rows, sent, group=self.group)
            columns = rows.split([counts[i] for i in indices], 1)
            for i, column in zip(indices, columns):
                shape = self.shapes[i]
                together = column.reshape(size * self.steps[i], *shape[1:])
                whole.append((i, together[: shape[0]].contiguous()))
        return [tensor for _, tensor in sorted(whole, key=lambda pair: pair[0])]

    def reduce(self, gradients: Any, dtypes: Any) -> Any:
        """This process's parts of the mean of all gradients."""
        size, rank, laid_out = self.group.size(), self.group.rank(), []
        dtype = self.policy.reduce_dtype or self.policy.param_dtype
        for gradient, step in zip(gradients, self.steps):
            gradient = gradient.to(dtype) if dtype is not None else gradient
            missing = size * step - gradient.size(0)
            if missing:
                rows = gradient.new_zeros(missing, *gradient.shape[1:])
                gradient = rushlight.cat([gradient, rows])
            laid_out.append(gradient.reshape(size, -1))
        parts = [None] * len(gradients)
        for indices in _by_dtype(laid_out):
            sent = rushlight.cat([laid_out[i] for i in indices], 1)
            mine = sent.new_empty(sent.size(1))
            op = ReduceOp.AVG if self.divide_factor is None else ReduceOp.SUM
            collectives.reduce_scatter_tensor(mine, sent, op, self.group)
            if self.copies is not None:
                collectives.all_reduce(mine, op, self.copies)
            if self.divide_factor is not None:
                mine.div_(self.divide_factor)
            pieces = mine.split([laid_out[i].size(1) for i in indices])
            for i, piece in zip(indices, pieces):
                count, _ = Shard.local_shard_size_and_offset(self.shapes[i][0], size, rank)
                piece = piece.view(self.steps[i], *self.shapes[i][1:])[:count]
                parts[i] = piece.to(dtypes[i]).contiguous()
        return parts

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
            self.gather_again()
            for parameters in self.backward_prefetch:
                if parameters.reshards and parameters._again is None:
                    parameters.gather_again()
        whole = self._again[packed.index]
        return whole.as_strided(packed.size, packed.stride, packed.offset)

    def gather_again(self) -> None:
        """Put together for backward what forward has dropped."""
        with rushlight.no_grad():
            locals_ = [parameter.to_local().detach() for parameter in self.sharded]
            self._again = self.gather(locals_)

    def end_of_backward(self) -> None:
        """Forget what was put together for backward."""
        self._again = None


@dataclasses.dataclass
class _Saved:
    """A whole parameter, or a view of it, that an operation has saved for backward."""

    index: int
    size: tuple
    stride: tuple
    offset: int


def _by_dtype(tensors):
    groups = {}
    for i, tensor in enumerate(tensors):
        groups.setdefault(tensor.dtype, []).append(i)
    return list(groups.values())


class _Unshard(Function):
    """Whole parameters of parts; backward reduces and divides their gradients."""

    @staticmethod
    def forward(ctx: Any, parameters: Any, *locals_: Any) -> Any:
        ctx.parameters, ctx.dtypes = parameters, [local.dtype for local in locals_]
        ctx.devices = [local.device for local in locals_]
        ctx.set_materialize_grads(False)
        return tuple(parameters.gather([local.detach() for local in locals_]))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        parameters = ctx.parameters
        parameters.end_of_backward()
        dtypes = [parameters.policy.param_dtype or dtype for dtype in ctx.dtypes]
        whole = [
            rushlight.zeros(shape, dtype=dtype, device=device) if gradient is None else gradient
            for gradient, shape, dtype, device in zip(
                gradients, parameters.shapes, dtypes, ctx.devices
            )
        ]
        if parameters.kept_gradients is not None:
            whole = [new + kept for new, kept in zip(whole, parameters.kept_gradients)]
            parameters.kept_gradients = None
        if not parameters.reduces:
            parameters.kept_gradients = whole
            return (None,) * (1 + len(whole))
        parts = parameters.reduce(whole, ctx.dtypes)
        return None, *(
            part if sharded.requires_grad else None
            for part, sharded in zip(parts, parameters.sharded)
        )


class FSDPModule:
    """What fully_shard adds to the class of a module."""

    def _all(self):
        for module in self.modules():
            if isinstance(module, FSDPModule):
                yield module._fsdp

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

    def set_requires_gradient_sync(
        self, requires_gradient_sync: Any, *, recurse: bool = True
    ) -> None:
        """False: backward adds gradients up in this process, for the next pass that reduces."""
        for parameters in self._all() if recurse else (self._fsdp,):
            parameters.reduces = requires_gradient_sync

    def set_reshard_after_forward(self, reshard_after_forward: Any, recurse: bool = True) -> None:
        """Whether whole parameters are dropped between forward and backward."""
        for parameters in self._all() if recurse else (self._fsdp,):
            parameters.reshards = reshard_after_forward

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

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Divide this module's gradients by a number instead of the number of processes.

        Args:
            factor: the number.
        """
        if not factor > 0:
            raise ValueError(f"set_gradient_divide_factor: factor must be positive, got {factor}")
        self._fsdp.divide_factor = float(factor)

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
        raise RuntimeError(
            "fully_shard: CPUOffloadPolicy: there is no GPU to pin memory for: pin_memory=False"
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
    return module


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
