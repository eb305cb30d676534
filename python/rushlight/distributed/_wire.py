"""How requests to a store server travel: frames of a length, a code and fields, and who may send
them.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HELLO, AUTHENTICATE = 0x7F, 0x7E  # codes of a client's first frames
OK, TIMED_OUT, REFUSED = 0, 1, 2  # codes of replies
EVENT, MESSAGE = 0x7C, 0x7D  # to and from the members of a world
GREETING = b"rushlight store 1"
LARGEST_FRAME = 1 << 30
PMI_BEGINNING = b"cmd="  # as a length, more than the largest frame: no client of ours begins so
_SECRET_VARIABLE = "RUSHLIGHT_STORE_SECRET"


def frame(code: Any, fields: Any = ()) -> Any:
    """The bytes of a frame."""
    body = b"".join(struct.pack(">I", len(field)) + field for field in fields)
    return struct.pack(">IB", 1 + len(body), code) + body


def fields_of(body: Any) -> Any:
    """The code and the fields of a frame's body."""
    fields, at = [], 1
    while at < len(body):
        if at + 4 > len(body):
            raise ValueError("a frame ends within a field")
        (length,) = struct.unpack_from(">I", body, at)
        if at + 4 + length > len(body):
            raise ValueError("a frame ends within a field")
        fields.append(body[at + 4 : at + 4 + length])
        at += 4 + length
    return body[0], fields


def read_exactly(connection: Any, count: Any) -> str:
    """`count` bytes of a blocking socket; ConnectionError if it ends before."""
    parts = []
    while count:
        part = connection.recv(min(count, 1 << 20))
        if not part:
            raise ConnectionError("the other side closed the connection")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def read_frame(connection: Any) -> Any:
    """The code and the fields of the next frame of a blocking socket."""
    (length,) = struct.unpack(">I", read_exactly(connection, 4))
    if not 0 < length <= LARGEST_FRAME:
        raise ConnectionError(f"a frame of {length} bytes: the other side is no store of rushlight")
    return fields_of(read_exactly(connection, length))


def secret() -> Any:
    """What clients must know, from the environment; empty if there is none."""
    return os.environ.get(_SECRET_VARIABLE, "").encode()


def new_secret() -> Any:
    """Put a secret into the environment, for the processes that this one starts."""
    return os.environ.setdefault(_SECRET_VARIABLE, os.urandom(16).hex())


def proof(nonce: Any) -> Any:
    """Shows who knows the secret, without telling it."""
    return hmac.new(secret(), nonce, hashlib.sha256).digest()
