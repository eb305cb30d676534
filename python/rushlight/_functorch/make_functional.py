"""A module as a function and its parameters: the older way to say `func.functional_call`."""

from __future__ import annotations

import copy

import rushlight
from rushlight.func import functional_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor
    from rushlight.nn import Module


class _Functional(rushlight.nn.Module):
    """A module that takes its parameters, and its buffers if made with them, as arguments."""

    def __init__(
        self,
        stateless_model: Module,
        parameters: dict[str, Tensor],
        buffers: dict[str, Tensor] | None,
        names: dict[str, list[str]],
    ) -> None:
        super().__init__()
        self._names = names  # of each tensor, whose first name is among those below
        self.stateless_model = stateless_model
        self.param_names: tuple[str, ...] = tuple(parameters)
        self.buffer_names: tuple[str, ...] | None = None if buffers is None else tuple(buffers)

    def _named(self, params, buffers):
        if len(params) != len(self.param_names):
            raise RuntimeError(f"{len(params)} parameters for a module of {len(self.param_names)}")
        named = dict(zip(self.param_names, params))
        if self.buffer_names is not None:
            named.update(zip(self.buffer_names, buffers))
        return {name: tensor for first, tensor in named.items() for name in self._names[first]}


class FunctionalModule(_Functional):
    """function(params, *args, **kwargs) of a module."""

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Call the module with these parameters."""
        return functional_call(self.stateless_model, self._named(params, ()), args, kwargs)


class FunctionalModuleWithBuffers(_Functional):
    """function(params, buffers, *args, **kwargs) of a module."""

    def forward(
        self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any
    ) -> Any:
        """Call the module with these parameters and buffers."""
        return functional_call(self.stateless_model, self._named(params, buffers), args, kwargs)


def _parts(model, without_grad):
    parameters = {
        name: rushlight.nn.Parameter(p.detach().clone(), p.requires_grad and not without_grad)
        for name, p in model.named_parameters(remove_duplicate=True)
    }
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    stateless = copy.deepcopy(model).to("meta")
    return stateless, parameters, buffers, _names_of(model)


def _names_of(model):
    """{first name: all names} of the parameters and buffers, some of which are shared."""
    names = {}
    for members in (model.named_parameters, model.named_buffers):
        for name, tensor in members(remove_duplicate=False):
            names.setdefault(id(tensor), []).append(name)
    return {all_names[0]: all_names for all_names in names.values()}


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """Return (function, parameters) of a module: function(parameters, *args) calls it.

    Args:
        disable_autograd_tracking: the parameters require no gradient.
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    stateless, parameters, _, names = _parts(model, disable_autograd_tracking)
    return FunctionalModule(stateless, parameters, None, names), tuple(parameters.values())


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return (function, parameters, buffers) of a module; see `make_functional`."""
    stateless, parameters, buffers, names = _parts(model, disable_autograd_tracking)
    function = FunctionalModuleWithBuffers(stateless, parameters, buffers, names)
    return function, tuple(parameters.values()), tuple(buffers.values())


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return (function, parameters, buffers) of modules of one kind, stacked along a first dim."""
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if any(type(model) is not type(models[0]) for model in models):
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to be of the same class."
        )
    if len({model.training for model in models}) > 1:
        raise RuntimeError(
            "combine_state_for_ensemble: Expected all models to have the same training/eval mode."
        )
    functions, parameters, buffers = zip(*[make_functional_with_buffers(m) for m in models])
    stack = rushlight.stack
    return (
        functions[0],
        tuple(stack(each).detach().requires_grad_() for each in zip(*parameters)),
        tuple(stack(each) for each in zip(*buffers)),
    )


__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble",
    "make_functional", "make_functional_with_buffers",
]  # fmt: skip
