"""The step that reads files."""

from __future__ import annotations

from typing import Any

from rushlight.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe[Any]):
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
