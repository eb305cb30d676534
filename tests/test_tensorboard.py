"""SummaryWriter: what it writes, the tensorboard library reads."""

import io
import struct
import zlib

import numpy as np
import pytest

import rushlight

pytest.importorskip("tensorboard")
pytestmark = pytest.mark.filterwarnings("ignore")  # the library's own

from rushlight.utils.tensorboard import SummaryWriter  # noqa: E402


def events(folder):
    """All events in the files of a folder."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    for path in sorted(folder.glob("events*")):
        for raw in RawEventFileLoader(str(path)).Load():
            yield Event.FromString(raw)


def values(folder):
    """(tag, step, value) of all summaries in the files of a folder."""
    for event in events(folder):
        yield from ((v.tag, event.step, v) for v in event.summary.value)


def test_scalars(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for step in range(3):
            writer.add_scalar("loss", rushlight.tensor(0.5**step), step)
        writer.add_scalar("bf16", rushlight.tensor(2.0, dtype=rushlight.bfloat16), 7)
        with pytest.raises(ValueError, match="expected one number"):
            writer.add_scalar("loss", rushlight.zeros(2))
    found = [(tag, step, v.simple_value) for tag, step, v in values(tmp_path)]
    assert found == [("loss", 0, 1.0), ("loss", 1, 0.5), ("loss", 2, 0.25), ("bf16", 7, 2.0)]


def test_scalars_as_tensors(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("single", 0.1, new_style=True)
        writer.add_scalar("double", 0.1, new_style=True, double_precision=True)
    (single, _, first), (double, _, second) = values(tmp_path)
    assert (single, double) == ("single", "double")
    assert first.tensor.float_val[0] == pytest.approx(0.1)
    assert list(second.tensor.double_val) == [0.1]
    assert first.metadata.plugin_data.plugin_name == "scalars"


def test_scalars_of_one_chart_have_files_of_their_own(tmp_path):
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_scalars("loss", {"train": 1.0, "test": 2.0}, 5)
    assert [(t, s, v.simple_value) for t, s, v in values(tmp_path / "loss_train")] == [
        ("loss", 5, 1.0)
    ]
    assert [(t, s, v.simple_value) for t, s, v in values(tmp_path / "loss_test")] == [
        ("loss", 5, 2.0)
    ]


@pytest.mark.parametrize("bins", ["tensorflow", "auto", 10])
def test_histogram(tmp_path, bins):
    data = rushlight.randn(1000)
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("weights", data, 1, bins=bins)
        writer.add_histogram("few", data, 1, bins=bins, max_bins=4)
    (_, _, whole), (_, _, few) = values(tmp_path)
    histo = whole.histo
    assert sum(histo.bucket) == histo.num == 1000 and len(histo.bucket) == len(histo.bucket_limit)
    assert histo.min == data.min().item() and histo.sum == pytest.approx(data.double().sum().item())
    at = 3
    if at < len(histo.bucket_limit):
        limit = histo.bucket_limit[at]
        assert sum(histo.bucket[: at + 1]) == pytest.approx((data < limit).sum().item(), abs=1)
    assert len(few.histo.bucket) <= 5 and sum(few.histo.bucket) == 1000


def pixels(encoded):
    """(height, width, channels) bytes of a PNG file whose rows are not filtered."""
    assert encoded[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, _, colour = struct.unpack(">IIBB", encoded[16:26])
    at, data = 8, b""
    while at < len(encoded):
        size, kind = struct.unpack(">I4s", encoded[at : at + 8])
        body = encoded[at + 8 : at + 8 + size]
        assert struct.unpack(">I", encoded[at + 8 + size : at + 12 + size])[0] == zlib.crc32(
            kind + body
        )
        data += body if kind == b"IDAT" else b""
        at += 12 + size
    channels = {0: 1, 2: 3, 6: 4}[colour]
    rows = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + width * channels)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, channels)


def test_images(tmp_path):
    image = (rushlight.arange(3 * 4 * 5) % 7).reshape(3, 4, 5).to(rushlight.uint8)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("bytes", image)
        writer.add_image("floats", image[0] / 255, dataformats="HW")
        writer.add_images("several", image[None].expand(9, 3, 4, 5))
        with pytest.raises(ValueError, match="dataformats 'CHW' do not fit"):
            writer.add_image("bad", image[0])
    found = {tag: pixels(v.image.encoded_image_string) for tag, _, v in values(tmp_path)}
    assert (found["bytes"] == image.permute(1, 2, 0).numpy()).all()
    assert np.abs(found["floats"][:, :, 0].astype(int) - image[0].numpy()).max() <= 1
    assert found["several"].shape == (8, 40, 3)
    assert (found["several"][4:, :5] == image.permute(1, 2, 0).numpy()).all()
    assert not found["several"][4:, 5:].any()


def test_text_hyperparameters_curves_and_embeddings(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_text("note", "**hello**", 1)
        writer.add_audio("sound", rushlight.zeros(100), 1, sample_rate=8000)
        writer.add_pr_curve(
            "curve", rushlight.tensor([0, 1, 1, 0]), rushlight.tensor([0.1, 0.9, 0.6, 0.4]), 1
        )
        writer.add_custom_scalars({"loss": {"both": ["Multiline", ["loss/train", "loss/test"]]}})
        writer.add_hparams({"lr": 0.1, "name": "sgd"}, {"accuracy": 0.9}, run_name="run")
        writer.add_embedding(rushlight.rand(3, 2), ["a", "b", "c"], global_step=2)
    found = {tag: v for tag, _, v in values(tmp_path)}
    assert found["note/text_summary"].tensor.string_val[0] == b"**hello**"
    assert found["sound"].audio.sample_rate == 8000
    curve = np.array(found["curve"].tensor.float_val).reshape(6, -1)
    assert curve[:, 0].tolist() == [2, 2, 0, 0, 0.5, 1.0] and curve[4, 70] == 1.0
    assert "custom_scalars__config__" in found
    run = {tag: v for tag, _, v in values(tmp_path / "run")}
    assert run["accuracy"].simple_value == pytest.approx(0.9)
    assert {"_hparams_/experiment", "_hparams_/session_start_info"} <= set(run)
    assert (tmp_path / "00002" / "default" / "metadata.tsv").read_text().split() == ["a", "b", "c"]
    assert "default:00002" in (tmp_path / "projector_config.pbtxt").read_text()


def graphs(folder):
    """The GraphDefs in the files of a folder."""
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    return [GraphDef.FromString(e.graph_def) for e in events(folder) if e.graph_def]


class Net(rushlight.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = rushlight.nn.Sequential(rushlight.nn.Conv2d(1, 4, 3), rushlight.nn.ReLU())
        self.last = rushlight.nn.Linear(4, 2)
        self.register_buffer("shift", rushlight.ones(2))

    def forward(self, x, as_dict=False):
        best, place = self.body(x).mean((2, 3)).max(1)
        y = self.last(self.body(x).mean((2, 3))) + self.shift + best[:, None]
        return {"y": y} if as_dict else (y, place)


def test_graph_of_a_model(tmp_path, capsys):
    net = Net()
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(net, rushlight.randn(1, 1, 8, 8), verbose=True)
        with pytest.raises(RuntimeError, match="add_graph: the model returns a dict"):
            writer.add_graph(net, (rushlight.randn(1, 1, 8, 8), True))
    assert "aten::linear" in capsys.readouterr().out
    assert not net._forward_hooks and not net.body[0]._forward_pre_hooks
    (graph,) = graphs(tmp_path)
    nodes = {node.name: node for node in graph.node}
    assert len(nodes) == len(graph.node)
    kinds = {node.name: node.op for node in graph.node}
    assert kinds["input/x"] == "IO Node" and kinds["Net/shift"] == "Parameter"
    (linear,) = (node for node in graph.node if node.op == "aten::linear")
    assert linear.name.startswith("Net/Linear[last]/linear_")
    assert list(linear.input)[1:] == ["Net/Linear[last]/weight", "Net/Linear[last]/bias"]
    shape = linear.attr["_output_shapes"].list.shape[0]
    assert [dim.size for dim in shape.dim] == [1, 2]
    convolutions = [node for node in graph.node if node.op == "aten::_convolution"]
    scopes = [node.name.rpartition("/")[0] for node in convolutions]
    assert scopes == ["Net/Sequential[body]/Conv2d[0]"] * 2
    known = set(nodes) | {f"{node.name}:1" for node in graph.node}
    assert all(set(node.input) <= known for node in graph.node)
    assert nodes["output/output_1"].input[0].endswith(":1")  # the place of the maximum


def test_graph_of_an_onnx_file(tmp_path):
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    described = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2]) for n in "xyz"]
    graph = helper.make_graph(
        [helper.make_node("Split", ["x"], ["a", "b"], axis=0),
         helper.make_node("Add", ["a", "w"], ["y"]), helper.make_node("Relu", ["b"], ["z"])],
        "parts", described[:1], described[1:],
        [helper.make_tensor("w", onnx.TensorProto.FLOAT, [1], [1.0])],
    )  # fmt: skip
    onnx.save(helper.make_model(graph), tmp_path / "parts.onnx")
    with SummaryWriter(tmp_path) as writer:
        writer.add_onnx_graph(str(tmp_path / "parts.onnx"))
    (found,) = graphs(tmp_path)
    edges = {node.name: list(node.input) for node in found.node}
    assert edges == {"w": [], "x": [], "a": ["x"], "y": ["a", "w"], "z": ["a:1"],
                     "output/y": ["y"], "output/z": ["z"]}  # fmt: skip


def test_videos(tmp_path):
    image = pytest.importorskip("PIL.Image")
    video = rushlight.zeros(3, 5, 3, 4, 6)
    video[1, 2:] = 1.0
    with SummaryWriter(tmp_path) as writer:
        writer.add_video("clip", video, 3, fps=10)
        writer.add_video("grey", (video[:1, :, :1] * 255).byte())
        with pytest.raises(ValueError, match="add_video: expected videos"):
            writer.add_video("flat", video[0])
    found = {tag: (step, v.image) for tag, step, v in values(tmp_path)}
    step, message = found["clip"]
    assert step == 3 and (message.height, message.width, message.colorspace) == (8, 12, 3)
    gif = image.open(io.BytesIO(message.encoded_image_string))
    assert gif.n_frames == 2 and gif.info["duration"] == 200  # equal frames become one
    gif.seek(1)
    pixels = np.asarray(gif.convert("RGB"))
    assert (pixels[:4, 6:] == 255).all() and not pixels[4:].any() and not pixels[:4, :6].any()
    assert found["grey"][1].width == 6


def test_boxes_on_pictures(tmp_path):
    pytest.importorskip("PIL")
    picture = rushlight.zeros(3, 20, 30)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image_with_boxes("found", picture, rushlight.tensor([[4, 5, 20, 15]]), 1)
        writer.add_image_with_boxes("half", picture, rushlight.zeros(0, 4), rescale=0.5)
        writer.add_image_with_boxes("named", picture, [[1, 1, 9, 9]], labels="a")
        with pytest.raises(ValueError, match="2 labels for 1 boxes"):
            writer.add_image_with_boxes("bad", picture, [[1, 1, 9, 9]], labels=["a", "b"])
        with pytest.raises(ValueError, match="expected boxes"):
            writer.add_image_with_boxes("bad", picture, [1, 1, 9, 9])
    found = {tag: pixels(v.image.encoded_image_string) for tag, _, v in values(tmp_path)}
    red = (found["found"] == [255, 0, 0]).all(-1)
    assert red[5, 4:21].all() and red[5:16, 20].all() and not red[8:12, 8:16].any()
    assert found["half"].shape == (10, 15, 3) and not found["half"].any()
    assert (found["named"] == [255, 0, 0]).all(-1).sum() > 0


def test_meshes(tmp_path):
    points, faces = rushlight.rand(2, 4, 3), rushlight.zeros(2, 1, 3, dtype=rushlight.int32)
    with SummaryWriter(tmp_path) as writer:
        writer.add_mesh("body", points, points * 255, faces, {"lights": []}, global_step=5)
        with pytest.raises(ValueError, match="add_mesh: expected face of shape"):
            writer.add_mesh("body", points, faces=faces[:1])
    from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData

    found = list(values(tmp_path))
    kinds = []
    for tag, step, value in found:
        data = MeshPluginData.FromString(value.metadata.plugin_data.content)
        kinds.append(MeshPluginData.ContentType.Name(data.content_type))
        assert step == 5 and tag.startswith("body") and data.json_config == '{"lights": []}'
    assert kinds == ["VERTEX", "FACE", "COLOR"]
    assert np.allclose(found[0][2].tensor.float_val, points.flatten())


def test_curves_and_charts_by_parts(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        counts = [rushlight.full((3,), float(i)) for i in range(6)]
        writer.add_pr_curve_raw("curve", *counts, global_step=1, num_thresholds=3)
        writer.add_custom_scalars_multilinechart(["a", "b"], title="both")
        writer.add_custom_scalars_marginchart(["a", "low", "high"])
        with pytest.raises(ValueError, match="expected 3 tags"):
            writer.add_custom_scalars_marginchart(["a", "low"])
    found = list(values(tmp_path))
    curve = np.array(found[0][2].tensor.float_val).reshape(6, 3)
    assert (curve == np.arange(6.0)[:, None]).all()
    assert b"both" in found[1][2].tensor.string_val[0]
    assert b"high" in found[2][2].tensor.string_val[0]


def test_pictures_of_points(tmp_path):
    pictures = rushlight.zeros(5, 3, 4, 4)
    pictures[4] = 1.0
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(rushlight.rand(5, 2), label_img=pictures)
        with pytest.raises(ValueError, match="label_img of shape"):
            writer.add_embedding(rushlight.rand(5, 2), label_img=pictures[:2])
        with pytest.raises(ValueError, match="label_img of shape"):
            writer.add_embedding(rushlight.rand(5, 2), label_img=pictures[:, :, :2])
    sprite = pixels((tmp_path / "00000" / "default" / "sprite.png").read_bytes())
    assert sprite.shape == (12, 12, 3)
    assert (sprite[4:8, 4:8] == 255).all() and sprite.sum() == 16 * 3 * 255
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert 'image_path: "00000/default/sprite.png"' in config
    assert config.count("single_image_dim: 4") == 2
