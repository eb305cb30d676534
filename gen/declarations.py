"""The declarations of a table file: ops_<table>.h for those who call its ops, impl_<table>.h for
src/dispatch, which defines them."""

import re


def write_header(table, ops):
    """What includes it is compiled again whenever the table has a new row."""
    lines = [
        f"// Made by gen/declarations.py from ops/{table}.py: its ops, differentiable.",
        "#pragma once",
        '#include "dispatch/op_types.h"',
        "",
        "namespace rl::ops {",
        "",
    ]
    for op in ops:
        lines += _functions(op).values()
    return "\n".join([*lines, "", "}  // namespace rl::ops", ""])


def write_all(tables):
    lines = [
        "// Made by gen/declarations.py: every op, for users of the C++ library. A file of src",
        "// includes the tables that it calls.",
        "#pragma once",
        *(f'#include "ops_{table}.h"' for table in tables),
        "",
    ]
    return "\n".join(lines)


def write_impl_header(table, ops):
    lines = [
        f"// Made by gen/declarations.py from ops/{table}.py: what src/dispatch must define for",
        "// rows of kind kernel and view, and for composites that are one node.",
        "#pragma once",
        '#include "dispatch/op_types.h"',
        "",
        "namespace rl::impl {",
        "",
    ]
    lines += [
        f"{op.signature.cxx_result} {op.cxx_name}({impl_parameters(op)});"
        for op in ops
        if op.row.kind in ("kernel", "view") or op.gradients
        if op.row.kind != "elementwise"
    ]
    lines += ["", "}  // namespace rl::impl", "namespace rl::grad {", ""]
    lines += [f"{function_head(f)};" for f in getattr(ops, "functions", ())]
    return "\n".join(lines + ["", "}  // namespace rl::grad", ""])


def function_head(function):
    s = function.signature
    return f"{s.cxx_result} {s.cxx_name}({s.cxx_parameters()})"


def declare_called(text, table, tables):
    """For a generated file of `table`: declarations of what it calls of other tables, ops and
    functions, so that it does not depend on these as a whole. They stand in namespace rl.
    """
    called = set(re.findall(r"\bops::(\w+)\(", text))
    lines = [
        declaration
        for name, ops in tables.items()
        if name != table
        for op in ops
        for function, declaration in _functions(op).items()
        if function in called
    ]
    wanted = set(re.findall(r"\bgrad::(\w+)\(", text))
    functions = [
        f"{function_head(f)};"
        for name, ops in tables.items()
        if name != table
        for f in getattr(ops, "functions", ())
        if f.name in wanted
    ]
    return [
        *(["namespace ops {", *lines, "}  // namespace ops"] if lines else []),
        *(["namespace grad {", *functions, "}  // namespace grad"] if functions else []),
    ]


def _functions(op):
    """The declarations of an op by the names of their functions."""
    s = op.signature
    found = {op.cxx_name: f"{s.cxx_result} {op.cxx_name}({s.cxx_parameters(defaults=True)});"}
    if op.row.inplace:
        found[f"{op.name}_"] = f"const Tensor& {op.name}_({s.cxx_parameters(defaults=True)});"
    if op.row.out:
        found[f"{op.cxx_name}_out"] = f"{out_head(op)};"
    return found


def impl_parameters(op, defaults=True):
    """Kernels that can write tensors of the caller's take them last: undefined for new ones."""
    parameters = op.signature.cxx_parameters(defaults)
    if takes_target(op):
        return f"{parameters}, const Tensor& target{' = Tensor()' if defaults else ''}"
    if takes_targets(op):
        return f"{parameters}, const TensorList& targets{' = {}' if defaults else ''}"
    return parameters


def takes_target(op):
    row = op.row
    if row.kind == "composite":
        return False
    return row.inplace or bool(row.launch and row.out and op.signature.returns == "Tensor")


def takes_targets(op):
    return bool(op.row.launch and op.row.out and op.signature.returns == "tuple")


def out_head(op):
    """Results that go to the caller's tensors: these come first, the op's arguments follow."""
    many = op.signature.returns == "tuple"
    result, out = ("void", "TensorList") if many else ("const Tensor&", "Tensor")
    parameters = op.signature.cxx_parameters()
    separator = ", " if parameters else ""
    return f"{result} {op.cxx_name}_out(const {out}& out{separator}{parameters})"
