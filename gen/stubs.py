"""Type stubs of the table's functions and methods: `python -m gen --stubs PACKAGE`.

One file per namespace lists what the table puts there, overloads included, and `_return_types.pyi`
the named tuples that operations return. `_C/__init__.pyi` beside them is written by hand: what the
core has that is no operation. The rest of the package is Python and carries its own signatures.
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
    "dtype": "_dtype",
    "int": "_int",
    "float": "_float",
    "bool": "_bool",
}
_MADE = '"""Made by gen/stubs.py from the op table: run `make stubs` after changing a row."""\n'
_HEADER = (
    _MADE
    + """\
from builtins import bool as _bool, complex as _complex, float as _float, int as _int
from collections.abc import Sequence
from typing import TypeAlias, overload

from rushlight._C import Generator, Tensor, _return_types
from rushlight._C import device as _device, dtype as _dtype, layout as _layout
from rushlight._C import memory_format as _memory_format

# Functions named bool, int, float and complex hide the types.
Number: TypeAlias = _bool | _int | _float | _complex
"""
)


def _type_of(p):
    text = _TYPES.get(p.type, p.type)
    if p.type == "list[int]" and p.length > 0:
        text = "_int | " + text
    if p.optional or p.default == "None" or p.none_is_default:
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


class _ReturnTypes:
    """The named tuples, each under its operation's name; a number tells apart those whose
    overloads have other fields.
    """

    def __init__(self):
        self.fields = {}

    def name(self, op):
        outputs = tuple(op.signature.outputs)
        for count in range(1, 10):
            name = op.name if count == 1 else f"{op.name}_{count}"
            if self.fields.setdefault(name, outputs) == outputs:
                return f"_return_types.{name}"
        raise AssertionError(f"{op.name} returns ten kinds of tuples")

    def text(self):
        lines = [_MADE + "from typing import NamedTuple\n\nfrom rushlight._C import Tensor\n"]
        for name, outputs in sorted(self.fields.items()):
            lines += [f"class {name}(NamedTuple):", *(f"    {o}: Tensor" for o in outputs), ""]
        return "\n".join(lines)


def _result(op, return_types):
    s = op.signature
    if s.returns == "tuple":
        if op.row.named:
            return return_types.name(op)
        return f"tuple[{', '.join(['Tensor'] * len(s.outputs))}]"
    return _RESULTS.get(s.returns, s.returns)


def _is_spread(op, first):
    """May the list that comes first be given as several arguments?"""
    positional = [p for p in op.signature.parameters if not p.keyword_only][first:]
    return len(positional) == 1 and positional[0].type == "list[int]"


def _headers(op, name, inplace, method, return_types):
    """`def name(...) -> result: ...`, as a function or as a method of Tensor: each way to call
    it.
    """
    yield _header(op, name, inplace, method, return_types, False)
    if _is_spread(op, int(method)):
        yield _header(op, name, inplace, method, return_types, True)


def _header(op, name, inplace, method, return_types, spread):
    parts, starred = [], False
    result = _result(op, return_types)
    for n, p in enumerate(op.signature.parameters):
        if p.keyword_only and not starred:
            parts += ["*"] * (not spread)
            starred = True
        if method and n == 0:
            parts.append("self")
            continue
        if spread and not p.keyword_only:
            parts.append(f"*{p.name}: _int")
            starred = True
            continue
        parts.append(f"{p.name.rstrip('_')}: {_type_of(p)}{_default(p)}".replace("from:", "from_:"))
    if op.row.out and not inplace:
        many = op.signature.returns == "tuple"
        fields = ", ".join(["Tensor"] * len(op.signature.outputs))
        kind = f"tuple[{fields}]" if many else "Tensor"
        parts += ([] if starred else ["*"]) + [f"out: {kind} | None = None"]
    return f"def {name}({', '.join(parts)}) -> {result}: ..."


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


def _entries(members, name, method, indent, return_types):
    texts = dict.fromkeys(
        text
        for op, inplace in members
        for text in _headers(op, name, inplace, method, return_types)
    )
    mark = [f"{indent}@overload"] if len(texts) > 1 else []
    return [line for text in texts for line in (*mark, indent + text)]


# The operators of Python by their slot, where the name says more than the slot's own.
_OPERATORS = {
    "nb_subtract": "sub", "nb_multiply": "mul", "nb_true_divide": "truediv",
    "nb_floor_divide": "floordiv", "nb_remainder": "mod", "nb_power": "pow",
    "nb_matrix_multiply": "matmul", "nb_negative": "neg", "nb_absolute": "abs",
}  # fmt: skip


def _operators(tables):
    """The methods by which Python's operators reach the rows that have a slot."""
    found = {}
    for op in (op for ops in tables.values() for op in ops if op.row.slot):
        slot, method, *others = op.row.slot
        name = _OPERATORS.get(slot, slot.removeprefix("nb_").removeprefix("Py_").lower())
        if not others:
            found[f"__{name}__"] = f"def __{name}__(self) -> Tensor: ..."
            continue
        numbers = any(p.type == "Tensor | Number" for p in op.tensor_parameters)
        other = "Tensor | Number" if numbers else "Tensor"
        forms = [name]
        if not slot.startswith("Py_"):
            forms += ["r" + name] + ["i" + name] * (len(others) > 1)
        for form in forms:
            unlike_object = "  # type: ignore[override]" if form in ("eq", "ne") else ""
            found[f"__{form}__"] = (
                f"def __{form}__(self, other: {other}, /) -> Tensor: ...{unlike_object}"
            )
    return found


def file_name(module):
    """The stub of a namespace of the table: "nn.functional" is in _nn_functional.pyi."""
    return f"_{module.replace('.', '_').lower()}.pyi"


def write_stubs(tables):
    """File name to text, for python/rushlight/_C."""
    modules = defaultdict(dict)
    for (module, name), members in _names(tables).items():
        modules[module][name] = members
    files = {}
    return_types = _ReturnTypes()
    for module, names in sorted(modules.items()):
        method = module == "Tensor"
        lines = [_HEADER] + (["", "class TensorMethods:"] if method else [""])
        indent = "    " if method else ""
        if method:
            operators = _operators(tables)
            lines += [indent + text for _, text in sorted(operators.items())]
            names = {name: rows for name, rows in names.items() if name not in operators}
        for name in sorted(names):
            lines += _entries(names[name], name, method, indent, return_types)
        files[file_name(module)] = "\n".join(lines) + "\n"
    files["_return_types.pyi"] = return_types.text()
    return files
