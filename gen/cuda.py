"""What the CUDA backend compiles at run time, as text: the headers that its kernels include, and
the formulas of the table."""

import pathlib

from gen import lz4
from gen.loops import CXX, loops_of
from gen.signature import cxx_variable

ROOT = pathlib.Path(__file__).resolve().parent.parent
DEVICE = "kernels/cuda/device"


def sources():
    """Paths below src of the headers, the one that all kernels include first."""
    source = ROOT / "src"
    device = sorted(
        p.relative_to(source).as_posix()
        for p in (source / DEVICE).iterdir()
        if p.suffix in (".cuh", ".h")
    )
    first = f"{DEVICE}/prelude.cuh"
    device.remove(first)
    math = sorted(p.relative_to(source).as_posix() for p in (source / "math").glob("*.h"))
    shared = ["core/number.h", "kernels/optim_rule.h", "kernels/optim_rules.h"]
    return [first, *device, *math, *shared]


# Headers of the standard library that they include: a device has standard.cuh instead, whichever
# of them comes first.
_STANDARD = ("cmath", "complex", "cstdint", "cstring", "limits", "type_traits")
STANDARD_TEXT = '#include "standard.cuh"\n'


def _compact(text):
    """Without comments and indentation, which would only make the module larger."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(
        line if '"' in line else line.partition("  //")[0]
        for line in lines
        if line and not line.startswith("//")
    )


def body(loop):
    """The body of Formula::apply."""
    parts = [
        f"const T {cxx_variable(name)} = from_[{i}];"
        for i, name in enumerate(loop.operands)
        if name in loop.formula.used
    ]
    parts += [
        f"const T {cxx_variable(name)} = given_[{i}];"
        for i, name in enumerate(loop.numbers)
        if name in loop.formula.used
    ]
    return " ".join([*parts, f"return static_cast<R>({loop.formula.scalar()});"])


def write_sources(tables):
    texts = [(ROOT / "src" / name).read_text() for name in sources()]
    texts = [*(f"{_compact(text)}\n" for text in texts), *(STANDARD_TEXT for _ in _STANDARD)]
    names = [name.replace(f"{DEVICE}/standard.cuh", "standard.cuh") for name in sources()]
    loops = [loop for ops in tables.values() for loop in loops_of(ops)]
    parts = [*names, *_STANDARD, *texts, *(body(loop) for loop in loops)]
    packed = lz4.pack("\0".join(parts).encode())
    lines = [
        "// Made by gen/cuda.py from src/kernels/cuda/device, src/math and ops/*.py.",
        '#include "kernels/cuda/sources.h"',
        "",
        "namespace rl::kernels {",
        *(loop.declaration() for loop in loops),
        "}  // namespace rl::kernels",
        "",
        "namespace rl::cuda {",
        "",
        "const kernels::Loop* const device_loops[] = {",
        *(f"    &kernels::{loop.name}," for loop in loops),
        "};",
        f"const PackedSources packed_sources = {{{len(texts)}, {len(loops)}, {len(packed)},",
        *(f'    "{line}"' for line in _literals(packed)),
        "};",
        "",
        "}  // namespace rl::cuda",
        "",
    ]
    return "\n".join(lines)


def _literals(data):
    """The bytes in string literals of a line each."""
    return ("".join(f"\\{byte:03o}" for byte in data[i : i + 22]) for i in range(0, len(data), 22))


def _definitions(loop):
    """As src/kernels/cuda/elementwise.cpp writes them."""
    return (
        "namespace rl::math {\nstruct Formula {\n"
        f"  static constexpr int numbers = {len(loop.numbers)};\n"
        "  template <class T, class R>\n"
        "  static __device__ R apply(const T* from_, const T* given_) {\n"
        f"    (void)from_; (void)given_;\n    {body(loop)}\n  }}\n}};\n}}\n"
        "using rl::math::Formula;\n"
    )


_DEVICE_TYPE = {"float16": "rl::half", "bfloat16": "rl::bfloat16", "bool": "rl::Bool",
                "complex64": "rl::complex64", "complex128": "rl::complex128"}  # fmt: skip


_BYTES = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4,
          "float32": 4, "int64": 8, "float64": 8, "complex64": 8, "complex128": 16}  # fmt: skip


def _pack(*dtypes):
    """The neighbours that a thread takes, as pack_of in elementwise.cpp says."""
    sizes = [_BYTES[dtype] for dtype in dtypes]
    return max(min(16 // min(sizes), 32 // max(sizes)), 1)


def elementwise_kernels(tables):
    """(header, definitions, expressions) of all loops, for all dtypes and ways of walking."""
    for ops in tables.values():
        for loop in loops_of(ops):
            expressions = []
            for dtype in loop.dtypes:
                c = _DEVICE_TYPE.get(dtype, CXX[dtype])
                t = {"bool": "bool", "float16": "float", "bfloat16": "float"}.get(dtype, c)
                r = {"bool": "bool", "real": f"rl::real_t<{t}>"}.get(loop.result, t)
                out = {"bool": "rl::Bool", "real": f"rl::real_t<{c}>"}.get(loop.result, c)
                n = len(loop.operands)
                count = _pack(dtype, "bool" if loop.result == "bool" else dtype)
                stored = ", ".join([c] * n)
                expressions.append(
                    f"rl::cuda::elementwise_rows<Formula, {t}, {r}, {out}, true, {count}, {stored}>"
                )
                if dtype not in ("float16", "bfloat16"):
                    expressions.append(f"rl::cuda::elementwise_strided<Formula, {t}, {r}, {n}>")
            yield f"{DEVICE}/elementwise.cuh", _definitions(loop), sorted(set(expressions))
