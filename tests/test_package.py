"""What installing and importing rushlight costs, and what the package holds."""

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import sanitizers

import rushlight

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).parent.parent
PACKAGE = Path(rushlight.__file__).parent
MEGABYTE = 1_000_000


def run(program):
    """Standard output of `program` in a fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout


def test_import_is_light():
    loaded = run(
        "import sys; before = set(sys.modules)\n"
        "import rushlight; print(*sorted(set(sys.modules) - before))"
    ).split()
    assert not {"numpy", "scipy", "inspect", "dataclasses", "multiprocessing"} & set(loaded)
    assert len(loaded) <= 15, loaded


def test_it_works_without_numpy():
    run(
        "import sys; sys.modules['numpy'] = None\n"
        "import rushlight as rl\n"
        "x = rl.tensor([1.0, 2.0], requires_grad=True)\n"
        "(x * x).sum().backward()\n"
        "assert x.grad.tolist() == [2.0, 4.0]"
    )


def test_the_version_stands_in_one_place():
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in table["project"]["dynamic"] and "version" not in table["project"]
    source = ROOT / table["tool"]["scikit-build"]["metadata"]["version"]["input"]
    assert f'__version__ = "{rushlight.__version__}"' in source.read_text()


def test_package_is_typed():
    assert (PACKAGE / "py.typed").exists()


@pytest.mark.skipif(sanitizers.ADDRESS, reason="instrumented code is big")
def test_installed_size():
    files = [p for p in PACKAGE.rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    assert sum(p.stat().st_size for p in files) <= 45 * MEGABYTE


def test_the_bundled_library_has_no_unwind_tables_and_protects_its_relocations():
    """What cmake/drop_unwind_tables.py makes of OpenBLAS."""
    image = (PACKAGE / "lib" / "libscipy_openblas.so").read_bytes()
    (begin,) = struct.unpack_from("<Q", image, 32)
    size, count = struct.unpack_from("<2H", image, 54)
    kinds = [struct.unpack_from("<I", image, begin + i * size)[0] for i in range(count)]
    unwinding, read_only = 0x6474E550, 0x6474E552
    assert unwinding not in kinds and kinds.count(read_only) == 1


def test_the_library_is_the_bundled_one():
    """Not a copy that happens to lie elsewhere on the machine."""
    library = "libscipy_openblas.so"
    maps = run("import rushlight; print(open('/proc/self/maps').read())")
    loaded = {line.split()[-1] for line in maps.splitlines() if library in line}
    assert loaded == {str((PACKAGE / "lib" / library).resolve())}


def test_the_bill_of_materials_is_of_these_versions():
    root = Path(__file__).resolve().parent.parent
    command = [sys.executable, "-c", "import sbom; print(sbom.write(), end='')"]
    made = subprocess.check_output(command, cwd=root / "tools", text=True)
    assert (root / "licenses" / "sbom.cdx.json").read_text() == made, "run `make sbom`"
    assert rushlight.__version__ in made


@pytest.mark.skipif(not shutil.which("nm"), reason="needs nm, of binutils")
def test_nothing_is_destroyed_at_exit():
    """Daemon threads compute until the process ends: what they use outlives static destruction."""
    (module,) = Path(rushlight._C.__file__).parent.glob("_C*.so")
    symbols = subprocess.run(
        ["nm", "-D", "--undefined-only", module], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    assert "__cxa_thread_atexit" in symbols
    assert "__cxa_atexit" not in symbols
