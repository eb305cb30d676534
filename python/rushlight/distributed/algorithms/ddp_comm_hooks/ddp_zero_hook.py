"""Hooks that step a ZeroRedundancyOptimizer during backward, which are refused."""

from __future__ import annotations

from rushlight import _absent

_WHY = "ZeroRedundancyOptimizer has no overlap_with_ddp; call its step after backward"

globals().update(
    _absent.refused({"hook_with_zero_step": _WHY, "hook_with_zero_step_interleaved": _WHY})
)

__all__ = ["hook_with_zero_step", "hook_with_zero_step_interleaved"]  # noqa: F822
