"""What of a model is treated in ways of its own when it is prepared, converted or fused."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.ao.quantization.quant_type import (
    QuantType,
    _get_quant_type_to_str,
    _quant_type_from_str,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self


@dataclass
class StandaloneModuleConfigEntry:
    """How a module that is quantized by itself is prepared."""

    qconfig_mapping: Any
    example_inputs: tuple[Any, ...]
    prepare_custom_config: PrepareCustomConfig | None
    backend_config: Any


class _Preserving:
    """A config with names of attributes to keep."""

    preserved_attributes: list[str]

    def set_preserved_attributes(self, attributes: list[str]) -> Self:
        """Set the names of attributes of the model that the graph module keeps."""
        self.preserved_attributes = attributes
        return self

    def __repr__(self) -> str:
        given = {name: value for name, value in vars(self).items() if value}
        return f"{type(self).__name__}({given})"


def _by_type(mapping, quant_type, key, value):
    mapping.setdefault(quant_type, {})[key] = value


class PrepareCustomConfig(_Preserving):
    """What `prepare_fx` treats in ways of its own.

    Example:
        >>> from rushlight.ao.quantization.fx.custom_config import PrepareCustomConfig
        >>> config = PrepareCustomConfig().set_non_traceable_module_names(["decoder"])
        >>> config.to_dict()
        {'non_traceable_module_name': ['decoder']}
    """

    def __init__(self) -> None:
        self.standalone_module_names: dict[str, StandaloneModuleConfigEntry] = {}
        self.standalone_module_classes: dict[type, StandaloneModuleConfigEntry] = {}
        self.float_to_observed_mapping: dict[QuantType, dict[type, type]] = {}
        self.non_traceable_module_names: list[str] = []
        self.non_traceable_module_classes: list[type] = []
        self.input_quantized_indexes: list[int] = []
        self.output_quantized_indexes: list[int] = []
        self.preserved_attributes: list[str] = []

    def set_standalone_module_name(
        self,
        module_name: str,
        qconfig_mapping: Any,
        example_inputs: tuple[Any, ...],
        prepare_custom_config: PrepareCustomConfig | None,
        backend_config: Any,
    ) -> PrepareCustomConfig:
        """Prepare a module by itself."""
        self.standalone_module_names[module_name] = StandaloneModuleConfigEntry(
            qconfig_mapping, example_inputs, prepare_custom_config, backend_config
        )
        return self

    def set_standalone_module_class(
        self,
        module_class: type,
        qconfig_mapping: Any,
        example_inputs: tuple[Any, ...],
        prepare_custom_config: PrepareCustomConfig | None,
        backend_config: Any,
    ) -> PrepareCustomConfig:
        """Prepare modules of a class by themselves."""
        self.standalone_module_classes[module_class] = StandaloneModuleConfigEntry(
            qconfig_mapping, example_inputs, prepare_custom_config, backend_config
        )
        return self

    def set_float_to_observed_mapping(
        self, float_class: type, observed_class: type, quant_type: QuantType = QuantType.STATIC
    ) -> PrepareCustomConfig:
        """Replace modules of a class by `observed_class.from_float` while they are observed."""
        _by_type(self.float_to_observed_mapping, quant_type, float_class, observed_class)
        return self

    def set_non_traceable_module_names(self, module_names: list[str]) -> PrepareCustomConfig:
        """Record calls of these modules as one node."""
        self.non_traceable_module_names = module_names
        return self

    def set_non_traceable_module_classes(self, module_classes: list[type]) -> PrepareCustomConfig:
        """Record calls of modules of these classes as one node."""
        self.non_traceable_module_classes = module_classes
        return self

    def set_input_quantized_indexes(self, indexes: list[int]) -> PrepareCustomConfig:
        """Say which inputs of the model come quantized."""
        self.input_quantized_indexes = indexes
        return self

    def set_output_quantized_indexes(self, indexes: list[int]) -> PrepareCustomConfig:
        """Say which results of the model stay quantized."""
        self.output_quantized_indexes = indexes
        return self

    @classmethod
    def from_dict(cls, prepare_custom_config_dict: dict[str, Any]) -> PrepareCustomConfig:
        """Return the config that a dict in the older form means."""
        given, config = prepare_custom_config_dict, cls()
        for key, add in (
            ("standalone_module_name", config.set_standalone_module_name),
            ("standalone_module_class", config.set_standalone_module_class),
        ):
            for which, mapping, inputs, custom, backend in given.get(key, ()):
                from rushlight.ao.quantization.qconfig_mapping import QConfigMapping

                mapping = (
                    QConfigMapping.from_dict(mapping) if isinstance(mapping, dict) else mapping
                )
                custom = cls.from_dict(custom) if isinstance(custom, dict) else custom
                add(which, mapping, inputs, custom, backend)
        for name, classes in given.get("float_to_observed_custom_module_class", {}).items():
            for float_class, observed_class in classes.items():
                config.set_float_to_observed_mapping(
                    float_class, observed_class, _quant_type_from_str(name)
                )
        config.non_traceable_module_names = given.get("non_traceable_module_name", [])
        config.non_traceable_module_classes = given.get("non_traceable_module_class", [])
        config.input_quantized_indexes = given.get("input_quantized_idxs", [])
        config.output_quantized_indexes = given.get("output_quantized_idxs", [])
        config.preserved_attributes = given.get("preserved_attributes", [])
        return config

    def to_dict(self) -> dict[str, Any]:
        """Return a dict in the older form."""

        def entries(standalone):
            return [
                (key, e.qconfig_mapping and e.qconfig_mapping.to_dict(), e.example_inputs,
                 e.prepare_custom_config and e.prepare_custom_config.to_dict(), e.backend_config)
                for key, e in standalone.items()
            ]  # fmt: skip

        found = {
            "standalone_module_name": entries(self.standalone_module_names),
            "standalone_module_class": entries(self.standalone_module_classes),
            "float_to_observed_custom_module_class": _named(self.float_to_observed_mapping),
            "non_traceable_module_name": self.non_traceable_module_names,
            "non_traceable_module_class": self.non_traceable_module_classes,
            "input_quantized_idxs": self.input_quantized_indexes,
            "output_quantized_idxs": self.output_quantized_indexes,
            "preserved_attributes": self.preserved_attributes,
        }
        return {key: value for key, value in found.items() if value}


def _named(mapping):
    return {_get_quant_type_to_str(quant_type): classes for quant_type, classes in mapping.items()}


class ConvertCustomConfig(_Preserving):
    """What `convert_fx` treats in ways of its own."""

    def __init__(self) -> None:
        self.observed_to_quantized_mapping: dict[QuantType, dict[type, type]] = {}
        self.preserved_attributes: list[str] = []

    def set_observed_to_quantized_mapping(
        self, observed_class: type, quantized_class: type, quant_type: QuantType = QuantType.STATIC
    ) -> ConvertCustomConfig:
        """Replace modules of a class by `quantized_class.from_observed`."""
        _by_type(self.observed_to_quantized_mapping, quant_type, observed_class, quantized_class)
        return self

    @classmethod
    def from_dict(cls, convert_custom_config_dict: dict[str, Any]) -> ConvertCustomConfig:
        """Return the config that a dict in the older form means."""
        config, given = cls(), convert_custom_config_dict
        for name, classes in given.get("observed_to_quantized_custom_module_class", {}).items():
            for observed_class, quantized_class in classes.items():
                config.set_observed_to_quantized_mapping(
                    observed_class, quantized_class, _quant_type_from_str(name)
                )
        return config.set_preserved_attributes(given.get("preserved_attributes", []))

    def to_dict(self) -> dict[str, Any]:
        """Return a dict in the older form."""
        found = {
            "observed_to_quantized_custom_module_class": _named(self.observed_to_quantized_mapping),
            "preserved_attributes": self.preserved_attributes,
        }
        return {key: value for key, value in found.items() if value}


class FuseCustomConfig(_Preserving):
    """What `fuse_fx` treats in ways of its own."""

    def __init__(self) -> None:
        self.preserved_attributes: list[str] = []

    @classmethod
    def from_dict(cls, fuse_custom_config_dict: dict[str, Any]) -> FuseCustomConfig:
        """Return the config that a dict in the older form means."""
        kept = fuse_custom_config_dict.get("preserved_attributes", [])
        return cls().set_preserved_attributes(kept)

    def to_dict(self) -> dict[str, Any]:
        """Return a dict in the older form."""
        kept = self.preserved_attributes
        return {"preserved_attributes": kept} if kept else {}


def _as_config(given: Any, kind: Any) -> Any:
    """Return a config object of an object, a dict in the older form, or None."""
    if given is None:
        return kind()
    return kind.from_dict(given) if isinstance(given, dict) else given


__all__ = [
    "ConvertCustomConfig", "FuseCustomConfig", "PrepareCustomConfig", "StandaloneModuleConfigEntry",
]  # fmt: skip
