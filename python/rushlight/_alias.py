"""`import torch` gives rushlight: the same module objects, under both names.

A finder before all others answers for `torch` and what lies below it with the modules of
rushlight, and for `functorch`, which torch ships, with `rushlight.functorch`. An installed torch is
not read, and not touched; it cannot be imported in the same process any more.
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import importlib.util
import opcode
import os
import sys
import types

import rushlight
from rushlight._set_module import set_module
from rushlight.torch_version import TorchVersion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight import Tensor
    from rushlight.nn.modules.module import Module

_IMPLEMENTED = "2.13.0"  # the torch whose semantics rushlight follows
# What has a __module__ to set.
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType, rushlight._C.function)
_IMPORT_FROM = opcode.opmap["IMPORT_FROM"]

# Packages whose compiled parts are linked with torch's own libraries, and which need them; of those
# that work without, the compiled part. What loads it by torch.ops.load_library is refused there.
_BUILT_ON_TORCH = {
    "causal_conv1d", "fbgemm_gpu", "flash_attn", "mamba_ssm", "pyg_lib", "torch_cluster",
    "torch_scatter", "torch_sparse", "torch_spline_conv", "torchaudio", "torchcodec", "torchtext",
    "vllm", "xformers", "pytorch3d._C", "torchrl._torchrl",
}  # fmt: skip

# What `import torch` brings of the standard library's packages. Programs that import the package
# alone, such as `import multiprocessing` for `multiprocessing.connection`, count on it.
_BROUGHT_ALONG = {
    "collections": {"abc"},
    "concurrent": {"futures"},
    "http": {"client"},
    "importlib": {"abc", "machinery", "metadata", "resources", "util"},
    "multiprocessing": {"connection", "resource_sharer", "resource_tracker", "spawn", "util"},
    "unittest": {"mock"},
    "urllib": {"error", "parse", "request"},
}


def activate() -> Any:
    """See `rushlight.as_torch`."""
    present = sys.modules.get("torch")
    if present is rushlight:
        return rushlight
    if present is not None:
        raise RuntimeError(
            f"as_torch: torch is imported already, from {getattr(present, '__file__', None)}; "
            "call as_torch before that"
        )
    sys.meta_path.insert(0, _Finder())
    rushlight.__version__ = TorchVersion(f"{_IMPLEMENTED}+rushlight{rushlight.__version__}")
    for name, module in list(sys.modules.items()):
        if _is_ours(name) and name != "rushlight._C":
            _rename(module)
    # What lies below the compiled module, in the folder that has its stubs.
    rushlight._C.__path__ = [f"{rushlight.__path__[0]}/_C"]
    rushlight.torch = importlib.import_module("torch")
    rushlight.__name__ = "torch"  # patches of modules' members, such as Pyro's, compare it
    for name in _BROUGHT_ALONG.keys() & sys.modules.keys():
        _bring_along(sys.modules[name])
    if "multiprocessing.spawn" in sys.modules:
        _activate_in_spawned_processes(sys.modules["multiprocessing.spawn"])
    return rushlight


def reach_children() -> None:
    """Let `import torch` give rushlight in Python programs that this one starts, such as ranks."""
    folder = os.path.join(rushlight.__path__[0], "_for_children")
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    others = [path for path in paths if path not in ("", folder)]
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *others])


def _bring_along(package):
    """Let modules that torch imports be found in their package; each is imported when it is."""
    before = vars(package).get("__getattr__")

    def find(name):
        if name in _BROUGHT_ALONG[package.__name__]:
            return importlib.import_module(f"{package.__name__}.{name}")
        if before:
            return before(name)
        raise AttributeError(
            f"module {package.__name__!r} has no attribute {name!r}", name=name, obj=package
        )

    package.__getattr__ = find


def _is_ours(name):
    return name == "rushlight" or name.startswith("rushlight.")


class _Finder:
    """Finds `torch` and its submodules in rushlight; lets those of rushlight say that they are
    torch's.
    """

    def find_spec(self, name: str, path: str | None = None, target: Tensor | None = None) -> Any:
        top = name.partition(".")[0]
        if top == "torch":
            found = _spec_of_twin(name)
            if found is None and _is_imported():
                raise ModuleNotFoundError(f"No module named {name!r}: {_advice()}", name=name)
            return found
        if top == "rushlight":
            return _spec_with_sequel(name, path, _rename)
        if name in _BROUGHT_ALONG:
            return _spec_with_sequel(name, path, _bring_along)
        if name == "multiprocessing.spawn":
            return _spec_with_sequel(name, path, _activate_in_spawned_processes)
        if top == "functorch":
            return _spec_of_twin(name)
        if name == "mpi4py.MPI":
            from rushlight.distributed._mpi_import import spec_of_mpi

            return spec_of_mpi(self, path, target)
        if name in _BUILT_ON_TORCH and _is_imported():
            return _refused_if_linked(name, path)
        return None

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        if context is not None and context.name is not None and context.name.lower() == "torch":
            yield _distribution()

    def invalidate_caches(self) -> None:
        """Nothing is cached."""


def _is_imported():
    """Does an import ask, and not importlib.util.find_spec, which wants None for what is not there?

    Called from find_spec of the finder, whose callers in importlib are `_find_spec` and, for an
    import, this one.
    """
    return sys._getframe(3).f_code.co_name == "_find_and_load_unlocked"


def _refused_if_linked(name, path):
    """None for a package that is not installed, or without compiled parts: others are refused."""
    spec = importlib.machinery.PathFinder.find_spec(name, path)
    if spec is None or not _is_linked_with_torch(spec) or _loads_operations_alone(spec):
        return None
    raise ImportError(
        f"{name} is linked with PyTorch's own libraries and cannot run on rushlight, which is "
        "`torch` in this process; a version without compiled parts could, or uninstall it where "
        "it is optional",
        name=name,
    )


def _loads_operations_alone(spec):
    """Is it a torchaudio whose compiled parts are libraries of operations, and no modules?"""
    import glob

    if spec.name != "torchaudio":
        return False
    contents = []
    for folder in spec.submodule_search_locations or ():
        for path in glob.glob(os.path.join(folder, "lib", "_torchaudio.*")):
            with open(path, "rb") as stream:
                contents.append(stream.read())
    return bool(contents) and not any(b"PyInit_" in content for content in contents)


def _is_linked_with_torch(spec):
    """Is it an extension module that names a library of torch, or a package that has one?"""
    files = [] if spec.submodule_search_locations else [spec.origin]
    for folder in spec.submodule_search_locations or ():
        files += (os.path.join(path, file) for path, _, names in os.walk(folder) for file in names)
    for file in files:
        if file and file.endswith((".so", ".pyd", ".dylib")):
            with open(file, "rb") as stream:
                content = stream.read()
            if b"libtorch" in content or b"libc10" in content:
                return True
    return False


def _spec_of_twin(name):
    twin = f"rushlight.{name}"
    if name.partition(".")[0] == "torch":
        twin = "rushlight" + name.removeprefix("torch")
    found = importlib.util.find_spec(twin)
    if found is None:
        return None
    is_package = found.submodule_search_locations is not None
    return importlib.machinery.ModuleSpec(
        name, _TwinLoader(twin), origin=found.origin, is_package=is_package
    )


class _TwinLoader:
    """Gives a module of rushlight to the import of its twin in torch."""

    def __init__(self, twin: Any) -> None:
        self.twin = twin

    def create_module(self, spec: Any) -> Any:
        module = importlib.import_module(self.twin)
        self.spec_of_module = module.__spec__
        return module

    def exec_module(self, module: Module) -> None:
        module.__spec__ = self.spec_of_module  # the import replaced it by that of the twin

    def get_code(self, name: str) -> Any:
        """What `python -m` runs."""
        found = importlib.util.find_spec(self.twin)
        return found.loader.get_code(self.twin)  # type: ignore[union-attr]


def _spec_with_sequel(name, path, sequel):
    """The spec of a module after whose import `sequel(module)` runs."""
    spec = importlib.machinery.PathFinder.find_spec(name, path)
    if spec is None or not isinstance(spec.loader, importlib.machinery.SourceFileLoader):
        return spec
    run = spec.loader.exec_module

    def exec_module(module):
        run(module)
        sequel(module)

    spec.loader.exec_module = exec_module
    return spec


def _advice():
    return "rushlight, which is `torch` here, does not have it; docs/coverage.md lists what it has"


def _rename(module):
    """Let a module of rushlight, and what is public in it, say that it is torch's."""
    twin = "torch" + module.__spec__.name.removeprefix("rushlight")
    if twin != "torch":
        sys.modules.setdefault(twin, module)  # where `inspect` and `typing` look
    for name, value in list(vars(module).items()):
        home = value.__module__ if isinstance(value, _NAMED) else None
        # Of private objects those that pickles name: what rebuilds tensors, and kinds of dtypes.
        if name.startswith("_") and not name.startswith("_rebuild") and home != "rushlight":
            continue
        if isinstance(home, str) and _is_ours(home):
            set_module("torch" + home.removeprefix("rushlight"), value)
    _name_what_is_missing(module)


def _name_what_is_missing(module):
    """Give the module a `__getattr__` that imports modules inside of it, as torch has imported most
    of its own, and whose errors say the name by which a program for torch knows it.
    """
    torch_name = "torch" + module.__name__.removeprefix("rushlight")
    own = vars(module).get("__getattr__")

    def __getattr__(name):
        if own is not None:
            try:
                return own(name)
            except AttributeError as error:
                if error.__traceback__.tb_next.tb_next is not None:  # it comes from further inside
                    raise
        if name == "torch":  # which torch's modules import, and pickles find there
            return rushlight
        if name in _modules_inside(module):
            return importlib.import_module(f"{torch_name}.{name}")
        frame = sys._getframe(1)
        if frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM and not name.startswith("__"):
            # An AttributeError would be replaced by one that says rushlight, and nothing of why.
            raise ImportError(
                f"cannot import name {name!r} from {torch_name!r}: {_advice()}", name=torch_name
            )
        raise AttributeError(
            f"module {torch_name!r} has no attribute {name!r}: {_advice()}", name=name, obj=module
        )

    module.__getattr__ = __getattr__


@functools.cache
def _modules_inside(module):
    """The names of the files and folders of a package."""
    found = set()
    for folder in vars(module).get("__path__", ()):
        try:
            entries = os.listdir(folder)
        except OSError:  # what a package in Python has below it need not be a folder
            continue
        for entry in entries:
            name, _, kind = entry.partition(".")
            if kind == "py" or (not kind and os.path.isdir(os.path.join(folder, entry))):
                found.add(name)
    return found - {"__init__", "__main__", "__pycache__", "lib", "include"}


def _distribution():
    from importlib.metadata import Distribution  # with the next: 20 ms, which few programs need
    from pathlib import Path

    class Torch(Distribution):
        """What importlib.metadata tells about `torch`."""

        def read_text(self, filename):
            if filename != "METADATA":
                return None
            return f"Metadata-Version: 2.1\nName: torch\nVersion: {rushlight.__version__}\n"

        def locate_file(self, path):
            return Path(rushlight.__path__[0]).parent / path

    return Torch()


class _InChild:
    """Unpickled at the start of a spawned process, before its main module is imported."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (
            f"import sys\nsys.path[:] = {sys.path!r}\nimport rushlight\nrushlight.as_torch()",
        )


def _activate_in_spawned_processes(spawn):
    """Carry the alias into processes that multiprocessing starts by spawn or by forkserver."""
    prepare = spawn.get_preparation_data

    def get_preparation_data(name):
        return {"rushlight": _InChild(), **prepare(name)}

    spawn.get_preparation_data = get_preparation_data
