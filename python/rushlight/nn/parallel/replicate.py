"""Copies of a module, and calls of several at once."""

from __future__ import annotations

import contextlib
import copy
import threading

import rushlight
from rushlight import Tensor
from rushlight._set_module import set_module
from rushlight.cuda.comm import place

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
    return [_copy(network, place(device), detach) for device in devices]


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


def _first_tensor(value: Any) -> Tensor | None:
    if isinstance(value, Tensor):
        return value
    values = value.values() if isinstance(value, dict) else value
    if isinstance(value, (list, tuple, dict)):
        return next((found for found in map(_first_tensor, values) if found is not None), None)
    return None


def _stream_of(device, given):
    """The current stream of the GPU that a module computes on: that of its inputs, or as given."""
    if device is None:
        found = _first_tensor(given)
        device = None if found is None else found.device
    else:
        device = place(device)
    if device is None or device.type != "cuda":
        return None
    return rushlight.cuda.current_stream(device)


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
    casts = [
        (kind, rushlight.get_autocast_dtype(kind))
        for kind in ("cpu", "cuda")
        if rushlight.is_autocast_enabled(kind)
    ]
    # A thread begins with the default streams: each module goes on in the caller's.
    streams = [_stream_of(device, given) for device, given in zip(places, inputs)]

    def work(i: int) -> None:
        given = inputs[i]
        given = given if isinstance(given, (list, tuple)) else (given,)
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(rushlight.set_grad_enabled(grad_enabled))
                for kind, dtype in casts:
                    stack.enter_context(rushlight.autocast(kind, dtype))
                if streams[i] is not None:
                    stack.enter_context(rushlight.cuda.device(streams[i].device))
                    stack.enter_context(rushlight.cuda.stream(streams[i]))
                results[i] = modules[i](*given, **kwargs_tup[i]), None
        except Exception as error:  # it is raised below, by the caller's thread
            results[i] = None, error

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(modules))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _, error in results:
        if error is not None:
            raise error
    return [value for value, _ in results]


set_module("rushlight.nn.parallel.parallel_apply", parallel_apply)
