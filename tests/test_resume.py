"""A training that is killed and started again ends with the weights of one that was not."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rushlight

PROGRAM = Path(__file__).with_name("resumable.py")


def start(checkpoint, result, workers):
    path = os.pathsep.join([str(Path(rushlight.__file__).parent.parent)])
    return subprocess.Popen(
        [sys.executable, PROGRAM, checkpoint, result, str(workers)],
        env=dict(os.environ, PYTHONPATH=path),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process):
    """Run to the end; the step that it began at."""
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    return int(output.split()[1])


def kill_at(process, step, delay):
    """Kill the program and its workers, some time after it said that it saves at `step`.

    Returns the step that it had begun at.
    """
    first = int(process.stdout.readline().split()[1])
    for line in process.stdout:
        if line.split() == ["saving", str(step)]:
            time.sleep(delay)
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    return first


@pytest.mark.parametrize("workers", [0, 2])
def test_killed_training_resumes_to_the_same_bits(tmp_path, workers):
    uninterrupted, resumed = tmp_path / "uninterrupted.pt", tmp_path / "resumed.pt"
    assert finish(start(tmp_path / "unused.pt", uninterrupted, workers)) == 0
    chance = random.Random(workers)
    # In the first and later epochs, at their ends, and while the file is being written.
    killed_at = 0
    for step in (4, 10, 18, 22):
        process = start(tmp_path / "checkpoint.pt", resumed, workers)
        first = kill_at(process, step, chance.choice([0, 0.001, 0.003]))
        assert killed_at - 2 <= first <= killed_at + 2  # the last save may have come about or not
        assert not resumed.exists()
        killed_at = step
    assert finish(start(tmp_path / "checkpoint.pt", resumed, workers)) >= 20
    expected, got = rushlight.load(uninterrupted), rushlight.load(resumed)
    assert got["step"] == expected["step"] == 27
    for name, weights in expected["weights"].items():
        assert weights.numpy().tobytes() == got["weights"][name].numpy().tobytes(), name
