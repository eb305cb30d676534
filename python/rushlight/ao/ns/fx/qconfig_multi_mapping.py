"""Several qconfigs for each part of a model, to be compared."""

from __future__ import annotations

from rushlight.ao.quantization.qconfig import qconfig_equals
from rushlight.ao.quantization.qconfig_mapping import QConfigMapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_RULES = {
    "object_type_qconfigs": "set_object_type",
    "module_name_regex_qconfigs": "set_module_name_regex",
    "module_name_qconfigs": "set_module_name",
    "module_name_object_type_order_qconfigs": "set_module_name_object_type_order",
}


class QConfigMultiMapping:
    """A list of `QConfigMapping`, whose rules are set for all of them at once.

    Example:
        >>> from rushlight.ao.ns.fx.qconfig_multi_mapping import QConfigMultiMapping
        >>> from rushlight.ao.quantization import default_dynamic_qconfig, default_qconfig
        >>> mapping = QConfigMultiMapping().set_global([default_qconfig, default_dynamic_qconfig])
        >>> len(mapping.qconfig_mappings_list)
        2
    """

    def __init__(self) -> None:
        self.qconfig_mappings_list: list[QConfigMapping] = [QConfigMapping()]

    def _set(self, name, key, qconfigs):
        """Set one rule in as many mappings as there are different qconfigs."""
        chosen: list[Any] = []
        for qconfig in qconfigs:
            if not any(qconfig_equals(qconfig, one) for one in chosen):
                chosen.append(qconfig)
        mappings = self.qconfig_mappings_list
        while len(mappings) < len(chosen):
            mappings.append(self._without_qconfigs())
        for place, mapping in enumerate(mappings):
            getattr(mapping, name)(*key, chosen[place] if place < len(chosen) else None)
        return self

    def _without_qconfigs(self):
        """A mapping with the rules that there are, each None."""
        new, first = QConfigMapping(), self.qconfig_mappings_list[0]
        for attribute, method in _RULES.items():
            for key in getattr(first, attribute):
                getattr(new, method)(*(key if isinstance(key, tuple) else (key,)), None)
        return new

    def set_global(self, global_qconfig_list: list[Any]) -> QConfigMultiMapping:
        """Set the qconfigs of what no other rule names."""
        return self._set("set_global", (), global_qconfig_list)

    def set_object_type(
        self, object_type: Callable[..., Any] | str, qconfig_list: list[Any]
    ) -> QConfigMultiMapping:
        """Set the qconfigs of a class of modules, a function, or a method by its name."""
        return self._set("set_object_type", (object_type,), qconfig_list)

    def set_module_name_regex(
        self, module_name_regex: str, qconfig_list: list[Any]
    ) -> QConfigMultiMapping:
        """Set the qconfigs of modules whose name matches a regular expression."""
        return self._set("set_module_name_regex", (module_name_regex,), qconfig_list)

    def set_module_name(self, module_name: str, qconfig_list: list[Any]) -> QConfigMultiMapping:
        """Set the qconfigs of a module and what is in it."""
        return self._set("set_module_name", (module_name,), qconfig_list)

    def set_module_name_object_type_order(
        self, module_name: str, object_type: Callable[..., Any], index: int, qconfig_list: list[Any]
    ) -> QConfigMultiMapping:
        """Set the qconfigs of one call."""
        key = (module_name, object_type, index)
        return self._set("set_module_name_object_type_order", key, qconfig_list)

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ["
        return text + "".join(f"\n{mapping}," for mapping in self.qconfig_mappings_list) + "\n]"

    @classmethod
    def from_list_qconfig_mapping(
        cls, qconfig_mapping_list: list[QConfigMapping]
    ) -> QConfigMultiMapping:
        """Return the mapping that a list of mappings makes."""
        new = cls()
        new.set_global([mapping.global_qconfig for mapping in qconfig_mapping_list])
        for attribute, method in _RULES.items():
            keys = dict.fromkeys(k for m in qconfig_mapping_list for k in getattr(m, attribute))
            for key in keys:
                found = [getattr(m, attribute).get(key) for m in qconfig_mapping_list]
                new._set(method, key if isinstance(key, tuple) else (key,), found)
        return new


__all__ = ["QConfigMultiMapping"]
