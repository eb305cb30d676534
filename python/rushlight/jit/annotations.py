"""Annotations that TorchScript reads, and those of typing that programs import from here."""

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: F401, UP035


class _BroadcastingList:
    """Subscripted by a type, as in BroadcastingList2[int]: a list of it, or one for all places."""

    def __getitem__(self, types):
        return None


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingList4 = _BroadcastingList()
BroadcastingList5 = BroadcastingList6 = _BroadcastingList()
