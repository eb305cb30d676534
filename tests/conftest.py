"""What every test gets: a fixed seed, a check for leaks, and the choice of instruction set.

pytest --isa avx2      the tests marked `kernels` alone, on that instruction set
"""

import gc
import importlib.util
import os
import random
from pathlib import Path

import hypothesis
import pytest

CPU_FLAG = {"sse42": "sse4_2", "avx2": "avx2", "avx512": "avx512vl",
            "avx512_bf16": "avx512_bf16"}  # fmt: skip

collect_ignore = ["browser"]  # which runs in Pyodide: make test-wasm

HAVE_TORCH = importlib.util.find_spec("torch") is not None

hypothesis.settings.register_profile(
    "rushlight", deadline=None, derandomize=True, database=None, max_examples=50
)
hypothesis.settings.load_profile("rushlight")


def pytest_addoption(parser):
    parser.addoption("--fuzz", action="store_true", help="run the tests marked `fuzz` too")
    parser.addoption("--distributed", action="store_true", help="those marked `distributed` too")
    parser.addoption("--cuda-sim", action="store_true", help="run the tests marked `cuda_sim` too")
    parser.addoption("--isa", choices=list(CPU_FLAG), help="run the kernel tests on this one")


def pytest_configure(config):
    config.addinivalue_line("markers", "kernels: repeated on each instruction set of the CPU")
    config.addinivalue_line("markers", "cuda_sim: longer tests in the simulator of a GPU")
    config.addinivalue_line("markers", "fuzz: long sweeps of bad input, see make fuzz")
    config.addinivalue_line("markers", "distributed: long, of processes; see make test-distributed")
    config.addinivalue_line("markers", "torch: compares with torch; left out where there is none")
    config.addinivalue_line("markers", "cpp_library: needs what make test-cpp builds and installs")
    config.addinivalue_line("markers", "keeps_tensors(why): leaves tensors alive, on purpose")
    isa = config.getoption("--isa")
    if isa:
        if CPU_FLAG[isa] not in Path("/proc/cpuinfo").read_text().split():
            pytest.exit(f"this CPU has no {isa}", returncode=0)
        os.environ["RUSHLIGHT_ISA"] = isa  # read when rushlight is imported, which is later


def pytest_report_header(config):
    isa = config.getoption("--isa")
    return f"rushlight: instruction set {isa or 'the best that the CPU has'}"


def pytest_collection_modifyitems(config, items):
    def wanted(item):
        if config.getoption("--isa") and not item.get_closest_marker("kernels"):
            return False
        for marker in ("cuda_sim", "distributed", "fuzz"):
            if item.get_closest_marker(marker) and not config.getoption(marker):
                return False
        if item.get_closest_marker("cpp_library") and "cpp_library" not in config.option.markexpr:
            return False
        return HAVE_TORCH or not item.get_closest_marker("torch")

    config.hook.pytest_deselected(items=[item for item in items if not wanted(item)])
    items[:] = [item for item in items if wanted(item)]


def pytest_collection_finish():
    """Collections of garbage look at what tests make, not at a hundred thousand collected tests."""
    gc.collect()
    gc.freeze()


def live():
    from rushlight import _C

    return {"tensors": _C._live_tensors(), "graph nodes": _C._live_nodes()}


@pytest.fixture(autouse=True)
def no_leaks(request):
    """Fails a test after which more tensors or graph nodes live than before."""
    before = live()
    yield
    if request.node.get_closest_marker("keeps_tensors"):
        return
    if any(now > then for now, then in zip(live().values(), before.values(), strict=True)):
        gc.collect()  # exceptions that pytest caught hold their frames in cycles
    leaked = {what: now - before[what] for what, now in live().items() if now > before[what]}
    assert not leaked, f"leaked: {leaked}"


@pytest.fixture(autouse=True)
def fixed_seed():
    import numpy as np

    import rushlight

    random.seed(0)
    np.random.seed(0)
    rushlight.manual_seed(0)
