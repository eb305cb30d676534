"""Recording, changing and running programs as graphs."""

import copy
import dataclasses
import enum
import importlib
import math
import operator
import pickle
import traceback

import pytest

import rushlight
from rushlight import fx, nn
from rushlight.fx.passes.shape_prop import ShapeProp
from rushlight.fx.tensor_type import TensorType
from rushlight.nn import functional as F
from rushlight.nn.functional import max_pool2d
from rushlight.utils import _pytree as pytree


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.conv2(self.relu(self.bn1(self.conv1(x))))
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.layer1 = nn.Sequential(Block(8, 8), Block(8, 16, 2))
        self.layer2 = nn.ModuleList([Block(16, 16)])
        self.fc = nn.Linear(16, 5)

    def forward(self, x):
        x = self.layer1(max_pool2d(F.relu(self.stem(x)), 2))
        for block in self.layer2:
            x = block(x)
        x = rushlight.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1)
        return self.fc(F.dropout(x, p=0.1, training=self.training))


class Attention(nn.Module):
    def __init__(self, size=8, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)
        self.norm = nn.LayerNorm(size)
        self.gain = nn.Parameter(rushlight.ones(size))
        self.register_buffer("mask", rushlight.ones(5, 5).tril())

    def forward(self, x):
        batch, length, size = x.shape
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (
            t.view(batch, length, self.heads, size // self.heads).transpose(1, 2) for t in (q, k, v)
        )
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.size(-1))
        scores = scores.masked_fill(self.mask == 0, float("-inf"))
        y = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(batch, length, size)
        return x + self.gain * self.out(y)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.lstm = nn.LSTM(4, 6, batch_first=True)
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)

    def forward(self, i):
        out, (h, _) = self.lstm(self.embedding(i))
        mixed, _ = self.attention(out, out, out, need_weights=False)
        return {"mixed": mixed + h[-1][:, None], "shape": mixed.shape[0]}


def functions(x, y):
    return (
        rushlight.einsum("ij,jk->ik", x, y),
        rushlight.cat((x, y), dim=1),
        rushlight.where(x > 0, x, -y),
        rushlight.norm(x) + x.norm(2, -1, keepdim=True),
        F.cross_entropy(x, rushlight.zeros(3, dtype=rushlight.int64)),
        F.interpolate(x[None, None], scale_factor=2.0),
        2 - x,
        x**2,
        1 / (abs(x) + 3),
        ~(x > 0),
        x[:, 1:],
        x[..., None, 0],
        x[[0, 1]],
        x.T,
        x.max(dim=1).values,
        rushlight.split(x, 1, dim=0)[0],
        rushlight.linalg.norm(x),
        x.shape[0] * 2,
        x.to(rushlight.float64),
        rushlight.add(x, y, alpha=2),
        x * math.sqrt(x.size(0)),
    )


PROGRAMS = {
    "mlp": lambda: (
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)),
        (rushlight.randn(3, 4),),
    ),
    "resnet": lambda: (ResNet().eval(), (rushlight.randn(2, 3, 12, 12),)),
    "attention": lambda: (Attention(), (rushlight.randn(2, 5, 8),)),
    "recurrent": lambda: (Recurrent(), (rushlight.tensor([[1, 2, 3]]),)),
    "functions": lambda: (functions, (rushlight.randn(3, 3), rushlight.randn(3, 3))),
}
every_program = pytest.mark.parametrize("name", PROGRAMS)


def flat(value):
    if isinstance(value, dict):
        value = tuple(value.values())
    return sum(map(flat, value), ()) if isinstance(value, (tuple, list)) else (value,)


def assert_equal(a, b):
    assert len(flat(a)) == len(flat(b))
    for ours, theirs in zip(flat(a), flat(b)):
        if isinstance(theirs, rushlight.Tensor):
            assert ours.dtype == theirs.dtype and rushlight.equal(ours, theirs)
        else:
            assert ours == theirs


@every_program
def test_generated_code_computes_the_same(name):
    program, args = PROGRAMS[name]()
    traced = fx.symbolic_trace(program)
    traced.graph.lint()
    assert_equal(traced(*args), program(*args))
    assert_equal(fx.Interpreter(traced).run(*args), program(*args))
    assert_equal(fx.Transformer(traced).transform()(*args), program(*args))


@every_program
def test_copies_and_pickles(name):
    program, args = PROGRAMS[name]()
    traced = fx.symbolic_trace(program)
    deep = copy.deepcopy(traced)
    for again in (copy.deepcopy(traced), copy.copy(traced), pickle.loads(pickle.dumps(traced))):
        assert again.code == traced.code and str(again.graph) == str(traced.graph)
        assert type(again).__name__ == type(traced).__name__
        assert_equal(again(*args), traced(*args))
        assert again.graph.owning_module is again
    for p, q in zip(deep.parameters(), traced.parameters()):
        assert p is not q
    assert [n for n, _ in deep.named_parameters()] == [n for n, _ in traced.named_parameters()]


@every_program
def test_tracing_again(name):
    program, args = PROGRAMS[name]()
    once = fx.symbolic_trace(program)
    twice = fx.symbolic_trace(once)
    assert_equal(twice(*args), program(*args))
    assert len(twice.graph.nodes) == len(once.graph.nodes)


def test_tracing_leaves_nothing_behind():
    functions_before = dict(vars(F)), dict(vars(rushlight.linalg)), rushlight.einsum, math.sqrt
    call, attribute = nn.Module.__call__, nn.Module.__getattr__
    fx.symbolic_trace(ResNet())
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(lambda x: x if x else -x)
    assert functions_before == (vars(F), vars(rushlight.linalg), rushlight.einsum, math.sqrt)
    assert (nn.Module.__call__, nn.Module.__getattr__) == (call, attribute)
    assert globals()["max_pool2d"] is F.max_pool2d


def test_gradients_reach_the_parameters():
    model = PROGRAMS["mlp"]()[0]
    traced = fx.symbolic_trace(model)
    traced(rushlight.ones(1, 4)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())  # they are the same parameters


def test_code():
    def program(x: rushlight.Tensor, n: int = 3, *, scale=2.0) -> rushlight.Tensor:
        y = rushlight.relu(x).view(x.size(0), -1) + n
        return y.sum(dim=1) * scale

    traced = fx.symbolic_trace(program)
    assert traced.code.strip() == (
        "def forward(self, x : torch.Tensor, n : int = 3, scale = 2.0) -> torch.Tensor:\n"
        "    relu = torch.relu(x)\n"
        "    size = x.size(0);  x = None\n"
        "    view = relu.view(size, -1);  relu = size = None\n"
        "    add = view + n;  view = n = None\n"
        "    sum_1 = add.sum(dim = 1);  add = None\n"
        "    mul = sum_1 * scale;  sum_1 = scale = None\n"
        "    return mul"
    )
    assert traced(rushlight.ones(2, 2)).tolist() == [16.0, 16.0]


def test_arguments_with_stars():
    traced = fx.symbolic_trace(lambda x, *args, **kwargs: x + args[0] * kwargs["k"])
    assert traced(1, 2, k=5) == 11
    assert [n.target for n in traced.graph.find_nodes(op="placeholder")] == [
        "x",
        "*args",
        "**kwargs",
    ]


def test_concrete_args():
    def program(x, flag, mode=None):
        if flag:
            x = x + 1
        return x * 2 if mode is None else x

    traced = fx.symbolic_trace(program, concrete_args={"flag": True, "mode": None})
    assert traced(rushlight.tensor(1.0), True).item() == 4
    with pytest.raises(AssertionError, match="flag has been specialized to have value True"):
        traced(rushlight.tensor(1.0), False)
    with pytest.raises(ValueError, match="concrete_args names .'flat'"):
        fx.symbolic_trace(program, concrete_args={"flat": True})


def test_concrete_args_as_trees():
    def program(x, parts, scale=1):
        total = x * scale
        for name in sorted(parts["named"]):
            total = total + parts["named"][name]
        return {"total": total, "first": parts["listed"][0]}

    parts = {"named": {"a": fx.PH, "b": fx.PH}, "listed": [fx.PH, 3]}
    traced = fx.symbolic_trace(program, concrete_args={"parts": parts, "scale": 2})
    x, a, b, c = (rushlight.tensor(float(k)) for k in range(1, 5))
    given = {"named": {"a": a, "b": b}, "listed": [c, 3]}
    assert {k: v.item() for k, v in traced(x, given, 2).items()} == {"total": 7, "first": 4}
    assert traced.graph.process_outputs([1, 2]) == {"total": 1, "first": 2}
    names = [n.name for n in traced.graph.nodes if n.op == "placeholder"]
    assert names == ["x", "parts_1", "parts_2", "parts_3", "parts_4", "scale_1"]
    with pytest.raises(AssertionError, match="specialized to have value 3"):
        traced(x, {"named": {"a": a, "b": b}, "listed": [c, 4]}, 2)


def test_concrete_args_of_a_module_and_as_a_tuple():
    class Model(rushlight.nn.Module):
        def forward(self, pair, flag=True):
            return pair[0] - pair[1] if flag else pair[0]

    traced = fx.symbolic_trace(Model(), concrete_args=((fx.PH, fx.PH), True))
    assert traced((rushlight.tensor(5.0), rushlight.tensor(3.0)), True).item() == 2
    placed = type("Marked", (type(fx.PH),), {})()
    placed.note = "kept"
    graph = fx.Tracer().trace(Model(), {"pair": (placed, fx.PH), "flag": True})
    assert next(iter(graph.nodes)).note == "kept"
    with pytest.raises(RuntimeError, match="1 values for 2 arguments"):
        fx.Tracer().trace(Model(), (True,))
    with pytest.warns(UserWarning, match="Was not able to add assertion"):
        fx.symbolic_trace(Model(), concrete_args=((fx.PH, rushlight.tensor(1.0)), True))


def branch(x):
    if x.sum() > 0:  # the line
        return x
    return -x


def loop(x):
    return [row for row in x]  # the line


def number(x):
    return rushlight.zeros(3)[int(x.sum())]  # the line


@pytest.mark.parametrize("program", [branch, loop, number])
def test_errors_name_the_users_line(program):
    with pytest.raises(
        (ValueError, RuntimeError), match=f"(?s){program.__name__}.*test_fx.py.*the line"
    ):
        fx.symbolic_trace(program)
    with pytest.raises(RuntimeError, match="'len' is not supported"):
        fx.symbolic_trace(eval("lambda x: len(x)", {}))


def test_errors_of_generated_code_show_its_line():
    traced = fx.symbolic_trace(lambda x: x.view(7))
    with pytest.raises(RuntimeError) as info:
        traced(rushlight.ones(3))
    assert "view = x.view(7);  x = None" in "".join(traceback.format_exception(info.value))
    with pytest.raises(RuntimeError) as info:
        fx.Interpreter(traced).run(rushlight.ones(3))
    if hasattr(info.value, "__notes__"):
        assert "While executing %view" in info.value.__notes__[0]


def helper(x, n):
    return x * n if n > 1 else x


def decorated(x):
    raise AssertionError("not to be run while tracing")


fx.wrap("helper")
fx.wrap("len")
fx.wrap(decorated)


def test_wrapped_functions_are_recorded_as_calls():
    traced = fx.symbolic_trace(lambda x: helper(x, 2) + len(x))
    assert [n.target for n in traced.graph.find_nodes(op="call_function")][:2] == [helper, len]
    assert traced(rushlight.ones(3)).tolist() == [5.0] * 3
    assert helper(3, 2) == 6
    assert fx.symbolic_trace(lambda x: decorated(x)).graph.find_nodes(
        op="call_function", target=decorated
    )
    with pytest.raises(NotImplementedError, match="top level"):
        fx.wrap("abs")


def test_factories_take_traced_sizes():
    def program(x):
        places = rushlight.arange(x.shape[0], device=x.device)
        return rushlight.zeros(x.size(0), 2) + places[:, None] + rushlight.full((2,), x.shape[0])

    traced = fx.symbolic_trace(program)
    assert_equal(traced(rushlight.ones(3)), program(rushlight.ones(3)))
    assert_equal(traced(rushlight.ones(5)), program(rushlight.ones(5)))


def test_leaf_modules():
    class Leaves(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, Block) or super().is_leaf_module(m, module_qualified_name)

    model = ResNet().eval()
    graph = Leaves().trace(model)
    targets = [n.target for n in graph.find_nodes(op="call_module")]
    assert targets == ["stem", "layer1.0", "layer1.1", "layer2.0", "fc"]
    x = rushlight.randn(1, 3, 12, 12)
    assert_equal(fx.GraphModule(model, graph)(x), model(x))


def test_parameter_shapes_can_be_constant():
    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(rushlight.ones(2, 3))

        def forward(self, x):
            return x @ self.weight if self.weight.shape[0] == 2 else x

    graph = fx.Tracer(param_shapes_constant=True).trace(Branching())
    assert graph.find_nodes(op="call_function", target=operator.matmul)
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(Branching())


# ---- graphs --------------------------------------------------------------------------------------


def small_graph():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(rushlight.relu, (x,))
    z = graph.call_method("add", (y, 1))
    graph.output(z)
    return graph, x, y, z


def run(graph, *args):
    return fx.GraphModule({}, graph)(*args)


def test_nodes_know_their_neighbours():
    graph, x, y, z = small_graph()
    assert list(graph.nodes) == [x, y, z, graph.output_node()] and len(graph.nodes) == 4
    assert list(reversed(graph.nodes))[1:] == [z, y, x]
    assert (y.next, y.prev, list(x.users), z.all_input_nodes) == (z, x, [y], [y])
    assert str(graph).splitlines() == [
        "graph():",
        "    %x : [num_users=1] = placeholder[target=x]",
        "    %relu : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})",
        "    %add : [num_users=1] = call_method[target=add](args = (%relu, 1), kwargs = {})",
        "    return add",
    ]


def test_inserting_replacing_and_erasing():
    graph, x, y, z = small_graph()
    with graph.inserting_after(y):
        first = graph.call_function(rushlight.neg, (y,))
        second = graph.call_function(rushlight.abs, (first,))
    assert list(graph.nodes)[2:4] == [first, second]
    changed = y.replace_all_uses_with(second, delete_user_cb=lambda user: user is z)
    assert changed == [z] and z.args == (second, 1)
    assert run(graph, rushlight.tensor(2.0)).item() == 3
    with graph.inserting_before(x):
        graph.placeholder("w")
    assert [n.name for n in graph.nodes][:2] == ["w", "x"]
    with pytest.raises(RuntimeError, match="still had 1 users.*: neg"):
        graph.erase_node(y)
    z.replace_input_with(second, y)
    graph.erase_node(second)
    graph.erase_node(first)
    graph.lint()
    z.update_arg(1, 5)
    z.update_kwarg("alpha", 2)
    assert run(graph, None, rushlight.tensor(2.0)).item() == 12
    z.insert_arg(1, y)
    assert z.args == (y, y, 5)
    with pytest.raises(RuntimeError, match="another graph"):
        fx.Graph().call_function(rushlight.relu, (y,))
    with pytest.raises(NotImplementedError, match="node.args"):
        graph.call_function(rushlight.cat, ([x, y],)).args[0].append(z)


def test_erasing_while_iterating():
    graph, *_ = small_graph()
    graph.output_node().args = (0,)
    for node in reversed(graph.nodes):
        if node.op not in ("placeholder", "output"):
            graph.erase_node(node)
    assert [n.op for n in graph.nodes] == ["placeholder", "output"]


def test_dead_code_goes_and_effects_stay():
    def program(x):
        x * 2
        x.add_(1)
        y = x.clone()
        y[0] = 7
        rushlight._assert(x.shape[0] == 2, "two")
        return y

    traced = fx.symbolic_trace(program)
    assert traced.graph.eliminate_dead_code()
    assert not traced.graph.eliminate_dead_code()
    traced.recompile()
    assert "* 2" not in traced.code
    assert traced(rushlight.zeros(2)).tolist() == [7.0, 1.0]
    with pytest.raises(AssertionError, match="two"):
        traced(rushlight.zeros(3))


def test_lint_finds_faults():
    graph, x, y, z = small_graph()
    x.prepend(z)
    with pytest.raises(RuntimeError, match="add uses relu before it is defined"):
        graph.lint()
    traced = fx.symbolic_trace(nn.Sequential(nn.ReLU()))
    next(n for n in traced.graph.nodes if n.op == "call_module").target = "1"
    with pytest.raises(RuntimeError, match="'1' is not an attribute"):
        traced.graph.lint()


def test_copies_of_graphs():
    graph, x, *_ = small_graph()
    outer = fx.Graph()
    a = outer.placeholder("a")
    result = outer.graph_copy(graph, {x: a})
    outer.output(outer.graph_copy(graph, {x: result}))
    assert run(outer, rushlight.tensor(1.0)).item() == 3
    twin = copy.deepcopy(graph)
    twin.lint()
    assert str(twin) == str(graph) and not set(twin.nodes) & set(graph.nodes)


def test_names_are_unique_and_legal():
    graph = fx.Graph()
    x = graph.placeholder("max")
    names = [
        graph.call_function(f, (x,)).name for f in (rushlight.max, rushlight.sum, rushlight.sum)
    ]
    assert [x.name, *names] == ["max_1", "max_2", "sum_1", "sum_2"]
    assert graph.get_attr("layer1.0.weight").name == "layer1_0_weight"
    assert graph.create_node("call_function", rushlight.relu, (x,), name="class").name == "class_1"


def test_constants_in_code():
    value = (
        float("nan"),
        float("inf"),
        rushlight.float32,
        rushlight.Size([2]),
        slice(1, None),
        "a'b",
    )
    graph = fx.Graph()
    graph.output(graph.call_function(tuple, ([*value, rushlight.device("cpu"), ..., None],)))
    nan, *rest = run(graph)
    assert math.isnan(nan) and rest == [*value[1:], rushlight.device("cpu"), ..., None]


def test_table(capsys):
    small_graph()[0].print_tabular()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["opcode", "name", "target", "args", "kwargs"]
    assert lines[2].split() == ["placeholder", "x", "x", "()", "{}"] and len(lines) == 6


def test_transforming_the_lines_of_code():
    traced = fx.symbolic_trace(lambda x: x + 1)
    with traced.graph.on_generate_code(lambda _: lambda body: ["x = x * 10\n", *body]):
        traced.recompile()
    assert traced(1) == 11
    traced.recompile()
    assert traced(1) == 2


# ---- modules -------------------------------------------------------------------------------------


def test_submodules_can_be_added_and_dropped():
    traced = fx.symbolic_trace(ResNet().eval())
    traced.add_submodule("extra.inner", nn.Linear(1, 1))
    assert isinstance(traced.get_submodule("extra.inner"), nn.Linear)
    assert traced.delete_submodule("extra.inner") and not traced.delete_submodule("nowhere")
    traced.graph.output_node().args = (traced.graph.find_nodes(op="call_module")[0],)
    traced.graph.eliminate_dead_code()
    traced.delete_all_unused_submodules()
    traced.recompile()
    assert [n for n, _ in traced.named_modules()] == ["", "stem"]
    assert traced(rushlight.randn(1, 3, 5, 5)).shape == (1, 8, 3, 3)


def test_readable_code(capsys):
    traced = fx.symbolic_trace(nn.Sequential(nn.ReLU()))
    text = traced.print_readable()
    assert text.splitlines()[:2] == [
        "class Sequential(torch.nn.Module):",
        "    def forward(self, input):",
    ]
    assert capsys.readouterr().out == text + "\n"
    assert traced.code in str(traced)


def test_modules_from_a_dict():
    graph = fx.Graph()
    x = graph.placeholder("x")
    weight = graph.get_attr("inner.weight")
    graph.output(graph.call_module("act", (graph.call_function(operator.mul, (x, weight)),)))
    module = fx.GraphModule({"inner.weight": rushlight.tensor(-2.0), "act": nn.ReLU()}, graph)
    assert module(3).item() == 0 and module(-3).item() == 6
    assert list(module.state_dict()) == ["inner.weight"]
    with pytest.raises(RuntimeError, match="'inner.weight'"):
        fx.GraphModule({"act": nn.ReLU()}, graph)


def test_training_mode_and_state_follow_the_root():
    model = ResNet().eval()
    traced = fx.symbolic_trace(model)
    assert not traced.training and set(traced.state_dict()) == set(model.state_dict())


def test_a_folder(tmp_path, monkeypatch):
    traced = fx.symbolic_trace(functions)
    traced.to_folder(tmp_path / "written")
    monkeypatch.syspath_prepend(tmp_path)
    again = importlib.import_module("written").FxModule()
    x = rushlight.randn(3, 3)
    assert_equal(again(x, x), traced(x, x))


# ---- interpreters, passes, rewriting -------------------------------------------------------------


def test_interpreters_can_be_changed():
    class Counting(fx.Interpreter):
        calls = 0

        def call_function(self, target, args, kwargs):
            self.calls += 1
            return super().call_function(
                rushlight.neg if target is rushlight.relu else target, args, kwargs
            )

    interpreter = Counting(fx.GraphModule({}, small_graph()[0]))
    assert interpreter.run(rushlight.tensor(2.0)).item() == -1
    assert interpreter.calls == 1 and len(interpreter.env) == 1  # only the output is kept
    graph, x, y, _ = small_graph()
    known = fx.Interpreter(fx.GraphModule({}, graph)).run(
        None, initial_env={y: rushlight.tensor(5.0)}
    )
    assert known.item() == 6
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x"):
        fx.Interpreter(fx.GraphModule({}, graph)).run()


def test_transformers_make_modules():
    class Gelu(fx.Transformer):
        def call_module(self, target, args, kwargs):
            if isinstance(self.submodules[target], nn.ReLU):
                return F.gelu(*args)
            return super().call_module(target, args, kwargs)

    model, (x,) = PROGRAMS["mlp"]()
    traced = Gelu(fx.symbolic_trace(model)).transform()
    assert_equal(traced(x), model[2](F.gelu(model[0](x))))


def test_shapes_are_noted():
    traced = fx.symbolic_trace(ResNet().eval())
    ShapeProp(traced).propagate(rushlight.randn(2, 3, 12, 12))
    shapes = {n.name: tuple(n.meta["tensor_meta"].shape) for n in traced.graph.nodes}
    assert shapes["stem"] == (2, 8, 10, 10) and shapes["output"] == (2, 5)
    meta = traced.graph.find_nodes(op="placeholder")[0].meta["tensor_meta"]
    assert meta.dtype == rushlight.float32 and meta.stride == (432, 144, 12, 1)
    assert not meta.requires_grad and meta.memory_format == rushlight.contiguous_format
    assert "# float32[2, 8, 10, 10]" in traced.print_readable(print_output=False)


def test_patterns_are_replaced():
    def program(x, w1, w2):
        a = rushlight.relu(x @ w1 + 1)
        return rushlight.relu(a @ w2 + 1) - rushlight.relu(x)

    traced = fx.symbolic_trace(program)
    matches = fx.replace_pattern(
        traced,
        lambda a, b: rushlight.relu(a @ b + 1),
        lambda a, b: rushlight.addmm(rushlight.ones(1), a, b).clamp(min=0),
    )
    called = [n.target for n in traced.graph.find_nodes(op="call_function")]
    assert len(matches) == 2 == called.count(rushlight.addmm) and called.count(rushlight.relu) == 1
    assert len(matches[0].nodes_map) == 5
    args = rushlight.randn(3, 3), rushlight.randn(3, 3), rushlight.randn(3, 3)
    rushlight.testing.assert_close(traced(*args), program(*args))
    traced.graph.lint()


def test_a_pattern_that_is_used_elsewhere_or_differs_does_not_match():
    def program(x):
        y = rushlight.relu(x)
        return rushlight.neg(y) + y + rushlight.sum(x, dim=1)

    traced = fx.symbolic_trace(program)
    assert not fx.replace_pattern(
        traced, lambda x: rushlight.neg(rushlight.relu(x)), lambda x: x + 0
    )
    assert not fx.replace_pattern(traced, lambda x: rushlight.sum(x, dim=0), lambda x: x + 0)
    loose = fx.subgraph_rewriter.replace_pattern_with_filters(
        traced, lambda x: rushlight.sum(x, dim=0), lambda x: x + 0, ignore_literals=True
    )
    assert [n.name for n in loose[0].replacements] == ["add_2"]
    never = fx.subgraph_rewriter.replace_pattern_with_filters(
        traced, lambda x: rushlight.relu(x), lambda x: x, match_filters=[lambda *_: False]
    )
    assert never == []


def test_patterns_with_several_outputs_and_modules():
    class Pattern(nn.Module):
        def forward(self, x):
            return rushlight.sin(x), rushlight.cos(x)

    class Replacement(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Linear(1, 1, bias=False)
            nn.init.constant_(self.scale.weight, 2.0)

        def forward(self, x):
            return self.scale(x), x

    traced = fx.symbolic_trace(lambda x: rushlight.sin(x) - rushlight.cos(x))
    assert len(fx.replace_pattern(traced, Pattern(), Replacement())) == 1
    assert traced(rushlight.tensor([3.0])).item() == 3
    assert "scale" in dict(traced.named_modules())


def test_what_is_before_the_first_node_and_after_the_last_is_the_root():
    nodes = list(fx.symbolic_trace(lambda x: x + 1).graph.nodes)
    root = nodes[-1].next
    assert root is nodes[0].prev and (root.op, root.target, root.args) == ("root", "", ())
    assert root.next is nodes[0] and root.prev is nodes[-1]


def test_a_module_prints_its_code_as_it_is():
    module = fx.symbolic_trace(nn.Sequential(nn.ReLU()))
    text = str(module)
    assert text.startswith(f"Sequential(\n  (0): ReLU()\n)\n{module.code}\n# To see more")


# ---- against torch -------------------------------------------------------------------------------


@pytest.mark.torch
def test_graphs_print_as_in_torch():
    torch = pytest.importorskip("torch")
    importlib.import_module("torch.fx")

    def program(lib):
        class Model(lib.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = lib.nn.Sequential(lib.nn.Linear(4, 8), lib.nn.ReLU())
                self.weight = lib.nn.Parameter(lib.ones(8, 8))

            def forward(self, x, *rest, flag: bool, scale=2.0):
                y = self.layers(x) @ self.weight.t()
                if flag:
                    y += lib.ones(8)
                a, b = y.chunk(2, -1)
                z = lib.cat([a, b.relu()], dim=-1) ** 2 / (1 - y.shape[0])
                return {
                    "z": -z[:, 1:],
                    "m": lib.max(z),
                    "s": z.sum((0, 1)),
                    "n": z.view(x.size(0), -1),
                }

        return lib.fx.symbolic_trace(Model(), concrete_args={"flag": True})

    ours, theirs = program(rushlight), program(torch)
    assert str(ours.graph) == str(theirs.graph)
    assert ours.code == theirs.code


@pytest.mark.parametrize("operands", [0, 1, 3])
def test_operators_with_another_count_of_operands_are_called(operands):
    """As Python does: an error that says so, not the first two of three."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(operator.add, (x,) * operands))
    module = fx.GraphModule(rushlight.nn.Module(), graph)
    with pytest.raises(TypeError, match=f"expected 2 arguments, got {operands}"):
        module(1)


def test_side_effects_are_functions():
    with pytest.raises(TypeError, match="has_side_effect: expected a function, got Tensor"):
        fx.has_side_effect(rushlight.ones(2))


def test_tracers_that_patch_by_themselves():
    """As a library does that records the calls of a class whose `__call__` is its own."""
    import rushlight.fx._symbolic_trace as tracing

    class Own(fx.Tracer):
        def trace(self, root, concrete_args=None):
            self.root, self.graph = root, fx.Graph(tracer_cls=type(self))
            function = type(root).forward
            names = function.__globals__
            function, args = self.create_args_for_root(function, True, concrete_args)

            def call(module, *args, **kwargs):
                return self.call_module(module, None, args, kwargs)

            cache = {}

            def attribute(module, name):
                return self.getattr(name, tracing._orig_module_getattr(module, name), cache)

            with tracing._Patcher() as patcher:
                for replaced in (call, call):
                    patcher.patch_method(nn.Module, "__call__", replaced, deduplicate=False)
                patcher.patch_method(nn.Module, "__getattr__", attribute)
                tracing._patch_wrapped_functions(patcher)
                tracing._autowrap_check(patcher, names, self._autowrap_function_ids)
                self.create_node("output", "output", (self.create_arg(function(*args)),), {})
            return self.graph

    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.scale = nn.Linear(2, 2), nn.Parameter(rushlight.ones(2))

        def forward(self, x):
            return self.layer(x) * self.scale

    module = Small()
    graph = Own().trace(module)
    assert [n.op for n in graph.nodes] == [
        "placeholder", "call_module", "get_attr", "call_function", "output"
    ]  # fmt: skip
    assert nn.Module.__call__ is tracing._orig_module_call
    x = rushlight.ones(1, 2)
    assert fx.GraphModule(module, graph)(x).equal(module(x))


def test_sizes_that_are_traced_in_lists_of_numbers():
    def padded(x):
        return F.pad(rushlight.ones(2, 2), (0, x.size(0)))

    traced = fx.symbolic_trace(padded)
    assert traced(rushlight.ones(3)).shape == (2, 5)


def test_a_tracer_may_have_a_create_proxy_of_its_own():
    class Names(fx.Tracer):
        def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None):
            return super().create_proxy(kind, target, args, kwargs, name, type_expr)

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(rushlight.ones(2))

        def forward(self, x):
            return x * self.scale

    for constant in (False, True):
        module = Scaled()
        graph = Names(param_shapes_constant=constant).trace(module)
        assert "get_attr" in {node.op for node in graph.nodes}


def test_nodes_that_ask_for_sizes():
    graph = fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = rushlight.ones(2, 3).t()
    asked = (
        graph.create_size_node(x, 0), graph.create_stride_node(x, 0),
        graph.create_storage_offset_node(x),
    )  # fmt: skip
    graph.output(asked)
    assert [node.meta["val"] for node in asked] == [3, 1, 0]
    made = fx.GraphModule(nn.Module(), graph)
    assert made(rushlight.ones(9)[2:].view(7, 1)) == (7, 1, 2)
    assert rushlight.ops.aten.sym_numel(rushlight.ones(2, 3)) == 6
    assert graph.materialize_symints([2, 3]) == [2, 3] and graph.materialize_symint(4) == 4
    with pytest.raises(TypeError, match="expected an int, got str"):
        graph.materialize_symint("s0")


def test_arguments_of_nodes_by_their_names():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 3)))
    call = next(node for node in traced.graph.nodes if node.op == "call_module")
    found = call.normalized_arguments(traced, normalize_to_only_use_kwargs=True)
    assert found.args == () and list(found.kwargs) == ["input"]
    traced = fx.symbolic_trace(lambda x: F.relu(x))
    call = next(node for node in traced.graph.nodes if node.op == "call_function")
    found = call.normalized_arguments(traced, normalize_to_only_use_kwargs=True)
    assert list(found.kwargs) == ["input", "inplace"] and found.kwargs["inplace"] is False
    assert next(iter(traced.graph.nodes)).normalized_arguments(traced) is None


def test_assertions_become_nodes():
    class Asserting(fx.Tracer):
        trace_asserts = True

    names = {}  # pytest writes the assertions of this file in another way
    exec(
        "def checked(x):\n"
        "    assert x.sum() > 0, 'too small'\n"
        "    assert x.max() < 9\n"
        "    return x\n",
        names,
    )
    checked = names["checked"]
    made = fx.GraphModule(nn.Module(), Asserting().trace(checked))
    assert made(rushlight.ones(2)).tolist() == [1, 1]
    with pytest.raises(AssertionError, match="too small"):
        made(-rushlight.ones(2))
    with pytest.raises(AssertionError):
        made(9 * rushlight.ones(2))

    def branches(x):
        return x if x.sum() > 0 else -x

    for tracer in (Asserting(), fx.Tracer()):
        with pytest.raises(fx.proxy.TraceError, match="control flow"):
            tracer.trace(branches)
    with pytest.raises(fx.proxy.TraceError, match="control flow"):
        fx.Tracer().trace(checked)


# ---- what may stand among arguments, and what must not be lost


class Kind(enum.Enum):
    DOUBLE = 2


@dataclasses.dataclass
class Pair:
    first: rushlight.Tensor
    second: rushlight.Tensor


class Scaled:
    def __init__(self, x, factor):
        self.x, self.factor = x, factor

    def __fx_create_arg__(self, tracer):
        args = (tracer.create_arg(self.x), tracer.create_arg(self.factor))
        return tracer.create_node("call_function", Scaled, args, {})


@fx.wrap
def by_kind(x, kind):
    return x * kind.value


class Unscale(nn.Module):
    def forward(self, scaled):
        return scaled.x / scaled.factor


class Rescaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.unscale = Unscale()

    def forward(self, x):
        return self.unscale(Scaled(x, 2))


class LeavesUnscale(fx.Tracer):
    def is_leaf_module(self, m, qualname):
        return type(m) is Unscale


@fx.wrap
def twice(x):
    return x * 2


def test_enums_dataclasses_and_objects_that_say_how_are_arguments():
    x = rushlight.tensor([1.0, 3.0])
    assert fx.symbolic_trace(lambda x: by_kind(x, Kind.DOUBLE))(x).tolist() == [2, 6]
    made = fx.symbolic_trace(lambda x: Pair(first=x + x, second=x * 3))(x)
    assert isinstance(made, Pair) and made.second.tolist() == [3, 9]
    model = Rescaled()
    traced = fx.GraphModule(model, LeavesUnscale().trace(model))
    assert "Scaled(" in traced.code and traced(x).tolist() == [0.5, 1.5]


def test_operations_of_torch_ops_take_proxies():
    aten = rushlight.ops.aten
    traced = fx.symbolic_trace(lambda x: aten.mul.Tensor(aten.relu(x), x))
    targets = [n.target for n in traced.graph.nodes if n.op == "call_function"]
    assert targets == [aten.relu, aten.mul.Tensor]
    assert traced(rushlight.tensor([-2.0, 3.0])).tolist() == [0, 9]


def test_what_is_called_for_its_effect_is_not_dead_code():
    graph, aten = fx.Graph(), rushlight.ops.aten
    x = graph.placeholder("x")
    graph.call_function(aten.add.Tensor, (x, 1))
    graph.call_function(aten.add_.Tensor, (x, 1))
    graph.call_function(rushlight.ops.profiler._record_function_enter_new, ("range",))
    graph.output(x)
    graph.eliminate_dead_code()
    kept = [getattr(n.target, "__name__", n.target) for n in graph.nodes]
    assert kept == ["x", "add_.Tensor", "_record_function_enter_new", "output"]


def test_wrapped_functions_stay_calls_when_a_graph_is_traced_again():
    again = fx.symbolic_trace(fx.symbolic_trace(lambda x: twice(x) + 1))
    assert "twice" in again.code and again(3) == 7


def test_nodes_that_cannot_be():
    graph = fx.Graph()
    for create in (lambda: graph.call_function(3), lambda: graph.call_method(3),
                   lambda: graph.placeholder(3), lambda: graph.create_node("call", "x"),
                   lambda: graph.call_function(rushlight.relu, 3),
                   lambda: graph.call_function(rushlight.relu, [3]),
                   lambda: graph.call_function(rushlight.relu, (), [1])):  # fmt: skip
        with pytest.raises(AssertionError, match="^create_node: "):
            create()
    with pytest.raises(ValueError, match="must be callable, got str"):
        graph.call_function("relu")
    assert not graph.nodes


def test_operators_are_listed_as_they_are_written():
    assert fx.graph.magic_methods["getitem"].format("x", 1) == "x[1]"
    assert fx.graph.inplace_methods["iadd"].format("x", "y") == "x += y"
    assert fx.graph.reflectable_magic_methods["matmul"].format("x", "y") == "x @ y"
    assert "eq" not in fx.graph.reflectable_magic_methods


def test_code_wraps_what_it_calls():
    """So that it is recorded as a call again, wherever the code is traced."""
    traced = fx.symbolic_trace(lambda x: twice(x) + len(x))
    names = [f"{twice.__module__}_twice", "len"]
    lines = [f'torch.fx._symbolic_trace.wrap("{name}")' for name in names]
    for module in (traced, copy.deepcopy(traced), pickle.loads(pickle.dumps(traced)),
                   fx.symbolic_trace(traced),
                   fx.symbolic_trace(rushlight.nn.Sequential(traced))):  # fmt: skip
        assert module.code.splitlines()[1:3] == lines
        called = module.graph.find_nodes(op="call_function")
        assert [n.target for n in called[:2]] == [twice, len] and called[0].meta["is_wrapped"]
    call = traced.graph.find_nodes(op="call_function", target=twice)[0]
    call.op, call.target, call.args = "call_method", "neg", call.args
    assert traced.graph.python_code("self").src.splitlines()[1] == lines[1]
    wrapped = set(fx._symbolic_trace._wrapped_fns_to_patch)
    del module, called, call
    assert wrapped == set(fx._symbolic_trace._wrapped_fns_to_patch)  # no code is kept


def test_lists_and_dicts_of_nodes_are_trees():
    values = fx.immutable_collections.immutable_list([3, [4, 5]])
    leaves, shape = pytree.tree_flatten(values)
    assert leaves == [3, 4, 5] and pytree.tree_unflatten(leaves, shape) == values
    assert type(pytree.tree_map(lambda v: v, values)) is type(values)
    values = fx.immutable_collections.immutable_dict(a=1, b=[2])
    assert pytree.tree_map(lambda v: v + 1, values) == {"a": 2, "b": [3]}
    found, _ = pytree.tree_flatten_with_path(values)
    assert [pytree.keystr(path) for path, _ in found] == ["['a']", "['b'][0]"]


def test_a_module_that_holds_itself_is_copied_and_replicated():
    module = fx.symbolic_trace(lambda x: x + 1)
    module.meta["self"] = module
    again = copy.deepcopy(module)
    assert again.meta["self"] is again and again(1) == 2
    assert module._replicate_for_data_parallel()(1) == 2
    del module.meta["self"], again.meta["self"]


def test_transformers_keep_notes_and_annotations_may_be_types_of_tensors():
    tracer = fx.Tracer()
    module = fx.GraphModule(nn.Module(), tracer.trace(lambda x: x + 1))
    node = next(n for n in module.graph.nodes if n.op == "call_function")
    node.meta["nn_module_stack"] = {"": "here"}
    made = fx.Transformer(module).transform()
    node = next(n for n in made.graph.nodes if n.op == "call_function")
    assert node.meta["nn_module_stack"] == {"": "here"}
    node.type = TensorType((2, 3))
    made.recompile()
    assert made(1) == 2


def test_a_tracer_says_which_function_is_missing():
    tracer = fx.Tracer()
    tracer.traced_func_name = "backwards"
    with pytest.raises(AssertionError, match="traced_func_name=backwards doesn't exist in Linear"):
        tracer.trace(nn.Linear(2, 2))


def test_code_generators_write_outputs_by_repr():
    class Listed(fx.CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation):
            return f"def forward(self, given):\n    {', '.join(free_vars)}, = given"

        def process_inputs(self, *inputs):
            return inputs[0]

        def generate_output(self, output_args):
            return f"return list({repr(output_args)})"

        def process_outputs(self, outputs):
            return list(outputs)

    traced = fx.symbolic_trace(lambda a, b: (a + b, a - b))
    traced.graph.set_codegen(Listed())
    traced.recompile()
    given = [rushlight.tensor(3.0), rushlight.tensor(1.0)]
    assert [v.item() for v in traced(given)] == [4, 2]
    assert [v.item() for v in fx.Interpreter(traced).run(given)] == [4, 2]


def test_functions_of_trees_are_traced_again():
    def program(x):
        return {"sum": x["a"] + x["b"][0]}

    tree = {"a": fx.PH, "b": [fx.PH]}
    once = fx.symbolic_trace(program, concrete_args={"x": tree})
    given = {"a": rushlight.tensor(2.0), "b": [rushlight.tensor(3.0)]}
    again = fx.symbolic_trace(once, concrete_args={"x": tree})
    for traced in (once, again, fx.symbolic_trace(once)):
        assert traced(given)["sum"].item() == 5


def test_concrete_args_of_stars_alone():
    class Model(rushlight.nn.Module):
        def forward(self, *args, **kwargs):
            return args[0] - args[1]

    traced = fx.symbolic_trace(Model(), concrete_args=(fx.PH, fx.PH))
    assert traced(rushlight.tensor(5.0), rushlight.tensor(2.0)).item() == 3


def test_scripts_are_leaves():
    class Model(rushlight.nn.Module):
        def __init__(self):
            super().__init__()
            self.script = rushlight.jit.script(rushlight.nn.Sequential(rushlight.nn.Linear(2, 3)))

        def forward(self, x):
            return self.script(x) + 1

    model, x = Model(), rushlight.ones(1, 2)
    traced = fx.symbolic_trace(model)
    assert [n.op for n in traced.graph.nodes][1] == "call_module"
    assert traced(x).equal(model(x))


def test_rewriting_drops_modules_that_nothing_calls():
    class Model(rushlight.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = rushlight.nn.Sigmoid(), rushlight.nn.ReLU()

        def forward(self, x):
            return self.second(self.first(x))

    class Pattern(Model):
        def forward(self, x):
            return self.first(x)

    traced = fx.symbolic_trace(Model())
    assert len(fx.replace_pattern(traced, Pattern(), rushlight.nn.Tanh())) == 1
    assert not hasattr(traced, "first") and traced(rushlight.tensor(-1.0)).item() == 0


def test_signatures_with_arguments_named_by_keywords():
    from rushlight.fx.operator_schemas import get_signature_for_torch_op

    found = [s.parameters for s in get_signature_for_torch_op(rushlight.Tensor.random_)]
    (kinds,) = [[p.kind.name for p in ps.values()] for ps in found if "from" in ps]
    assert kinds == ["POSITIONAL_ONLY", "POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY"]


def test_what_is_folded_keeps_the_notes_of_nodes():
    from rushlight.fx.experimental.const_fold import split_const_subgraphs

    class Model(rushlight.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = rushlight.nn.Parameter(rushlight.ones(2))

        def forward(self, x):
            return x - (self.w + self.w)

    traced = fx.symbolic_trace(Model())
    for index, node in enumerate(traced.graph.nodes):
        node.meta["index"] = index
    folded = split_const_subgraphs(traced)
    notes = {n.op: n.meta.get("index") for n in folded.graph.nodes if n.op != "output"}
    assert notes == {"placeholder": 0, "get_attr": 2, "call_function": 3}
    assert folded(rushlight.zeros(2)).tolist() == [-2, -2]


def test_parts_of_a_profile_are_recorded_in_graphs():
    graph = fx.Graph()
    tracer = fx.proxy.GraphAppendingTracer(graph)
    node = graph.call_function(rushlight.ops.profiler._record_function_enter, ("part",))
    handle = fx.Proxy(node, tracer)
    rushlight.ops.profiler._record_function_exit(handle)
    assert [n.target.__name__ for n in graph.nodes] == [
        "_record_function_enter", "_record_function_exit"
    ]  # fmt: skip
    graph.output(None)
    fx.GraphModule(nn.Module(), graph)()
