"""Packs what a cross build installed into a wheel, with the metadata of pyproject.toml.

    python tools/pack_wheel.py INSTALLED FOLDER --tag cp313-cp313-linux_aarch64
    python tools/pack_wheel.py INSTALLED FOLDER --pyodide PACKAGE --without .pyi .h --most 6000000
    python tools/pack_wheel.py INSTALLED FOLDER --cpp --tag py3-none-linux_x86_64

INSTALLED is the folder of the packages, FOLDER where the wheel goes, PACKAGE that of the npm
package `pyodide`, which says the tag. With `--cpp` it is the wheel of the C++ library. The same
files give the same bytes. Fails if the wheel has more than `--most` bytes. (`make wheel` has pip
make one for this machine.)
"""

import argparse
import base64
import hashlib
import json
import re
import zipfile
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CPP = PROJECT | {
    "name": "rushlight-cpp",
    "description": "The C++ library of rushlight, with headers and a CMake package",
    "readme": "docs/guide/cpp.md",
    "optional-dependencies": {},
    "entry-points": {},
}
TIME = (2020, 1, 1, 0, 0, 0)


def version() -> str:
    text = (ROOT / "python/rushlight/_version.py").read_text()
    found = re.search(r'__version__ = "(.*)"', text)
    assert found, "no version in _version.py"
    return found[1]


def tag_of_pyodide(package: Path) -> str:
    """The tag of wheels for that Pyodide: Python's version, and the year of its conventions."""
    info = json.loads((package / "pyodide-lock.json").read_text())["info"]
    python = "cp" + "".join(info["python"].split(".")[:2])
    return f"{python}-{python}-pyemscripten_{info['abi_version']}_wasm32"


def core_metadata(project: dict, licence: str, licences: dict[str, bytes]) -> str:
    lines = ["Metadata-Version: 2.4", f"Name: {project['name']}", f"Version: {version()}",
             f"Summary: {project['description']}", f"License-Expression: {licence}",
             *(f"License-File: {path}" for path in sorted(licences)),
             *(f"Classifier: {c}" for c in project["classifiers"]),
             f"Requires-Python: {project['requires-python']}"]  # fmt: skip
    for extra, needed in project["optional-dependencies"].items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {name}; extra == "{extra}"' for name in needed]
    lines += ["Description-Content-Type: text/markdown", "", (ROOT / project["readme"]).read_text()]
    return "\n".join(lines)


def licence_files(own_alone: bool) -> dict[str, bytes]:
    patterns = ["LICENSE"] if own_alone else PROJECT["license-files"]
    found = [path for pattern in patterns for path in ROOT.glob(pattern)]
    return {p.relative_to(ROOT).as_posix(): p.read_bytes() for p in found if p.is_file()}


def information(project: dict, tag: str, own_alone: bool) -> dict[str, bytes]:
    """The files of the .dist-info folder but RECORD."""
    points = []
    for group, entries in project.get("entry-points", {}).items():
        points += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    wheel = f"Wheel-Version: 1.0\nGenerator: pack_wheel\nRoot-Is-Purelib: false\nTag: {tag}\n"
    licences = licence_files(own_alone)
    licence = "BSD-3-Clause" if own_alone else PROJECT["license"]
    texts = {"METADATA": core_metadata(project, licence, licences), "WHEEL": wheel,
             "entry_points.txt": "\n".join(points) + "\n"}  # fmt: skip
    files = {name: text.encode() for name, text in texts.items()}
    return files | {f"licenses/{name}": content for name, content in licences.items()}


def record_line(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}"


def pack(project: dict, installed: Path, folder: Path, tag: str, without: set[str]) -> Path:
    base = f"{project['name'].replace('-', '_')}-{version()}"
    files = {
        path.relative_to(installed).as_posix(): path.read_bytes()
        for path in sorted(installed.rglob("*"))
        if path.is_file() and path.suffix not in without | {".pyc"}
    }
    own_alone = not any("openblas" in name for name in files)  # bundles no library of others
    found = information(project, tag, own_alone)
    files |= {f"{base}.dist-info/{name}": content for name, content in found.items()}
    lines = [record_line(name, content) for name, content in files.items()]
    record = f"{base}.dist-info/RECORD"
    files[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{base}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, TIME)
            entry.external_attr = (0o755 if ".so" in name else 0o644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
    return wheel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("installed", type=Path)
    parser.add_argument("folder", type=Path)
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--tag")
    kind.add_argument("--pyodide", type=Path)
    parser.add_argument("--cpp", action="store_true")
    parser.add_argument("--without", nargs="*", default=[])
    parser.add_argument("--most", type=int)
    given = parser.parse_args()
    tag = given.tag or tag_of_pyodide(given.pyodide)
    project = CPP if given.cpp else PROJECT
    wheel = pack(project, given.installed, given.folder, tag, set(given.without))
    size = wheel.stat().st_size
    print(f"{wheel}: {size:,} bytes")
    if given.most is not None and size > given.most:
        raise SystemExit(f"the wheel has {size:,} bytes; at most {given.most:,} were promised")


if __name__ == "__main__":
    main()
