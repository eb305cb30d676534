"""Prints what pip must install to build rushlight here, with the extras named as arguments.

    python tools/requirements.py test examples | pip install -r /dev/stdin

pyproject.toml is the one list: its build requirements, the extras, and cmake and ninja where the
machine has none.
"""

import shutil
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10: the copy that pip carries
    from pip._vendor import tomli as tomllib


def requirements(extras):
    table = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    yield from table["build-system"]["requires"]
    for extra in extras:
        yield from table["project"]["optional-dependencies"][extra]
    for tool in ("cmake", "ninja"):
        if not shutil.which(tool):
            yield tool


print("\n".join(dict.fromkeys(requirements(sys.argv[1:]))))
