"""Calling a module with other tensors in place of its parameters and buffers."""

from __future__ import annotations

import contextlib
from typing import Any

from rushlight import Tensor
from rushlight._ignored import older_name as _older_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

__all__ = ["functional_call"]


def _places(module):
    """dotted name -> (dict that holds the tensor, key), every name of shared ones included."""
    places = {}
    for path, submodule in module.named_modules(remove_duplicate=False):
        prefix = path + "." if path else ""
        for members in (submodule._parameters, submodule._buffers):
            for name, tensor in members.items():
                if tensor is not None:
                    places[prefix + name] = (members, name)
    return places


def _with_tied_names(places, tensors):
    """`tensors` with an entry for every name that a replaced tensor has."""
    names_of = {}
    for name, (members, key) in places.items():
        names_of.setdefault(id(members[key]), []).append(name)
    given = {}
    for names in names_of.values():
        values = {id(tensors[name]): tensors[name] for name in names if name in tensors}
        if len(values) > 1:
            raise ValueError(f"functional_call got multiple values for keys {sorted(names)}")
        for value in values.values():
            given.update(dict.fromkeys(names, value))
    return given


@contextlib.contextmanager
def _reparametrize_module(
    module, parameters_and_buffers, tie_weights=False, strict=False, stack_weights=False
):
    places = _places(module)
    if strict:
        unexpected = [name for name in parameters_and_buffers if name not in places]
        given = {id(places[n][0][places[n][1]]) for n in parameters_and_buffers if n in places}
        missing = [
            name
            for name, (members, key) in places.items()
            if name not in parameters_and_buffers
            and not (tie_weights and id(members[key]) in given)
        ]
        if unexpected or missing:
            raise RuntimeError(
                f"functional_call: {type(module).__name__} does not match: unexpected key(s) "
                f"{unexpected}, missing key(s) {missing}"
            )
    if tie_weights:
        replacements = _with_tied_names(places, parameters_and_buffers)
    else:
        replacements = {n: t for n, t in parameters_and_buffers.items() if n in places}
    originals = {}
    for name, tensor in replacements.items():
        members, key = places[name]
        originals[name] = members[key]
        members[key] = tensor
    try:
        yield
    finally:
        for name, original in originals.items():
            members, key = places[name]
            # What forward assigned anew, such as a buffer, is the caller's to see.
            if name in parameters_and_buffers:
                parameters_and_buffers[name] = members[key]
            members[key] = original


def _functional_call(
    module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Tensor:
    """Call `module` with the given tensors in place of its own; the module stays as it is.

    Args:
        parameters_and_buffers: dotted names to tensors; those not named are the module's own.
        args: one argument, or a tuple of them.
        tie_weights: a tensor for one name of a shared parameter stands for all its names.
        strict: every name must be given and none more.
    """
    _older_name("nn.utils.stateless.functional_call", "func.functional_call")
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
