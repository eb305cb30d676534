"""From a module and example inputs to a checked recording of it.

The program is recorded twice, with other sizes the second time where sizes may change. What differs
was computed in a way that the graph does not hold, and is an error that names the line.
"""

import inspect
import re

import rushlight
from rushlight import Tensor
from rushlight.export import _record
from rushlight.export._module_calls import ModuleCalls
from rushlight.export._record import Recorder, UnsupportedOperation
from rushlight.export._symbols import is_symbol, symbol_of
from rushlight.export.dynamic_shapes import Dim, _Hint, specs_of
from rushlight.fx import Node
from rushlight.fx.node import map_arg
from rushlight.nn import Module
from rushlight.utils._pytree import keystr, tree_flatten, tree_flatten_with_path, tree_unflatten


class Recording:
    """One run of a program: its recorder, and the structure of what went in and came out."""

    def __init__(self, recorder, inputs, in_spec, out_spec):
        self.module_calls = None
        self.recorder, self.inputs = recorder, inputs
        self.in_spec, self.out_spec = in_spec, out_spec

    @property
    def graph(self):
        """The graph."""
        return self.recorder.graph


class DynamicSize:
    """A size of an input that may change: factor * symbol + offset."""

    def __init__(self, symbol, factor=1, offset=0, text=None):
        self.symbol, self.factor, self.offset = symbol, factor, offset
        self.text = text or symbol

    def __repr__(self):
        return self.text

    def __eq__(self, other):
        if not isinstance(other, DynamicSize):
            return NotImplemented
        mine = (self.symbol, self.factor, self.offset)
        return mine == (other.symbol, other.factor, other.offset)

    def __hash__(self):
        return hash((self.symbol, self.factor, self.offset))

    def of(self, value):
        """The size, given the symbol's value."""
        return self.factor * value + self.offset


class Sizes:
    """The symbols of a program: their ranges and example values."""

    def __init__(self, leaves, specs):
        self.ranges, self.hints, self.kinds = {}, {}, {}
        self.of_leaves = []
        by_hint = {}
        for leaf, spec in zip(leaves, specs):
            if spec is None:
                self.of_leaves.append(None)
            elif isinstance(leaf, Tensor):
                entries = [self._entry(n, e, by_hint) for n, e in zip(leaf.shape, spec)]
                self.of_leaves.append(entries if any(e is not None for e in entries) else None)
            else:
                self.of_leaves.append(self._entry(leaf, spec, by_hint))

    def _entry(self, size, spec, by_hint):
        if spec is None:
            return None
        if isinstance(spec, _Hint):
            if spec is Dim.STATIC or (spec is Dim.AUTO and size < 2):
                return None
            if size not in by_hint:
                by_hint[size] = f"s{len(by_hint)}"
            name = by_hint[size]
            self._note(name, size, 0, None, spec.name)
            return DynamicSize(name)
        root = spec.root
        value, rest = divmod(size - spec.offset, spec.factor)
        if rest:
            raise ValueError(f"export: the example's size {size} is no {spec}")
        self._note(root.__name__, value, root.min, root.max, "named")
        return DynamicSize(root.__name__, spec.factor, spec.offset, spec.__name__)

    def _note(self, name, value, least, most, kind):
        known = self.hints.setdefault(name, value)
        if known != value:
            raise ValueError(
                f"export: {name} is {known} in one place of the example inputs and {value} in "
                "another"
            )
        self.ranges[name] = (least, most)
        self.kinds[name] = kind

    def fix(self, name):
        """The symbol is a plain size after all."""
        for entries in self.of_leaves:
            for place, e in enumerate(entries if isinstance(entries, list) else ()):
                if e is not None and e.symbol == name:
                    entries[place] = None
        del self.hints[name], self.ranges[name], self.kinds[name]

    def other_values(self, name):
        """Values to try instead of the example's."""
        value, (least, most) = self.hints[name], self.ranges[name]
        tries = [value * 2 + 1, value + 1, value * 2, value - 1, value + 2, value // 2]
        return [
            v for v in tries if v != value and v >= max(least, 1) and (most is None or v <= most)
        ]


def names_of_inputs(function, args, kwargs):
    """A name for each leaf of (args, kwargs), as the function's parameters are called."""
    try:
        names = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        names = []
    plain = [p.name for p in names if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    star = next((p.name for p in names if p.kind is p.VAR_POSITIONAL), "args")
    found = []
    for path, _ in tree_flatten_with_path((args, kwargs))[0]:
        where, first, *rest = path
        if where.idx == 0:
            place = first.idx
            name = plain[place] if place < len(plain) else f"{star}_{place - len(plain)}"
        else:
            name = str(first.key)
        tail = re.sub(r"[^0-9a-zA-Z]+", "_", keystr(tuple(rest))).strip("_")
        found.append(f"{name}_{tail}" if tail else name)
    return found


def record(module, function, leaves, in_spec, names, sizes, dynamic, recorder=None, preserved=()):
    """Run `function` on the leaves and record it; `preserved` are paths of modules whose arguments
    are noted.
    """
    recorder = recorder or Recorder(dynamic=dynamic)
    graph = recorder.graph
    for prefix, kind, members in (
        ("p", "parameter", module.named_parameters()),
        ("b", "buffer", module.named_buffers()),
    ):
        for name, value in members:
            node = graph.placeholder(f"{prefix}_{name.replace('.', '_')}")
            node.target = node.name
            node.meta.update(val=value, kind=kind, target=name)
            recorder.note(value, node)
    recorder.constant_paths.update(
        (id(value), f"{prefix}.{name}" if prefix else name)
        for prefix, part in module.named_modules()
        for name, value in vars(part).items()
        if isinstance(value, Tensor)
    )
    inputs = []
    for leaf, name, size in zip(leaves, names, sizes):
        node = graph.placeholder(name)
        node.target = node.name
        value = leaf
        if isinstance(leaf, Tensor):
            if not recorder.takes_inputs or any(leaf is other for other in inputs):
                value = leaf.detach().clone().requires_grad_(leaf.requires_grad)
            if size is None:
                dims = [None] * leaf.dim()
            else:
                dims = [None if e is None else e.text for e in size]
            node.meta.update(dims=dims, sizes=size)
            recorder.note(value, node)
        elif size is not None:
            value = symbol_of(recorder, node, leaf, size.text)
            node.meta.update(sizes=size)
        node.meta.update(val=leaf, kind="input", target=name)
        inputs.append(value)
    args, kwargs = tree_unflatten(inputs, in_spec)
    state = rushlight.get_rng_state()
    buffers = [(b, b.detach().clone()) for b in module.buffers()]
    versions = [(n, p, p._version) for n, p in module.named_parameters()]
    calls = ModuleCalls(recorder, module, preserved)
    try:
        with calls.noted(), recorder:
            result = function(*args, **kwargs)
    finally:
        rushlight.set_rng_state(state)
        with rushlight.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
    for name, p, version in versions:
        if p._version != version:
            raise UnsupportedOperation(f"export: the program changes the parameter {name} in place")
    results, out_spec = tree_flatten(result)
    for one in results:
        if not isinstance(one, (Tensor, int, float, bool, str, type(None))) and not is_symbol(one):
            raise UnsupportedOperation(
                f"export: the program returns a {type(one).__name__}; it may return tensors, "
                "numbers, strings and containers of these"
            )
    graph.output(tuple(recorder.lower(one) for one in results))
    recording = Recording(recorder, inputs, in_spec, out_spec)
    recording.module_calls = calls
    return recording


def _resized(x, size, values):
    """A tensor like x of other sizes, made of its elements."""
    if size is None:
        return x
    if not isinstance(x, Tensor):
        return size.of(values[size.symbol])
    with rushlight.no_grad():
        y = x.detach()
        for d, e in enumerate(size):
            if e is not None and y.size(d) != (n := e.of(values[e.symbol])):
                if y.size(d) == 0:
                    raise ValueError("export: a size that may change is 0 in the example inputs")
                y = y.index_select(d, rushlight.arange(n) % y.size(d))
    return y.requires_grad_(x.requires_grad)


def _same_argument(a, b, pairs):
    if isinstance(a, Node):
        return pairs.get(a) is b
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(_same_argument(x, y, pairs) for x, y in zip(a, b))
    if isinstance(a, slice):
        return all(_same_argument(getattr(a, n), getattr(b, n), pairs)
                   for n in ("start", "stop", "step"))  # fmt: skip
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same_argument(a[k], b[k], pairs) for k in a)
    return a == b or (a != a and b != b)


def difference(first, second):
    """What differs between two recordings: a sentence, or None."""
    graphs = [(first.graph, second.graph)]
    graphs += zip(first.recorder.subgraphs, second.recorder.subgraphs)
    same = first.recorder.same_constant
    return next(filter(None, (_graphs_differ(a, b, same) for a, b in graphs)), None)


def _graphs_differ(a, b, same_constant):
    pairs = {}
    nodes, others = list(a.nodes), list(b.nodes)
    for x, y in zip(nodes, others):
        pairs[x] = y
        where = x.meta.get("stack_trace") or x.meta.get("where") or "?"
        if (x.op, x.target) != (y.op, y.target):
            return (
                f"it calls {_name(x)} in one run and {_name(y)} in another, at {where}: it "
                "branches on something that the graph does not hold"
            )
        if x.meta.get("kind") == "constant" and not same_constant(x.meta["val"], y.meta["val"]):
            return (
                f"a tensor of shape {tuple(x.meta['val'].shape)} that is used at {where} is made "
                "anew in each run, by something that is no operation of the table (such as a "
                "backward pass, or a conversion from NumPy)"
            )
        for value, other in zip((*x.args, *x.kwargs.values()), (*y.args, *y.kwargs.values())):
            if not _same_argument(value, other, pairs):
                return (
                    f"{_name(x)} gets {_shown(value)} in one run and {_shown(other)} in another, "
                    f"at {where}"
                )
        if (x.args and not y.args) or x.kwargs.keys() != y.kwargs.keys():
            return f"{_name(x)} gets other arguments, at {where}"
    if len(nodes) != len(others):
        return f"it makes {len(nodes)} calls in one run and {len(others)} in another"
    return None


def _name(node):
    return node.target if isinstance(node.target, str) else str(node.target)


def _shown(value):
    text = str(value)
    return text if len(text) < 60 else text[:57] + "..."


def fold_sizes(recording, others):
    """Sizes that were the same in all runs are plain numbers."""
    graph = recording.graph
    values = [list(o.graph.nodes) for o in others]
    changed = {}
    for place, node in enumerate(list(graph.nodes)):
        if node.op != "call_function" or "expression" not in node.meta:
            continue
        hint = node.meta["val"]
        is_size = node.target is _record.sym_size()
        if is_size:
            constant = all(o[place].meta["val"] == hint for o in values)
        else:
            constant = bool(node.args) and not node.all_input_nodes
        if not constant or node.target is _record.item():
            continue
        changed[node] = hint
        for user in list(node.users):
            user.args = map_arg(user.args, lambda n, node=node, hint=hint: hint if n is node else n)
            user.kwargs = map_arg(
                user.kwargs, lambda n, node=node, hint=hint: hint if n is node else n
            )
        graph.erase_node(node)
    for node in list(graph.nodes):
        if node.target is _record.assertion() and not node.all_input_nodes:
            graph.erase_node(node)
    for node in reversed(list(graph.nodes)):
        if "expression" in node.meta and not node.users and node.op == "call_function":
            graph.erase_node(node)


def trace(mod, args, kwargs, dynamic_shapes, check=True, preserved=()):
    """(recording, sizes, names) of a module or function."""
    if isinstance(mod, Module):
        module, function = mod, mod
        signature = mod.forward
    else:
        module, function, signature = Module(), mod, mod
        owner = getattr(mod, "__self__", None)
        if isinstance(owner, Module):
            module = owner
    args, kwargs = tuple(args), dict(kwargs or {})
    leaves, in_spec = tree_flatten((args, kwargs))
    for leaf in leaves:
        if not isinstance(leaf, (Tensor, int, float, bool, str, type(None), rushlight.dtype,
                                 rushlight.device)):  # fmt: skip
            raise UnsupportedOperation(
                f"export: an input is a {type(leaf).__name__}; inputs are tensors, numbers, "
                "strings and containers of these"
            )
    names = names_of_inputs(signature, args, kwargs)
    sizes = Sizes(leaves, specs_of(signature, args, kwargs, dynamic_shapes))

    def run(values):
        resized = [_resized(x, s, values) for x, s in zip(leaves, sizes.of_leaves)]
        return record(module, function, resized, in_spec, names, sizes.of_leaves,
                      bool(sizes.hints), preserved=preserved)  # fmt: skip

    while True:
        first = run(sizes.hints)
        others, why = [], None
        for name in list(sizes.hints):
            other, why = _vary(run, first, sizes, name)
            if other is not None:
                others.append(other)
                continue
            if sizes.kinds[name] != "AUTO":
                raise UnsupportedOperation(
                    f"export: {name} cannot change, as dynamic_shapes says it may: {why}"
                )
            sizes.fix(name)
            break
        else:
            break
    if not sizes.hints and check:
        found = difference(first, run({}))
        if found:
            raise UnsupportedOperation(f"export: the program does not do the same twice: {found}")
    elif others:
        fold_sizes(first, others)
    return first, sizes, names


def _vary(run, first, sizes, name):
    """(a recording with another value of the symbol that agrees with the first, None), or
    (None, why there is none).
    """
    why = "no other value is in its range"
    for value in sizes.other_values(name):
        try:
            other = run({**sizes.hints, name: value})
        except UnsupportedOperation:
            raise
        except (RuntimeError, ValueError, IndexError, TypeError, AssertionError) as error:
            why = f"with {name} = {value} it fails: {error}"
            continue
        found = difference(first, other)
        if found is None:
            return other, None
        return None, f"with {name} = {value} and {sizes.hints[name]}, {found}"
    return None, why
