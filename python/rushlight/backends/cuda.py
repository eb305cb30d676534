"""Switches of the CUDA libraries, which are not in a build without CUDA."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

matmul: Any = SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    allow_fp16_accumulation=False,
    fp32_precision="none",
)
_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Was the library built for CUDA?"""
    return False


def flash_sdp_enabled() -> Any:
    """May attention use the flash kernel?"""
    return _attention["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Allow or forbid the flash kernel of attention."""
    _attention["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> Any:
    """May attention use the memory-efficient kernel?"""
    return _attention["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow or forbid the memory-efficient kernel of attention."""
    _attention["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> Any:
    """May attention be composed of matrix products?"""
    return _attention["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Allow or forbid attention composed of matrix products."""
    _attention["math"] = bool(enabled)


def cudnn_sdp_enabled() -> Any:
    """May attention use cuDNN?"""
    return _attention["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allow or forbid cuDNN's attention."""
    _attention["cudnn"] = bool(enabled)


class SDPAParams:
    """What attention is asked to compute: the arguments of `scaled_dot_product_attention`."""

    def __init__(self, query, key, value, attn_mask, dropout, is_causal, enable_gqa):
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa


def _cannot(params, debug):
    """False, with a warning if `debug`: kernels of GPUs take no tensors of the CPU."""
    if debug:
        import warnings

        warnings.warn(f"not for tensors on {params.query.device}", stacklevel=3)
    return False


def can_use_flash_attention(params, debug=False):
    """Could the flash kernel compute this? Not on the CPU."""
    return _cannot(params, debug)


def can_use_efficient_attention(params, debug=False):
    """Could the memory-efficient kernel compute this? Not on the CPU."""
    return _cannot(params, debug)


def can_use_cudnn_attention(params, debug=False):
    """Could cuDNN compute this? Not on the CPU."""
    return _cannot(params, debug)


def is_flash_attention_available():
    """Is the flash kernel in this build?"""
    return False


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[Any]:
    """Context in which only the given kernels of attention are allowed."""
    before = dict(_attention)
    _attention.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield
    finally:
        _attention.update(before)
