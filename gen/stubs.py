"""Type stubs of the table's functions and methods: `python -m gen --stubs DIR`.

One file per namespace lists what the table puts there, overloads included; the rest of the package
is Python and carries its own signatures.
"""

from collections import defaultdict

_TYPES = {
    "Scalar": "Number",
    "list[Tensor]": "Sequence[Tensor]",
    "list[Tensor | None]": "Sequence[Tensor | None]",
    "list[int]": "Sequence[_int]",
    "list[float]": "Sequence[_float]",
    "Tensor | Number": "Tensor | Number",
    "dtype": "_dtype",
    "device": "_device | str | _int",
    "layout": "_layout",
    "memory_format": "_memory_format",
    "int": "_int",
    "float": "_float",
    "bool": "_bool",
}
_RESULTS = {
    "list[Tensor]": "tuple[Tensor, ...]",
    "Scalar": "Number",
    "int": "_int",
    "float": "_float",
    "bool": "_bool",
}
_HEADER = '''"""Made by gen/stubs.py from the op table: run `make stubs` after changing a row."""
from builtins import bool as _bool, float as _float, int as _int
from collections.abc import Sequence
from typing import overload

from rushlight import Generator, Tensor
from rushlight import device as _device, dtype as _dtype, layout as _layout, \
memory_format as _memory_format

Number = _bool | _int | _float | complex  # functions named bool, int and float hide the types
'''


def _type_of(p):
    text = _TYPES.get(p.type, p.type)
    if p.type == "list[int]" and p.length > 0:
        text = "_int | " + text
    if p.optional or p.default == "None":
        text += " | None"
    return text


def _default(p):
    return (
        ""
        if p.default is None
        else f" = {p.default}"
        if p.default not in ("inf", "-inf")
        else " = ..."
    )


def _result(op):
    s = op.signature
    if s.returns == "tuple":
        return f"tuple[{', '.join(['Tensor'] * len(s.outputs))}]"
    return _RESULTS.get(s.returns, s.returns)


def _header(op, name, inplace, method):
    """`def name(...) -> result: ...`, as a function or as a method of Tensor."""
    parts, starred = [], False
    for n, p in enumerate(op.signature.parameters):
        if p.keyword_only and not starred:
            parts.append("*")
            starred = True
        if method and n == 0:
            parts.append("self")
            continue
        parts.append(f"{p.name.rstrip('_')}: {_type_of(p)}{_default(p)}".replace("from:", "from_:"))
    if op.row.out and not inplace:
        many = op.signature.returns == "tuple"
        kind = _result(op) if many else "Tensor"
        parts += ([] if starred else ["*"]) + [f"out: {kind} | None = None"]
    return f"def {name}({', '.join(parts)}) -> {_result(op)}: ..."


def _names(tables):
    """(namespace, bare name) to the (row, in place) pairs that share it."""
    found = defaultdict(list)
    for ops in tables.values():
        for op in ops:
            for target in op.python_names:
                module, _, name = target.rpartition(".")
                found[module, name].append((op, False))
                if op.row.inplace:
                    found[module, name + "_"].append((op, True))
    return found


def _entries(members, name, method, indent):
    texts = list(dict.fromkeys(_header(op, name, inplace, method) for op, inplace in members))
    mark = [f"{indent}@overload"] if len(texts) > 1 else []
    return [line for text in texts for line in (*mark, indent + text)]


def write_stubs(tables):
    """File name to text: `torch.pyi`, `Tensor.pyi`, `nn.functional.pyi` and so on."""
    modules = defaultdict(dict)
    for (module, name), members in _names(tables).items():
        modules[module][name] = members
    files = {}
    for module, names in sorted(modules.items()):
        method = module == "Tensor"
        lines = [_HEADER] + (["", "class TensorMethods:"] if method else [""])
        for name in sorted(names):
            lines += _entries(names[name], name, method, "    " if method else "")
        files[f"{module}.pyi"] = "\n".join(lines) + "\n"
    return files
