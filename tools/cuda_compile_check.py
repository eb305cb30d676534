"""Compiles kernels of the CUDA backend with NVIDIA's compiler, which needs no GPU.

    python tools/cuda_compile_check.py [--kernels FILE ...] [--arch 80 90 100] [--part 0/2]

Those of the op table's formulas are all tried; FILEs list others, a line
"header<TAB><TAB>expression" each, as RUSHLIGHT_CUDA_LIST=FILE has a program write them.
The compiler, the wheel nvidia-cuda-nvrtc, is looked for below --library and in sys.path. A warning
fails the check as an error does.
"""

import argparse
import collections
import ctypes
import glob
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def find_compiler(folder):
    """The path of libnvrtc, below a folder if one is given or in sys.path."""
    places = [folder] if folder else []
    places += [
        os.path.join(p, "nvidia", d, "lib") for p in sys.path for d in ("cu13", "cuda_nvrtc")
    ]
    for place in places:
        found = sorted(glob.glob(os.path.join(place, "libnvrtc.so.1*")))
        if found:
            return found[0]
    sys.exit("no libnvrtc was found: pip install nvidia-cuda-nvrtc")


def open_compiler(folder):
    path = find_compiler(folder)
    for builtins in glob.glob(os.path.join(os.path.dirname(path), "libnvrtc-builtins.so.1*")):
        ctypes.CDLL(builtins)
    return ctypes.CDLL(path)


def read_headers():
    sys.path.insert(0, str(ROOT))
    from gen import cuda

    names = [n.replace(f"{cuda.DEVICE}/standard.cuh", "standard.cuh") for n in cuda.sources()]
    texts = [(ROOT / "src" / n).read_text() for n in cuda.sources()]
    return [*names, *cuda._STANDARD], [*texts, *(cuda.STANDARD_TEXT for _ in cuda._STANDARD)]


def formulas():
    from gen import __main__ as gen, cuda

    return list(cuda.elementwise_kernels(gen.read_tables()))


# header, no definitions, name<arguments>
_LISTED = r"^(\S+\.cuh)\t\t(\w+(?:::\w+)*)(.*)$"


def listed(paths, words, at_once=16):
    """(header, expressions) of the kernels that FILEs list; a program starts for 50 ms. FILEs may
    be older than the headers: what none of their `words` names is left out.
    """
    found, gone = collections.defaultdict(set), set()
    for path in paths:
        lines = pathlib.Path(path).read_text()
        for header, name, arguments in re.findall(_LISTED, lines, re.M):
            if name.rpartition("::")[2] in words:
                found[header].add(name + arguments)
            else:
                gone.add(name)
    if gone:
        print(f"left out, as no header has them: {', '.join(sorted(gone))}", flush=True)
    for header, expressions in sorted(found.items()):
        some = sorted(expressions)
        for i in range(0, len(some), at_once):
            yield header, some[i : i + at_once]


def compile_one(nvrtc, arch, header, definitions, expressions, names, texts):
    source = f'#include "{header}"\n{definitions}\n'.encode()
    count = len(names)
    c_texts = (ctypes.c_char_p * count)(*(t.encode() for t in texts))
    c_names = (ctypes.c_char_p * count)(*(n.encode() for n in names))
    program = ctypes.c_void_p()
    status = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source, b"rushlight.cu", count, c_texts, c_names
    )
    assert status == 0, status
    for expression in expressions:
        nvrtc.nvrtcAddNameExpression(program, expression.encode())
    target = f"-arch=sm_{arch}{'a' * (arch == 90)}"
    options = [target, "-std=c++17", "-default-device", "-fmad=false", "-lineinfo", "-DRL_DEVICE=1"]
    c_options = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
    status = nvrtc.nvrtcCompileProgram(program, len(options), c_options)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value or 1)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return status, log.value.decode().strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", nargs="*", default=[])
    parser.add_argument("--arch", type=int, nargs="+", default=[80, 90, 100])
    parser.add_argument("--library", default="")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--no-formulas", action="store_true")
    options = parser.parse_args()
    nvrtc = open_compiler(options.library)
    names, texts = read_headers()
    words = set(re.findall(r"\w+", "\n".join(texts)))
    programs = [] if options.no_formulas else formulas()
    programs += [(header, "", some) for header, some in listed(options.kernels, words)]
    part, parts = map(int, options.part.split("/"))
    failed = done = 0
    for header, definitions, expressions in programs[part::parts]:
        done += len(expressions)
        for arch in options.arch:
            status, log = compile_one(nvrtc, arch, header, definitions, expressions, names, texts)
            if status or log:
                failed += 1
                what = f"sm_{arch} {expressions[0]} of {header}: {status}"
                print(f"{what}\n{definitions}\n{log[:3000]}\n", flush=True)
    print(f"{done} kernels for {options.arch}: {failed} programs with an error or a warning")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
