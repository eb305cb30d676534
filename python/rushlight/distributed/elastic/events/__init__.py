"""What happens in a run, for Python's loggers:

events.record(events.Event("started", events.EventSource.WORKER), "console")
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import traceback

from rushlight.distributed.elastic.events.api import (
    Event,
    EventMetadataValue,
    EventSource,
    NodeState,
    RdzvEvent,
)
from rushlight.distributed.elastic.events.handlers import get_logging_handler

_loggers: dict[str, logging.Logger] = {}


def _logger_of(destination):
    if destination not in _loggers:
        logger = logging.getLogger(f"torchelastic-events-{destination}")
        logger.setLevel(os.environ.get("LOGLEVEL", "INFO"))
        logger.propagate = False  # an event is told once
        logger.addHandler(get_logging_handler(destination))
        _loggers[destination] = logger
    return _loggers[destination]


def record(event: Event, destination: str = "null") -> None:
    """Tell an event.

    Args:
        event: what happened.
        destination: "null" for nobody, or "console".
    """
    _logger_of(destination).info(event.serialize())


def record_rdzv_event(event: RdzvEvent) -> None:
    """Tell an event of a meeting."""
    _logger_of("dynamic_rendezvous").info(event.serialize())


def construct_and_record_rdzv_event(
    run_id: str,
    message: str,
    node_state: NodeState,
    name: str = "",
    hostname: str = "",
    pid: int | None = None,
    master_endpoint: str = "",
    local_id: int | None = None,
    rank: int | None = None,
) -> None:
    """Make an event of a meeting and tell it, if anybody listens.

    Args:
        run_id: the run's name.
        message: what is to be said.
        node_state: the machine's state; of FAILED, the exception being handled is told too.
        name: what happened; the name of the function that calls by default.
        hostname, pid: the process; this one by default.
        master_endpoint: where the store is.
        local_id, rank: the machine's numbers.
    """
    if isinstance(get_logging_handler("dynamic_rendezvous"), logging.NullHandler):
        return
    caller = sys._getframe(1).f_code
    record_rdzv_event(
        RdzvEvent(
            name=f"{os.path.basename(caller.co_filename)}:{name or caller.co_name}",
            run_id=run_id,
            message=message,
            hostname=hostname or socket.getfqdn(),
            pid=pid or os.getpid(),
            node_state=node_state,
            master_endpoint=master_endpoint,
            rank=rank,
            local_id=local_id,
            error_trace=traceback.format_exc() if node_state == NodeState.FAILED else "",
        )
    )


__all__ = [
    "Event", "EventMetadataValue", "EventSource", "NodeState", "RdzvEvent",
    "construct_and_record_rdzv_event", "get_logging_handler", "record", "record_rdzv_event",
]  # fmt: skip
