"""The signatures of the table for those who record, save and load programs: _op_schemas.py."""

import textwrap
from collections import defaultdict

from gen.bindings import groups_of
from ops.schema import WITHOUT_GRADIENT


def operations(tables):
    """[(key, op, inplace)], sorted by key, which no two share."""
    found = {}
    for ops in tables.values():
        for op in ops:
            for inplace in (False, True) if op.row.inplace else (False,):
                key = op.key(inplace)
                if key in found:
                    raise ValueError(f"{op.row.where}: another row has the name {key}")
                found[key] = op, inplace
    return [(key, *found[key]) for key in sorted(found)]


def write(tables):
    """Lines that python/rushlight/export/_table.py reads."""
    schemas = [_schema(key, op) for key, op, inplace in operations(tables) if not inplace]
    targets = defaultdict(list)
    for _, names, members in groups_of(tables):
        keys = ",".join(op.key(inplace) for op, inplace in members)
        for module, _, name in (n.rpartition(".") for n in names):
            targets[module].append(name if name == keys else f"{name}={keys}")
    lines = [
        '"""Made by gen/schemas.py: the signatures of the operations."""',
        "",
        "# key|name:type=default;...|result|kind; an argument after * is given by its name. A + at",
        "# the end: the operation in place has the same arguments.",
        'SCHEMAS = """',
        *schemas,
        '"""',
        "",
        "# Python names by module, and behind = the operations that a name may be, in the order in",
        "# which they are tried, where that is not the one of the same name.",
        "TARGETS = {",
        *(f'    "{m}": """\n{_wrapped(targets[m])}\n""",' for m in sorted(targets)),
        "}",
        "",
    ]
    return "\n".join(lines)


def _wrapped(words):
    words = sorted(words, key=lambda word: word.partition("=")[0])
    return textwrap.fill(" ".join(words), 100, break_on_hyphens=False)


def _schema(key, op):
    parts, star = [], False
    for p in op.signature.parameters:
        if p.keyword_only and not star:
            parts.append("*")
            star = True
        length = "" if p.length < 0 else f"[{p.length}]"
        default = "" if p.default is None else f"={p.default}"
        parts.append(f"{p.name.rstrip('_')}:{p.cxx.kind}{length}{'?' * p.optional}{default}")
    s = op.signature
    returns = ",".join(s.outputs) if s.returns == "tuple" else s.returns
    kind = "composite" if op.row.kind in WITHOUT_GRADIENT else op.row.kind
    return f"{key}|{';'.join(parts)}|{returns}|{kind}{'+' if op.row.inplace else ''}"
