"""Values as TensorBoard's messages: one function per kind."""

from __future__ import annotations

import io
import json
import struct
import wave
import zlib

import numpy
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor
    from rushlight.types import _layout

_SCALARS = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"))
_TEXT = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))


def array(value: Any) -> Any:
    """The value, a tensor among others, as a NumPy array."""
    if isinstance(value, rushlight.Tensor):
        value = value.detach()
        return (
            value.float() if value.dtype in (rushlight.bfloat16, rushlight.float16) else value
        ).numpy()
    return numpy.asarray(value)


def scalar(tag: str, value: Any, new_style: bool = False, double_precision: bool = False) -> Any:
    """One number, as a tensor if new_style."""
    found = array(value)
    if found.size != 1:
        raise ValueError(f"add_scalar: expected one number, got a value of shape {found.shape}")
    number = float(found.reshape(()))
    if not new_style:
        return Summary(value=[Summary.Value(tag=tag, simple_value=number)])
    if double_precision:
        tensor = TensorProto(dtype="DT_DOUBLE", double_val=[number])
    else:
        tensor = TensorProto(dtype="DT_FLOAT", float_val=[number])
    return Summary(value=[Summary.Value(tag=tag, tensor=tensor, metadata=_SCALARS)])


def _tensor_of_numbers(tag, values, plugin, content=b""):
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in values.shape])
    tensor = TensorProto(
        dtype="DT_FLOAT", float_val=values.reshape(-1).tolist(), tensor_shape=shape
    )
    metadata = SummaryMetadata(
        plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    )
    return Summary(value=[Summary.Value(tag=tag, metadata=metadata, tensor=tensor)])


def text(tag: str, string: Any) -> Any:
    """A text in Markdown."""
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    tensor = TensorProto(dtype="DT_STRING", string_val=[string.encode()], tensor_shape=shape)
    return Summary(value=[Summary.Value(tag=f"{tag}/text_summary", metadata=_TEXT, tensor=tensor)])


def _default_limits():
    """Limits of bins that grow by a tenth from 1e-12 on, to both sides of zero."""
    positive = [1e-12]
    while positive[-1] < 1e20:
        positive.append(positive[-1] * 1.1)
    return numpy.array([-x for x in reversed(positive)] + [0.0] + positive)


def histogram(tag: str, values: Any, bins: str = "tensorflow", max_bins: Any = None) -> Any:
    """How values are distributed."""
    values = array(values).astype(numpy.float64).reshape(-1)
    if values.size == 0:
        raise ValueError("add_histogram: the input has no element")
    edges = _default_limits() if bins == "tensorflow" else bins
    counts, limits = numpy.histogram(values, bins=edges)
    if max_bins is not None and len(counts) > max_bins:
        step = -(-len(counts) // max_bins)
        counts = numpy.add.reduceat(counts, range(0, len(counts), step))
        limits = numpy.append(limits[:-1:step], limits[-1])
    filled = numpy.flatnonzero(counts)
    first, last = (filled[0], filled[-1] + 1) if filled.size else (0, 1)
    return _histogram(
        tag, values.min(), values.max(), values.size, values.sum(), values.dot(values),
        limits[first + 1 : last + 1].tolist(), counts[first:last].tolist(),
    )  # fmt: skip


def _histogram(tag, low, high, number, total, squares, limits, counts):
    proto = HistogramProto(
        min=low,
        max=high,
        num=number,
        sum=total,
        sum_squares=squares,
        bucket_limit=limits,
        bucket=counts,
    )
    return Summary(value=[Summary.Value(tag=tag, histo=proto)])


def histogram_raw(
    tag: str,
    min: Any,
    max: Any,
    num: Any,
    sum: Any,
    sum_squares: Any,
    bucket_limits: Any,
    bucket_counts: Any,
) -> Any:
    """A distribution that is counted already."""
    return _histogram(
        tag, min, max, num, sum, sum_squares, list(bucket_limits), list(bucket_counts)
    )


# ---- images and sound


def png(pixels: Any) -> Any:
    """The bytes of a PNG file of (height, width, 1, 3 or 4) bytes."""
    height, width, channels = pixels.shape

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    rows = numpy.zeros(
        (height, 1 + width * channels), numpy.uint8
    )  # each row begins with its filter: none
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows.tobytes()))
        + chunk(b"IEND", b"")
    )


def image(tag: str, value: Any, dataformats: str = "CHW") -> Any:
    """A picture, or several (N) side by side; floats lie in [0, 1], bytes in [0, 255]."""
    pixels = array(value)
    if sorted(dataformats) not in (
        sorted("HW"),
        sorted("HWC"),
        sorted("NHWC"),
    ) or pixels.ndim != len(dataformats):
        raise ValueError(
            f"add_image: dataformats {dataformats!r} do not fit an image of shape {pixels.shape}"
        )
    if "N" in dataformats:
        pixels = _grid(pixels.transpose([dataformats.index(c) for c in "NHWC"]))
    elif "C" in dataformats:
        pixels = pixels.transpose([dataformats.index(c) for c in "HWC"])
    else:
        pixels = pixels.transpose([dataformats.index(c) for c in "HW"])[:, :, None]
    if pixels.shape[2] not in (1, 3, 4):
        raise ValueError(f"add_image: an image has 1, 3 or 4 channels, not {pixels.shape[2]}")
    if pixels.dtype != numpy.uint8:
        pixels = (pixels.astype(numpy.float64) * 255).clip(0, 255).astype(numpy.uint8)
    height, width, channels = pixels.shape
    message = Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=png(pixels)
    )
    return Summary(value=[Summary.Value(tag=tag, image=message)])


def _grid(images):
    """Images (N, H, W, C) as one, eight in a row."""
    count, height, width, channels = images.shape
    columns = min(count, 8)
    rows = -(-count // columns)
    canvas = numpy.zeros((rows * height, columns * width, channels), images.dtype)
    for i, one in enumerate(images):
        top, left = i // columns * height, i % columns * width
        canvas[top : top + height, left : left + width] = one
    return canvas


def audio(tag: str, sound: Any, sample_rate: int = 44100) -> Any:
    """A sound of one channel, with values in [-1, 1]."""
    samples = array(sound).reshape(-1).astype(numpy.float64)
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(sample_rate)
        out.writeframes((samples.clip(-1, 1) * 32767).astype("<i2").tobytes())
    message = Summary.Audio(
        sample_rate=sample_rate, num_channels=1, length_frames=len(samples),
        encoded_audio_string=file.getvalue(),
        content_type="audio/wav",
    )  # fmt: skip
    return Summary(value=[Summary.Value(tag=tag, audio=message)])


def figure_pixels(figure: Any) -> Any:
    """A matplotlib figure as an array (height, width, 3)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return numpy.asarray(canvas.buffer_rgba())[:, :, :3]


# ---- curves and hyperparameters


def pr_curve(
    tag: str, labels: Tensor, predictions: Any, num_thresholds: int = 127, weights: Any = None
) -> Any:
    """Precision and recall of a classifier, threshold by threshold."""
    from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData

    labels, predictions = array(labels).reshape(-1) > 0, array(predictions).reshape(-1)
    count = min(num_thresholds, 127)
    weights = numpy.ones(len(labels)) if weights is None else array(weights).reshape(-1)
    above = predictions[None, :] >= numpy.linspace(0, 1, count)[:, None]
    true_positives = (above * (labels * weights)).sum(1)
    false_positives = (above * (~labels * weights)).sum(1)
    positives, negatives = (labels * weights).sum(), (~labels * weights).sum()
    tiny = 1e-7
    precision = true_positives / numpy.maximum(tiny, true_positives + false_positives)
    recall = true_positives / max(tiny, positives)
    data = numpy.stack(
        [
            true_positives,
            false_positives,
            negatives - false_positives,
            positives - true_positives,
            precision,
            recall,
        ]
    )
    content = PrCurvePluginData(version=0, num_thresholds=count).SerializeToString()
    return _tensor_of_numbers(tag, data, "pr_curves", content)


def hparams(values: Any, metrics: Any, domains: Any = None) -> Any:
    """(experiment, start, end): the messages of a run with these hyperparameters and metrics."""
    from tensorboard.plugins.hparams.summary_v2 import (
        Discrete,
        HParam,
        Metric,
        hparams_config_pb,
        hparams_pb,
    )

    plain = {name: v.item() if isinstance(v, rushlight.Tensor) else v for name, v in values.items()}
    described = [
        HParam(name, Discrete(domains[name])) if domains and name in domains else HParam(name)
        for name in plain
    ]
    experiment = hparams_config_pb(described, [Metric(name) for name in metrics])
    return experiment, hparams_pb(plain), _session_end()


def _session_end():
    """The message that a run ended as it should."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    end = plugin_data_pb2.SessionEndInfo(status=api_pb2.STATUS_SUCCESS)
    data = metadata.create_summary_metadata(plugin_data_pb2.HParamsPluginData(session_end_info=end))
    return Summary(value=[Summary.Value(tag=metadata.SESSION_END_INFO_TAG, metadata=data)])


def custom_scalars(layout: _layout | None) -> Any:
    """How to arrange charts: {category: {chart: ["Multiline" or "Margin", tags]}}."""
    from tensorboard.plugins.custom_scalar import layout_pb2

    categories = []
    for category, charts in layout.items():
        protos = []
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                series = layout_pb2.MarginChartContent.Series(
                    value=tags[0], lower=tags[1], upper=tags[2]
                )
                protos.append(
                    layout_pb2.Chart(
                        title=title, margin=layout_pb2.MarginChartContent(series=[series])
                    )
                )
            else:
                protos.append(
                    layout_pb2.Chart(
                        title=title, multiline=layout_pb2.MultilineChartContent(tag=tags)
                    )
                )
        categories.append(layout_pb2.Category(title=category, chart=protos))
    content = layout_pb2.Layout(category=categories).SerializeToString()
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="custom_scalars"))
    tensor = TensorProto(dtype="DT_STRING", string_val=[content], tensor_shape=TensorShapeProto())
    return Summary(
        value=[Summary.Value(tag="custom_scalars__config__", metadata=metadata, tensor=tensor)]
    )


def embedding_config(
    folder: Any, tag: str, step: Any, shape: Sequence[int], has_metadata: Any
) -> Any:
    """The lines of projector_config.pbtxt about one table of points."""
    name = f"{tag}:{step:05d}"
    lines = [f'embeddings {{\n  tensor_name: "{name}"\n  tensor_path: "{folder}/tensors.tsv"']
    lines.append(f"  tensor_shape: {shape[0]}\n  tensor_shape: {shape[1]}")
    if has_metadata:
        lines.append(f'  metadata_path: "{folder}/metadata.tsv"')
    return "\n".join([*lines, "}\n"])


def as_json(value: Any) -> Any:
    """A dict for people to read, as Markdown."""
    return "```\n" + json.dumps(value, indent=2, default=str) + "\n```"
