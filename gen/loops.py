"""The compiled loops of elementwise rows: forward kernels and fused backward formulas."""

from gen.signature import cxx_variable

CXX = {
    "bool": "bool",
    "uint8": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "float16": "half",
    "bfloat16": "bfloat16",
    "float32": "float",
    "float64": "double",
    "complex64": "complex64",
    "complex128": "complex128",
}
_STRIP = 1024  # elements that are near together, or not

_HEADER = """// Made by gen/loops.py from ops/{table}.py.
#include "kernels/elementwise.h"
#include "math/formula.h"
"""


class Loop:
    def __init__(self, name, shown, formula, operands, numbers, result, dtypes):
        self.name, self.shown, self.formula = name, shown, formula
        self.operands, self.numbers, self.result, self.dtypes = operands, numbers, result, dtypes

    def template(self):
        """The loop; for real types by strips without and with elements far for some function."""
        result = {"bool": "bool", "real": "real_t<T>"}.get(self.result, "T")
        lines = [
            f"template <class T> void {self.name}(int64_t count, void* const* operands, "
            "const Scalar* numbers) {",
            "  (void)numbers;",
            f"  auto* result = static_cast<{result}*>(operands[0]);",
        ]
        for i, name in enumerate(self.operands):
            if name in self.formula.used:
                lines.append(f"  const T* at_{name} = static_cast<const T*>(operands[{i + 1}]);")
        for i, name in enumerate(self.numbers):
            lines.append(f"  const T {cxx_variable(name)} = numbers[{i}].to<T>();")

        def loop(names, body, begin, end):
            loads = [f"  const T {cxx_variable(name)} = at_{name}[i];" for name in names]
            head = f"for (int64_t i = {begin}; i < {end}; ++i) {{"
            return [head, *loads, *(f"  {line}" for line in body), "}"]

        def store(near, begin, end):
            formula = f"result[i] = static_cast<{result}>({self.formula.scalar(near)});"
            return ["#pragma GCC ivdep", *loop(used, [formula], begin, end)]

        used = [o for o in self.operands if o in self.formula.used]

        near = self.formula.near_calls(self.operands)
        plain = store((), "0", "count")
        if not near:
            return "\n".join([*lines, *(f"  {line}" for line in plain), "}"])
        flags = [
            f"far |= {name}_is_far({', '.join(map(cxx_variable, arguments))});"
            for name, arguments in near
        ]
        read = [o for o in self.operands if any(o in arguments for _, arguments in near)]
        inner = [
            f"const int64_t end = count - begin < {_STRIP} ? count : begin + {_STRIP};",
            f"decltype({near[0][0]}_is_far({', '.join('T()' for _ in near[0][1])})) far = 0;",
            *loop(read, flags, "begin", "end"),
            "if (far == 0) {",
            *(f"  {line}" for line in store(near, "begin", "end")),
            "} else {",
            *(f"  {line}" for line in store((), "begin", "end")),
            "}",
        ]
        lines += [
            "  if constexpr (is_complex_v<T>) {",
            *(f"    {line}" for line in plain),
            "  } else {",
            f"    for (int64_t begin = 0; begin < count; begin += {_STRIP}) {{",
            *(f"      {line}" for line in inner),
            "    }",
            "  }",
        ]
        return "\n".join([*lines, "}"])

    def strips(self):
        items = [f"{self.name}<{CXX[d]}>" if d in self.dtypes else "nullptr" for d in CXX]
        return (
            f"extern const StripFunction {self.name}_strips[dtype_count];\n"
            f"const StripFunction {self.name}_strips[dtype_count] = {{{', '.join(items)}}};"
        )

    def declaration(self):
        return f'RL_LOOP({self.name}, "{self.shown}", {len(self.numbers)})'


def loops_of(ops):
    """Every loop that the ops of one table file need."""
    found = []
    for op in ops:
        if op.kernel:
            found.append(
                Loop(
                    f"{op.full_name}_loop",
                    op.name,
                    op.kernel,
                    [p.name for p in op.tensor_parameters],
                    [p.name for p in op.number_parameters],
                    op.row.result,
                    op.row.dtypes,
                )
            )
        for g in op.gradients:
            if g.loop:
                dtypes = {d for d in op.row.dtypes if d.startswith(("float", "complex"))}
                found.append(
                    Loop(
                        f"{g.loop}_loop",
                        f"{op.name}_backward",
                        g.formula,
                        g.operands,
                        g.numbers,
                        "common",
                        dtypes,
                    )
                )
    return found


def write(table, ops):
    loops = loops_of(ops)
    body = "\n\n".join(loop.template() for loop in loops)
    tables = "\n".join(loop.strips() for loop in loops)
    return (
        _HEADER.format(table=table)
        + "\nnamespace rl::kernels::RL_ISA {\nusing namespace rl::math;\nnamespace {\n\n"
        + body
        + "\n\n}  // namespace\n\n"
        + tables
        + "\n\n}  // namespace rl::kernels::RL_ISA\n"
    )
