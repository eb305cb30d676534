"""The Python functions and methods of the table: parameter tables, calls, docstrings."""

import re
from collections import defaultdict

from gen import docstrings
from gen.cxx import joined
from gen.declarations import declare_called
from gen.observation import is_observed, observation, observed_name


def groups_of(tables):
    """Python functions: (set of target names sharing rows) grouped by their overloads, under the
    first row's table.
    """
    targets = defaultdict(list)
    for ops in tables.values():
        for op in ops:
            for target in op.python_names:
                targets[target].append((op, False))
            if op.row.inplace:
                for target in op.python_names:
                    targets[target + "_"].append((op, True))
    groups = defaultdict(list)
    for target, members in targets.items():
        groups[tuple((op.full_name, op.table, inplace) for op, inplace in members)].append(target)
    found = []
    for names in groups.values():
        members = targets[names[0]]
        found.append((members[0][0].table, names, _tensors_first(members)))
    return found


def _tensors_first(members):
    """The forms so that a tensor is tried as a tensor first: one of no dims would pass for a
    number, and with it its dtype and gradient would be lost.
    """
    found = []
    for member in members:
        place = next(
            (i for i, other in enumerate(found) if _takes_for_number(other, member)), len(found)
        )
        found.insert(place, member)
    return found


def _takes_for_number(one, other):
    """Does `one` have a number where the first difference to `other` is a tensor there?"""
    lists = (member[0].signature.parameters for member in (one, other))
    for a, b in zip(*lists):
        a, b = (p.type.removesuffix(" | None") for p in (a, b))
        if {a, b} == {"Tensor", "Tensor | Number"} or a == b:
            continue
        return a in ("Scalar", "float", "int", "bool") and b == "Tensor"
    return False


def _identifier(target):
    return target.replace(".", "_")


def _parameter_rows(op, with_out):
    rows = []
    for p in op.signature.parameters:
        rows.append(
            (
                p.name.rstrip("_"),
                p.cxx.kind,
                p.optional or p.default == "None" or p.none_is_default,
                p.default is not None,
                p.keyword_only,
                p.length,
            )
        )
    if with_out:
        many = op.signature.returns == "tuple"
        rows.append(("out", "TensorList" if many else "Tensor", True, True, True, -1))
    return rows


def _text(op, target, with_out):
    """The signature as Python shows it."""
    parts, star = [], False
    for p in op.signature.parameters:
        if p.keyword_only and not star:
            parts.append("*")
            star = True
        name = p.name.rstrip("_")  # from_ stands for Python's keyword
        parts.append(name if p.default is None else f"{name}={p.default}")
    if with_out:
        parts += ([] if star else ["*"]) + ["out=None"]
    return f"{target.rpartition('.')[2]}({', '.join(parts)})"


def _call(op, inplace, out_index, returns_type):
    s = op.signature
    slots = {p.name: i for i, p in enumerate(s.parameters)}
    args = ", ".join(_read(p, slots, out_index) for p in s.parameters)
    name = f"ops::{op.name}_" if inplace else f"ops::{op.cxx_name}"
    call = f"{name}({args})"
    if op.row.kind == "composite" and not op.row.body and not inplace and is_observed(op):
        given = [
            (p.name, _read(p, slots, out_index))
            for p in s.parameters
            if p.is_tensor or p.cxx.kind in ("Scalar", "Float")
        ]
        watched = observation(op, observed_name(op), given, call)
        call = f"(observed() ? {watched} : {call})"
    if op.row.kind == "composite" and op.row.node and not op.row.body and not inplace:
        given = {p.name: _read(p, slots, out_index) for p in s.parameters if p.is_tensor}
        call = f"{joined(op, given.get)}[&] {{ return {call}; }})"
    to_out = None
    if out_index is not None:
        out = "to" if s.returns == "tuple" else f"a.tensor({out_index})"
        to_out = f"ops::{op.cxx_name}_out({out}{', ' if args else ''}{args})"
    tensors = [i for i, p in enumerate(s.parameters) if p.is_tensor]
    if (
        s.returns == "Tensor"
        and len(tensors) > 1
        and not op.row.two_numbers
        and all(s.parameters[i].type == "Tensor | Number" for i in tensors)
    ):
        return f"a.need_tensor({tensors[0]}, {tensors[1]}); " + _result(
            op, call, to_out, out_index, returns_type
        )
    return _result(op, call, to_out, out_index, returns_type)


def _result(op, call, to_out, out_index, returns_type):
    s = op.signature
    if s.returns == "None":
        return f"{call}; Py_RETURN_NONE;"
    text = ""
    if s.returns == "tuple":
        if to_out:
            outs = ", ".join(f"to[{i}]" for i in range(len(s.outputs)))
            text = f"if (a.given({out_index})) {{ const TensorList to = a.tensors({out_index}); "
            text += f"{to_out}; "
            text += f"return wrap_named({returns_type}, {{{outs}}}); }} "
        names = ", ".join(f"values[{i}]" for i in range(len(s.outputs)))
        return text + f"auto values = {call}; return wrap_named({returns_type}, {{{names}}});"
    if to_out:
        text = f"if (a.given({out_index})) return wrap({to_out}); "
    for i, p in enumerate(s.parameters):
        if p.name == "pin_memory":
            call = f"a.pinned_if_asked({i}, {call})"
    return text + f"return wrap({call});"


def _read(p, slots, out_index=None):
    i = slots[p.name]
    value = f"a.{p.cxx.reader}({i})"
    default = p.cxx_default
    if p.name in ("dtype", "device") and default == "std::nullopt" and out_index:
        if p.cxx.kind in ("DType", "Device"):
            return f"a.{p.name}_or_of({i}, {out_index})"
    if (
        default is None
        or default in ("std::nullopt", "Tensor()", "nullptr", "LayoutArgument()")
        or p.optional
        and default == "std::nullopt"
    ):
        return value
    has_value = f"a.given({i})" if p.none_is_default else f"a.object({i})"
    return f"({has_value} ? {value} : {p.cxx.value}({default}))"


def write_bindings(table, tables):
    body = "\n".join(_definitions(table, tables))
    lines = [
        f"// Made by gen/bindings.py from ops/{table}.py.",
        '#include "bind/args.h"',
        '#include "bind/registry.h"',
        *['#include "dispatch/generated.h"'][: "join_steps(" in body or "name_nodes(" in body],
        '#include "dispatch/observe.h"',
        f'#include "ops_{table}.h"',
        "",
        "namespace rl {",
        *declare_called(body, table, tables),
    ]
    return "\n".join([*lines, body, "}  // namespace rl", ""])


def _definitions(table, tables):
    lines, register = ["namespace bind {", "namespace {", ""], []
    for owner, names, members in groups_of(tables):
        if owner != table:
            continue
        lines += [_group(names, members), ""]
        for target in names:
            register.append(_registration(names, target, members))
    return [
        *lines,
        "}  // namespace",
        "",
        f"void register_{table}(Registry& registry) {{",
        *register,
        "}",
        "",
        "}  // namespace bind",
    ]


def _group(names, members):
    key = _identifier(names[0])
    lines, overloads, cases = [], [], []
    for i, (op, inplace) in enumerate(members):
        with_out = op.row.out and not inplace
        rows = _parameter_rows(op, with_out)
        entries = ", ".join(
            f'{{"{n}", Kind::{k}, {str(none).lower()}, {str(d).lower()}, {str(kw).lower()}, '
            f"{length}}}"
            for n, k, none, d, kw, length in rows
        )
        parameters = f"{key}_parameters_{i}" if rows else "nullptr"
        if rows:
            lines.append(f"const Parameter {parameters}[] = {{{entries}}};")
        positional = sum(not r[4] for r in rows)
        overloads.append(
            f'{{"{_escape(_text(op, names[0], with_out))}", {parameters}, '
            f"{len(rows)}, {positional}{', true' * op.row.tensor_numbers}}}"
        )
        returns_type = "nullptr"
        if op.signature.returns == "tuple" and op.row.named:
            returns_type = f"{key}_fields_{i}_type()"
            fields = ", ".join(f'"{o}"' for o in op.signature.outputs)
            lines += [
                f"PyTypeObject* {returns_type} {{",
                f"  static const char* const names[] = {{{fields}}};",
                f'  static PyTypeObject* type = make_return_type("{op.name}", names, '
                f"{len(op.signature.outputs)});",
                "  return type;",
                "}",
            ]
        call = _call(op, inplace, len(rows) - 1 if with_out else None, returns_type)
        cases.append(f"      case {i}: {{ {call} }}")
    bare = names[0].rpartition(".")[2]
    qualified = names[0].removeprefix("torch.").removeprefix("Tensor.")
    lines.append(f"const Overload {key}_overloads[] = {{{', '.join(overloads)}}};")
    lines.append(
        f'const Spec {key}_spec = {{"{bare}", "{qualified}", {key}_overloads, {len(members)}}};'
    )
    lines += [
        f"PyObject* {key}_call(PyObject* self, PyObject* const* args, Py_ssize_t count, "
        "PyObject* names) {",
        "  return guarded([&]() -> PyObject* {",
        "    Arguments a;",
        f"    switch (a.parse({key}_spec, self, args, count, names)) {{",
        *cases,
        "      default: return a.result();",
        "    }",
        "  });",
        "}",
    ]
    if any(not n.startswith("Tensor.") for n in names):
        lines += [
            f"PyObject* {key}_function(PyObject*, PyObject* const* args, Py_ssize_t count, "
            "PyObject* names) {",
            f"  return {key}_call(nullptr, args, count, names);",
            "}",
        ]
    return "\n".join(lines)


def _registration(names, target, members):
    key = _identifier(names[0])
    module, _, name = target.rpartition(".")
    op = members[0][0]
    text = _text(op, target, op.row.out and not members[0][1])
    if module == "Tensor":
        first = op.signature.parameters[0].name if op.signature.parameters else ""
        text = text.replace(f"({first}", "($self", 1)
        doc = _escape(f"{text}\n--\n\n{_doc(members, target)}")
        return f'  registry.method("{name}", {key}_call, "{doc}");'
    doc = _escape(f"{text}\n--\n\n{_doc(members, target)}")
    module = "" if module == "torch" else module
    return f'  registry.function("{module}", "{name}", {key}_function, "{doc}");'


def _doc(members, target):
    method = target.startswith("Tensor.")
    signatures = []
    for op, inplace in members:
        text = _text(op, target, op.row.out and not inplace)
        first = op.signature.parameters[0].name if op.signature.parameters else ""
        signatures.append(re.sub(rf"\({first}(, )?", "(", text, count=1) if method else text)
    return docstrings.write(members, method, signatures)


def _escape(text):
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def write_register_all(table_names):
    lines = [
        "// Made by gen/bindings.py.",
        '#include "bind/registry.h"',
        "",
        "namespace rl::bind {",
        "",
    ]
    lines += [f"void register_{t}(Registry& registry);" for t in table_names]
    lines += [
        "",
        "void register_all(Registry& registry) {",
        *(f"  register_{t}(registry);" for t in table_names),
        "}",
        "",
        "}  // namespace rl::bind",
        "",
    ]
    return "\n".join(lines)
