"""How tensors of GPUs travel between processes: the receiver opens the memory of the sender.

What is sent is the driver's handle of the memory, that of an event behind the work that writes it,
and a byte in shared memory, which the receiver clears when the last of its tensors there is gone.
Until then the sender keeps the memory, whatever becomes of its own tensors.
"""

from __future__ import annotations

import os
import threading

import rushlight
from rushlight import UntypedStorage, cuda
from rushlight._C import _cuda
from rushlight.multiprocessing.descriptors import carrier

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.multiprocessing.descriptors import Offer

_FLAGS = 4096  # in one file: what is on its way at a time seldom needs a second


class _Sent:
    """The memory that other processes have from this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forget()
        os.register_at_fork(after_in_child=self._after_fork)

    def _forget(self):
        self._files: list[Any] = []  # of flags: a storage, and a view of it
        self._kept: dict[tuple[int, int], Any] = {}  # (file, flag) -> storage and event
        self._free: list[tuple[int, int]] = []

    def _after_fork(self):
        self._lock = threading.Lock()
        self._forget()

    def keep(self, storage: Any, event: Any) -> tuple[int, int]:
        """Hold a storage until its flag is cleared: the number of a file and of its byte."""
        with self._lock:
            self._collect()
            if not self._free:
                file = UntypedStorage._new_shared(_FLAGS)
                view = rushlight._C._tensor_on_storage(file, rushlight.uint8, 0, (_FLAGS,), (1,))
                self._free = [(len(self._files), i) for i in range(_FLAGS)]
                self._files.append((file, view.zero_()))
            place = self._free.pop()
            self._files[place[0]][1][place[1]] = 1
            self._kept[place] = storage, event
            return place

    def file(self, place: tuple[int, int]) -> Any:
        """The shared storage that a flag is in."""
        return self._files[place[0]][0]

    def own(self, place: tuple[int, int]) -> Any:
        """The storage itself, for a receiver that is the sender; it is let go of."""
        with self._lock:
            self._free.append(place)
            return self._kept.pop(place)[0]

    def _collect(self):
        gone = [place for place in self._kept if not self._files[place[0]][1][place[1]].item()]
        for place in gone:
            del self._kept[place]
        self._free += gone

    def collect(self) -> None:
        """Let go of what receivers have let go of."""
        with self._lock:
            self._collect()

    def count(self) -> int:
        """How many storages are held for receivers."""
        with self._lock:
            return len(self._kept)


sent: _Sent = _Sent()


def reduce_storage(storage: Any) -> tuple[Any, ...]:
    """The recipe by which another process opens the memory of a GPU's storage.

    Memory that came from another process is copied: its owner does not know of a third.
    """
    index = storage.device.index
    if storage.nbytes() == 0:
        return rebuild_empty, (index,)
    exported = _cuda.ipc_export(storage)
    if exported is None:
        storage = storage.clone()
        exported = _cuda.ipc_export(storage)
    event = cuda.Event(interprocess=True)
    event.record(cuda.current_stream(index))
    place = sent.keep(storage, event)
    flags = carrier(sent.file(place)._shared_descriptor())
    about = (os.getpid(), place, index, *exported, storage.nbytes(), event.ipc_handle())
    return rebuild_storage, (flags, *about)


def rebuild_empty(index: int) -> Any:
    """A storage without bytes."""
    return UntypedStorage(0, device=rushlight.device("cuda", index))


def rebuild_storage(
    flags: Offer,
    process: int,
    place: tuple[int, int],
    index: int,
    handle: bytes,
    offset: int,
    nbytes: int,
    event: bytes,
) -> Any:
    """The storage, on the memory of the process that sent it; behind the work that wrote it."""
    descriptor = flags.detach()
    if process == os.getpid():
        os.close(descriptor)
        return sent.own(place)
    shared = UntypedStorage._from_descriptor(descriptor, _FLAGS, False)
    storage = _cuda.ipc_open(handle, index, offset, nbytes, shared, place[1])
    cuda.Event.from_ipc_handle(index, event).wait(cuda.current_stream(index))
    return storage
