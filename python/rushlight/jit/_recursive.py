"""Where libraries look for the compiler's memory of types, to empty it."""

from __future__ import annotations

import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The graph of a module belongs to it alone: nothing is remembered by type.
concrete_type_store: Any = types.SimpleNamespace(type_store={}, methods_compiled=set())
