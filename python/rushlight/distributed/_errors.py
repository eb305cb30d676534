"""What goes wrong between processes."""

from rushlight._set_module import set_module


class DistError(RuntimeError):
    """Something between processes failed."""


class DistBackendError(DistError):
    """A collective operation failed: a member died, is missing, or called another one."""


class DistNetworkError(DistError):
    """A connection could not be made, or was lost."""


class DistStoreError(DistError):
    """A store did not have a key in time, or refused a request."""


class QueueEmptyError(DistStoreError):
    """`Store.queue_pop` found nothing and was not to wait."""


set_module(
    "rushlight.distributed",
    DistError,
    DistBackendError,
    DistNetworkError,
    DistStoreError,
    QueueEmptyError,
)
