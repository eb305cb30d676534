"""Switches of the CUDA libraries, which are not in a build without CUDA."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

from rushlight import _absent
from rushlight._C import _cuda
from rushlight._ignored import warn_program as _warn_program
from rushlight.nn.attention import SDPBackend as SDPBackend

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight import Tensor


class _Products(SimpleNamespace):
    """How exact products are on a GPU."""

    @property
    def allow_tf32(self) -> bool:
        """May products of float32 round their operands to TF32?"""
        return self._allows

    @allow_tf32.setter
    def allow_tf32(self, allow: bool) -> None:
        self._allows = bool(allow)
        _cuda.set_allow_tf32(self._allows)


matmul: Any = _Products(
    _allows=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    allow_fp16_accumulation=False,
    fp32_precision="none",
)
_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Can the library use CUDA here? Each build can, where there is a GPU."""
    return _cuda.device_count() > 0


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

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None
    dropout: float
    is_causal: bool
    enable_gqa: bool

    def __init__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None,
        dropout: float,
        is_causal: bool,
        enable_gqa: bool,
    ) -> None:
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa


def _cannot(params, debug):
    """False, with a warning if `debug`: kernels of GPUs take no tensors of the CPU."""
    if debug:
        _warn_program(f"not for tensors on {params.query.device}")
    return False


def can_use_flash_attention(params: Any, debug: bool = False) -> Any:
    """Could the flash kernel compute this? Not on the CPU."""
    return _cannot(params, debug)


def can_use_efficient_attention(params: Any, debug: bool = False) -> Any:
    """Could the memory-efficient kernel compute this? Not on the CPU."""
    return _cannot(params, debug)


def can_use_cudnn_attention(params: Any, debug: bool = False) -> Any:
    """Could cuDNN compute this? Not on the CPU."""
    return _cannot(params, debug)


def is_flash_attention_available() -> bool:
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


_reduced_precision = {"math": False}
_libraries = {"blas": "default", "linalg": "default"}


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Allow or forbid sums of 16 bits in attention composed of products; on the CPU they are never
    taken.
    """
    _reduced_precision["math"] = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """May attention composed of products add up in 16 bits?"""
    return _reduced_precision["math"]


def is_ck_sdpa_available() -> bool:
    """Is AMD's kernel of attention in this build?"""
    return False


def _choose(function, kind, backend, known):
    if backend is not None:
        if backend not in known:
            raise RuntimeError(f"{function}: unknown library {backend!r}; known are {known}")
        _libraries[kind] = backend
    return _libraries[kind]


def preferred_blas_library(backend: str | None = None) -> str:
    """Name the library for products on GPUs, or ask which one was named.

    Raises:
        RuntimeError: there is no such library.
    """
    return _choose("preferred_blas_library", "blas", backend, ("default", "cublas", "cublaslt"))


def preferred_linalg_library(backend: str | None = None) -> str:
    """Name the library for linear algebra on GPUs, or ask which one was named.

    Raises:
        RuntimeError: there is no such library.
    """
    known = ("default", "cusolver", "magma")
    return _choose("preferred_linalg_library", "linalg", backend, known)


globals().update(
    _absent.refused(
        {
            "blas_workspace_size": "the workspaces of cuBLAS are the library's own",
            "cublas_workspace_size": "the workspaces of cuBLAS are the library's own",
            "cublaslt_workspace_size": "cuBLASLt is not used",
            "preferred_rocm_fa_library": "there are no kernels for AMD's GPUs",
            "cuBLASModule": "the settings of products are in backends.cuda.matmul",
            "cuFFTPlanCache": "cuFFT is not used",
            "cuFFTPlanCacheAttrContextProp": "cuFFT is not used",
            "cuFFTPlanCacheManager": "cuFFT is not used",
            "cufft_plan_cache": "cuFFT is not used",
        }
    )
)
