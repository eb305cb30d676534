"""Reading pickles without running what they name, by the name that libraries know it by."""

import io
from pickle import UnpicklingError

from rushlight import serialization as _serialization
from rushlight._checkpoint_reader import CheckpointReader


class Unpickler:
    """Reads a pickle in which only what `load` allows may be named.

    Args:
        file: open for reading.
        encoding: of strings from Python 2; only utf-8 and the like are read.
    """

    def __init__(self, file, *, encoding="bytes"):
        if encoding not in ("bytes", "utf-8", "ascii", "ASCII"):
            raise NotImplementedError(f"Unpickler: encoding {encoding!r}")
        self._file = file

    def persistent_load(self, pid):
        """What a reference to data outside of the pickle stands for: refused."""
        raise UnpicklingError(f"unsupported persistent id {pid!r}")

    def load(self):
        """Return the object."""

        def load_storage(*facts):
            return self.persistent_load(("storage", *facts))

        safe = _serialization._safe_globals
        return CheckpointReader(self._file, load_storage, safe).read()


def load(file, *, encoding="ASCII"):
    """Return the object that a pickle describes."""
    return Unpickler(file, encoding=encoding).load()


def loads(data, *, encoding="ASCII"):
    """Return the object that the bytes of a pickle describe."""
    return load(io.BytesIO(data), encoding=encoding)


__all__ = ["Unpickler", "UnpicklingError", "load", "loads"]
