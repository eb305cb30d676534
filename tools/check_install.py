"""Tries rushlight installed in an environment of its own: size, import time, a gradient."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

MEGABYTE = 1_000_000
IMPORT = "import time; t = time.perf_counter(); import rushlight; print(time.perf_counter() - t)"


def main():
    others = {package.name for package in importlib.metadata.distributions()}
    others -= {"rushlight", "pip", "setuptools"}
    assert not others, f"not an empty environment: {others}"
    import rushlight as rl

    x = rl.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    product = rl.ones(64, 32) @ rl.ones(32, 64)
    assert product.sum().item() == 64 * 64 * 32
    assert "numpy" not in sys.modules

    package = Path(rl.__file__).parent
    assert "site-packages" in package.parts
    files = [p for p in package.rglob("*") if p.is_file() and p.suffix != ".pyc"]
    size = sum(p.stat().st_size for p in files)
    command = [sys.executable, "-c", IMPORT]
    seconds = min(float(subprocess.check_output(command)) for _ in range(5))
    print(f"installed {size / MEGABYTE:.1f} MB, import {seconds * 1000:.0f} ms")
    assert size <= 45 * MEGABYTE


main()
