"""Stores: keys with values that several processes see."""

from __future__ import annotations

import datetime
import fcntl
import os
import struct
import threading
import time

from rushlight._set_module import set_module
from rushlight.distributed._errors import DistStoreError, QueueEmptyError
from rushlight.distributed._table import CHANGES, Request, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Any

    from typing_extensions import Self

DEFAULT_TIMEOUT = datetime.timedelta(seconds=300)


def seconds_of(timeout: timedelta | None) -> Any:
    """A time-out as a number of seconds, which torch has as a timedelta."""
    if isinstance(timeout, datetime.timedelta):
        return timeout.total_seconds()
    return float(timeout)


def _bytes(value):
    return value.encode() if isinstance(value, str) else bytes(value)


class Store:
    """Keys with values that several processes see; the base of all stores.

    Values are given as str or bytes and come back as bytes. A program's own store derives from this
    class and defines `set`, `get`, `add`, `wait` and the like. Where it does not, `append`,
    `multi_get` and `multi_set` are made of `compare_set`, `get` and `set`.
    """

    def __init__(self) -> None:
        self._timeout = DEFAULT_TIMEOUT

    @property
    def timeout(self) -> Any:
        """How long `get` and `wait` wait for keys."""
        return self._timeout

    def set_timeout(self, timeout: timedelta | None) -> None:
        """Set how long `get` and `wait` wait, a timedelta."""
        self._timeout = timeout

    def _execute(self, request, fields, timeout=None):
        name = request.name.lower()
        raise NotImplementedError(f"{type(self).__name__}: {name}: Not implemented.")

    def _is_own(self):
        """Is it a program's own, whose methods are all there is?"""
        return type(self)._execute is Store._execute

    def _waiting(self, request, keys, timeout=None):
        seconds = seconds_of(self._timeout if timeout is None else timeout)
        reply = self._execute(request, [_bytes(key) for key in keys], seconds)
        if reply is None:
            raise DistStoreError(
                f"{request.name.lower()}: wait timeout after {round(seconds * 1000)}ms, "
                f"keys: {', '.join('/' + key for key in keys)}"
            )
        return reply

    def set(self, key: str, value: Any) -> None:
        """Set the value of a key."""
        self._execute(Request.SET, [_bytes(key), _bytes(value)])

    def get(self, key: str) -> Any:
        """The value of a key, as bytes; waits until there is one.

        Raises:
            DistStoreError: there is none before the time-out.
        """
        return self._waiting(Request.GET, [key])[0]

    def add(self, key: str, amount: Any) -> int:
        """Add a number to that of a key, which starts as 0, and return the sum."""
        return int(self._execute(Request.ADD, [_bytes(key), str(int(amount)).encode()])[0])

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> Any:
        """Set a key that has the expected value, or is not there if that is empty; return what it
        has then.
        """
        fields = [_bytes(key), _bytes(expected_value), _bytes(desired_value)]
        return self._execute(Request.COMPARE_SET, fields)[0]

    def wait(self, keys: Any, timeout: timedelta | None = None) -> None:
        """Wait until all keys are there.

        Raises:
            DistStoreError: they are not before the time-out.
        """
        self._waiting(Request.WAIT, list(keys), timeout)

    def check(self, keys: Any) -> bool:
        """Are all keys there?"""
        return self._execute(Request.CHECK, [_bytes(key) for key in keys])[0] == b"1"

    def delete_key(self, key: str) -> bool:
        """Delete a key; was it there?"""
        return self._execute(Request.DELETE, [_bytes(key)])[0] == b"1"

    def num_keys(self) -> int:
        """How many keys there are."""
        return int(self._execute(Request.NUM_KEYS, [])[0])

    def append(self, key: str, value: Any) -> None:
        """Add to the end of a key's value."""
        if not self._is_own():
            self._execute(Request.APPEND, [_bytes(key), _bytes(value)])
            return
        before, after = b"", _bytes(value)
        while (found := _bytes(self.compare_set(key, before, after))) != after:
            before, after = found, found + _bytes(value)

    def multi_get(self, keys: Any) -> Any:
        """The values of several keys; waits until all are there."""
        if self._is_own():
            return [self.get(key) for key in keys]
        return self._waiting(Request.MULTI_GET, list(keys))

    def multi_set(self, keys: Any, values: Any) -> None:
        """Set several keys at once."""
        if len(keys) != len(values):
            raise ValueError(f"multi_set: {len(keys)} keys and {len(values)} values")
        if self._is_own():
            for key, value in zip(keys, values):
                self.set(key, value)
            return
        pairs = [_bytes(part) for pair in zip(keys, values) for part in pair]
        self._execute(Request.MULTI_SET, pairs)

    def queue_push(self, key: str, value: Any) -> None:
        """Add a value to the end of a queue."""
        self._execute(Request.QUEUE_PUSH, [_bytes(key), _bytes(value)])

    def queue_pop(self, key: str, block: bool = True) -> Any:
        """Take the first value of a queue: wait for one, or raise QueueEmptyError."""
        if block:
            return self._waiting(Request.QUEUE_POP, [key])[0]
        reply = self._execute(Request.QUEUE_POP, [_bytes(key)], 0.0)
        if reply is None:
            raise QueueEmptyError(f"queue_pop: queue {key} is empty")
        return reply[0]

    def queue_len(self, key: str) -> int:
        """How many values a queue has."""
        return int(self._execute(Request.QUEUE_LEN, [_bytes(key)])[0])

    def list_keys(self) -> Any:
        """All keys."""
        return [key.decode() for key in self._execute(Request.LIST_KEYS, [])]

    def barrier(self, key: str, world_size: int, timeout: timedelta | None = None) -> None:
        """Wait until `world_size` processes have come here with the same key.

        Args:
            key: for this barrier alone: who comes later with it does not wait.
            world_size: how many come.
            timeout: a timedelta; that of the store by default.

        Raises:
            DistStoreError: the others did not come before the time-out.
        """
        if self.add(f"{key}/num_members", 1) == world_size:
            self.set(f"{key}/last_member", "1")
        keys = [f"{key}/last_member"]
        self.wait(keys) if timeout is None else self.wait(keys, timeout)

    def has_extended_api(self) -> bool:
        """Are there append, multi_get and multi_set that are one step each?"""
        return not self._is_own()

    def clone(self) -> Self:
        """Another object for the same store, for another thread."""
        return self


class HashStore(Store):
    """A store in the memory of this process, for its threads."""

    def __init__(self) -> None:
        super().__init__()
        self._table = Table()
        self._changed = threading.Condition()

    def _execute(self, request, fields, timeout=None):
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while True:
                reply = self._table.execute(request, fields)
                if reply is not None:
                    if request in CHANGES:
                        self._changed.notify_all()
                    return reply
                left = 0.0 if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    return None
                self._changed.wait(left)


class FileStore(Store):
    """A store in a file that all processes can write to, on one machine or a shared file system.

    Args:
        file_name: the file, which must not hold an older store.
        world_size: how many processes use it; the last that closes its store deletes the file. -1:
            not known, and the file stays.
    """

    def __init__(self, file_name: Any, world_size: int = -1) -> None:
        super().__init__()
        self._path = os.path.abspath(file_name)
        self._world_size = -1 if world_size is None else world_size
        self._table, self._position = Table(), 0
        self._lock = threading.Lock()
        self._open = True
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        if self._world_size > 0:
            self.add("init/opened", 1)

    @property
    def path(self) -> Any:
        """The path of the file."""
        return self._path

    def _execute(self, request, fields, timeout=None):
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.001
        while True:
            reply = self._try(request, fields)
            if reply is not None:
                return reply
            if deadline is None or time.monotonic() >= deadline:
                return None
            time.sleep(pause)
            pause = min(2 * pause, 0.05)

    def _try(self, request, fields):
        # The file is a list of changes: who reads all of them has the table.
        with self._lock, open(self._path, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(self._position)
            written = file.read()
            self._position += len(written)
            for old_request, old_fields in _records(written):
                self._table.execute(old_request, old_fields)
            reply = self._table.execute(request, fields)
            if reply is not None and request in CHANGES:
                record = _record(request, fields)
                file.write(record)
                self._position += len(record)
            return reply

    def close(self) -> None:
        """Leave the store; the last of `world_size` processes deletes the file."""
        if self._open:
            self._open = False
            if self._world_size > 0 and os.path.exists(self._path):
                closed = self.add("init/closed", 1)
                if closed >= self._world_size and closed == int(self.get("init/opened")):
                    os.unlink(self._path)

    def __del__(self) -> None:
        if getattr(self, "_open", False):
            self.close()


def _record(request, fields):
    body = b"".join(struct.pack("<I", len(field)) + field for field in fields)
    return struct.pack("<BI", request, len(fields)) + body


def _records(written):
    at = 0
    while at < len(written):
        request, count = struct.unpack_from("<BI", written, at)
        at += 5
        fields = []
        for _ in range(count):
            (length,) = struct.unpack_from("<I", written, at)
            fields.append(written[at + 4 : at + 4 + length])
            at += 4 + length
        yield Request(request), fields


class PrefixStore(Store):
    """A part of another store: its keys begin with a prefix and a slash there.

    Args:
        prefix: the prefix.
        store: the other store.
    """

    def __init__(self, prefix: Any, store: Any) -> None:
        super().__init__()
        if not isinstance(store, Store):
            kind = ValueError if store is None else TypeError
            raise kind(f"PrefixStore: expected a store, got {type(store).__name__}")
        self.prefix = prefix
        self._store = store

    @property
    def underlying_store(self) -> Any:
        """The store of which this is a part."""
        return self._store

    @property
    def _underlying_non_prefix_store(self) -> Any:
        store = self._store
        return store._underlying_non_prefix_store if isinstance(store, PrefixStore) else store

    def has_extended_api(self) -> bool:
        """Has the other store?"""
        return self._store.has_extended_api()

    @property
    def timeout(self) -> Any:
        """That of the other store."""
        return self._store.timeout

    def set_timeout(self, timeout: timedelta | None) -> None:
        """Set that of the other store."""
        self._store.set_timeout(timeout)

    def _key(self, key):
        return f"{self.prefix}/{key.decode() if isinstance(key, bytes) else key}"

    def set(self, key: str, value: Any) -> None:
        """Set the value of a key."""
        self._store.set(self._key(key), _bytes(value))

    def get(self, key: str) -> Any:
        """The value of a key, as bytes; waits until there is one."""
        return self._store.get(self._key(key))

    def add(self, key: str, amount: Any) -> Any:
        """Add a number to that of a key and return the sum."""
        return self._store.add(self._key(key), amount)

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> Any:
        """Set a key that has the expected value; return what it has then."""
        values = _bytes(expected_value), _bytes(desired_value)
        return self._store.compare_set(self._key(key), *values)

    def wait(self, keys: Any, timeout: timedelta | None = None) -> None:
        """Wait until all keys are there."""
        keys = [self._key(key) for key in keys]
        self._store.wait(keys) if timeout is None else self._store.wait(keys, timeout)

    def check(self, keys: Any) -> Any:
        """Are all keys there?"""
        return self._store.check([self._key(key) for key in keys])

    def delete_key(self, key: str) -> Any:
        """Delete a key; was it there?"""
        return self._store.delete_key(self._key(key))

    def num_keys(self) -> Any:
        """How many keys the other store has."""
        return self._store.num_keys()

    def append(self, key: str, value: Any) -> None:
        """Add to the end of a key's value."""
        self._store.append(self._key(key), _bytes(value))

    def multi_get(self, keys: Any) -> Any:
        """The values of several keys; waits until all are there."""
        return self._store.multi_get([self._key(key) for key in keys])

    def multi_set(self, keys: Any, values: Any) -> None:
        """Set several keys at once."""
        self._store.multi_set([self._key(key) for key in keys], list(map(_bytes, values)))

    def queue_push(self, key: str, value: Any) -> None:
        """Add a value to the end of a queue."""
        self._store.queue_push(self._key(key), value)

    def queue_pop(self, key: str, block: bool = True) -> Any:
        """Take the first value of a queue."""
        return self._store.queue_pop(self._key(key), block)

    def queue_len(self, key: str) -> Any:
        """How many values a queue has."""
        return self._store.queue_len(self._key(key))

    def list_keys(self) -> Any:
        """The keys with this prefix, without it."""
        start = self.prefix + "/"
        keys = self._store.list_keys()
        return [key.removeprefix(start) for key in keys if key.startswith(start)]

    def clone(self) -> Any:
        """Another object for the same store."""
        return PrefixStore(self.prefix, self._store.clone())


set_module("rushlight.distributed", Store, HashStore, FileStore, PrefixStore)
