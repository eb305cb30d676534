"""Agents start the workers of a machine, and start them again when one fails.

`python -m rushlight.distributed.run` has an agent of its own; this one is for programs that make
theirs.
"""

from rushlight.distributed.elastic.agent.server.api import (
    ElasticAgent,
    RunResult,
    SimpleElasticAgent,
    Worker,
    WorkerGroup,
    WorkerSpec,
    WorkerState,
)
from rushlight.distributed.elastic.agent.server.local_elastic_agent import (
    TORCHELASTIC_ENABLE_FILE_TIMER,
    TORCHELASTIC_TIMER_FILE,
)

__all__ = [
    "TORCHELASTIC_ENABLE_FILE_TIMER", "TORCHELASTIC_TIMER_FILE", "ElasticAgent", "RunResult",
    "SimpleElasticAgent", "Worker", "WorkerGroup", "WorkerSpec", "WorkerState",
]  # fmt: skip
