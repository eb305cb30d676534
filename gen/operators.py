"""The operators of Tensor, by the column `slot`: bind_operators.h for src/bind/number.cpp."""

from gen.observation import observation, observed_name
from gen.signature import TableError


def write(tables):
    lines = [
        "// Made by gen/operators.py from the column `slot` of the op table.",
        "#pragma once",
        '#include "bind/operators.h"',
        '#include "dispatch/observe.h"',
        *(
            f'#include "ops_{table}.h"'
            for table, ops in tables.items()
            if any(op.row.slot for op in ops)
        ),
        "",
        "namespace rl::bind::slots {",
        "",
    ]
    filled = []
    for ops in tables.values():
        for op in ops:
            if op.row.slot:
                lines += _slots(op, filled)
    lines += [
        "",
        "}  // namespace rl::bind::slots",
        "",
        "// X(member of PyNumberMethods, what makes its function of one of slots)",
        "#define RL_FOR_EACH_OPERATOR(X) \\",
        *(f"  X({slot}, {function}) \\" for slot, function in filled[:-1]),
        "  X({}, {})".format(*filled[-1]),
        "",
    ]
    return "\n".join(lines)


def _slots(op, filled):
    slot, method, *others = op.row.slot
    operands = len(op.tensor_parameters)
    if operands == 1 and not others:
        filled.append((slot, "unary_operator"))
        call = f"[](const Tensor& a) {{ return ops::{op.cxx_name}(a); }}"
        return [f'inline constexpr Unary {slot} = {{"{method}", {call}}};']
    if operands != 2 or not others:
        raise TableError(op.row, "slot", "needs an op of one tensor, or of two and two methods")
    numbers = any(p.type == "Tensor | Number" for p in op.tensor_parameters)
    arguments = "(const Tensor& a, const Tensor& b)"
    call = f"ops::{op.cxx_name}(a, b)"
    if op.row.kind == "composite" and not op.row.body:
        given = zip((p.name for p in op.tensor_parameters), "ab")
        call = f"observed() ? {observation(op, observed_name(op), given, call)} : {call}"
    lines = [
        f'inline constexpr Binary {slot + "_" * slot.startswith("Py_")} = {{"{method}", '
        f'"{others[0]}",',
        f"    []{arguments} {{ return {call}; }}, {str(numbers).lower()}}};",
    ]
    if slot.startswith("Py_"):
        return lines
    takes_modulus = slot == "nb_power"  # so number.cpp fills it
    filled += [(slot, "binary")] * (not takes_modulus)
    if len(others) > 1:
        in_place = slot.replace("nb_", "nb_inplace_")
        filled += [(in_place, "in_place")] * (not takes_modulus)
        lines += [
            f'inline constexpr InPlace {in_place} = {{"{others[1]}",',
            f"    []{arguments} -> const Tensor& {{ return ops::{op.name}_(a, b); }}}};",
        ]
    return lines
