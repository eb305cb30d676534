"""Version numbers that compare as versions, not letter by letter."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_PRE_RELEASES = ("dev", "a", "b", "rc")
_FORM = re.compile(r"v?(\d+(?:\.\d+)*)[.-]?(dev|a|b|rc)?(\d*)(?:\+([\w.]+))?")


class TorchVersion(str):
    """A version as a string, compared with other strings or tuples of numbers by its parts.

    Example:
        >>> version = TorchVersion("2.13.0+local")
        >>> version >= "2.9", version > (2, 14), version < "3"
        (True, False, True)
    """

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        return _key(self) < _key(other)

    def __le__(self, other: Any) -> Any:
        return _key(self) <= _key(other)

    def __gt__(self, other: Any) -> bool:
        return _key(self) > _key(other)

    def __ge__(self, other: Any) -> bool:
        return _key(self) >= _key(other)

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other) is True or (_is_version(other) and _key(self) == _key(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__: Any = str.__hash__


def _is_version(other):
    return isinstance(other, (tuple, list)) or (
        isinstance(other, str) and _FORM.match(other) is not None
    )


def _key(version):
    """The release without zeros at its end, then what puts pre-releases before it and local
    versions ("+cpu") after it.
    """
    text = (
        ".".join(str(part) for part in version)
        if isinstance(version, (tuple, list))
        else str(version)
    )
    found = _FORM.match(text)
    if found is None:
        raise ValueError(f"not a version: {version!r}")
    numbers, stage, number, local = found.groups()
    release = [int(part) for part in numbers.split(".")]
    while release and release[-1] == 0:
        release.pop()
    stage = _PRE_RELEASES.index(stage) if stage else len(_PRE_RELEASES)
    local = [
        (1, int(part), "") if part.isdigit() else (0, 0, part)
        for part in (local or "").split(".")
        if part
    ]
    return release, stage, int(number or 0), local


__all__ = ["TorchVersion"]
