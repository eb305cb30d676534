"""Names of `rushlight.distributed` where libraries reach for them below torch's core."""

from __future__ import annotations

import rushlight.distributed.distributed_c10d as _distributed
from rushlight.distributed._fake import FakeProcessGroup as FakeProcessGroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(_distributed, name)
