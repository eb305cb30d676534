"""What UntypedStorage can do beyond its bytes: share them, show parts, map files into memory."""

from __future__ import annotations

import rushlight
from rushlight import UntypedStorage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

    from rushlight import Tensor
    from rushlight.types import Device, _dtype

_byte_at = UntypedStorage.__getitem__


class _Methods:
    def share_memory_(self) -> Self:
        """Move the bytes to where other processes can map them too, in place. Returns self."""
        if not self._try_share(False):
            raise RuntimeError(
                "share_memory_: other tensors (views, .data, detach() or numpy() of it, or a graph"
                " that saved it) look at this memory and cannot follow; call share_memory_() before"
                " they are made, or on a clone()"
            )
        return self

    def pin_memory(self, device: Device = "cuda") -> None:
        """Raises RuntimeError: no accelerator is available that page-locked memory would serve."""
        rushlight.empty(0).pin_memory(device)

    def is_pinned(self, device: Device = "cuda") -> bool:
        """Return whether the memory is page-locked: none is without an accelerator."""
        return False

    def untyped(self) -> Self:
        """Return self, as a TypedStorage returns its bytes."""
        return self

    @property
    def is_cuda(self) -> bool:
        """Is it on a GPU?"""
        return self.device.type == "cuda"

    def get_device(self) -> int:
        """Return the number of the device; -1 on the CPU."""
        return _bytes_of(self).get_device()

    def element_size(self) -> int:
        """Return 1: elements are bytes."""
        return 1

    def type(self) -> str:
        """Return the name of the class."""
        return "torch.storage.UntypedStorage"

    def to(self, *, device: Device, non_blocking: bool = False) -> UntypedStorage:
        """Return a copy on a device; this storage if it is there."""
        moved = _bytes_of(self).to(device, non_blocking=non_blocking).untyped_storage()
        return self if moved.device == self.device else moved

    def cpu(self) -> UntypedStorage:
        """Return a copy on the CPU; this storage if it is there."""
        return self.to(device="cpu")

    def cuda(self, device: Device = None, non_blocking: bool = False) -> UntypedStorage:
        """Return a copy on a GPU, by default the current one; this storage if it is there."""
        place = "cuda" if device is None else device
        return self.to(device=place, non_blocking=non_blocking)

    def fill_(self, value: int) -> Self:
        """Set all bytes. Returns self."""
        _bytes_of(self).fill_(value)
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool | None = None) -> Self:
        """Take the bytes of another storage of this size. Returns self."""
        _bytes_of(self).copy_(_bytes_of(source), non_blocking=bool(non_blocking))
        return self

    def byteswap(self, dtype: _dtype) -> None:
        """Turn the order of the bytes of each element of a dtype, in place."""
        size = dtype.itemsize // (2 if dtype.is_complex else 1)
        elements = _bytes_of(self).view(-1, size)
        elements.copy_(elements.flip(1))

    @classmethod
    def from_file(cls, filename: str, shared: bool = False, nbytes: int = 0) -> Any:
        """The first bytes of a file, read as they are touched.

        Args:
            shared: whether changes go to the file, which then grows if need be; else they stay in
                this process.
            nbytes: how many.
        """
        import os

        try:
            file = open(filename, "a+b" if shared else "rb")
        except OSError as error:
            mode = "read-write" if shared else "read-only"
            raise RuntimeError(
                f"unable to open file <{filename}> in {mode} mode: {error.strerror} ({error.errno})"
            ) from None
        with file:
            size = os.fstat(file.fileno()).st_size
            if size < nbytes and not shared:
                raise RuntimeError(
                    f"file <{filename}> size <{size}> is smaller than the required mapping size"
                    f" <{nbytes}>"
                )
            if size < nbytes:
                file.truncate(nbytes)
            if nbytes == 0:
                return cls(0)
            name = os.fsdecode(filename)
            return UntypedStorage._map_file(file.fileno(), nbytes, bool(shared), name)

    def __sizeof__(self) -> int:
        # With the 32 bytes by which torch's objects are larger to `sys.getsizeof`: summaries of
        # models print that.
        return object.__sizeof__(self) + 32 + self.nbytes()

    def __getitem__(self, index: int | slice) -> Any:
        if not isinstance(index, slice):
            return _byte_at(self, index)
        start, stop, step = index.indices(len(self))
        if step != 1:
            raise RuntimeError(
                f"Trying to slice with a step of {step}, but only a step of 1 is supported"
            )
        return _on_buffer(memoryview(self)[start:stop]) if stop > start else UntypedStorage(0)


def _bytes_of(storage):
    """The bytes of a storage, as a tensor on them."""
    return rushlight._C._tensor_on_storage(
        storage, rushlight.uint8, 0, (storage.nbytes(),), (1,)
    )


def _on_buffer(buffer):
    """A storage that is the memory of a buffer."""
    return rushlight.frombuffer(buffer, dtype=rushlight.uint8).untyped_storage()


def from_file(
    filename: str,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: _dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of the first `size` elements of a file, read as they are touched.

    Args:
        shared: whether changes go to the file; else they stay in this process.
    """
    dtype = dtype or rushlight.get_default_dtype()
    storage = UntypedStorage.from_file(filename, bool(shared), size * dtype.itemsize)
    result = rushlight._C._tensor_on_storage(storage, dtype, 0, (size,), (1,))
    return result.to(device or "cpu").requires_grad_(requires_grad)


def install() -> None:
    """Give `UntypedStorage` the methods of this module."""
    for name in (
        "share_memory_", "pin_memory", "is_pinned", "untyped", "from_file", "__sizeof__",
        "__getitem__", "is_cuda", "get_device", "element_size", "type", "to", "cpu", "cuda",
        "fill_", "copy_", "byteswap",
    ):  # fmt: skip
        member = vars(_Methods)[name]
        function = getattr(member, "fget", getattr(member, "__func__", member))
        function.__qualname__ = f"UntypedStorage.{name}"
        setattr(UntypedStorage, name, member)
