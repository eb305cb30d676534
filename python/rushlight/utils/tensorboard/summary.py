"""Values as TensorBoard's messages: one function per kind."""

from __future__ import annotations

import io
import json
import math
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


def _floats(values):
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in values.shape])
    return TensorProto(dtype="DT_FLOAT", float_val=values.reshape(-1).tolist(), tensor_shape=shape)


def _tensor_of_numbers(tag, values, plugin, content=b""):
    metadata = SummaryMetadata(
        plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    )
    return Summary(value=[Summary.Value(tag=tag, metadata=metadata, tensor=_floats(values))])


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
    return _picture("add_image", tag, pixels)


def _picture(op, tag, pixels, boxes=(), labels=None, rescale=1.0):
    """The message of an image (height, width, channels), with boxes drawn on it."""
    if pixels.shape[2] not in (1, 3, 4):
        raise ValueError(f"{op}: an image has 1, 3 or 4 channels, not {pixels.shape[2]}")
    pixels = _bytes_of(pixels)
    if len(boxes) or rescale != 1:
        pixels = _with_boxes(op, pixels, boxes, labels, rescale)
    height, width, channels = pixels.shape
    message = Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=png(pixels)
    )
    return Summary(value=[Summary.Value(tag=tag, image=message)])


def _bytes_of(pixels):
    """Floats in [0, 1] as bytes."""
    if pixels.dtype == numpy.uint8:
        return pixels
    return (pixels.astype(numpy.float64) * 255).clip(0, 255).astype(numpy.uint8)


def _pillow(op):
    try:
        import PIL.Image
        import PIL.ImageDraw
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{op} needs the Pillow library: pip install pillow") from error
    return PIL


def _with_boxes(op, pixels, boxes, labels, rescale):
    """The pixels, resized and with rectangles (left, top, right, bottom) drawn on them."""
    pillow = _pillow(op)
    canvas = pillow.Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels)
    canvas = canvas.convert("RGBA" if pixels.shape[2] == 4 else "RGB")
    draw = pillow.ImageDraw.Draw(canvas)
    for i, box in enumerate(boxes):
        left, top, right, bottom = map(float, box)
        draw.rectangle([(left, top), (right, bottom)], outline="red", width=2)
        if labels:
            draw.text((left + 3, bottom - 14), str(labels[i]), fill="red")
    size = (int(canvas.width * rescale), int(canvas.height * rescale))
    return numpy.asarray(canvas if size == canvas.size else canvas.resize(size))


def image_boxes(
    tag: str,
    tensor_image: Any,
    tensor_boxes: Any,
    rescale: float = 1,
    dataformats: str = "CHW",
    labels: Any = None,
) -> Any:
    """A picture with boxes (N, 4), each of left, top, right and bottom in pixels.

    Args:
        tag: its name.
        tensor_image: floats in [0, 1] or bytes, of dims `dataformats`.
        tensor_boxes: the boxes.
        rescale: the size of what is logged, over that of the picture.
        dataformats: "CHW" or "HWC".
        labels: a string for each box.
    """
    pixels, boxes = array(tensor_image), array(tensor_boxes)
    if sorted(dataformats) != sorted("CHW") or pixels.ndim != 3:
        raise ValueError(
            f"add_image_with_boxes: dataformats {dataformats!r} do not fit an image of shape "
            f"{pixels.shape}"
        )
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ValueError(f"add_image_with_boxes: expected boxes (N, 4), got shape {boxes.shape}")
    if labels is not None and len(labels) != len(boxes):
        raise ValueError(f"add_image_with_boxes: {len(labels)} labels for {len(boxes)} boxes")
    pixels = pixels.transpose([dataformats.index(c) for c in "HWC"])
    return _picture("add_image_with_boxes", tag, pixels, boxes, labels, rescale)


def video(tag: str, tensor: Any, fps: float = 4) -> Any:
    """Videos (N, T, C, H, W), beside each other, as a GIF; floats in [0, 1], or bytes."""
    frames = array(tensor)
    if frames.ndim != 5 or frames.shape[2] not in (1, 3, 4):
        raise ValueError(
            f"add_video: expected videos (N, T, C, H, W) of 1, 3 or 4 channels, got {frames.shape}"
        )
    if not frames.size:
        raise ValueError(f"add_video: the videos have no element, their shape is {frames.shape}")
    pillow = _pillow("add_video")
    pixels = _bytes_of(frames).transpose(1, 0, 3, 4, 2)  # T, N, H, W, C
    columns = 1 << ((len(pixels[0]) - 1).bit_length() + 1) // 2
    pictures = []
    for moment in pixels:
        one = _grid(moment, columns)
        pictures.append(pillow.Image.fromarray(one.squeeze(2) if one.shape[2] == 1 else one))
    file = io.BytesIO()
    pictures[0].save(file, "GIF", save_all=True, append_images=pictures[1:],
                     duration=1000 / fps, loop=0)  # fmt: skip
    message = Summary.Image(
        height=pictures[0].height, width=pictures[0].width, colorspace=frames.shape[2],
        encoded_image_string=file.getvalue(),
    )  # fmt: skip
    return Summary(value=[Summary.Value(tag=tag, image=message)])


def mesh(
    tag: str,
    vertices: Any,
    colors: Any = None,
    faces: Any = None,
    config_dict: Any = None,
    display_name: str | None = None,
    description: str | None = None,
) -> Any:
    """A surface, or points, in space.

    Args:
        tag: its name.
        vertices: their coordinates (B, N, 3).
        colors: of each, in [0, 255] (B, N, 3).
        faces: triangles, each of three indices of vertices (B, F, 3).
        config_dict: how to show it: camera, lights and material, as three.js calls them.
        display_name: instead of the tag.
        description: a text in Markdown.
    """
    from tensorboard.plugins.mesh import metadata
    from tensorboard.plugins.mesh.plugin_data_pb2 import MeshPluginData

    parts = [(vertices, MeshPluginData.VERTEX), (faces, MeshPluginData.FACE),
             (colors, MeshPluginData.COLOR)]  # fmt: skip
    parts = [(array(value), kind) for value, kind in parts if value is not None]
    for value, kind in parts:
        if value.ndim != 3 or value.shape[2] != 3 or len(value) != len(parts[0][0]):
            raise ValueError(
                f"add_mesh: expected {MeshPluginData.ContentType.Name(kind).lower()} of shape "
                f"({len(parts[0][0])}, n, 3), got {value.shape}"
            )
    components = metadata.get_components_bitmask([kind for _, kind in parts])
    values = []
    for value, kind in parts:
        described = metadata.create_summary_metadata(
            tag, display_name, kind, components, value.shape, description,
            json_config=json.dumps(config_dict or {}, sort_keys=True),
        )  # fmt: skip
        values.append(Summary.Value(tag=metadata.get_instance_name(tag, kind),
                                    tensor=_floats(value), metadata=described))  # fmt: skip
    return Summary(value=values)


def _grid(images, columns=8):
    """Images (N, H, W, C) as one, so many in a row."""
    count, height, width, channels = images.shape
    columns = min(count, columns)
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
    return pr_curve_raw(
        tag, true_positives, false_positives, negatives - false_positives,
        positives - true_positives, precision, recall, count,
    )  # fmt: skip


def pr_curve_raw(
    tag: str,
    tp: Any,
    fp: Any,
    tn: Any,
    fn: Any,
    precision: Any,
    recall: Any,
    num_thresholds: int = 127,
    weights: Any = None,
) -> Any:
    """A curve of which all is known: true and false positives and negatives, precision and recall,
    at `num_thresholds` thresholds each.

    Raises:
        ValueError: if `weights` are given, which are in the counts already.
    """
    from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData

    if weights is not None:
        raise ValueError("add_pr_curve_raw: weights belong into the counts")
    data = numpy.stack([array(part) for part in (tp, fp, tn, fn, precision, recall)])
    content = PrCurvePluginData(
        version=0, num_thresholds=min(num_thresholds, 127)
    ).SerializeToString()
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


def sprite(images: Any) -> Any:
    """Pictures (N, C, H, W) as one of as many rows as columns."""
    pixels = _bytes_of(array(images)).transpose(0, 2, 3, 1)
    side = math.isqrt(len(pixels) - 1) + 1
    rows = _grid(pixels, side)
    height = side * pixels.shape[1]
    return numpy.pad(rows, ((0, height - len(rows)), (0, 0), (0, 0)))


def embedding_config(
    folder: Any,
    tag: str,
    step: Any,
    shape: Sequence[int],
    has_metadata: Any,
    image_shape: Any = None,
) -> Any:
    """The lines of projector_config.pbtxt about one table of points."""
    name = f"{tag}:{step:05d}"
    lines = [f'embeddings {{\n  tensor_name: "{name}"\n  tensor_path: "{folder}/tensors.tsv"']
    lines.append(f"  tensor_shape: {shape[0]}\n  tensor_shape: {shape[1]}")
    if has_metadata:
        lines.append(f'  metadata_path: "{folder}/metadata.tsv"')
    if image_shape is not None:
        lines.append(f'  sprite {{\n    image_path: "{folder}/sprite.png"')
        lines.append("".join(f"    single_image_dim: {n}\n" for n in image_shape) + "  }")
    return "\n".join([*lines, "}\n"])


def as_json(value: Any) -> Any:
    """A dict for people to read, as Markdown."""
    return "```\n" + json.dumps(value, indent=2, default=str) + "\n```"
