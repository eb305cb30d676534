"""An optimizer whose state is divided among processes: ZeRO, stage 1 (Rajbhandari et al., 2019)."""

from __future__ import annotations

import copy

import rushlight
from rushlight.distributed import _collectives as collectives, _objects as objects
from rushlight.distributed._group import get_global_rank, resolve
from rushlight.distributed.algorithms.join import Join, Joinable, JoinHook
from rushlight.optim import Optimizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import defaultdict
    from typing import Any

    from rushlight.distributed import ProcessGroup


class _ZeROJoinHook(JoinHook):
    """Takes part in the others' steps."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer

    def main_hook(self) -> None:
        """Take part in a step of the others."""
        self._optimizer.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Each process updates its part of the parameters, and holds the optimizer's state of these
    alone; then all get the updated parameters.

    Args:
        params: parameters or groups of them, the same in all processes.
        optimizer_class: the optimizer.
        process_group: the processes; all by default.
        parameters_as_bucket_view: the parameters of a process lie in one tensor per dtype, which
            is sent as it is.
        overlap_with_ddp: False; step after backward.
        defaults: arguments of the optimizer.

    Example:
        >>> rushlight.distributed.init_process_group("gloo", rank=0, world_size=1)
        >>> model = rushlight.nn.Linear(2, 1)
        >>> optimizer = ZeroRedundancyOptimizer(model.parameters(), rushlight.optim.Adam, lr=0.01)
        >>> model(rushlight.ones(1, 2)).sum().backward()
        >>> optimizer.step()
        >>> rushlight.distributed.destroy_process_group()
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: Any,
        process_group: ProcessGroup | None = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError(
                "ZeroRedundancyOptimizer: overlap_with_ddp is not supported; call step after "
                "backward"
            )
        Joinable.__init__(self)
        self.process_group: Any = resolve(process_group)
        self.rank: int = self.process_group.rank()
        self.world_size: int = self.process_group.size()
        self._optim_constructor, self._optim_defaults = optimizer_class, defaults
        self.global_rank: int = get_global_rank(self.process_group, self.rank)
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self.initialized: bool = False
        self._all_states = None
        self.optim: Any = None
        Optimizer.__init__(self, params, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.layout is not rushlight.strided:
                    raise ValueError(
                        "ZeroRedundancyOptimizer: only dense parameters are supported, got layout "
                        f"{parameter.layout}"
                    )
        self._divide()
        self.initialized = True

    def _divide(self):
        """Give each process parameters of about the same size in all, and make its optimizer."""
        self._owner, held = {}, [0] * self.world_size
        for group in self.param_groups:
            for parameter in sorted(group["params"], key=lambda p: -p.numel()):
                rank = held.index(min(held))
                self._owner[id(parameter)] = rank
                held[rank] += parameter.numel()
        self._place_buckets()
        state = {} if self.optim is None else self.optim.state
        self.optim = self._optim_constructor(
            [
                {**group, "params": [p for p in group["params"] if self._is_mine(p)]}
                for group in self.param_groups
            ],
            **self._optim_defaults,
        )
        for parameter, kept in state.items():
            self.optim.state[parameter] = kept
        self._take_settings(self.optim.param_groups, self.param_groups)
        self.state: defaultdict[Any, dict[Any, Any]] = self.optim.state

    def _is_mine(self, parameter):
        return self._owner[id(parameter)] == self.rank

    def _place_buckets(self):
        self._buckets = []  # (owner, its parameters, of one dtype, the tensor in which they lie)
        by_kind = {}
        for group in self.param_groups:
            for parameter in group["params"]:
                key = self._owner[id(parameter)], parameter.dtype
                by_kind.setdefault(key, []).append(parameter)
        for (owner, _), parameters in by_kind.items():
            flat = None
            if self.parameters_as_bucket_view:
                with rushlight.no_grad():
                    flat = rushlight.cat([parameter.reshape(-1) for parameter in parameters])
                    for parameter, part in zip(
                        parameters, flat.split([p.numel() for p in parameters])
                    ):
                        parameter.data = part.view(parameter.shape)
            self._buckets.append((owner, parameters, flat))

    @staticmethod
    def _take_settings(target, source):
        for to, of in zip(target, source):
            for name, value in of.items():
                if name != "params":
                    to[name] = value

    def add_param_group(self, param_group: Any) -> None:
        """Add parameters; all processes do."""
        Optimizer.add_param_group(self, param_group)
        if self.optim is not None:
            self._divide()

    def step(self, closure: Any = None, **kwargs: Any) -> Any:
        """Update the parameters.

        Args:
            closure: computes the loss anew.
            kwargs: given to the optimizer's step.
        """
        Join.notify_join_context(self)
        self._take_settings(self.optim.param_groups, self.param_groups)
        loss = (
            self.optim.step(closure, **kwargs) if closure is not None else self.optim.step(**kwargs)
        )
        self._take_settings(self.param_groups, self.optim.param_groups)
        self._share()
        return loss

    def _share(self):
        """Send each process's parameters to all."""
        if self.world_size == 1:
            return
        works = []
        with rushlight.no_grad():
            for owner, parameters, flat in self._buckets:
                sent = flat
                if sent is None:
                    sent = rushlight.cat([parameter.reshape(-1) for parameter in parameters])
                work = collectives.broadcast(
                    sent, group=self.process_group, group_src=owner, async_op=True
                )
                works.append((work, owner, parameters, None if flat is not None else sent))
            for work, owner, parameters, sent in works:
                work.wait()
                if sent is not None and owner != self.rank:
                    parts = sent.split([parameter.numel() for parameter in parameters])
                    for parameter, part in zip(parameters, parts):
                        parameter.copy_(part.view(parameter.shape))

    def _numbers(self):
        """Parameters as a state dict numbers them."""
        flat = [parameter for group in self.param_groups for parameter in group["params"]]
        return {id(parameter): number for number, parameter in enumerate(flat)}

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collect the state of all processes at one, whose `state_dict` is then that of the whole.

        Args:
            to: the rank that gets it.
        """
        numbers = self._numbers()
        mine = {numbers[id(p)]: value for p, value in self.optim.state.items()}
        gathered = [None] * self.world_size if self.rank == to else None
        objects.gather_object(mine, gathered, group=self.process_group, group_dst=to)
        self._all_states = gathered

    def state_dict(self) -> Any:
        """The state of the whole, as the optimizer without this class would give it.

        Raises:
            RuntimeError: `consolidate_state_dict` was not called before, or collected it elsewhere.
        """
        if self._all_states is None:
            if self.world_size > 1:
                raise RuntimeError(
                    "Optimizer state has not been consolidated on this rank. Please call "
                    f"`consolidate_state_dict(to={self.rank})` on all ranks beforehand if you "
                    "meant to save the global state."
                )
            self.consolidate_state_dict(0)
        numbers = self._numbers()
        state = {number: value for part in self._all_states for number, value in part.items()}
        groups = [
            {
                **{name: value for name, value in group.items() if name != "params"},
                "params": [numbers[id(parameter)] for parameter in group["params"]],
            }
            for group in self.param_groups
        ]
        self._all_states = None if self.world_size == 1 else self._all_states
        return {"state": dict(sorted(state.items())), "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the state of the whole; each process keeps its part."""
        state_dict = copy.copy(state_dict)
        flat = [parameter for group in self.param_groups for parameter in group["params"]]
        saved = [n for group in state_dict["param_groups"] for n in group["params"]]
        if len(saved) != len(flat):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                f"optimizer's group: {len(saved)} parameters for {len(flat)}"
            )
        number_of = {id(parameter): number for parameter, number in zip(flat, saved)}
        groups = [
            {
                **group,
                "params": [number_of[id(p)] for p in mine["params"]],
            }
            for group, mine in zip(state_dict["param_groups"], self.optim.param_groups)
        ]
        wanted = {number for group in groups for number in group["params"]}
        state = {n: value for n, value in state_dict["state"].items() if n in wanted}
        self.optim.load_state_dict({"state": state, "param_groups": groups})
        self.state = self.optim.state
        self._take_settings(self.param_groups, state_dict["param_groups"])

    def join_hook(self, **kwargs: Any) -> Any:
        """What this object does for others when this process has no more inputs."""
        return _ZeROJoinHook(self)

    @property
    def join_device(self) -> Any:
        """Where what processes tell each other lives."""
        return rushlight.device("cpu")

    @property
    def join_process_group(self) -> Any:
        """The processes."""
        return self.process_group


__all__ = ["ZeroRedundancyOptimizer"]
