"""What is told of timers that have run out."""

from __future__ import annotations

import logging


def log_debug_info_for_expired_timers(run_id: str, expired_timers: dict[int, list[str]]) -> None:
    """Tell the logger which processes have not done what in time.

    Args:
        run_id: the run's name.
        expired_timers: process -> its requests, as JSON.
    """
    if expired_timers:
        logging.getLogger(__name__).info("run %s: timers ran out: %s", run_id, expired_timers)


__all__ = ["log_debug_info_for_expired_timers"]
