"""Loggers of elastic runs."""

from __future__ import annotations

import logging
import os
import sys

from rushlight.distributed.elastic.utils.log_level import get_log_level


def get_logger(name: str | None = None) -> logging.Logger:
    """A logger of the level that LOGLEVEL says.

    Args:
        name: its name; that of the calling module by default.
    """
    logger = logging.getLogger(name or sys._getframe(1).f_globals["__name__"])
    logger.setLevel(os.environ.get("LOGLEVEL", get_log_level()))
    return logger


__all__ = ["get_logger"]
