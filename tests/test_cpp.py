"""The C++ core without Python: it builds from its own layers alone and keeps its promises."""

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CXX = os.environ.get("CXX") or shutil.which("g++")
CCACHE = [shutil.which("ccache")] if shutil.which("ccache") else []
FLAGS = ["-std=c++17", "-O1", "-fopenmp", "-I", "src", "-I", "tests/cpp"]


@pytest.fixture(scope="module")
def core_objects(tmp_path_factory):
    layers = ("core", "tensor", "autograd")
    sources = [file for layer in layers for file in sorted((ROOT / "src" / layer).glob("*.cpp"))]
    return compile_all(sources, tmp_path_factory.mktemp("core"))


def compile_all(sources, folder):
    def compiled(source):
        target = folder / f"{source.parent.name}_{source.stem}.o"
        subprocess.run([*CCACHE, CXX, *FLAGS, "-c", source, "-o", target], cwd=ROOT, check=True)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compiled, sources))


@pytest.mark.skipif(not CXX, reason="no C++ compiler")
@pytest.mark.parametrize("name", ["test_autograd", "test_physical_layout", "test_parallel"])
def test_core(name, core_objects, tmp_path):
    objects = core_objects + compile_all([ROOT / "tests" / "cpp" / f"{name}.cpp"], tmp_path)
    program = tmp_path / name
    subprocess.run([CXX, "-fopenmp", *objects, "-o", program], check=True)
    result = subprocess.run([program], stdout=subprocess.PIPE, text=True, timeout=120)
    assert (result.returncode, result.stdout) == (0, "passed\n")


def test_lazy_expressions():
    """With all of the core, which `make build` links into programs."""
    program = ROOT / "build" / "dev" / "test_lazy_expression"
    result = subprocess.run([program], stdout=subprocess.PIPE, text=True, timeout=120)
    assert (result.returncode, result.stdout) == (0, "passed\n")
