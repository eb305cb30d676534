"""The name of `rushlight._functorch.core` in torch."""

from rushlight._functorch.core import (
    TransformType,
    _add_batch_dim,
    _is_vmap_fallback_enabled,
    _remove_batch_dim,
    _set_vmap_fallback_enabled,
    get_unwrapped,
    is_batchedtensor,
    is_functionaltensor,
    is_functorch_wrapped_tensor,
    is_gradtrackingtensor,
)

__all__ = [
    "TransformType", "_add_batch_dim", "_is_vmap_fallback_enabled", "_remove_batch_dim",
    "_set_vmap_fallback_enabled", "get_unwrapped", "is_batchedtensor",
    "is_functionaltensor", "is_functorch_wrapped_tensor", "is_gradtrackingtensor",
]  # fmt: skip
