"""Passes over graphs: cutting, matching, fusing, folding, and what they note."""

import copy
import operator
import pickle

import pytest

import rushlight as torch
from rushlight import fx, nn
from rushlight.fx import traceback
from rushlight.fx.experimental import (
    const_fold,
    merge_matmul,
    meta_tracer,
    normalize,
    optimization,
    proxy_tensor,
    symbolic_shapes,
    unification as U,
)
from rushlight.fx.graph_module import reduce_graph_module
from rushlight.fx.operator_schemas import normalize_function, normalize_module, type_matches
from rushlight.fx.passes import graph_manipulation, param_fetch, pass_manager, split_utils
from rushlight.fx.passes.fake_tensor_prop import FakeTensorProp
from rushlight.fx.passes.graph_drawer import FxGraphDrawer
from rushlight.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from rushlight.fx.passes.infra.pass_base import PassBase, PassResult
from rushlight.fx.passes.infra.pass_manager import (
    PassManager,
    pass_result_wrapper,
    this_before_that_pass_constraint,
)
from rushlight.fx.passes.operator_support import OperatorSupport, create_op_support
from rushlight.fx.passes.reinplace import reinplace
from rushlight.fx.passes.shape_prop import ShapeProp
from rushlight.fx.passes.split_module import split_module
from rushlight.fx.passes.splitter_base import _SplitterBase, _SplitterSettingBase
from rushlight.fx.passes.tools_common import legalize_graph, stable_topological_sort
from rushlight.fx.passes.utils import compare_graphs
from rushlight.fx.passes.utils.matcher_utils import SubgraphMatcher
from rushlight.fx.passes.utils.source_matcher_utils import get_source_partitions


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(4))
        self.first, self.rest = nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 2))

    def forward(self, x, y):
        z = self.first(x * self.scale)
        return self.rest(z + y).sum(1), z


def inputs():
    return torch.rand(3, 4), torch.rand(3, 4)


def assert_same(module, other, args):
    for a, b in zip(module(*args), other(*args), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("original_order", [False, True])
def test_split_module(original_order):
    net, names = Net(), {}
    traced = fx.symbolic_trace(net)
    places = {node: i for i, node in enumerate(traced.graph.nodes)}
    split = split_module(
        traced, net, lambda n: places[n] // 4, names, keep_original_order=original_order
    )
    assert [name for name, _ in split.named_children()] == ["submod_0", "submod_1", "submod_2"]
    kept = {"first": "first", "rest_0": "rest.0", "rest_1": "rest.1"}
    assert names == {f"submod_1.{new}": old for new, old in kept.items()}
    assert split.submod_1.first.weight is net.first.weight
    assert_same(split, net, inputs())


def test_split_module_options():
    traced = fx.symbolic_trace(lambda x: x.relu().sum())
    split = split_module(
        traced, None, lambda n: int(n.target == "sum"), keep_original_input_name=False,
        partition_affix="pp", tuple_return=True,
    )  # fmt: skip
    assert [name for name, _ in split.named_children()] == ["submod_pp_0", "submod_pp_1"]
    assert [n.name for n in split.submod_pp_1.graph.nodes][0] == "arg_0"
    assert split.submod_pp_1.graph.output_node().args[0].__class__ is tuple
    assert float(split(torch.tensor([-1.0, 2.0]))) == 2.0
    with pytest.raises(RuntimeError, match="cycle"):
        parts = iter([0, 1, 0])
        chain = fx.symbolic_trace(lambda x: x.relu().sum().neg())
        known = {n: next(parts) for n in chain.graph.nodes if n.op == "call_method"}
        split_module(chain, None, known.__getitem__)


def test_split_with_autocast():
    graph = fx.Graph()
    x = graph.placeholder("x")
    mode = graph.call_function(torch.amp._enter_autocast, ("cpu", torch.bfloat16, True, None))
    y = graph.call_function(torch.matmul, (x, x))
    z = graph.call_function(torch.matmul, (y, x))
    graph.call_function(torch.amp._exit_autocast, (mode,))
    graph.output(z)
    module = fx.GraphModule(nn.Module(), graph)
    split = split_module(module, None, lambda n: int(n is z or n.name.startswith("_exit")))
    assert split(torch.ones(2, 2)).dtype is torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")


def test_split_by_tags():
    net = Net()
    traced = fx.symbolic_trace(net)
    for place, node in enumerate(traced.graph.nodes):
        node.tag = "a" if place < 5 else "b"
    split, names = split_utils.split_by_tags(traced, ["a", "b"], return_fqn_mapping=True)
    assert names["rest.1"] == "b.rest.1" and names["scale"] == "a.scale"
    assert_same(split, net, inputs())
    with pytest.raises(AssertionError, match="later tag"):
        split_utils.split_by_tags(traced, ["b", "a"])
    assert split_utils.getattr_recursive(net, "rest.1.weight") is net.rest[1].weight
    assert split_utils.getattr_recursive(net, "rest.7") is None


def calls_of(*names):
    known = OperatorSupport(dict.fromkeys(names))
    return create_op_support(
        lambda modules, n: n.op == "call_function" and known.is_node_supported(modules, n)
    )


def test_partitions():
    def f(a, b):
        x = torch.relu(a + b)
        return torch.sigmoid(x) + a, torch.relu(x + b)

    traced = fx.symbolic_trace(f)
    partitioner = CapabilityBasedPartitioner(traced, calls_of("_operator.add", "torch.relu"))
    found = partitioner.propose_partitions()
    assert [[n.name for n in p.nodes] for p in found] == [
        ["add_1", "add_2", "relu_1"], ["add", "relu"],
    ]  # fmt: skip
    fused = partitioner.fuse_partitions(found)
    calls = [n.target for n in fused.graph.nodes if n.op == "call_module"]
    assert calls == ["fused_1", "fused_0"]
    assert_same(fused, f, (torch.rand(3), torch.rand(3)))


def test_a_partition_is_not_called_before_and_after_another():
    def f(a):
        x = torch.relu(a)
        return torch.relu(torch.sigmoid(x)) + x

    partitioner = CapabilityBasedPartitioner(
        fx.symbolic_trace(f), calls_of("torch.relu", "_operator.add"), True
    )
    assert len(partitioner.propose_partitions()) == 2
    fused = partitioner.partition_and_fuse()
    torch.testing.assert_close(fused(torch.rand(3)).shape, torch.Size([3]))


def test_dtypes_of_operator_support():
    traced = fx.symbolic_trace(lambda x: torch.relu(x))
    ShapeProp(traced).propagate(torch.ones(2))
    node = list(traced.graph.nodes)[1]
    for dtype, supported in ((torch.float32, True), (torch.int8, False)):
        support = OperatorSupport({"torch.relu": (([dtype],), {})})
        assert support.is_node_supported({}, node) is supported


def test_splitter():
    def f(a):
        b = torch.sin(a) + torch.cos(a)
        return torch.sin(torch.relu(b))

    splitter = _SplitterBase(
        fx.symbolic_trace(f), [torch.ones(2)], OperatorSupport({"torch.sin": None,
        "torch.cos": None}), _SplitterSettingBase(),
    )  # fmt: skip
    result = splitter.generate_split_results()
    names = [name for name, _ in result.split_module.named_children()]
    assert names == ["_run_on_acc_0", "_run_on_cpu_1", "_run_on_acc_2"]
    assert list(result.submodule_inputs) == names
    torch.testing.assert_close(result.split_module(torch.ones(2)), f(torch.ones(2)))


def test_orders():
    for sort in (legalize_graph, stable_topological_sort):
        traced = fx.symbolic_trace(lambda x: (x + 1).relu())
        nodes = list(traced.graph.nodes)
        nodes[0].append(nodes[2])  # before what it uses
        assert float(sort(traced)(torch.tensor(1.0))) == 2.0
        nodes = list(traced.graph.nodes)
        nodes[1].args = (nodes[2], 1)
        with pytest.raises((RuntimeError, AssertionError), match="cycles"):
            sort(traced)


def test_matcher():
    def f(x, w):
        a = torch.relu(x) + 1
        return a, torch.relu(a) + 2, torch.cat([x, w])

    graph = fx.symbolic_trace(f).graph

    def found(pattern, **options):
        matcher = SubgraphMatcher(fx.symbolic_trace(pattern).graph, **options)
        return [[str(n) for n in match.returning_nodes] for match in matcher.match(graph)]

    assert found(lambda x: torch.relu(x) + 1) == [["add"]]
    assert found(lambda x: torch.relu(x) + 1, ignore_literals=True) == [["add"], ["add_1"]]
    assert found(lambda a, b: torch.cat([a, b])) == [["cat"]]
    assert found(lambda x: torch.relu(torch.relu(x) + 1) + 2) == []  # the first sum is returned
    with pytest.raises(ValueError, match="empty"):
        SubgraphMatcher(fx.Graph())
    assert compare_graphs(graph, fx.symbolic_trace(f).graph)
    assert not compare_graphs(graph, fx.symbolic_trace(lambda x, w: x).graph)


def test_a_graph_finds_attributes_of_a_module_that_is_gone():
    graph = fx.symbolic_trace(Net()).graph
    assert compare_graphs(graph, fx.symbolic_trace(Net()).graph)
    assert graph.owning_module.get_submodule("rest.1").in_features == 4


def test_source_partitions():
    traced = proxy_tensor.make_fx(lambda x: x.relu() + 1)(torch.ones(2))
    relu, add = traced.graph.find_nodes(op="call_function")
    relu.meta["source_fn_stack"] = [("act", nn.ReLU)]
    add.meta["nn_module_stack"] = {"l": ("l", "rushlight.nn.modules.linear.Linear")}
    found = get_source_partitions(traced.graph, [nn.ReLU, nn.Linear])
    assert found[nn.ReLU][0].output_nodes == [relu] and found[nn.Linear][0].nodes == [add]


def test_pass_managers():
    class Sigmoid(PassBase):
        def call(self, graph_module):
            changed = False
            for node in graph_module.graph.find_nodes(op="call_function", target=torch.relu):
                node.target, changed = torch.sigmoid, True
            return PassResult(graph_module, changed)

    result = PassManager([Sigmoid()], steps=3)(fx.symbolic_trace(lambda x: torch.relu(x)))
    assert result.modified and float(result.graph_module(torch.tensor(0.0))) == 0.5

    def first(module):
        return module

    def second(module):
        return None

    manager = PassManager(list(map(pass_result_wrapper, (second, first))))
    a, b = manager.passes
    manager.add_constraint(this_before_that_pass_constraint(b, a))
    with pytest.raises(RuntimeError, match="constraint violated"):
        manager.validate_constraints()
    manager.solve_constraints()
    assert manager.passes == [b, a]
    with pytest.raises(Exception, match="'first' pass after the following passes"):
        PassManager([first])(nn.Linear(1, 1))
    assert pass_manager.PassManager([pass_manager.loop_pass(lambda x: x + 1, 3)])(1) == 4
    with pytest.raises(AssertionError, match="Exactly one"):
        pass_manager.loop_pass(first)


def test_const_fold():
    class Folded(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.full((2,), 3.0))

        def forward(self, x):
            return x * (self.a + self.b), self.a - self.b

    folded = const_fold.split_const_subgraphs(Folded())
    assert not folded.has_folding_been_run
    assert_same(folded, Folded(), (torch.rand(2),))
    assert folded.has_folding_been_run
    assert [n.target for n in folded.graph.nodes if n.op == "call_function"].count(
        operator.add
    ) == 0
    with pytest.raises(AssertionError, match="already"):
        folded.run_folding()


def test_optimization():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(), nn.ReLU()).eval()
    model[1].running_mean.fill_(0.5)
    x = torch.rand(1, 1, 4, 4)
    fast = optimization.optimize_for_inference(model)
    kinds = [type(m).__name__ for m in fast.modules()][1:]
    assert "BatchNorm2d" not in kinds and "Dropout" not in kinds
    torch.testing.assert_close(fast(x), model(x))
    with pytest.raises(NotImplementedError, match="MKL-DNN"):
        optimization.optimize_for_inference(model, {"mkldnn_layout_optimize": {"heuristic": len}})
    with pytest.raises(NotImplementedError, match="MKL-DNN"):
        optimization.gen_mkl_autotuner([x])


def test_normalize():
    with pytest.raises(RuntimeError, match="ambiguous"):  # of paddings
        normalize_function(nn.functional.conv2d, (1, 2), normalize_to_only_use_kwargs=True)
    types = (torch.Tensor, torch.Tensor, torch.Tensor, int, int)
    found = normalize_function(nn.functional.conv2d, (1, 2, None, 1, 0), arg_types=types,
                               normalize_to_only_use_kwargs=True)  # fmt: skip
    assert found.kwargs == {"input": 1, "weight": 2, "bias": None, "stride": 1, "padding": 0,
                            "dilation": [1, 1], "groups": 1}  # fmt: skip
    assert normalize_function(torch.relu, (1,)) == ((1,), {})
    assert normalize_function(torch.ops.aten.flatten.using_ints, (1, 2)).kwargs == {"end_dim": -1}
    assert normalize_function(torch.relu, (1, 2, 3)) is None
    assert normalize_module(Net(), "first", (1,), normalize_to_only_use_kwargs=True).kwargs == {
        "input": 1
    }
    assert type_matches(list[int], tuple[int, int]) and not type_matches(str, int)
    traced = fx.symbolic_trace(lambda x, y: torch.flatten(torch.add(x, y)))
    plain = normalize.NormalizeOperators(normalize.NormalizeArgs(traced).transform()).transform()
    assert list(plain.graph.nodes)[3].kwargs["end_dim"] == -1
    assert float(plain(torch.ones(1), torch.ones(1))) == 2.0


def test_mutable_operations_are_refused_where_asked():
    tracer = fx.Tracer()
    tracer.check_mutable_operations = True
    with pytest.raises(RuntimeError, match="mutable operation"):
        tracer.trace(lambda x: torch.relu_(x))


def test_nodes_know_their_modules():
    tracer, net = fx.Tracer(), Net()
    graph = tracer.trace(net)
    stacks = {n.name: list(n.meta.get("nn_module_stack", ())) for n in graph.nodes}
    assert stacks["rest_1"] == ["rest", "rest.1"] and stacks["add"] == []
    assert tracer.node_name_to_scope["first"] == ("first", nn.Linear)


def test_notes_go_to_new_nodes():
    traced = fx.symbolic_trace(lambda x: x.relu())
    for node in traced.graph.nodes:
        node.meta["custom"] = {"tag": node.name}
    with traceback.preserve_node_meta():
        new = fx.Transformer(traced).transform()
    relu = list(new.graph.nodes)[1]
    assert relu.meta["custom"] == {"tag": "relu"}
    (source,) = relu.meta["from_node"]
    assert (source.name, source.pass_name) == ("relu", "Interpreter_Transformer")
    assert traceback.NodeSource._from_dict(source.to_dict()) == source
    with traceback.annotate({"a": 1}):
        assert traceback.get_current_meta()["custom"] == {"a": 1}
    assert "custom" not in traceback.get_current_meta()


def test_graph_modules_tell_of_changes():
    traced, told = fx.symbolic_trace(lambda x: x.relu()), []
    traced._register_create_node_hook(lambda node: told.append(f"+{node}"))
    traced._register_erase_node_hook(lambda node: told.append(f"-{node}"))
    traced._register_replace_node_hook(lambda old, new, user: told.append(f"{old}->{new}"))
    relu = list(traced.graph.nodes)[1]
    with traced.graph.inserting_after(relu):
        new = traced.graph.call_function(torch.sigmoid, relu.args)
    relu.replace_all_uses_with(new)
    traced.graph.erase_node(relu)
    assert told == ["+sigmoid", "relu->sigmoid", "-relu"]
    assert not pickle.loads(pickle.dumps(traced))._create_node_hooks
    assert copy.deepcopy(traced)._create_node_hooks


def test_modules_from_their_code():
    body = fx.symbolic_trace(nn.Linear(2, 1))
    state = {**vars(body)}
    made = reduce_graph_module({**state, "_code": body.code}, "import rushlight as torch\n")
    torch.testing.assert_close(made(torch.ones(1, 2)), body(torch.ones(1, 2)))


def test_reinplace():
    def found(f):
        gm = reinplace(proxy_tensor.make_fx(f)(torch.ones(2, 2)), torch.ones(2, 2))
        torch.testing.assert_close(gm(torch.ones(2, 2)), f(torch.ones(2, 2)))
        return [n.target._opname for n in gm.graph.find_nodes(op="call_function")]

    assert found(lambda x: x.cos().add(1).relu()) == ["cos", "add_", "relu_"]
    assert found(lambda x: x.add(1)) == ["add"]  # an input
    assert found(lambda x: (lambda y: y.add(1) + y)(x.cos())) == ["cos", "add", "add_"]
    assert found(lambda x: x.cos().ge(0)) == ["cos", "ge"]  # another dtype


def test_values_without_data():
    traced = fx.symbolic_trace(Net())
    FakeTensorProp(traced).propagate(*inputs())
    shapes = {n.name: n.meta["val"].shape for n in traced.graph.nodes if n.op != "output"}
    assert shapes["rest_1"] == (3, 2) and traced.first.weight.device.type == "cpu"
    with pytest.raises(NotImplementedError, match="fake modes"):
        FakeTensorProp(traced, object())


def test_sizes_and_attributes_of_nodes():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    graph_manipulation.get_size_of_all_nodes(traced, [torch.ones(4, 2)])
    assert [n.size_bytes for n in traced.graph.nodes if n.op == "call_module"] == [
        (48, 84), (48, 48),
    ]  # fmt: skip
    param_fetch.lift_lowering_attrs_to_nodes(traced)
    assert list(traced.graph.nodes)[1].attrs_for_lowering["bias"] is traced.get_submodule("0").bias
    with pytest.raises(RuntimeError, match="module_fetch_book"):
        param_fetch.extract_attrs_for_lowering(nn.GELU())


def test_meta_tracer():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 4)

        def forward(self, x):
            y = self.linear(x)
            return y.view(y.size(0), -1) if y.shape[1] == 4 else y

    module = Branches()
    traced = meta_tracer.symbolic_trace(module, {"x": torch.ones(2, 3, device="meta")})
    torch.testing.assert_close(traced(torch.ones(2, 3)), module(torch.ones(2, 3)))


def test_proxies_with_values():
    graph = fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.ones(2, 3, device="meta")
    proxy = torch.relu(fx.proxy.MetaProxy(x, fake_mode=torch.device("meta")))
    assert isinstance(proxy, fx.proxy.MetaProxy) and proxy.node.meta["val"].shape == (2, 3)
    assert proxy.node.meta["val"].is_meta


def test_merge_matmul():
    class Products(nn.Module):
        def __init__(self):
            super().__init__()
            self.right = nn.Parameter(torch.rand(3, 2))

        def forward(self, a, b):
            return torch.matmul(a, self.right), torch.matmul(b, self.right)

    module = Products()
    merged = merge_matmul.merge_matmul(module)
    assert len(merged.graph.find_nodes(op="call_function", target=torch.matmul)) == 1
    assert_same(merged, module, (torch.rand(2, 3), torch.rand(4, 3)))


def test_selective_decomposition():
    silu = torch.ops.aten.silu.default
    traced = proxy_tensor.make_fx(lambda x: nn.functional.silu(nn.functional.silu(x)))(
        torch.ones(2)
    )
    first = traced.graph.find_nodes(op="call_function", target=silu)[0]
    some = proxy_tensor.selective_decompose(
        traced, torch.ones(2), decomposition={silu: lambda x: x * x.sigmoid()},
        should_decompose=lambda node: node is first, trace_joint_graph=False,
    )  # fmt: skip
    names = [n.target._opname for n in some.graph.find_nodes(op="call_function")]
    assert names == ["sigmoid", "mul", "silu"]
    graph = fx.Graph()
    proxy_tensor.DecompositionInterpreter(some, graph).run(torch.ones(2))
    assert fx.GraphModule(some, graph)(torch.zeros(2)).tolist() == [0.0, 0.0]


def test_unification():
    x, y = U.var()("x"), U.var()("y")
    assert U.unify((1, x, [3, y]), (1, 2, [3, 4])) == {x: 2, y: 4}
    assert U.unify((1, 2), (1, 3)) is False
    assert U.reify({1: (x, y)}, {x: y, y: 5}) == {1: (5, 5)}
    with U.variables("q"):
        assert U.unify("q", 1) == {"q": 1}


def test_sizes_are_numbers():
    assert symbolic_shapes.guard_int(3) == symbolic_shapes.hint_int(3) == 3
    assert symbolic_shapes.free_symbols(torch.ones(2)) == set()
    assert symbolic_shapes.create_contiguous([2, 3, 4]) == [12, 4, 1]
    with pytest.raises(NotImplementedError, match="symbolic_shapes.ShapeEnv: there is no"):
        symbolic_shapes.ShapeEnv()


def test_drawing_needs_pydot():
    traced = fx.symbolic_trace(Net())
    try:
        import pydot  # noqa: F401
    except ModuleNotFoundError:
        with pytest.raises(RuntimeError, match="pydot"):
            FxGraphDrawer(traced, "net")
        return
    picture = FxGraphDrawer(traced, "net").get_dot_graph()
    assert "op_code=call_module" in picture.to_string()


def test_one_number_for_all_dims_is_a_list():
    op = torch.ops.aten.max_pool2d_with_indices.default

    def pattern(x, kernel_size, stride):
        return op(x, kernel_size, stride, padding=[0, 0])

    class Model(nn.Module):
        def forward(self, x):
            return op(x, [2, 2], stride=[2, 2])

    traced = torch.fx.symbolic_trace(Model())
    assert len(torch.fx.replace_pattern(traced, pattern, pattern)) == 1
    defaults = {a.name: a.default_value for a in op._schema.arguments if a.has_default_value()}
    assert defaults["padding"] == [0, 0] and defaults["dilation"] == [1, 1]
    assert "padding=0" in str(op._schema)
