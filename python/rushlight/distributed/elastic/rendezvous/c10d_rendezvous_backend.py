"""What machines know of each other, in a store."""

from __future__ import annotations

import base64
import binascii
import datetime
import tempfile

from rushlight.distributed._errors import DistError
from rushlight.distributed._stores import FileStore
from rushlight.distributed._tcp_store import TCPStore
from rushlight.distributed.elastic.rendezvous.api import (
    RendezvousConnectionError,
    RendezvousError,
    RendezvousParameters,
    RendezvousStateError,
)
from rushlight.distributed.elastic.rendezvous.dynamic_rendezvous import RendezvousBackend
from rushlight.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.distributed import Store

DEFAULT_PORT = 29400
_NOTHING = b"-"  # no base64: a key must have a value before it can be read


class C10dRendezvousBackend(RendezvousBackend):
    """Keeps the state in a store.

    Args:
        store: the store.
        run_id: the run's name.
    """

    def __init__(self, store: Store, run_id: str) -> None:
        if not run_id:
            raise ValueError("The run id must be a non-empty string.")
        self._store, self._key = store, f"torch.rendezvous.{run_id}"
        self._swap(b"", _NOTHING)

    def _swap(self, expected, desired):
        return self._call("compare_set", self._key, expected.decode(), desired.decode())

    def _call(self, operation, *args):
        try:
            return getattr(self._store, operation)(*args)
        except (DistError, OSError) as error:
            raise RendezvousConnectionError(f"rendezvous: {operation} failed: {error}") from error

    @property
    def name(self) -> str:
        """ "c10d" """
        return "c10d"

    def get_state(self) -> tuple[bytes, Any] | None:
        """The state and its token."""
        return _decoded(self._call("get", self._key))

    def set_state(self, state: bytes, token: Any = None) -> tuple[bytes, Any, bool] | None:
        """Change the state, if the token is that of the present one."""
        if token and not isinstance(token, bytes):  # of nobody's state
            found = self.get_state()
            return None if found is None else (*found, False)
        written = base64.b64encode(state)
        now = self._swap(token or _NOTHING, written)
        found = _decoded(now)
        return None if found is None else (*found, now == written)


def _decoded(data):
    if data == _NOTHING:
        return None
    try:
        return base64.b64decode(data, validate=True), data
    except binascii.Error as error:
        raise RendezvousStateError(f"rendezvous: the state cannot be read: {error}") from error


def create_backend(params: RendezvousParameters) -> tuple[C10dRendezvousBackend, Store]:
    """A backend and its store: parameters may have `store_type`, "tcp" or "file", `is_host` and
    `read_timeout` in seconds.
    """
    kind = params.get("store_type", "tcp").strip().lower()
    if kind == "file":
        store = _file_store(params.endpoint)
    elif kind == "tcp":
        store = _tcp_store(params)
    else:
        raise ValueError(f"rendezvous: expected store_type 'tcp' or 'file', got {kind!r}")
    return C10dRendezvousBackend(store, params.run_id), store


def _file_store(path):
    try:
        path = path or tempfile.mkstemp()[1]
    except OSError as error:
        raise RendezvousError(f"rendezvous: no file can be made for the store: {error}") from error
    try:
        return FileStore(path)
    except (DistError, OSError, ValueError, RuntimeError) as error:
        raise RendezvousConnectionError(f"rendezvous at {path}: {error}") from error


def _tcp_store(params):
    from rushlight.distributed.launcher.api import is_this_machine

    host, port = parse_rendezvous_endpoint(params.endpoint, DEFAULT_PORT)
    told, seconds = params.get_as_bool("is_host"), params.get_as_int("read_timeout", 60)
    if seconds <= 0:
        raise ValueError("The read timeout must be a positive integer.")
    is_host = is_this_machine(host) if told is None else told
    timeout = datetime.timedelta(seconds=seconds)
    # Of several processes of a machine one serves the store.
    for serves in (True, False) if is_host else (False,):
        try:
            return TCPStore(
                host, port, is_master=serves, timeout=timeout, wait_for_workers=False,
                multi_tenant=True,
            )  # fmt: skip
        except (DistError, OSError) as error:
            if not serves or told:
                raise RendezvousConnectionError(f"rendezvous at {host}:{port}: {error}") from error
    raise AssertionError("unreachable")


__all__ = ["DEFAULT_PORT", "C10dRendezvousBackend", "create_backend"]
