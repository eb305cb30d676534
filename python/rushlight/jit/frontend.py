"""The error of what `script` does not compile, under the path where programs look for it."""

from rushlight.jit._values import NotSupportedError

__all__ = ["NotSupportedError"]
