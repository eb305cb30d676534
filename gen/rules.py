"""How vmap, autocast and forward mode treat the ops of the table: rushlight/_op_rules.py.

The module is data for `func._batching`, `amp.autocast_mode` and `autograd.forward_ad`, which import
it when they are first used. What a row does not say is inferred here.
"""

import ast
import textwrap

from gen.body import is_expression
from gen.signature import TableError
from ops.schema import WITHOUT_GRADIENT

DIMS = ("dim", "dims", "dimension")  # the parameter that names the dims an op works along
AUTOCAST = ("lower_precision", "float32", "promote", "float32_unless_constant")
# What a body may call beside ops; see func/_batching/_bodies.py.
HELPERS = {"first", "sizes", "in_order", "hstack_dim"}


class Rules:
    """The rules of all ops; bodies are followed into the ops that they call."""

    def __init__(self, tables):
        self.ops = [op for ops in tables.values() for op in ops]
        self._by_name = {}
        for op in self.ops:
            self._by_name.setdefault(op.cxx_name, []).append(op)
        self._along = {}
        for op in self.ops:
            if _dim_of(op):
                self._along.setdefault(op.python_names, op)
        self.views = {name for op in self.ops if op.row.kind == "view" for name in _bare(op)}
        self.of_whole = {  # names of ops that give one tensor where no dim is given
            name
            for op in self.ops
            if op.python_names in self._along and not _dim_of(op)
            if op.signature.returns == "Tensor"
            for name in _bare(op)
        }

    def has_an_integer_for(self, op, parameter):
        """Has another form of the op an integer where this one has a list?"""
        place = op.signature.parameters.index(parameter)
        forms = (c.signature.parameters for c in self.ops if c is not op and _bare(op) & _bare(c))
        return any(len(form) > place and form[place].type == "int" for form in forms)

    # ---- vmap

    def batch(self, op, within=()):
        """How all examples are computed at once: a rule's name, "loop: why not", or None where
        the row must say it.
        """
        row, s = op.row, op.signature
        if row.batch is not None:
            return row.batch
        if row.kind == "elementwise":
            return "elementwise"
        if s.parameter("generator"):
            return "random"
        if not any(p.is_tensor or p.is_tensor_list for p in s.parameters):
            return "factory"
        if s.returns not in ("Tensor", "tuple", "list[Tensor]"):
            return None
        if row.body and is_expression(row.body) and op not in within:
            called = self._called(op)
            if called and all(
                any(self.batch(c, (*within, op)) == "elementwise" for c in self._by_name[name])
                for name in called
            ):
                return "elementwise"
            if self.body(op):
                return "body"
            twins = [c for name in called for c in self._by_name[name] if _twins(op, c)]
            found = {self.batch(c, (*within, op)) for c in twins if c not in within}
            if len(found) == 1:
                return found.pop()
        if _dim_of(op) or op.python_names in self._along and _is_of_one(op):
            return "dim"
        return None

    def _called(self, op):
        return [name for name in _calls(op.row.body) if name in self._by_name]

    def body(self, op):
        """The Python of a composite's body, where what it calls can be called from Python."""
        found = {}
        for name in _calls(op.row.body):
            if name in HELPERS:
                continue
            found[name] = [c for c in self._by_name.get(name, ()) if _public(c)]
            if not found[name] or any(_bare(op) & _bare(c) for c in found[name]):
                return None
        return ast.unparse(_InPython(found).visit(ast.parse(op.row.body, mode="eval")))

    # ---- forward mode

    def is_linear(self, op):
        """Is the op of a tangent the tangent of the op, because its gradient is a function of the
        incoming gradient alone?
        """
        if op.row.linear is not None:
            return op.row.linear
        s = op.signature
        if op.row.kind in WITHOUT_GRADIENT or s.returns != "Tensor" or not _is_of_one(op):
            return False
        if len(op.gradients) != 1 or any(p.type == "Scalar" for p in s.parameters):
            return False
        formula = op.gradients[0].formula
        constant = any(
            isinstance(n, ast.Call) and n.func.id in ("zeros_like", "missing_gradient")
            for n in ast.walk(formula.tree)
        )
        tensors = {name for name in formula.used if formula.names[name] != "value"}
        return tensors == {"grad"} and not constant


def _calls(body):
    tree = ast.parse(body, mode="eval")
    operators = {ast.Mult: "mul", ast.Add: "add", ast.Sub: "sub", ast.Div: "div"}
    found = [n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call)]
    return found + [operators[type(n.op)] for n in ast.walk(tree) if isinstance(n, ast.BinOp)]


class _InPython(ast.NodeTransformer):
    """Calls of ops as Python has them: by public name, what is a keyword there as one."""

    def __init__(self, ops):
        self.ops = ops

    def visit_Call(self, node):
        self.generic_visit(node)
        if node.func.id in self.ops:
            overloads = self.ops[node.func.id]
            op = next(o for o in overloads if len(o.signature.parameters) >= len(node.args))
            node.func.id = "rushlight." + _public(op).removeprefix("torch.")
            parameters = op.signature.parameters
            places = [i for i in range(len(node.args)) if not parameters[i].keyword_only]
            node.keywords = [
                ast.keyword(parameters[i].name, a)
                for i, a in enumerate(node.args)
                if i not in places
            ]
            node.args = [node.args[i] for i in places]
        return node


def _public(op):
    return next((t for t in op.python_names if not t.rpartition(".")[2].startswith("_")), None)


def _twins(op, called):
    """Is it the same function under another module's name?"""
    return op is not called and bool(_bare(op) & _bare(called))


def _is_of_one(op):
    """Is its first argument the one tensor that it takes?"""
    tensors = [p for p in op.signature.parameters if p.is_tensor or p.is_tensor_list]
    return len(tensors) == 1 and tensors[0].is_tensor and tensors[0] is op.signature.parameters[0]


def _dim_of(op):
    if not op.python_names or not (op.row.batch == "dim" or _is_of_one(op)):
        return None
    return next((p for p in op.signature.parameters if p.name in DIMS), None)


def _targets(op):
    """Its names in Python, those that overwrite the first argument too."""
    names = list(op.python_names)
    return names + [name + "_" for name in names] * bool(op.row.inplace)


def _bare(op):
    return dict.fromkeys(target.rpartition(".")[2] for target in _targets(op)).keys()


def _calls_by_rule(rules):
    """Rule -> how the ops that have it are called from Python, for ops that know their keys alone:
    "key", or "key=name/keyword:default/..." where the name is another one or arguments are
    keywords.
    """
    found = {}
    for op in rules.ops:
        rule = rules.batch(op)
        if rule in (None, "random", "value", "metadata") or rule.startswith(("loop", "spread_")):
            continue
        for inplace in (False, True) if op.row.inplace else (False,):
            if inplace:
                name = f"Tensor.{op.name}_"
            else:
                name = _public(op) or next(iter(op.python_names), None)
            if name is None:
                continue
            keywords = [f"{p.name}:{p.default}" for p in op.signature.parameters if p.keyword_only]
            key = op.key(inplace)
            plain = f"Tensor.{key}" if inplace else f"torch.{key}"
            text = key if name == plain and not keywords else "/".join([f"{key}={name}", *keywords])
            found.setdefault(rule, []).append(text)
    return {rule: sorted(texts) for rule, texts in sorted(found.items())}


def write(tables):
    rules = Rules(tables)
    batch, dims, bodies, autocast = {}, {}, {}, {}
    loops, others = set(), set()
    linear, in_place_at, shape_in_place = set(), {}, set()
    linear_not = set()
    for op in rules.ops:
        rule = rules.batch(op)
        for name in (*_bare(op), *_operators(op)):
            if rule is not None and not rule.startswith("loop"):
                batch.setdefault(name, {})[rule] = op
        if rule is not None:
            for target in _targets(op):
                (loops if rule.startswith("loop") else others).add(target)
        for name in _bare(op):
            along = _dim_of(op)
            if rule in ("dim", "extremum") and along:
                place = op.signature.parameters.index(along)
                positional = [p for p in op.signature.parameters if not p.keyword_only]
                many = along.type == "list[int]" and along is positional[-1]
                first = op.signature.returns == "tuple" and name in rules.of_whole
                dims[name] = (place, along.name, along.default, many, first)
            if rule == "body":
                bodies.setdefault(name, []).append(_body_source(op, rules))
            for p in op.signature.parameters:
                if p.name == "inplace":
                    in_place_at[name] = op.signature.parameters.index(p)
            if rule == "shape_in_place" or name.endswith("_") and name[:-1] in rules.views:
                shape_in_place.add(name)
            (linear if rules.is_linear(op) else linear_not).add(name)
        if op.row.autocast is not None:
            if op.row.autocast not in AUTOCAST:
                raise TableError(op.row, "autocast", f"none of {', '.join(AUTOCAST)}")
            methods = [f"Tensor.{method}" for method in _operators(op)]
            autocast.setdefault(op.row.autocast, []).extend([*_targets(op), *methods])
    by_rule = {}
    for name, found in batch.items():
        if "elementwise" in found and len(found) > 1:  # which takes all calls
            row = found["elementwise"].row
            raise TableError(row, "batch", f"overloads of {name} differ: {', '.join(found)}")
        by_rule.setdefault(tuple(found), []).append(name)
    lines = [
        '"""Made by gen/rules.py: how vmap, autocast and forward mode treat the ops."""',
        "",
        *_words("BATCH", {" ".join(rule): sorted(by_rule[rule]) for rule in sorted(by_rule)}),
        "",
        "",
        "# Those that have no rule, though another op of their name has one.",
        *_set("LOOPS", [t for t in loops - others if t.rpartition(".")[2] in batch]),
        "",
        "# Rule -> how an op that it is for is called, by the key that programs know it by.",
        *_words("CALLS", _calls_by_rule(rules)),
        "# Name -> place, name and default of the argument that names dims; whether methods take",
        "# it spread out; whether, of several results, the form without dims gives the first.",
        "DIMS = {",
        *(
            f"    {name!r}: ({p}, {k!r}, {d}, {m}, {f}),"
            for name, (p, k, d, m, f) in sorted(dims.items())
        ),
        "}",
        *_words("AUTOCAST", {k: sorted(set(v)) for k, v in sorted(autocast.items())}),
        *_set("LINEAR", linear - linear_not),
        *_set("ELEMENTWISE", by_rule[("elementwise",)]),
        "# Ops with an argument `inplace`, and its place.",
        f"INPLACE_AT = {dict(sorted(in_place_at.items()))!r}",
        *_set("IN_PLACE_OPERATORS", {name for op in rules.ops for name in _operators(op)[2:]}),
        "# They change how a tensor looks at its elements, and its tangent must follow.",
        *_set("SHAPE_IN_PLACE", shape_in_place),
        "",
        "# Name -> what its overloads are made of: the source of functions of its arguments.",
        "BODIES = {",
        *(f"    {name!r}: {sources!r}," for name, sources in sorted(bodies.items())),
        "}",
    ]
    return "\n".join([*lines, ""])


def _operators(op):
    """The methods that modes see where the row is an operator of tensors."""
    return op.row.slot[1:] if op.row.slot else ()


def _words(name, groups):
    lines = [f"{name} = {{"]
    for key, words in groups.items():
        lines += [f'    "{key}": """', *_wrapped(words), '    """.split(),']
    return [*lines, "}"]


def _set(name, words):
    return [f'{name} = set("""', *_wrapped(sorted(words)), '""".split())']


def _wrapped(words):
    return textwrap.wrap(
        " ".join(words), 98, initial_indent="    ", subsequent_indent="    ",
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _body_source(op, rules):
    """A lambda with the row's signature: what it gives, or NotImplemented where a list is wanted
    that in another form of the op is an integer.
    """
    parts, star, lists = [], False, []
    for p in op.signature.parameters:
        if p.keyword_only and not star:
            parts.append("*")
            star = True
        parts.append(p.name if p.default is None else f"{p.name}={p.default}")
        if p.type == "list[int]" and p.default is None and rules.has_an_integer_for(op, p):
            lists.append(f"isinstance({p.name}, (list, tuple))")
    fits = f" if {' and '.join(lists)} else NotImplemented" if lists else ""
    return f"lambda {', '.join(parts)}: {rules.body(op)}{fits}"
