"""FullyShardedDataParallel: a wrapper whose module fully_shard divides.

Parameters keep their names and are DTensors, whatever `use_orig_params` says; states are given
whole or in parts, and `summon_full_params` puts whole parameters into the modules.
"""

from __future__ import annotations

import contextlib
import enum

import rushlight
from rushlight._ignored import warn_once
from rushlight.distributed import _collectives as collectives, _group, _objects as objects
from rushlight.distributed._casts import cast_floating
from rushlight.distributed._reduction import ReduceOp
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.fsdp import wrap
from rushlight.distributed.fsdp._fully_shard import MixedPrecisionPolicy, fully_shard
from rushlight.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from rushlight.distributed.tensor._dtensor import DTensor, distribute_tensor
from rushlight.nn import Module, Parameter
from rushlight.nn.modules.batchnorm import _BatchNorm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from rushlight import Tensor
    from rushlight.distributed import ProcessGroup
    from rushlight.optim import Optimizer

_INNER = "_fsdp_wrapped_module"


class OptimStateKeyType(enum.Enum):
    """What names a parameter in an optimizer's state: its name, or its number."""

    PARAM_NAME = enum.auto()
    PARAM_ID = enum.auto()


_CONFIGS = {
    StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
    StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
}
_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
_KEEPS_WHOLE = (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2)


def clean_name(name: str) -> str:
    """A parameter's name as it is without wrappers."""
    return name.replace(_INNER + ".", "")


def _mesh_of(strategy, process_group, device_mesh):
    """The processes as a mesh: of one dim, or of two of which the first has copies."""
    if device_mesh is not None:
        if process_group is not None:
            raise ValueError("FullyShardedDataParallel: give process_group or device_mesh")
        if device_mesh.ndim != (2 if strategy in _HYBRID else 1):
            raise ValueError(
                f"FullyShardedDataParallel: {strategy} on a device_mesh of {device_mesh.ndim} dims"
            )
        return device_mesh
    if isinstance(process_group, tuple):
        if strategy not in _HYBRID or len(process_group) != 2:
            raise ValueError(
                "FullyShardedDataParallel: a tuple (sharding, replicating) of groups goes with "
                f"HYBRID_SHARD, not with {strategy}"
            )
        shards, copies = process_group
        rows = [None] * _group.get_world_size()
        objects.all_gather_object(rows, tuple(_group.get_process_group_ranks(shards)))
        return DeviceMesh.from_group([copies, shards], "cpu", sorted(set(rows)))
    group = _group.resolve(process_group)
    if strategy in _HYBRID and process_group is not None:
        raise ValueError("FullyShardedDataParallel: HYBRID_SHARD needs a tuple of two groups")
    made = group.__dict__.setdefault("_fsdp_meshes", {})
    kind = strategy if strategy is ShardingStrategy.NO_SHARD or strategy in _HYBRID else None
    if kind not in made:
        made[kind] = _new_mesh(kind, group)
    return made[kind]


def _new_mesh(kind, group):
    if kind is None:
        return DeviceMesh.from_group(group, "cpu")
    ranks = rushlight.tensor(_group.get_process_group_ranks(group))
    if kind is ShardingStrategy.NO_SHARD:
        return DeviceMesh("cpu", ranks.view(-1, 1))
    hosts = group._world.hosts
    count = len(set(hosts))
    if any(hosts.count(host) * count != len(hosts) for host in hosts):
        raise ValueError("FullyShardedDataParallel: HYBRID_SHARD: machines of different sizes")
    order = sorted(range(len(hosts)), key=lambda rank: (hosts.index(hosts[rank]), rank))
    return DeviceMesh("cpu", rushlight.tensor(order).view(count, -1))


def _materialize(module, param_init_fn):
    """Give values to what is on the meta device."""
    for child in module.modules():
        own = [*child._parameters.values(), *child._buffers.values()]
        if not any(tensor is not None and tensor.is_meta for tensor in own):
            continue
        if param_init_fn is not None:
            param_init_fn(child)
            continue
        if not hasattr(child, "reset_parameters"):
            raise RuntimeError(
                f"FullyShardedDataParallel: {type(child).__name__} is on the meta device and has "
                "no reset_parameters(); give param_init_fn"
            )
        child.to_empty(device="cpu", recurse=False)
        with rushlight.no_grad():
            child.reset_parameters()


class FullyShardedDataParallel(Module):
    """A module of whose parameters each process keeps a part: ZeRO stage 3 (S. Rajbhandari et al.,
    2019).

    Whole parameters are put together before the module's forward and again in its backward, whose
    gradients are averaged and divided. Make the optimizer afterwards.

    Args:
        module: changed in place; parameters of FullyShardedDataParallel inside it are left to them.
        process_group: the processes; for HYBRID_SHARD (those that share, those with copies).
        sharding_strategy: FULL_SHARD by default. SHARD_GRAD_OP keeps whole parameters until
            backward; NO_SHARD copies them; HYBRID_SHARD divides them within a machine.
        cpu_offload: accepted; parameters are on the CPU.
        auto_wrap_policy: which submodules are wrapped on their own: a policy of
            `distributed.fsdp.wrap`.
        backward_prefetch: None or a BackwardPrefetch; parameters are put together when they are
            needed in either case.
        mixed_precision: a MixedPrecision.
        ignored_modules, ignored_states: modules, or modules and parameters, that stay whole and
            each process's own.
        param_init_fn: called with each module that is on the meta device; by default its
            reset_parameters() is.
        device_id: None or a CPU.
        sync_module_states: parameters and buffers become those of rank 0.
        forward_prefetch: warns; there is no prefetching.
        limit_all_gathers: accepted; one module is put together at a time.
        use_orig_params: accepted; the parameters are the original ones, as DTensors.
        device_mesh: the processes as a mesh, in place of process_group.

    Raises:
        ValueError: the group, mesh and strategy contradict each other.

    Example:
        >>> rushlight.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = FullyShardedDataParallel(rushlight.nn.Linear(2, 1))
        >>> model(rushlight.ones(3, 2)).sum().backward()
        >>> model.clip_grad_norm_(1.0)
        tensor(5.1962)
        >>> rushlight.distributed.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        process_group: ProcessGroup | tuple[ProcessGroup, ProcessGroup] | None = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Callable[..., bool] | wrap._Policy | None = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], None] | None = None,
        device_id: int | rushlight.device | None = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Iterable[Parameter] | Iterable[Module] | None = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:
        super().__init__()
        if isinstance(module, FullyShardedDataParallel):
            raise ValueError("FullyShardedDataParallel: the module is one already")
        if device_id is not None and rushlight.device(device_id).type != "cpu":
            raise ValueError(f"FullyShardedDataParallel: device_id {device_id}: CPU alone")
        for value, kind, name in (
            (cpu_offload, CPUOffload, "cpu_offload"),
            (backward_prefetch, BackwardPrefetch, "backward_prefetch"),
            (limit_all_gathers, bool, "limit_all_gathers"),
            (use_orig_params, bool, "use_orig_params"),
            (mixed_precision, MixedPrecision, "mixed_precision"),
            (sharding_strategy, ShardingStrategy, "sharding_strategy"),
        ):
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"{name}: expected a {kind.__name__}, got {value!r}")
        if forward_prefetch:
            warn_once("FullyShardedDataParallel: forward_prefetch: nothing is fetched in advance")
        precision = mixed_precision or MixedPrecision()
        if precision.keep_low_precision_grads:
            raise NotImplementedError("MixedPrecision: keep_low_precision_grads is not supported")
        self.sharding_strategy: Any = sharding_strategy or ShardingStrategy.FULL_SHARD
        self.mixed_precision = precision
        self._mesh = _mesh_of(self.sharding_strategy, process_group, device_mesh)
        self.process_group: Any = self._mesh.get_group(self._mesh.ndim - 1)
        self.rank: int = self.process_group.rank()
        self.world_size: int = self.process_group.size()
        self.compute_device: rushlight.device = rushlight.device("cpu")
        self.cpu_offload: CPUOffload = cpu_offload or CPUOffload()
        self.backward_prefetch: BackwardPrefetch | None = backward_prefetch
        self.forward_prefetch = forward_prefetch
        self.limit_all_gathers = limit_all_gathers
        self._is_root = None  # known at the first forward pass
        self._summoned = False
        self._buffer_dtypes = {}  # those that buffers had, by name; states have them
        self._settings = StateDictSettings(
            StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig()
        )
        ignored = _ignored_parameters(ignored_modules, ignored_states)
        _materialize(module, param_init_fn)
        if sync_module_states:
            self._synchronize(module)
        options = {
            "sharding_strategy": self.sharding_strategy,
            "device_mesh": device_mesh,
            "process_group": process_group,
            "ignored_states": ignored,
        }
        if mixed_precision is not None:
            _wrap_exceptions(module, precision, options)
        if auto_wrap_policy is not None:
            options["mixed_precision"] = mixed_precision
            wrap.wrap_children(module, auto_wrap_policy, self._wrapped(options), ignored)
        self._shard(module, ignored)
        self._register_state_dict_hook(_give_state)
        self._register_load_state_dict_pre_hook(_take_state, with_module=True)

    @staticmethod
    def _wrapped(options):
        return lambda module, more: FullyShardedDataParallel(module, **options | more)

    def _synchronize(self, module):
        """Let parameters and buffers become those of the first process."""
        tensors = [*module.parameters(), *module.buffers()]
        for dim in range(self._mesh.ndim):
            group = self._mesh.get_group(dim)
            for tensor in tensors:
                if not isinstance(tensor, DTensor) and group.size() > 1:
                    with rushlight.no_grad():
                        collectives.broadcast(tensor.detach(), group=group, group_src=0)

    def _shard(self, module, ignored):
        precision = self.mixed_precision
        policy = MixedPrecisionPolicy(
            precision.param_dtype, precision.reduce_dtype, None, precision.cast_forward_inputs
        )
        fully_shard(module, mesh=self._mesh, mp_policy=policy, ignored_params=ignored)
        setattr(self, _INNER, module)
        self._unit.reshards = self.sharding_strategy not in _KEEPS_WHOLE
        self._unit.has_default = False  # this class says it
        self._unit.settings.reduces_unused = True

    @property
    def _unit(self):
        return self._modules[_INNER]._fsdp

    @property
    def module(self) -> Module:
        """The module inside."""
        return self._modules[_INNER]

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(_INNER), name)

    def __getitem__(self, key: int) -> Module:
        return self.module[key]

    # ---------------------------------------------------------------- running

    def _find_root(self):
        """At the first forward pass, this is the outermost unless an outer one ran before."""
        for inner in self.fsdp_modules(self):
            inner._is_root = inner is self
        # Its backward begins as its forward ends.
        self._unit.reshards = False
        buffer_dtype = self.mixed_precision.buffer_dtype
        for unit in self.fsdp_modules(self):
            own = unit.mixed_precision.buffer_dtype or buffer_dtype
            if own is not None and not isinstance(unit.module, _BatchNorm):
                unit._cast_buffers(own)

    def _cast_buffers(self, dtype):
        for path, child in self.module.named_modules():
            for name, buffer in child._buffers.items():
                if buffer is not None and buffer.is_floating_point() and buffer.dtype != dtype:
                    self._buffer_dtypes[clean_name(f"{path}.{name}").lstrip(".")] = buffer.dtype
                    child._buffers[name] = buffer.to(dtype)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes with whole parameters."""
        if self._summoned:
            raise RuntimeError("FullyShardedDataParallel: forward inside of summon_full_params")
        if self._is_root is None:
            self._find_root()
        precision = self.mixed_precision
        if self._is_root and precision.cast_root_forward_inputs and precision.param_dtype:
            args, kwargs = cast_floating((args, kwargs), precision.param_dtype)
        return self.module(*args, **kwargs)

    def check_is_root(self) -> bool:
        """Is it in no other?"""
        if self._is_root is None:
            self._find_root()
        return self._is_root

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A context in which gradients add up without being exchanged; the first backward pass
        after it exchanges their sum.
        """
        if not self.check_is_root():
            raise RuntimeError("no_sync: call it on the outermost wrapper")
        units = [inner._unit for inner in self.fsdp_modules(self)]
        before = [unit.reduces for unit in units]
        for unit in units:
            unit.reduces = False
        try:
            yield
        finally:
            for unit, value in zip(units, before):
                unit.reduces = value

    def register_comm_hook(self, state: Any, hook: Callable[..., None]) -> None:
        """Let a function reduce the gradients; once, and before the first forward pass.

        Args:
            state: given to it.
            hook: hook(state, gradients, mine) puts this process's part of the reduced gradients of
                one wrapper, which lie one behind the other, into `mine`; with NO_SHARD,
                hook(state, gradients) changes them in place. See
                distributed.algorithms._comm_hooks.

        Raises:
            AssertionError: this is not the outermost wrapper, the strategy is a hybrid one, or
                there is a hook already.
            ValueError: `hook` cannot be called.
        """
        if not self.check_is_root():
            raise AssertionError("register_comm_hook can only be called on a root instance.")
        for wrapper in self.fsdp_modules(self):
            strategy = wrapper.sharding_strategy
            if strategy in _HYBRID:
                raise AssertionError(
                    f"Communication hook is not supported for hybrid strategies: {strategy}"
                )
            if wrapper._unit.settings.communication is not None:
                raise AssertionError("A communication hook is already registered")
            if not callable(hook):
                raise ValueError(f"The communication hook must be callable but got {hook}")
            is_whole = strategy is ShardingStrategy.NO_SHARD
            wrapper._unit.settings.communication = hook, state, is_whole

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Scale all gradients so that their norm, over all processes, is at most `max_norm`.

        Args:
            max_norm: the largest norm.
            norm_type: its order; may be infinity.

        Returns:
            The norm before.
        """
        if not self.check_is_root():
            raise RuntimeError(
                "`clip_grad_norm_()` should only be called on the root FSDP instance"
            )
        order, max_norm = float(norm_type), float(max_norm)
        found = {id(p): p for p in self.parameters() if p.grad is not None}
        shards = [p.grad.to_local() for p in found.values() if isinstance(p, DTensor)]
        others = [p.grad for p in found.values() if not isinstance(p, DTensor)]
        with rushlight.no_grad():
            total = _combined_norm(shards, order)
            reduction = ReduceOp.MAX if order == float("inf") else ReduceOp.SUM
            power = total if order == float("inf") else total**order
            collectives.all_reduce(power, reduction, self.process_group)
            total = power if order == float("inf") else power ** (1 / order)
            if others:
                total = _combined_norm([total, *others], order)
            factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
            for gradient in shards + others:
                gradient.mul_(factor.to(gradient.dtype))
        return total

    # ---------------------------------------------------------------- names

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Parameter]]:
        """Names and parameters; inside of summon_full_params the names are those without
        wrappers.
        """
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield clean_name(name) if self._summoned else name, parameter

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Tensor]]:
        """Names and buffers, as named_parameters."""
        for name, buffer in super().named_buffers(*args, **kwargs):
            yield clean_name(name) if self._summoned else name, buffer

    def apply(self, fn: Callable[[Module], None]) -> FullyShardedDataParallel:
        """Call a function with each submodule, whose parameters are whole meanwhile."""
        if self._summoned:
            return super().apply(fn)
        with self.summon_full_params(self):
            return super().apply(fn)

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """Those in a module, itself included; or only those that are in no other."""
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        if not root_only:
            return found
        inner = {id(m) for outer in found for m in outer.modules() if m is not outer}
        return [m for m in found if id(m) not in inner]

    # ---------------------------------------------------------------- whole parameters

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """A context in which modules have whole parameters. All processes enter it.

        Args:
            module: whose.
            recurse: those of the modules inside it too.
            writeback: changes are kept, of each process those of its part.
            rank0_only: in rank 0 alone; needs writeback=False.
            offload_to_cpu: accepted; that is where they are.
            with_grads: with whole gradients.
        """
        if rank0_only and writeback:
            raise NotImplementedError("summon_full_params: rank0_only needs writeback=False")
        if not isinstance(offload_to_cpu, bool):
            raise TypeError(f"offload_to_cpu: expected a bool, got {offload_to_cpu!r}")
        units = FullyShardedDataParallel.fsdp_modules(module)
        if not recurse:
            units = [unit for unit in units if unit is module]
        if any(unit._summoned for unit in units):
            raise AssertionError("summon_full_params: the parameters are whole already")
        whole = [_whole_parameters(unit._unit, with_grads) for unit in units]
        here = not rank0_only or _group.get_rank() == 0
        for unit, parameters in zip(units, whole):
            unit._summoned = True
            if here:
                unit._unit._put(parameters)
        try:
            yield
        finally:
            for unit, parameters in zip(units, whole):
                unit._summoned = False
                if writeback:
                    _write_back(unit._unit, parameters, with_grads)
                unit._unit.put_sharded()

    # ---------------------------------------------------------------- states

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> StateDictSettings:
        """Say in which form states are given and taken.

        Args:
            module: the FullyShardedDataParallel in it are meant.
            state_dict_type: whole tensors, DTensors, or plain parts.
            state_dict_config, optim_state_dict_config: of the class that belongs to the type.

        Returns:
            What was said before.
        """
        kinds = _CONFIGS[state_dict_type]
        given = [state_dict_config, optim_state_dict_config]
        for i, kind in enumerate(kinds):
            if given[i] is None:
                given[i] = kind()
            if type(given[i]) is not kind:
                raise RuntimeError(
                    f"set_state_dict_type: {state_dict_type} takes a {kind.__name__}, got "
                    f"{type(given[i]).__name__}"
                )
        units = FullyShardedDataParallel.fsdp_modules(module)
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for unit in units:
            unit._settings = StateDictSettings(state_dict_type, *given)
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """In which form states are given and taken."""
        units = FullyShardedDataParallel.fsdp_modules(module)
        if not units:
            raise RuntimeError("get_state_dict_type: there is no FullyShardedDataParallel in it")
        return units[0]._settings

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Iterator[None]:
        """A context in which states have a form; see set_state_dict_type."""
        before = FullyShardedDataParallel.set_state_dict_type(
            module, state_dict_type, state_dict_config, optim_state_dict_config
        )
        try:
            yield
        finally:
            FullyShardedDataParallel.set_state_dict_type(module, *before)

    @staticmethod
    def optim_state_dict(
        model: Module,
        optim: Optimizer,
        optim_state_dict: dict[str, Any] | None = None,
        group: ProcessGroup | None = None,
    ) -> dict[str, Any]:
        """An optimizer's state by the names of parameters, in the form of state_dict_type.

        Args:
            model: whose parameters are optimized.
            optim: the optimizer.
            optim_state_dict, group: None.
        """
        from rushlight.distributed.checkpoint import state_dict as states

        if optim_state_dict is not None or group is not None:
            raise NotImplementedError("optim_state_dict: optim_state_dict and group: give None")
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        is_full = settings.state_dict_type is StateDictType.FULL_STATE_DICT
        only_one = is_full and settings.optim_state_dict_config.rank0_only
        options = states.StateDictOptions(full_state_dict=is_full, cpu_offload=only_one)
        return states.get_optimizer_state_dict(model, optim, options=options)

    @staticmethod
    def optim_state_dict_to_load(
        model: Module,
        optim: Optimizer,
        optim_state_dict: dict[str, Any],
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: ProcessGroup | None = None,
    ) -> dict[str, Any]:
        """A state of optim_state_dict as `optim.load_state_dict` takes it in this process.

        Args:
            model, optim: as there.
            optim_state_dict: the state, the same in all processes if it is whole.
            load_directly: load it too.
            is_named_optimizer, group: False and None.
        """
        from rushlight.distributed.checkpoint import state_dict as states

        if is_named_optimizer or group is not None:
            raise NotImplementedError("optim_state_dict_to_load: is_named_optimizer and group")
        made = states.numbered_optimizer_state(model, optim, optim_state_dict)
        if load_directly:
            optim.load_state_dict(made)
        return made

    @staticmethod
    def full_optim_state_dict(
        model: Module,
        optim: Optimizer,
        optim_input: Any = None,
        rank0_only: bool = True,
        group: ProcessGroup | None = None,
    ) -> dict[str, Any]:
        """An optimizer's whole state by the names of parameters; {} but in rank 0."""
        if optim_input is not None:
            raise NotImplementedError("full_optim_state_dict: optim_input: give None")
        config = FullOptimStateDictConfig(rank0_only=rank0_only)
        with FullyShardedDataParallel.state_dict_type(
            model, StateDictType.FULL_STATE_DICT, None, config
        ):
            return FullyShardedDataParallel.optim_state_dict(model, optim, group=group)

    @staticmethod
    def sharded_optim_state_dict(
        model: Module, optim: Optimizer, group: ProcessGroup | None = None
    ) -> dict[str, Any]:
        """An optimizer's state by the names of parameters, in parts: DTensors.

        Args:
            model: whose parameters are optimized.
            optim: the optimizer.
            group: None.
        """
        with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
            return FullyShardedDataParallel.optim_state_dict(model, optim, group=group)

    @staticmethod
    def flatten_sharded_optim_state_dict(
        sharded_optim_state_dict: dict[str, Any], model: Module, optim: Optimizer
    ) -> dict[str, Any]:
        """A state of sharded_optim_state_dict as `optim.load_state_dict` takes it.

        Args:
            sharded_optim_state_dict: the state.
            model, optim: as there.
        """
        return FullyShardedDataParallel.optim_state_dict_to_load(
            model, optim, sharded_optim_state_dict
        )

    @staticmethod
    def shard_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any],
        model: Module,
        optim_input: Any = None,
        optim: Optimizer | None = None,
    ) -> dict[str, Any]:
        """This process's part of a whole state, as `optim.load_state_dict` takes it.

        Args:
            full_optim_state_dict: a state of full_optim_state_dict, the same in all processes.
            model: whose parameters are optimized.
            optim_input: None.
            optim: the optimizer; without it, one of all parameters in the model's order.
        """
        from rushlight.distributed.checkpoint import state_dict as states

        if optim_input is not None:
            raise NotImplementedError("shard_full_optim_state_dict: optim_input: give None")
        groups = [{"params": list(model.parameters())}] if optim is None else optim.param_groups
        return states.numbered_state_of_groups(model, groups, full_optim_state_dict)

    @staticmethod
    def scatter_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any] | None,
        model: Module,
        optim_input: Any = None,
        optim: Optimizer | None = None,
        group: ProcessGroup | None = None,
    ) -> dict[str, Any]:
        """As shard_full_optim_state_dict, where rank 0 alone has the whole state.

        Args:
            full_optim_state_dict: the state; in other ranks it is not read.
            model, optim_input, optim: as there.
            group: the processes; all by default.
        """
        state = [full_optim_state_dict if _group.get_rank(group) == 0 else None]
        objects.broadcast_object_list(state, group_src=0, group=group)
        return FullyShardedDataParallel.shard_full_optim_state_dict(
            state[0], model, optim_input, optim
        )

    @staticmethod
    def rekey_optim_state_dict(
        optim_state_dict: dict[str, Any],
        optim_state_key_type: OptimStateKeyType,
        model: Module,
        optim_input: Any = None,
        optim: Optimizer | None = None,
    ) -> dict[str, Any]:
        """An optimizer's whole state with parameters named the other way.

        Args:
            optim_state_dict: a state, by names or by numbers.
            optim_state_key_type: what names parameters in the result.
            model: the model, whose parameters have these names.
            optim_input: None.
            optim: its optimizer, which has numbered them; by default in the model's order.

        Raises:
            ValueError: the state has names and numbers, or a parameter is not in the model.
        """
        if optim_input is not None:
            raise NotImplementedError("rekey_optim_state_dict: optim_input: give None")
        if not isinstance(optim_state_key_type, OptimStateKeyType):
            raise TypeError(f"expected an OptimStateKeyType, got {optim_state_key_type!r}")
        wanted = str if optim_state_key_type is OptimStateKeyType.PARAM_NAME else int
        keys = [key for group in optim_state_dict["param_groups"] for key in group["params"]]
        if len({type(key) for key in (*optim_state_dict["state"], *keys)}) > 1:
            raise ValueError(f"Invalid parameter keys: {list(optim_state_dict['state'])}")
        if all(isinstance(key, wanted) for key in keys):
            return optim_state_dict
        names = _numbered_names(model, optim)
        renamed = names if wanted is str else {name: i for i, name in names.items()}
        missing = [key for key in keys if key not in renamed]
        if missing:
            raise ValueError(f"rekey_optim_state_dict: not in the model: {missing}")
        groups = [
            {**group, "params": sorted(renamed[key] for key in group["params"])}
            for group in optim_state_dict["param_groups"]
        ]
        kept = {renamed[key]: value for key, value in optim_state_dict["state"].items()}
        return {"state": kept, "param_groups": groups}


def _numbered_names(model, optim):
    """Names of parameters by their numbers in the optimizer."""
    names = {id(p): name.replace(f"{_INNER}.", "") for name, p in model.named_parameters()}
    parameters = list(model.parameters())
    if optim is not None:
        parameters = [p for group in optim.param_groups for p in group["params"]]
    return {number: names[id(p)] for number, p in enumerate(parameters)}


def _ignored_parameters(modules, states):
    found = set()
    for thing in [*(modules or ()), *(states or ())]:
        if isinstance(thing, Module):
            found.update(thing.parameters())
        elif isinstance(thing, Parameter):
            found.add(thing)
        else:
            raise TypeError(f"ignored_states: expected modules or parameters, got {thing!r}")
    return found


def _wrap_exceptions(module, precision, options):
    """Shard the modules that mixed precision does not touch on their own, in their own dtype."""
    classes = tuple(precision._module_classes_to_ignore)
    if not classes or precision.param_dtype is None:
        return
    for parent in list(module.modules()):
        for name, child in list(parent._modules.items()):
            if isinstance(child, classes) and any(
                p is not None for p in child._parameters.values()
            ):
                own = child._parameters[next(iter(child._parameters))].dtype
                exact = MixedPrecision(own, cast_forward_inputs=True)
                wrapped = FullyShardedDataParallel(child, mixed_precision=exact, **options)
                wrapped.register_forward_hook(
                    lambda _, args, out: cast_floating(out, args[0].dtype)
                )
                parent._modules[name] = wrapped


def _combined_norm(tensors, order):
    norms = [rushlight.linalg.vector_norm(t.float(), order) for t in tensors if t.numel()]
    if not norms:
        return rushlight.zeros(())
    return rushlight.linalg.vector_norm(rushlight.stack(norms), order)


def _whole_parameters(unit, with_grads):
    with rushlight.no_grad():
        tensors = unit.gather([p.to_local().detach() for p in unit.sharded], is_exact=True)
    made = []
    for whole, sharded in zip(tensors, unit.sharded):
        parameter = Parameter(whole, requires_grad=sharded.requires_grad)
        if with_grads and sharded.grad is not None:
            parameter.grad = sharded.grad.full_tensor().detach()
        made.append(parameter)
    return made


def _write_back(unit, parameters, with_grads):
    for users, whole, sharded in zip(unit.places, parameters, unit.sharded):
        module, name = users[0]
        now = module._parameters[name]
        whole = whole if isinstance(now, DTensor) or now is None else now
        with rushlight.no_grad():
            sharded.copy_(_divided(whole.detach(), sharded))
        if with_grads and whole.grad is not None:
            sharded.grad = _divided(whole.grad, sharded)


def _divided(whole, sharded):
    return distribute_tensor(whole, sharded.device_mesh, sharded.placements, src_data_rank=None)


def _give_state(module, destination, prefix, metadata):
    """The state without this wrapper's name, in the form that was set."""
    kind, config, _ = module._settings
    start = f"{prefix}{_INNER}."
    for key in [key for key in destination if key.startswith(start)]:
        value = destination.pop(key)
        if isinstance(value, DTensor) and kind is not StateDictType.SHARDED_STATE_DICT:
            with rushlight.no_grad():
                is_full = kind is StateDictType.FULL_STATE_DICT
                value = value.full_tensor() if is_full else value.to_local()
        if key[len(start) :] in module._buffer_dtypes:
            value = value.to(module._buffer_dtypes[key[len(start) :]])
        if getattr(config, "rank0_only", False) and _group.get_rank() != 0:
            continue
        destination[prefix + key[len(start) :]] = value
    versions = getattr(destination, "_metadata", {})
    versions[prefix[:-1]] = versions.get(start[:-1], metadata)


def _take_state(module, state, prefix, *_):
    """Names and forms of the state as the wrapper has them."""
    start = f"{prefix}{_INNER}."
    kind = module._settings.state_dict_type
    mine = {} if module._summoned else dict(module.module.named_parameters())
    for key in [key for key in state if key.startswith(prefix) and not key.startswith(start)]:
        name, value = key[len(prefix) :], state.pop(key)
        present = mine.get(name)
        if isinstance(present, DTensor) and not isinstance(value, DTensor):
            way = present.device_mesh, present.placements
            if kind is StateDictType.LOCAL_STATE_DICT:
                value = DTensor._make(value.detach(), *way, present.shape)
            elif value.shape == present.shape:  # else loading names both
                value = _divided(value.detach(), present)
        state[start + name] = value


__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig",
    "FullyShardedDataParallel", "LocalStateDictConfig", "MixedPrecision",
    "OptimStateDictConfig", "ShardedOptimStateDictConfig", "ShardedStateDictConfig",
    "ShardingStrategy", "StateDictConfig", "StateDictSettings",
    "StateDictType",
]  # fmt: skip
