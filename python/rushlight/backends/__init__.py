"""The libraries underneath, and the switches of theirs that programs set.

The switches can be read and assigned as in PyTorch. Those of CUDA libraries have nothing to act on
in a build without CUDA.
"""

from __future__ import annotations

import contextlib

from rushlight.backends import (
    cpu,
    cuda,
    cudnn,
    mha,
    mkl,
    mkldnn,
    mps,
    nnpack,
    openmp,
    opt_einsum,
    quantized,
    xnnpack,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

fp32_precision = "none"  # of products of float32: they are exact, whatever it says
_frozen = False


def flags_frozen() -> Any:
    """May switches be set in `with` blocks alone?"""
    return _frozen


def disable_global_flags() -> None:
    """Let switches be set in `with` blocks alone: what `flags_frozen` says from now on."""
    global _frozen
    _frozen = True


@contextlib.contextmanager
def __allow_nonbracketed_mutation():
    """A context in which switches may be set anywhere."""
    global _frozen
    before, _frozen = _frozen, False
    try:
        yield
    finally:
        _frozen = before


__all__ = [
    "cpu", "cuda", "cudnn", "mha", "mkl", "mkldnn", "mps", "nnpack", "openmp", "opt_einsum",
    "quantized", "xnnpack",
]  # fmt: skip
