"""How processes find each other: URLs that name a store."""

from __future__ import annotations

import os
import urllib.parse

from rushlight.distributed._stores import DEFAULT_TIMEOUT, FileStore, PrefixStore
from rushlight.distributed._tcp_store import TCPStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_handlers = {}


def register_rendezvous_handler(scheme: Any, handler: Any) -> None:
    """Let a function serve the URLs of a scheme.

    Args:
        scheme: what stands before "://".
        handler: handler(url, timeout=..., **options) yields (store, rank, world size).
    """
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(url: Any, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Any:
    """Yield (store, rank, world size) for a URL: env://, tcp://host:port or file:///path.

    Args:
        url: where the processes meet.
        rank, world_size: instead of those in the URL (`?rank=0&world_size=2`) or environment.
        kwargs: `timeout`, a timedelta.
    """
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    for name, value in (("rank", rank), ("world_size", world_size)):
        if not isinstance(value, int):
            raise RuntimeError(f"`{name}` must be an integer. {value}")
    url = url.decode() if isinstance(url, bytes) else url
    parts = urllib.parse.urlparse(url)
    if parts.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    query = dict(urllib.parse.parse_qsl(parts.query))
    given_twice = [name for name in ("rank", "world_size") if name in query]
    if (rank != -1 or world_size != -1) and given_twice:
        raise AssertionError(
            f"rendezvous: The url: {url} has node-specific arguments ({', '.join(given_twice)}) "
            f"already, and rank={rank}, world_size={world_size} are given too"
        )
    if parts.path.startswith("//"):  # file:////path
        parts = parts._replace(path="/" + parts.path.lstrip("/"))
    if rank != -1:
        query["rank"] = str(rank)
    if world_size != -1:
        query["world_size"] = str(world_size)
    url = parts._replace(query=urllib.parse.urlencode(query)).geturl()
    return _handlers[parts.scheme](url, **kwargs)


def _split(url):
    parts = urllib.parse.urlparse(url)
    return parts, dict(urllib.parse.parse_qsl(parts.query))


def _number(query, key, scheme):
    if key not in query:
        what = "rank parameter" if key == "rank" else "world size parameter"
        raise ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: "
                         f"{what} missing")  # fmt: skip
    return int(query[key])


def _by_file(url, timeout=DEFAULT_TIMEOUT):
    parts, query = _split(url)
    path = urllib.parse.unquote(parts.netloc + parts.path)
    if not path:
        raise ValueError(
            "Error initializing torch.distributed using file:// rendezvous: path missing"
        )
    rank, size = _number(query, "rank", "file"), _number(query, "world_size", "file")
    store = FileStore(path, size)
    store.set_timeout(timeout)
    yield store, rank, size


def _by_tcp(url, timeout=DEFAULT_TIMEOUT):
    parts, query = _split(url)
    if not parts.port:
        raise ValueError(
            "Error initializing torch.distributed using tcp:// rendezvous: port number missing"
        )
    rank, size = _number(query, "rank", "tcp"), _number(query, "world_size", "tcp")
    yield _tcp_store(parts.hostname, parts.port, rank, size, timeout), rank, size


def _tcp_store(host, port, rank, size, timeout):
    """The store at an address: that of the launcher if it keeps one there, else rank 0's."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
        store = TCPStore(host, port, size, timeout=timeout, wait_for_workers=False)
        return PrefixStore(f"/worker/attempt_{attempt}", store)
    return TCPStore(
        host, port, size, is_master=rank == 0, timeout=timeout, wait_for_workers=False,
        multi_tenant=True,
    )  # fmt: skip


def _by_environment(url, timeout=DEFAULT_TIMEOUT):
    _, query = _split(url)

    def variable(name):
        if not os.environ.get(name):
            raise ValueError(
                "Error initializing torch.distributed using env:// rendezvous: environment "
                f"variable {name} expected, but not set"
            )
        return os.environ[name]

    rank = int(query["rank"] if "rank" in query else variable("RANK"))
    size = int(query["world_size"] if "world_size" in query else variable("WORLD_SIZE"))
    host, port = variable("MASTER_ADDR"), int(variable("MASTER_PORT"))
    yield _tcp_store(host, port, rank, size, timeout), rank, size


register_rendezvous_handler("tcp", _by_tcp)
register_rendezvous_handler("env", _by_environment)
register_rendezvous_handler("file", _by_file)

__all__ = ["register_rendezvous_handler", "rendezvous"]
