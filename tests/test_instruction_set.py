"""RUSHLIGHT_ISA chooses the instruction set, or a warning says why it does not."""

import os
import subprocess
import sys

import pytest

import rushlight as torch

CAPABILITY = {"avx512": "AVX512", "avx2": "AVX2"}


def start_with(wish):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import rushlight; print(rushlight.backends.cpu.get_cpu_capability())",
        ],
        env={**os.environ, "RUSHLIGHT_ISA": wish},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip(), done.stderr


def test_the_set_in_use_can_be_named():
    used = torch._C._instruction_set()
    capability, warnings = start_with(used)
    assert capability == CAPABILITY.get(used, "DEFAULT") and not warnings
    assert torch.backends.cpu.get_cpu_capability() == capability


@pytest.mark.parametrize("wish", ["sse4.2", "AVX2", "1"])
def test_a_name_that_is_no_set_warns(wish):
    capability, warnings = start_with(wish)
    assert f"RUSHLIGHT_ISA={wish}: expected one of" in warnings
    assert capability == start_with("")[0]


def test_a_lesser_set_is_used():
    capability, warnings = start_with("sse42")
    if "expected one of" in warnings:
        pytest.skip("another processor, or a build with one set")
    assert capability == "DEFAULT" and not warnings
