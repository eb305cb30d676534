"""Where NVIDIA's libraries may lie: asked once, when CUDA is first needed."""

from __future__ import annotations

import os
import pathlib
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Below site-packages, by wheel and its version.
_WHEELS = ("nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib", "nvidia/cu12/lib", "nvidia/cublas/lib",
           "nvidia/cudnn/lib", "nvidia/nccl/lib", "nvidia/nvtx/lib")  # fmt: skip


def folders() -> Any:
    """The folders to look for libraries in, and that of the simulator or ""."""
    found = []
    own = os.environ.get("RUSHLIGHT_CUDA_PATH")
    if own:
        found += own.split(os.pathsep)
    for place in sys.path:
        for wheel in _WHEELS:
            folder = os.path.join(place, wheel)
            if os.path.isdir(folder):
                found.append(folder)
    return tuple(found), _simulator()


def _simulator():
    wish = os.environ.get("RUSHLIGHT_CUDA_SIMULATOR", "")
    if wish in ("", "0"):
        return ""
    folder = wish
    if wish == "1":  # of a checkout, where `make cuda-sim` puts it
        folder = str(pathlib.Path(__file__).parents[3] / "build" / "cuda-sim")
    if not os.path.exists(os.path.join(folder, "libcuda.so.1")):
        raise RuntimeError(
            f"RUSHLIGHT_CUDA_SIMULATOR={wish}: there is no simulator in {folder}; "
            "`make cuda-sim` builds it"
        )
    return folder
