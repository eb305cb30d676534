"""Pipeline parallelism: each process has some layers of a model, and micro-batches pass through."""

from rushlight.distributed.pipelining.schedules import Schedule1F1B, ScheduleGPipe
from rushlight.distributed.pipelining.stage import PipelineStage

__all__ = ["PipelineStage", "Schedule1F1B", "ScheduleGPipe"]
