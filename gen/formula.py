"""Formulas: one Python expression, written out as scalar C++ (a loop body) or as differentiable
tensor ops."""

import ast
import json

from gen.signature import TableError, cxx_variable

_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARE = {
    ast.Gt: (">", "gt"),
    ast.GtE: (">=", "ge"),
    ast.Lt: ("<", "lt"),
    ast.LtE: ("<=", "le"),
    ast.Eq: ("==", "eq"),
    ast.NotEq: ("!=", "ne"),
}
_BITWISE = {
    ast.BitAnd: ("&", "bitwise_and"),
    ast.BitOr: ("|", "bitwise_or"),
    ast.BitXor: ("^", "bitwise_xor"),
}

# What has come to an input from elsewhere when a formula works out its gradient: undefined, or a
# tensor of the engine's that the formula adds to in place and returns.
ACCUMULATED = "accumulated"
# Functions of src/math that are cheaper where f_needs_slow_path(...) is 0: fast_f(...)
# (math/arithmetic.h).
NEAR = {
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "cos",
    "digamma",
    "erfc",
    "erfinv",
    "exp",
    "floor_divide",
    "floor_division",
    "fmod",
    "lgamma",
    "log",
    "log2",
    "remainder",
    "sigmoid",
    "sin",
    "tan",
    "trunc_divide",
}
# Functions of src/math that cost no more than an addition or two.
_CHEAP = set(
    "abs bitwise_not ceil clamp_max clamp_min conj copysign fmax fmin floor frac heaviside "
    "isfinite isinf isnan isneginf isposinf lerp logical_not maximum minimum nan_to_num neg "
    "reciprocal round rsqrt sgn shift_left shift_right sign signbit sqrt square trunc where".split()
)
# Those that compilers make no vector code of.
_BY_ELEMENT = set(
    "airy_ai chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v "
    "chebyshev_polynomial_w gcd hermite_polynomial_h hermite_polynomial_he igamma igammac "
    "igamma_slope laguerre_polynomial_l lcm legendre_polynomial_p nextafter polygamma "
    "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
    "shifted_chebyshev_polynomial_w sinc spherical_bessel_j0 zeta".split()
)
# Facts about an input that a formula may ask for without keeping its elements.
META = {
    "sizes": "Dims",
    "dtype": "DType",
    "numel": "int64_t",
    "dim_of": "int64_t",
    "options": "TensorOptions",
    "strides": "Dims",
    "offset": "int64_t",
    "meta_of": "OutputMeta",
    "has_physical_layout": "bool",
}
# What bodies may ask of tensors, optional arguments and sizes.
METHODS = {
    "append": "{0}.push_back({1})",
    "device": "{0}.device()",
    "dtype_of": "{0}.dtype()",
    "equals": "{0}.equals({1})",
    "float": "static_cast<double>({0})",
    "given": "(*{0})",
    "insert": "{0}.insert({1}, {2})",
    "int": "static_cast<int64_t>({0})",
    "is_bool": "{0}.is_bool()",
    "is_complex": "{0}.is_complex()",
    "is_empty": "{0}.empty()",
    "is_floating": "{0}.is_floating()",
    "is_whole": "{0}.is_integral()",
    "kind_of": "{0}.kind()",
    "whole_number": "{0}.to<int64_t>()",
    "is_number": "{0}.impl()->wrapped_number",
    "is_same": "{0}.is_same({1})",
    "new": "rl::empty({0}, {1})",
    "new_column_major": "empty_column_major({0}, {1})",
    "options_of": "options({0}, {1})",
    "real_part": "{0}.real()",
    "root_of": "std::sqrt({0})",
    "size": "{0}.size({1})",
    "value_or": "{0}.value_or({1})",
}
# Methods that give tensors.
_GIVE_TENSORS = {"new", "new_column_major"}
_TENSOR_CONSTANTS = {"no_tensor": "tensor", "no_tensors": "list"}
_DTYPES = {
    "bool": "Bool", "uint8": "UInt8", "int8": "Int8", "int16": "Int16", "int32": "Int32",
    "int64": "Int64", "float16": "Float16", "bfloat16": "BFloat16", "float32": "Float32",
    "float64": "Float64", "complex64": "Complex64", "complex128": "Complex128",
}  # fmt: skip
CONSTANTS = {
    **{name: f"DType::{cxx}" for name, cxx in _DTYPES.items()},
    "no_tensor": "Tensor()",
    "no_tensors": "TensorList{}",
    "no_sizes": "Dims{}",
    "no_view": "nullptr",
    "divide_and_conquer": "kernels::SvdDriver::DivideAndConquer",
    "strided": "LayoutArgument()",
    "cpu": "Device{}",
    "cuda": "Device{DeviceType::CUDA}",
}
META_EXPRESSION = {
    "sizes": "{0}.sizes()",
    "dtype": "{0}.dtype()",
    "numel": "{0}.numel()",
    "dim_of": "{0}.dim()",
    "options": "options({0})",
    "strides": "{0}.strides()",
    "offset": "{0}.offset()",
    "meta_of": "meta_of({0})",
    "has_physical_layout": "has_physical_layout({0})",
}


def _is_product(node):
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)


def _as_tensor(text):
    return "Tensor()" if text == "std::nullopt" else f"wrap_number(Scalar({text}))"


class Formula:
    """A parsed expression; names are checked against what the row offers."""

    METHODS = METHODS.keys() | META.keys() | {"min", "max", "abs"}

    def __init__(self, row, column, text, names, saves=True, values=()):
        self.values = values  # functions, besides ops, that give numbers or sizes
        self.row, self.column, self.text = row, column, text
        try:
            self.tree = text if isinstance(text, ast.AST) else ast.parse(text, mode="eval").body
        except SyntaxError as error:
            raise TableError(row, column, error.msg, error.offset) from None
        self.saves = saves  # facts about inputs come from what the node saved
        self.names = names  # name -> "tensor", "list" or "value"
        self.used = set()  # names whose value is used
        self.meta = set()  # (function, name) of META facts
        self.wants = set()
        self.operations = 0
        self._collect(self.tree)

    @property
    def is_arithmetic(self):
        """Is it one operation that a loop computes, whatever else the table holds?"""
        top = self.tree
        call = isinstance(top, ast.Call) and top.func.id == "neg"
        return self.operations == 1 and (isinstance(top, ast.BinOp) or call)

    def fail(self, node, message):
        raise TableError(self.row, self.column, message, getattr(node, "col_offset", 0) + 1)

    def _collect(self, node):
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name):
                self.fail(node, "only plain function calls are understood")
            name = node.func.id
            arg = node.args[0].id if node.args and isinstance(node.args[0], ast.Name) else None
            if name in META and arg in self.names and self.names[arg] in ("tensor", "list"):
                self.meta.add((name, arg))
                return
            if name == "wants":
                self.wants.add(arg)
                return
            if name not in ("conj", "scale"):
                self.operations += 1
            for a in node.args:
                self._collect(a)
            if node.keywords:
                self.fail(node, "keyword arguments are not understood: pass them by position")
            return
        if isinstance(node, ast.Name):
            if node.id not in self.names:
                if node.id in ("inf", "nan", "pi"):
                    return
                if node.id in CONSTANTS and not self.saves:
                    return
                self.fail(
                    node, f"unknown name '{node.id}'; known here: {', '.join(sorted(self.names))}"
                )
            self.used.add(node.id)
            return
        if isinstance(node, (ast.BinOp, ast.Compare, ast.BoolOp)):
            self.operations += 1
        if isinstance(node, ast.ListComp):
            (loop,) = node.generators
            self._collect(loop.iter)
            self.names = {**self.names, loop.target.id: "tensor"}
            return self._collect(node.elt)
        for child in ast.iter_child_nodes(node):
            self._collect(child)

    # ---- scalar C++

    def scalar(self, near=()):
        """The C++ text; calls that are in `near`, of fast_calls(), become fast_f."""
        self._near = near
        return self._scalar(self.tree)

    def fast_calls(self, operands):
        """(function, arguments) of the calls on operands alone that have a cheaper form."""
        return sorted(
            {
                (n.func.id, tuple(a.id for a in n.args))
                for n in ast.walk(self.tree)
                if isinstance(n, ast.Call)
                and n.func.id in NEAR
                and all(isinstance(a, ast.Name) and a.id in operands for a in n.args)
            }
        )

    @property
    def is_worth_whole_vectors(self):
        """Do one element and a vector of them cost alike, and both much?"""
        called = {
            n.func.id if isinstance(n, ast.Call) else "pow"
            for n in ast.walk(self.tree)
            if isinstance(n, ast.Call) or isinstance(getattr(n, "op", None), ast.Pow)
        }
        return bool(called - _CHEAP) and not called & _BY_ELEMENT

    def _scalar(self, n):
        s = self._scalar
        if isinstance(n, ast.Constant):
            if isinstance(n.value, bool):
                return "true" if n.value else "false"
            return f"T({n.value!r})"
        if isinstance(n, ast.Name):
            special = {
                "inf": "std::numeric_limits<real_t<T>>::infinity()",
                "nan": "std::numeric_limits<real_t<T>>::quiet_NaN()",
                "pi": "T(3.14159265358979323846)",
            }
            return special.get(n.id) or cxx_variable(n.id)
        if isinstance(n, ast.BinOp):
            if type(n.op) in (ast.Add, ast.Sub):
                add, left, right = isinstance(n.op, ast.Add), n.left, n.right
                if _is_product(right):
                    name = "plus_product" if add else "minus_product"
                    return f"{name}({s(left)}, {s(right.left)}, {s(right.right)})"
                if _is_product(left):
                    if add:
                        return f"plus_product({s(right)}, {s(left.left)}, {s(left.right)})"
                    return f"product_minus({s(left.left)}, {s(left.right)}, {s(right)})"
            if type(n.op) is ast.Mult:
                return f"product({s(n.left)}, {s(n.right)})"
            for table in (_BINARY, {k: v[0] for k, v in _BITWISE.items()}):
                if type(n.op) in table:
                    return f"({s(n.left)} {table[type(n.op)]} {s(n.right)})"
            if isinstance(n.op, ast.Pow):
                return f"pow({s(n.left)}, {s(n.right)})"
        if isinstance(n, ast.UnaryOp):
            if isinstance(n.op, ast.USub):
                return f"(-{s(n.operand)})"
            if isinstance(n.op, ast.Not):
                return f"(!{s(n.operand)})"
            if isinstance(n.op, ast.Invert):
                return f"(~{s(n.operand)})"
        if isinstance(n, ast.Compare) and len(n.ops) == 1:
            return f"({s(n.left)} {_COMPARE[type(n.ops[0])][0]} {s(n.comparators[0])})"
        if isinstance(n, ast.BoolOp):
            sign = " & " if isinstance(n.op, ast.And) else " | "
            return "(" + sign.join(s(v) for v in n.values) + ")"
        if isinstance(n, ast.Call):
            call = (n.func.id, tuple(getattr(a, "id", None) for a in n.args))
            near = "fast_" if call in self._near else ""
            return f"{near}{n.func.id}({', '.join(s(a) for a in n.args)})"
        self.fail(
            n, f"a kernel formula cannot hold {type(n).__name__}; use where(c, a, b) for a choice"
        )

    # ---- tensor C++

    def tensor(self, table):
        """An expression of ops; `table` maps C++ names to signatures, so that numbers are wrapped
        where needed."""
        self._table = table
        return self._tensor(self.tree)[0]

    def tensor_and_kind(self, table):
        """The same, and what it gives: "tensor", "list" or "value"."""
        self._table = table
        text, is_tensor = self._tensor(self.tree)
        if not is_tensor:
            return text, "value"
        n = self.tree
        if isinstance(n, ast.Call):
            found = table.get(n.func.id)
            many = found and all(s.returns in ("tuple", "list[Tensor]") for s in found)
            return text, "list" if many else "tensor"
        if isinstance(n, ast.Name):
            return text, self.names.get(n.id) or _TENSOR_CONSTANTS[n.id]
        return text, "list" if isinstance(n, (ast.List, ast.ListComp)) else "tensor"

    def _of_body(self, n):
        """What only bodies hold, or None."""
        t = self._tensor
        if isinstance(n, ast.ListComp):
            (loop,) = n.generators
            each = f"[&](const Tensor& {cxx_variable(loop.target.id)}) {{ return {t(n.elt)[0]}; }}"
            return f"each_of({t(loop.iter)[0]}, {each})", True
        if isinstance(n, ast.Compare) and isinstance(n.ops[0], (ast.Is, ast.IsNot)):
            text, is_tensor = t(n.left)
            defined = f"{text}.defined()" if is_tensor else f"{text}.has_value()"
            return ("!" if isinstance(n.ops[0], ast.Is) else "") + defined, False
        if isinstance(n, ast.BinOp) and isinstance(n.op, (ast.Mod, ast.FloorDiv)):
            sign = "%" if isinstance(n.op, ast.Mod) else "/"
            return f"({t(n.left)[0]} {sign} {t(n.right)[0]})", False
        if isinstance(n, ast.Subscript) and not t(n.value)[1]:
            return f"{t(n.value)[0]}[{t(n.slice)[0]}]", False
        if isinstance(n, ast.Call):
            return self._method(n)
        return None

    def _method(self, n):
        name, args = n.func.id, n.args
        if name in METHODS:
            texts = (self._tensor(a)[0] for a in args)
            return METHODS[name].format(*texts), name in _GIVE_TENSORS
        if name in META_EXPRESSION and name not in self._table:
            return META_EXPRESSION[name].format(self._tensor(args[0])[0]), False
        if name in ("min", "max", "abs"):
            parts = [self._tensor(a) for a in args]
            if not any(p[1] for p in parts):
                kind = "" if name == "abs" else "<int64_t>"
                return f"std::{name}{kind}({', '.join(p[0] for p in parts)})", False
        return None

    def _tensor(self, n):
        """Returns (C++ text, is a tensor)."""
        t = self._tensor
        if not self.saves and (found := self._of_body(n)):
            return found
        if isinstance(n, ast.Constant):
            if isinstance(n.value, bool):
                return ("true" if n.value else "false"), False
            if n.value is None:
                return "std::nullopt", False
            if isinstance(n.value, str):
                return json.dumps(n.value), False
            if isinstance(n.value, complex):
                return f"Scalar(complex128({n.value.real!r}, {n.value.imag!r}))", False
            return (f"int64_t({n.value})" if isinstance(n.value, int) else repr(n.value)), False
        if isinstance(n, ast.Name):
            special = {
                "inf": "std::numeric_limits<double>::infinity()",
                "nan": "std::numeric_limits<double>::quiet_NaN()",
                "pi": "3.14159265358979323846",
            }
            if n.id in special and n.id not in self.names:
                return special[n.id], False
            if n.id not in self.names and n.id in CONSTANTS:
                return CONSTANTS[n.id], n.id in _TENSOR_CONSTANTS
            return cxx_variable(n.id), self.names[n.id] != "value"
        if isinstance(n, ast.BinOp):
            a, b = t(n.left), t(n.right)
            if type(n.op) in _BINARY:
                return f"({a[0]} {_BINARY[type(n.op)]} {b[0]})", a[1] or b[1]
            if type(n.op) in _BITWISE:
                return self._call(n, _BITWISE[type(n.op)][1], [a, b])
            if isinstance(n.op, ast.Pow):
                return self._call(n, "pow", [a, b])
        if isinstance(n, ast.UnaryOp):
            a = t(n.operand)
            if isinstance(n.op, ast.USub):
                return (f"ops::neg({a[0]})" if a[1] else f"(-{a[0]})"), a[1]
            if isinstance(n.op, ast.Not):
                return self._call(n, "logical_not", [a]) if a[1] else (f"(!{a[0]})", False)
        if isinstance(n, ast.Compare) and len(n.ops) == 1:
            a, b = t(n.left), t(n.comparators[0])
            sign, name = _COMPARE[type(n.ops[0])]
            if not a[1] and not b[1]:
                return f"({a[0]} {sign} {b[0]})", False
            return self._call(n, name, [a, b])
        if isinstance(n, ast.BoolOp):
            parts = [t(v) for v in n.values]
            is_and = isinstance(n.op, ast.And)
            if not any(p[1] for p in parts):
                return "(" + (" && " if is_and else " || ").join(p[0] for p in parts) + ")", False
            out = parts[0]
            for p in parts[1:]:
                out = self._call(n, "logical_and" if is_and else "logical_or", [out, p])
            return out
        if isinstance(n, ast.IfExp):
            c, a, b = t(n.test), t(n.body), t(n.orelse)
            if a[1] != b[1]:
                a, b = (x if x[1] else (_as_tensor(x[0]), True) for x in (a, b))
            return f"({c[0]} ? {a[0]} : {b[0]})", a[1] or b[1]
        if isinstance(n, (ast.List, ast.Tuple)):
            parts = [t(v) for v in n.elts]
            kind = "TensorList" if any(p[1] for p in parts) else "Dims"
            return f"{kind}{{{', '.join(p[0] for p in parts)}}}", kind == "TensorList"
        if isinstance(n, ast.Subscript):
            return f"{t(n.value)[0]}[{ast.unparse(n.slice)}]", True
        if isinstance(n, ast.Call):
            name = n.func.id
            arg = n.args[0].id if n.args and isinstance(n.args[0], ast.Name) else None
            if (name, arg) in self.meta:
                text = (
                    f"{arg}_{name}"
                    if self.saves
                    else META_EXPRESSION[name].format(cxx_variable(arg))
                )
                return text, False
            if name == "wants":
                return f"wants_{arg}", False
            args = [t(a) for a in n.args]
            if name == "conj" and not args[0][1]:
                return f"conj({args[0][0]})", False
            if name == "conj" and self.saves:  # gradients have no use for views
                name = "conj_now"
            return self._call(n, name, args)
        self.fail(n, f"a gradient formula cannot hold {type(n).__name__}")

    def _call(self, node, name, args):
        signatures = [s for s in self._table.get(name, ()) if len(s.parameters) >= len(args)]
        texts = [a[0] for a in args]
        in_place = () if signatures else self._table.get(name.removesuffix("_"), ())
        for i, (text, is_tensor) in enumerate(args):
            found = [s.parameters[i] for s in signatures or in_place if len(s.parameters) > i]
            if not is_tensor and found and all(p.is_tensor for p in found):
                texts[i] = _as_tensor(text)
            elif text == "std::nullopt" and found and all(p.type == "Generator" for p in found):
                texts[i] = "nullptr"
            elif text == "std::nullopt" and found and all(p.type == "layout" for p in found):
                texts[i] = "LayoutArgument()"
        is_op = signatures or in_place
        space = "grad" if signatures and signatures[0].row.kind == "function" else "ops"
        cxx = f"{space}::{signatures[0].cxx_name if signatures else name}" if is_op else name
        returns = {s.returns for s in signatures}
        value = returns and not returns & {"Tensor", "tuple", "list[Tensor]", "None"}
        if name.startswith("launch_"):
            cxx = f"launch::{name.removeprefix('launch_')}"
        return f"{cxx}({', '.join(texts)})", not (value or name in self.values)
