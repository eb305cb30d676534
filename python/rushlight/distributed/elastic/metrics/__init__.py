"""Numbers about a run: how long what takes, and how often it fails.

@metrics.prof
def step(): ...
"""

from __future__ import annotations

from rushlight.distributed.elastic.metrics.api import (
    ConsoleMetricHandler,
    MetricData,
    MetricHandler,
    MetricsConfig,
    MetricStream,
    NullMetricHandler,
    configure,
    get_elapsed_time_ms,
    getStream,
    prof,
    profile,
    publish_metric,
    put_metric,
)


def initialize_metrics(cfg: MetricsConfig | None = None) -> None:
    """Does nothing: for programs that bring a module of their own with this function.

    Args:
        cfg: parameters of handlers.
    """


__all__ = [
    "ConsoleMetricHandler", "MetricData", "MetricHandler", "MetricStream", "MetricsConfig",
    "NullMetricHandler", "configure", "getStream", "get_elapsed_time_ms", "initialize_metrics",
    "prof", "profile", "publish_metric", "put_metric",
]  # fmt: skip
