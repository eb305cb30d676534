"""Bodies of composites: an expression of ops, or statements in a small part of Python, as C++.

Statements are assignments, `if`, calls of checks, `with no_grad():` and `return`. A body calls ops
and the functions below, which see sizes, dtypes and numbers, or refuse arguments; of those that
give tensors each only changes how the elements of one are kept or seen.
"""

import ast
import textwrap

from gen.formula import Formula
from gen.signature import TableError, cxx_variable

# Checks and guards: calls for their errors and warnings.
CHECKS = {
    "check", "check_batch_norm", "check_columns", "check_elements",
    "check_group_norm", "check_image_blocks", "check_in_place_geometry",
    "check_index", "check_loss_weight", "check_matrix", "check_padded", "check_place",
    "check_probabilities", "check_reduction", "check_same_device", "check_square",
    "check_trailing", "check_type", "check_unpacked", "check_value", "warn",
}  # fmt: skip
# What gives numbers, sizes, dtypes and truth values.
VALUES = {
    "batch_of", "broadcast_sizes", "can_be_lazy", "casts_to", "channel_sizes", "checked_alpha",
    "checked_divisor", "chunk_sizes", "common_dtype", "correction_of", "cross_dim",
    "default_dtype", "embedded_sizes", "epsilon", "flattened_sizes", "hstack_dim", "in_old_order",
    "infer_size", "inner_sizes", "is_conjugated", "is_differentiable", "is_integral",
    "is_integral_or_bool",
    "is_negated", "is_reduced", "is_viewable", "item", "largest_finite", "last_dims", "length",
    "moved_dims", "one_or_all", "or_else", "padding_row", "promote", "reads_upper", "records",
    "reduction_name", "split_sizes_of", "truth", "unflattened_sizes", "whole_item",
    "with_leading_ones", "with_matrix", "wrap_dim",
}  # fmt: skip
# What keeps or shows the elements of one tensor in another way.
TENSORS = {
    "adjoint_now", "alias", "as_tensor", "at_least", "become", "bool_to_int64", "clone_with_gaps",
    "copy_of_storage", "first", "floating", "in_order", "number_beside", "reduced_by_node",
    "without_base",
    "without_bases", "wrap_number",
}  # fmt: skip
# Composites in C++ that rows of several ranks share: such a row is not enough.
BY_HAND = {"convolve", "convolve_named", "convolve_transposed", "sum_to"}


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
        if isinstance(s, ast.With) and ast.unparse(s.items[0]) == "no_grad()":
            return ["{", "  NoGradGuard no_grad;", *self._block(s.body, dict(names), "  "), "}"]
        self._fail(s, f"a body cannot hold {type(s).__name__}")

    def _returned(self, value, names):
        if isinstance(value, ast.Tuple):
            return f"{{{', '.join(self._text(v, names)[0] for v in value.elts)}}}"
        return self._text(value, names)[0]

    def _assignment(self, target, value, names):
        text, kind = self._text(value, names)
        if isinstance(target, ast.Tuple):
            fresh = [cxx_variable(t.id) for t in target.elts]
            names.update({t.id: "tensor" for t in target.elts})
            return [f"const auto [{', '.join(fresh)}] = {text};"]
        known = target.id in names
        names[target.id] = kind
        return [f"{'' if known else 'auto '}{cxx_variable(target.id)} = {text};"]
