"""The signatures of the table for those who record, save and load programs: _op_schemas.py."""

from gen.bindings import groups_of
from ops.schema import WITHOUT_GRADIENT


def key_of(op, inplace=False):
    """The name of one operation with one signature: "add", "clamp.tensor", "add_"."""
    name = op.name + "_" * inplace
    return f"{name}.{op.signature.overload}" if op.signature.overload else name


def operations(tables):
    """[(key, op, inplace)], sorted by key, which no two share."""
    found = {}
    for ops in tables.values():
        for op in ops:
            for inplace in (False, True) if op.row.inplace else (False,):
                key = key_of(op, inplace)
                if key in found:
                    raise ValueError(f"{op.row.where}: another row has the name {key}")
                found[key] = op, inplace
    return [(key, *found[key]) for key in sorted(found)]


def write(tables):
    """Lines that python/rushlight/export/_table.py reads."""
    schemas = [_schema(key, op, inplace) for key, op, inplace in operations(tables)]
    targets = []
    for _, names, members in groups_of(tables):
        keys = " ".join(key_of(op, inplace) for op, inplace in members)
        targets += [f"{name} {keys}" for name in names]
    lines = [
        '"""Made by gen/schemas.py: the signatures of the operations."""',
        "",
        "# key|name:type=default;...|result|kind; an argument after * is given by its name.",
        'SCHEMAS = """',
        *schemas,
        '"""',
        "",
        "# Python name, and the operations that it may be, in the order in which they are tried.",
        'TARGETS = """',
        *sorted(targets),
        '"""',
        "",
    ]
    return "\n".join(lines)


def _schema(key, op, inplace):
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
    kind = "inplace" if inplace else kind
    return f"{key}|{';'.join(parts)}|{returns}|{kind}"
