"""Bodies of rows: an expression of ops, or statements in a small part of Python, as C++.

Statements are assignments, `if`, `for` over a range or a list, calls of checks, `with no_grad():`
and `return`. A body calls ops, functions of the table and those below, which see sizes, dtypes and
numbers, or refuse arguments; of those that give tensors each only changes how the elements of one
are kept or seen. That of a kernel also calls kernels, as `launch_name(...)`.
"""

import ast
import textwrap

from gen.formula import Formula
from gen.signature import TableError, cxx_variable
from ops.kernels import KERNELS

# Checks and guards: calls for their errors and warnings.
CHECKS = {
    "check", "check_columns", "check_elements", "check_fits", "check_image_blocks",
    "check_factor", "check_implemented", "check_in_place_geometry", "check_index", "check_info",
    "check_loss_weight", "check_matrix", "check_padded", "check_pieces", "check_place",
    "check_probabilities", "check_reduction", "check_same_device", "check_same_dtype",
    "check_same_factors", "check_slices",
    "check_square", "check_type", "check_unpacked", "check_value", "warn",
}  # fmt: skip
# What gives numbers, sizes, dtypes and truth values.
VALUES = {
    "batch_of", "broadcast_sizes", "can_be_lazy", "casts_to", "channel_sizes", "checked_alpha",
    "checked_divisor", "chunk_sizes", "common_dtype", "correction_of", "count_reduced",
    "cross_dim", "default_dtype", "dims_or_all", "draws_in_kernel", "embedded_sizes",
    "ends_with", "epsilon",
    "flattened_sizes", "format_like", "grad_enabled", "hstack_dim", "in_old_order", "infer_size",
    "inner_sizes", "is_conjugated", "is_differentiable", "is_integral", "is_integral_or_bool",
    "is_negated", "is_recorded", "is_reduced", "is_viewable", "item", "item_or", "largest_finite",
    "last_dims",
    "length", "line_sizes", "moved_dims", "one_or_all", "or_else", "other_dims", "padding_row",
    "product", "promote", "reads_upper", "reduction_name", "shares_storage",
    "split_sizes_of", "to_complex", "to_real", "truth", "unflattened_sizes", "whole_for",
    "whole_item", "with_last", "with_leading_ones", "with_matrix", "with_size", "without_dim",
    "without_last", "wrap_dim", "wrapping_product",
}  # fmt: skip
# What keeps or shows the elements of one tensor in another way.
TENSORS = {
    "accumulated_or_zeros", "adjoint_now", "alias", "as_tensor", "at_least", "become",
    "clone_with_gaps", "converted", "copy_of_storage", "expand_reduced",
    "first", "floating", "in_order", "info_for", "matrices_like", "number_beside",
    "reduced_by_node", "scale", "unsqueeze_all", "without_base", "without_bases", "wrap_number",
}  # fmt: skip
# Composites in C++ that rows of several ranks share: such a row is not enough.
BY_HAND = {"convolve", "convolve_named", "convolve_transposed", "sum_to"}
_LAUNCHES = {f"launch_{name}" for names in KERNELS.values() for name in names.split()}


def is_expression(text):
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


def calls_in(text):
    """The names that a body calls."""
    tree = ast.parse(textwrap.dedent(text))
    return {
        n.func.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    }


def _branches(value):
    """What an expression may give, by its conditions."""
    if isinstance(value, ast.IfExp):
        return _branches(value.body) + _branches(value.orelse)
    return [value]


class Body:
    """A composite's body; `signatures`: those of all ops by their names."""

    def __init__(self, op, signatures):
        self.op, self.row, self.signatures = op, op.row, signatures
        names = {}
        for p in op.signature.parameters:
            names[p.name] = "tensor" if p.is_tensor else "list" if p.is_tensor_list else "value"
        self.names = names

    def expression(self):
        """The C++ of a body that is one expression, else None."""
        if not is_expression(self.row.body):
            return None
        return self._text(ast.parse(self.row.body, mode="eval").body, self.names)[0]

    def lines(self):
        expression = self.expression()
        if expression is not None:
            return [f"  return {expression};"]
        try:
            tree = ast.parse(textwrap.dedent(self.row.body))
        except SyntaxError as error:
            raise TableError(self.row, "body", error.msg, error.offset) from None
        return self._block(tree.body, self.names, "  ")

    def lines_in_place(self):
        """The C++ of a body of statements that changes its first argument: each return is a call of
        an op on it, which becomes that op in place. None of others, and where another op reads the
        argument, whose old values backward may want.
        """
        if is_expression(self.row.body):
            return None
        tree = ast.parse(textwrap.dedent(self.row.body))
        first = self.op.signature.parameters[0].name
        changing = []
        for statement in ast.walk(tree):
            if isinstance(statement, ast.Return):
                changing += _branches(statement.value)
            elif isinstance(statement, ast.Assign) and first in map(ast.unparse, statement.targets):
                return None
        for call in changing:
            takes = isinstance(call, ast.Call) and call.args and ast.unparse(call.args[0]) == first
            if not takes or not any(
                called.row.inplace for called in self.signatures.get(ast.unparse(call.func), ())
            ):
                return None
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and ast.unparse(call.func) in self.signatures:
                read = call.args[1:] if call in changing else call.args
                if any(n for a in read for n in ast.walk(a) if ast.unparse(n) == first):
                    return None
        for call in changing:
            call.func.id += "_"
        return self._block(tree.body, self.names, "  ")

    def _fail(self, node, message):
        raise TableError(self.row, "body", f"line {node.lineno}: {message}", node.col_offset + 1)

    def _text(self, node, names):
        formula = Formula(self.row, "body", node, names, saves=False, values=CHECKS | VALUES)
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
                self._check_call(call)
        return formula.tensor_and_kind(self.signatures)

    def _check_call(self, call):
        name = call.func.id
        known = CHECKS | VALUES | TENSORS | BY_HAND | set(Formula.METHODS)
        if self.row.kind == "kernel":
            known |= _LAUNCHES
        op = name in self.signatures or (name.endswith("_") and name[:-1] in self.signatures)
        if not op and name not in known:
            self._fail(call, f"'{name}' is neither an op nor a function that bodies may call")

    def _block(self, statements, names, indent):
        lines = []
        for s in statements:
            lines += [indent + line for line in self._statement(s, names)]
        return lines

    def _statement(self, s, names):
        if isinstance(s, ast.Return):
            return [f"return {self._returned(s.value, names)};"]
        if isinstance(s, ast.Expr):
            return [f"{self._text(s.value, names)[0]};"]
        if isinstance(s, ast.Assign) and len(s.targets) == 1:
            return self._assignment(s.targets[0], s.value, names)
        if isinstance(s, ast.If):
            lines = [f"if ({self._text(s.test, names)[0]}) {{"]
            lines += self._block(s.body, dict(names), "  ")
            if s.orelse:
                lines += ["} else {", *self._block(s.orelse, dict(names), "  ")]
            return [*lines, "}"]
        if isinstance(s, ast.For):
            return self._loop(s, names)
        if isinstance(s, ast.With) and ast.unparse(s.items[0]) == "no_grad()":
            return ["{", "  NoGradGuard no_grad;", *self._block(s.body, dict(names), "  "), "}"]
        self._fail(s, f"a body cannot hold {type(s).__name__}")

    def _loop(self, s, names):
        variable = cxx_variable(s.target.id)
        if isinstance(s.iter, ast.Call) and ast.unparse(s.iter.func) == "range":
            *first, last = (self._text(a, names)[0] for a in s.iter.args)
            start = first[0] if first else "0"
            head = f"for (int64_t {variable} = {start}; {variable} < {last}; ++{variable}) {{"
            kind = "value"
        else:
            text, kind = self._text(s.iter, names)
            head = f"for (const auto& {variable} : {text}) {{"
            kind = "tensor" if kind == "list" else "value"
        return [head, *self._block(s.body, {**names, s.target.id: kind}, "  "), "}"]

    def _returned(self, value, names):
        if isinstance(value, ast.Tuple):
            texts = (self._text(v, names)[0] for v in value.elts)
            return f"{{{', '.join('Tensor()' if x == 'std::nullopt' else x for x in texts)}}}"
        return self._text(value, names)[0]

    def _assignment(self, target, value, names):
        text, kind = self._text(value, names)
        if isinstance(target, ast.Subscript):
            return [f"{self._text(target, names)[0]} = {text};"]
        if isinstance(target, ast.Tuple):
            fresh = [cxx_variable(t.id) for t in target.elts]
            names.update({t.id: "tensor" for t in target.elts})
            return [f"const auto [{', '.join(fresh)}] = {text};"]
        known = target.id in names
        names[target.id] = kind
        return [f"{'' if known else 'auto '}{cxx_variable(target.id)} = {text};"]
