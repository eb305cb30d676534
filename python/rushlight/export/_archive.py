"""The file of a program: docs/programs.md describes it.

A zip archive, uncompressed: weights.safetensors and program.json. Whatever a file says is checked:
names of operations, types and places of arguments, sizes against the bytes that are there.
"""

import collections
import contextlib
import io
import json
import math
import operator
import os
import re
import zipfile

import rushlight
from rushlight import Tensor
from rushlight.export import _record, _safetensors, _table
from rushlight.export._higher_order import HigherOrder, higher_order
from rushlight.export._trace import DynamicSize
from rushlight.export.exported_program import (
    ExportedProgram,
    guards_of,
    signature_of,
)
from rushlight.fx import Graph, GraphModule, Node
from rushlight.library import _operator
from rushlight.utils._pytree import TreeSpec
from rushlight.utils._sympy.numbers import int_oo

FORMAT, VERSION = "rushlight.program", 1
PROGRAM, WEIGHTS, EXTRA = "program.json", "weights.safetensors", "extra/"

# Operations on numbers, and those of graphs: written with a dot before the name.
_NUMBERS = {f".{name.rstrip('_')}": getattr(operator, name) for name in (
    "add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "neg", "eq", "ne", "lt", "le", "gt",
    "ge", "getitem", "and_", "or_", "not_")}  # fmt: skip
_NAMES_OF_NUMBERS = {function: name for name, function in _NUMBERS.items()}


def _primitives():
    return {f".{name}": get() for name, get in _record.PRIMITIVES.items()}


# ---- writing


def save(program, f, extra_files=None):
    """Write an ExportedProgram."""
    graphs = []
    _write_graph(program.graph, program.graph_module, graphs)
    document = {
        "format": FORMAT, "version": VERSION, "producer": f"rushlight {rushlight.__version__}",
        "graphs": graphs,
        "inputs": _write_tree(program.in_spec), "outputs": _write_tree(program.out_spec),
        "lists": program.takes_lists, "training": program.training,
        "symbols": {
            name: {"min": least, "max": None if most == int_oo else most}
            for name, (least, most) in program.range_constraints.items()
        },
    }  # fmt: skip
    tensors = {}
    for spec in program.graph_signature.input_specs:
        if spec.target is not None:
            tensors[spec.target] = program._lifted(spec.kind, spec.target)
    known = {id(value) for value in tensors.values()}
    for name, value in program.state_dict.items():
        if id(value) not in known:  # a parameter under several names is written once
            known.add(id(value))
            tensors[name] = value
    write_archive(f, tensors, document, extra_files)


def write_archive(f, tensors, document, extra_files=None):
    """Write the zip archive of a program."""
    with _opened(f, "wb") as out, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        # The elements begin at a multiple of 64 in the file, behind the header of the archive.
        before = 30 + len(WEIGHTS)
        with archive.open(_entry(WEIGHTS), "w", force_zip64=False) as weights:
            _safetensors.write(weights, tensors, before)
        text = json.dumps(document, indent=1, allow_nan=False)
        archive.writestr(_entry(PROGRAM), text)
        for name, data in (extra_files or {}).items():
            archive.writestr(_entry(EXTRA + name), data)


def _entry(name):
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))  # the same program, the same bytes


@contextlib.contextmanager
def _opened(f, mode):
    if isinstance(f, (str, os.PathLike)):
        with open(f, mode) as file:
            yield file
    elif hasattr(f, "write" if "w" in mode else "read"):
        yield f
    else:
        raise TypeError(f"expected a path or a file object, got {type(f).__name__}")


def _write_graph(graph, module, graphs):
    """Append a graph, and those inside it, and return its place."""
    place = len(graphs)
    graphs.append(None)
    inputs, nodes, outputs = [], [], []
    for node in graph.nodes:
        if node.op == "placeholder":
            inputs.append(_write_input(node))
        elif node.op == "output":
            outputs = [_write_value(v, module, graphs) for v in node.args[0]]
        elif node.op == "call_function":
            nodes.append(
                {
                    "op": _write_target(node.target),
                    "name": node.name,
                    "args": [_write_value(v, module, graphs) for v in node.args],
                    "kwargs": {k: _write_value(v, module, graphs) for k, v in node.kwargs.items()},
                }
            )
        elif node.op != "get_attr":
            raise ValueError(f"save: a graph with {node.op} nodes")
    graphs[place] = {"inputs": inputs, "nodes": nodes, "outputs": outputs}
    return place


def _write_target(target):
    if _table.is_operation(target):
        return target.key
    if target in _NAMES_OF_NUMBERS:
        return _NAMES_OF_NUMBERS[target]
    if isinstance(target, HigherOrder):
        return f".{target.__name__}"
    for name, primitive in _primitives().items():
        if target is primitive:
            return name
    if isinstance(target, _operator.OpOverload):
        return target.name()
    raise ValueError(f"save: a graph that calls {target!r}, which is no operation")


def _write_input(node):
    meta, value = node.meta, node.meta.get("val")
    kind = meta.get("kind", "operand")
    entry = {"name": node.name, "kind": kind}
    if kind in ("parameter", "buffer", "constant"):
        entry["target"] = meta["target"]
        if kind == "parameter":
            entry["requires_grad"] = bool(value.requires_grad)
        return entry
    if kind == "operand":
        return entry
    if meta["target"] != node.name:  # what the caller names it
        entry["target"] = meta["target"]
    sizes = meta.get("sizes")
    if "type" in meta:
        entry["type"] = meta["type"]
    elif isinstance(value, Tensor):
        entry["dtype"] = str(value.dtype).rpartition(".")[2]
        entry["device"] = meta.get("device") or str(value.device)
        entry["shape"] = [
            n if sizes is None or sizes[d] is None else _write_size(sizes[d])
            for d, n in enumerate(value.shape)
        ]
    elif sizes is not None:
        entry["size"] = _write_size(sizes)
    else:
        entry["value"] = _write_value(value, None, None)
    return entry


def _write_size(size):
    return {"symbol": size.symbol, "factor": size.factor, "offset": size.offset}


def _write_value(v, module, graphs):
    if isinstance(v, Node):
        if v.op == "get_attr":
            inner = getattr(module, v.target)
            place = _write_graph(inner.graph, inner, graphs)
            graphs[place]["name"] = v.target
            return {"graph": place}
        return {"node": v.name}
    if v is None or isinstance(v, (bool, str)):
        return v
    if isinstance(v, int):
        if not -(2**63) <= v < 2**63:
            raise ValueError(f"save: the number {v} does not fit 64 bits")
        return int(v)
    if isinstance(v, float):
        return float(v) if math.isfinite(v) else {"float": repr(float(v))}
    if isinstance(v, complex):
        return {"complex": [repr(v.real), repr(v.imag)]}
    if isinstance(v, (list, tuple)):
        return [_write_value(one, module, graphs) for one in v]
    if isinstance(v, rushlight.dtype):
        return {"dtype": str(v).rpartition(".")[2]}
    if isinstance(v, rushlight.device):
        return {"device": str(v)}
    if isinstance(v, rushlight.memory_format):
        return {"memory_format": str(v).rpartition(".")[2]}
    if isinstance(v, rushlight.layout):
        return {"layout": str(v).rpartition(".")[2]}
    if v in (float, int, bool):  # as dtypes
        return _write_value(rushlight.zeros(0, dtype=v).dtype, module, graphs)
    raise ValueError(f"save: an argument of type {type(v).__name__}")


_TREES = {list: "list", tuple: "tuple", dict: "dict", collections.OrderedDict: "ordered_dict"}


def _write_tree(spec):
    if spec.is_leaf():
        return "*"
    children = [_write_tree(c) for c in spec.children()]
    if spec.type in _TREES:
        entry = {"type": _TREES[spec.type], "children": children}
        if "dict" in entry["type"]:
            keys = list(spec.context)
            if not all(type(k) in (str, int) for k in keys):
                raise ValueError("save: keys of dicts of inputs and outputs must be str or int")
            entry["keys"] = keys
        return entry
    if spec.type is collections.namedtuple:
        kind = spec.context
        fields = getattr(kind, "_fields", None) or kind.__match_args__
        return {"type": "named_tuple", "name": kind.__name__, "keys": list(fields),
                "children": children}  # fmt: skip
    raise ValueError(
        f"save: inputs and outputs may be lists, tuples, dicts and named tuples, not "
        f"{spec.type.__name__}"
    )


# ---- reading


class Damaged(ValueError):
    """A file is no program, or damaged."""


def need(condition, *what):
    """Raise Damaged unless the condition holds."""
    if not condition:
        raise Damaged("load: the file is damaged: " + "".join(map(str, what)))


def _typed(value, kind, what):
    need(type(value) is kind, f"{what} is a {type(value).__name__}, not a {kind.__name__}")
    return value


def read_archive(f, extra_files=None):
    """(document, tensors by name) of a file; the bytes of extra files become the dict's values."""
    with _opened(f, "rb") as source:
        data = source.read()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = {i.filename: i for i in archive.infolist()}
            need(len(entries) == len(archive.infolist()), "two entries have one name")
            for entry in entries.values():
                need(entry.compress_type == zipfile.ZIP_STORED, f"{entry.filename} is compressed")
                need(entry.file_size <= len(data), f"{entry.filename} is larger than the file")
            need(PROGRAM in entries and WEIGHTS in entries, f"it has no {PROGRAM} or {WEIGHTS}")
            text, weights = archive.read(PROGRAM), archive.read(WEIGHTS)
            for name in extra_files or {}:
                if EXTRA + name not in entries:
                    raise KeyError(f"load: the file has no extra file {name!r}")
                extra_files[name] = archive.read(EXTRA + name)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError) as error:
        raise Damaged(f"load: the file is no program: {error}") from None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"load: the file is damaged: {PROGRAM}: {error}") from None
    _typed(document, dict, PROGRAM)
    need(document.get("format") == FORMAT, f"its format is {document.get('format')!r}")
    version = document.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise Damaged(
            f"load: the file has version {version!r} of its format; this library reads up to "
            f"{VERSION}"
        )
    return document, _safetensors.read(weights, need)


def load(f, extra_files=None):
    """Read an ExportedProgram."""
    document, tensors = read_archive(f, extra_files)
    try:
        return _program(document, tensors)
    except RecursionError:
        raise Damaged("load: the file is damaged: it is nested too deeply") from None


def _program(document, tensors):
    symbols = _typed(document.get("symbols"), dict, "symbols")
    ranges = {}
    for name, limits in symbols.items():
        _identifier(name, "symbol")
        _typed(limits, dict, "symbol")
        least, most = limits.get("min"), limits.get("max")
        need(type(least) is int and (most is None or type(most) is int), f"range of {name}")
        ranges[name] = (least, most)
    graphs = _typed(document.get("graphs"), list, "graphs")
    need(graphs, "it has no graph")
    reader = _Reader(graphs, tensors, ranges)
    module = reader.graph(0, main=True)
    graph = module.graph
    in_spec, out_spec = _read_tree(document.get("inputs")), _read_tree(document.get("outputs"))
    is_call = in_spec.type is tuple and in_spec.num_children == 2
    need(is_call and in_spec.children()[0].type is tuple and in_spec.children()[1].type is dict,
         "the structure of the inputs is no call's")  # fmt: skip
    users = [n for n in graph.nodes if n.op == "placeholder" and n.meta["kind"] == "input"]
    need(in_spec.num_leaves == len(users), "inputs and their structure differ in number")
    need(
        out_spec.num_leaves == len(graph.output_node().args[0]),
        "outputs and their structure differ in number",
    )
    state, constants = {}, {}
    kinds = {n.meta["target"]: n.meta["kind"] for n in graph.nodes
             if n.op == "placeholder" and n.meta["kind"] != "input"}  # fmt: skip
    trained = {n.meta["target"] for n in graph.nodes if n.meta.get("requires_grad")}
    for name in [*kinds, *(n for n in tensors if n not in kinds)]:
        value, kind = tensors[name], kinds.get(name, "buffer")
        if kind == "parameter":
            state[name] = rushlight.nn.Parameter(value, requires_grad=name in trained)
        elif kind == "buffer":
            state[name] = value
        else:
            constants[name] = value
    for node in graph.nodes:
        if node.op == "placeholder" and node.meta["kind"] != "input":
            node.meta["val"] = {**state, **constants}[node.meta["target"]]
    program = ExportedProgram(module, signature_of(graph), state, constants, in_spec, out_spec,
                              guards_of(graph), ranges)  # fmt: skip
    program.takes_lists = _typed(document.get("lists"), bool, "lists")
    program.training = document.get("training")
    need(program.training in (None, True, False), "training")
    return program


def _identifier(name, what):
    text = _typed(name, str, f"name of a {what}")
    need(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text) and len(text) < 1000, f"{text!r} as a name")
    return text


class _Reader:
    def __init__(self, graphs, tensors, ranges):
        self.graphs, self.tensors, self.ranges = graphs, tensors, ranges
        self.used = set()

    def graph(self, place, main=False):
        """The graph module of a graph of the file; each is used once, so there are no cycles."""
        need(type(place) is int and 0 <= place < len(self.graphs), f"graph {place!r}")
        need(place not in self.used, f"graph {place} is used twice")
        self.used.add(place)
        entry = _typed(self.graphs[place], dict, "graph")
        graph, values, root = Graph(), {}, {}
        lifted = True
        for item in _typed(entry.get("inputs"), list, "inputs"):
            node = self._input(graph, _typed(item, dict, "input"), values, main)
            is_lifted = node.meta["kind"] in ("parameter", "buffer", "constant")
            need(lifted or not is_lifted, "an input stands before parameters")
            lifted = is_lifted
        for item in _typed(entry.get("nodes"), list, "nodes"):
            self._node(graph, _typed(item, dict, "node"), values, root)
        outputs = _typed(entry.get("outputs"), list, "outputs")
        graph.output(tuple(self._value(v, values, root, graph) for v in outputs))
        return GraphModule(root, graph)

    def _enter(self, values, node, name):
        need(name not in values, f"two values have the name {name}")
        need(node.name == name, f"{name!r} cannot be a name")
        values[name] = node

    def _input(self, graph, item, values, main):
        name = _identifier(item.get("name"), "input")
        node = graph.placeholder(name)
        self._enter(values, node, name)
        kind = item.get("kind")
        need(kind in (("input", "parameter", "buffer", "constant") if main else ("operand",)),
             f"an input of kind {kind!r}")  # fmt: skip
        node.meta["kind"] = kind
        if kind == "operand":
            return node
        if kind != "input":
            target = _typed(item.get("target"), str, "target")
            need(all(p and not p.startswith("__") for p in target.split(".")), f"{target!r}")
            need(target in self.tensors, f"it has no tensor {target!r}")
            node.meta["target"] = target
            if kind == "parameter":
                wants = _typed(item.get("requires_grad"), bool, "requires_grad")
                t = self.tensors[target]
                need(not wants or t.is_floating_point() or t.is_complex(), f"{target}: a gradient")
                node.meta["requires_grad"] = wants
            return node
        node.meta["target"] = _identifier(item.get("target", name), "input")
        if "type" in item:
            kind = item["type"]
            need(kind in ("Tensor", "int", "float", "bool", "tensors", "list"), f"type {kind!r}")
            node.meta.update(type=kind, val=None)
        elif "shape" in item:
            shape = _typed(item["shape"], list, "shape")
            sizes = [self._size(s) for s in shape]
            need(all(isinstance(s, DynamicSize) or 0 <= s < 2**62 for s in sizes), "shape")
            hints = [s.of(max(self.ranges[s.symbol][0], 1)) if isinstance(s, DynamicSize) else s
                     for s in sizes]  # fmt: skip
            try:
                value = rushlight.empty(hints, dtype=_dtype(item.get("dtype")), device="meta")
            except (RuntimeError, ValueError, OverflowError) as error:
                raise Damaged(f"load: the file is damaged: input {name}: {error}") from None
            dynamic = [s if isinstance(s, DynamicSize) else None for s in sizes]
            node.meta["device"] = _typed(item.get("device"), str, "device")
            node.meta["sizes"] = dynamic if any(s is not None for s in dynamic) else None
            node.meta["val"] = value
        elif "size" in item:
            size = self._size(item["size"])
            need(isinstance(size, DynamicSize), f"size of {name}")
            node.meta.update(sizes=size, val=1)
        else:
            need("value" in item, f"input {name} has no type")
            node.meta["val"] = self._value(item["value"], {}, None, None)
        return node

    def _size(self, s):
        if type(s) is int:
            return s
        _typed(s, dict, "size")
        symbol, factor, offset = s.get("symbol"), s.get("factor"), s.get("offset")
        need(isinstance(symbol, str) and symbol in self.ranges, f"symbol {symbol!r}")
        need(type(factor) is int and factor > 0 and type(offset) is int, "size")
        name = symbol if factor == 1 else f"{factor}*{symbol}"
        tail = f" + {offset}" if offset > 0 else f" - {-offset}" if offset else ""
        return DynamicSize(symbol, factor, offset, name + tail)

    def _node(self, graph, item, values, root):
        name = _identifier(item.get("name"), "node")
        target = _read_target(item.get("op"))
        args = _typed(item.get("args"), list, "args")
        kwargs = _typed(item.get("kwargs"), dict, "kwargs")
        args = tuple(self._value(v, values, root, graph) for v in args)
        kwargs = {
            _identifier(k, "argument"): self._value(v, values, root, graph)
            for k, v in kwargs.items()
        }
        if _table.is_operation(target):
            _check_arguments(target.row, args, kwargs)
        elif target in _NAMES_OF_NUMBERS:
            wanted = 1 if target in (operator.neg, operator.not_) else 2
            need(len(args) == wanted and not kwargs, f"{item['op']} of {len(args)} arguments")
        node = graph.create_node("call_function", target, args, kwargs, name=name)
        self._enter(values, node, name)

    def _value(self, v, values, root, graph):
        if v is None or isinstance(v, (bool, str, int, float)):
            if type(v) is int:
                need(-(2**63) <= v < 2**63, f"the number {v}")
            return v
        if isinstance(v, list):
            return [self._value(one, values, root, graph) for one in v]
        need(isinstance(v, dict) and len(v) == 1, f"the value {str(v)[:40]}")
        ((kind, what),) = v.items()
        if kind == "node":
            need(
                isinstance(what, str) and what in values, f"a value {what!r} before it is computed"
            )
            return values[what]
        if kind == "graph":
            need(root is not None, "a graph as an input")
            inner = self.graph(what)
            name = _typed(self.graphs[what].get("name"), str, "name of a graph")
            need(re.fullmatch(r"[a-z]+_graph_[0-9]+", name) and name not in root, f"graph {name!r}")
            root[name] = inner
            return graph.get_attr(name)
        if kind == "float":
            need(what in ("inf", "-inf", "nan"), f"the float {what!r}")
            return float(what)
        if kind == "complex":
            try:
                real, imag = map(float, what)
            except (TypeError, ValueError):
                need(False, f"the number {what!r}")
            return complex(real, imag)
        if kind == "dtype":
            return _dtype(what)
        if kind == "device":
            try:
                return rushlight.device(_typed(what, str, "device"))
            except RuntimeError as error:
                need(False, error)
        if kind == "memory_format":
            found = getattr(rushlight, _typed(what, str, kind), None)
            need(isinstance(found, rushlight.memory_format), f"memory format {what!r}")
            return found
        if kind == "layout":
            need(what == "strided", f"layout {what!r}")
            return rushlight.strided
        need(False, f"a value of kind {kind!r}")


def _dtype(name):
    found = getattr(rushlight, _typed(name, str, "dtype"), None)
    need(isinstance(found, rushlight.dtype), f"dtype {name!r}")
    return found


def _read_target(op):
    _typed(op, str, "op")
    if op.startswith("."):
        found = _NUMBERS.get(op) or _primitives().get(op) or higher_order(op[1:])
        need(found is not None, f"it calls {op!r}, which is no operation")
        return found
    if "::" in op:
        found = None
        with contextlib.suppress(ValueError):
            found = _operator.by_name(op)
        if found is None or found._schema is None:
            raise Damaged(
                f"load: the program calls the custom operation {op!r}, which is not registered: "
                "import what registers it first"
            )
        return found
    try:
        return _table.operation(op)
    except KeyError:
        raise Damaged(
            f"load: the file is damaged: it calls {op!r}, which is no operation"
        ) from None


def _check_arguments(row, args, kwargs):
    """Could the arguments fit? What values have is known only when they are computed."""
    positional = [p for p in row.parameters if not p.keyword_only]
    need(len(args) <= len(positional), f"{row.key} with {len(args)} arguments")
    given = dict(zip((p.name for p in positional), args))
    for name, value in kwargs.items():
        need(row.index(name) >= 0, f"{row.key} has no argument {name!r}")
        need(name not in given, f"{row.key} is given {name!r} twice")
        given[name] = value
    for p in row.parameters:
        if p.name not in given:
            need(p.default is not _table.MISSING, f"{row.key} without its argument {p.name!r}")
        else:
            need(
                isinstance(given[p.name], Node) or _table._accepts(p, given[p.name], _Unknown),
                f"{row.key}: {given[p.name]!r} as its argument {p.name!r}",
            )


class _Unknown:
    """Values that nodes compute may be anything."""

    is_tensor = staticmethod(lambda v: isinstance(v, Node))
    is_number = staticmethod(lambda v: isinstance(v, (Node, bool, int, float, complex)))
    is_int = staticmethod(lambda v: isinstance(v, Node) or type(v) is int)
    is_real = staticmethod(lambda v: isinstance(v, (Node, bool, int, float)))
    is_bool = staticmethod(lambda v: isinstance(v, (Node, bool)))
    is_scalar = is_number


_OF_TREES = {name: kind for kind, name in _TREES.items()}


def _read_tree(entry):
    if entry == "*":
        return TreeSpec(None, None, [])
    _typed(entry, dict, "structure")
    kind = entry.get("type")
    children = [_read_tree(c) for c in _typed(entry.get("children"), list, "children")]
    keys = entry.get("keys")
    if kind in ("list", "tuple"):
        return TreeSpec(_OF_TREES[kind], None, children)
    need(kind in ("dict", "ordered_dict", "named_tuple"), f"a structure of type {kind!r}")
    _typed(keys, list, "keys")
    need(len(keys) == len(children) == len(set(map(repr, keys))), "keys of a structure")
    if kind != "named_tuple":
        need(all(type(k) in (str, int) for k in keys), "keys of a structure")
        return TreeSpec(_OF_TREES[kind], keys, children)
    names = [_identifier(k, "field") for k in keys]
    need(not any(n.startswith("_") for n in names), "names of fields")
    made = collections.namedtuple(_identifier(entry.get("name"), "type"), names)
    return TreeSpec(collections.namedtuple, made, children)
