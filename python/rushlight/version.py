"""The version, and what the build supports."""

from __future__ import annotations

from rushlight._version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    cuda: str | None  # the version of CUDA's compiler, where there is a GPU

debug = False
hip = None
rocm = None
xpu = None
git_version = "Unknown"

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> str | None:
        # Asks for a GPU, so it waits until asked for.
        if name != "cuda":
            raise AttributeError(f"module 'rushlight.version' has no attribute {name!r}")
        from rushlight import _C

        found = _C._cuda.compiler_version()
        return None if found is None else f"{found[0]}.{found[1]}"
