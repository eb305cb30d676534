"""Graphs as TorchScript's tracer writes them, which libraries that count operations read."""

import pytest

import rushlight as rl
from rushlight import nn


class Scoped:
    """Hooks that tell the trace which modules are being called."""

    def __init__(self, model):
        for name, part in model.named_modules():
            part.register_forward_pre_hook(lambda *_, name=name: self.push(name))
            part.register_forward_hook(lambda *_: self.pop())

    def push(self, name):
        rl._C._get_tracing_state().push_scope(name)

    def pop(self):
        rl._C._get_tracing_state().pop_scope()


def network():
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(2),
        nn.Upsample(scale_factor=2), nn.Flatten(), nn.Linear(32, 4), nn.LayerNorm(4),
    )  # fmt: skip


def calls(graph):
    return [node for node in graph.nodes() if node.kind() not in ("prim::Constant", "aten::add_")]


def test_operations_sizes_and_modules():
    model, x = network(), rl.randn(2, 1, 6, 6)
    assert rl._C._get_tracing_state() is None
    expected = model.eval()(x)
    Scoped(model)
    graph, result = rl.jit._get_trace_graph(model, (x,))
    assert rl._C._get_tracing_state() is None
    assert rl.equal(result, expected)
    found = [(n.kind(), n.scopeName(), n.output().type().sizes()) for n in calls(graph)]
    assert found == [
        ("aten::_convolution", "/0", [2, 2, 4, 4]), ("aten::batch_norm", "/1", [2, 2, 4, 4]),
        ("aten::relu_", "/2", [2, 2, 4, 4]), ("aten::adaptive_avg_pool2d", "/3", [2, 2, 2, 2]),
        ("aten::upsample_nearest2d", "/4", [2, 2, 4, 4]), ("aten::flatten", "/5", [2, 32]),
        ("aten::linear", "/6", [2, 4]), ("aten::layer_norm", "/7", [2, 4]),
    ]  # fmt: skip
    assert len(list(graph.inputs())) == 1 + 8 + 3
    convolution, *_ = calls(graph)
    image, weight, _, stride, *_ = convolution.inputs()
    assert image.isCompleteTensor() and weight.type().sizes() == [2, 1, 3, 3]
    assert stride.toIValue() == [1, 1] and not stride.isCompleteTensor()
    assert image.node().kind() == "prim::Param" and image.toIValue() is None
    assert list(graph.outputs())[0].type().kind() == "TensorType"
    assert "%input_1 : Float(2, 1, 6, 6)" in str(graph)
    assert graph.findAllNodes("aten::linear")[0].output().type().scalarType() == "Float"


def test_lists_parts_and_values():
    def function(x):
        first, second = x.chunk(2)
        if x.sum() > 0:  # a trace follows what this run does
            first = first * second.sum().item()
        values, places = rl.cat([first, second]).max(dim=1)
        return rl.einsum("i,i->", values, places.float())

    with pytest.warns(rl.jit.TracerWarning):
        graph, _ = rl.jit._get_trace_graph(function, rl.ones(4, 3))
    kinds = [node.kind() for node in calls(graph)]
    assert [kind for kind in kinds if kind not in ("aten::sum", "aten::gt")] == [
        "aten::chunk", "prim::ListUnpack", "prim::ListUnpack", "aten::mul", "prim::ListConstruct",
        "aten::cat", "aten::max", "aten::to", "prim::ListConstruct", "aten::einsum",
    ]  # fmt: skip
    (most,) = graph.findAllNodes("aten::max")
    assert [value.type().scalarType() for value in most.outputs()] == ["Float", "Long"]
    equation, operands = graph.findAllNodes("aten::einsum")[0].inputs()
    assert equation.toIValue() == "i,i->" and operands.node().inputsSize() == 2
    assert operands.type().kind() == "ListType"


def test_the_graph_of_a_traced_module_can_be_read_so_too():
    traced = rl.jit.trace(nn.Linear(3, 2), rl.ones(1, 3))
    (linear,) = (node for node in traced.graph.nodes() if node.kind() == "aten::linear")
    assert linear.output().type().sizes() == [1, 2]
    with pytest.raises(NotImplementedError, match="strict"):
        rl.jit._get_trace_graph(nn.Linear(3, 2), rl.ones(1, 3), strict=False)


@pytest.mark.torch
def test_operations_of_torch():
    torch = pytest.importorskip("torch")
    model = [
        torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.AdaptiveMaxPool2d(2), torch.nn.GELU(),
        torch.nn.ConvTranspose2d(2, 1, 2), torch.nn.Flatten(), torch.nn.Linear(9, 4),
        torch.nn.Softmax(1), torch.nn.Dropout(),
    ]  # fmt: skip
    theirs, _ = torch.jit._get_trace_graph(torch.nn.Sequential(*model), torch.ones(1, 1, 6, 6))
    ours = nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(2), nn.GELU(),
        nn.ConvTranspose2d(2, 1, 2), nn.Flatten(), nn.Linear(9, 4), nn.Softmax(1), nn.Dropout(),
    )  # fmt: skip
    graph, _ = rl.jit._get_trace_graph(ours, rl.ones(1, 1, 6, 6))
    described = [
        [(n.kind(), n.inputsSize(), [o.type().sizes() for o in n.outputs()]) for n in g.nodes()
         if n.kind().startswith("aten::")] for g in (theirs, graph)
    ]  # fmt: skip
    assert described[0] == described[1]
