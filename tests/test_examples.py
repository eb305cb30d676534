"""The example programs run, and do what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import rushlight

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_quickstart(tmp_path):
    path = str(Path(rushlight.__file__).parent.parent)
    environment = dict(os.environ, PYTHONPATH=path, MPLBACKEND="Agg")
    result = subprocess.run(
        [sys.executable, EXAMPLES / "quickstart.py"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert float(re.search(r"test accuracy ([\d.]+)%", result.stdout)[1]) >= 98
    written = {p.name for p in (tmp_path / "runs" / "quickstart").iterdir()}
    assert written == {
        "curves.png", "confusion.png", "misread.png", "graph.svg", "model.safetensors"
    }


def test_hogwild(tmp_path):
    path = str(Path(rushlight.__file__).parent.parent)
    result = subprocess.run(
        [sys.executable, EXAMPLES / "hogwild.py", "--epochs", "4"],
        cwd=tmp_path, env=dict(os.environ, PYTHONPATH=path), capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "360 + 360 steps of 2 processes" in result.stdout
    assert float(re.search(r"test accuracy ([\d.]+)%", result.stdout)[1]) >= 90
