"""Calling a module with other tensors in place of its parameters and buffers."""

from __future__ import annotations

import contextlib
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight._ignored import older_name as _older_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

__all__ = ["functional_call"]


_MISSING: Any = object()


def _names_of_tensors(module):
    """dotted name -> tensor of all parameters and buffers, every name of shared ones included."""
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def _with_tied_names(module, tensors):
    """`tensors` with an entry for every name that a replaced tensor has."""
    names_of = {}
    for name, tensor in _names_of_tensors(module).items():
        names_of.setdefault(id(tensor), []).append(name)
    given = dict(tensors)
    for names in names_of.values():
        values = {id(tensors[name]): tensors[name] for name in names if name in tensors}
        if len(values) > 1:
            raise ValueError(f"functional_call got multiple values for keys {sorted(names)}")
        for value in values.values():
            given.update(dict.fromkeys(names, value))
    return given


def _check_names(module, tensors):
    known = _names_of_tensors(module)
    problems = []
    for kind, names in (
        ("Unexpected", [name for name in tensors if name not in known]),
        ("Missing", [name for name in known if name not in tensors]),
    ):
        if names:
            problems.append(f"{kind} key(s): {', '.join(map(repr, sorted(names)))}.")
    if problems:
        raise RuntimeError(
            f"functional_call: the tensors given do not match {type(module).__name__}: "
            + " ".join(problems)
        )


def _owner(module, name):
    """The submodule that has the member `name`, and the member's own name."""
    *path, member = name.split(".")
    for part in path:
        if not hasattr(module, part):
            raise AttributeError(
                f"{type(module).__name__} has no attribute `{part}`, of which functional_call is "
                f"given `{name}`"
            )
        module = getattr(module, part)
        if not isinstance(module, rushlight.nn.Module):
            raise TypeError(
                f"submodule `{part}`: {module} is not an instance of torch.nn.Module, so that "
                f"functional_call cannot set `{name}`"
            )
    return module, member


def _swap(module, name, tensor):
    """Sets a member, removes it if `tensor` is _MISSING, and returns what was there before."""
    if tensor is not _MISSING and not isinstance(tensor, (Tensor, type(None))):
        raise TypeError(f"functional_call: `{name}`: {tensor} is not an instance of torch.Tensor")
    for members in (module._parameters, module._buffers):
        if name in members:
            before = members[name]
            if tensor is _MISSING:
                del members[name]
            else:
                members[name] = tensor
            return before
    before = getattr(module, name, _MISSING)
    if before is not _MISSING and not isinstance(before, (Tensor, type(None))):
        raise TypeError(
            f"functional_call: attribute `{name}`: {before} is not an instance of torch.Tensor"
        )
    if tensor is not _MISSING:
        setattr(module, name, tensor)
    elif before is not _MISSING:
        delattr(module, name)
    return before


@contextlib.contextmanager
def _reparametrize_module(
    module, parameters_and_buffers, tie_weights=False, strict=False, stack_weights=False
):
    tensors = parameters_and_buffers
    if tie_weights:
        tensors = _with_tied_names(module, tensors)
    if strict:
        _check_names(module, tensors)
    originals = []
    try:
        for name, tensor in tensors.items():
            owner, member = _owner(module, name)
            originals.append((name, owner, member, _swap(owner, member, tensor)))
        yield
    finally:
        # In reverse, as one tensor may have several names in a module that contains itself.
        for name, owner, member, original in reversed(originals):
            # What forward assigned anew, such as a buffer, is the caller's to see.
            now = _swap(owner, member, original)
            if name in parameters_and_buffers and now is not _MISSING:
                parameters_and_buffers[name] = now


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
