"""Recording a program as a graph of operations of the table.

A `__torch_function__` mode sees every function that a program calls. Those of the table are
resolved to one operation with one signature, run by it, and become a node. Functions that are
written in Python are run inside the mode, so that what they call is recorded; anything else that
takes tensors is refused by name. A tensor that no node made is a constant of the graph; one that
something made which the mode did not see is found by recording twice (see `_trace.difference`).
"""

import inspect
import itertools
import operator
import os
import sys
import types

import rushlight
from rushlight import _C, Tensor
from rushlight._higher_order_ops import control_flow
from rushlight._set_module import function_of_core
from rushlight.export import _branches, _indexing, _table
from rushlight.export._higher_order import HigherOrder
from rushlight.export._lifting import constant_position
from rushlight.export._symbols import _text, hint_of, is_symbol, symbol_of
from rushlight.fx import Graph
from rushlight.fx.node import map_aggregate
from rushlight.library._operator import OpOverload
from rushlight.nn.parameter import Parameter, UninitializedTensorMixin
from rushlight.overrides import TorchFunctionMode


class UnsupportedOperation(RuntimeError):
    """A program does something that a graph cannot hold."""


_OWN = __name__.rpartition(".")[0].partition(".")[0]


def _where():
    """Line of the program that called: the innermost frame that is not of this library."""
    frame = sys._getframe(2)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] != _OWN:
            code = frame.f_code
            return f"{os.path.basename(code.co_filename)}:{frame.f_lineno}, in {code.co_name}"
        frame = frame.f_back
    return "?"


# What a tensor says about itself without looking at its elements.
_QUESTIONS = set(
    """
    dim ndimension is_floating_point is_complex is_contiguous stride storage_offset element_size
    is_conj is_neg is_inference get_device is_signed is_pinned is_shared is_set_to is_coalesced
    __format__ __hash__ __repr__ is_same_size data_ptr
    """.split()
)
_ATTRIBUTES = set(
    """
    dtype device layout ndim itemsize nbytes requires_grad is_leaf is_cpu is_cuda is_meta is_sparse
    is_mkldnn is_mps is_nested is_quantized is_sparse_csr is_xpu grad_fn _version name output_nr
    retains_grad _base _backward_hooks _is_view __dict__ volatile _cdata _grad_fn grad_dtype is_ipu
    is_maia is_mtia is_vulkan is_xla _post_accumulate_grad_hooks
    """.split()
)
_VIEWS = {"T": "t", "mT": "mT", "H": "adjoint", "mH": "adjoint", "real": "real", "imag": "imag",
          "data": "detach"}  # fmt: skip
_OF_ELEMENTS = set(
    """
    tolist numpy __array__ __contains__ __complex__ is_nonzero item __int__ __float__ __index__
    __bool__
    """.split()
)
_SLOTS = {"__pos__": "positive", "__abs__": "abs", "__neg__": "neg", "__invert__": "bitwise_not"}
_CONSTANTS = {"tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "from_dlpack"}
# Of tensors that no graph holds, they return what they are given.
_SAME = {"requires_grad_", "resolve_conj", "resolve_neg", "pin_memory", "share_memory_"}


def has_rules(kind):
    """Does a class of tensors say what its functions do? Then what it calls is recorded."""
    return (
        issubclass(kind, Tensor)
        and not issubclass(kind, UninitializedTensorMixin)
        and not getattr(kind, "_is_of_core", False)
        and not getattr(kind, "_takes_dispatch", False)
    )


def elements_of(value):
    """A constant as a graph has it, where the rules of its class have been followed already."""
    if type(value) is Tensor or not has_rules(type(value)) or isinstance(value, Parameter):
        return value
    with _C.DisableTorchFunctionSubclass():
        return Tensor.as_subclass(value, Tensor)


def _place(value):
    """Where the elements of a tensor lie, or None where that says nothing."""
    if not isinstance(value, Tensor) or getattr(value, "_is_of_core", False):
        return None
    with _C.DisableTorchFunction():
        if value.layout is not rushlight.strided or value.is_meta or value.numel() == 0:
            return None
        storage = value.untyped_storage()._cdata
        return storage, value.storage_offset(), value.shape, value.stride(), value.dtype


class Recorder(TorchFunctionMode):
    """Records the calls made while it is entered.

    Args:
        dynamic: whether sizes are numbers that the graph computes.
        lifted: {id of a tensor: its node} of parameters, buffers and inputs.
    """

    takes_inputs = False  # the program runs on the example inputs, not on copies

    def __init__(self, dynamic=False, graph=None, outer=None):
        self.graph = graph or Graph()
        self.dynamic = dynamic
        self.outer = outer  # the recorder of the graph around, for that of a branch
        self.guards = outer.guards if outer else []
        self.constants = outer.constants if outer else []  # (node, tensor), in order
        # By id, the paths of those that are attributes of the module.
        self.constant_paths = outer.constant_paths if outer else {}
        self.subgraphs = outer.subgraphs if outer else []
        self.modules = outer.modules if outer else {}  # those of branches, by the name in the graph
        self._nodes = {}  # id -> (node, object), which keeps the object alive
        self._sizes = {}  # (node, dim) -> symbol
        self._running = []  # functions written in Python that are run inside the mode
        self._captured = {}  # node of the outer graph -> placeholder here
        self._places = {}  # node by where elements lie, of the first so many of self._nodes
        self._placed = 0
        self._grad_mode = rushlight.is_grad_enabled()

    # ---- nodes of values

    def note(self, value, node):
        """`value` is what the node computes."""
        self._nodes[id(value)] = (node, value)

    def node_of(self, value):
        """The node of a tensor; a constant if none made it."""
        found = self._nodes.get(id(value))
        if found is not None:
            return found[0]
        node = self._node_of_alias(value)
        if node is not None:
            self.note(value, node)
            return node
        if self.outer is not None:
            return self._capture(value, self.outer.node_of(value))
        return self._constant(value)

    def _node_of_alias(self, value):
        """The node of the same elements in another object: `as_subclass` makes one, unseen."""
        place = _place(value)
        if place is None:
            return None
        for node, other in itertools.islice(self._nodes.values(), self._placed, None):
            self._places.setdefault(_place(other), node)
        self._placed = len(self._nodes)
        return self._places.get(place)

    def _capture(self, value, node):
        """A value of the graph around: an operand of the branch, which becomes its placeholder."""
        if node not in self._captured:
            self._captured[node] = self.new_placeholder(node.name, value)
        inner = self._captured[node]
        if not is_symbol(value):
            self.note(value, inner)
        return inner

    def new_placeholder(self, name, value):
        """One more input, behind the others."""
        last = None
        for n in self.graph.nodes:
            if n.op != "placeholder":
                break
            last = n
        first = next(iter(self.graph.nodes), None)
        if last is not None:
            place = self.graph.inserting_after(last)
        elif first is not None:
            place = self.graph.inserting_before(first)
        else:
            place = self.graph.inserting_before()
        with place:
            node = self.graph.placeholder(name)
        node.target = node.name
        node.meta.update(val=value, kind="operand")
        return node

    def captured(self):
        """The nodes of the graph around that this one uses, each with its placeholder here."""
        return self._captured

    def _constant(self, value):
        if value.requires_grad and not value.is_leaf:
            raise UnsupportedOperation(
                "export: a tensor of the program was computed outside of it and has a history: "
                f"detach it ({_where()})"
            )
        path = self.constant_paths.get(id(value), f"lifted_tensor_{len(self.constants)}")
        with constant_position(self.graph):
            node = self.graph.placeholder(f"c_{path.replace('.', '_')}")
        node.meta.update(val=value, kind="constant", target=path)
        node.meta["where"] = _where()
        self.constants.append((node, value))
        self.note(value, node)
        return node

    def attach(self, name, module):
        """The node of a branch or the body of a loop."""
        path = f"{name}_{len(self.modules)}"
        self.modules[path] = module
        self.subgraphs.append(module.graph)
        return self.graph.get_attr(path)

    def lower(self, value):
        """Arguments as nodes have them."""
        if isinstance(value, (tuple, list)):
            return [self.lower(v) for v in value]
        if isinstance(value, dict):
            return {k: self.lower(v) for k, v in value.items()}
        return map_aggregate(value, self._lower_one)

    def _lower_one(self, v):
        if isinstance(v, Tensor):
            return self.node_of(v)
        if is_symbol(v):
            if v.recorder is self:
                return v.node
            if self.outer is None:
                raise UnsupportedOperation(
                    f"export: the size {v} is used outside of the graph that it belongs to"
                )
            return self._capture(v, self.outer._lower_one(v))
        return v

    def create(self, target, args, kwargs, result):
        """A node for a call that returned `result`."""
        node = self.graph.call_function(target, tuple(self.lower(args)), self.lower(kwargs))
        node.meta["val"] = result
        node.meta["stack_trace"] = _where()
        if isinstance(result, Tensor):
            self.note(result, node)
        elif isinstance(result, (tuple, list)):
            for place, part in enumerate(result):
                if isinstance(part, Tensor):
                    item = self.graph.call_function(operator.getitem, (node, place))
                    item.meta.update(val=part, stack_trace=node.meta["stack_trace"])
                    self.note(part, item)
        return node

    # ---- numbers

    def number(self, function, operands, expression):
        """A number computed from others, of which one is a symbol."""
        hint = function(*map(hint_of, operands))
        node = self.graph.call_function(function, tuple(self.lower(operands)))
        node.meta.update(val=hint, stack_trace=_where(), expression=expression)
        return symbol_of(self, node, hint, expression)

    def fix(self, symbol):
        """The program takes a number that may change as a plain one."""

    def guard(self, function, left, right, answer):
        """The program has compared numbers, and gone on by the answer."""
        where = _where()
        holds = function if answer else _INVERSE[function]
        text = f"{_text(left)} {_SIGNS[holds]} {_text(right)}"
        self.guards.append(text)
        a, b = self.lower((left, right))
        node = self.graph.call_function(holds, (a, b))
        node.meta.update(val=True, stack_trace=where, expression=text)
        message = f"{text}, on which the program branched when it was recorded, at {where}"
        done = self.graph.call_function(assertion(), (node, message))
        done.meta.update(val=None, stack_trace=where)

    def size(self, tensor, dim):
        """The size of a dim: a symbol if sizes may change."""
        if not self.dynamic:
            return tensor.size(dim)
        dim = dim + tensor.dim() if dim < 0 else dim
        node = self.node_of(tensor)
        if node.meta.get("kind") in ("parameter", "buffer", "constant"):
            return tensor.size(dim)
        dims = node.meta.get("dims")
        if dims is not None and dims[dim] is None:
            return tensor.size(dim)
        if (node, dim) not in self._sizes:
            value = tensor.size(dim)
            made = self.graph.call_function(sym_size(), (node, dim))
            name = dims[dim] if dims is not None else f"{node.name}.size({dim})"
            made.meta.update(val=value, stack_trace=_where(), expression=name)
            self._sizes[node, dim] = symbol_of(self, made, value, name)
        return self._sizes[node, dim]

    def _shape(self, tensor):
        if not self.dynamic:
            return tensor.shape
        sizes = [self.size(tensor, d) for d in range(tensor.dim())]
        return SymbolicSize(sizes) if any(map(is_symbol, sizes)) else tensor.shape

    # ---- calls

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for kind in types:
            if has_rules(kind):  # which call what is recorded
                with self:
                    result = kind.__torch_function__(func, types, args, kwargs)
                if result is not NotImplemented:
                    return result
        name = getattr(func, "__name__", "")
        if name in ("__get__", "__set__", "__delete__") and hasattr(func, "__self__"):
            return self._attribute(func, name, args)
        target = _table.target_name(func)
        if target is None and isinstance(func, OpOverload):
            return self._custom(func, args, kwargs)
        if target is None:
            return self._special(func, name, args, kwargs)
        return self._table_call(target, args, kwargs)

    def _table_call(self, target, args, kwargs):
        if kwargs.get("out") is not None:
            kwargs = dict(kwargs)
            out = kwargs.pop("out")
            result = self._table_call(target, args, kwargs)
            if not isinstance(out, Tensor) or out.shape != result.shape:
                raise UnsupportedOperation(
                    f"export: {target}: out= of another shape than the result is not recorded"
                )
            return self.call("copy_", (out, result))
        kwargs = {k: v for k, v in kwargs.items() if k != "out"}
        found = _table.resolve(target, args, kwargs)
        if found is None:  # tensors of one integer may stand for numbers
            first, others = args[:1], map_aggregate((args[1:], kwargs), self._as_number)
            found = _table.resolve(target, (*first, *others[0]), others[1])
        if found is None:
            plain = map_aggregate((args, kwargs), hint_of)
            function_of_core(target)(*plain[0], **plain[1])  # says what does not fit
            raise UnsupportedOperation(
                f"export: a call of {target} fits no operation of the table ({_where()})"
            )
        row, values = found
        if any(isinstance(v, rushlight.Generator) for v in values):
            raise UnsupportedOperation(
                f"export: {row.key}: a generator cannot be an argument in a graph; give None"
            )
        return self._run(_table.operation(row.key), *_table.arguments(row, values))

    def call(self, key, args, **kwargs):
        """Run an operation and record it."""
        return self._run(_table.operation(key), tuple(args), kwargs)

    def _run(self, target, args, kwargs):
        plain_args = tuple(map_aggregate(args, hint_of))
        plain_kwargs = {k: map_aggregate(v, hint_of) for k, v in kwargs.items()}
        for value in (*args, *kwargs.values()):  # before the call, which may change them
            self.lower(value)
        result = target(*plain_args, **plain_kwargs)
        self.create(target, args, kwargs, result)
        if self._grad_mode and not rushlight.is_grad_enabled() and not target.row.is_inplace:
            result = map_aggregate(result, self._detached)
        return result

    def _detached(self, value):
        """What a program computes under no_grad has no gradient when the graph is run either."""
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        result = value.detach()
        self.create(_table.operation("detach"), (value,), {}, result)
        return result

    def _custom(self, func, args, kwargs):
        plain = map_aggregate((tuple(args), dict(kwargs)), hint_of)
        self.lower(args)
        result = func(*plain[0], **plain[1])
        self.create(func, tuple(args), dict(kwargs), result)
        return result

    def _attribute(self, func, access, args):
        name = func.__self__.__name__
        if access != "__get__":
            if name in ("grad", "requires_grad"):
                raise UnsupportedOperation(
                    f"export: the program sets .{name} of a tensor ({_where()})"
                )
            if name == "data":
                raise UnsupportedOperation(
                    f"export: the program sets .data of a tensor: write copy_ ({_where()})"
                )
            return func(*args)
        if name == "shape":
            return self._shape(args[0])
        if name in _ATTRIBUTES:
            return func(*args)
        if name == "grad":
            if args[0].grad is None:
                return None
        elif name in _VIEWS:
            x = args[0]
            if name == "T" and x.dim() != 2:
                return self.call("permute", (x, tuple(range(x.dim()))[::-1]))
            if name in ("mT", "mH", "H"):
                result = self.call("transpose", (x, -2, -1))
                return self.call("conj", (result,)) if name != "mT" and x.is_complex() else result
            return self.call(_VIEWS[name], (x,))
        raise UnsupportedOperation(
            f"export: the attribute {name} of a tensor has no operation ({_where()})"
        )

    def _special(self, func, name, args, kwargs):
        """Functions and methods that are no operation of the table."""
        if name == "size":
            if len(args) > 1 or kwargs:
                return self.size(args[0], args[1] if len(args) > 1 else kwargs["dim"])
            return self._shape(args[0])
        if name in ("numel", "nelement", "__len__"):
            return self._count(name, args[0])
        if name in _QUESTIONS or (name in _OF_ELEMENTS and self._is_known(args[0])):
            return func(*args, **kwargs)
        if name == "__getitem__":
            return _indexing.get_item(self, *args)
        if name == "__setitem__":
            return _indexing.set_item(self, *args)
        if name == "__iter__":
            return iter(self.call("unbind", args))
        if name in ("item", "__int__", "__float__", "__index__"):
            return self._item(func, name, args[0])
        if name == "__bool__":
            return self.value_of(
                func, args, kwargs, "the program branches on the value of a tensor",
                ", which a graph does not know: use torch.cond or torch.where",
            )  # fmt: skip
        if name in _OF_ELEMENTS:
            return self.value_of(
                func, args, kwargs, f"{name}() gives the program values",
                " that a graph does not know",
            )  # fmt: skip
        if name in _CONSTANTS:
            return self._literal(func, name, args, kwargs)
        if name in _SAME:
            return args[0]
        if name == "new_tensor":
            x, data, *_ = args
            options = {"dtype": x.dtype, "device": x.device, **kwargs}
            return self._literal(_C._functions[""]["tensor"], name, (data,), options)
        if name == "detach_":
            result = self.call("detach", args)
            func(*args)
            self.note(args[0], self.node_of(result))
            return args[0]
        if name == "as_subclass":
            return func(*args, **kwargs)
        slot = _slot(name)
        if slot is not None:
            function, reflected = slot
            a, *rest = args
            if reflected:
                return self._reflected(function, a, rest[0])
            return self._table_call(function, (a, *rest), {})
        if isinstance(func, HigherOrder):
            return _branches.again(self, name, *args, **kwargs)
        if func in (control_flow.cond, control_flow.while_loop, control_flow.scan):
            return getattr(_branches, name)(self, *args, **kwargs)
        if func is rushlight._assert:
            condition, message = args
            if not condition:
                raise AssertionError(message)
            return None
        inner = getattr(func, "__wrapped__", None)
        if inner is None and isinstance(func, types.FunctionType):
            inner = func
        if func in self._running:  # what it wraps goes by its name
            target = _table.target_name(inspect.unwrap(func))
            if target is not None:
                return self._table_call(target, args, kwargs)
        if name in ("grad", "backward") or func in self._running:
            inner = None
        if inner is not None:
            self._running.append(func)  # it asks the modes itself: another time would not end
            try:
                with self:
                    return inner(*args, **kwargs)
            finally:
                self._running.remove(func)
        raise UnsupportedOperation(
            f"export: {getattr(func, '__module__', None) or 'Tensor'}.{name} has no operation in "
            f"the table ({_where()})"
        )

    def _is_known(self, x):
        """Has the tensor the same elements in each run, so that a program may look at them?"""
        from rushlight.export.passes import _needs_no_input

        found = self._nodes.get(id(x))
        return found is not None and _needs_no_input(found[0])

    def _reflected(self, function, x, other):
        """other <op> x for a number: the operation's own first argument may be one."""
        name = function.removeprefix("Tensor.")
        if _table.resolve(f"torch.{name}", (other, x), {}) is not None:
            return self._table_call(f"torch.{name}", (other, x), {})
        raise UnsupportedOperation(f"export: {other!r} as left operand of {name} ({_where()})")

    def _count(self, name, x):
        if name == "__len__":
            if x.dim() == 0:
                return len(x)
            return int(self.size(x, 0))  # Python's own len() takes nothing else
        if not self.dynamic:
            return x.numel()
        total = 1
        for d in range(x.dim()):
            total = total * self.size(x, d)
        return total

    def _item(self, func, name, x):
        value = func(x)
        if name == "item" and not isinstance(value, (bool, complex)):
            node = self.graph.call_function(item(), (self.node_of(x),))
            node.meta.update(val=value, stack_trace=_where(), expression=f"{node.name}")
            return symbol_of(self, node, value, node.name)
        return self.value_of(
            func, (x,), {}, f"{name}() of a tensor gives the program a value",
            " that a graph does not know; x.item() gives a number that it computes",
        )  # fmt: skip

    def _as_number(self, v):
        if isinstance(v, Tensor) and v.dim() == 0 and not (v.is_floating_point() or v.is_complex()):
            return self._item(Tensor.item, "item", v)
        return v

    def value_of(self, func, args, kwargs, what, instead):
        """The answer to a program that looks at elements: none, or another recorder's."""
        raise UnsupportedOperation(f"export: {what}{instead} ({_where()})")

    def same_constant(self, one, other):
        """Are these, of two runs, one constant of the graph?"""
        return one is other

    def _literal(self, func, name, args, kwargs):
        """torch.tensor and its like: a constant, or a stack where it holds tensors and symbols."""
        data = args[0]
        if isinstance(data, Tensor):
            if name == "tensor":
                data = self.call("clone", (self.call("detach", (data,)),))
            dtype, device = kwargs.get("dtype"), kwargs.get("device")
            if dtype is not None or device is not None:
                with self:
                    data = data.to(device=device, dtype=dtype)
            return data
        flat = _leaves(data)
        if not any(isinstance(v, Tensor) or is_symbol(v) for v in flat):
            result = func(*args, **kwargs)
            if isinstance(data, (int, float, bool)) and result.dim() == 0:
                options = {"dtype": result.dtype}
                if result.device.type != "cpu":
                    options["device"] = result.device
                return self.call("full", ((), data), **options)
            if name != "tensor" and not isinstance(data, (list, tuple, int, float, complex, bool)):
                return result
            return self._data(result)
        if not isinstance(data, (list, tuple)):
            data = [data]
            listed = self._literal(func, name, (data, *args[1:]), kwargs)
            return self.call("select", (listed, 0, 0))
        dtype = kwargs.get("dtype")
        if dtype is None:
            dtype = func(map_aggregate(list(data), hint_of), **kwargs).dtype
        parts = [
            v if isinstance(v, Tensor) else self._literal(func, name, (list(v),), kwargs)
            if isinstance(v, (list, tuple)) else self.call("full", ((), v), dtype=dtype)
            for v in data
        ]  # fmt: skip
        return self.call("stack", (parts,))

    def _data(self, result):
        """A tensor written out in the program: a constant, new at each run."""
        node = self.graph.call_function(literal(), (result.tolist(),), {"dtype": result.dtype})
        node.meta.update(val=result, stack_trace=_where())
        self.note(result, node)
        return result


def _leaves(data):
    if isinstance(data, (list, tuple)):
        return [leaf for part in data for leaf in _leaves(part)]
    return [data]


class SymbolicSize(tuple):
    """A shape of which some sizes are numbers that the graph computes."""

    def numel(self):
        """The number of elements."""
        total = 1
        for size in self:
            total = total * size
        return total

    def __getitem__(self, index):
        part = tuple.__getitem__(self, index)
        return SymbolicSize(part) if isinstance(index, slice) else part


_SLOT_NAMES = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "pow", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
    "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge",
}  # fmt: skip


def _slot(name):
    """(name in the table, whether the operands are swapped) of an operator's method, or None."""
    if not (name.startswith("__") and name.endswith("__")):
        return None
    if name in _SLOTS:
        return f"Tensor.{_SLOTS[name]}", False
    bare = name[2:-2]
    if bare in _SLOT_NAMES:
        return f"Tensor.{_SLOT_NAMES[bare]}", False
    if bare[:1] == "r" and bare[1:] in _SLOT_NAMES:
        return f"Tensor.{_SLOT_NAMES[bare[1:]]}", True
    if bare[:1] == "i" and bare[1:] in _SLOT_NAMES:
        return f"Tensor.{_SLOT_NAMES[bare[1:]]}_", False
    return None


# ---- operations that are no rows: what graphs compute with numbers


def _numbers(name, function):
    def get():
        aten = rushlight.ops.aten
        found = aten.__dict__.get(name)
        if found is None:
            from rushlight.library._operator import _BuiltinPacket

            found = _BuiltinPacket(name, function)
            setattr(aten, name, found)
        return found.default

    return get


_INVERSE = {
    operator.eq: operator.ne,
    operator.ne: operator.eq,
    operator.lt: operator.ge,
    operator.ge: operator.lt,
    operator.gt: operator.le,
    operator.le: operator.gt,
}
_SIGNS = {operator.eq: "==", operator.ne: "!=", operator.lt: "<", operator.ge: ">=",
          operator.gt: ">", operator.le: "<="}  # fmt: skip


def _assert_scalar(holds, message):
    if not holds:
        from rushlight.export.exported_program import GuardError  # which needs this file

        raise GuardError(f"the program was exported for {message}")


def _literal_tensor(data, dtype=None):
    return rushlight.tensor(data, dtype=dtype)


sym_size = _numbers("sym_size", lambda x, dim: x.size(dim))
item = _numbers("item", lambda x: x.item())
literal = _numbers("tensor", _literal_tensor)
assertion = _numbers("_assert_scalar", _assert_scalar)
# What scripts ask of values whose kind alone is known when they are compiled.
shape = _numbers("sym_shape", lambda x: list(x.shape))
dim = _numbers("sym_dim", lambda x: x.dim())
truth = _numbers("sym_truth", bool)
dtype_of = _numbers("sym_dtype", lambda x: x.dtype)
device_of = _numbers("sym_device", lambda x: x.device)
length = _numbers("sym_length", len)
to_int = _numbers("sym_int", int)
to_float = _numbers("sym_float", float)
PRIMITIVES = {
    "shape": shape,
    "dim": dim,
    "truth": truth,
    "dtype_of": dtype_of,
    "device_of": device_of,
    "length": length,
    "to_int": to_int,
    "to_float": to_float,
    "_assert_scalar": assertion,
    "sym_size": sym_size,
    "item": item,
    "tensor": literal,
}

_ON_NUMBERS = ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "neg", "eq", "ne", "lt",
               "le", "gt", "ge", "getitem", "and_", "or_", "not_")  # fmt: skip


def pure_functions():
    """The functions of graphs, besides operations of the table, that only compute."""
    return {
        *(getattr(operator, name) for name in _ON_NUMBERS),
        sym_size(),
        item(),
        literal(),
        shape(),
        dim(),
        truth(),
        dtype_of(),
        device_of(),
        length(),
        to_int(),
        to_float(),
    }
