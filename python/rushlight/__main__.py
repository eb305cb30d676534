"""Runs a program written for torch, unchanged: python -m rushlight (script.py | -m module | -c
code | -) [arguments].
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import PathFinder, SourceFileLoader
from types import ModuleType

import rushlight
from rushlight._alias import reach_children

_USAGE = """usage: python -m rushlight (SCRIPT | -m MODULE | -c CODE | -) [ARGUMENTS]

Runs a Python program in which `import torch` gives rushlight. SCRIPT may be a file, or a folder or
zip archive with a __main__.py; - reads the program from the standard input."""


def _fail(message, status=2):
    print(message, file=sys.stderr)
    raise SystemExit(status)


def _set_first_path(folder):
    """Put `folder` where Python put that of this program; with -P or -I there is no such entry."""
    if not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated:
        sys.path[0] = folder


def _of_module(name):
    """(code, spec) of what `python -m name` runs."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except ModuleNotFoundError as error:
        _fail(
            f"{sys.executable}: Error while finding module specification for {name!r} ({error})", 1
        )
    code = spec.loader.get_code(spec.name) if spec is not None and spec.loader is not None else None
    if code is None:
        _fail(f"{sys.executable}: No module named {name}, or it cannot be run", 1)
    return code, spec


def _of_file(path):
    """(code, spec) of a script, or of the __main__.py in a folder or archive."""
    found = PathFinder.find_spec("__main__", [path])
    if found is not None:
        return found.loader.get_code("__main__"), found
    try:
        with open(path, "rb") as file:
            return compile(file.read(), os.path.abspath(path), "exec", dont_inherit=True), None
    except OSError as error:
        why = f"[Errno {error.errno}] {error.strerror}"
        _fail(f"{sys.executable}: can't open file {os.path.abspath(path)!r}: {why}")


def _show_without_this_file(kind, error, traceback):
    """The exception hook: the traceback begins where the program does."""
    entry, ours = traceback, None
    while entry is not None:
        if entry.tb_frame.f_globals is globals():
            ours = entry
        entry = entry.tb_next
    if ours is not None:
        traceback = ours.tb_next
    sys.__excepthook__(kind, error.with_traceback(traceback), traceback)


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(_USAGE)
        raise SystemExit(0 if len(sys.argv) > 1 else 2)
    rushlight.as_torch()
    reach_children()
    sys.excepthook = _show_without_this_file
    first, rest = sys.argv[1], sys.argv[2:]
    if first in ("-m", "-c") and not rest:
        _fail(f"python -m rushlight: argument expected for the {first} option\n{_USAGE}")
    # A module of its own, in the place of this one, for as long as the process lives: pickles,
    # threads and functions that
    # run at exit find it.
    program = ModuleType("__main__")
    program.__builtins__ = __builtins__
    sys.modules["__main__"] = program
    if first == "-m":
        sys.argv[:] = ["-m", *rest[1:]]
        code, spec = _of_module(rest[0])
        sys.argv[0] = spec.origin
    elif first == "-c":
        sys.argv[:] = ["-c", *rest[1:]]
        _set_first_path("")
        code, spec = compile(rest[0], "<string>", "exec", dont_inherit=True), None
    elif first == "-":
        sys.argv[:] = ["-", *rest]
        _set_first_path("")
        code, spec = compile(sys.stdin.read(), "<stdin>", "exec", dont_inherit=True), None
    elif first.startswith("-"):
        _fail(f"python -m rushlight: unknown option {first}\n{_USAGE}")
    else:
        sys.argv[:] = [first, *rest]
        code, spec = _of_file(first)
        _set_first_path(first if spec is not None else os.path.dirname(os.path.realpath(first)))
        program.__file__ = os.path.abspath(first)
        program.__loader__ = SourceFileLoader("__main__", program.__file__)
    if spec is not None:
        program.__spec__, program.__loader__, program.__package__ = spec, spec.loader, spec.parent
        program.__file__, program.__cached__ = spec.origin, spec.cached
    exec(code, vars(program))


main()
