"""What a backend quantizes, and how: what `prepare_fx` and `convert_fx` go by."""

from __future__ import annotations

from rushlight._module_paths import add_modules as _add_modules
from rushlight.ao.quantization.backend_config import utils
from rushlight.ao.quantization.backend_config._native import (
    get_executorch_backend_config,
    get_fbgemm_backend_config,
    get_native_backend_config,
    get_native_backend_config_dict,
    get_onednn_backend_config,
    get_qnnpack_backend_config,
    get_tensorrt_backend_config,
    get_tensorrt_backend_config_dict,
    get_x86_backend_config,
)
from rushlight.ao.quantization.backend_config.backend_config import (
    BackendConfig,
    BackendPatternConfig,
    DTypeConfig,
    DTypeWithConstraints,
    ObservationType,
)

__all__ = [
    "BackendConfig", "BackendPatternConfig", "DTypeConfig", "DTypeWithConstraints",
    "ObservationType", "get_executorch_backend_config", "get_fbgemm_backend_config",
    "get_native_backend_config", "get_native_backend_config_dict", "get_onednn_backend_config",
    "get_qnnpack_backend_config", "get_tensorrt_backend_config",
    "get_tensorrt_backend_config_dict", "get_x86_backend_config",
]  # fmt: skip

_add_modules(
    __name__,
    {
        "executorch": "get_executorch_backend_config",
        "fbgemm": "get_fbgemm_backend_config",
        "native": "ao.quantization.backend_config._native",
        "onednn": "get_onednn_backend_config",
        "qnnpack": "get_qnnpack_backend_config",
        "tensorrt": "get_tensorrt_backend_config get_tensorrt_backend_config_dict",
        "x86": "get_x86_backend_config",
    },
)
