"""What each of the backends that torch names quantizes: all of them are this library's kernels."""

from __future__ import annotations

from rushlight.ao.quantization.backend_config import _patterns
from rushlight.ao.quantization.backend_config._patterns import (
    DYNAMIC_FLOAT16 as default_dynamic_float16_dtype_config,
    DYNAMIC_INT8 as default_dynamic_int8_dtype_config,
    EMBEDDING as weight_only_quint8_dtype_config,
    EMBEDDING_4BIT as weight_only_quint4x2_dtype_config,
    FLOAT16 as default_op_fp16_dtype_config,
    UNWEIGHTED as input_output_only_quint8_dtype_config,
    WEIGHTED as default_op_quint8_dtype_config,
)
from rushlight.ao.quantization.backend_config.backend_config import BackendConfig

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DYNAMIC = [default_dynamic_int8_dtype_config, default_dynamic_float16_dtype_config]


def _backend(name, weighted, unweighted, norm=None, ranges=None, more=(), sizes=True):
    config = BackendConfig(name)
    for configs in (
        _patterns.convolutions(weighted),
        _patterns.linears([*weighted, *_DYNAMIC]),
        _patterns.arithmetic(ranges or unweighted),
        _patterns.unweighted(unweighted, sizes),
        _patterns.known_ranges(ranges or unweighted),
        _patterns.batch_norms(unweighted),
        _patterns.layer_norms(norm) if norm else (),
        _patterns.recurrent(_DYNAMIC),
        _patterns.embeddings([weight_only_quint8_dtype_config, weight_only_quint4x2_dtype_config]),
        more,
    ):
        config.set_backend_pattern_configs(configs)
    return config


_WEIGHTED = [default_op_quint8_dtype_config]
_UNWEIGHTED = [input_output_only_quint8_dtype_config]


def get_native_backend_config() -> BackendConfig:
    """Return what this library quantizes; the other backends are parts of it."""
    return _backend("native", _WEIGHTED, _UNWEIGHTED, [_patterns.NORM])


def get_native_backend_config_dict() -> dict[str, Any]:
    """Return `get_native_backend_config` in the older form."""
    return get_native_backend_config().to_dict()


def get_test_only_legacy_native_backend_config() -> BackendConfig:
    """Return `get_native_backend_config` with float16 as a static dtype."""
    float16 = default_op_fp16_dtype_config
    unweighted = [*_UNWEIGHTED, float16]
    return _backend(
        "_native_and_fp16", [*_WEIGHTED, float16], unweighted, [_patterns.NORM, float16]
    )


def get_test_only_legacy_native_backend_config_dict() -> dict[str, Any]:
    """Return `get_test_only_legacy_native_backend_config` in the older form."""
    return get_test_only_legacy_native_backend_config().to_dict()


def get_fbgemm_backend_config() -> BackendConfig:
    """Return what torch quantizes by FBGEMM, with this library's kernels."""
    return _backend("fbgemm", _WEIGHTED, _UNWEIGHTED)


def get_x86_backend_config() -> BackendConfig:
    """Return what torch quantizes on x86, with this library's kernels."""
    return _backend("x86", _WEIGHTED, _UNWEIGHTED, ranges=_WEIGHTED)


def get_onednn_backend_config() -> BackendConfig:
    """Return what torch quantizes by OneDNN, with this library's kernels.

    Sums of convolutions are not fused: they are computed one after the other.
    """
    more = _patterns.fused_linears([*_WEIGHTED, *_DYNAMIC])
    return _backend("onednn", _WEIGHTED, _UNWEIGHTED, [_patterns.NORM], more=more)


def get_qnnpack_backend_config() -> BackendConfig:
    """Return what torch quantizes by QNNPACK and XNNPACK, with this library's kernels."""
    weighted = [_patterns.SYMMETRIC_WEIGHTED, *_WEIGHTED]
    unweighted = [_patterns.SYMMETRIC_UNWEIGHTED, *_UNWEIGHTED]
    return _backend("qnnpack", weighted, unweighted, sizes=False)


def _refuse(name, what):
    raise NotImplementedError(
        f"{name}: quantized models run by this library's own kernels, and are not lowered to {what}"
    )


def get_tensorrt_backend_config() -> BackendConfig:
    """Refused: models are not lowered to TensorRT."""
    _refuse("get_tensorrt_backend_config", "TensorRT")


def get_tensorrt_backend_config_dict() -> dict[str, Any]:
    """Refused: models are not lowered to TensorRT."""
    _refuse("get_tensorrt_backend_config_dict", "TensorRT")


def get_executorch_backend_config() -> BackendConfig:
    """Refused: models are not lowered to ExecuTorch."""
    _refuse("get_executorch_backend_config", "ExecuTorch")


__all__ = [
    "default_dynamic_float16_dtype_config", "default_dynamic_int8_dtype_config",
    "default_op_fp16_dtype_config", "default_op_quint8_dtype_config", "get_native_backend_config",
    "get_native_backend_config_dict", "get_test_only_legacy_native_backend_config",
    "get_test_only_legacy_native_backend_config_dict", "input_output_only_quint8_dtype_config",
    "weight_only_quint4x2_dtype_config", "weight_only_quint8_dtype_config",
]  # fmt: skip
