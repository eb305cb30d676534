"""Annotations that TorchScript reads."""


class _BroadcastingList:
    """Subscripted by a type, as in BroadcastingList2[int]: a list of it, or one for all places."""

    def __getitem__(self, types):
        return None


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingList4 = _BroadcastingList()
BroadcastingList5 = BroadcastingList6 = _BroadcastingList()
