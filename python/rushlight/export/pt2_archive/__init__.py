"""Torch's files of exported programs, which are neither written nor read here."""

from __future__ import annotations

import zipfile

from rushlight import _absent

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


_ABSENT = _absent.refused(
    dict.fromkeys(
        ("PT2ArchiveReader", "PT2ArchiveWriter"),
        "torch's files of exported programs hold its own operations: torch.export.save and load "
        "have files of rushlight's",
    )
)
globals().update(_ABSENT)

__all__ = ["is_pt2_package", *_ABSENT]
