"""States of models and optimizers by names, however the model is divided among processes."""

from __future__ import annotations

import dataclasses
from typing import TypeAlias, Union

import rushlight
from rushlight.distributed import _collectives as collectives, _group, _objects as objects
from rushlight.distributed.tensor._dtensor import DTensor, distribute_tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.nn.modules.module import Module
    from rushlight.optim.optimizer import Optimizer

FQNS_T: TypeAlias = set[str]
PrimitiveType: TypeAlias = Union[DTensor, rushlight.Tensor, int, float, str]  # noqa: UP007
ValueType: TypeAlias = Union[  # noqa: UP007
    PrimitiveType, list[PrimitiveType], tuple[PrimitiveType, ...], dict[str, "ValueType"]
]
DictValueType: TypeAlias = dict[str, ValueType]
ListDictValueType: TypeAlias = list[DictValueType]
OptimizerStateType: TypeAlias = dict[str, Union[DictValueType, ListDictValueType]]  # noqa: UP007

_WRAPPER = "module."  # DistributedDataParallel's
_SHARDED = "_fsdp_wrapped_module."  # FullyShardedDataParallel's


@dataclasses.dataclass
class StateDictOptions:
    """What a state is to be like.

    Args:
        full_state_dict: whole tensors in place of parts; with cpu_offload, in rank 0 alone.
        cpu_offload: on the CPU, where they are.
        ignore_frozen_params: without parameters that need no gradient.
        strict: loading refuses keys that are missing or too many.
        broadcast_from_rank0: rank 0 alone has the state that is loaded.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    strict: bool = True
    broadcast_from_rank0: bool = False


def _name(name):
    return name.removeprefix(_WRAPPER).replace(_SHARDED, "")


def _given(value, options):
    if not isinstance(value, rushlight.Tensor):
        return value
    if options.full_state_dict and isinstance(value, DTensor):
        value = value.full_tensor()
    return value.detach()


def _is_empty_here(options):
    return (
        options.full_state_dict
        and options.cpu_offload
        and _group.is_initialized()
        and _group.get_rank() != 0
    )


def get_model_state_dict(model: Module, *, submodules: Any = None, options: Any = None) -> Any:
    """A model's state by the names that it has without wrappers.

    Args:
        model: the model.
        submodules: None.
        options: a StateDictOptions.
    """
    if submodules is not None:
        raise NotImplementedError("get_model_state_dict: submodules is not supported")
    options = options or StateDictOptions()
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    state = {
        _name(name): _given(value, options)
        for name, value in model.state_dict().items()
        if not (options.ignore_frozen_params and name in frozen)
    }
    return {} if _is_empty_here(options) else state


def _from_rank_0(state):
    """The state of rank 0, in all."""
    shapes = [None]
    if _group.get_rank() == 0:
        shapes = [
            {
                key: (tuple(v.shape), v.dtype) if isinstance(v, rushlight.Tensor) else ("value", v)
                for key, v in state.items()
            }
        ]
    objects.broadcast_object_list(shapes, src=0)
    whole = {}
    for key, (shape, about) in shapes[0].items():
        if shape == "value":
            whole[key] = about
            continue
        whole[key] = state[key] if _group.get_rank() == 0 else rushlight.empty(shape, dtype=about)
        whole[key] = whole[key].contiguous()
        collectives.broadcast(whole[key], src=0)
    return whole


def _like(value, present):
    """A tensor lying as the one that is there."""
    if isinstance(present, DTensor) and not isinstance(value, DTensor):
        return distribute_tensor(
            value.detach(), present.device_mesh, present.placements, src_data_rank=None
        )
    return value


def set_model_state_dict(model: Module, model_state_dict: Any, *, options: Any = None) -> Any:
    """Load a state of get_model_state_dict, whole or in parts.

    Args:
        model: the model.
        model_state_dict: the state.
        options: a StateDictOptions; full_state_dict is seen from the tensors.

    Returns:
        The missing and the unexpected keys, as load_state_dict does.
    """
    options = options or StateDictOptions()
    if options.broadcast_from_rank0:
        model_state_dict = _from_rank_0(model_state_dict)
    present = model.state_dict()
    renamed = {_name(name): name for name in present}
    state = {
        renamed.get(key, key): _like(value, present.get(renamed.get(key, key)))
        for key, value in model_state_dict.items()
    }
    return model.load_state_dict(state, strict=options.strict)


def _names_of_parameters(model):
    return {id(parameter): _name(name) for name, parameter in model.named_parameters()}


def get_optimizer_state_dict(
    model: Module, optimizers: Any, *, submodules: Any = None, options: Any = None
) -> Any:
    """An optimizer's state by the names of the parameters.

    Args:
        model: the model.
        optimizers: the optimizer.
        submodules: None.
        options: a StateDictOptions.
    """
    if submodules is not None:
        raise NotImplementedError("get_optimizer_state_dict: submodules is not supported")
    options = options or StateDictOptions()
    optimizer, names = _only(optimizers), _names_of_parameters(model)
    state = {
        names[id(parameter)]: {key: _given(value, options) for key, value in kept.items()}
        for parameter, kept in optimizer.state.items()
    }
    groups = [
        {
            **{key: value for key, value in group.items() if key != "params"},
            "params": [names[id(parameter)] for parameter in group["params"]],
        }
        for group in optimizer.param_groups
    ]
    return {} if _is_empty_here(options) else {"state": state, "param_groups": groups}


def _init_optim_state(optim):
    """Let an optimizer make its state, by a step without gradients that changes no parameter."""
    parameters = [p for group in optim.param_groups for p in group["params"] if p.requires_grad]
    if optim.state or any(parameter.grad is not None for parameter in parameters):
        return
    for parameter in parameters:
        parameter.grad = rushlight.zeros_like(parameter)
    rates = [(group, group["lr"]) for group in optim.param_groups if "lr" in group]
    for group, rate in rates:
        group["lr"] = rushlight.zeros_like(rate) if isinstance(rate, rushlight.Tensor) else 0.0
    optim.step()
    for group, rate in rates:
        group["lr"] = rate
    optim.zero_grad(set_to_none=True)


def _only(optimizers):
    if isinstance(optimizers, rushlight.optim.Optimizer):
        return optimizers
    if len(list(optimizers)) != 1:
        raise NotImplementedError("state_dict: several optimizers of one model")
    return next(iter(optimizers))


def set_optimizer_state_dict(
    model: Module, optimizers: Any, optim_state_dict: Any, *, options: Any = None
) -> None:
    """Load a state of get_optimizer_state_dict, whole or in parts.

    Args:
        model: the model.
        optimizers: the optimizer.
        optim_state_dict: the state.
        options: a StateDictOptions.
    """
    options = options or StateDictOptions()
    if options.broadcast_from_rank0:
        raise NotImplementedError(
            "set_optimizer_state_dict: broadcast_from_rank0: load the state in all ranks"
        )
    optimizer, names = _only(optimizers), _names_of_parameters(model)
    saved = {
        name: {k: v for k, v in group.items() if k != "params"}
        for group in optim_state_dict["param_groups"]
        for name in group["params"]
    }
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            name = names[id(parameter)]
            if name not in saved:
                if options.strict:
                    raise KeyError(f"set_optimizer_state_dict: nothing is saved for {name}")
                continue
            group.update(saved[name])
            if name in optim_state_dict["state"]:
                optimizer.state[parameter] = _kept_like(optim_state_dict["state"][name], parameter)


def numbered_optimizer_state(model: Module, optimizer: Optimizer, state: Any) -> Any:
    """A state by names, whole or in parts, as the optimizer's own load_state_dict takes it."""
    return numbered_state_of_groups(model, optimizer.param_groups, state)


def numbered_state_of_groups(model: Module, groups: Any, state: Any) -> Any:
    """The same for the optimizer's groups of parameters."""
    names, number = _names_of_parameters(model), 0
    made = {"state": {}, "param_groups": []}
    saved = {name: group for group in state["param_groups"] for name in group["params"]}
    for group in groups:
        numbers, options = [], {}
        for parameter in group["params"]:
            name = names[id(parameter)]
            if name not in saved:
                raise KeyError(f"optim_state_dict_to_load: nothing is saved for {name}")
            options = {key: value for key, value in saved[name].items() if key != "params"}
            if name in state["state"]:
                made["state"][number] = _kept_like(state["state"][name], parameter)
            numbers.append(number)
            number += 1
        made["param_groups"].append({**options, "params": numbers})
    return made


def _kept_like(kept, parameter):
    """What an optimizer keeps for a parameter, lying as the parameter does."""
    return {
        key: _like(value, parameter)
        if isinstance(value, rushlight.Tensor) and value.shape == parameter.shape
        else value
        for key, value in kept.items()
    }


def get_state_dict(
    model: Module, optimizers: Any, *, submodules: Any = None, options: Any = None
) -> Any:
    """(get_model_state_dict, get_optimizer_state_dict) of a model and its optimizer."""
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_state_dict(
    model: Module,
    optimizers: Any,
    *,
    model_state_dict: Any,
    optim_state_dict: Any,
    options: Any = None,
) -> Any:
    """Load both states of get_state_dict."""
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)


__all__ = [
    "DictValueType",
    "FQNS_T",
    "ListDictValueType",
    "OptimizerStateType",
    "PrimitiveType",
    "StateDictOptions",
    "ValueType",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]
