"""A worker's main function, with what a control plane may ask of it."""

from __future__ import annotations

import contextlib
import os

from rushlight.distributed.elastic.multiprocessing.errors import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@record
@contextlib.contextmanager
def worker_main() -> Iterator[None]:
    """A context, or decorator, of a worker's main function.

    Raises:
        NotImplementedError: TORCH_WORKER_SERVER_SOCKET asks for a server in the worker.
    """
    if os.environ.get("TORCH_WORKER_SERVER_SOCKET") is not None:
        raise NotImplementedError(
            "worker_main: TORCH_WORKER_SERVER_SOCKET asks for a server, and there is none"
        )
    yield


__all__ = ["worker_main"]
