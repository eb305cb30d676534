"""Profiles, where torch keeps them."""

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
