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


__all__ = ["RemoteModule"]
