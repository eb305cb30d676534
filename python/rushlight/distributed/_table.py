"""The contents of a store, and what requests do with them: the same for all kinds of store."""

from __future__ import annotations

import enum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Request(enum.IntEnum):
    """What a client asks of a store; the numbers go over the wire and into files."""

    SET = 1
    GET = 2
    ADD = 3
    COMPARE_SET = 4
    WAIT = 5
    CHECK = 6
    DELETE = 7
    NUM_KEYS = 8
    APPEND = 9
    MULTI_GET = 10
    MULTI_SET = 11
    QUEUE_PUSH = 12
    QUEUE_POP = 13
    QUEUE_LEN = 14
    LIST_KEYS = 15
    OPEN_WORLD = 16
    JOIN_WORLD = 17


#: Requests that change something: those that a file store writes down.
CHANGES = frozenset(
    {
        Request.SET,
        Request.ADD,
        Request.COMPARE_SET,
        Request.DELETE,
        Request.APPEND,
        Request.MULTI_SET,
        Request.QUEUE_PUSH,
        Request.QUEUE_POP,
    }
)


class Table:
    """Keys with values, and queues. All are bytes."""

    def __init__(self) -> None:
        self.values = {}
        self.queues = {}

    def execute(self, request: Any, fields: Any) -> Any:
        """Do what is asked: the reply, a list of bytes; None if keys are still missing."""
        return _DO[request](self, *fields)

    def _set(self, key, value):
        self.values[key] = value
        return []

    def _get(self, key):
        return [self.values[key]] if key in self.values else None

    def _add(self, key, amount):
        value = int(self.values.get(key, b"0")) + int(amount)
        self.values[key] = str(value).encode()
        return [self.values[key]]

    def _compare_set(self, key, expected, desired):
        present = self.values.get(key)
        if present == expected or (present is None and not expected):
            self.values[key] = desired
            return [desired]
        return [expected if present is None else present]

    def _wait(self, *keys):
        return [] if all(self._has(key) for key in keys) else None

    def _has(self, key):
        return key in self.values or bool(self.queues.get(key))

    def _check(self, *keys):
        return [b"1" if all(self._has(key) for key in keys) else b"0"]

    def _delete(self, key):
        return [b"0" if self.values.pop(key, None) is None else b"1"]

    def _num_keys(self):
        return [str(len(self.values)).encode()]

    def _append(self, key, value):
        self.values[key] = self.values.get(key, b"") + value
        return []

    def _multi_get(self, *keys):
        if not all(key in self.values for key in keys):
            return None
        return [self.values[key] for key in keys]

    def _multi_set(self, *keys_and_values):
        self.values.update(zip(keys_and_values[::2], keys_and_values[1::2], strict=True))
        return []

    def _queue_push(self, key, value):
        self.queues.setdefault(key, []).append(value)
        return []

    def _queue_pop(self, key):
        waiting = self.queues.get(key)
        if not waiting:
            return None
        value = waiting.pop(0)
        if not waiting:
            del self.queues[key]
        return [value]

    def _queue_len(self, key):
        return [str(len(self.queues.get(key, ()))).encode()]

    def _list_keys(self):
        return sorted(self.values)


_DO = {
    Request.SET: Table._set,
    Request.GET: Table._get,
    Request.ADD: Table._add,
    Request.COMPARE_SET: Table._compare_set,
    Request.WAIT: Table._wait,
    Request.CHECK: Table._check,
    Request.DELETE: Table._delete,
    Request.NUM_KEYS: Table._num_keys,
    Request.APPEND: Table._append,
    Request.MULTI_GET: Table._multi_get,
    Request.MULTI_SET: Table._multi_set,
    Request.QUEUE_PUSH: Table._queue_push,
    Request.QUEUE_POP: Table._queue_pop,
    Request.QUEUE_LEN: Table._queue_len,
    Request.LIST_KEYS: Table._list_keys,
}
