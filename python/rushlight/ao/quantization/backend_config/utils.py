"""The parts of a backend's config, each by pattern."""

from __future__ import annotations

from rushlight import nn
from rushlight.ao.quantization.backend_config.backend_config import BackendConfig
from rushlight.nn import functional as F

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.ao.quantization.backend_config.backend_config import DTypeConfig


def _by_pattern(config, name):
    return {
        pattern: getattr(entry, name)
        for pattern, entry in config._pattern_complex_format_to_config.items()
        if getattr(entry, name)
    }


def get_pattern_to_dtype_configs(backend_config: BackendConfig) -> dict[Any, list[DTypeConfig]]:
    """Return the dtypes of each pattern."""
    configs = backend_config._pattern_complex_format_to_config
    return {pattern: entry.dtype_configs for pattern, entry in configs.items()}


def get_qat_module_classes(backend_config: BackendConfig) -> tuple[type, ...]:
    """Return the classes that are trained."""
    return tuple({c.qat_module for c in backend_config.configs if c.qat_module})


def get_fused_module_classes(backend_config: BackendConfig) -> tuple[type, ...]:
    """Return the classes of fused modules."""
    return tuple({c.fused_module for c in backend_config.configs if c.fused_module})


def get_pattern_to_input_type_to_index(backend_config: BackendConfig) -> dict[Any, dict[str, int]]:
    """Return for each pattern which argument is the weight, and which the bias."""
    configs = backend_config._pattern_complex_format_to_config
    return {pattern: entry._input_type_to_index for pattern, entry in configs.items()}


def get_root_module_to_quantized_reference_module(
    backend_config: BackendConfig,
) -> dict[type[nn.Module], type[nn.Module]]:
    """Return the class with a rounded weight of each class that has a weight."""
    return {
        entry.root_module: entry.reference_quantized_module
        for entry in backend_config.configs
        if entry.root_module is not None and entry.reference_quantized_module is not None
    }


def get_fuser_method_mapping(backend_config: BackendConfig) -> dict[Any, Callable[..., Any]]:
    """Return the function that fuses each pattern."""
    return _by_pattern(backend_config, "fuser_method")


def get_module_to_qat_module(backend_config: BackendConfig) -> dict[Any, type[nn.Module]]:
    """Return the class that is trained in place of each class."""
    return _by_pattern(backend_config, "qat_module")


def get_fusion_pattern_to_root_node_getter(
    backend_config: BackendConfig,
) -> dict[Any, Callable[..., Any]]:
    """Return for each pattern the function that finds its root, where it has one of its own."""
    return _by_pattern(backend_config, "_root_node_getter")


def get_fusion_pattern_to_extra_inputs_getter(
    backend_config: BackendConfig,
) -> dict[Any, Callable[..., Any]]:
    """Return for each pattern the function that finds more inputs than the root has."""
    return _by_pattern(backend_config, "_extra_inputs_getter")


def remove_boolean_dispatch_from_name(p: Any) -> Any:
    """Return the name of a function, as a program writes it."""
    if p is F.max_pool1d:
        return "torch.nn.functional.max_pool1d"
    if p is F.max_pool2d:
        return "torch.nn.functional.max_pool2d"
    if p is F.max_pool3d:
        return "torch.nn.functional.max_pool3d"
    return p


def pattern_to_human_readable(p: Any) -> Any:
    """Return a pattern with names in place of functions and classes."""
    if isinstance(p, tuple):
        return tuple(pattern_to_human_readable(part) for part in p)
    if isinstance(p, str):
        return p
    p = remove_boolean_dispatch_from_name(p)
    return p if isinstance(p, str) else getattr(p, "__name__", p)


def entry_to_pretty_str(entry: dict[str, Any]) -> str:
    """Return an entry of a config in the older form as text, a line for each key."""
    lines = ["{"]
    for key, value in entry.items():
        if key == "pattern":
            value = pattern_to_human_readable(value)
        lines.append(f"  {key!r}: {value},")
    return "\n".join([*lines, "}"])


__all__ = [
    "entry_to_pretty_str", "get_fused_module_classes", "get_fuser_method_mapping",
    "get_fusion_pattern_to_extra_inputs_getter", "get_fusion_pattern_to_root_node_getter",
    "get_module_to_qat_module", "get_pattern_to_dtype_configs",
    "get_pattern_to_input_type_to_index", "get_qat_module_classes",
    "get_root_module_to_quantized_reference_module", "pattern_to_human_readable",
    "remove_boolean_dispatch_from_name",
]  # fmt: skip
