"""Makes the headers of Pyodide's Python out of those of the same version for another processor.

    python tools/pyodide_headers.py PYODIDE HEADERS CONFIG FOLDER

PYODIDE is the folder of the npm package `pyodide`, whose standard library says how its Python was
configured; HEADERS that of some Python.h of the same minor version, and CONFIG its pyconfig.h.
FOLDER is written.
"""

import re
import runpy
import shutil
import sys
import zipfile
from pathlib import Path

NAME = "_sysconfigdata__emscripten_wasm32-emscripten.py"
SETTING = re.compile(r"^(?:#define\s+(\w+)|/\*\s*#undef\s+(\w+)\s*\*/)", re.MULTILINE)


def settings_of(pyodide: Path, scratch: Path) -> dict[str, object]:
    """What that Python was configured with: of pyconfig.h and of its Makefile alike."""
    with zipfile.ZipFile(pyodide / "python_stdlib.zip") as library:
        (scratch / "settings.py").write_bytes(library.read(NAME))
    return runpy.run_path(str(scratch / "settings.py"))["build_time_vars"]


def config_text(names: list[str], settings: dict[str, object]) -> str:
    lines = ["/* Made by tools/pyodide_headers.py. */", "#pragma once"]
    for name in names:
        value = settings.get(name)
        unset = value is None or value == 0 or value == ""
        lines.append(f"/* #undef {name} */" if unset else f"#define {name} {value}")
    return "\n".join(lines) + "\n"


def main(pyodide: str, headers: str, config: str, folder: str) -> None:
    target = Path(folder)
    shutil.copytree(headers, target, dirs_exist_ok=True)
    settings = settings_of(Path(pyodide), target)
    version = re.search(r'PY_VERSION\s+"(\d+\.\d+)', (target / "patchlevel.h").read_text())
    if not version or version[1] != settings["VERSION"]:
        raise SystemExit(f"{headers} are of Python {version and version[1]}, and Pyodide's is"
                         f" {settings['VERSION']}")  # fmt: skip
    names = [a or b for a, b in SETTING.findall(Path(config).read_text())]
    (target / "pyconfig.h").write_text(config_text(list(dict.fromkeys(names)), settings))


if __name__ == "__main__":
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
