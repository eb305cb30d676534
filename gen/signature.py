"""Signatures of rows: parsed once, asked by every writer."""

import ast
import re
from dataclasses import dataclass

CXX_KEYWORDS = {
    "float",
    "double",
    "int",
    "long",
    "short",
    "bool",
    "char",
    "and",
    "or",
    "not",
    "xor",
    "default",
    "signed",
}


class TableError(Exception):
    """A mistake in a row: names file, row, field and column."""

    def __init__(self, row, column, message, offset=None):
        at = "" if offset is None else f", character {offset}"
        super().__init__(f"{row.where}: {row.signature.split('(')[0]}: {column}{at}: {message}")


@dataclass(frozen=True)
class CxxType:
    value: str  # as stored in a node
    argument: str  # as a parameter
    reader: str  # method of bind::Arguments
    kind: str  # enumerator of bind::Kind


_SIMPLE = {
    "Tensor": CxxType("Tensor", "const Tensor&", "tensor", "Tensor"),
    "Scalar": CxxType("Scalar", "const Scalar&", "scalar", "Scalar"),
    "int": CxxType("int64_t", "int64_t", "integer", "Int"),
    "float": CxxType("double", "double", "real", "Float"),
    "bool": CxxType("bool", "bool", "boolean", "Bool"),
    "str": CxxType("std::string", "const std::string&", "text", "String"),
    "list[Tensor]": CxxType("TensorList", "const TensorList&", "tensors", "TensorList"),
    "list[Tensor | None]": CxxType(
        "TensorList", "const TensorList&", "tensors_or_none", "OptionalTensorList"
    ),
    "list[int]": CxxType("Dims", "const Dims&", "integers", "IntList"),
    "list[float]": CxxType(
        "std::vector<double>", "const std::vector<double>&", "reals", "FloatList"
    ),
    "Tensor | Number": CxxType("Tensor", "const Tensor&", "tensor_or_number", "TensorOrNumber"),
    "name": CxxType("const char*", "const char*", "", ""),  # of functions alone: the op's
}
_OPTIONAL = {
    "Tensor": CxxType("Tensor", "const Tensor&", "tensor_or_none", "Tensor"),
    "dtype": CxxType("std::optional<DType>", "std::optional<DType>", "dtype_or_none", "DType"),
    "device": CxxType("std::optional<Device>", "std::optional<Device>", "device_or_none", "Device"),
    "memory_format": CxxType(
        "std::optional<MemoryFormat>",
        "std::optional<MemoryFormat>",
        "memory_format_or_none",
        "MemoryFormat",
    ),
    "Generator": CxxType("Generator*", "Generator*", "generator_or_none", "Generator"),
    "layout": CxxType("LayoutArgument", "LayoutArgument", "layout", "Layout"),
}


def cxx_type(name, optional):
    if name in _OPTIONAL and (optional or name != "Tensor"):
        return _OPTIONAL[name]
    plain = _SIMPLE[name]
    if not optional:
        return plain
    value = f"std::optional<{plain.value}>"
    return CxxType(
        value,
        f"const {value}&" if plain.argument.startswith("const") else value,
        plain.reader + "_or_none",
        plain.kind,
    )


@dataclass(frozen=True)
class Parameter:
    name: str
    type: str  # "Tensor", "list[int]", ... without "| None"
    optional: bool  # None is accepted
    default: object  # source text, or None if required
    keyword_only: bool
    length: int = -1
    wraps: bool = False  # a dim of the first tensor: negative ones count from its end

    @property
    def cxx(self):
        return cxx_type(self.type, self.optional)

    @property
    def is_tensor(self):
        return self.type in ("Tensor", "Tensor | Number")

    @property
    def is_tensor_list(self):
        return self.type.startswith("list[Tensor")

    @property
    def cxx_default(self):
        return default_of(self)

    @property
    def none_is_default(self):
        """Python's None stands for an empty list, as in torch where that is the default."""
        return self.default in ("()", "[]") and not self.optional


def default_of(p):
    """The default as C++, or None where the parameter is required."""
    d = p.default
    if d is None:
        return None
    if d == "None":
        return {"Tensor": "Tensor()", "Generator": "nullptr", "layout": "LayoutArgument()"}.get(
            p.type, "std::nullopt"
        )
    if d in ("True", "False"):
        text = d.lower()
    elif d.startswith(("(", "[")):
        text = "Dims{" + d[1:-1].strip().rstrip(",") + "}"
    elif d.startswith(("'", '"')):
        text = '"' + d[1:-1] + '"'
    elif d in ("inf", "-inf"):
        text = d.replace("inf", "std::numeric_limits<double>::infinity()")
    else:
        text = d
    if p.type.startswith("list[int") and not text.startswith("Dims"):
        text = "Dims{" + ", ".join([text] * max(p.length, 1)) + "}"
    if p.type == "Scalar":
        text = f"Scalar({text})"
    if p.type == "Tensor | Number":
        text = f"wrap_number(Scalar({text}))"
    return text


class Signature:
    def __init__(self, row):
        try:
            tree = ast.parse(f"def {row.signature}: pass").body[0]
        except SyntaxError as error:
            raise TableError(row, "signature", error.msg, error.offset) from None
        self.row = row
        self.name, _, self.overload = tree.name.rpartition("__")
        if not self.name:
            self.name, self.overload = tree.name, ""
        self.full_name = f"{self.name.strip('_')}_{self.overload}" if self.overload else self.name
        args = tree.args
        defaults = [None] * (len(args.args) - len(args.defaults)) + args.defaults
        self.parameters = [self._parameter(a, d, False) for a, d in zip(args.args, defaults)]
        self.parameters += [
            self._parameter(a, d, True) for a, d in zip(args.kwonlyargs, args.kw_defaults)
        ]
        self.outputs, self.returns = self._result(tree.returns)

    def _parameter(self, arg, default, keyword_only):
        text = ast.unparse(arg.annotation) if arg.annotation else "Tensor"
        optional = text.endswith(" | None")
        text = text.removesuffix(" | None")
        wraps = text == "Dim"
        text = "int" if wraps else text
        length = -1
        sized = re.fullmatch(r"list\[(int|float), (\d+)\]", text)
        if sized:
            text, length = f"list[{sized[1]}]", int(sized[2])
        if text not in _SIMPLE and text not in _OPTIONAL:
            raise TableError(
                self.row, "signature", f"unknown type '{text}' of {arg.arg}", arg.col_offset - 4
            )
        return Parameter(
            arg.arg,
            text,
            optional,
            None if default is None else ast.unparse(default),
            keyword_only,
            length,
            wraps,
        )

    def _result(self, node):
        text = "Tensor" if node is None else ast.unparse(node)
        if text.startswith("tuple["):
            names = [n.strip() for n in text[6:-1].split(",")]
            return names, "tuple"
        if text not in (
            "Tensor",
            "list[Tensor]",
            "bool",
            "int",
            "float",
            "Scalar",
            "dtype",
            "None",
            "list[int]",
        ):
            raise TableError(self.row, "signature", f"unknown result '{text}'")
        return ["out"], text

    @property
    def cxx_name(self):
        return self.name + "_op" if self.name in CXX_KEYWORDS else self.name

    @property
    def tensors(self):
        return [p for p in self.parameters if p.is_tensor]

    def parameter(self, name):
        return next((p for p in self.parameters if p.name == name), None)

    @property
    def cxx_result(self):
        return {
            "Tensor": "Tensor",
            "list[Tensor]": "TensorList",
            "bool": "bool",
            "int": "int64_t",
            "float": "double",
            "Scalar": "Scalar",
            "dtype": "DType",
            "None": "void",
            "list[int]": "Dims",
            "tuple": f"std::array<Tensor, {len(self.outputs)}>",
        }[self.returns]

    def cxx_parameters(self, defaults=False):
        parts = []
        trailing = True
        for p in reversed(self.parameters):
            text = f"{p.cxx.argument} {cxx_variable(p.name)}"
            value = p.cxx_default if trailing else None
            if value is None:
                trailing = False
            elif defaults:
                text += f" = {value}"
            parts.append(text)
        return ", ".join(reversed(parts))

    def cxx_arguments(self):
        return ", ".join(cxx_variable(p.name) for p in self.parameters)


def cxx_variable(name):
    return name + "_" if name in CXX_KEYWORDS or name in ("out",) else name
