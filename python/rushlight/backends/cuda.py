"""Switches of the CUDA libraries, which are not in a build without CUDA."""

import contextlib
from types import SimpleNamespace

matmul = SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    allow_fp16_accumulation=False,
    fp32_precision="none",
)
_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built():
    """Was the library built for CUDA?"""
    return False


def flash_sdp_enabled():
    """May attention use the flash kernel?"""
    return _attention["flash"]


def enable_flash_sdp(enabled):
    """Allow or forbid the flash kernel of attention."""
    _attention["flash"] = bool(enabled)


def mem_efficient_sdp_enabled():
    """May attention use the memory-efficient kernel?"""
    return _attention["mem_efficient"]


def enable_mem_efficient_sdp(enabled):
    """Allow or forbid the memory-efficient kernel of attention."""
    _attention["mem_efficient"] = bool(enabled)


def math_sdp_enabled():
    """May attention be composed of matrix products?"""
    return _attention["math"]


def enable_math_sdp(enabled):
    """Allow or forbid attention composed of matrix products."""
    _attention["math"] = bool(enabled)


def cudnn_sdp_enabled():
    """May attention use cuDNN?"""
    return _attention["cudnn"]


def enable_cudnn_sdp(enabled):
    """Allow or forbid cuDNN's attention."""
    _attention["cudnn"] = bool(enabled)


@contextlib.contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """Context in which only the given kernels of attention are allowed."""
    before = dict(_attention)
    _attention.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield
    finally:
        _attention.update(before)
