"""How messages travel between the loader and its worker processes.

Messages are pickled where they are made, not in a background thread, so that an object that cannot
be pickled is an error of the worker that made it and reaches the user. `ForkingPickler` knows the
reductions that a module has registered for sharing objects between processes.

The bytes of tensors do not go through the pipe: they lie in shared memory. A worker has blocks of
it, which the main process maps when it first hears of them, and uses them again when the tensors in
them are gone on both sides: fresh memory costs more than the batch that is written to it. A tensor
that the dataset has put into shared memory itself is passed on as it is, by its file descriptor.
What is small is copied with the message.
"""

from __future__ import annotations

import io
import os
import pickle
import socket
import struct
from collections import namedtuple
from collections.abc import Sequence
from functools import partial
from multiprocessing.reduction import ForkingPickler
from typing import Any

from rushlight import Tensor, UntypedStorage
from rushlight.storage import tensor_on
from rushlight.types import _dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

# From this size on a block is cheaper than copies through a pipe.
_LEAST_BYTES = 32 * 1024
_AT_ONCE = 128  # descriptors in one message of the socket; the system allows 253
_PAGE = 4096
_SPARE_BLOCKS = 8  # how many blocks a worker keeps while nobody uses them
_LENGTH = struct.Struct("<I")

# The bytes at the end of a block that say who uses it, counted from there.
_MAIN, _WORKER, _FLAGS = 1, 2, 64

# A pickled message, with `storages` whose descriptors go with it.
Parcel: type[Any] = namedtuple("Parcel", ["data", "storages"])
# What follows a pickled message: the numbers and sizes of blocks that are new, the sizes of other
# storages that come with it, and the numbers of blocks that will not be used again.
Attached: type[Any] = namedtuple("Attached", ["blocks", "sizes", "dropped"])


class Blocks:
    """The shared memory in which a worker sends its batches."""

    new: list[Any]
    dropped: list[Any]

    def __init__(self) -> None:
        self._blocks = {}  # by number
        self._numbers = {}  # of the block at an address
        self._count = 0
        self.new, self.dropped = [], []

    def lease(self, nbytes: Any) -> Any:
        """A storage of this size in a block that nobody uses."""
        fitting = None
        for block in self._free():
            capacity = block.nbytes() - _FLAGS
            # A much larger one would keep the memory from those that need it.
            if nbytes <= capacity <= 2 * nbytes + _PAGE:
                if fitting is None or block.nbytes() < fitting.nbytes():
                    fitting = block
        return (fitting or self._new(nbytes))._lease(nbytes, _WORKER)

    def number(self, storage: Any) -> Any:
        """The number of the block that `storage` lies in, now given to the main process, or None.

        None too if the main process still has what was sent in it before.
        """
        number = self._numbers.get(storage.data_ptr())
        if number is None or self._blocks[number][-_MAIN]:
            return None
        self._blocks[number][-_MAIN] = 1
        return number

    def take_back(self, number: Any) -> None:
        """The block was not sent after all."""
        self._blocks[number][-_MAIN] = 0

    def _free(self):
        return [b for b in self._blocks.values() if not b[-_MAIN] and not b[-_WORKER]]

    def _new(self, nbytes):
        for block in self._free()[_SPARE_BLOCKS:]:
            number = self._numbers.pop(block.data_ptr())
            del self._blocks[number]
            self.dropped.append(number)
        size = -(-(nbytes + _FLAGS) // _PAGE) * _PAGE
        block = UntypedStorage._new_shared(size)
        self._blocks[self._count] = block
        self._numbers[block.data_ptr()] = self._count
        self.new.append((self._count, block))
        self._count += 1
        return block

    def take_news(self) -> Any:
        """What the main process has not been told yet: (new blocks by number, dropped numbers)."""
        news = self.new, self.dropped
        self.new, self.dropped = [], []
        return news


_blocks = None  # of this process, if it is a worker


def become_worker() -> None:
    """Note that this process makes batches for another."""
    global _blocks
    _blocks = Blocks()


def room_for(size: Sequence[int], dtype: _dtype | None) -> Any:
    """A tensor for a batch, in the memory in which it will travel; None if it need not."""
    nbytes = size.numel() * dtype.itemsize
    if _blocks is None or nbytes < _LEAST_BYTES:
        return None
    return tensor_on(_blocks.lease(nbytes), dtype, size)


class _Pickler(ForkingPickler):
    def __init__(self, file: Any) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.passed_on = []  # storages that were in shared memory before
        self.numbers = []  # of the blocks in which others lie

    def reducer_override(self, value: Any) -> Any:
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
        is_file = storage._shared_descriptor() >= 0
        if storage.device.type == "meta" or not (is_file or storage.nbytes() >= _LEAST_BYTES):
            return storage.__reduce__()
        if is_file:
            self.passed_on.append(storage)
            return _passed_on, (len(self.passed_on) - 1,)
        if _blocks is None:
            return storage.__reduce__()
        number = _blocks.number(storage)
        if number is None:
            copy = _blocks.lease(storage.nbytes())
            memoryview(copy)[:] = memoryview(storage)
            number = _blocks.number(copy)
        self.numbers.append(number)
        return _in_block, (number, storage.nbytes())


def pack(message: Any) -> Any:
    """Return `message` as a `Parcel`."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    try:
        pickler.dump(message)
    except BaseException:
        for number in pickler.numbers:
            _blocks.take_back(number)
        raise
    new, dropped = ([], []) if _blocks is None else _blocks.take_news()
    blocks = [(number, block.nbytes()) for number, block in new]
    storages = [block for _, block in new] + pickler.passed_on
    sizes = [storage.nbytes() for storage in pickler.passed_on]
    attached = pickle.dumps(Attached(blocks, sizes, dropped)) if storages or dropped else b""
    file.write(attached)
    file.write(_LENGTH.pack(len(attached)))
    return Parcel(file.getbuffer(), storages)


def send(connection: Any, parcel: Any) -> None:
    """Send what `pack` made through an end of a duplex pipe."""
    connection.send_bytes(parcel.data)
    if not parcel.storages:
        return
    with _socket(connection) as channel:
        for start in range(0, len(parcel.storages), _AT_ONCE):
            part = parcel.storages[start : start + _AT_ONCE]
            socket.send_fds(channel, [b"."], [storage._shared_descriptor() for storage in part])


class Receiver:
    """Takes messages from an end of a duplex pipe, and knows the blocks of the other end."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._blocks = {}

    def receive(self) -> Any:
        """Wait for a message and return it; EOFError if the other end has gone."""
        data = self._connection.recv_bytes()
        (length,) = _LENGTH.unpack_from(data, len(data) - _LENGTH.size)
        passed_on = []
        if length:
            attached = pickle.loads(data[-length - _LENGTH.size :])
            for number in attached.dropped:
                self._blocks.pop(number, None)
            sizes = [size for _, size in attached.blocks] + attached.sizes
            storages = _receive_storages(self._connection, sizes)
            for (number, _), block in zip(attached.blocks, storages):
                self._blocks[number] = block
            passed_on = storages[len(attached.blocks) :]
        return _Unpickler(data, self._blocks, passed_on).load()


class _Unpickler(pickle.Unpickler):
    """Finds the storages that came with a message, or lie in blocks."""

    def __init__(self, data: Any, blocks: dict[Any, Any], passed_on: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(data))
        self._blocks, self._passed_on = blocks, passed_on

    def find_class(self, module: Module, name: str) -> Any:
        # Nothing that holds the unpickler: its memo would keep itself and the batch alive.
        if module == __name__ and name == "_in_block":
            return partial(_lease, self._blocks)
        if module == __name__ and name == "_passed_on":
            return self._passed_on.__getitem__
        return super().find_class(module, name)


def _lease(blocks, number, nbytes):
    return blocks[number]._lease(nbytes, _MAIN)


def _in_block(number, nbytes):
    """Stands in a message for a storage in a block."""
    raise NotImplementedError("a batch on its way cannot be unpickled elsewhere")


def _passed_on(number):
    """Stands in a message for a storage that comes with it."""
    raise NotImplementedError("a batch on its way cannot be unpickled elsewhere")


def _receive_storages(connection, sizes):
    storages = []
    with _socket(connection) as channel:
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


def _socket(connection):
    return socket.socket(fileno=os.dup(connection.fileno()))
