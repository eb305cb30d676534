"""Which optional arguments of a function change something that can be seen: for the tests of
namespaces whose functions take functions, modules or states.
"""

import importlib
import inspect
import types
import warnings

from test_arguments import some_has_effect
from test_arguments_of_functions import seen_of
from test_arguments_of_services import with_options

import rushlight as rl
from rushlight import _ignored


def found(name):
    space, _, last = name.rpartition(".")
    return getattr(importlib.import_module(f"rushlight.{space}".rstrip(".")), last)


def in_python(space):
    """The functions and classes in Python that a namespace has with optional arguments, without
    modules and errors.
    """
    known = {}
    for name, value in with_options(space):
        is_class = inspect.isclass(value)
        if isinstance(value, types.BuiltinFunctionType) or (
            is_class and issubclass(value, (BaseException, rl.nn.Module, types.ModuleType))
        ):
            continue
        if str(value.__module__).startswith("rushlight"):
            known[name.lstrip(".")] = value
    return known


def look(value):
    """All that can be seen of a result."""
    if isinstance(value, (tuple, list)):
        return [look(part) for part in value]
    if isinstance(value, dict):
        return {key: look(part) for key, part in value.items()}
    return "meta" if isinstance(value, rl.Tensor) and value.is_meta else seen_of(value)


def has_effect(call, name, values):
    """Whether another value of an argument changes what a call gives, is refused or warned of."""

    def run(value):
        rl.manual_seed(0)
        _ignored._warned.clear()  # what is said once is said again
        return look(call(**({} if value is usual else {name: value})))

    usual = object()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = run(usual)
    return some_has_effect(run, expected, values)


def ignored(function, calls, values):
    """The optional arguments that change nothing in any of the calls.

    Args:
        function: whose signature has them.
        calls: functions that call it, with further arguments by name.
        values: other values than the default, by name of the argument. For the others there are
            those of booleans and numbers.
    """
    left = []
    for p in inspect.signature(function).parameters.values():
        if p.default is p.empty or p.name.startswith("_"):
            continue
        others = values.get(p.name)
        if others is None and isinstance(p.default, bool):
            others = [not p.default]
        if others is None and isinstance(p.default, (int, float)):
            others = [p.default + 1, p.default * 0.5 + 0.2]
        assert others is not None, f"no other value of {p.name} is known"
        if not any(has_effect(call, p.name, others) for call in calls):
            left.append(p.name)
    return left
