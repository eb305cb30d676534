"""Anomaly detection: backward names the forward line of an op that fails or produces NaN."""

import warnings

from rushlight import _C


class set_detect_anomaly:
    """Turn anomaly detection on or off, at once or for a `with` block.

    Args:
        mode: True turns detection on.
        check_nan: also raise an error if backward produces NaN.
    """

    def __init__(self, mode, check_nan=True):
        self.prev = (_C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled())
        _C.set_anomaly_enabled(mode, check_nan)

    def __enter__(self):
        pass

    def __exit__(self, *error):
        _C.set_anomaly_enabled(*self.prev)


class detect_anomaly:
    """Detect anomalies in a `with` block.

    An error in backward then tells which op of the forward pass it belongs to and where in the
    program that was. Each op records its place, so use this for debugging.

    Args:
        check_nan: also raise an error if backward produces NaN.
    """

    def __init__(self, check_nan=True):
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. It slows the program down: use it for debugging.",
            stacklevel=2,
        )

    def __enter__(self):
        self.prev = (_C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled())
        _C.set_anomaly_enabled(True, self.check_nan)

    def __exit__(self, *error):
        _C.set_anomaly_enabled(*self.prev)
