"""Timers by which workers that are stuck are ended: the worker says how long something may take,

    timer.configure(timer.LocalTimerClient(queue))
    with timer.expires(after=60):
        ...

and a server in the process that has started it kills it after that.
"""

from rushlight.distributed.elastic.timer.api import (
    TimerClient,
    TimerRequest,
    TimerServer,
    configure,
    expires,
)
from rushlight.distributed.elastic.timer.file_based_local_timer import (
    FileTimerClient,
    FileTimerRequest,
    FileTimerServer,
)
from rushlight.distributed.elastic.timer.local_timer import LocalTimerClient, LocalTimerServer

__all__ = [
    "FileTimerClient", "FileTimerRequest", "FileTimerServer", "LocalTimerClient",
    "LocalTimerServer", "TimerClient", "TimerRequest", "TimerServer", "configure", "expires",
]  # fmt: skip
