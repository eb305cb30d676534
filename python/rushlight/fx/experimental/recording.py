"""What happens to an environment of symbolic shapes, which is not there."""

from rushlight import _absent


class NotEqualError(Exception):
    """Two environments differ."""


_REASON = (
    "there is no environment of symbolic shapes: sizes that may change are symbols of the program "
    "that torch.export.export records"
)
_NAMES = (
    "FakeTensorMeta",
    "ShapeEnvEvent",
    "record_shapeenv_event",
    "replay_shape_env_events",
    "shape_env_check_state_equal",
)
_ABSENT = _absent.refused(dict.fromkeys(_NAMES, _REASON))
globals().update(_ABSENT)

__all__ = [
    "NotEqualError",
    *_ABSENT,
]
