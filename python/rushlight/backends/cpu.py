"""What the processor can do."""

from __future__ import annotations


def get_cpu_capability() -> str:
    """The instruction set that the kernels run on: "AVX512", "AVX2" or "DEFAULT"."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        flags = next((line.split() for line in file if line.startswith("flags")), [])
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= set(flags):
        return "AVX512"
    return "AVX2" if "avx2" in flags and "fma" in flags else "DEFAULT"
