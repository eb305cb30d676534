"""Copies of a module, and calls of several at once."""

from __future__ import annotations

import copy
import threading

import rushlight
from rushlight import Tensor
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight.nn.modules.module import Module


def replicate(network: Any, devices: Sequence[Any], detach: bool = False) -> list[Any]:
    """Copies of a module on several devices, through whose parameters gradients reach its own.

    Args:
        network: the module.
        devices: one for each copy.
        detach: cut the copies' parameters off instead.
    """
    if not len(devices):
        raise ValueError("replicate: no devices")
    return [_copy(network, rushlight.device(device), detach) for device in devices]


def _copy(module, device, detach):
    made = copy.copy(module)
    made.__dict__ = dict(module.__dict__)
    for table in ("_parameters", "_buffers"):
        made.__dict__[table] = {
            name: _on(value, device, detach) for name, value in getattr(module, table).items()
        }
    made.__dict__["_modules"] = {
        name: None if child is None else _copy(child, device, detach)
        for name, child in module._modules.items()
    }
    made.__dict__["_is_replica"] = True
    return made


def _on(value: Tensor | None, device, detach):
    if value is None:
        return None
    moved = value.to(device)
    return moved.detach() if detach else moved


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """Call each module with its inputs, on a thread of its own; return their outputs.

    Args:
        modules: as many as inputs.
        inputs: the positional arguments of each, a tuple, or its only one.
        kwargs_tup: the keyword arguments of each.
        devices: which one each computes on; its inputs are there.

    Raises:
        Exception: that of the first module that raised one.
    """
    kwargs_tup = [{}] * len(modules) if kwargs_tup is None else kwargs_tup
    places = [None] * len(modules) if devices is None else devices
    for name, given in (("inputs", inputs), ("kwargs_tup", kwargs_tup), ("devices", places)):
        if len(given) != len(modules):
            raise ValueError(f"parallel_apply: {len(modules)} modules and {len(given)} {name}")
    results: list[Any] = [None] * len(modules)
    grad_enabled = rushlight.is_grad_enabled()

    def work(place: int) -> None:
        given = inputs[place]
        given = given if isinstance(given, (list, tuple)) else (given,)
        try:
            with rushlight.set_grad_enabled(grad_enabled):
                results[place] = modules[place](*given, **kwargs_tup[place]), None
        except Exception as error:  # it is raised below, by the caller's thread
            results[place] = None, error

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(modules))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _, error in results:
        if error is not None:
            raise error
    return [value for value, _ in results]


set_module("rushlight.nn.parallel", parallel_apply)
