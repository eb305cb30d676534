"""The version, and what the build supports."""

from rushlight._version import __version__

debug = False
cuda = None
hip = None
rocm = None
xpu = None
git_version = "Unknown"

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]
