"""What a backend quantizes: for each pattern of operations, dtypes and how it is observed."""

from __future__ import annotations

import enum
from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


class ObservationType(enum.Enum):
    """What observes the result of a pattern: an observer of its own, its input's, or none."""

    OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT = 0
    OUTPUT_SHARE_OBSERVER_WITH_INPUT = 1
    INPUT_OUTPUT_NOT_OBSERVED = 2


@dataclass
class DTypeWithConstraints:
    """A dtype, with bounds of the integers, scales and zero points that the backend takes.

    Args:
        dtype: of tensors, quantized or not.
        quant_min_lower_bound, quant_max_upper_bound: of the integers.
        scale_min_lower_bound, scale_max_upper_bound: of scales.
        scale_exact_match, zero_point_exact_match: the only ones.
    """

    dtype: Any = None
    quant_min_lower_bound: float | None = None
    quant_max_upper_bound: float | None = None
    scale_min_lower_bound: float | None = None
    scale_max_upper_bound: float | None = None
    scale_exact_match: float | None = None
    zero_point_exact_match: int | None = None


def _with_constraints(dtype):
    return dtype if isinstance(dtype, DTypeWithConstraints) else DTypeWithConstraints(dtype)


class DTypeConfig:
    """The dtypes of a pattern's input, result, weight and bias.

    Args:
        input_dtype, output_dtype, weight_dtype: dtypes, or `DTypeWithConstraints`.
        bias_dtype: a dtype.
        is_dynamic: inputs are quantized as they come.
    """

    input_dtype_with_constraints: Any
    output_dtype_with_constraints: Any
    weight_dtype_with_constraints: Any

    def __init__(
        self,
        input_dtype: Any = None,
        output_dtype: Any = None,
        weight_dtype: Any = None,
        bias_dtype: Any = None,
        is_dynamic: bool | None = None,
    ) -> None:
        self.input_dtype_with_constraints = _with_constraints(input_dtype)
        self.output_dtype_with_constraints = _with_constraints(output_dtype)
        self.weight_dtype_with_constraints = _with_constraints(weight_dtype)
        self.bias_dtype = bias_dtype
        self.is_dynamic = is_dynamic

    @property
    def input_dtype(self) -> Any:
        """The dtype of inputs."""
        return self.input_dtype_with_constraints.dtype

    @property
    def output_dtype(self) -> Any:
        """The dtype of results."""
        return self.output_dtype_with_constraints.dtype

    @property
    def weight_dtype(self) -> Any:
        """The dtype of weights."""
        return self.weight_dtype_with_constraints.dtype

    @classmethod
    def from_dict(cls, dtype_config_dict: dict[str, Any]) -> DTypeConfig:
        """Return the config that a dict of its arguments means."""
        names = ("input_dtype", "output_dtype", "weight_dtype", "bias_dtype", "is_dynamic")
        return cls(**{name: dtype_config_dict.get(name) for name in names})

    def to_dict(self) -> dict[str, Any]:
        """Return a dict of the arguments that are given."""
        found = {
            f"{name}_dtype": getattr(self, f"{name}_dtype_with_constraints")
            for name in ("input", "output", "weight")
            if getattr(self, f"{name}_dtype") is not None
        }
        if self.bias_dtype:
            found["bias_dtype"] = self.bias_dtype
        if self.is_dynamic is not None:
            found["is_dynamic"] = self.is_dynamic
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DTypeConfig) and vars(self) == vars(other)

    __hash__: Any = None  # it may change

    def __repr__(self) -> str:
        given = {**self.to_dict(), "is_dynamic": self.is_dynamic}
        return f"DTypeConfig({', '.join(f'{name}={value}' for name, value in given.items())})"


# The older form's key for each attribute of a pattern.
_KEYS = {
    "observation_type": "observation_type", "root_module": "root_module",
    "qat_module": "qat_module", "reference_quantized_module": "reference_quantized_module_for_root",
    "fused_module": "fused_module", "fuser_method": "fuser_method",
    "_root_node_getter": "root_node_getter", "_extra_inputs_getter": "extra_inputs_getter",
    "_num_tensor_args_to_observation_type": "num_tensor_args_to_observation_type",
    "_input_type_to_index": "input_type_to_index",
}  # fmt: skip


class BackendPatternConfig:
    """How a backend quantizes what matches a pattern.

    Args:
        pattern: a class of modules, a function, a method's name, or a tuple of such in the order
            in which they are called.
    """

    pattern: Any
    observation_type: Any

    def __init__(self, pattern: Any = None) -> None:
        self.pattern = pattern
        self.observation_type = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
        self.dtype_configs: list[DTypeConfig] = []
        self.root_module: Any = None
        self.qat_module: Any = None
        self.reference_quantized_module: Any = None
        self.fused_module: Any = None
        self.fuser_method: Callable[..., Any] | None = None
        self._root_node_getter: Callable[..., Any] | None = None
        self._extra_inputs_getter: Callable[..., Any] | None = None
        self._num_tensor_args_to_observation_type: dict[int, ObservationType] = {}
        self._input_type_to_index: dict[str, int] = {}
        self._pattern_complex_format: Any = None

    def __repr__(self) -> str:
        given = {name: value for name, value in vars(self).items() if value}
        return f"BackendPatternConfig({given})"

    def set_pattern(self, pattern: Any) -> BackendPatternConfig:
        """Set the pattern: one operation, or a tuple in the order in which they are called."""
        if self._pattern_complex_format is not None:
            raise ValueError("set_pattern: the pattern is set in the reversed format already")
        self.pattern = pattern
        return self

    def set_observation_type(self, observation_type: ObservationType) -> BackendPatternConfig:
        """Set what observes the result."""
        self.observation_type = observation_type
        return self

    def add_dtype_config(self, dtype_config: DTypeConfig) -> BackendPatternConfig:
        """Add dtypes that the backend takes."""
        self.dtype_configs.append(dtype_config)
        return self

    def set_dtype_configs(self, dtype_configs: list[DTypeConfig]) -> BackendPatternConfig:
        """Set all dtypes that the backend takes."""
        self.dtype_configs = dtype_configs
        return self

    def set_root_module(self, root_module: Any) -> BackendPatternConfig:
        """Set the class of the module that has the weight."""
        self.root_module = root_module
        return self

    def set_qat_module(self, qat_module: Any) -> BackendPatternConfig:
        """Set the class that is trained in its place."""
        self.qat_module = qat_module
        return self

    def set_reference_quantized_module(
        self, reference_quantized_module: Any
    ) -> BackendPatternConfig:
        """Set the class with a rounded weight that replaces the root module."""
        self.reference_quantized_module = reference_quantized_module
        return self

    def set_fused_module(self, fused_module: Any) -> BackendPatternConfig:
        """Set the class that the modules of the pattern become."""
        self.fused_module = fused_module
        return self

    def set_fuser_method(self, fuser_method: Callable[..., Any]) -> BackendPatternConfig:
        """Set the function (is_qat, *modules) that makes one module of those of the pattern."""
        self.fuser_method = fuser_method
        return self

    def _set_root_node_getter(self, root_node_getter: Callable[..., Any]) -> BackendPatternConfig:
        self._root_node_getter = root_node_getter
        return self

    def _set_extra_inputs_getter(self, getter: Callable[..., Any]) -> BackendPatternConfig:
        self._extra_inputs_getter = getter
        return self

    def _set_num_tensor_args_to_observation_type(
        self, observation_types: dict[int, ObservationType]
    ) -> BackendPatternConfig:
        self._num_tensor_args_to_observation_type = observation_types
        return self

    def _set_input_type_to_index(self, indexes: dict[str, int]) -> BackendPatternConfig:
        self._input_type_to_index = indexes
        return self

    def _set_pattern_complex_format(self, pattern: Any) -> BackendPatternConfig:
        if self.pattern is not None:
            raise ValueError("_set_pattern_complex_format: a pattern is set already")
        self._pattern_complex_format = pattern
        return self

    @classmethod
    def from_dict(cls, backend_pattern_config_dict: dict[str, Any]) -> BackendPatternConfig:
        """Return the config that a dict in the older form means."""
        given = backend_pattern_config_dict
        config = cls(given.get("pattern"))
        config._pattern_complex_format = given.get("pattern_complex_format")
        for name, key in _KEYS.items():
            if key in given:
                setattr(config, name, given[key])
        config.dtype_configs = [
            entry if isinstance(entry, DTypeConfig) else DTypeConfig.from_dict(entry)
            for entry in given.get("dtype_configs", ())
        ]
        return config

    def to_dict(self) -> dict[str, Any]:
        """Return a dict in the older form."""
        found = {
            "observation_type": self.observation_type,
            "dtype_configs": [config.to_dict() for config in self.dtype_configs],
        }
        if self.pattern is not None:
            found["pattern"] = self.pattern
        if self._pattern_complex_format is not None:
            found["pattern_complex_format"] = self._pattern_complex_format
        for name, key in _KEYS.items():
            if getattr(self, name):
                found[key] = getattr(self, name)
        return found


def reversed_format(pattern: Any) -> Any:
    """Return a pattern as nested tuples, the last operation first."""
    if not isinstance(pattern, tuple):
        return pattern
    nested = pattern[0]
    for operation in pattern[1:]:
        nested = (operation, nested)
    return nested


class BackendConfig:
    """The patterns that a backend quantizes.

    Args:
        name: of the backend.
    """

    name: str

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._pattern_complex_format_to_config: dict[Any, BackendPatternConfig] = {}

    def __repr__(self) -> str:
        return f"BackendConfig({vars(self)})"

    def set_name(self, name: str) -> BackendConfig:
        """Set the name of the backend."""
        self.name = name
        return self

    def set_backend_pattern_config(self, config: BackendPatternConfig) -> BackendConfig:
        """Set how one pattern is quantized."""
        key = config._pattern_complex_format
        if key is None:
            key = reversed_format(config.pattern)
        self._pattern_complex_format_to_config[key] = config
        return self

    def set_backend_pattern_configs(self, configs: Sequence[BackendPatternConfig]) -> BackendConfig:
        """Set how several patterns are quantized."""
        for config in configs:
            self.set_backend_pattern_config(config)
        return self

    @property
    def configs(self) -> list[BackendPatternConfig]:
        """The configs of all patterns."""
        return list(self._pattern_complex_format_to_config.values())

    @classmethod
    def from_dict(cls, backend_config_dict: dict[str, Any]) -> BackendConfig:
        """Return the config that a dict in the older form means."""
        config = cls(backend_config_dict.get("name", ""))
        for entry in backend_config_dict.get("configs", ()):
            if not isinstance(entry, BackendPatternConfig):
                entry = BackendPatternConfig.from_dict(entry)
            config.set_backend_pattern_config(entry)
        return config

    def to_dict(self) -> dict[str, Any]:
        """Return a dict in the older form."""
        return {"name": self.name, "configs": [config.to_dict() for config in self.configs]}


__all__ = [
    "BackendConfig", "BackendPatternConfig", "DTypeConfig", "DTypeWithConstraints",
    "ObservationType",
]  # fmt: skip
