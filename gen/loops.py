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
_FLOATS = ("float32", "float64")

_HEADER = """// Made by gen/loops.py from ops/{table}.py.
#include "kernels/elementwise.h"
#include "math/formula.h"
"""


class Loop:
    def __init__(self, name, shown, formula, operands, numbers, result, dtypes):
        self.name, self.shown, self.formula = name, shown, formula
        self.operands, self.numbers, self.result, self.dtypes = operands, numbers, result, dtypes

    def template(self):
        result = {"bool": "bool", "real": "real_t<T>"}.get(self.result, "T")
        lines = [
            f"template <class T> void {self.name}(int64_t count, void* const* operands, "
            "const Scalar* numbers) {",
            "  (void)numbers;",
            f"  auto* result = static_cast<{result}*>(operands[0]);",
        ]
        for i, name in enumerate(self.operands):
            lines.append(f"  const T* at_{name} = static_cast<const T*>(operands[{i + 1}]);")
        for i, name in enumerate(self.numbers):
            lines.append(f"  const T {cxx_variable(name)} = numbers[{i}].to<T>();")
        lines += ["#pragma GCC ivdep", "  for (int64_t i = 0; i < count; ++i) {"]
        lines += [f"    const T {cxx_variable(name)} = at_{name}[i];" for name in self.operands]
        lines += [f"    result[i] = static_cast<{result}>({self.formula.scalar()});", "  }", "}"]
        return "\n".join(lines)

    def floats(self):
        items = [f"{self.name}<{CXX[d]}>" if d in self.dtypes else "nullptr" for d in _FLOATS]
        return (
            f"extern const StripFunction {self.name}_floats[2];\n"
            f"const StripFunction {self.name}_floats[2] = {{{', '.join(items)}}};"
        )

    def others(self):
        items = [
            f"{self.name}<{CXX[d]}>" if d in self.dtypes and d not in _FLOATS else "nullptr"
            for d in CXX
        ]
        return (
            f"extern const StripFunction {self.name}_others[dtype_count];\n"
            f"const StripFunction {self.name}_others[dtype_count] = {{{', '.join(items)}}};"
        )

    def declaration(self):
        return f'RL_LOOP({self.name}, "{self.shown}")'


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


def write_isa(table, ops):
    loops = loops_of(ops)
    body = "\n\n".join(loop.template() for loop in loops)
    tables = "\n".join(loop.floats() for loop in loops)
    return (
        _HEADER.format(table=table)
        + "\nnamespace rl::kernels::RL_ISA {\nusing namespace rl::math;\nnamespace {\n\n"
        + body
        + "\n\n}  // namespace\n\n"
        + tables
        + "\n\n}  // namespace rl::kernels::RL_ISA\n"
    )


def write_others(table, ops):
    loops = loops_of(ops)
    body = "\n\n".join(loop.template() for loop in loops if loop.dtypes - set(_FLOATS))
    tables = "\n".join(loop.others() for loop in loops)
    return (
        _HEADER.format(table=table)
        + "\nnamespace rl::kernels {\nusing namespace rl::math;\nnamespace {\n\n"
        + body
        + "\n\n}  // namespace\n\n"
        + tables
        + "\n\n}  // namespace rl::kernels\n"
    )
