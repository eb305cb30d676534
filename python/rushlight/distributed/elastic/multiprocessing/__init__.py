"""Several processes that run a function or a command, which a launcher looks after."""

from __future__ import annotations

from rushlight.distributed.elastic.multiprocessing import errors
from rushlight.distributed.elastic.multiprocessing.errors import ProcessFailure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.distributed.elastic.multiprocessing.api import LogsSpecs, PContext

_OF_API = (
    "DefaultLogsSpecs", "LogsDest", "LogsSpecs", "MultiprocessContext", "PContext",
    "RunProcsResult", "SignalException", "Std", "SubprocessContext", "to_map",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _OF_API:
        from rushlight.distributed.elastic.multiprocessing import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def start_processes(
    name: str,
    entrypoint: Callable[..., Any] | str,
    args: dict[int, tuple[Any, ...]],
    envs: dict[int, dict[str, str]],
    logs_specs: LogsSpecs,
    log_line_prefixes: dict[int, str] | None = None,
    start_method: str = "spawn",
    numa_options: Any = None,
    duplicate_stdout_filters: list[str] | None = None,
    duplicate_stderr_filters: list[str] | None = None,
) -> PContext:
    """Start workers.

    Args:
        name: what they are.
        entrypoint: a function that can be pickled, or a command.
        args: worker -> its arguments, for 0 to the number of workers less one.
        envs: worker -> environment variables, for the same.
        logs_specs: where they write; a DefaultLogsSpecs.
        log_line_prefixes: worker -> how lines that are shown begin.
        start_method: how processes of a function are started.
        numa_options: None.
        duplicate_stdout_filters, duplicate_stderr_filters: lines of shown streams that contain one
            of these go to a file too.

    Returns:
        A PContext, whose `wait` gives the result.
    """
    from rushlight.distributed.elastic.multiprocessing import api

    for what, given in (("args", args), ("envs", envs)):
        if set(given) != set(range(len(args))):
            raise RuntimeError(
                f"{what}, local rank mapping mismatch, expected: {set(range(len(args)))}, actual: "
                f"{set(given)}"
            )
    options = {
        "log_line_prefixes": log_line_prefixes,
        "numa_options": numa_options,
        "duplicate_stdout_filters": duplicate_stdout_filters,
        "duplicate_stderr_filters": duplicate_stderr_filters,
        "logs_specs": logs_specs,
    }
    if isinstance(entrypoint, str):
        context = api.SubprocessContext(name, entrypoint, args, envs, **options)
    else:
        options["start_method"] = start_method
        context = api.MultiprocessContext(name, entrypoint, args, envs, **options)
    try:
        context.start()
    except BaseException:
        context.close()
        raise
    return context


__all__ = [
    "DefaultLogsSpecs", "LogsDest", "LogsSpecs", "MultiprocessContext", "PContext",
    "ProcessFailure", "RunProcsResult", "SignalException", "Std", "SubprocessContext", "errors",
    "start_processes", "to_map",
]  # fmt: skip
