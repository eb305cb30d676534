"""The error of what `script` does not compile, under the path where programs look for it."""

from rushlight.jit._modules import CompilationError as NotSupportedError

__all__ = ["NotSupportedError"]
