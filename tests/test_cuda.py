"""CUDA where there is no GPU: what is asked is answered, what needs one says what is missing."""

import os
import pathlib
import subprocess
import sys

import pytest

import rushlight

ROOT = pathlib.Path(__file__).parent.parent

pytestmark = pytest.mark.skipif(
    rushlight.cuda.is_available(), reason="for machines without a GPU and its driver"
)


def test_questions_are_answered():
    assert rushlight.cuda.device_count() == 0
    assert not rushlight.cuda.is_initialized()
    assert rushlight.cuda.memory_allocated() == 0
    assert rushlight.cuda.memory_stats() == {}
    assert rushlight.cuda.get_arch_list() == []
    assert not rushlight.cuda.is_bf16_supported()
    rushlight.cuda.manual_seed_all(0)
    rushlight.cuda.empty_cache()
    rushlight.cuda._lazy_call(pytest.fail, seed=True)  # there is nothing to call it for
    with pytest.raises(TypeError, match="later"):
        rushlight.cuda._lazy_call(print, later=True)
    with pytest.raises(AssertionError):
        rushlight.cuda._lazy_init()


@pytest.mark.parametrize(
    "use",
    [
        lambda: rushlight.ones(2).cuda(),
        lambda: rushlight.ones(2, device="cuda"),
        lambda: rushlight.ones(2).to("cuda:0"),
        lambda: rushlight.cuda.current_device(),
        lambda: rushlight.cuda.Stream(),
        lambda: rushlight.nn.Linear(2, 2).cuda(),
    ],
)
def test_what_needs_a_gpu_says_what_is_missing(use):
    with pytest.raises(AssertionError, match="CUDA is not available: .*install"):
        use()


def test_pinned_memory_needs_a_gpu():
    with pytest.raises(RuntimeError, match="no accelerator is available"):
        rushlight.ones(2).pin_memory()
    assert not rushlight.ones(2).is_pinned()


def test_a_missing_simulator_is_named():
    code = "import rushlight; rushlight.cuda.is_available()"
    environment = {**os.environ, "RUSHLIGHT_CUDA_SIMULATOR": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert "make cuda-sim" in done.stderr


def test_importing_the_package_opens_no_library():
    code = "import rushlight; print(open('/proc/self/maps').read())"
    maps = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    ).stdout
    assert "libcuda" not in maps
    assert "nvrtc" not in maps


def test_gpu_check_says_what_is_missing():
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "gpu_check.py")],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "there is no GPU to check: " in done.stdout and "install" in done.stdout


def test_the_table_of_figures_is_that_of_the_documentation():
    sys.path.insert(0, str(ROOT / "tools"))
    import gpu_check

    sys.path.remove(str(ROOT / "tools"))
    documented = (ROOT / "docs" / "cuda.md").read_text()
    for text in gpu_check.FIGURES.values():
        assert f"| {text} |" in documented


def test_sync_debug_mode_names_its_values():
    with pytest.raises(RuntimeError, match="set_sync_debug_mode: expected 0, 1, 2 .* got 'loud'"):
        rushlight.cuda.set_sync_debug_mode("loud")
    assert rushlight.cuda.get_sync_debug_mode() == 0


def test_memory_of_the_cpu_has_no_cuda_array_interface():
    assert not hasattr(rushlight.ones(2), "__cuda_array_interface__")
    with pytest.raises(RuntimeError, match="stream should be None on cpu"):
        rushlight.ones(2).__dlpack__(stream=5)
    assert rushlight.ones(2).__dlpack_device__() == (1, 0)
