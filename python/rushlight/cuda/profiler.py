"""NVIDIA's profiler, which needs a GPU."""

from rushlight import _absent

globals().update(_absent.refusals("CUDA", ("init", "profile", "start", "stop"), RuntimeError))
