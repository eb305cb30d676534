"""Operators of your own in C++, with gradients: `load` and `load_inline`.

Sources include <rushlight/extension.h>, which says what they may be; those that are written against
PyTorch's own C++ interface are refused.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import types
from pathlib import Path

import rushlight
from rushlight import library
from rushlight._ignored import warn_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CUDA_HOME = None
ROCM_HOME = None
IS_WINDOWS = os.name == "nt"
ABI = 1  # RUSHLIGHT_EXTENSION_ABI
_REASON = (
    "cpp_extension.{}: this extension is written against PyTorch's C++ interface, which rushlight "
    "does not have; write it against <rushlight/extension.h>, and build it by "
    "cpp_extension.load or load_inline"
)
_INCLUDE = Path(rushlight.__file__).parent / "include"
_DTYPES = [
    rushlight.bool, rushlight.uint8, rushlight.int8, rushlight.int16, rushlight.int32,
    rushlight.int64, rushlight.float16, rushlight.bfloat16, rushlight.float32, rushlight.float64,
    rushlight.complex64, rushlight.complex128,
]  # fmt: skip


def _refuse(name):
    def function(*args, **kwargs):
        raise NotImplementedError(_REASON.format(name))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Raises NotImplementedError."
    return function


for _name in ("CUDAExtension", "CppExtension", "SyclExtension", "library_paths"):
    globals()[_name] = _refuse(_name)


class BuildExtension:
    """Raises NotImplementedError: setuptools' command that builds such extensions."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(_REASON.format("BuildExtension"))

    @classmethod
    def with_options(cls, **options: Any) -> Any:
        """Return the class: it refuses when it is used."""
        return cls


def is_ninja_available() -> bool:
    """Can extensions be built by ninja? The compiler is called without it."""
    return False


def verify_ninja_availability() -> None:
    """Raises RuntimeError."""
    raise RuntimeError("cpp_extension.verify_ninja_availability: ninja is not used")


def include_paths(device_type: str = "cpu") -> Any:
    """The folders of the headers that extensions include."""
    if device_type != "cpu":
        raise NotImplementedError(f"cpp_extension.include_paths: for {device_type}")
    return [str(_INCLUDE)]


# ---- building


def load(
    name: str,
    sources: Any,
    extra_cflags: Any = None,
    extra_cuda_cflags: Any = None,
    extra_sycl_cflags: Any = None,
    extra_ldflags: Any = None,
    extra_include_paths: Any = None,
    build_directory: Any = None,
    verbose: bool = False,
    with_cuda: Any = None,
    with_sycl: Any = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
    functions: Any = None,
) -> Any:  # fmt: skip
    """Compile C++ files and make their functions operators: `torch.ops.NAME.FUNCTION`.

    Args:
        name: of the extension, and of the operators' namespace.
        sources: a path, or a list of them; they mark their functions by RUSHLIGHT_FUNCTION.
        extra_cflags, extra_ldflags: lists of further flags.
        extra_include_paths: list of further folders.
        build_directory: where the library is kept; by default a cache of the user's.
        verbose: print the compiler's command.
        functions: list of names; those that the sources mark, by default.

    Returns:
        A module with the functions. One that has a partner of its name and "_backward" has a
        gradient, which that one computes.

    Raises:
        RuntimeError: the compiler fails, or the library is of another interface.
    """
    _refuse_options(load, with_cuda, with_sycl, is_standalone, extra_cuda_cflags,
                    extra_sycl_cflags)  # fmt: skip
    warn_of("cpp_extension.load", "nothing else is kept",
            keep_intermediates=None if keep_intermediates else "False",
            is_python_module=None if is_python_module else "False")  # fmt: skip
    sources = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
    texts = [Path(s).read_text() for s in sources]
    if functions is None:
        functions = [f for text in texts for f in re.findall(
            r"^\s*RUSHLIGHT_FUNCTION(?:_OF)?\(\s*(\w+)", text, re.M)]  # fmt: skip
    texts[-1] += "\nRUSHLIGHT_EXTENSION()\n"
    folders = [str(Path(s).resolve().parent) for s in sources] + list(extra_include_paths or ())
    path = _build(name, texts, extra_cflags, extra_ldflags, folders, build_directory, verbose)
    return _opened(name, path, functions)


def load_inline(
    name: str,
    cpp_sources: Any,
    cuda_sources: Any = None,
    sycl_sources: Any = None,
    functions: Any = None,
    extra_cflags: Any = None,
    extra_cuda_cflags: Any = None,
    extra_sycl_cflags: Any = None,
    extra_ldflags: Any = None,
    extra_include_paths: Any = None,
    build_directory: Any = None,
    verbose: bool = False,
    with_cuda: Any = None,
    with_sycl: Any = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
) -> Any:  # fmt: skip
    """Compile C++ source in strings and make its functions operators: `torch.ops.NAME.FUNCTION`.

    Args:
        cpp_sources: a string, or a list of them; <rushlight/extension.h> is included.
        functions: names of functions, which must be of one result each, or be marked in the source.

    Returns:
        A module with the functions, see `load`.

    Example:
        >>> source = '''
        ... rushlight::Tensor twice(const rushlight::Tensor& x) {
        ...   rushlight::Tensor y = rushlight::empty_like(x);
        ...   for (int64_t i = 0; i < x.numel(); ++i) y.data<float>()[i] = 2 * x.data<float>()[i];
        ...   return y;
        ... }'''
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mine = load_inline("example_twice", source, functions="twice",
        ...                        build_directory=folder)
        >>> mine.twice(torch.ones(2))
        tensor([2., 2.])
    """
    _refuse_options(load_inline, with_cuda, with_sycl, False, extra_cuda_cflags,
                    extra_sycl_cflags)  # fmt: skip
    if cuda_sources or sycl_sources:
        raise NotImplementedError("cpp_extension.load_inline: only C++ for the CPU")
    warn_of("cpp_extension.load_inline", "nothing else is kept, and exceptions are always caught",
            use_pch=use_pch, keep_intermediates=None if keep_intermediates else "False",
            is_python_module=None if is_python_module else "False",
            with_pytorch_error_handling=(
                None if with_pytorch_error_handling else "False"))  # fmt: skip
    cpp_sources = [cpp_sources] if isinstance(cpp_sources, str) else list(cpp_sources)
    functions = [functions] if isinstance(functions, str) else list(functions or ())
    text = "" if no_implicit_headers else "#include <rushlight/extension.h>\n"
    text += "\n".join(cpp_sources)
    marked = re.findall(r"^\s*RUSHLIGHT_FUNCTION(?:_OF)?\(\s*(\w+)", text, re.M)
    text += "".join(f"\nRUSHLIGHT_FUNCTION({f})" for f in functions if f not in marked)
    text += "\nRUSHLIGHT_EXTENSION()\n"
    path = _build(name, [text], extra_cflags, extra_ldflags, extra_include_paths, build_directory,
                  verbose)  # fmt: skip
    return _opened(name, path, [*functions, *(f for f in marked if f not in functions)])


def _refuse_options(function, with_cuda, with_sycl, is_standalone, *flags):
    if with_cuda or with_sycl or is_standalone or any(flags):
        raise NotImplementedError(f"cpp_extension.{function.__name__}: only libraries for the CPU")


def _build(name, texts, cflags, ldflags, folders, build_directory, verbose):
    """The path of the compiled library; the one from before if nothing has changed."""
    if any(re.search(r"#\s*include\s*<(torch|ATen|c10)/", text) for text in texts):
        raise NotImplementedError(_REASON.format("load"))
    if not name.isidentifier():
        raise ValueError(f"cpp_extension: the name must be an identifier, got {name!r}")
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise RuntimeError("cpp_extension: there is no C++ compiler: install g++, or set CXX")
    flags = ["-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden",
             f"-I{_INCLUDE}", *(f"-I{f}" for f in folders or ()), *(cflags or ())]  # fmt: skip
    header = (_INCLUDE / "rushlight" / "extension.h").read_text()
    key = repr((compiler, flags, list(ldflags or ()), texts, header)).encode()
    folder = Path(build_directory or Path.home() / ".cache" / "rushlight" / "extensions")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{name}_{hashlib.sha256(key).hexdigest()[:16]}.so"
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        files = []
        for i, text in enumerate(texts):
            files.append(str(Path(scratch, f"{name}_{i}.cpp")))
            Path(files[-1]).write_text(text)
        made = str(Path(scratch, target.name))
        command = [compiler, *flags, *files, "-o", made, *(ldflags or ())]
        if verbose:
            print(" ".join(command))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"cpp_extension: {name} does not compile:\n{done.stderr}")
        os.replace(made, target)
    return target


# ---- calling


class _RawTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("handle", ctypes.c_int64), ("ndim", ctypes.c_int64),
                ("sizes", ctypes.c_int64 * 16), ("dtype", ctypes.c_int32)]  # fmt: skip


class _RawValue(ctypes.Structure):
    _fields_ = [("tensor", _RawTensor), ("integer", ctypes.c_int64), ("real", ctypes.c_double),
                ("text", ctypes.c_char_p)]  # fmt: skip


_EMPTY = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int64,
                          ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(_RawTensor))  # fmt: skip


class _Host(ctypes.Structure):
    _fields_ = [("abi", ctypes.c_int32), ("empty", _EMPTY)]


def _fill(raw, t, handle):
    raw.data, raw.handle, raw.ndim = t.data_ptr(), handle, t.dim()
    raw.sizes[: t.dim()] = list(t.shape)
    raw.dtype = _DTYPES.index(t.dtype)


class _Extension:
    """An open library: its functions, and the tensors that a call makes."""

    def __init__(self, name: str, path: str | os.PathLike[str]) -> None:
        self.name = name
        self.library = ctypes.CDLL(str(path))
        self._alive = []  # a list of tensors for each call that is under way
        version = getattr(self.library, "rushlight_extension_abi_version", None)
        found = version() if version is not None else None
        if found != ABI:
            raise RuntimeError(
                f"cpp_extension: {path} was built for version {found} of the interface of "
                f"extensions, and this is version {ABI}: build it again"
            )
        self.library.rushlight_extension_error.restype = ctypes.c_char_p
        self._empty = _EMPTY(self._make_empty)
        self.library.rushlight_extension_open(ctypes.byref(_Host(ABI, self._empty)))

    def _make_empty(self, dtype, ndim, sizes, result):
        try:
            t = rushlight.empty([sizes[d] for d in range(ndim)], dtype=_DTYPES[dtype])
        except (RuntimeError, ValueError, IndexError, MemoryError):
            return -1
        alive = self._alive[-1]
        _fill(result.contents, t, len(alive))
        alive.append(t)
        return 0

    def function(self, name: str) -> Any:
        """(kinds of the arguments, number of results, callable of values) of a function."""
        try:
            call = getattr(self.library, f"rushlight_call_{name}")
        except AttributeError:
            raise RuntimeError(
                f"cpp_extension: {self.name} has no function {name!r}: mark it by "
                f"RUSHLIGHT_FUNCTION({name})"
            ) from None
        signature = getattr(self.library, f"rushlight_signature_{name}")
        signature.restype = ctypes.c_char_p
        results = getattr(self.library, f"rushlight_results_{name}")
        results.restype = ctypes.c_int64
        kinds = [k for k in signature().decode().split(",") if k]
        count = results()

        def run(*values):
            packed = (_RawValue * max(len(kinds), 1))()
            alive = []
            for raw, kind, value in zip(packed[: len(kinds)], kinds, values, strict=True):
                if kind == "Tensor":
                    t = value.detach().contiguous()
                    _fill(raw.tensor, t, len(alive))
                    alive.append(t)
                elif kind == "float":
                    raw.real = value
                elif kind == "str":
                    raw.text = value.encode()
                else:
                    raw.integer = value
            made = (_RawTensor * count)()
            given = len(alive)
            self._alive.append(alive)
            try:
                status = call(packed, made)
            finally:
                self._alive.pop()
            if status:
                error = self.library.rushlight_extension_error().decode()
                raise RuntimeError(f"{self.name}::{name}: {error}")
            # A result that is an argument is a copy of it: operators return tensors of their own.
            found = [alive[r.handle].clone() if r.handle < given else alive[r.handle]
                     for r in made]  # fmt: skip
            return found[0] if count == 1 else tuple(found)

        return kinds, count, run


def _opened(name, path, functions):
    """A module with the functions of a library as operators."""
    if not functions:
        raise RuntimeError(
            f"cpp_extension: {name} has no functions: name them, or mark them by RUSHLIGHT_FUNCTION"
        )
    extension = _Extension(name, path)
    module = types.ModuleType(name)
    module.__file__ = str(path)
    for function in functions:
        setattr(module, function, _operator(extension, name, function))
    for function in functions:
        if f"{function}_backward" in functions:
            _differentiate(extension, name, function)
    return module


def _operator(extension, name, function):
    kinds, count, run = extension.function(function)
    listed = ", ".join(f"{kind} a{i}" for i, kind in enumerate(kinds))
    results = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
    qualified = f"{name}::{function}"
    library.define(qualified, f"({listed}) -> {results}")
    library.impl(qualified, "cpu", run)
    return getattr(getattr(rushlight.ops, name), function)


def _differentiate(extension, name, function):
    kinds, count, _ = extension.function(function)
    wanted, results, _ = extension.function(f"{function}_backward")
    expected = ["Tensor"] * count + kinds
    tensors = [i for i, kind in enumerate(kinds) if kind == "Tensor"]
    if wanted != expected or results != len(tensors):
        raise RuntimeError(
            f"cpp_extension: {function}_backward takes {wanted} and returns {results} tensor(s); "
            f"expected {expected} (gradients of the results, then the arguments) and "
            f"{len(tensors)} (a gradient for each tensor)"
        )
    backward_operator = getattr(getattr(rushlight.ops, name), f"{function}_backward")

    def keep(ctx, inputs, output):
        ctx.save_for_backward(*(inputs[i] for i in tensors))
        ctx.others = [None if i in tensors else v for i, v in enumerate(inputs)]

    def backward(ctx, *grads):
        values = list(ctx.others)
        for i, t in zip(tensors, ctx.saved_tensors):
            values[i] = t
        found = backward_operator(*grads, *values)
        found = found if isinstance(found, (tuple, list)) else (found,)
        gradients = [None] * len(values)
        for i, g in zip(tensors, found):
            gradients[i] = g
        return gradients[0] if len(gradients) == 1 else tuple(gradients)

    library.register_autograd(f"{name}::{function}", backward, setup_context=keep)
