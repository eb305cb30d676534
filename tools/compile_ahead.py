"""Compiles the CUDA kernels that a program asks for, on a machine without a GPU.

    python tools/compile_ahead.py [--capability 90] [--nvrtc FOLDER] CACHE PROGRAM [ARGUMENT ...]

The program runs on devices of the simulator (`make cuda-sim`) on which no kernel runs, so that its
results are of no use, and what depends on them may take another way; NVIDIA's compiler, the wheel
nvidia-cuda-nvrtc or that of FOLDER, compiles for the capability. A machine with such a GPU and that
version of the compiler finds the kernels with RUSHLIGHT_CACHE_DIR=CACHE.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

from cuda_compile_check import find_compiler

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIMULATOR = ROOT / "build" / "cuda-sim"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--capability", type=int, default=90, help="9.0 is 90")
    parser.add_argument("--nvrtc", default="", help="the folder of NVIDIA's libnvrtc")
    parser.add_argument("cache")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    compiler = os.path.dirname(find_compiler(options.nvrtc))
    if not (SIMULATOR / "libcuda.so.1").exists():
        sys.exit("compile_ahead.py: there is no simulator: `make cuda-sim` builds it")
    with tempfile.TemporaryDirectory() as libraries:
        for source in (*SIMULATOR.glob("*.so.*"), *pathlib.Path(compiler).glob("libnvrtc*")):
            link = pathlib.Path(libraries) / source.name
            link.unlink(missing_ok=True)  # the simulator's compiler
            link.symlink_to(source.resolve())
        environment = {
            **os.environ,
            "RUSHLIGHT_CUDA_SIMULATOR": libraries,
            "RUSHLIGHT_SIMULATOR_IDLE": "1",
            "RUSHLIGHT_SIMULATOR_CAPABILITY": str(options.capability),
            "RUSHLIGHT_CACHE_DIR": os.path.abspath(options.cache),
            # Where libnvrtc finds its second library.
            "LD_LIBRARY_PATH": f"{compiler}:{os.environ.get('LD_LIBRARY_PATH', '')}",
        }
        done = subprocess.run([sys.executable, *options.program], env=environment)
    kernels = sum(len(files) for _, _, files in os.walk(options.cache))
    print(f"{kernels} kernels in {options.cache}; the program ended with {done.returncode}")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
