"""A module whose gradients are the mean of those of all processes."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import typing
import weakref

import rushlight
from rushlight.distributed import _collectives as collectives, _objects as objects
from rushlight.distributed._casts import cast_floating, moved
from rushlight.distributed._group import resolve
from rushlight.distributed._reducer import Reducer
from rushlight.distributed.algorithms.join import Join, Joinable, JoinHook
from rushlight.func import functional_call
from rushlight.nn.modules.module import Module
from rushlight.nn.parallel.scatter_gather import gather, scatter_kwargs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from rushlight import device as _device
    from rushlight.distributed import ProcessGroup
    from rushlight.distributed.device_mesh import DeviceMesh

_MEGABYTE = 1 << 20


@dataclasses.dataclass
class _MixedPrecision:
    """In which dtypes a model computes and reduces its gradients; None leaves them.

    Args:
        param_dtype: of parameters in forward and backward.
        reduce_dtype: in which gradients travel.
        buffer_dtype: of buffers.
        cast_forward_inputs: floating-point inputs become param_dtype too.
    """

    param_dtype: rushlight.dtype = None
    reduce_dtype: rushlight.dtype = None
    buffer_dtype: rushlight.dtype = None
    cast_forward_inputs: bool = True


def _device_of(module, device_ids, output_device):
    """The device of all parameters, which may be named too."""
    devices = {parameter.device for parameter in module.parameters()}
    if len(devices) > 1:
        names = ", ".join(sorted(map(str, devices)))
        raise ValueError(
            f"DistributedDataParallel: expected all parameters on one device, got {names}"
        )
    (device,) = devices
    named = [*(device_ids or []), *([] if output_device is None else [output_device])]
    for given in named:
        wanted = rushlight.device("cuda", given) if isinstance(given, int) else given
        if rushlight.device(wanted) != device or len(device_ids or []) > 1:
            raise ValueError(
                f"DistributedDataParallel: device_ids {device_ids} and output_device "
                f"{output_device} for parameters on {device}"
            )
    return device


def _check_annotations(hook):
    """Raise where a communication hook says that it takes or returns something else."""
    signature = inspect.signature(hook)
    bucket = signature.parameters.get("bucket")
    taken = inspect.Parameter.empty if bucket is None else bucket.annotation
    if taken is not inspect.Parameter.empty and not isinstance(taken, str) and (
        taken is not rushlight.distributed.GradBucket
    ):  # fmt: skip
        raise ValueError(
            f"Communication hook: bucket annotation should be dist.GradBucket. It is {taken}"
        )
    returned, future = signature.return_annotation, rushlight.futures.Future
    if returned is not inspect.Signature.empty and not isinstance(returned, str) and (
        returned is not future and typing.get_origin(returned) is not future
    ):  # fmt: skip
        raise ValueError(
            "Communication hook: return annotation should be torch.futures.Future[torch.Tensor]. "
            f"It is {returned}"
        )


class DistributedDataParallel(Module, Joinable):
    """A module that every process trains on its own part of the data, with the mean of all
    gradients.

    The gradients are reduced in buckets while backward computes the rest. The module is `.module`.

    Args:
        module: the module; its parameters and buffers become those of rank 0.
        device_ids, output_device: None, or the one GPU that holds all parameters, to which inputs
            then go.
        dim: 0.
        broadcast_buffers: before each forward pass, buffers become those of rank 0.
        init_sync: check parameters and take those of rank 0 at the start.
        process_group: the processes; all by default.
        bucket_cap_mb: size of the buckets in MiB; 25 by default, and 1 for the first.
        find_unused_parameters: parameters that a forward pass does not use are seen and skipped.
        check_reduction: accepted, as in torch, where it is deprecated.
        gradient_as_bucket_view: gradients are views of the buckets, which saves a copy.
        static_graph: the same parameters are used in each iteration.
        delay_all_reduce_named_params, param_to_hook_all_reduce: None.
        mixed_precision: dtypes to compute and to reduce in.
        device_mesh: the processes as a mesh of one dim.
        skip_all_reduce_unused_params: False.

    Raises:
        ValueError: init_process_group was not called.
        RuntimeError: the parameters are not those of the other processes; the message names one.

    Example:
        >>> rushlight.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = DistributedDataParallel(rushlight.nn.Linear(2, 1))
        >>> model(rushlight.ones(3, 2)).sum().backward()
        >>> model.module.weight.grad
        tensor([[3., 3.]])
        >>> rushlight.distributed.destroy_process_group()
    """

    device_ids: Any
    output_device: Any
    dim: int
    broadcast_buffers: bool
    find_unused_parameters: bool
    static_graph: bool

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: ProcessGroup | None = None,
        bucket_cap_mb: Any = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: DeviceMesh | None = None,
        skip_all_reduce_unused_params: bool = False,
    ) -> None:  # fmt: skip
        Module.__init__(self)
        Joinable.__init__(self)
        if process_group is not None and device_mesh is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        if device_mesh is not None:
            process_group = device_mesh.get_group()
        group = resolve(process_group)
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when no parameter of the module requires a "
                "gradient."
            )
        device = _device_of(module, device_ids, output_device)
        if dim != 0 or check_reduction:
            raise ValueError("DistributedDataParallel: dim must be 0, check_reduction False")
        if delay_all_reduce_named_params is not None or param_to_hook_all_reduce is not None:
            raise NotImplementedError(
                "DistributedDataParallel: delay_all_reduce_named_params is not supported"
            )
        if skip_all_reduce_unused_params:
            raise NotImplementedError(
                "DistributedDataParallel: skip_all_reduce_unused_params is not supported"
            )
        self.module = module
        # As in torch, a module that is not told where it is gets its inputs as they are.
        place = device.index if device.type == "cuda" and device_ids else None
        self.device_ids: list[int] | None = None if place is None else [place]
        self.output_device: int | None = place
        self.dim = dim
        self.device: _device = device
        self.device_type: str = device.type
        self.process_group: ProcessGroup = group
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.static_graph = static_graph
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.mixed_precision = mixed_precision
        ignored = getattr(module, "_ddp_params_and_buffers_to_ignore", ())
        self.parameters_to_ignore: set[str] = set(ignored)
        self.require_backward_grad_sync: bool = True
        self.require_forward_param_sync: bool = True
        cap = 25 if bucket_cap_mb is None else bucket_cap_mb
        self.bucket_bytes_cap: int = int(cap * _MEGABYTE)
        self._first_bytes = None if bucket_cap_mb is None else min(self.bucket_bytes_cap, _MEGABYTE)
        named = self._named_parameters()
        if init_sync:
            self._check_parameters(named)
            self._synchronize([p for _, p in module.named_parameters() if self._is_mine(_)] + [
                b for n, b in module.named_buffers() if self._is_mine(n)
            ], 0)  # fmt: skip
        self._make_reducer(named)

    def _is_mine(self, name):
        return name not in self.parameters_to_ignore

    def _named_parameters(self):
        return [
            (name, parameter)
            for name, parameter in self.module.named_parameters()
            if parameter.requires_grad and self._is_mine(name)
        ]

    def _make_reducer(self, named):
        sparse_ids = {
            id(child.weight)
            for child in self.module.modules()
            if getattr(child, "sparse", False) and isinstance(
                child, (rushlight.nn.Embedding, rushlight.nn.EmbeddingBag)
            )
        }  # fmt: skip
        parameters = [parameter for _, parameter in named]
        sparse = {i for i, parameter in enumerate(parameters) if id(parameter) in sparse_ids}
        self._reducer = [Reducer(
            parameters, [name for name, _ in named], sparse, self.process_group,
            self.bucket_bytes_cap, self._first_bytes, self.gradient_as_bucket_view,
            self.find_unused_parameters, self.static_graph,
        )]  # fmt: skip
        if self.mixed_precision is not None:
            self.reducer.reduce_dtype = self.mixed_precision.reduce_dtype

    @property
    def reducer(self) -> Any:
        """What reduces the gradients."""
        return self._reducer[0]

    def _check_parameters(self, named):
        """See that all processes have parameters of the same names, shapes and dtypes."""
        group = self.process_group
        if group.size() == 1:
            return
        mine = [(name, tuple(p.shape), str(p.dtype)) for name, p in named]
        all_of_them = [None] * group.size()
        objects.all_gather_object(all_of_them, mine, group)
        for rank, theirs in enumerate(all_of_them):
            if theirs != all_of_them[0]:
                differing = next(
                    ((a, b) for a, b in zip(all_of_them[0], theirs) if a != b),
                    (f"{len(all_of_them[0])} parameters", f"{len(theirs)}"),
                )
                raise RuntimeError(
                    f"DDP expects same model across all ranks, but rank 0 has {differing[0]}, "
                    f"rank {rank} has {differing[1]}"
                )

    def _synchronize(self, tensors, source):
        """Let tensors become those of one member, all of a dtype in one message."""
        if self.process_group.size() == 1:
            return
        by_dtype = {}
        for tensor in tensors:
            by_dtype.setdefault(tensor.dtype, []).append(tensor.detach())
        for same in by_dtype.values():
            with rushlight.no_grad():
                flat = rushlight.cat([tensor.reshape(-1) for tensor in same])
                collectives.broadcast(flat, group=self.process_group, group_src=source)
                if self.process_group.rank() != source:
                    for tensor, part in zip(same, flat.split([t.numel() for t in same])):
                        tensor.copy_(part.view(tensor.shape))

    def _buffers_to_send(self):
        return [b for name, b in self.module.named_buffers() if self._is_mine(name)]

    def _buffers_before_forward(self):
        if not (self.require_forward_param_sync and self.broadcast_buffers):
            return []
        return self._buffers_to_send()

    def will_sync_module_buffers(self) -> bool:
        """Will buffers become those of rank 0 before the next forward pass?"""
        return bool(self._buffers_before_forward())

    def _synchronize_buffers(self):
        buffers = self._buffers_before_forward()
        if not buffers:
            return
        source = 0
        if self._join_config.enable:
            source = self._authority(True)
        self._synchronize(buffers, source)

    def _authority(self, is_working):
        """The last of the members whose inputs have not ended."""
        mine = [self.process_group.rank() if is_working else -1]
        rank = rushlight.tensor(mine, device=self.device)
        collectives.all_reduce(rank, rushlight.distributed.ReduceOp.MAX, group=self.process_group)
        return rank.item()

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        is_training = rushlight.is_grad_enabled() and self.require_backward_grad_sync
        if rushlight.is_grad_enabled():
            if self._join_config.enable:
                self._work_of_join = Join.notify_join_context(self)
                self.reducer.divisor = self._divisor_in_join()
            if is_training:
                self.reducer.rebuild()
        if rushlight.is_grad_enabled() or not self._join_config.enable:
            self._synchronize_buffers()
        output = self._call(inputs, kwargs)
        if is_training:
            self.require_forward_param_sync = True
            self.reducer.prepare(output)
        else:
            self.require_forward_param_sync = False
        return output

    def _call(self, inputs, kwargs):
        if self.device_ids:
            inputs, kwargs = moved((inputs, kwargs), self.device)
        precision = self.mixed_precision
        if precision is None or not (precision.param_dtype or precision.buffer_dtype):
            return self.module(*inputs, **kwargs)
        named = {
            name: p.to(precision.param_dtype)
            for name, p in self.module.named_parameters()
            if precision.param_dtype is not None and p.is_floating_point()
        }
        kept = dict(self.module.named_buffers()) if precision.buffer_dtype is not None else {}
        cast = {n: b.to(precision.buffer_dtype) for n, b in kept.items() if b.is_floating_point()}
        if precision.cast_forward_inputs and precision.param_dtype is not None:
            inputs, kwargs = cast_floating((inputs, kwargs), precision.param_dtype)
        output = functional_call(self.module, named | cast, inputs, kwargs)
        with rushlight.no_grad():
            for name, buffer in cast.items():
                kept[name].copy_(buffer)
        return output

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Any) -> tuple[Any, Any]:
        """Inputs in parts for several GPUs: nn.parallel.scatter_gather.scatter_kwargs."""
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def gather(self, outputs: Any, output_device: Any) -> Any:
        """Outputs of several GPUs on one: nn.parallel.gather."""
        return gather(outputs, output_device, dim=self.dim)

    def to_kwargs(self, inputs: Any, kwargs: Any, device_id: int) -> tuple[Any, Any]:
        """Inputs on a device of the parameters' kind: a tuple of one tuple, and of one dict."""
        place = rushlight.device(self.device_type, device_id)
        inputs, kwargs = moved((tuple(inputs or ()), dict(kwargs or {})), place)
        return (inputs,), (kwargs,)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[Any]:
        """A context in which gradients add up without being exchanged; the first backward pass
        after it exchanges their sum.
        """
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: Any, hook: Callable[..., Any]) -> None:
        """Let a function reduce the gradients.

        Args:
            state: given to it.
            hook: hook(state, bucket) returns a Future of the reduced buffer of a GradBucket; see
                distributed.algorithms.ddp_comm_hooks.
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        _check_annotations(hook)
        if self.reducer.hook is not None:
            raise RuntimeError(
                "register_comm_hook or register_builtin_comm_hook can only be called once."
            )
        self.reducer.hook, self.reducer.hook_state = hook, state

    def _register_builtin_comm_hook(self, comm_hook_type):
        from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks

        hooks = {"ALLREDUCE": "allreduce_hook", "FP16_COMPRESS": "fp16_compress_hook"}
        hook = getattr(default_hooks, hooks[comm_hook_type.name])
        self.register_comm_hook(self.process_group, hook)

    def _set_static_graph(self):
        """Say afterwards that the same parameters are used in each iteration."""
        self.static_graph = True
        self.reducer._static_graph = True

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module, params_and_buffers_to_ignore):
        """Name the parameters and buffers of a module that stay each process's own."""
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore

    def _get_ddp_logging_data(self):
        """What there is to know of this object."""
        return {
            "world_size": self.process_group.size(),
            "rank": self.process_group.rank(),
            "module_name": type(self.module).__name__,
            "backend_name": str(rushlight.distributed.get_backend(self.process_group)),
            "bucket_cap_bytes": self.bucket_bytes_cap,
            "num_parameter_tensors": len(self.reducer.parameters),
            "bucket_sizes": ", ".join(
                str(sum(n * b.parameters[0].element_size() for n in b.counts))
                for b in self.reducer.buckets
            ),
        }

    # ---------------------------------------------------------------- copies

    def __getstate__(self) -> Any:
        state = copy.copy(self.__dict__)
        for name in ("process_group", "_reducer"):
            del state[name]
        return state

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self.process_group = resolve(None)
        self.__dict__.setdefault("require_forward_param_sync", True)
        self._make_reducer(self._named_parameters())

    # ------------------------------------------------------------------ join

    @contextlib.contextmanager
    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Iterator[Any]:
        """A context in which the processes may have different numbers of inputs: those whose inputs
        have ended take part in the others' reductions with nothing.

        Args:
            divide_by_initial_world_size: the mean is over all processes, else over those that have
                inputs still.
            enable: False, where all have the same number, spares the bookkeeping.
            throw_on_early_termination: raise in all processes when the first has no more inputs.
        """
        with Join(
            [self], enable, throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        ):  # fmt: skip
            yield
        self.reducer.divisor = None

    def _divisor_in_join(self):
        """By what sums of gradients are divided now."""
        if self._divide_by_initial_world_size:
            return None
        working = rushlight.tensor([float(not self._has_joined)], device=self.device)
        collectives.all_reduce(working, group=self.process_group)
        return int(working.item())

    _has_joined = False
    _divide_by_initial_world_size = True

    def join_hook(self, **kwargs: Any) -> Any:
        """What this object does for others when this process has no more inputs."""
        self._divide_by_initial_world_size = kwargs.get("divide_by_initial_world_size", True)
        return _DDPJoinHook(self)

    @property
    def join_device(self) -> Any:
        """Where what processes tell each other lives."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The processes."""
        return self.process_group


class _DDPJoinHook(JoinHook):
    """Shadows the collectives of a DistributedDataParallel."""

    def __init__(self, ddp: Any) -> None:
        self._ddp = weakref.proxy(ddp)

    def main_hook(self) -> None:
        """Take part in an iteration of the others."""
        ddp = self._ddp
        ddp._has_joined = True
        ddp.reducer.divisor = ddp._divisor_in_join()
        ddp.reducer.rebuild()
        buffers = ddp._buffers_to_send()
        if ddp.broadcast_buffers and buffers:
            ddp._synchronize(buffers, ddp._authority(False))
        ddp.reducer.shadow()

    def post_hook(self, is_last_joiner: Any) -> None:
        """When all have ended: the model is that of the last."""
        ddp = self._ddp
        ddp._has_joined = False
        source = ddp._authority(is_last_joiner)
        ddp._synchronize([*ddp.module.parameters(), *ddp.module.buffers()], source)


__all__ = ["DistributedDataParallel"]
