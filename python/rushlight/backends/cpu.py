"""What the processor can do."""

from __future__ import annotations

from rushlight import _C


def get_cpu_capability() -> str:
    """The instruction set that the kernels run on: "AVX512", "AVX2" or "DEFAULT", which is any
    other. `RUSHLIGHT_ISA` chooses a lesser one than the processor has."""
    return {"avx512": "AVX512", "avx2": "AVX2"}.get(_C._instruction_set(), "DEFAULT")
