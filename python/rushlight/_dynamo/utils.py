"""What programs ask about compilation."""

from __future__ import annotations

import contextlib
import warnings
from collections import Counter, defaultdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rushlight.types import Device


# What a compiler would count, by kind: nothing counts here.
counters: defaultdict[str, Counter[str]] = defaultdict(Counter)


def is_compile_supported(device_type: Device) -> bool:
    """Would `torch.compile` make a program faster there? It runs functions as they are."""
    return False


_warnings: set[str] = set()


def warn_once(msg: str, stacklevel: int = 1) -> None:
    """Warn, if nothing has warned with these words before."""
    if msg in _warnings:
        return
    _warnings.add(msg)
    warnings.warn(msg, stacklevel=stacklevel + 1)


@contextlib.contextmanager
def disable_cache_limit() -> Iterator[None]:
    """A context in which functions may be compiled any number of times: none is."""
    yield
