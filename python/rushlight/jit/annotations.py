"""Annotations that TorchScript reads, and those of typing that programs import from here."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: F401, UP035

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class _BroadcastingList:
    """Subscripted by a type, as in BroadcastingList2[int]: a list of it, or one for all places."""

    def __getitem__(self, types: Sequence[type[Any]]) -> None:
        return None


BroadcastingList1: Any = _BroadcastingList()
BroadcastingList2: Any = BroadcastingList1
BroadcastingList3: Any = BroadcastingList1
BroadcastingList4: Any = BroadcastingList1
BroadcastingList5: Any = BroadcastingList1
BroadcastingList6: Any = BroadcastingList1
