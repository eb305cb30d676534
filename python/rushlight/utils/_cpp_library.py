"""Where the C++ library is: the package `rushlight_cpp`, of a wheel of its own."""

from __future__ import annotations

import importlib

from rushlight._version import __version__


def cmake_prefix_path() -> str:
    """The folder in which CMake's find_package(rushlight) looks.

    Raises:
        AttributeError: the C++ library is not installed, or is of another version.
    """
    wanted = __version__.partition("+")[0]
    install = f"pip install rushlight-cpp=={wanted}"
    try:
        library = importlib.import_module("rushlight_cpp")
    except ModuleNotFoundError as error:
        if error.name != "rushlight_cpp":
            raise
        raise AttributeError(
            f"utils.cmake_prefix_path: the C++ library is not installed: {install}"
        ) from error
    if library.__version__ != wanted:
        raise AttributeError(
            f"utils.cmake_prefix_path: expected the C++ library of version {wanted}, got "
            f"{library.__version__}: {install}"
        )
    return str(library.cmake_prefix_path)
