"""torch.onnx: the same values by onnxruntime, and by the module that is read back."""

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from test_export import GPT, Block, LeNet, ResNet  # noqa: E402

import rushlight as torch  # noqa: E402
from rushlight import nn  # noqa: E402
from rushlight.export import Dim  # noqa: E402
from rushlight.utils._pytree import tree_leaves  # noqa: E402

F = nn.functional


class Operators(nn.Module):
    def forward(self, x):
        y = x[:, 1:3] * 2 + x.mean(1, keepdim=True)
        return (
            1 - x, 2**x, -x, x / 3, x > 0.7, torch.where(x > 0.7, x, 0.0), x.sum(), x.amax(0),
            F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.leaky_relu(x), F.elu(x),
            F.hardswish(x - 1), F.hardsigmoid(x), x.clamp(0.6, 0.9), x.T, y.unsqueeze(0).squeeze(0),
            torch.cat([x, y], 1), torch.stack([x, x], 1), x.argmax(1), x[0], x[:, -1], x[..., None],
            x.softmax(1), x.log_softmax(0), torch.tril(x), x.flatten(), x.reshape(-1, 2), x.sin(),
            x.double() + 1, x.chunk(2), F.pad(x, (1, 2)), x.topk(2)[0], x.cumsum(1), x.rsqrt(),
            torch.zeros(2, 3) + x.new_ones(3), torch.arange(3), x.expand(2, 4, 4), x @ x.t(),
            x.sqrt(), x[torch.tensor([1, 0])], x.masked_fill(x > 1, -1.0),
        )  # fmt: skip


def mlp():
    return nn.Sequential(
        nn.Linear(4, 8), nn.ReLU(True), nn.LayerNorm(8), nn.Dropout(), nn.Linear(8, 2)
    )


NETS = {
    "lenet": (LeNet, (3, 1, 28, 28), {0: Dim("n")}, (7, 1, 28, 28)),
    "resnet": (ResNet, (2, 3, 32, 32), {0: Dim("n")}, (5, 3, 32, 32)),
    "block": (lambda: Block(4), (1, 4, 8, 8), None, None),
    "mlp": (mlp, (3, 4), {0: Dim("n")}, (5, 4)),
    "operators": (Operators, (4, 4), None, None),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 5, 8), None, None,
    ),
}  # fmt: skip


def close(got, want):
    got, want = tree_leaves(got), tree_leaves(want)
    assert len(got) == len(want)
    for a, b in zip(got, want):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", NETS)
def test_same_values_by_onnxruntime_and_read_back(name, tmp_path):
    make, shape, dims, other = NETS[name]
    net = make().eval()
    x = torch.rand(shape) + 0.5
    path = tmp_path / "model.onnx"
    program = torch.onnx.export(net, (x,), path, dynamic_shapes=[dims], verify=True)
    module = torch.onnx.load(path)
    for inputs in (x, None if other is None else torch.rand(other) + 0.5):
        if inputs is not None:
            close(program(inputs), net(inputs))
            close(module(inputs), net(inputs))


def test_gpt(tmp_path):
    net = GPT().eval()
    i = torch.randint(0, 50, (2, 8))
    program = torch.onnx.export(net, (i,), dynamic_shapes=[{0: Dim("b"), 1: Dim("t", max=64)}])
    module = torch.onnx.load(program.model_proto)
    for tokens in (i, torch.randint(0, 50, (3, 20))):
        close(program(tokens), net(tokens))
        close(module(tokens), net(tokens))


def test_names_and_axes(tmp_path):
    program = torch.onnx.export(
        mlp().eval(), torch.ones(3, 4), tmp_path / "m.onnx", input_names=["x"],
        output_names=["y"], dynamic_axes={"x": {0: "batch"}},
    )  # fmt: skip
    graph = program.model_proto.graph
    assert [i.name for i in graph.input] == ["x"] and [o.name for o in graph.output] == ["y"]
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert {i.name for i in graph.initializer} >= {"0.weight", "4.bias"}
    trained = torch.onnx.load(tmp_path / "m.onnx")
    trained(torch.ones(2, 4)).sum().backward()
    assert all(p.grad is not None for n, p in trained.named_parameters() if "weight" in n)


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (lambda x: torch.linalg.svd(x)[0], r"linalg_svd has no operator .*test_onnx.py"),
        (lambda x: F.dropout(x), "dropout of training"),
        (lambda x: x.clone().index_fill_(0, torch.tensor([0]), 1), "no operator"),
    ],
)
def test_what_has_no_operator_is_named(forward, message):
    class Net(nn.Module):
        pass

    Net.forward = lambda self, x: forward(x)
    with pytest.raises(torch.onnx.OnnxExporterError, match=message):
        torch.onnx.export(Net(), (torch.rand(3, 3),))


def test_changes_in_place_that_others_see_are_refused():
    class Net(nn.Module):
        def forward(self, x):
            x = x + 1
            row = x[0]
            x.mul_(2)
            return row

    with pytest.raises(torch.onnx.OnnxExporterError, match="in place, which"):
        torch.onnx.export(Net(), (torch.rand(3, 3),))


def exported():
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).eval()
    x = torch.rand(5, 3)
    return net, x, torch.onnx.export(net, (x,), dynamic_shapes=[{0: Dim("batch")}])


def test_a_program_by_the_reference_implementation_and_on_the_way():
    net, x, program = exported()
    (found,) = program.call_reference(x)
    torch.testing.assert_close(found, net(x))
    nodes = program.model_proto.graph.node
    hidden = next(node.output[0] for node in nodes if node.op_type == "Tanh")
    (found,) = program.compute_values([hidden], (x,))
    torch.testing.assert_close(found, net[1](net[0](x)))
    with pytest.raises(ValueError, match="'nothing' not found"):
        program.compute_values(["nothing"], (x,))
    torch.testing.assert_close(program(x)[0], net(x))  # its outputs are what they were


def test_weights_of_a_program_are_replaced():
    net, x, program = exported()
    before = program(x)[0]
    names = [w.name for w in program.model_proto.graph.initializer]
    bias = next(name for name in names if name.endswith("2.bias"))
    program.apply_weights({bias: net[2].bias + 1})
    torch.testing.assert_close(program(x)[0], before + 1)
    with pytest.warns(UserWarning, match="Weight 'other' not found"):
        program.apply_weights({"other": torch.ones(1)})


def test_sessions_of_a_program():
    _, x, program = exported()
    made = []

    def initializer(model):
        made.append(model)
        return torch.onnx._program.session_of(model)

    program.initialize_inference_session(initializer)
    first = program(x)[0]
    program.release()
    assert (program(x)[0] == first).all() and len(made) == 1  # then another one was made


def test_axes_are_renamed():
    _, _, program = exported()
    (size, _) = program.model_proto.graph.input[0].type.tensor_type.shape.dim
    assert size.dim_param == "batch"
    program.rename_axes({"batch": "samples"})
    assert size.dim_param == "samples"


def test_optimize_leaves_out_what_nothing_needs():
    import onnx

    net, x, program = exported()
    graph = program.model_proto.graph
    graph.node.append(onnx.helper.make_node("Relu", [graph.input[0].name], ["unused"]))
    twin = graph.initializer.add()
    twin.CopyFrom(graph.initializer[0])
    twin.name = "unused.weight"
    program.optimize()
    assert "unused" not in {name for node in graph.node for name in node.output}
    assert "unused.weight" not in {w.name for w in graph.initializer}
    torch.testing.assert_close(program(x)[0], net(x))


def test_where_weights_are_saved(tmp_path):
    import onnx

    net, x, program = exported()
    count = len(program.model_proto.graph.initializer)
    program.save(tmp_path / "bare.onnx", include_initializers=False)
    assert not onnx.load(tmp_path / "bare.onnx").graph.initializer
    program.save(tmp_path / "inputs.onnx", keep_initializers_as_inputs=True)
    assert len(onnx.load(tmp_path / "inputs.onnx").graph.input) == count + 1
    for _ in range(2):
        program.save(tmp_path / "apart.onnx", external_data=True)
    assert (tmp_path / "apart.onnx.data").stat().st_size == 4 * (3 * 4 + 4 + 4 * 2 + 2)
    torch.testing.assert_close(torch.onnx.load(tmp_path / "apart.onnx")(x), net(x))


def test_modules_that_say_how_they_are_exported():
    class Scaled(torch.onnx.ExportableModule):
        def forward(self, x, *, by):
            return x * by

        def example_arguments(self):
            return (torch.ones(2, 3),), {"by": torch.ones(3)}

        def dynamic_shapes(self):
            return {"x": {0: Dim("rows")}, "by": None}

        def input_names(self):
            return ["values", "factors"]

        def output_names(self):
            return ["scaled"]

    program = Scaled().to_onnx()
    graph = program.model_proto.graph
    assert [v.name for v in (*graph.input, *graph.output)] == ["values", "factors", "scaled"]
    (found,) = program(torch.ones(5, 3), by=torch.tensor([1.0, 2.0, 3.0]))
    assert found.tolist() == [[1, 2, 3]] * 5
    named = torch.onnx.export(Scaled(), output_names=["other"])
    assert named.model_proto.graph.output[0].name == "other"
    with pytest.raises(TypeError, match="example_arguments"):
        torch.onnx.ExportableModule()


def test_an_observer_compares_the_model_with_what_it_saw():
    net, _, _ = exported()
    observer = torch.onnx.InputObserver()
    with observer(net):
        for rows in (2, 5):
            net(torch.rand(rows, 3))
    program = torch.onnx.export(
        net, observer.infer_arguments(), dynamic_shapes=observer.infer_dynamic_shapes()
    )
    lines = observer.check_discrepancies(program)
    assert [line["SUCCESS"] for line in lines] == [True, True] and lines[1]["n_inputs"] == 1
    bias = next(w.name for w in program.model_proto.graph.initializer if "2.bias" in w.name)
    program.apply_weights({bias: net[2].bias + 1})
    assert not observer.check_discrepancies(program)[0]["SUCCESS"]
