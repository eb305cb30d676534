"""Extensions in C++ against torch's headers, which are refused: rushlight's core is a different
one.
"""

import os

CUDA_HOME = None
ROCM_HOME = None
IS_WINDOWS = os.name == "nt"
_REASON = (
    "cpp_extension.{}: this extension is written against PyTorch's C++ interface, which rushlight "
    "does not have; write the operation in Python, or call native code through ctypes or cffi"
)


def _refuse(name):
    def function(*args, **kwargs):
        raise NotImplementedError(_REASON.format(name))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Raises NotImplementedError."
    return function


for _name in (
    "CUDAExtension",
    "CppExtension",
    "SyclExtension",
    "include_paths",
    "library_paths",
    "load",
    "load_inline",
):
    globals()[_name] = _refuse(_name)


class BuildExtension:
    """Setuptools' command that builds such extensions; raises NotImplementedError."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError(_REASON.format("BuildExtension"))

    @classmethod
    def with_options(cls, **options):
        """Return the class: it refuses when it is used."""
        return cls


def is_ninja_available():
    """Can such extensions be built by ninja? They cannot be built."""
    return False


def verify_ninja_availability():
    """Raises RuntimeError."""
    raise RuntimeError(_REASON.format("verify_ninja_availability"))
