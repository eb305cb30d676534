"""Storages: the memory that tensors share, as bytes and as elements."""

import rushlight
from rushlight import UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]


def empty_shared(size, dtype):
    """A tensor in shared memory, its elements zero."""
    size = rushlight.Size(size)
    storage = UntypedStorage._new_shared(size.numel() * dtype.itemsize)
    strides = [1]
    for length in reversed(size[1:]):
        strides.insert(0, strides[0] * max(1, length))
    return rushlight._C._tensor_on_storage(storage, dtype, 0, size, strides[: len(size)])


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
