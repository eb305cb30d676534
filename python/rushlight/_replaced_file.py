"""Files that appear under their name only when they are complete.

Until then a file has no name, if the file system can do that (`O_TMPFILE`): so nothing is left of
one whose process is killed. Elsewhere it has a name that tells it from others and a lock that the
system drops with the process, and whoever comes next removes those that nobody holds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_PREFIX, _SUFFIX = ".rushlight-", ".unfinished"


def _new_name(folder):
    return os.path.join(folder, f"{_PREFIX}{os.getpid()}-{os.urandom(8).hex()}{_SUFFIX}")


@contextlib.contextmanager
def replacing(path: str) -> Iterator[Any]:
    """Open a new file that takes the place of `path` if all goes well."""
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as stream:  # a pipe or device
            yield stream
        return
    folder = os.path.dirname(path)
    descriptor = _open_unnamed(folder)
    if descriptor is None:
        with _named_file(folder) as stream:
            yield stream
            stream.flush()
            os.replace(stream.name, path)
        return
    with open(descriptor, "w+b") as stream:
        yield stream
        stream.flush()
        if _link(stream, path):
            return
        with _named_file(folder) as copy:  # there is no link to a file without a name here
            stream.seek(0)
            while part := stream.read(1 << 22):
                copy.write(part)
            copy.flush()
            os.replace(copy.name, path)


def _open_unnamed(folder):
    """Return the descriptor of a new file without a name, or None if there are none here."""
    try:
        descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError:
        return None  # whatever it is, opening a file with a name meets it again
    if os.path.exists(_link_source(descriptor)):
        return descriptor
    os.close(descriptor)  # without /proc it could never get a name
    return None


def _link_source(descriptor):
    return f"/proc/self/fd/{descriptor}"


def _link(stream, path):
    """Give the file a name, in the place of another if there is one. False: not possible here."""
    source = _link_source(stream.fileno())
    try:
        if not os.path.exists(path):
            with contextlib.suppress(FileExistsError):
                os.link(source, path, follow_symlinks=True)
                return True
        # A link replaces nothing, so there is a second name until the renaming.
        second = _new_name(os.path.dirname(path))
        os.link(source, second, follow_symlinks=True)
    except OSError:
        return False
    try:
        os.replace(second, path)
    except BaseException:
        os.remove(second)
        raise
    return True


@contextlib.contextmanager
def _named_file(folder):
    _remove_abandoned(folder)
    with _locked_file(folder) as stream:
        try:
            yield stream
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.remove(stream.name)


def _locked_file(folder):
    while True:
        stream = open(_new_name(folder), "xb")  # noqa: SIM115
        with contextlib.suppress(OSError):  # no locks here: then nobody will remove it either
            fcntl.flock(stream, fcntl.LOCK_EX)
        if os.path.exists(stream.name):
            return stream
        stream.close()  # somebody took it for abandoned before it was locked


def _remove_abandoned(folder):
    """Remove the unfinished files of processes that are gone."""
    for name in os.listdir(folder):
        if not name.startswith(_PREFIX) or not name.endswith(_SUFFIX):
            continue
        path = os.path.join(folder, name)
        # A file that is locked, somebody else's or already gone stays as it is.
        with contextlib.suppress(OSError), open(path, "r+b") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.remove(path)
