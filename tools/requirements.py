"""Prints what pip must install, for the purposes named as arguments.

    python tools/requirements.py build test > requirements.txt

`build` is pyproject.toml's build requirements, and cmake and ninja where the machine lacks them;
any other purpose is one of its extras. So pyproject.toml stays the one list.
"""

import shutil
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10: the copy that pip carries
    from pip._vendor import tomli as tomllib

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"


def requirements(purposes):
    table = tomllib.loads(PYPROJECT.read_text())
    for purpose in purposes:
        if purpose == "build":
            yield from table["build-system"]["requires"]
            yield from (tool for tool in ("cmake", "ninja") if not shutil.which(tool))
        else:
            yield from table["project"]["optional-dependencies"][purpose]


print("\n".join(dict.fromkeys(requirements(sys.argv[1:]))))
