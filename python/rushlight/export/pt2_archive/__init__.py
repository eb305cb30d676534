"""Torch's archives of exported programs: their records are written and read, and a program's graph,
which is of torch's own operations, is not.
"""

from __future__ import annotations

import zipfile

from rushlight._set_module import set_module
from rushlight.export.pt2_archive._archive import PT2ArchiveReader, PT2ArchiveWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import IO


def is_pt2_package(serialized_model: bytes | str | os.PathLike[str] | IO[bytes]) -> bool:
    """Is a file one of torch's exported programs?

    Args:
        serialized_model: path, file object open for reading bytes, or bytes.
    """
    import io

    is_content = isinstance(serialized_model, bytes)
    source = io.BytesIO(serialized_model) if is_content else serialized_model
    try:
        with zipfile.ZipFile(source) as archive:
            formats = [n for n in archive.namelist() if n.endswith("archive_format")]
            return any(archive.read(n) == b"pt2" for n in formats)
    except zipfile.BadZipFile:
        return False


set_module(__name__, PT2ArchiveReader, PT2ArchiveWriter)

__all__ = ["PT2ArchiveReader", "PT2ArchiveWriter", "is_pt2_package"]
