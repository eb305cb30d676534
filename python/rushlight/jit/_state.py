"""Whether `script` and `trace` compile: not where the environment has PYTORCH_JIT=0."""

import os

_ANSWERS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


class EnabledProxy:
    """An answer that changes for all who have imported it."""

    def __init__(self) -> None:
        given = os.environ.get("PYTORCH_JIT", "1").lower()
        if given not in _ANSWERS:
            raise ValueError(f"PYTORCH_JIT: expected 0 or 1, got {given!r}")
        self.enabled = _ANSWERS[given]

    def __bool__(self) -> bool:
        return self.enabled


_enabled = EnabledProxy()


def disable() -> None:
    """Let `script` and `trace` return what they are given, from now on."""
    _enabled.enabled = False


def enable() -> None:
    """Let `script` and `trace` compile again."""
    _enabled.enabled = True
