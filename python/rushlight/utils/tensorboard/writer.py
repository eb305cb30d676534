"""SummaryWriter: what a program logs, in files that TensorBoard shows."""

from __future__ import annotations

import os
import socket
import time

from tensorboard.compat.proto.event_pb2 import Event, SessionLog, TaggedRunMetadata
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from rushlight.utils.tensorboard import summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Self

    from rushlight import Tensor
    from rushlight.nn.modules.module import Module
    from rushlight.types import _layout


class FileWriter:
    """One file of events.

    Args:
        log_dir: its folder.
        max_queue: how many events wait at most before they are written.
        flush_secs: how often they are written.
        filename_suffix: the end of the file's name.
    """

    def __init__(
        self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ) -> None:
        self.event_writer: Any = EventFileWriter(
            str(log_dir), max_queue, flush_secs, filename_suffix
        )

    def get_logdir(self) -> Any:
        """The folder."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Write an event."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(
        self, summary: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write a summary."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def add_graph(self, graph_profile: Any, walltime: float | None = None) -> None:
        """Write a graph and what its run took: a GraphDef and a RunMetadata."""
        graph, stats = graph_profile
        self.add_event(Event(graph_def=graph.SerializeToString()), None, walltime)
        run = TaggedRunMetadata(tag="step1", run_metadata=stats.SerializeToString())
        self.add_event(Event(tagged_run_metadata=run), None, walltime)

    def add_onnx_graph(self, graph: Any, walltime: float | None = None) -> None:
        """Write a GraphDef."""
        self.add_event(Event(graph_def=graph.SerializeToString()), None, walltime)

    def flush(self) -> None:
        """Write what waits."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Open a new file in the same folder."""
        self.event_writer.reopen()


class SummaryWriter:
    """Logs numbers, distributions, images, sound and text for TensorBoard.

    Args:
        log_dir: the folder, by default runs/DATE_TIME_HOST and `comment`.
        comment: see log_dir.
        purge_step: TensorBoard forgets what an earlier run logged from this step on.
        max_queue: how many events wait at most before they are written.
        flush_secs: how often they are written.
        filename_suffix: the end of the file's name.
    """

    log_dir: str
    max_queue: int
    flush_secs: int
    filename_suffix: str
    file_writer: FileWriter | None
    all_writers: dict[str, FileWriter] | None

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: Any = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            moment = time.strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{moment}_{socket.gethostname()}{comment}")
        self.log_dir, self.purge_step = str(log_dir), purge_step
        self.max_queue, self.flush_secs, self.filename_suffix = (
            max_queue,
            flush_secs,
            filename_suffix,
        )
        self.file_writer = self.all_writers = None
        self._get_file_writer()

    def _get_file_writer(self):
        if self.file_writer is None:
            self.file_writer = FileWriter(
                self.log_dir, self.max_queue, self.flush_secs, self.filename_suffix
            )
            self.all_writers = {self.log_dir: self.file_writer}
            if self.purge_step is not None:
                self.file_writer.add_event(Event(file_version="brain.Event:2"), self.purge_step)
                start = SessionLog(status=SessionLog.START)
                self.file_writer.add_event(Event(session_log=start), self.purge_step)
                self.purge_step: Any = None
        return self.file_writer

    def get_logdir(self) -> Any:
        """The folder."""
        return self.log_dir

    def _add(self, message, step, walltime):
        self._get_file_writer().add_summary(message, step, walltime)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Log one number.

        Args:
            new_style: write it as a tensor, which TensorBoard converts simple values to otherwise.
            double_precision: with new_style, of float64.
        """
        message = summary.scalar(tag, scalar_value, new_style, double_precision)
        self._add(message, global_step, walltime)

    def add_scalars(
        self,
        main_tag: Any,
        tag_scalar_dict: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Log numbers for one chart, each in a file of its own."""
        self._get_file_writer()
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag}/{tag}".replace("/", "_"))
            if folder not in self.all_writers:
                self.all_writers[folder] = FileWriter(
                    folder, self.max_queue, self.flush_secs, self.filename_suffix
                )
            self.all_writers[folder].add_summary(
                summary.scalar(main_tag, value), global_step, walltime
            )

    def add_tensor(
        self,
        tag: str,
        tensor: Tensor,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Log a tensor's numbers."""
        self._add(summary._tensor_of_numbers(tag, summary.array(tensor), ""), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: str = "tensorflow",
        walltime: float | None = None,
        max_bins: Any = None,
    ) -> None:
        """Log how values are distributed; `bins` as in numpy.histogram."""
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: Any,
        max: Any,
        num: Any,
        sum: Any,
        sum_squares: Any,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Log a distribution that is counted already."""
        message = summary.histogram_raw(
            tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
        )
        self._add(message, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Log a picture: floats in [0, 1] or bytes."""
        self._add(summary.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Log pictures, side by side."""
        self._add(summary.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Any = None,
    ) -> None:
        """Log a picture with boxes (N, 4) drawn on it, by the Pillow library.

        Args:
            tag: its name.
            img_tensor: floats in [0, 1] or bytes, of dims `dataformats`.
            box_tensor: left, top, right and bottom of each box in pixels.
            global_step: the step that it belongs to.
            walltime: seconds since the epoch, by default now.
            rescale: the size of what is logged, over that of the picture.
            dataformats: "CHW" or "HWC".
            labels: a string for each box, or one string for the only one.
        """
        labels = [labels] if isinstance(labels, str) else labels
        message = summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels)
        self._add(message, global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Log a matplotlib figure, or a list of them; `close` closes them."""
        from matplotlib import pyplot

        for one in figure if isinstance(figure, (list, tuple)) else [figure]:
            self.add_image(tag, summary.figure_pixels(one), global_step, walltime, "HWC")
            if close:
                pyplot.close(one)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Log a sound of one channel, with values in [-1, 1]."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(
        self,
        tag: str,
        text_string: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Log a text in Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Tensor,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Log precision and recall of a classifier: labels 0 or 1, predictions in [0, 1]."""
        self._add(
            summary.pr_curve(tag, labels, predictions, num_thresholds, weights),
            global_step,
            walltime,
        )

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Log a precision-recall curve that is computed already, a value for each threshold."""
        message = summary.pr_curve_raw(
            tag, true_positive_counts, false_positive_counts, true_negative_counts,
            false_negative_counts, precision, recall, num_thresholds, weights,
        )  # fmt: skip
        self._add(message, global_step, walltime)

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Show these numbers in one chart."""
        self.add_custom_scalars({category: {title: ["Multiline", list(tags)]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Show a number between two limits: its tag, the lower one's and the upper one's."""
        if len(tags) != 3:
            raise ValueError(f"add_custom_scalars_marginchart: expected 3 tags, got {len(tags)}")
        self.add_custom_scalars({category: {title: ["Margin", list(tags)]}})

    def add_custom_scalars(self, layout: _layout | None) -> None:
        """Arrange charts: {category: {chart: ["Multiline" or "Margin", tags]}}."""
        self._add(summary.custom_scalars(layout), None, None)

    def add_hparams(
        self,
        hparam_dict: Any,
        metric_dict: Any,
        hparam_domain_discrete: Any = None,
        run_name: Any = None,
        global_step: int | None = None,
    ) -> None:
        """Log hyperparameters and the metrics that they led to, as a run of its own below this
        one.
        """
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        messages = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        with SummaryWriter(os.path.join(self.log_dir, run_name or str(time.time()))) as run:
            for message in messages:
                run._add(message, None, None)
            for tag, value in metric_dict.items():
                run.add_scalar(tag, value, global_step)

    def add_embedding(
        self,
        mat: Tensor,
        metadata: Any = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: Any = None,
    ) -> None:
        """Log points (N, D) for the projector, each with a label, or several, and a picture.

        Args:
            mat: the points.
            metadata: a label for each, or a list of labels for each.
            label_img: a picture for each, as high as wide (N, C, H, W): floats in [0, 1] or bytes.
            global_step: the step that they belong to.
            tag: their name.
            metadata_header: the names of several labels.
        """
        points = summary.array(mat)
        image_shape = None if label_img is None else tuple(label_img.shape[:1:-1])
        if image_shape and (len(set(image_shape)) != 1 or len(label_img) != len(points)):
            raise ValueError(
                f"add_embedding: expected label_img of shape ({len(points)}, C, H, H), got "
                f"{tuple(label_img.shape)}"
            )
        step = 0 if global_step is None else int(global_step)
        folder = f"{step:05d}/{tag}"
        path = os.path.join(self.log_dir, folder)
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, "tensors.tsv"), "w") as file:
            file.writelines("\t".join(map(str, row)) + "\n" for row in points.tolist())
        if metadata is not None:
            if len(metadata) != len(points):
                raise ValueError(f"add_embedding: {len(metadata)} labels for {len(points)} points")
            rows = [metadata_header, *metadata] if metadata_header else metadata
            with open(os.path.join(path, "metadata.tsv"), "w") as file:
                for row in rows:
                    cells = row if isinstance(row, (list, tuple)) else [row]
                    file.write("\t".join(map(str, cells)) + "\n")
        if image_shape:
            with open(os.path.join(path, "sprite.png"), "wb") as file:
                file.write(summary.png(summary.sprite(label_img)))
        config = summary.embedding_config(
            folder, tag, step, points.shape, metadata is not None, image_shape
        )
        with open(os.path.join(self.log_dir, "projector_config.pbtxt"), "a") as file:
            file.write(config)

    def add_graph(
        self,
        model: Module,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """Log the operations of a model, as a run on this input records them.

        Args:
            model: the module.
            input_to_model: its argument, or a tuple of its arguments.
            verbose: print the graph, too.
            use_strict_trace: raise if the model returns a dict, whose keys the graph does not have.
        """
        from rushlight.utils.tensorboard._model_graph import graph

        found = graph(model, input_to_model, verbose, use_strict_trace)
        self._get_file_writer().add_graph(found)

    def add_onnx_graph(self, prototxt: Any) -> None:
        """Log the graph of an ONNX file, which the onnx library reads.

        Args:
            prototxt: the file's path.
        """
        from rushlight.utils.tensorboard._model_graph import graph_of_onnx

        self._get_file_writer().add_onnx_graph(graph_of_onnx(prototxt))

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: int | None = None,
        fps: float = 4,
        walltime: float | None = None,
    ) -> None:
        """Log videos (N, T, C, H, W), beside each other, as a GIF that the Pillow library writes.

        Args:
            tag: their name.
            vid_tensor: floats in [0, 1], or bytes.
            global_step: the step that they belong to.
            fps: frames in a second.
            walltime: seconds since the epoch, by default now.
        """
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: Any = None,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Log surfaces, or points, in space.

        Args:
            tag: their name.
            vertices: coordinates (B, N, 3).
            colors: of each vertex, in [0, 255] (B, N, 3).
            faces: triangles, each of the indices of three vertices (B, F, 3).
            config_dict: how to show them: camera, lights and material, as three.js calls them.
            global_step: the step that they belong to.
            walltime: seconds since the epoch, by default now.
        """
        message = summary.mesh(tag, vertices, colors, faces, config_dict)
        self._add(message, global_step, walltime)

    def flush(self) -> None:
        """Write what waits."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Write what waits, and close the files; to log more opens new ones."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


__all__ = ["FileWriter", "SummaryWriter"]
