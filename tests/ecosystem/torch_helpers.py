"""A plugin for pytest: PyTorch's own tests, run by rushlight.

They stand on `torch.testing._internal`, which comes from the installed torch here. That names much
of torch's inside; what rushlight does not have of it becomes a class whose use in a test raises
NotImplementedError and names it, so that a test fails by what it uses and not by what its file
imports.
"""

import ast
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import opcode
import os
import sys
import types
from pathlib import Path

import pytest

# Before `torch` is rushlight's.
HELPERS = f"{importlib.util.find_spec('torch').submodule_search_locations[0]}/testing"

import rushlight  # noqa: E402
import rushlight.testing  # noqa: E402
from rushlight import _alias  # noqa: E402
from rushlight.library._operator import Namespace  # noqa: E402

torch = rushlight.as_torch()
rushlight.testing.__path__.insert(0, HELPERS)


class _AbsentType(type):
    def __getattr__(cls, name):
        if name.startswith("__") or not _by_helpers(sys._getframe(1)):
            raise AttributeError(f"absent: {cls.__name__}.{name}")
        return absent(f"{cls.__name__}.{name}")

    def __iter__(cls):
        if not _by_helpers(sys._getframe(1)):
            raise NotImplementedError(f"absent: {cls.__name__}")
        return iter(())


class _Absent(metaclass=_AbsentType):
    def __new__(cls, *args, **kwargs):
        # A question about the build, while they or a file of tests are imported.
        if _by_helpers(sys._getframe(1)) or _is_of_file(sys._getframe(1)):
            return False
        raise NotImplementedError(f"absent: {cls.__name__}")


def absent(name):
    """What stands for a name that rushlight does not have."""
    return _AbsentType(name, (_Absent,), {"__module__": "torch"})


def _by_helpers(frame):
    return frame.f_code.co_filename.startswith(HELPERS)


def _is_of_file(frame):
    """Is it the code of a file, or of a class, rather than that of a function?"""
    return not frame.f_code.co_flags & inspect.CO_OPTIMIZED


_LOADS = [opcode.opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD") if name in opcode.opmap]
_TABLES = ("common_methods_invocations", "/opinfo/definitions", "common_modules")


def _is_tolerated(frame, module):
    """May the code of a frame have a name that the module has not? Questions by hasattr may not."""
    instruction = frame.f_code.co_code[frame.f_lasti]
    if instruction == _alias._IMPORT_FROM:
        return _is_of_file(frame) or _by_helpers(frame)
    if instruction in _LOADS and _is_of_file(frame):
        return True
    return _by_helpers(frame) and (
        any(part in frame.f_code.co_filename for part in _TABLES)
        or module.__name__.endswith("_C")
        or frame.f_code.co_name == "_getattr_qual"
    )


def _give_absent_names(module):
    own = vars(module).get("__getattr__")

    def __getattr__(name):
        try:
            if own is None:
                raise AttributeError(name)
            return own(name)
        except (AttributeError, ImportError):
            if name.startswith("__") or not _is_tolerated(sys._getframe(1), module):
                raise
            return absent(f"{module.__name__}.{name}")

    module.__getattr__ = __getattr__


def _also(module, sequel=_alias._name_what_is_missing):
    sequel(module)
    _give_absent_names(module)


_alias._name_what_is_missing = _also
for _name, _module in list(sys.modules.items()):
    if _name.partition(".")[0] == "rushlight" and "testing._internal" not in _name:
        _give_absent_names(_module)


def _with_absent_operations(of_namespace):
    def __getattr__(self, name):
        try:
            return of_namespace(self, name)
        except AttributeError:
            if name.startswith("__") or not _by_helpers(sys._getframe(1)):
                raise
            return absent(f"{self.__name__}.{name}")

    return __getattr__


class _AbsentModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules below torch that rushlight does not have."""

    def find_spec(self, name, path=None, target=None):
        if not name.startswith(("torch.", "functorch.")) or _is_there(name):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__, module.__all__ = [], []
        module.__getattr__ = lambda name: _dunder(name) or absent(f"{spec.name}.{name}")
        return module

    def exec_module(self, module):
        """Nothing is in it."""


def _is_there(name):
    try:
        return _alias._spec_of_twin(name) is not None
    except ModuleNotFoundError:  # what it is inside of
        return False


def _dunder(name):
    if name.startswith("__"):
        raise AttributeError(name)


def _from_torch(name, path):
    """A module of the installed torch that asks for nothing of it."""
    spec = importlib.util.spec_from_file_location(name, HELPERS.removesuffix("testing") + path)
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


class _HooksOfAllModules(types.ModuleType):
    """Tests put new dicts in the place of those that the hooks of all modules are in."""

    def __setattr__(self, name, value):
        if name.startswith("_global_") and hasattr(value, "items"):
            hooks = getattr(torch.nn.modules._hooks, name)
            hooks.clear()
            hooks.update(value)
        else:
            super().__setattr__(name, value)


def _rules_are_absent(operation, key):
    """`py_impl` of an operation of higher order, which has none here."""
    return lambda rule: absent(f"{operation.__name__}.py_impl")


importlib.import_module("torch.nn.modules.module").__class__ = _HooksOfAllModules
sys.meta_path.insert(0, _AbsentModules())
Namespace.__getattr__ = _with_absent_operations(Namespace.__getattr__)
for _name in ("torch._prims_common", "torch.distributed.fsdp._fully_shard"):
    importlib.import_module(_name).__path__ = []  # so that modules in it are found to be absent
_from_torch("torch.utils._import_utils", "utils/_import_utils.py")
importlib.import_module("torch._prims_common.wrappers")._maybe_remove_out_wrapper = lambda f: f
importlib.import_module("torch._utils_internal").get_file_path_2 = os.path.join
rushlight._C._DisableFuncTorch = contextlib.nullcontext
torch._is_functional_tensor = lambda tensor: False
torch.distributed._set_thread_isolation_mode = lambda on: None
torch.cuda.jiterator = types.SimpleNamespace(
    _create_jit_fn=lambda *a, **k: absent("jiterator"),
    _create_multi_output_jit_fn=lambda *a, **k: absent("jiterator"),
)
torch.backends.python_native = types.SimpleNamespace(available_dsls=[])
torch.cuda._HAS_PYNVML = False
importlib.import_module("torch._functorch.eager_transforms")._as_tuple = lambda value: (
    value if isinstance(value, tuple) else (value,)
)
importlib.import_module("torch.jit._recursive").ConcreteTypeStore = list  # of no compiled class
importlib.import_module("torch.jit._state")._clear_class_state = lambda: None
torch._ops.HigherOrderOperator.py_impl = _rules_are_absent
torch._C._functorch.TransformType = types.SimpleNamespace(Vmap=1, Grad=2)
rushlight._C._TorchFunctionState = types.SimpleNamespace(
    ENABLED=0, SUBCLASSES_DISABLED=1, ALL_DISABLED=2
)


def _table_of_arguments():
    """torch's table of functions and their arguments, but for functions that rushlight lacks."""
    name = "torch.testing._internal.generated.annotated_fn_args"
    tree = ast.parse(Path(HELPERS, "_internal/generated/annotated_fn_args.py").read_text())
    (table,) = (node.value for node in tree.body if isinstance(node, ast.Assign))
    module = sys.modules[name] = types.ModuleType(name)
    module.annotated_args = {}
    for key, arguments in zip(table.keys, table.values, strict=True):
        with contextlib.suppress(AttributeError):
            function = eval(compile(ast.Expression(key), name, "eval"), {"torch": torch})
            module.annotated_args[function] = ast.literal_eval(arguments)


_table_of_arguments()


def _masked_tensors_of_tests():
    """What the tests of masked tensors compare with: torch's own, of Python alone."""
    package = "torch.masked.maskedtensor"
    sys.modules[package] = types.ModuleType(package)
    sys.modules["torch.masked._docs"] = types.ModuleType("torch.masked._docs")
    for part in ("core", "creation", "unary", "binary", "reductions"):
        module = _from_torch(f"{package}.{part}", f"masked/maskedtensor/{part}.py")
        for name in torch.masked.__all__[:4]:  # the class and its constructors are rushlight's
            if hasattr(module, name):
                setattr(module, name, getattr(torch.masked, name))
    steps = _from_torch("masked_steps", "masked/_ops.py")
    for name in ("_canonical_dim", "_combine_input_and_mask", "_input_mask", "_output_mask",
                 "_reduction_identity", "_where"):  # fmt: skip
        setattr(torch.masked, name, getattr(steps, name))


_masked_tensors_of_tests()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Tests that are named after classes have the same names with both libraries."""
    for item in items:
        name = item.nodeid.replace("_rushlight_nn_", "_nn_")
        item._nodeid = name.replace("::test__TensorBase_", "::test_TensorBase_")
