"""The compiled loops of elementwise rows: forward kernels and fused backward formulas."""

import re

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
_REDUCED = ("float16", "bfloat16")
_OF_SIGN = ("(-{})".format, "abs({})".format)
# Formulas that choose among elements and change none are those of other dtypes of the same bits:
# gcc makes no vectors of these, in which maximum took 21 times as long and where 10 times.
_CHOOSES = re.compile(r"((maximum|minimum|fmax|fmin)\(|where\(\(\w+ != T\(0\)\), )\w+, \w+\)")
_SAME_BITS = {"bool": "uint8", "complex64": "int64"}
_STRIP = 1024  # elements that are near together, or not
_OF_CONSTANTS = ("uint8", "int16", "int32", "int64", "float32", "float64", "complex64")
# Formulas of which the operands may change places.
_SYMMETRIC = re.compile(r"(product|maximum|minimum)\(\w+, \w+\)|\(\w+ [&|^] \w+\)")

_HEADER = """// Made by gen/loops.py from ops/{table}.py.
#include "kernels/cpu/vector_parts.h"
#include "kernels/elementwise.h"
#include "math/formula.h"
"""


def _where_possible(dtype, name):
    """A loop of 16-bit floats, where the instruction set has one."""
    return f"has_reduced_loops<{CXX[dtype]}> ? {name} : nullptr"


class Loop:
    def __init__(self, name, shown, formula, operands, numbers, result, dtypes, row=None):
        self.name, self.shown, self.formula = name, shown, formula
        self.constants = row and row.constant_operands
        self.in_registers = row and row.reduced_in_registers
        self.operands, self.numbers, self.result, self.dtypes = operands, numbers, result, dtypes

    def template(self):
        """The loop; for real types by parts. One whose elements prove far for some function is
        worked out again, so what is overwritten is held; the next is then expected to be far.
        """
        result = {"bool": "bool", "real": "real_t<T>"}.get(self.result, "T")
        lines = [
            f"template <class T> void {self.name}(int64_t count, void* const* operands, "
            "const Scalar* numbers) {",
            "  (void)numbers;",
            "  using Stored = stored_t<T>;",
            f"  auto* result = static_cast<{result}*>(operands[0]);",
        ]
        for i, name in enumerate(self.operands):
            if name in self.formula.used:
                lines.append(
                    f"  const Stored* at_{name} = static_cast<const Stored*>(operands[{i + 1}]);"
                )
        lines += self.numbers_as("T")

        used = [o for o in self.operands if o in self.formula.used]

        def loop(near, first=(), at="at_{}", to="result"):
            names = [(cxx_variable(o), at.format(o)) for o in used]
            return [
                "RL_INDEPENDENT",
                "for (int64_t i = 0; i < count; ++i) {",
                *(f"  const T {name} = {place}[i];" for name, place in names),
                *(f"  {line}" for line in first),
                f"  {to}[i] = static_cast<{result}>({self.formula.scalar(near)});",
                "}",
            ]

        near = self.formula.fast_calls(self.operands)
        if not near and not self.formula.is_worth_whole_vectors:
            return "\n".join([*lines, *(f"  {line}" for line in loop(())), "}"])
        lines += [
            "  if constexpr (is_complex_v<T>) {",
            *(f"    {line}" for line in loop(())),
            "  } else {",
            *(f"    {line}" for line in self.in_whole_vectors(result, used, near, loop)),
            "  }",
        ]
        return "\n".join([*lines, "}"])

    def in_whole_vectors(self, result, used, near, loop):
        """The loop over whole vectors alone (kernels/cpu/vector_parts.h), and where elements may
        be far for some function, that which tells and the one for all arguments.
        """
        longest = _STRIP if near else "count"
        held = _STRIP if near else "lanes<T>"
        lines = [
            *(f"alignas(64) Stored held_{o}[{held}];" for o in used),
            f"alignas(64) {result} held_result[lanes<T>];",
        ]
        if near:
            no_arguments = ", ".join("T()" for _ in near[0][1])
            lines.append(f"decltype({near[0][0]}_needs_slow_path({no_arguments})) far = 0;")
        lines += [
            f"VectorParts<lanes<T>> part(count, {longest});",
            "for (; part.taken > 0; part.advance()) {",
            "  const int64_t count = part.whole();",
            f"  {result}* to = part.is_filled() ? held_result : result + part.begin;",
            *(
                f"  const Stored* from_{o} = part.operand(at_{o}, held_{o}"
                f"{', to' if near else ''});"
                for o in used
            ),
        ]
        if near:
            tests = [
                f"{name}_needs_slow_path({', '.join(map(cxx_variable, arguments))})"
                for name, arguments in near
            ]
            flags = [f"far |= {test};" for test in tests]
            lines += [
                "  const bool expected = far != 0;",
                "  far = 0;",
                "  if (!expected) {",
                *(f"    {line}" for line in loop(near, flags, "from_{}", "to")),
                "  }",
                "  if (expected || far != 0) {",
                "    far = 0;",
                *(f"    {line}" for line in loop((), flags, "from_{}", "to")),
                "  }",
            ]
        else:
            lines += [f"  {line}" for line in loop((), (), "from_{}", "to")]
        return [*lines, "  part.put(held_result, result);", "}"]

    def template_of_constants(self):
        """The loop of rows of which operand `constant` (of 1 and 2) is one element all along."""
        lines = [
            *self.begin_of_constants("of_constant"),
            *self.numbers_as("T"),
            "  for (RowOperands row(operands); rows > 0; --rows, row.advance(steps)) {",
            "    auto* result = static_cast<T*>(row.at[0]);",
            "    const T same = *static_cast<const T*>(row.at[constant]);",
            "    const T* at = static_cast<const T*>(row.at[3 - constant]);",
            "    RL_INDEPENDENT",
            "    for (int64_t i = 0; i < count; ++i) {",
            *(
                f"      const T {cxx_variable(name)} = constant == {i} ? same : at[i];"
                for i, name in enumerate(self.operands, 1)
            ),
            f"      result[i] = static_cast<T>({self.formula.scalar()});",
            "    }",
            "  }",
            "}",
        ]
        return "\n".join(lines)

    def template_of_reduced(self):
        """The loops of 16-bit floats, by vectors."""
        parameters = ", ".join(f"vec<float> {cxx_variable(o)}" for o in self.operands)
        lines = [
            f"template <class T, int constant> void {self.name}_reduced(int64_t count, "
            "void* const* operands, const Scalar* numbers) {",
            "  (void)numbers;",
            *self.numbers_as("float", "vec<float>{} + "),
            "  reduced_loop<T, constant>(",
            f"      count, operands, [&]({parameters}) {{ return {self.formula.scalar()}; }});",
            "}",
            *self.begin_of_constants("reduced_of_constant"),
            "  for (RowOperands row(operands); rows > 0; --rows, row.advance(steps))",
            f"    {self.name}_reduced<T, constant>(count, row.at, numbers);",
            "}",
        ]
        return "\n".join(lines)

    def template_in_registers(self):
        """The loop of 16-bit floats, by vectors, of a formula of floats."""
        parameters = ", ".join(f"float {cxx_variable(o)}" for o in self.operands)
        lines = [
            f"template <class T> void {self.name}_in_registers(int64_t count, "
            "void* const* operands, const Scalar* numbers) {",
            "  (void)numbers;",
            *self.numbers_as("float"),
            "  reduced_loop_of<T>(count, operands, "
            f"std::make_index_sequence<{len(self.operands)}>(),",
            f"      [=]({parameters}) {{ return static_cast<float>({self.formula.scalar()}); }});",
            "}",
        ]
        return "\n".join(lines)

    def numbers_as(self, dtype, widened=""):
        """The variables of the numbers that the formula names."""
        return [
            f"  const auto {cxx_variable(name)} = {widened}numbers[{i}].to<{dtype}>();"
            for i, name in enumerate(self.numbers)
        ]

    def begin_of_constants(self, kind):
        """How a loop of rows with a constant begins."""
        return [
            f"template <class T, int constant> void {self.name}_{kind}(int64_t rows, "
            "int64_t count, void* const* operands, const int64_t* steps, const Scalar* numbers) {",
            "  (void)numbers;",
        ]

    def strip(self, dtype):
        """The name of its loop of a dtype."""
        if dtype in self.dtypes:
            chosen = _SAME_BITS.get(dtype, dtype) if self.chooses() else dtype
            return f"{self.name}<{CXX[chosen]}>"
        if dtype in _REDUCED and self.changes_sign():
            return f"{self.name}<half>"
        if dtype in _REDUCED and self.constants and self.is_arithmetic():
            return _where_possible(dtype, f"{self.name}_reduced<{CXX[dtype]}, 0>")
        if dtype in _REDUCED and self.in_registers:
            return _where_possible(dtype, f"{self.name}_in_registers<{CXX[dtype]}>")
        return "nullptr"

    def strip_of_constant(self, dtype, constant):
        if dtype in _OF_CONSTANTS and dtype in self.dtypes:
            if constant == 1 and _SYMMETRIC.fullmatch(self.formula.scalar()):
                return "nullptr"
            return f"{self.name}_of_constant<{CXX[dtype]}, {constant}>"
        if dtype in _REDUCED and self.is_arithmetic():
            name = f"{self.name}_reduced_of_constant<{CXX[dtype]}, {constant}>"
            return _where_possible(dtype, name)
        return "nullptr"

    def changes_sign(self):
        """Whether it leaves all bits but the first: 16-bit elements then need no conversion."""
        of_sign = {f(o) for f in _OF_SIGN for o in self.operands}
        return self.formula.scalar() in {*of_sign, f"copysign({', '.join(self.operands)})"}

    def is_arithmetic(self):
        """Whether vectors of floats can be put into the formula."""
        return "float32" in self.dtypes and not self.chooses()

    def chooses(self):
        """Whether each element of the result is one of an operand's."""
        return self.result == "common" and bool(_CHOOSES.fullmatch(self.formula.scalar()))

    def strips(self):
        items = [self.strip(d) for d in CXX]
        text = (
            f"extern const StripFunction {self.name}_strips[dtype_count];\n"
            f"const StripFunction {self.name}_strips[dtype_count] = {{{', '.join(items)}}};"
        )
        if not self.constants:
            return text
        rows = ["{" + ", ".join(self.strip_of_constant(d, k) for d in CXX) + "}" for k in (1, 2)]
        kind = f"ConstantStrips {self.name}_constants"
        return f"{text}\nextern const {kind};\nconst {kind} = {{{{{', '.join(rows)}}}}};"

    def declaration(self):
        return f"extern const Loop {self.name};"

    def definition(self):
        dtypes = sum(1 << i for i, d in enumerate(CXX) if d in self.dtypes)
        operands = " ".join(self.operands)
        macro = "RL_LOOP_OF_CONSTANTS" if self.constants else "RL_LOOP"
        return f'{macro}({self.name}, "{self.shown}", "{operands}", {len(self.numbers)}, {dtypes})'


def loops_of(ops):
    """Every loop that the ops of one table file need."""
    found = []
    for op in ops:
        if op.kernel:
            found.append(
                Loop(
                    f"{op.full_name}_loop",
                    op.called,
                    op.kernel,
                    [p.name for p in op.tensor_parameters],
                    [p.name for p in op.number_parameters],
                    op.row.result,
                    op.row.dtypes,
                    op.row,
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


def write_table(table, ops):
    """What names the loops of all instruction sets."""
    lines = [
        f"// Made by gen/loops.py from ops/{table}.py.",
        '#include "kernels/cpu/strips.h"',
        "",
        "namespace rl::kernels {",
        *(loop.definition() for loop in loops_of(ops)),
        "}  // namespace rl::kernels",
        "",
    ]
    return "\n".join(lines)


def write(table, ops):
    loops = loops_of(ops)
    templates = [loop.template() for loop in loops]
    for loop in loops:
        if loop.constants:
            templates.append(loop.template_of_constants())
            if loop.is_arithmetic():
                templates.append(loop.template_of_reduced())
        if loop.in_registers and not loop.changes_sign():
            templates.append(loop.template_in_registers())
    body = "\n\n".join(templates)
    tables = "\n".join(loop.strips() for loop in loops)
    header = _HEADER.format(table=table)
    if any(loop.constants or loop.in_registers for loop in loops):
        header += '#include "kernels/cpu/reduced_loops.h"\n'
    return (
        header
        + "\nnamespace rl::kernels::RL_ISA {\nusing namespace rl::math;\nnamespace {\n\n"
        + body
        + "\n\n}  // namespace\n\n"
        + tables
        + "\n\n}  // namespace rl::kernels::RL_ISA\n"
    )
