"""SummaryWriter: what it writes, the tensorboard library reads."""

import struct
import zlib

import numpy as np
import pytest

import rushlight

pytest.importorskip("tensorboard")
pytestmark = pytest.mark.filterwarnings("ignore")  # the library's own

from rushlight.utils.tensorboard import SummaryWriter  # noqa: E402


def values(folder):
    """(tag, step, value) of all events in the files of a folder."""
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    for path in sorted(folder.glob("events*")):
        for raw in RawEventFileLoader(str(path)).Load():
            event = Event.FromString(raw)
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


def test_what_is_not_supported_says_so(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for name in ("add_graph", "add_video", "add_mesh"):
            with pytest.raises(NotImplementedError, match=name):
                getattr(writer, name)("x", None)
