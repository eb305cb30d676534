"""The step that opens files."""

from __future__ import annotations

from rushlight.utils.data.datapipes.datapipe import functional_datapipe
from rushlight.utils.data.datapipes.iter.filelister import _Sized

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import IO, Any


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
        self.file_obj: Any = state
        self.name: Any = None


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
