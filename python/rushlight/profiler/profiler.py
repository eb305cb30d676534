"""Profiles, where torch keeps them."""

from rushlight.profiler import (
    ExecutionTraceObserver,
    ProfilerAction,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)


def _default_schedule_fn(_):
    """Each step is recorded."""
    return ProfilerAction.RECORD


__all__ = [
    "ExecutionTraceObserver", "ProfilerAction", "profile", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip
