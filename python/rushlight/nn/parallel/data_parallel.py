"""DataParallel."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import rushlight
from rushlight._ignored import warn_program as _warn_program
from rushlight.cuda.comm import place
from rushlight.nn.modules.module import Module
from rushlight.nn.parallel.replicate import parallel_apply, replicate
from rushlight.nn.parallel.scatter_gather import gather, scatter_kwargs
from rushlight.types import _device

_T = TypeVar("_T", bound=Module)

__all__ = ["DataParallel", "data_parallel"]


def _devices(device_ids):
    if device_ids is None:
        device_ids = range(rushlight.cuda.device_count())
    return [place(device) for device in device_ids]


def _number(device):
    return device.index if device.type == "cuda" else device


def _warn_of_unequal(devices):
    """A GPU that is much smaller than the others holds them up."""
    properties = [rushlight.cuda.get_device_properties(d) for d in devices if d.type == "cuda"]
    for what in ("total_memory", "multi_processor_count"):
        values = [getattr(p, what) for p in properties]
        if values and min(values) / max(values) < 0.75:
            small, large = values.index(min(values)), values.index(max(values))
            _warn_program(
                f"There is an imbalance between your GPUs: {devices[small]} has less than 75% of "
                f"the {what} of {devices[large]}. Leave it out by setting device_ids or "
                "CUDA_VISIBLE_DEVICES.",
            )
            return


def _check_home(module, home):
    for tensor in itertools.chain(module.parameters(), module.buffers()):
        if tensor.device != home:
            raise RuntimeError(
                "module must have its parameters and buffers on device "
                f"{home} (device_ids[0]) but found one of them on device: {tensor.device}"
            )


def _call(module, devices, output_device, dim, inputs, kwargs):
    """Shares arguments out, calls a copy of the module on each device, and joins the results."""
    _check_home(module, devices[0])
    inputs, kwargs = scatter_kwargs(inputs, kwargs, devices, dim)
    if not inputs and not kwargs:  # a module without arguments works on the first device alone
        inputs, kwargs = ((),), ({},)
    if len(devices) == 1:
        return module(*inputs[0], **kwargs[0])
    used = devices[: len(inputs)]
    if len(used) == 1:
        return gather([module(*inputs[0], **kwargs[0])], output_device, dim)
    copies = replicate(module, used, not rushlight.is_grad_enabled())
    return gather(parallel_apply(copies, inputs, kwargs, used), output_device, dim)


class DataParallel(Module, Generic[_T]):
    """Calls copies of a model on several GPUs, each with its share of a batch.

    Where there is no GPU, or `device_ids` is empty, it calls the model. The parameters' names begin
    with "module.", as programs that save such models expect. A process for each GPU is faster:
    `DistributedDataParallel`.

    Args:
        module: the model; its parameters and buffers are on the first of the devices.
        device_ids: the GPUs to use, all by default.
        output_device: where the results are, the first of `device_ids` by default.
        dim: the dim of tensors that counts samples.

    Shape:
        Those of the model, on whose outputs `dim` counts samples too.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[int | _device] | None = None,
        output_device: int | _device | None = None,
        dim: int = 0,
    ) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []
        if not rushlight.cuda.is_available():
            return
        self._devices = _devices(device_ids)
        if not self._devices:
            return
        self.dim = dim
        self.device_ids = [_number(device) for device in self._devices]
        home = self._devices[0] if output_device is None else place(output_device)
        self.output_device: int = _number(home)
        self.src_device_obj: _device = self._devices[0]
        _warn_of_unequal(self._devices)
        if len(self._devices) == 1:
            self.module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        _check_home(self.module, self._devices[0])
        shared, named = self.scatter(inputs, kwargs, self._devices)
        if not shared and not named:  # a module without arguments works on the first device alone
            shared, named = ((),), ({},)
        if len(self._devices) == 1:
            return self.module(*shared[0], **named[0])
        copies = self.replicate(self.module, self._devices[: len(shared)])
        return self.gather(self.parallel_apply(copies, shared, named), self.output_device)

    def scatter(
        self,
        inputs: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
        device_ids: Sequence[int | _device],
    ) -> Any:
        """Return the arguments of each device: a tuple of positional ones, and of dicts."""
        return scatter_kwargs(inputs, kwargs, device_ids, self.dim)

    def replicate(self, module: Module, device_ids: Sequence[int | _device]) -> list[Any]:
        """Return a copy of the module on each device."""
        return replicate(module, device_ids, not rushlight.is_grad_enabled())

    def parallel_apply(
        self, replicas: Sequence[Module], inputs: Sequence[Any], kwargs: Any
    ) -> list[Any]:
        """Call each copy with its arguments, and return the results."""
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs: Any, output_device: int | _device) -> Any:
        """Join the results of all devices on one of them."""
        return gather(outputs, output_device, self.dim)


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Sequence[int | _device] | None = None,
    output_device: int | _device | None = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """Call copies of a module on several GPUs, each with its share of a batch.

    Args:
        module: the module, on the first of the devices.
        inputs: its positional arguments, a tuple, or its only one.
        device_ids: the GPUs to use, all by default; without one the module is called.
        output_device: where the results are, the first of `device_ids` by default.
        dim: the dim of tensors that counts samples.
        module_kwargs: its keyword arguments.
    """
    inputs = inputs if isinstance(inputs, tuple) else (inputs,) if inputs is not None else ()
    devices = _devices(device_ids)
    if not devices:
        return module(*inputs, **(module_kwargs or {}))
    home = devices[0] if output_device is None else output_device
    return _call(module, devices, home, dim, inputs, module_kwargs)
