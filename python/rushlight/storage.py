"""Storages: the memory that tensors share, as bytes and as elements."""

import rushlight
from rushlight import UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]


def tensor_on(storage, dtype, size):
    """A tensor of this size at the start of an UntypedStorage, whose bytes are its elements."""
    strides = [1] * len(size)
    for dim in reversed(range(len(size) - 1)):
        strides[dim] = strides[dim + 1] * max(1, size[dim + 1])
    return rushlight._C._tensor_on_storage(storage, dtype, 0, size, strides)


class TypedStorage:
    """The elements of a storage, all of one dtype, in the order they have in memory.

    Args:
        untyped: the bytes.
        dtype: how to read them.
    """

    def __init__(self, untyped, dtype):
        self._untyped = untyped
        self.dtype = dtype
        size = untyped.nbytes() // dtype.itemsize
        self._elements = rushlight._C._tensor_on_storage(untyped, dtype, 0, (size,), (1,))

    def untyped(self):
        """Return the bytes."""
        return self._untyped

    @property
    def device(self):
        return self._untyped.device

    def data_ptr(self):
        """Return the address of the first element."""
        return self._untyped.data_ptr()

    def nbytes(self):
        """Return the number of bytes."""
        return self._untyped.nbytes()

    def element_size(self):
        """Return the bytes per element."""
        return self.dtype.itemsize

    def size(self):
        """Return the number of elements."""
        return len(self._elements)

    def tolist(self):
        """Return the elements as a list."""
        return self._elements.tolist()

    def is_shared(self):
        """Return whether the memory is shared with other processes."""
        return self._untyped.is_shared()

    def share_memory_(self):
        """Move the elements to shared memory, in place. Returns self."""
        self._untyped.share_memory_()
        return self

    def clone(self):
        """Return a copy."""
        return TypedStorage(self._untyped.clone(), self.dtype)

    def __len__(self):
        return len(self._elements)

    def __getitem__(self, index):
        found = self._elements[index]
        return TypedStorage(found.untyped_storage(), self.dtype) if found.dim() else found.item()

    def __setitem__(self, index, value):
        self._elements[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def __repr__(self):
        lines = "".join(f" {value}\n" for value in self)
        kind = f"torch.storage.TypedStorage(dtype={self.dtype}, device={self.device})"
        return f"{lines}[{kind} of size {len(self)}]"
