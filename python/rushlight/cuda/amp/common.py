"""Is there a GPU with mixed precision?"""

from __future__ import annotations

from importlib.util import find_spec

import rushlight


def amp_definitely_not_available() -> bool:
    """Return whether there is neither a GPU nor XLA."""
    return not (rushlight.cuda.is_available() or find_spec("torch_xla"))


__all__ = ["amp_definitely_not_available"]
