"""Writes licenses/sbom.cdx.json: what a wheel is made of, as CycloneDX 1.6 (`make sbom`).

The versions of the libraries are those that pyproject.toml builds with, so the file changes when
they do; tests/test_package.py compares. The licences are those of licenses/README.md.
"""

import json
import re
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10: the copy that pip carries
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "licenses" / "sbom.cdx.json"
# Build requirement: the library that a wheel carries of it, and its licence.
LIBRARIES = {
    "scipy-openblas32": ("OpenBLAS", "libscipy_openblas.so", "BSD-3-Clause"),
}


def requirements():
    """The build's requirements: name to what is said of the version."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())
    split = (re.match(r"([\w-]+)(.*)", text) for text in table["build-system"]["requires"])
    return {match[1]: match[2] for match in split}


def component(name, file, licence, version, purl=None):
    found = {"type": "library", "name": name, "version": version}
    if purl:
        found["purl"] = purl
    found["licenses"] = [{"expression": licence}]
    found["properties"] = [{"name": "file", "value": f"rushlight/lib/{file}"}]
    return found


def write():
    """The document as text."""
    source = (ROOT / "python" / "rushlight" / "_version.py").read_text()
    version = re.search(r'__version__ = "(.*)"', source)
    needed = requirements()
    parts = []
    for package, (name, file, licence) in LIBRARIES.items():
        exact = needed[package].removeprefix("==")
        purl = f"pkg:pypi/{package}@{exact}" if needed[package].startswith("==") else None
        parts.append(component(name, file, licence, exact, purl))
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "name": "rushlight",
                "version": version[1],
                "licenses": [{"expression": "BSD-3-Clause"}],
                "purl": f"pkg:pypi/rushlight@{version[1]}",
            }
        },
        "components": parts,
    }
    return json.dumps(document, indent=2) + "\n"


if __name__ == "__main__":
    OUT.write_text(write())
    print(OUT)
