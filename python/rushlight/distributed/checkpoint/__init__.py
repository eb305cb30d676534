"""Checkpoints that each process writes a part of, and that any number of processes reads."""

from rushlight.distributed.checkpoint._files import (
    CheckpointException,
    FileSystemReader,
    FileSystemWriter,
    async_save,
    load,
    save,
)

__all__ = [
    "CheckpointException",
    "FileSystemReader",
    "FileSystemWriter",
    "async_save",
    "load",
    "save",
]
