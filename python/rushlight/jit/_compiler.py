"""`jit.script`: from the source of a function to a graph, with the control flow that it has.

What is known when a function is compiled (attributes of modules, numbers written in the program,
loops over layers) is computed then; what is not becomes nodes. An `if` on a value that is not known
becomes cond, a loop while_loop. Whatever else the source has is refused, by name and line.
"""

import ast
import builtins
import functools
import inspect
import math
import operator
import textwrap
import types
import typing

import rushlight
from rushlight import Tensor
from rushlight._absent_dtypes import _AbsentDtype
from rushlight._set_module import home_of
from rushlight.export import _record, _table
from rushlight.export._higher_order import higher_order
from rushlight.export.exported_program import ProgramModule
from rushlight.fx import GraphModule
from rushlight.jit import _inlined
from rushlight.jit._isinstance import is_of, members
from rushlight.jit._values import Builder, CompilationError, Computed, Shape
from rushlight.nn import Module, ModuleDict, ModuleList, Sequential

_LONGEST_UNROLLED = 10_000
_DEEPEST = 60


class _Return(Exception):
    def __init__(self, value):
        self.value = value


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


_BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and_", ast.BitOr: "or_",
    ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift",
}  # fmt: skip
_COMPARISONS = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt",
                ast.GtE: "ge"}  # fmt: skip
# Those that tensors of a graph have.
_DTYPES = {
    "is_floating_point": (rushlight.float32, rushlight.float64, rushlight.float16,
                          rushlight.bfloat16),
    "is_complex": (rushlight.complex64, rushlight.complex128),
}  # fmt: skip
# The kinds of elements that operations give whatever they are given, but for a dtype.
_ELEMENTS = {
    **dict.fromkeys(("rand", "randn", "uniform_", "normal_", "exponential_"), "float"),
    **dict.fromkeys(("randint", "randperm", "argmax", "argmin", "count_nonzero"), "int"),
    **dict.fromkeys(("any", "all"), "bool"),
}
_OF_TENSORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "matmul": "matmul", "and_": "bitwise_and",
    "or_": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift", "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt",
    "ge": "ge", "neg": "neg", "invert": "bitwise_not",
}  # fmt: skip
_OF_LISTS = ("insert", "pop", "index", "count")
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "matmul": "@"}


@functools.cache
def _source(function):
    """(syntax tree, file, first line) of a function."""
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise CompilationError(
            f"jit.script: the source of {getattr(function, '__qualname__', function)!r} cannot be "
            "read"
        ) from None
    source = textwrap.dedent("".join(lines))
    file = inspect.getsourcefile(function)
    if getattr(function, "__name__", None) != "<lambda>":
        return ast.parse(source).body[0], file, first
    try:
        found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Lambda)]
    except SyntaxError:  # a part of a statement
        found = []
    if len(found) != 1:
        raise CompilationError(
            "jit.script: a lambda is not compiled unless it is the only one of a statement of one "
            "line: define a function"
        )
    (made,) = found
    body = ast.copy_location(ast.Return(made.body), made.body)
    whole = ast.FunctionDef(name="<lambda>", args=made.args, body=[body], decorator_list=[])
    return ast.copy_location(whole, made), file, first


def _is_known(v):
    if isinstance(v, (Computed, Shape)):
        return False
    if isinstance(v, (list, tuple)):
        return all(map(_is_known, v))
    if isinstance(v, dict):
        return all(map(_is_known, v.values()))
    return not isinstance(v, Tensor)


class Function:
    """The compilation of one call of a function, in one graph."""

    def __init__(self, function, builder, depth=0):
        if depth > _DEEPEST:
            raise CompilationError("jit.script: calls nest too deeply; recursion is not compiled")
        self.function = inspect.unwrap(function)
        self.tree, self.file, self.first = _source(self.function)
        self.builder, self.depth = builder, depth
        self.names, self.given = {}, set()
        self.aliases = []  # lists and dicts that are one of several, by a computed value
        self.changed = set()  # names of lists and dicts that inner branches have changed in place
        if not isinstance(self.tree, ast.FunctionDef):
            self.refuse(self.tree, f"a {type(self.tree).__name__}")

    def refuse(self, node, what, hint=""):
        """Raise CompilationError: `what` is not compiled, at the node's line."""
        line = self.first + getattr(node, "lineno", 1) - 1
        name = getattr(self.function, "__qualname__", "?")
        raise CompilationError(
            f"jit.script: {what} is not compiled{hint} ({self.file.rpartition('/')[2]}:{line}, in "
            f"{name})"
        )

    # ---- calls

    def call(self, args, kwargs):
        """The value that the function returns."""
        if self.function is Sequential.forward:
            module, x = args
            for step in module:
                x = self.call_module(self.tree, step, [x], {})
            return x
        try:
            bound = inspect.signature(self.function).bind(*args, **kwargs)
        except TypeError as error:
            raise CompilationError(f"jit.script: {self.function.__qualname__}: {error}") from None
        bound.apply_defaults()
        self.names = dict(bound.arguments)
        self.given = {id(v) for v in self.names.values()}
        try:
            self.block(self.tree.body)
        except _Return as result:
            return result.value
        return None

    # ---- statements

    def block(self, statements):
        for place, statement in enumerate(statements):
            kind = type(statement).__name__
            method = getattr(self, f"do_{kind}", None)
            if method is None:
                names = {"With": "with", "Try": "try", "AsyncFor": "async for", "Global": "global",
                         "Nonlocal": "nonlocal", "ClassDef": "a class", "Import": "import",
                         "ImportFrom": "import", "FunctionDef": "a function inside a function",
                         "Delete": "del", "Match": "match"}  # fmt: skip
                self.refuse(statement, names.get(kind, kind))
            if kind == "If":
                if self.do_If(statement, statements[place + 1 :]):
                    return
            else:
                method(statement)

    def do_Expr(self, statement):
        if not isinstance(statement.value, ast.Constant):  # not a docstring
            self.value(statement.value)

    def do_Pass(self, statement):
        pass

    def do_Return(self, statement):
        raise _Return(None if statement.value is None else self.value(statement.value))

    def do_Break(self, statement):
        raise _Break

    def do_Continue(self, statement):
        raise _Continue

    def do_Assign(self, statement):
        value = self.value(statement.value)
        for target in statement.targets:
            self.assign(target, value)

    def do_AnnAssign(self, statement):
        if statement.value is not None:
            self.assign(statement.target, self.value(statement.value))

    def do_AugAssign(self, statement):
        old = self.value(_loaded(statement.target))
        name = _BINARY[type(statement.op)]
        if isinstance(old, Computed) and old.kind == "Tensor":
            value = self.table_call(statement, f"Tensor.{_OF_TENSORS[name]}_",
                                    (old, self.value(statement.value)), {})  # fmt: skip
        else:
            value = self.binary(statement, name, old, self.value(statement.value))
        if isinstance(statement.target, ast.Subscript) and value is not None:
            is_tensor = isinstance(old, Computed) and old.kind == "Tensor"
            if not is_tensor or not self.makes_view(statement.target.slice):
                self.assign(statement.target, value)
            return  # a view was changed in place
        self.assign(statement.target, value)

    def makes_view(self, index):
        """Does an index, of slices and numbers, give a view?"""
        for part in index.elts if isinstance(index, ast.Tuple) else [index]:
            if not isinstance(part, ast.Slice):
                value = self.value(part)
                if not (value is None or value is Ellipsis or _kind(value) == "int"):
                    return False
        return True

    def do_Assert(self, statement):
        self.assertion(statement, statement.test, statement.msg)

    def assertion(self, node, test, message):
        """assert test, message: a message with computed values is said as it is written."""
        holds = self.truth(test, self.value(test))
        tested = ast.unparse(test)
        if isinstance(holds, bool):
            if not holds:
                self.refuse(node, f"`assert {tested}`, which never holds,")
            return
        said = "" if message is None else f": AssertionError: {_text_of(message)}"
        self.demand(node, holds, f"`assert {tested}`", said)

    def demand(self, statement, holds, what, otherwise=""):
        """The graph goes on only where `holds`; `otherwise` is what the program says if not."""
        line = self.first + statement.lineno - 1
        where = f"{self.file.rpartition('/')[2]}:{line}"
        self.builder.node(_record.assertion(), (holds, f"{what}, at {where}{otherwise}"))

    def do_Raise(self, statement):
        self.refuse(statement, "a raise that is always reached")

    def assign(self, target, value):
        if isinstance(target, ast.Name):
            self.names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            parts = self.unpack(target, value, len(target.elts))
            for one, part in zip(target.elts, parts):
                if isinstance(one, ast.Starred):
                    self.refuse(target, "a starred target")
                self.assign(one, part)
        elif isinstance(target, ast.Subscript):
            owner, index = self.value(target.value), self.index(target.slice)
            if isinstance(owner, Computed) and owner.kind == "Tensor":
                self.set_item(target, owner, index, value)
            elif isinstance(owner, (list, dict)) and _is_known(index):
                self.expect_a_name(target.value, owner)
                owner[index] = value
            else:
                self.refuse(target, "an assignment to an element of this")
        elif isinstance(target, ast.Attribute):
            self.refuse(target, f"an assignment to the attribute {ast.unparse(target)}",
                        ": it would change the module; use a buffer and copy_")  # fmt: skip
        else:
            self.refuse(target, f"an assignment to {ast.unparse(target)}")

    def expect_a_name(self, expression, owner):
        """Of a list or dict that is changed in place: branches and loops have a copy of it."""
        if self.builder.outer is not None and not isinstance(expression, ast.Name):
            self.refuse(expression, f"in a branch or loop, a change of {ast.unparse(expression)}")
        if any(owner is one for one in self.aliases):
            self.refuse(expression, "a change of what is one of several lists or dicts")

    def unpack(self, node, value, count):
        """A value as so many parts."""
        if isinstance(value, Shape):
            self.demand(node, self.compare(node, "eq", self.builder.call_primitive(
                "dim", (value.tensor,)), count), f"{count} dims")  # fmt: skip
            return [self.builder.call_primitive("sym_size", (value.tensor, i))
                    for i in range(count)]  # fmt: skip
        if isinstance(value, Computed) and value.kind == "tensors":
            return [self.builder.item(self.builder.lower(value), i, "Tensor") for i in range(count)]
        if isinstance(value, Computed) and value.kind == "list":
            return [self.builder.item(self.builder.lower(value), i, value.item)
                    for i in range(count)]  # fmt: skip
        if isinstance(value, Computed) and value.kind == "Tensor":
            parts = self.table_call(node, "Tensor.unbind", (value,), {})
            return self.unpack(node, parts, count)
        if not isinstance(value, (list, tuple)):
            self.refuse(node, f"unpacking a {_kind(value)}")
        if len(value) != count:
            self.refuse(node, f"unpacking {len(value)} values into {count}")
        return value

    # ---- branches and loops

    def do_If(self, statement, rest):
        """Whether the statements behind have been compiled along with the branches."""
        condition = self.condition(statement.test)
        if isinstance(condition, bool):
            self.block(statement.body if condition else statement.orelse)
            return False
        bodies = [statement.body, statement.orelse]
        for i, raising in enumerate(map(_always_raises, bodies)):
            if raising:
                kept = self.builder.node(operator.not_, (condition,)) if i == 0 else None
                holds = condition if kept is None else Computed(self.builder, kept, "bool")
                tested = f"{'not ' if i == 0 else ''}`{ast.unparse(statement.test)}`"
                self.demand(statement, holds, tested, _said_by(bodies[i][-1]))
                self.block(bodies[1 - i])
                return False
        if any(_has(statement, kind) for kind in (ast.Break, ast.Continue)):
            self.refuse(statement, "a break or continue that depends on a computed value")
        if _has(statement, ast.Return):
            # What follows belongs to both branches: each of them returns.
            results = self.branches(
                statement, condition, [[*body, *rest] for body in bodies], returns=True
            )
            raise _Return(results)
        self.branches(statement, condition, bodies, returns=False)
        return False

    def condition(self, test):
        """What cond takes: a bool, or a computed bool or tensor."""
        value = self.value(test)
        return (
            value
            if isinstance(value, Computed) and value.kind == "Tensor"
            else self.truth(test, value)
        )

    def branches(self, statement, condition, bodies, returns):
        """Compile two blocks as graphs of cond, and take over what they assign or return."""
        outer, before = self.builder, dict(self.names)
        builders, outcomes, changed_before = [], [], self.changed
        changed, scopes = set(), []
        for body in bodies:
            copies, self.changed = _copied(before), set()
            scopes.append(copies)
            self.builder, self.names = Builder(outer), dict(copies)
            result = None
            try:
                self.block(body)
            except _Return as returned:
                result = returned.value
            builders.append(self.builder)
            outcomes.append((result, self.names))
            changed |= self.changed_in_place(statement, before, copies)
        self.builder, self.names = outer, dict(before)
        self.changed = changed_before | changed
        if returns:
            values = [result for result, _ in outcomes]
            names = None
        else:
            assigned = changed | {n for body in bodies for s in body for n in _assigned(s)}
            both = outcomes[0][1].keys() & outcomes[1][1].keys()
            names = [n for n in sorted(assigned & both)
                     if not _identical(outcomes[0][1][n], outcomes[1][1][n])]  # fmt: skip
            for n in sorted(assigned - set(names)):
                if n in both:
                    self.names[n] = outcomes[0][1][n]
                else:
                    self.names.pop(n, None)
            values = [[found[n] for n in names] for _, found in outcomes]
        made = self.emit(statement, "cond", [condition], builders, values, [])
        results = [(None, made, values)] if returns else list(zip(names, made, zip(*values)))
        self.aliases += [
            one
            for name, one, found in results
            if isinstance(one, (list, dict))
            and any(
                v is copy and name != other
                for v, copies in zip(found, scopes)
                for other, copy in copies.items()
            )
        ]
        if returns:
            return made
        self.names.update(zip(names, made))
        return None

    def changed_in_place(self, statement, before, copies):
        """The names of lists and dicts that a branch, or the body of a loop, has changed."""
        changed = {n for n, v in before.items() if not _same_members(v, copies[n])}
        changed |= self.changed & before.keys()
        for n in changed:
            if id(before[n]) in self.given or any(
                v is before[n] for other, v in before.items() if other != n
            ):
                self.refuse(statement, f"what depends on a computed value and changes {n}, which "
                            "has another name too,")  # fmt: skip
        return changed

    def emit(self, statement, name, first, builders, values, last):
        """The node of cond: its graphs, their captured operands, its results in the structure."""
        flat, structures = [], []
        for value in values:
            leaves = []
            structures.append(_flatten(value, leaves))
            flat.append(leaves)
        if structures[0] != structures[1]:
            self.refuse(statement, "an if whose branches give values of different structure",
                        f": {structures[0]} and {structures[1]}")  # fmt: skip
        kinds = []
        for a, b in zip(*flat):
            left, right = _full_kind(a), _full_kind(b)
            if left != right:
                self.refuse(statement, f"an if whose branches give a {left[0]} and a {right[0]}")
            kinds.append(left)
        graphs = self.finish(builders, flat, ("true_graph", "false_graph"))
        operands = [self.builder.lower(v) for v in first]
        captured = self._all_captured(builders)
        node = self.builder.graph.call_function(
            higher_order(name), (*operands, *graphs, captured, *last)
        )
        made = [self.builder.item(node, i, *kind) for i, kind in enumerate(kinds)]
        return _unflatten(structures[0], iter(made))

    @staticmethod
    def _all_captured(builders):
        found = {}
        for builder in builders:
            for node in builder.captured:
                found.setdefault(node)
        return list(found)

    def finish(self, builders, results, names):
        """Graph modules of the builders, all with the same operands, as nodes of this graph."""
        nodes = [
            (builder, tuple(builder.lower(v) for v in values), name)
            for builder, values, name in zip(builders, results, names)
        ]
        captured = self._all_captured(builders)
        made = []
        for builder, outputs, name in nodes:
            graph = builder.graph
            order = [builder.capture(node) for node in captured]
            own = [n for n in graph.nodes if n.op == "placeholder" and n not in order]
            first = next(iter(graph.nodes), None)
            for node in reversed([*own, *order]):
                if node is not first:
                    first.prepend(node)
                    first = node
            graph.output(outputs)
            made.append(self.builder.attach(name, GraphModule(builder.modules, graph)))
        return made

    def do_For(self, statement):
        if statement.orelse:
            self.refuse(statement, "else behind a loop")
        over = self.value(statement.iter)
        if isinstance(over, _Range):
            return self.counted(statement, over)
        if isinstance(over, Computed) and over.kind == "Tensor":
            return self.counted(statement, _Range(0, self.length(over), 1), over)
        if isinstance(over, Computed) and over.kind in ("tensors", "list"):
            return self.counted(statement, _Range(0, self.length(over), 1), over)
        for item in self.items(statement, over):
            self.assign(statement.target, item)
            try:
                self.block(statement.body)
            except _Continue:
                continue
            except _Break:
                break
        return None

    def items(self, node, over):
        """The items of what is known to have so many."""
        if isinstance(over, Shape) or isinstance(over, Computed):
            self.refuse(node, "a loop over a value whose length is not known")
        if isinstance(over, (ModuleList, list, tuple, dict, ModuleDict, range, zip, enumerate,
                             str, set)) or hasattr(over, "__iter__"):  # fmt: skip
            found = list(over)
            if len(found) > _LONGEST_UNROLLED:
                self.refuse(node, f"a loop of {len(found)} known steps")
            return found
        self.refuse(node, f"a loop over a {_kind(over)}")

    def counted(self, statement, over, items=None):
        """for i in range(...) with a computed length, or over a tensor or list."""
        index = "index of a loop"  # no name that a program can have
        self.names[index] = over.start
        target = statement.target

        def condition():
            return self.compare(statement, "lt", self.names[index], over.stop)

        def body():
            at = self.names[index]
            value = at if items is None else self.get_item(statement, items, at)
            self.assign(target, value)
            self.block(statement.body)
            self.names[index] = self.binary(statement, "add", self.names[index], over.step)

        if not (isinstance(over.step, int) and over.step > 0):
            self.refuse(statement, "range with a computed or negative step")
        self.loop(statement, condition, body, [index])
        self.names.pop(index, None)

    def do_While(self, statement):
        if statement.orelse:
            self.refuse(statement, "else behind a loop")

        def condition():
            return self.truth(statement.test, self.value(statement.test))

        first = condition()
        if isinstance(first, bool) and _is_known([self.names.get(n) for n in
                                                  _read(statement.test)]):  # fmt: skip
            steps = 0
            while first is True:
                steps += 1
                if steps > _LONGEST_UNROLLED:
                    self.refuse(statement, "a loop of very many known steps")
                try:
                    self.block(statement.body)
                except _Continue:
                    pass
                except _Break:
                    return
                first = condition()
            if first is False:
                return
        self.loop(statement, condition, lambda: self.block(statement.body), [])

    def loop(self, statement, condition, body, more):
        """Compile a while_loop: what the body assigns and had before is carried."""
        for kind in (ast.Break, ast.Continue, ast.Return):
            if _has(statement, kind):
                self.refuse(statement, f"{kind.__name__.lower()} in a loop of computed length")
        assigned = {n for s in statement.body for n in _assigned(s)} | set(more)
        if isinstance(statement, ast.For):
            assigned |= set(_targets(statement.target))
        names = sorted(n for n in assigned if n in self.names)
        outer, before = self.builder, dict(self.names)
        leaves, structures = [], []
        for n in names:
            structures.append(_flatten(before[n], leaves, lists=True))
        kinds = [_full_kind(v) for v in leaves]
        builders, results = [], []
        for is_body in (False, True):
            builder = self.builder = Builder(outer)
            carried = iter([Computed(builder, builder.placeholder(f"carried_{i}"), *kind)
                            for i, kind in enumerate(kinds)])  # fmt: skip
            copies, self.changed = _copied(before), set()
            self.names = dict(copies)
            self.names.update({n: _unflatten(s, carried) for n, s in zip(names, structures)})
            if is_body:
                body()
                for n in self.changed_in_place(statement, before, copies):
                    self.refuse(statement, f"a loop of computed length that changes {n} in place")
                found = []
                for n, structure in zip(names, structures):
                    if _flatten(self.names[n], found, lists=True) != structure:
                        self.refuse(statement, f"a loop that changes the structure of {n}")
                after = [_full_kind(v) for v in found]
                for name, old, new in zip(names, kinds, after):
                    grown = old == ("list", None) and new[0] in ("list", "tensors")
                    if old != new and not grown:
                        self.refuse(
                            statement, f"a loop that makes a {new[0]} of the {old[0]} {name}"
                        )
                results.append(found)
                kinds = after
            else:
                holds = condition()
                results.append([holds])
            builders.append(builder)
        self.builder, self.names = outer, before
        graphs = self.finish(builders, results, ("cond_graph", "body_graph"))
        captured = self._all_captured(builders)
        node = self.builder.graph.call_function(
            higher_order("while_loop"),
            (*graphs, [self.builder.lower(v) for v in leaves], captured),
        )
        made = iter([self.builder.item(node, i, *kind) for i, kind in enumerate(kinds)])
        self.names.update({n: _unflatten(s, made) for n, s in zip(names, structures)})

    # ---- expressions

    def value(self, node):
        method = getattr(self, f"of_{type(node).__name__}", None)
        if method is None:
            names = {"Lambda": "a lambda", "Await": "await", "Yield": "yield", "NamedExpr": ":=",
                     "YieldFrom": "yield", "SetComp": "a set comprehension",
                     "Starred": "a starred argument"}  # fmt: skip
            self.refuse(node, names.get(type(node).__name__, type(node).__name__))
        return method(node)

    def of_Constant(self, node):
        return node.value

    def of_Name(self, node):
        if node.id in self.names:
            return self.names[node.id]
        closure = inspect.getclosurevars(self.function)
        for names in (closure.nonlocals, self.function.__globals__, vars(builtins)):
            if node.id in names:
                return names[node.id]
        self.refuse(node, f"the name {node.id}, which may have no value here,")

    def of_Tuple(self, node):
        return tuple(self.of_List(node))

    def of_List(self, node):
        found = []
        for e in node.elts:
            if isinstance(e, ast.Starred):
                found += self.items(e, self.value(e.value))
            else:
                found.append(self.value(e))
        return found

    def of_Dict(self, node):
        if any(k is None for k in node.keys):
            self.refuse(node, "** in a dict")
        return {self.value(k): self.value(v) for k, v in zip(node.keys, node.values)}

    def of_JoinedStr(self, node):
        return "".join(map(self.value, node.values))

    def of_FormattedValue(self, node):
        value = self.value(node.value)
        if not _is_known(value):
            self.refuse(node, "an f-string of a computed value")
        value = {114: repr, 115: str, 97: ascii}.get(node.conversion, lambda v: v)(value)
        return format(value, self.value(node.format_spec) if node.format_spec else "")

    def of_GeneratorExp(self, node):
        return self.of_ListComp(node)

    def of_ListComp(self, node):
        if len(node.generators) != 1:
            self.refuse(node, "a comprehension of several loops")
        (loop,) = node.generators
        over = self.value(loop.iter)
        if isinstance(over, (Computed, _Range)):
            self.refuse(node, "a comprehension of computed length")
        found, before = [], dict(self.names)
        for item in self.items(node, over):
            self.assign(loop.target, item)
            conditions = [self.truth(c, self.value(c)) for c in loop.ifs]
            if not all(isinstance(c, bool) for c in conditions):
                self.refuse(node, "a comprehension with a computed condition")
            if all(conditions):
                found.append(self.value(node.elt))
        self.names = before
        return found

    def of_IfExp(self, node):
        condition = self.condition(node.test)
        if isinstance(condition, bool):
            return self.value(node.body if condition else node.orelse)
        bodies = [[ast.copy_location(ast.Return(e), node)] for e in (node.body, node.orelse)]
        return self.branches(node, condition, bodies, returns=True)

    def of_BoolOp(self, node):
        is_and = isinstance(node.op, ast.And)
        result = None
        for part in node.values:
            value = self.value(part)
            if _is_known(value):
                if bool(value) is not is_and and result is None:
                    return value
                if bool(value) is is_and:
                    result = value if result is None and part is node.values[-1] else result
                    continue
                value = bool(value)
            value = self.truth(part, value)
            if isinstance(value, bool):
                return value
            function = operator.and_ if is_and else operator.or_
            result = (
                value
                if not isinstance(result, Computed)
                else Computed(self.builder, self.builder.node(function, (result, value)), "bool")
            )
        return is_and if result is None else result

    def of_UnaryOp(self, node):
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            value = self.truth(node.operand, value)
            if isinstance(value, bool):
                return not value
            return Computed(self.builder, self.builder.node(operator.not_, (value,)), "bool")
        name = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}[type(node.op)]
        if not isinstance(value, Computed):
            return getattr(operator, name)(value)
        if name == "pos":
            return value
        if value.kind == "Tensor":
            return self.table_call(node, f"Tensor.{_OF_TENSORS[name]}", (value,), {})
        if name == "neg":
            return Computed(self.builder, self.builder.node(operator.neg, (value,)), value.kind)
        self.refuse(node, f"~ of a {value.kind}")

    def of_BinOp(self, node):
        return self.binary(node, _BINARY[type(node.op)], self.value(node.left),
                           self.value(node.right))  # fmt: skip

    def binary(self, node, name, a, b):
        """a <op> b."""
        if not _is_dynamic(a) and not _is_dynamic(b):
            for side in (a, b):
                if isinstance(side, (list, tuple)) and any(map(_is_tensor, side)):
                    self.refuse(node, "comparing lists of tensors")
            return getattr(operator, name)(a, b)
        if _is_tensor(a) or _is_tensor(b):
            if isinstance(a, (int, float)) or not _is_tensor(a):
                return self.table_call(node, f"torch.{_OF_TENSORS[name]}", (a, b), {})
            return self.table_call(node, f"Tensor.{_OF_TENSORS[name]}", (a, b), {})
        if name == "add" and (_is_list(a) or _is_list(b)):
            return self.joined(node, a, b)
        if name == "mul" and _is_list(a) and _kind(b) == "int":
            return self.repeated(a, b)
        if name == "mul" and _kind(a) == "int" and _is_list(b):
            return self.repeated(b, a)
        kinds = {_kind(a), _kind(b)}
        if not kinds <= {"int", "float", "bool"} or name in ("matmul", "xor", "lshift", "rshift"):
            self.refuse(node, f"{_SIGNS.get(name, name)} of a {_kind(a)} and a {_kind(b)}")
        kind = "float" if "float" in kinds or name == "truediv" else "int"
        return Computed(self.builder, self.builder.node(getattr(operator, name), (a, b)), kind)

    def joined(self, node, a, b):
        """Lists, one behind the other."""
        if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
            return a + type(a)(b)
        items = {_item_kind(v) for v in (a, b)} - {None}
        if len(items) > 1:
            self.refuse(node, "lists of different kinds behind each other")
        item = next(iter(items), None)
        return Computed(self.builder, self.builder.node(operator.add, (a, b)), *_list_kind(item))

    def repeated(self, items, times):
        """A list, several times."""
        kind = _list_kind(_item_kind(items))
        return Computed(self.builder, self.builder.node(operator.mul, (items, times)), *kind)

    def of_Compare(self, node):
        left, results = self.value(node.left), []
        for op, right in zip(node.ops, node.comparators):
            right = self.value(right)
            results.append(self.comparison(node, op, left, right))
            left = right
        result = results[0]
        for more in results[1:]:
            if isinstance(result, bool) and isinstance(more, bool):
                result = result and more
            else:
                both = (self.truth(node, result), self.truth(node, more))
                result = Computed(self.builder, self.builder.node(operator.and_, both), "bool")
        return result

    def comparison(self, node, op, a, b):
        if isinstance(op, (ast.Is, ast.IsNot)):
            if b is not None and a is not None and not (_is_known(a) and _is_known(b)):
                self.refuse(node, "`is` of computed values")
            same = a is b
            return same if isinstance(op, ast.Is) else not same
        if isinstance(op, (ast.In, ast.NotIn)):
            if isinstance(a, Computed) and isinstance(b, (list, tuple)) and b:
                found = None
                for one in b:
                    same = self.truth(node, self.compare(node, "eq", a, one))
                    both = same if found is None else self.builder.node(operator.or_, (found, same))
                    found = both if isinstance(both, Computed) else Computed(
                        self.builder, both, "bool")  # fmt: skip
                if isinstance(op, ast.In):
                    return found
                return Computed(self.builder, self.builder.node(operator.not_, (found,)), "bool")
            if not (_is_known(a) and isinstance(b, (list, tuple, dict, str, set, Module))):
                self.refuse(node, "`in` of computed values")
            return (a in b) if isinstance(op, ast.In) else (a not in b)
        return self.compare(node, _COMPARISONS[type(op)], a, b)

    def compare(self, node, name, a, b):
        """a < b and its like."""
        if not _is_dynamic(a) and not _is_dynamic(b):
            for side in (a, b):
                if isinstance(side, (list, tuple)) and any(map(_is_tensor, side)):
                    self.refuse(node, "comparing lists of tensors")
            return getattr(operator, name)(a, b)
        if _is_tensor(a) or _is_tensor(b):
            if not _is_tensor(a):
                a, b = b, a
                name = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}.get(name, name)
            return self.table_call(node, f"Tensor.{name}", (a, b), {})
        if isinstance(b, Shape) and isinstance(a, (tuple, list)):
            a, b = b, a
        if isinstance(a, Shape) and isinstance(b, (tuple, list)) and name in ("eq", "ne"):
            same = [self.compare(node, "eq", self.length(a), len(b))]
            same += [self.compare(node, "eq", self.get_item(node, a, i), n)
                     for i, n in enumerate(b)]  # fmt: skip
            answer = _any_all("all")(self, node, [same], {})
            if name == "eq":
                return answer
            return Computed(self.builder, self.builder.node(operator.not_, (answer,)), "bool")
        if isinstance(a, Shape) and isinstance(b, Shape) and name in ("eq", "ne"):
            shapes = tuple(self.builder.call_primitive("shape", (v.tensor,)) for v in (a, b))
            node = self.builder.node(getattr(operator, name), shapes)
            return Computed(self.builder, node, "bool")
        kinds = {_kind(a), _kind(b)}
        of_types = kinds in ({"dtype"}, {"device"}) and name in ("eq", "ne")
        if "dtype" in kinds and any(isinstance(v, _AbsentDtype) for v in (a, b)):
            return name == "ne"  # no tensor of a graph has it
        if not of_types and not kinds <= {"int", "float", "bool"}:
            self.refuse(node, f"a comparison of a {_kind(a)} and a {_kind(b)}")
        return Computed(self.builder, self.builder.node(getattr(operator, name), (a, b)), "bool")

    def truth(self, node, v):
        """The value as a condition: a bool, or a computed one."""
        if isinstance(v, Shape):
            self.refuse(node, "a shape as a condition")
        if not _is_dynamic(v):
            return bool(v)
        if isinstance(v, Tensor) or v.kind != "bool":
            if not isinstance(v, Tensor) and v.kind in ("tensors", "list"):
                return self.compare(node, "gt", self.length(v), 0)
            return self.builder.call_primitive("truth", (v,))
        return v

    def length(self, v):
        if isinstance(v, Shape):
            return self.builder.call_primitive("dim", (v.tensor,))
        return self.builder.call_primitive("length", (v,), "int")

    # ---- attributes and elements

    def of_Attribute(self, node):
        owner = self.value(node.value)
        name = node.attr
        if _is_tensor(owner):
            return self.tensor_attribute(node, owner, name)
        if isinstance(owner, Shape):
            if name == "numel":
                return _Method(owner.tensor, "numel")
            self.refuse(node, f"the attribute {name} of a shape")
        if isinstance(owner, Computed) and owner.kind in ("tensors", "list"):
            return _Method(owner, name)
        if isinstance(owner, (list, dict)):
            return _Method(owner, name)
        if isinstance(owner, Computed):
            self.refuse(node, f"the attribute {name} of a {owner.kind}")
        try:
            return getattr(owner, name)
        except AttributeError:
            self.refuse(node, f"the attribute {name}, which {type(owner).__name__} has not,")

    def tensor_attribute(self, node, owner, name):
        views = {"T": "Tensor.t", "H": "Tensor.adjoint", "mH": "Tensor.adjoint",
                 "data": "Tensor.detach", "real": "torch.real", "imag": "torch.imag"}  # fmt: skip
        if name == "shape":
            return Shape(owner) if isinstance(owner, Computed) else tuple(owner.shape)
        if name in ("dtype", "device"):
            if isinstance(owner, Tensor):
                return getattr(owner, name)
            return self.builder.call_primitive(f"{name}_of", (owner,))
        if name == "ndim":
            return self.builder.call_primitive("dim", (owner,))
        if name == "mT":
            return self.table_call(node, "Tensor.transpose", (owner, -2, -1), {})
        if name in views:
            return self.table_call(node, views[name], (owner,), {})
        if name in ("is_cuda", "requires_grad", "is_sparse", "is_quantized", "grad", "layout"):
            self.refuse(node, f"the attribute {name} of a tensor")
        return _Method(owner, name)

    def index(self, node):
        if isinstance(node, ast.Tuple):
            return tuple(self.index(e) for e in node.elts)
        if isinstance(node, ast.Slice):
            parts = (node.lower, node.upper, node.step)
            return slice(*(None if p is None else self.value(p) for p in parts))
        return self.value(node)

    def of_Subscript(self, node):
        owner = self.value(node.value)
        return self.get_item(node, owner, self.index(node.slice))

    def get_item(self, node, owner, index):
        """owner[index]."""
        if isinstance(owner, Shape):
            if isinstance(index, slice):
                start, stop = index.start or 0, index.stop
                whole = _is_known([start, stop]) and index.step is None
                if whole and start < 0 and stop is None:
                    stop = 0
                if not whole or stop is None or (start < 0 and stop > 0) or (start >= 0 > stop):
                    self.refuse(node, "a slice of a shape that has no known length")
                return tuple(self.builder.call_primitive("sym_size", (owner.tensor, i))
                             for i in range(start, stop))  # fmt: skip
            return self.builder.call_primitive("sym_size", (owner.tensor, index))
        if _is_tensor(owner):
            view, places = self.narrowed(node, owner, index)
            if places:
                made = self.builder.node(_table.operation("index"), (view, places))
                return Computed(self.builder, made, "Tensor")
            return view
        if isinstance(owner, Computed) and owner.kind in ("tensors", "list"):
            if isinstance(index, slice):
                self.refuse(node, "a slice of a computed list")
            kind = "Tensor" if owner.kind == "tensors" else owner.item
            return self.builder.item(self.builder.lower(owner), index, kind)
        if isinstance(owner, Computed):
            self.refuse(node, f"an element of a {owner.kind}")
        if not _is_known(index):
            kinds = {_kind(v) for v in owner} if isinstance(owner, (list, tuple)) else set()
            if kinds == {"Tensor"}:
                return self.builder.item(self.builder.lower(list(owner)), index, "Tensor")
            self.refuse(node, "an element at a computed place")
        return owner[index]

    def narrowed(self, node, x, index):
        """(the view that plain indices make, tensors for the dims of it)."""
        items = list(index) if isinstance(index, tuple) else [index]
        view, dim, places, from_end = x, 0, [], False
        for place, i in enumerate(items):
            if i is Ellipsis:
                rest = items[place + 1 :]
                if any(_is_tensor(r) or isinstance(r, list) for r in rest):
                    self.refuse(node, "a tensor as an index behind ...")
                dim, from_end = -sum(r is not None for r in rest), True
                if any(r is None for r in rest):
                    if rest != [None]:
                        self.refuse(node, "None among other indices behind ...")
                    dim = -1
            elif i is None:
                view = self.table_call(node, "Tensor.unsqueeze", (view, dim), {})
                dim += 0 if from_end else 1
            elif isinstance(i, slice):
                if (i.start, i.stop, i.step) != (None, None, None):
                    made = self.builder.node(
                        _table.operation("slice"),
                        (view, dim, i.start, i.stop, 1 if i.step is None else i.step),
                    )
                    view = Computed(self.builder, made, "Tensor")
                dim += 1
            elif _is_tensor(i):
                places += [None] * (dim - len(places)) + [i]
                dim += 1
            elif isinstance(i, (list, tuple)):
                places += [None] * (dim - len(places)) + [self.literal(list(i), rushlight.int64)]
                dim += 1
            elif _kind(i) == "int":
                view = self.table_call(node, "Tensor.select", (view, dim, i), {})
                dim += 1 if from_end else 0
            else:
                self.refuse(node, f"a {_kind(i)} as an index")
        return view, places

    def set_item(self, node, owner, index, value):
        view, places = self.narrowed(node, owner, index)
        if places:
            if not _is_tensor(value):
                value = self.table_call(node, "torch.full", ([], value), {
                    "dtype": self.tensor_attribute(node, owner, "dtype")})  # fmt: skip
            self.builder.node(_table.operation("index_put_"), (view, places, value))
        elif _is_tensor(value):
            self.table_call(node, "Tensor.copy_", (view, value), {})
        else:
            self.table_call(node, "Tensor.fill_", (view, value), {})

    # ---- calls

    def of_Call(self, node):
        function = self.value(node.func)
        if function is rushlight._assert and len(node.args) == 2:
            return self.assertion(node, *node.args)
        args = []
        for a in node.args:
            if isinstance(a, ast.Starred):
                more = self.value(a.value)
                if not isinstance(more, (list, tuple)):
                    self.refuse(node, "* of a computed list")
                args += more
            else:
                args.append(self.value(a))
        kwargs = {}
        for k in node.keywords:
            value = self.value(k.value)
            if k.arg is None:
                if not isinstance(value, dict):
                    self.refuse(node, "** of a computed value")
                kwargs.update(value)
            else:
                kwargs[k.arg] = value
        return self.call_value(node, function, args, kwargs)

    def call_value(self, node, function, args, kwargs):
        """function(*args, **kwargs)."""
        if isinstance(function, _Method):
            return self.method(node, function, args, kwargs)
        if isinstance(function, Module):
            return self.call_module(node, function, args, kwargs)
        name = _table.target_name(inspect.unwrap(function) if callable(function) else function)
        name = name or _table.target_name(function)
        if name is not None:
            return self.table_call(node, name, args, kwargs)
        special = _SPECIAL.get(function) if _hashable(function) else None
        if special is not None:
            return special(self, node, args, kwargs)
        if getattr(function, "_jit_unused", False):
            self.refuse(node, f"{function.__name__}, which is marked as unused or ignored,")
        if isinstance(function, types.MethodType):
            if isinstance(function.__self__, Module):
                return self.call_python(node, function.__func__, [function.__self__, *args], kwargs)
            return self.call_known(node, function, args, kwargs)
        from rushlight.jit import ScriptFunction

        if isinstance(function, ScriptFunction):
            function = function.original
        if isinstance(function, types.FunctionType):
            if (
                _is_known(args)
                and _is_known(kwargs)
                and function.__module__ in ("math", "operator")
            ):
                return function(*args, **kwargs)
            return self.call_python(node, function, args, kwargs)
        return self.call_known(node, function, args, kwargs)

    def call_known(self, node, function, args, kwargs):
        """Call now what takes known values alone."""
        if not (_is_known(args) and _is_known(kwargs)):
            name = getattr(function, "__qualname__", None) or repr(function)
            self.refuse(node, f"a call of {name} with computed values")
        if isinstance(function, type) and issubclass(function, Module):
            self.refuse(node, "making a module")
        try:
            return function(*args, **kwargs)
        except Exception as error:
            self.refuse(node, f"a call that fails ({error})")

    def call_module(self, node, module, args, kwargs):
        if module._forward_hooks or module._forward_pre_hooks:
            self.refuse(node, f"a {type(module).__name__} with hooks")
        program = module.__dict__.get("_script_source")
        if isinstance(module, ProgramModule) and program is None:
            return _inlined.call(self.builder, module, args, kwargs)
        return self.call_python(node, type(program or module).forward, [program or module, *args],
                                kwargs)  # fmt: skip

    def call_python(self, node, function, args, kwargs):
        if getattr(inspect.unwrap(function), "_jit_unused", False):
            self.refuse(node, f"{function.__name__}, which is marked as unused or ignored,")
        if _is_known(args) and _is_known(kwargs) and _is_own(function):
            result = function(*args, **kwargs)
            if _is_known(result):
                return result
        inner = Function(function, self.builder, self.depth + 1)
        return inner.call(args, kwargs)

    def table_call(self, node, name, args, kwargs):
        """A call of a function or method of the table."""
        result = self.builder.call_operation(name, tuple(args), kwargs)
        if result is None and not _returns_nothing(name):
            kinds = ", ".join([*map(_kind, args), *(f"{k}={_kind(v)}" for k, v in kwargs.items())])
            self.refuse(node, f"{name}({kinds}), which fits no operation,")
        return result

    def method(self, node, method, args, kwargs):
        owner, name = method.owner, method.name
        if _is_tensor(owner):
            if name == "size":
                if not args and not kwargs:
                    return Shape(owner)
                return self.builder.call_primitive("sym_size", (owner, *args, *kwargs.values()))
            if name in ("dim", "ndimension"):
                return self.builder.call_primitive("dim", (owner,))
            if name in ("numel", "nelement"):
                self.refuse(node, "numel()")
            if name == "item":
                kind = _kind_of_elements(owner)
                if kind is None:
                    self.refuse(node, "item(), whose type is not known; write int(x) or float(x)")
                return self.builder.call_primitive("item", (owner,), kind)
            if name in _DTYPES:
                if isinstance(owner, Tensor):
                    return getattr(owner, name)()
                dtype = self.builder.call_primitive("dtype_of", (owner,))
                return self.comparison(node, ast.In(), dtype, _DTYPES[name])
            if name == "__len__":
                return self.length(owner)
            if _table._targets().get(f"Tensor.{name}"):
                return self.table_call(node, f"Tensor.{name}", (owner, *args), kwargs)
            function = getattr(Tensor, name, None)
            if isinstance(function, types.FunctionType):
                return self.call_python(node, function, [owner, *args], kwargs)
            self.refuse(node, f"the method {name} of a tensor")
        if isinstance(owner, list):
            if name in _CHANGING_LISTS and isinstance(node, ast.Call):
                self.expect_a_name(node.func.value, owner)
            if name == "append":
                owner.append(args[0])
                return None
            known = _is_known(args[:1] if name in ("insert", "pop") else [owner, *args])
            if name in ("extend", "reverse") or (known and name in _OF_LISTS):
                return getattr(owner, name)(*args)
        if isinstance(owner, dict) and name in ("items", "keys", "values", "get"):
            found = getattr(owner, name)(*args)
            return found if name == "get" else list(found)
        if isinstance(owner, Computed) and name == "append":
            self.refuse(node, "append to a computed list", "; write xs = xs + [x]")
        self.refuse(node, f"the method {name} of a {_kind(owner)}")

    def literal(self, data, dtype):
        made = self.builder.node(_record.literal(), (data,), {"dtype": dtype})
        return Computed(self.builder, made, "Tensor")


class _Method:
    """A method that is about to be called."""

    def __init__(self, owner, name):
        self.owner, self.name = owner, name


class _Range:
    """range() of computed numbers."""

    def __init__(self, start, stop, step):
        self.start, self.stop, self.step = start, stop, step


def _returns_nothing(name):
    return all(_table.schema(key).returns == ("None",) for key in _table._targets()[name])


def _hashable(v):
    try:
        hash(v)
    except TypeError:
        return False
    return True


def _is_own(function):
    """Is it one of this library's, which answers the same whenever it is asked?"""
    return home_of(function).partition(".")[0] == "rushlight"


def _is_tensor(v):
    return isinstance(v, Tensor) or (isinstance(v, Computed) and v.kind == "Tensor")


def _is_dynamic(v):
    return isinstance(v, (Computed, Shape, Tensor))


def _is_list(v):
    return isinstance(v, (list, tuple)) or (
        isinstance(v, Computed) and v.kind in ("list", "tensors")
    )


def _kind_of_elements(v):
    """The kind of number that a tensor of the graph has, where its operation says so."""
    target = v.node.target if isinstance(v, Computed) else None
    if not _table.is_operation(target):
        return None
    if v.node.kwargs.get("dtype") is not None:
        return None
    return _ELEMENTS.get(target.key.partition(".")[0])


def _kind(v):
    if isinstance(v, Computed):
        return v.kind
    if isinstance(v, Tensor):
        return "Tensor"
    if isinstance(v, Shape):
        return "shape"
    return type(v).__name__


def _list_kind(item):
    """The kind of a list of such items, as the first arguments of Computed."""
    return ("tensors", None) if item == "Tensor" else ("list", item)


def _item_kind(v):
    """What a list holds; None for an empty one."""
    if isinstance(v, Computed):
        return "Tensor" if v.kind == "tensors" else v.item
    return _kind(v[0]) if v else None


def _full_kind(v):
    """(kind, kind of its items) of a value of a graph."""
    if isinstance(v, Computed):
        return v.kind, v.item
    if isinstance(v, list):
        kinds = {_kind(one) for one in v}
        if kinds == {"Tensor"}:
            return "tensors", None
        return "list", next(iter(kinds), None)
    return _kind(v), None


def _identical(a, b):
    if a is b:
        return True
    return (
        _is_known(a)
        and _is_known(b)
        and type(a) is type(b)
        and not isinstance(a, Module)
        and (a == b)
    )


def _copied(names):
    """A scope of its own: lists and dicts may change in a branch."""
    return {n: list(v) if type(v) is list else dict(v) if type(v) is dict else v
            for n, v in names.items()}  # fmt: skip


def _same_members(v, copy):
    """Is a copy still what was copied?"""
    if type(v) is dict:
        return list(v) == list(copy) and all(v[k] is copy[k] for k in v)
    return type(v) is not list or (len(v) == len(copy) and all(map(operator.is_, v, copy)))


def _flatten(v, leaves, lists=False):
    """The structure of a value; its parts that are values of graphs go to `leaves`."""
    if isinstance(v, tuple):
        return ("tuple", *(_flatten(one, leaves, lists) for one in v))
    if isinstance(v, list) and not lists:
        return ("list", *(_flatten(one, leaves, lists) for one in v))
    if isinstance(v, dict):
        return ("dict", tuple(v), *(_flatten(one, leaves, lists) for one in v.values()))
    if v is None or isinstance(v, (str, Module)) or callable(v):
        return ("known", v)
    leaves.append(v)
    return "value"


def _unflatten(structure, leaves):
    if structure == "value":
        return next(leaves)
    kind, *parts = structure
    if kind == "known":
        return parts[0]
    if kind == "dict":
        keys, *parts = parts
        return dict(zip(keys, (_unflatten(p, leaves) for p in parts)))
    found = [_unflatten(p, leaves) for p in parts]
    return tuple(found) if kind == "tuple" else found


def _loaded(target):
    copy = ast.parse(ast.unparse(target), mode="eval").body
    return ast.copy_location(copy, target)


def _targets(target):
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]


_CHANGING_LISTS = ("append", "extend", "insert", "pop", "reverse")


def _assigned(statement):
    """Names that a statement assigns, those of lists and dicts that it may change included."""
    for n in ast.walk(statement):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
            yield n.id
        elif isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and isinstance(
            n.func.value, ast.Name
        ) and n.func.attr in _CHANGING_LISTS:  # fmt: skip
            yield n.func.value.id


def _read(expression):
    return [n.id for n in ast.walk(expression) if isinstance(n, ast.Name)]


def _has(statement, kind):
    """Is there such a statement in it that leaves it?"""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, kind):
            return True
        inner_loop = isinstance(child, (ast.For, ast.While)) and kind is not ast.Return
        if not inner_loop and not isinstance(child, (ast.FunctionDef, ast.Lambda)):
            if _has(child, kind):
                return True
    return False


def _always_raises(body):
    return bool(body) and isinstance(body[-1], ast.Raise)


def _said_by(statement):
    """What a `raise` would say: its class, and its message if that is no expression."""
    raised = statement.exc
    if not isinstance(raised, ast.Call):
        return "" if raised is None else f": {ast.unparse(raised)}"
    return f": {ast.unparse(raised.func)}: {', '.join(map(_text_of, raised.args))}"


def _text_of(message):
    """A message's text, or the expression that would make it."""
    return str(message.value) if isinstance(message, ast.Constant) else ast.unparse(message)


# ---- functions of Python that are compiled


def _range(self, node, args, kwargs):
    if _is_known(args):
        return range(*args)
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    return _Range(start, stop, step)


def _len(self, node, args, kwargs):
    (v,) = args
    if isinstance(v, (Computed, Shape, Tensor)):
        return self.length(v)
    return len(v)


def _number(name, kind):
    def convert(self, node, args, kwargs):
        (v,) = args
        if not _is_dynamic(v):
            return getattr(builtins, kind)(v)
        return self.builder.call_primitive(name, (v,), kind)

    return convert


def _bool(self, node, args, kwargs):
    return self.truth(node, args[0])


_KINDS = {"Tensor": Tensor, "int": int, "float": float, "bool": bool, "list": list, "tensors": list,
          "dtype": rushlight.dtype, "device": rushlight.device}  # fmt: skip


def _isinstance(self, node, args, kwargs):
    v, kinds = args
    kinds = members(kinds)
    containers = any(map(typing.get_origin, kinds))
    if isinstance(v, Shape):
        return any(k in (tuple, list, rushlight.Size) for k in kinds)
    if isinstance(v, Computed):
        of = Tensor if v.kind == "tensors" else _KINDS[v.item or "int"]
        is_list = _KINDS[v.kind] is list
        return any(
            (is_list and typing.get_origin(k) is list and typing.get_args(k) == (of,))
            if typing.get_origin(k)
            else issubclass(_KINDS[v.kind], k)
            for k in kinds
        )
    if containers and not _is_known(v):
        self.refuse(node, "isinstance of computed values and a type of containers")
    return is_of(v, tuple(kinds)) if containers else isinstance(v, tuple(kinds))


def _min_max(name):
    def choose(self, node, args, kwargs):
        values = self.items(node, args[0]) if len(args) == 1 else args
        if _is_known(values):
            return getattr(builtins, name)(values)
        result = values[0]
        for v in values[1:]:
            sign = "lt" if name == "min" else "gt"
            holds = self.compare(node, sign, v, result)
            result = _choose(self, node, holds, v, result)
        return result

    return choose


def _choose(self, node, holds, a, b):
    if isinstance(holds, bool):
        return a if holds else b
    builders = [Builder(self.builder) for _ in range(2)]
    return self.emit(node, "cond", [holds], builders, [[a], [b]], [])[0]


def _known_iterables(function):
    def call(self, node, args, kwargs):
        return list(function(*(self.items(node, a) for a in args), **kwargs))

    return call


def _tensor(self, node, args, kwargs):
    data, dtype = args[0], kwargs.get("dtype")
    if _is_tensor(data):
        self.refuse(node, "torch.tensor of a tensor; write x.clone().detach()")
    if kwargs.keys() - {"dtype"} or len(args) > 1:
        self.refuse(node, f"torch.tensor with {', '.join(kwargs)}")
    if _is_known(data):
        known = rushlight.tensor(data, dtype=dtype)
        return self.literal(known.tolist(), known.dtype)
    if dtype is None:
        if isinstance(data, (list, tuple)):
            kinds = {_kind(v) for v in data}
        else:
            kinds = {getattr(data, "item", None) or _kind(data)}
        dtype = {"int": rushlight.int64, "shape": rushlight.int64, "bool": rushlight.bool}.get(
            next(iter(kinds)), rushlight.get_default_dtype()
        )
    return self.literal(data, dtype)


def _any_all(name):
    def ask(self, node, args, kwargs):
        is_all, result = name == "all", None
        for v in self.items(node, args[0]):
            v = self.truth(node, v)
            if isinstance(v, bool):
                if v is not is_all:
                    return v
                continue
            both = (result, v)
            function = operator.and_ if is_all else operator.or_
            result = (
                v
                if result is None
                else Computed(self.builder, self.builder.node(function, both), "bool")
            )
        return is_all if result is None else result

    return ask


def _sum(self, node, args, kwargs):
    total = 0
    for v in self.items(node, args[0]):
        total = self.binary(node, "add", total, v)
    return total


def _annotate(self, node, args, kwargs):
    return args[1]


def _print(self, node, args, kwargs):
    self.refuse(node, "print")


def _recorded_cond(self, node, args, kwargs):
    self.refuse(node, "torch.cond; write an if")


_SPECIAL = {
    range: _range, len: _len, int: _number("to_int", "int"), float: _number("to_float", "float"),
    bool: _bool, isinstance: _isinstance, min: _min_max("min"), max: _min_max("max"),
    zip: _known_iterables(zip), enumerate: _known_iterables(enumerate),
    reversed: _known_iterables(reversed), print: _print, rushlight.tensor: _tensor,
    any: _any_all("any"), all: _any_all("all"), sum: _sum,
    list: lambda self, node, args, kwargs: list(self.items(node, args[0])) if args else [],
    tuple: lambda self, node, args, kwargs: tuple(self.items(node, args[0])) if args else (),
    math.sqrt: lambda self, node, args, kwargs: math.sqrt(args[0]) if _is_known(args)
    else self.binary(node, "pow", args[0], 0.5),
}  # fmt: skip


def mark_special():
    """Enter the functions of rushlight that are compiled in a way of their own."""
    from rushlight import jit
    from rushlight.nn import _recurrent

    _SPECIAL.setdefault(jit.annotate, _annotate)
    _SPECIAL.setdefault(jit.isinstance, _isinstance)
    _SPECIAL.setdefault(jit.is_scripting, lambda self, node, args, kwargs: True)
    _SPECIAL.setdefault(jit.is_tracing, lambda self, node, args, kwargs: False)
    # The states have the dtype of the weights, which is that of the module when it is compiled.
    _SPECIAL.setdefault(
        _recurrent._have_one_dtype,
        lambda self, node, args, kwargs: _recurrent._have_one_dtype(
            *[t for t in args if isinstance(t, rushlight.Tensor)]
        ),
    )
    _SPECIAL.setdefault(rushlight.cond, _recorded_cond)
