"""Objects of TorchScript's classes in programs, of which rushlight's have none."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ScriptObjectMeta"]


@dataclass
class ScriptObjectMeta:
    """What a node of torch's programs notes of such an object: its constant, and its class."""

    constant_name: str
    class_fqn: str
