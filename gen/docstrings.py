"""The documentation of a Python function of the table, worked out of its rows: what it does, its
overloads, arguments, shapes, result, errors, and an example.

`write` makes the docstring; docs/build.py makes a page of the same parts.
"""

import textwrap

from gen.signature import TableError
from ops.arguments import ARGUMENTS, SHAPES
from ops.examples import EXAMPLES

_WIDTH = 88  # of a docstring's lines: help() indents them by 8 more in a class
_SHOWN_TYPES = {
    "Scalar": "Number",
    "list[Tensor]": "sequence of Tensors",
    "list[Tensor | None]": "sequence of Tensors or None",
    "list[int]": "sequence of ints",
    "list[float]": "sequence of floats",
    "Tensor | Number": "Tensor or Number",
}
_RESULTS = {"Scalar": "Number", "list[Tensor]": "tuple of Tensors"}


def _needs_argument_text(op):
    return any(not n.rpartition(".")[2].startswith("_") for n in op.python_names)


def meaning(op, name):
    """What an argument of a row is for, in half a sentence."""
    for key in (f"{op.name}.{name}", f"{op.table}.{name}", name):
        if key in ARGUMENTS:
            return ARGUMENTS[key]
    raise TableError(op.row, "signature", f"ops/arguments.py does not say what '{name}' means")


def shown_type(p):
    text = _SHOWN_TYPES.get(p.type, p.type)
    if p.type in ("list[int]", "list[float]") and p.length > 0:
        text = f"{p.type[5:-1]} or {text}"
    return text


def arguments(members, method):
    """(name, type, is optional, meaning) of each argument that an overload has."""
    found = {}
    for op, inplace in members:
        for n, p in enumerate(op.signature.parameters):
            if method and n == 0:
                continue
            name = p.name.rstrip("_")
            types, optional, text = found.get(name, ([], False, meaning(op, p.name)))
            types += [kind for kind in shown_type(p).split(" or ") if kind not in types]
            found[name] = types, optional or p.default is not None, text
        if op.row.out and not inplace:
            many = op.signature.returns == "tuple"
            kind, key = ("tuple of Tensors", "out (several)") if many else ("Tensor", "out")
            found["out"] = [[kind], True, ARGUMENTS[key]]
    if "out" in found:  # the last, as in the signature
        found["out"] = found.pop("out")
    return [(name, " or ".join(types), *rest) for name, (types, *rest) in found.items()]


def result(op, inplace):
    """(type, sentence) of what a row returns."""
    s = op.signature
    if inplace or s.name.endswith("_") and s.returns == "Tensor":
        return "Tensor", "`input` itself, which has changed."
    if s.returns == "tuple":
        kind = "a named tuple" if op.row.named else "a tuple"
        return "tuple", f"{kind} ({', '.join(s.outputs)})."
    if s.returns != "Tensor":
        return _RESULTS.get(s.returns, s.returns), ""
    if op.row.kind == "view":
        return "Tensor", "a view: it shares its memory with `input`."
    if op.row.kind == "elementwise":
        return "Tensor", {
            "bool": "a bool for each element.",
            "float": "of a floating-point dtype: integers become the default one.",
            "real": "real numbers.",
        }.get(op.row.result, "of the dtype that the arguments promote to.")
    return "Tensor", ""


def shapes(op):
    """What a row says of shapes, or None."""
    if op.name in SHAPES:
        return SHAPES[op.name]
    if op.row.kind != "elementwise":
        return None
    tensors = [p.name for p in op.tensor_parameters]
    if len(tensors) == 1:
        return f"`{tensors[0]}` may have any shape; the result has the same one."
    return f"{_listed(tensors)} broadcast with each other; the result has their common shape."


def _listed(names):
    quoted = [f"`{name}`" for name in names]
    return " and ".join([", ".join(quoted[:-1]), quoted[-1]])


def errors(members):
    """(class, when it is raised), as far as the rows tell."""
    found = {}
    for op, _ in members:
        parameters = op.signature.parameters
        if op.row.kind == "elementwise" and len(op.tensor_parameters) > 1:
            found["RuntimeError"] = "the shapes do not broadcast with each other."
        if any(p.wraps or p.name in ("dim", "dims", "dim0") for p in parameters):
            found["IndexError"] = "the input has no such dimension."
        if op.row.kind == "elementwise":
            lacking = [
                name
                for name, one in (("complex", "complex64"), ("floating", "float32"),
                                  ("integer", "int64"))
                if one not in op.row.dtypes and not (name == "integer" and op.row.result == "float")
            ]  # fmt: skip
            if lacking:
                found["NotImplementedError"] = f"the dtype is {' or '.join(lacking)}."
        if op.table == "linalg" and parameters[0].name == "A" and op.name in _NEEDS_INVERSE:
            found["LinAlgError"] = "a matrix is singular."
    return list(found.items())


_NEEDS_INVERSE = ("linalg_inv", "inverse", "linalg_solve")


def note(op):
    """Why a row has no gradient, or None."""
    if op.no_gradient:
        return f"Not differentiable: {op.no_gradient.rstrip('.')}."
    return None


def example(op):
    """The program of a row with what it prints, or None."""
    return EXAMPLES.get(op.name)


def _wrapped(text, indent, more="    "):
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + more,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _place_in_table(member):
    (op, _), _ = member
    return op.table, int(op.row.where.partition(":")[2])


def write(members, method, signatures):
    """The docstring of the function whose overloads are `members`, pairs of a row and whether it is
    the in-place form; `signatures` are the overloads as Python shows them.
    """
    members, signatures = zip(*sorted(zip(members, signatures), key=_place_in_table))
    op, inplace = members[0]
    summary = f"In-place version of `{op.name}`: {op.row.doc}" if inplace else op.row.doc
    parts = [textwrap.fill(summary, _WIDTH, break_on_hyphens=False)]
    if len(members) > 1:
        lines = ["Overloads:"]
        for (overload, _), text in zip(members, signatures):
            lines.append(_wrapped(text, "    "))
            if overload.row.doc != op.row.doc:
                lines.append(_wrapped(overload.row.doc, "        ", ""))
        parts.append("\n".join(lines))
    if not _needs_argument_text(op):
        return "\n\n".join(parts)
    taken = arguments(members, method)
    if taken:
        lines = [
            _wrapped(f"{name} ({kind}{', optional' * optional}): {text}.", "    ")
            for name, kind, optional, text in taken
        ]
        parts.append("\n".join(["Args:", *lines]))
    if shapes(op):
        parts.append("Shape:\n" + _wrapped(shapes(op), "    ", ""))
    lines = dict.fromkeys(": ".join(filter(None, result(*member))) for member in members)
    parts.append("\n".join(["Returns:", *(_wrapped(text, "    ") for text in lines)]))
    raised = errors(members)
    if raised:
        parts.append("\n".join(["Raises:", *(_wrapped(f"{c}: {t}", "    ") for c, t in raised)]))
    if note(op) and not inplace:
        parts.append(_wrapped(note(op), "", ""))
    if example(op) and not inplace:
        parts.append("Example:\n" + textwrap.indent(example(op).rstrip("\n"), "    "))
    return "\n\n".join(parts)
