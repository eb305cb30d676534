"""Anomaly detection: backward names the forward line of an op that fails or produces NaN."""

from __future__ import annotations

from rushlight import _C
from rushlight._ignored import warn_program as _warn_program


class set_detect_anomaly:
    """Turn anomaly detection on or off, at once or for a `with` block.

    Args:
        mode: True turns detection on.
        check_nan: also raise an error if backward produces NaN.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.prev: tuple[bool, bool] = (_C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled())
        _C.set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        _C.set_anomaly_enabled(*self.prev)


class detect_anomaly:
    """Detect anomalies in a `with` block.

    An error in backward then tells which op of the forward pass it belongs to and where in the
    program that was. Each op records its place, so use this for debugging.

    Args:
        check_nan: also raise an error if backward produces NaN.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        _warn_program(
            "Anomaly Detection has been enabled. It slows the program down: use it for debugging.",
        )

    def __enter__(self) -> None:
        self.prev: tuple[bool, bool] = (_C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled())
        _C.set_anomaly_enabled(True, self.check_nan)

    def __exit__(self, *error: object) -> None:
        _C.set_anomaly_enabled(*self.prev)
