"""Steps that list, open and read files."""

from __future__ import annotations

import fnmatch
import os

from rushlight.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from rushlight.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import IO, Any


def _raise(error):
    raise error


class _Sized(IterDataPipe):
    """A step of which only its maker knows the length."""

    length = -1

    def __len__(self) -> int:
        if self.length == -1:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length


@functional_datapipe("list_files")
class FileListerIterDataPipe(_Sized):
    """The paths of the files in folders.

    Args:
        root: a folder, or several, or a step that gives some.
        masks: patterns of shells for the names, of which one fits; "" takes all.
        recursive: files in folders inside too.
        abspath: absolute paths.
        non_deterministic: paths as the system lists them, not sorted.
        length: how many there are, for `len`.
    """

    def __init__(
        self, root: str | Sequence[str] | IterDataPipe = ".", masks: str | list[str] = "", *,
        recursive: bool = False, abspath: bool = False, non_deterministic: bool = False,
        length: int = -1,
    ) -> None:  # fmt: skip
        super().__init__()
        if isinstance(root, str):
            root = [root]
        if not isinstance(root, IterDataPipe):
            root = IterableWrapperIterDataPipe(root)
        self.datapipe = root
        self.masks, self.recursive, self.abspath = masks, recursive, abspath
        self.non_deterministic, self.length = non_deterministic, length

    def _fits(self, name):
        masks = [self.masks] if isinstance(self.masks, str) else self.masks
        return masks in ([""], []) or any(fnmatch.fnmatch(name, mask) for mask in masks)

    def __iter__(self) -> Iterator[str]:
        for root in self.datapipe:
            for folder, inside, names in os.walk(root, onerror=_raise):
                if not self.non_deterministic:
                    inside.sort()
                    names.sort()
                if self.abspath:
                    folder = os.path.abspath(folder)
                for name in names:
                    if self._fits(name):
                        yield os.path.join(folder, name)
                if not self.recursive:
                    break


class StreamWrapper:
    """An open file, which is closed when nothing refers to it."""

    def __init__(self, file_obj: IO[Any], name: str | None = None) -> None:
        self.file_obj, self.name = file_obj, name

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["file_obj"], name)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.file_obj)

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.file_obj)})

    def close(self) -> None:
        """Close the file."""
        self.file_obj.close()

    def autoclose(self) -> None:
        """Close the file: nothing else holds it open."""
        self.close()

    def __del__(self) -> None:
        file = self.__dict__.get("file_obj")
        if file is not None:
            file.close()

    def __repr__(self) -> str:
        return f"StreamWrapper<{self.name or self.file_obj!r}>"

    def __getstate__(self) -> Any:
        return self.file_obj

    def __setstate__(self, state: Any) -> None:
        self.file_obj, self.name = state, None


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(_Sized):
    """(path, open file) of paths.

    Args:
        datapipe: the paths.
        mode: as `open` has it, or "b" and "t" for "rb" and "rt".
        encoding: of text.
        length: how many there are, for `len`.
    """

    def __init__(
        self, datapipe: Iterable[str], mode: str = "r", encoding: str | None = None,
        length: int = -1,
    ) -> None:  # fmt: skip
        super().__init__()
        self.datapipe, self.encoding, self.length = datapipe, encoding, length
        self.mode = f"r{mode}" if mode in ("b", "t") else mode
        if self.mode not in ("r", "rb", "rt"):
            raise ValueError(f"FileOpener: mode={mode!r}: files are read: r, rb, rt, b or t")
        if "b" in self.mode and encoding is not None:
            raise ValueError("FileOpener: bytes have no encoding")

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        for path in self.datapipe:
            if not isinstance(path, str):
                raise TypeError(f"FileOpener: expected a path, got {type(path).__name__}")
            yield path, StreamWrapper(open(path, self.mode, encoding=self.encoding), path)


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe):
    """(path, contents) of (path, open file).

    Args:
        datapipe: pairs of a path and a file.
        chunk: how much of a file an element has; None: all.
    """

    def __init__(self, datapipe: Iterable[tuple[str, Any]], chunk: int | None = None) -> None:
        super().__init__()
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for path, file in self.datapipe:
            while True:
                part = file.read(-1 if self.chunk is None else self.chunk)
                if not part:
                    file.close()
                    break
                yield path, part
