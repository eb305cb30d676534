"""States of models and optimizers by names, however the model is divided among processes."""

from __future__ import annotations

import dataclasses
from typing import TypeAlias, Union

import rushlight
from rushlight._ignored import warn_once, warn_program as _warn_program
from rushlight.distributed import _collectives as collectives, _group, _objects as objects
from rushlight.distributed.tensor._dtensor import DTensor, distribute_tensor
from rushlight.nn.parallel.distributed import DistributedDataParallel

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

# What wrappers put before the names inside them.
_COMPILED = "_orig_mod."
_SHARDED = "_fsdp_wrapped_module."
_RECOMPUTED = "_checkpoint_wrapped_module."


@dataclasses.dataclass
class StateDictOptions:
    """What a state is to be like.

    Args:
        full_state_dict: whole tensors in place of parts; with cpu_offload, in rank 0 alone.
        cpu_offload: on the CPU, where they are.
        ignore_frozen_params: without parameters that need no gradient.
        strict: loading refuses keys that are missing or too many.
        broadcast_from_rank0: rank 0 alone has the state that is loaded, which is whole.
        keep_submodule_prefixes: states of submodules alone keep the submodules' names.
        flatten_optimizer_state_dict: an optimizer's state is one dict, of keys like
            "state.layer.weight.exp_avg" and "param_groups.layer.weight.lr".
        dsd_fqn_modifiers: another value warns: names are those that state_dict() gives.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _checked(options):
    """The options, or those by default."""
    options = options or StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    if options.dsd_fqn_modifiers != "_fqn_modifiers":
        warn_once(
            "StateDictOptions: dsd_fqn_modifiers has no effect: names are those of state_dict()"
        )
    return options


def _renaming(model):
    """A function of names in a model, which gives them without what wrappers put there."""
    wrappers = [
        f"{path}.module." if path else "module."
        for path, module in model.named_modules()
        if isinstance(module, DistributedDataParallel)
    ]

    def without(name):
        for wrapper in reversed(wrappers):  # the inner ones first
            if name.startswith(wrapper):
                name = wrapper.removesuffix("module.") + name[len(wrapper) :]
        for part in (_COMPILED, _SHARDED, _RECOMPUTED):
            name = name.replace(part, "")
        return name

    return without


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
        submodules: a set of modules in it, whose states alone are meant; an older way to ask.
        options: a StateDictOptions.
    """
    options, name_of = _checked(options), _renaming(model)
    frozen = {name_of(name) for name, p in model.named_parameters() if not p.requires_grad}
    state = {
        name_of(name): _given(value, options)
        for name, value in model.state_dict().items()
        if not (options.ignore_frozen_params and name_of(name) in frozen)
    }
    if submodules:
        _warn_program(
            "get_model_state_dict: submodules is an older argument: leave out of the state what is "
            "not wanted",
            FutureWarning,
        )
        state = _of_submodules(state, model, set(submodules), options.keep_submodule_prefixes)
    return {} if _is_empty_here(options) else state


def _of_submodules(state, model, submodules, keeps_names):
    """What of a state belongs to some of the modules in a model."""
    name_of, chosen = _renaming(model), {}
    prefixes = {f"{name_of(p + '.')}" for p, m in model.named_modules() if m in submodules}
    for name, value in state.items():
        for prefix in prefixes:
            if name.startswith(prefix):
                chosen[name if keeps_names else name[len(prefix) :]] = value
    return chosen


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
    options, name_of = _checked(options), _renaming(model)
    if options.broadcast_from_rank0:
        model_state_dict = _from_rank_0(model_state_dict)
    present = model.state_dict()
    renamed = {name_of(name): name for name in present}
    state = {
        renamed.get(key, key): _like(value, present.get(renamed.get(key, key)))
        for key, value in model_state_dict.items()
    }
    return model.load_state_dict(state, strict=options.strict)


def _names_of_parameters(model):
    name_of = _renaming(model)
    return {id(parameter): name_of(name) for name, parameter in model.named_parameters()}


def get_optimizer_state_dict(
    model: Module, optimizers: Any, *, submodules: Any = None, options: Any = None
) -> Any:
    """The state of an optimizer, or of several, by the names of the parameters.

    An optimizer that has made no step yet makes its state first.

    Args:
        model: the model.
        optimizers: an optimizer, or several.
        submodules: None.
        options: a StateDictOptions.
    """
    if submodules is not None:
        raise NotImplementedError("get_optimizer_state_dict: submodules is not supported")
    options, names = _checked(options), _names_of_parameters(model)
    made = {"state": {}, "param_groups": []}
    for optimizer in _all_of(optimizers):
        _init_optim_state(optimizer)
        made["state"].update(
            (names[id(parameter)], {key: _given(value, options) for key, value in kept.items()})
            for parameter, kept in optimizer.state.items()
        )
        made["param_groups"] += [
            {
                **{key: value for key, value in group.items() if key != "params"},
                "params": [names[id(parameter)] for parameter in group["params"]],
            }
            for group in optimizer.param_groups
        ]
    if _is_empty_here(options):
        return {}
    return _flattened(made) if options.flatten_optimizer_state_dict else made


def _as_tuple(optimizers):
    """An optimizer, several or none."""
    single = isinstance(optimizers, rushlight.optim.Optimizer)
    return (optimizers,) if single else tuple(optimizers)


def _all_of(optimizers):
    found = _as_tuple(optimizers)
    if not found:
        raise RuntimeError("state_dict: give an optimizer, or several")
    return found


def _flattened(made):
    """An optimizer's state as one dict."""
    flat = {}

    def put(prefix, value):
        if isinstance(value, dict):
            for key, part in value.items():
                put(f"{prefix}.{key}", part)
        elif isinstance(value, (rushlight.Tensor, int, float)):
            flat[prefix] = value
        else:
            raise NotImplementedError(
                "flatten_optimizer_state_dict: states may be tensors, int, float and dicts of them,"
                f" got {type(value)} for {prefix}"
            )

    for name, kept in made["state"].items():
        put(f"state.{name}", kept)
    for group in made["param_groups"]:
        for name in group["params"]:
            flat |= {f"param_groups.{name}.{k}": v for k, v in group.items() if k != "params"}
    return flat


def _unflattened(flat, optimizer, names):
    """The state of one optimizer again, whose own state says which keys there are."""
    made = {"state": {}, "param_groups": []}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            name = names[id(parameter)]
            prefix = f"param_groups.{name}."
            saved = {key: flat[prefix + key] for key in group if prefix + key in flat}
            if not saved:
                continue  # of another process, or the other name of a shared parameter
            made["param_groups"].append({**saved, "params": [name]})
            kept = {
                key: _unflattened_value(flat, f"state.{name}.{key}")
                for key in optimizer.state.get(parameter, {})
            }
            kept = {key: value for key, value in kept.items() if value is not None}
            if kept:
                made["state"][name] = kept
    return made


def _unflattened_value(flat, key):
    """The value of a key, or a dict of those that begin with it, or None."""
    if key in flat:
        return flat[key]
    made = {}
    for long, value in flat.items():
        if long.startswith(f"{key}."):
            *outer, last = long[len(key) + 1 :].split(".")
            at = made
            for part in outer:
                at = at.setdefault(part, {})
            at[last] = value
    return made or None


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


def set_optimizer_state_dict(
    model: Module, optimizers: Any, optim_state_dict: Any, *, options: Any = None
) -> None:
    """Load a state of get_optimizer_state_dict, whole or in parts.

    Args:
        model: the model.
        optimizers: an optimizer, or several.
        optim_state_dict: the state, also in one dict.
        options: a StateDictOptions.
    """
    options, names = _checked(options), _names_of_parameters(model)
    optimizers = _all_of(optimizers)
    if options.broadcast_from_rank0:
        optim_state_dict = _nested_from_rank_0(optim_state_dict)
    for optimizer in optimizers:
        state = optim_state_dict
        if "state" not in state:
            _init_optim_state(optimizer)
            state = _unflattened(state, optimizer, names)
        _set_state(optimizer, names, state, options)


def _set_state(optimizer, names, state, options):
    saved = {
        name: {k: v for k, v in group.items() if k != "params"}
        for group in state["param_groups"]
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
            if name in state["state"]:
                optimizer.state[parameter] = _kept_like(state["state"][name], parameter)


def _nested_from_rank_0(state):
    """An optimizer's state of rank 0, in all."""
    state, is_nested = (state, ["state" in state]) if _group.get_rank() == 0 else ({}, [None])
    objects.broadcast_object_list(is_nested, src=0)
    if not is_nested[0]:
        return _from_rank_0(state)
    flat = {(name, k): v for name, kept in state.get("state", {}).items() for k, v in kept.items()}
    flat = _from_rank_0({**flat, "groups": state.get("param_groups")})
    made = {"state": {}, "param_groups": flat.pop("groups")}
    for (name, key), value in flat.items():
        made["state"].setdefault(name, {})[key] = value
    return made


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
    """(get_model_state_dict, get_optimizer_state_dict) of a model and its optimizers.

    Args:
        model: the model.
        optimizers: an optimizer, several, or none: ().
        submodules: a set of modules, where there is no optimizer.
        options: a StateDictOptions.
    """
    optimizers = _as_tuple(optimizers)
    of_optimizers = {}
    if optimizers:
        of_optimizers = get_optimizer_state_dict(
            model, optimizers, submodules=submodules, options=options
        )
    return get_model_state_dict(model, submodules=submodules, options=options), of_optimizers


def set_state_dict(
    model: Module,
    optimizers: Any,
    *,
    model_state_dict: Any,
    optim_state_dict: Any,
    options: Any = None,
) -> Any:
    """Load both states of get_state_dict."""
    optimizers = _as_tuple(optimizers)
    if optimizers:
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
