"""How messages travel between the loader and its worker processes.

Messages are pickled where they are made, not in a background thread, so that an object that cannot
be pickled is an error of the worker that made it and reaches the user. `ForkingPickler` knows the
reductions that a module has registered for sharing objects between processes.

The bytes of tensors do not go through the pipe: they lie in shared memory, which the receiver maps,
and the pipe carries its file descriptors. So they survive a sender that ends, and end with the last
who maps them. What is small is copied with the message, which costs less than a mapping.
"""

import io
import os
import pickle
import socket
import struct
import threading
from collections import namedtuple
from multiprocessing.reduction import ForkingPickler

from rushlight import Tensor, UntypedStorage
from rushlight.storage import empty_shared

# From this size on a mapping is cheaper than two copies through a pipe.
_MAPPED_BYTES = 32 * 1024
_AT_ONCE = 128  # descriptors in one message of the socket; the system allows 253
_COUNT = struct.Struct("<I")

# A pickled message and the storages whose descriptors go with it.
Parcel = namedtuple("Parcel", ["data", "storages"])

_arriving = threading.local()  # .storages: those of the message that is being unpickled
_is_worker = False


def become_worker():
    """Note that this process makes batches for another."""
    global _is_worker
    _is_worker = True


def room_for(size, dtype):
    """A tensor for a batch, in the memory in which it will travel; None if it need not."""
    if not _is_worker or size.numel() * dtype.itemsize < _MAPPED_BYTES:
        return None
    return empty_shared(size, dtype)


class _Pickler(ForkingPickler):
    def __init__(self, file):
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.storages = []
        self._numbers = {}

    def reducer_override(self, value):
        if isinstance(value, UntypedStorage):
            return self._reduce_storage(value)
        if isinstance(value, Tensor):
            return self._reduce_tensor(value)
        return NotImplemented

    def _reduce_tensor(self, tensor):
        if tensor.requires_grad and not tensor.is_leaf:
            raise RuntimeError(
                "a tensor with history (requires_grad, not a leaf) cannot be sent to another"
                " process; send tensor.detach() if its values are meant"
            )
        if type(tensor) is not Tensor or tensor.is_meta or tensor.is_shared():
            return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        # Of a window on something larger only what it shows.
        shown = tensor.numel() * tensor.element_size()
        if 2 * shown < tensor.untyped_storage().nbytes():
            requires_grad = tensor.requires_grad
            tensor = tensor.detach().clone().requires_grad_(requires_grad)
        return tensor.__reduce_ex__(pickle.HIGHEST_PROTOCOL)

    def _reduce_storage(self, storage):
        is_shared = storage.is_shared() and storage._shared_descriptor() >= 0
        if storage.device.type == "meta" or not (is_shared or storage.nbytes() >= _MAPPED_BYTES):
            return storage.__reduce__()
        number = self._numbers.get(id(storage))
        if number is None:
            number = self._numbers[id(storage)] = len(self.storages)
            if not is_shared:
                copy = UntypedStorage._new_shared(storage.nbytes())
                memoryview(copy)[:] = memoryview(storage)
                storage = copy
            self.storages.append(storage)
        return _arrived, (number,)


def _arrived(number):
    return _arriving.storages[number]


def pack(message):
    """Return `message` as a `Parcel`."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(message)
    sizes = [storage.nbytes() for storage in pickler.storages]
    file.write(struct.pack(f"<{len(sizes)}q", *sizes))
    file.write(_COUNT.pack(len(sizes)))
    return Parcel(file.getbuffer(), pickler.storages)


def send(connection, parcel):
    """Send what `pack` made through an end of a duplex pipe."""
    connection.send_bytes(parcel.data)
    if not parcel.storages:
        return
    with socket.socket(fileno=_duplicate(connection)) as channel:
        for start in range(0, len(parcel.storages), _AT_ONCE):
            part = parcel.storages[start : start + _AT_ONCE]
            socket.send_fds(channel, [b"."], [storage._shared_descriptor() for storage in part])


def receive(connection):
    """Wait for a message and return it; EOFError if the other end has gone."""
    data = connection.recv_bytes()
    (count,) = _COUNT.unpack_from(data, len(data) - _COUNT.size)
    storages = []
    if count:
        sizes = struct.unpack_from(f"<{count}q", data, len(data) - _COUNT.size - 8 * count)
        storages = _receive_storages(connection, sizes)
    _arriving.storages = storages
    try:
        return pickle.loads(data)
    finally:
        del _arriving.storages


def _receive_storages(connection, sizes):
    storages = []
    with socket.socket(fileno=_duplicate(connection)) as channel:
        while len(storages) < len(sizes):
            expected = min(_AT_ONCE, len(sizes) - len(storages))
            byte, descriptors, *_ = socket.recv_fds(channel, 1, expected)
            if not byte:
                raise EOFError("the other end has gone")
            for descriptor in descriptors:
                size = sizes[len(storages)]
                storages.append(UntypedStorage._from_descriptor(descriptor, size, False))
            if len(descriptors) < expected:
                raise OSError(
                    "DataLoader: this process has no file descriptors left for the tensors of a"
                    " batch; `ulimit -n` raises their number"
                )
    return storages


def _duplicate(connection):
    return os.dup(connection.fileno())
