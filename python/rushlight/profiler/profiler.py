"""Profiles, where torch keeps them."""

from rushlight._set_module import set_module as _set_module
from rushlight.profiler import (
    ExecutionTraceObserver,
    ProfilerAction,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "ExecutionTraceObserver", "ProfilerAction", "profile", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip

_set_module(
    __name__,
    ExecutionTraceObserver,
    ProfilerAction,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)
