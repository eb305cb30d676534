"""What to say in a report of a bug: python -m rushlight.utils.collect_env."""

from __future__ import annotations

import locale
import platform
import re
import subprocess
import sys

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def run(command: str | Sequence[str]) -> tuple[int, str, str]:
    """(exit status, output, errors) of a command; 127 where there is none of that name."""
    try:
        done = subprocess.run(command, capture_output=True, shell=isinstance(command, str))
    except FileNotFoundError:
        name = command if isinstance(command, str) else command[0]
        return 127, "", f"Command not found: {name}"
    code = locale.getpreferredencoding()
    output, errors = (text.decode(code, "replace").strip() for text in (done.stdout, done.stderr))
    return done.returncode, output, errors


def run_and_read_all(run_lambda: Any, command: str | Sequence[str]) -> str | None:
    """What a command prints, or None if it fails."""
    status, output, _ = run_lambda(command)
    return output if status == 0 else None


def get_cpu_info(run_lambda: Any) -> str:
    """What the processor is, as `lscpu` says it, or its name."""
    return run_and_read_all(run_lambda, "lscpu") or platform.processor() or platform.machine()


def _version_of(run_lambda, command, pattern):
    found = re.search(pattern, run_and_read_all(run_lambda, command) or "")
    return found and found[1]


def get_gcc_version(run_lambda: Any) -> str | None:
    """The version of gcc, or None where there is none."""
    return _version_of(run_lambda, "gcc --version", r"gcc (.*)")


def get_clang_version(run_lambda: Any) -> str | None:
    """The version of clang, or None where there is none."""
    return _version_of(run_lambda, "clang --version", r"clang version (.*)")


def get_cmake_version(run_lambda: Any) -> str | None:
    """The version of CMake, or None where there is none."""
    return _version_of(run_lambda, "cmake --version", r"cmake (.*)")


def get_nvidia_driver_version(run_lambda: Any) -> str | None:
    """The version of NVIDIA's driver, or None where there is none."""
    command = "nvidia-smi --query-gpu=driver_version --format=csv,noheader"
    return _version_of(run_lambda, command, r"([\d.]+)")


def get_gpu_info(run_lambda: Any) -> str | None:
    """The GPUs that `nvidia-smi` lists, a line each, or None."""
    return run_and_read_all(run_lambda, "nvidia-smi -L")


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
