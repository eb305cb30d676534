"""Validation of symbolic shapes by z3, which is not done here."""

from rushlight import _absent


class ValidationException(Exception):
    """Guards do not say what the program does."""


class BisectValidationException(ValidationException):
    """The guard because of which they do not."""


def translation_validation_enabled() -> bool:
    """Are guards validated by z3? They are not."""
    return False


_ABSENT = _absent.refused(
    {
        "translation_validation_timeout": "guards are not validated by z3; export checks a "
        "recording by a second run with other sizes"
    }
)
globals().update(_ABSENT)

__all__ = [
    "BisectValidationException",
    "ValidationException",
    "translation_validation_enabled",
    *_ABSENT,
]
