"""A module whose gradients are those of all processes: of this one."""

import contextlib

import rushlight
from rushlight.nn.modules.module import Module


class DistributedDataParallel(Module):
    """A module that every process trains on its own data, with the mean of their gradients.

    rushlight trains in one process so far, whose gradients they are. The module is `.module`.

    Args:
        module: the module.
        others: accepted; `device_ids` must be empty or None, for there are no GPUs.

    Raises:
        ValueError: init_process_group was not called.
    """

    def __init__(
        self, module, device_ids=None, output_device=None, dim=0, broadcast_buffers=True,
        init_sync=True, process_group=None,
        bucket_cap_mb=None, find_unused_parameters=False, check_reduction=False,
        gradient_as_bucket_view=False,
        static_graph=False, **options
    ):  # fmt: skip
        super().__init__()
        rushlight.distributed.get_world_size(process_group)  # complains if there is no world
        if not any(p.requires_grad for p in module.parameters()):
            raise RuntimeError(
                "DistributedDataParallel is not needed when no parameter of the module requires a "
                "gradient."
            )
        if device_ids:
            raise ValueError(
                f"DistributedDataParallel: device_ids {device_ids} on a machine without GPUs"
            )
        self.module = module
        self.device_ids, self.output_device, self.dim = None, None, dim
        self.find_unused_parameters, self.static_graph = find_unused_parameters, static_graph
        self.process_group = process_group

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self):
        """A context in which gradients are not exchanged: they never are."""
        yield

    @contextlib.contextmanager
    def join(
        self, divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False
    ):
        """A context for uneven inputs in the processes: there is one."""
        yield


__all__ = ["DistributedDataParallel"]
