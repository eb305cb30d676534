"""The operations by name, for programs that are data: each takes and returns values of any type."""

from gen.schemas import operations


def write(table, ops):
    """Boxed functions of one table file."""
    lines = [
        f"// Made by gen/boxed.py from ops/{table}.py.",
        f'#include "ops_{table}.h"',
        '#include "program/operation.h"',
        "",
        "namespace rl::program::boxed {",
        "",
    ]
    for op in ops:
        for inplace in (False, True) if op.row.inplace else (False,):
            lines.append(_function(op, inplace))
    return "\n".join([*lines, "", "}  // namespace rl::program::boxed", ""])


def write_all(tables):
    """The table of all of them, sorted by key."""
    rows = operations(tables)
    names = [_identifier(op, inplace) for _, op, inplace in rows]
    lines = [
        "// Made by gen/boxed.py.",
        '#include "program/operation.h"',
        "",
        "namespace rl::program {",
        "namespace boxed {",
        *(f"Value {name}(const Arguments&);" for name in names),
        "}  // namespace boxed",
        "",
        "namespace {",
    ]
    for name, (_, op, _) in zip(names, rows):
        if op.signature.parameters:
            entries = ", ".join(
                f'{{"{p.name.rstrip("_")}", "{p.cxx.kind}", '
                f"{str(p.default is not None).lower()}, "
                f"{p.length}}}"
                for p in op.signature.parameters
            )
            lines.append(f"const Parameter {name}_parameters[] = {{{entries}}};")
    lines += ["const Operation table[] = {"]
    for name, (key, op, _) in zip(names, rows):
        parameters = f"{name}_parameters" if op.signature.parameters else "nullptr"
        lines.append(
            f'    {{"{key}", {parameters}, {len(op.signature.parameters)}, boxed::{name}}},'
        )
    lines += [
        "};",
        "}  // namespace",
        "",
        "const Operation* operations_begin() { return table; }",
        f"const Operation* operations_end() {{ return table + {len(rows)}; }}",
        "",
        "}  // namespace rl::program",
        "",
    ]
    return "\n".join(lines)


def _identifier(op, inplace):
    return "op_" + op.key(inplace).replace(".", "__")


def _function(op, inplace):
    s = op.signature
    arguments = ", ".join(_read(i, p) for i, p in enumerate(s.parameters))
    call = f"ops::{op.name}_({arguments})" if inplace else f"ops::{op.cxx_name}({arguments})"
    nothing = s.returns == "None" and not inplace
    body = f"{call}; return Value();" if nothing else f"return box({call});"
    unused = "" if s.parameters else "[[maybe_unused]] "
    return f"Value {_identifier(op, inplace)}({unused}const Arguments& a) {{ {body} }}"


def _read(i, p):
    value = f"a.{p.cxx.reader}({i})"
    default = p.cxx_default
    if default is None or default in ("std::nullopt", "Tensor()", "nullptr", "LayoutArgument()"):
        return value
    return f"(a.given({i}) ? {p.cxx.value}({value}) : {p.cxx.value}({default}))"
