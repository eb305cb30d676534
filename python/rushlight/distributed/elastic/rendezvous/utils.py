"""Where machines meet, as text."""

from __future__ import annotations

import re

_HOST = re.compile(r"[\w.:-]+")


def parse_rendezvous_endpoint(endpoint: str | None, default_port: int) -> tuple[str, int]:
    """Host and port of "HOST", "HOST:PORT", "[IPv6]" or "[IPv6]:PORT".

    Args:
        endpoint: the text; this machine if it is empty.
        default_port: the port if the text names none.

    Example:
        >>> parse_rendezvous_endpoint("host0:29500", 29400)
        ('host0', 29500)
    """
    endpoint = (endpoint or "").strip()
    if not endpoint:
        return "localhost", default_port
    if endpoint.startswith("[") and endpoint.endswith("]"):
        host, colon, port = endpoint, "", ""
    else:
        host, colon, port = endpoint.rpartition(":")
        if not colon:
            host = endpoint
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if colon and not (port.isdigit() and int(port) < 1 << 16):
        raise ValueError(
            f"The port number of the rendezvous endpoint '{endpoint}' must be an integer between 0 "
            "and 65535."
        )
    if not _HOST.fullmatch(host):
        raise ValueError(
            f"The hostname of the rendezvous endpoint '{endpoint}' must be a dot-separated list of "
            "labels, an IPv4 address, or an IPv6 address."
        )
    return host, int(port) if colon else default_port


__all__ = ["parse_rendezvous_endpoint"]
