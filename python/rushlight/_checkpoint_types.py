"""What a checkpoint consists of besides plain Python values: names, storages and tensors."""

import ctypes
import math
import pickle

import rushlight

STORAGE_DTYPES = {
    "BoolStorage": rushlight.bool,
    "ByteStorage": rushlight.uint8,
    "CharStorage": rushlight.int8,
    "ShortStorage": rushlight.int16,
    "IntStorage": rushlight.int32,
    "LongStorage": rushlight.int64,
    "HalfStorage": rushlight.float16,
    "BFloat16Storage": rushlight.bfloat16,
    "FloatStorage": rushlight.float32,
    "DoubleStorage": rushlight.float64,
    "ComplexFloatStorage": rushlight.complex64,
    "ComplexDoubleStorage": rushlight.complex128,
}
STORAGE_NAMES = {dtype: name for name, dtype in STORAGE_DTYPES.items()}
DTYPES = {str(dtype).rpartition(".")[2]: dtype for dtype in STORAGE_NAMES}

_ONLY_ZERO_AND_ONE = bytes([0]) + bytes([1]) * 255


class StoredData:
    """A storage in a file, together with the dtype that the file gives it."""

    def __init__(self, storage, dtype):
        self.storage = storage
        self.dtype = dtype


def storage_of(buffer, dtype, swap_bytes=False):
    """Return a storage on the CPU over a writable `buffer`, after making its contents valid.

    A bool must be 0 or 1, which a file need not respect.
    """
    if dtype is rushlight.bool:
        given = bytes(buffer)
        valid = given.translate(_ONLY_ZERO_AND_ONE)
        if valid != given:
            buffer[:] = valid
    if swap_bytes:
        _swap(buffer, dtype.itemsize // (2 if dtype.is_complex else 1))
    if len(buffer) == 0:
        return rushlight.empty(0, dtype=rushlight.uint8).untyped_storage()
    return rushlight.frombuffer(buffer, dtype=rushlight.uint8).untyped_storage()


def _swap(buffer, width):
    for low in range(width // 2):
        high = width - 1 - low
        buffer[low::width], buffer[high::width] = buffer[high::width], buffer[low::width]


def bytes_of(storage):
    """Return the bytes of a storage on the CPU without copying; keep the storage alive."""
    size = storage.nbytes()
    if size == 0:
        return b""
    return memoryview((ctypes.c_ubyte * size).from_address(storage.data_ptr())).cast("B")


def as_tensor_of_bytes(storage):
    """Return a storage as a tensor of uint8."""
    return rushlight._C._tensor_on_storage(storage, rushlight.uint8, 0, (storage.nbytes(),), (1,))


def tensor_of(data, offset, size, stride, requires_grad):
    """Return the tensor that views `data` in the given way, if the way is possible at all."""
    if not isinstance(data, StoredData) or data.dtype is None:
        raise pickle.UnpicklingError("a tensor refers to something that is not a typed storage")
    numbers = (offset, *size, *stride)
    if not all(type(n) is int and n >= 0 for n in numbers) or len(size) != len(stride):
        raise pickle.UnpicklingError(
            f"a tensor has an impossible shape: offset {offset}, sizes {size}, strides {stride}"
        )
    itemsize = data.dtype.itemsize
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    needed = (last + 1) * itemsize if 0 not in size else offset * itemsize
    if needed > data.storage.nbytes() or math.prod(size) * itemsize >= 2**63:
        raise pickle.UnpicklingError(
            f"a tensor of sizes {size} and strides {stride} at offset {offset} does not fit its"
            f" storage of {data.storage.nbytes()} bytes"
        )
    tensor = rushlight._C._tensor_on_storage(data.storage, data.dtype, offset, size, stride)
    return tensor.requires_grad_() if requires_grad else tensor
