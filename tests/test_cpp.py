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


@pytest.mark.skipif(not CXX, reason="no C++ compiler")
def test_autograd_core(tmp_path):
    layers = ("core", "tensor", "autograd")
    sources = [file for layer in layers for file in sorted((ROOT / "src" / layer).glob("*.cpp"))]
    sources.append(ROOT / "tests" / "cpp" / "test_autograd.cpp")

    def compiled(source):
        target = tmp_path / f"{source.parent.name}_{source.stem}.o"
        subprocess.run([*CCACHE, CXX, *FLAGS, "-c", source, "-o", target], cwd=ROOT, check=True)
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compiled, sources))
    program = tmp_path / "test_autograd"
    subprocess.run([CXX, "-fopenmp", *objects, "-o", program], check=True)
    result = subprocess.run([program], stdout=subprocess.PIPE, text=True, timeout=120)
    assert (result.returncode, result.stdout) == (0, "passed\n")
