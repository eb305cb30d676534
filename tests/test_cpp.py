"""The C++ core without Python: it builds from its own layers alone and keeps its promises.

For another processor: CXX names the cross compiler, EMULATOR what runs its programs
(`make test-aarch64`).
"""

import os
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sanitizers

pytestmark = sanitizers.no_compilers

ROOT = Path(__file__).parent.parent
CXX = os.environ.get("CXX") or shutil.which("g++")
EMULATOR = shlex.split(os.environ.get("EMULATOR", ""))
CCACHE = [shutil.which("ccache")] if shutil.which("ccache") else []
FLAGS = ["-std=c++17", "-O1", "-pthread", "-I", "src", "-I", "tests/cpp"]


@pytest.fixture(scope="module")
def core_objects(tmp_path_factory):
    layers = ("core", "tensor", "autograd")
    sources = [file for layer in layers for file in sorted((ROOT / "src" / layer).glob("*.cpp"))]
    # without_x.cpp stands in for x.cpp where a system lacks something.
    sources = [file for file in sources if not file.name.startswith("without_")]
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
    subprocess.run([CXX, "-pthread", *objects, "-o", program], check=True)
    run(program)


def run(program):
    result = subprocess.run([*EMULATOR, program], stdout=subprocess.PIPE, text=True, timeout=300)
    assert (result.returncode, result.stdout) == (0, "passed\n")


# What isa_flags_... of CMakeLists.txt say, and the flag of /proc/cpuinfo that a set needs.
SETS = {"generic": (["-DRL_PORTABLE"], None),
        "sse42": (["-march=x86-64-v2"], "sse4_2"), "avx2": (["-march=x86-64-v3"], "avx2"),
        "avx512": (["-march=x86-64-v4", "-mprefer-vector-width=512"], "avx512vl"),
        "neon": ([], None)}  # fmt: skip


@pytest.mark.skipif(not CXX, reason="no C++ compiler")
@pytest.mark.parametrize("isa", SETS)
def test_vectors(isa, tmp_path):
    """Of the sets of the processor that the compiler is for, and of the portable one."""
    machine = subprocess.run([CXX, "-dumpmachine"], stdout=subprocess.PIPE, text=True, check=True)
    own = {"aarch64": ["generic", "neon"]}.get(machine.stdout.split("-")[0], list(SETS)[:-1])
    flags, needs = SETS[isa]
    if isa not in own or needs and needs not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip(f"no {isa} here")
    program = tmp_path / "test_simd"
    subprocess.run([CXX, *FLAGS, *flags, f"-DRL_ISA={isa}", "-O2", "-ffp-contract=off",
                    "tests/cpp/test_simd.cpp", "-o", program], cwd=ROOT, check=True)  # fmt: skip
    run(program)


@pytest.mark.skipif(not CXX, reason="no C++ compiler")
def test_small_lapack(tmp_path):
    """What stands in for LAPACK in a build without it, of which the one for browsers is one."""
    program = tmp_path / "test_small_lapack"
    sources = ["tests/cpp/test_small_lapack.cpp", "src/core/error.cpp"]
    subprocess.run([*CCACHE, CXX, *FLAGS, *sources, "-o", program],
                   cwd=ROOT, check=True)  # fmt: skip
    run(program)


def test_lazy_expressions():
    """With all of the core, which `make build` links into programs."""
    run(ROOT / "build" / "dev" / "test_lazy_expression")
