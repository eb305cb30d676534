"""What to say in a report of a bug: python -m rushlight.utils.collect_env."""

from __future__ import annotations

import platform
import sys

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _gpus():
    if not rushlight.cuda.is_available():
        return ""
    return ", ".join(map(rushlight.cuda.get_device_name, range(rushlight.cuda.device_count())))


def get_env_info() -> Any:
    """Facts about this installation and machine: name -> text."""
    try:
        import numpy

        numpy_version = numpy.__version__
    except ModuleNotFoundError:
        numpy_version = "not installed"
    return {
        "rushlight": str(rushlight.__version__),
        "Python": sys.version.replace("\n", " "),
        "NumPy": numpy_version,
        "platform": platform.platform(),
        "libc": " ".join(platform.libc_ver()),
        "instruction set": rushlight.backends.cpu.get_cpu_capability(),
        "threads": str(rushlight.get_num_threads()),
        "CUDA": _gpus() or "no usable GPU",
    }


def get_pretty_env_info() -> Any:
    """The same as text."""
    return "\n".join(f"{name}: {value}" for name, value in get_env_info().items())


def main() -> None:
    """Print it."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
