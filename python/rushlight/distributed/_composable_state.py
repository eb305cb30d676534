"""What `fully_shard` keeps with a module."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.nn import Module


def _get_module_state(module: Module) -> Any:
    """The shards of the module's own parameters; None where `fully_shard` was not called."""
    return module.__dict__.get("_fsdp")
