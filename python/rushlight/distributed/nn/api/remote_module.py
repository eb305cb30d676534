"""Modules in other processes, which remote procedure calls would reach."""

from __future__ import annotations

from rushlight.nn import Module


class RemoteModule(Module):
    """A module that another process creates and runs, by remote procedure calls.

    There are none here (see `distributed.rpc`). `distributed.pipelining` runs parts of a model in
    several processes by messages.

    Raises:
        NotImplementedError: always.
    """

    def __init__(
        self,
        remote_device: str,
        module_cls: type[Module],
        args: tuple[object, ...] | None = None,
        kwargs: dict[str, object] | None = None,
    ) -> None:
        raise NotImplementedError(
            f"RemoteModule: {getattr(module_cls, '__name__', module_cls)} at {remote_device}: "
            "rushlight has no remote procedure calls; distributed.pipelining runs parts of a model "
            "in several processes"
        )

    @staticmethod
    def init_from_module_rref(
        remote_device: str, module_rref: object, _module_interface_cls: object = None
    ) -> RemoteModule:
        """Raises NotImplementedError, as the constructor.

        Args:
            remote_device: the process that has the module, and its device.
            module_rref: a reference to the module.
        """
        raise NotImplementedError(
            f"RemoteModule.init_from_module_rref: {module_rref} at {remote_device}, as "
            f"{_module_interface_cls}: rushlight has no remote procedure calls"
        )


__all__ = ["RemoteModule"]
