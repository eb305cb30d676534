"""Writes a Markdown page per public module from its docstrings: python docs/build.py FOLDER."""

import importlib
import inspect
import pkgutil
import sys
from pathlib import Path

import rushlight


def public_modules():
    yield rushlight
    for info in pkgutil.walk_packages(rushlight.__path__, "rushlight."):
        if any(part.startswith("_") for part in info.name.split(".")):
            continue
        try:
            yield importlib.import_module(info.name)
        except ModuleNotFoundError as error:  # an optional library
            print(f"left out: {error}")


def public_names(module):
    names = getattr(module, "__all__", None) or sorted(vars(module))
    return [name for name in names if not name.startswith("_")]


def signature(value):
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):  # a C function with overloads has no single signature
        return "(...)"


def entry(name, value):
    text = inspect.getdoc(value) or ""
    heading = f"class {name}" if isinstance(value, type) else name
    return f"### {heading}\n\n```\n{name}{signature(value)}\n```\n\n{text}\n"


def page(module):
    parts = [f"# {module.__name__}\n\n{inspect.getdoc(module) or ''}\n"]
    for name in public_names(module):
        value = getattr(module, name)
        home = getattr(value, "__module__", None) or ""
        if callable(value) and home.startswith("rushlight"):
            parts.append(entry(f"{module.__name__}.{name}", value))
    return "\n".join(parts)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for module in public_modules():
        (folder / f"{module.__name__}.md").write_text(page(module))
        written.append(f"- [{module.__name__}]({module.__name__}.md)")
    (folder / "index.md").write_text("# rushlight\n\n" + "\n".join(written) + "\n")
    print(f"{len(written)} pages in {folder}/")


main(Path(sys.argv[1]))
