"""How this build was made."""

from __future__ import annotations

import rushlight


def show() -> str:
    """What it was built with, as text."""
    return (
        f"rushlight {rushlight.version.__version__}, built with:\n"
        "  - OpenBLAS\n"
        "  - CPU capability usage: chosen when it starts\n"
        "  - Build settings: USE_CUDA=OFF, USE_MKL=OFF, USE_MKLDNN=OFF, USE_MPI=OFF, USE_NCCL=OFF, "
        "USE_OPENMP=OFF\n"
    )


def parallel_info() -> str:
    """How many threads compute, as text."""
    return (
        f"rushlight\n\tget_num_threads() : {rushlight.get_num_threads()}\n"
        f"\tget_num_interop_threads() : {rushlight.get_num_interop_threads()}\n"
    )
