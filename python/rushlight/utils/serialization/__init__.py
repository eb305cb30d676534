"""How files are read and written: `config`."""

from rushlight.utils.serialization import config

__all__ = ["config"]
