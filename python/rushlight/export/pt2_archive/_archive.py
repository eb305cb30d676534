"""Writing and reading records of the archives in which torch keeps exported programs."""

from __future__ import annotations

import os
import sys
import zipfile

from rushlight.export.pt2_archive import constants
from rushlight.serialization import PyTorchFileReader, _aligned_entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any

    from typing_extensions import Self

_ZIP_VERSION = b"6\n"


class PT2ArchiveWriter:
    """A context that writes an archive: its records, by name, and at the end what it is.

    What `rushlight.export.save` writes is another format.

    Args:
        archive_path_or_buffer: a path, or a file object open for writing bytes.

    Example:
        >>> import io
        >>> from rushlight.export.pt2_archive import PT2ArchiveReader, PT2ArchiveWriter
        >>> file = io.BytesIO()
        >>> with PT2ArchiveWriter(file) as writer:
        ...     writer.write_string("extra/note", "hello")
        >>> with PT2ArchiveReader(file) as reader:
        ...     print(reader.read_string("extra/note"), reader.archive_version())
        hello 0
    """

    archive_file: zipfile.ZipFile

    def __init__(self, archive_path_or_buffer: str | os.PathLike[str] | IO[bytes]) -> None:
        self._root = "archive"
        if isinstance(archive_path_or_buffer, (str, os.PathLike)):
            name = os.path.basename(os.fspath(archive_path_or_buffer))
            self._root = os.path.splitext(name)[0] or self._root
        self.archive_file = zipfile.ZipFile(archive_path_or_buffer, "w")
        self._names: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: Any) -> None:
        for name, value in (
            (constants.ARCHIVE_FORMAT_PATH, constants.ARCHIVE_FORMAT_VALUE),
            (constants.ARCHIVE_VERSION_PATH, constants.ARCHIVE_VERSION_VALUE),
        ):
            if not self.has_record(name):
                self.write_string(name, value)
        self.close()

    def has_record(self, name: str) -> bool:
        """Was a record of that name written?"""
        return name in self._names

    def count_prefix(self, prefix: str) -> int:
        """How many of the records have names that begin with it?"""
        return sum(name.startswith(prefix) for name in self._names)

    def write_bytes(self, name: str, data: bytes) -> None:
        """Write a record."""
        if not isinstance(data, bytes):
            raise AssertionError(f"Expected bytes but got {type(data)}")
        if self.has_record(name):
            raise RuntimeError(f"PT2ArchiveWriter: the record {name!r} was written already")
        place = self.archive_file.start_dir
        entry = _aligned_entry(f"{self._root}/{name}", place, len(data))
        self.archive_file.writestr(entry, data)
        self._names.append(name)

    def write_string(self, name: str, data: str) -> None:
        """Write a record of text."""
        if not isinstance(data, str):
            raise AssertionError(f"Expected string but got {type(data)}")
        self.write_bytes(name, data.encode())

    def write_file(self, name: str, file_path: str) -> None:
        """Write a record with what is in a file."""
        if not os.path.isfile(file_path):
            raise AssertionError(f"{file_path} is not a valid file path")
        with open(file_path, "rb") as file:
            self.write_bytes(name, file.read())

    def write_folder(self, archive_dir: str, folder_dir: str) -> None:
        """Write a record for each file in a folder and in those below.

        Args:
            archive_dir: what the names of the records begin with.
            folder_dir: the folder.
        """
        if not os.path.isdir(folder_dir):
            raise AssertionError(f"{folder_dir} is not a valid directory path")
        for folder, folders, files in os.walk(folder_dir):
            folders.sort()
            for name in sorted(files):
                path = os.path.join(folder, name)
                place = os.path.relpath(path, folder_dir).replace(os.sep, "/")
                self.write_file(os.path.join(archive_dir, place), path)

    def close(self) -> None:
        """End the archive."""
        if self.archive_file.fp is not None:
            self.write_string("byteorder", sys.byteorder)
            self.write_bytes(".data/version", _ZIP_VERSION)
            self.archive_file.close()


class PT2ArchiveReader:
    """A context that reads the records of an archive.

    Args:
        archive_path_or_buffer: a path, or a file object open for reading bytes.

    Raises:
        AssertionError: the archive is of another kind.
    """

    archive_file: PyTorchFileReader

    def __init__(self, archive_path_or_buffer: str | os.PathLike[str] | IO[bytes]) -> None:
        self.archive_file = PyTorchFileReader(archive_path_or_buffer)
        if self.read_string(constants.ARCHIVE_FORMAT_PATH) != constants.ARCHIVE_FORMAT_VALUE:
            raise AssertionError("Invalid archive format")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: Any) -> None:
        pass

    def read_bytes(self, name: str) -> bytes:
        """Return the bytes of a record."""
        return self.archive_file.get_record(name)

    def read_string(self, name: str) -> str:
        """Return the text of a record."""
        return self.read_bytes(name).decode()

    def archive_version(self) -> int:
        """Return the version of the format; 0 of the oldest, which did not say it."""
        if not self.archive_file.has_record(constants.ARCHIVE_VERSION_PATH):
            return 0
        return int(self.read_string(constants.ARCHIVE_VERSION_PATH))

    def get_file_names(self) -> list[str]:
        """Return the names of all records."""
        return self.archive_file.get_all_records()
