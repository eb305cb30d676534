"""Logs for TensorBoard, written by its own library, which must be installed: pip install
tensorboard.
"""

try:
    import tensorboard as _tensorboard
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        "utils.tensorboard needs the tensorboard library: pip install tensorboard", name=_error.name
    ) from None

from tensorboard.summary.writer.record_writer import RecordWriter

from rushlight.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
