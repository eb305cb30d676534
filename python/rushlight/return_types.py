"""The classes of the named tuples that operations return, by the operation's name."""

from __future__ import annotations

from collections import namedtuple

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Arguments after the input; an operation makes its class when it first runs.
_ARGUMENTS = {
    "aminmax": (), "cummax": (0,), "cummin": (0,), "frexp": (), "geqrf": (), "kthvalue": (1, 0),
    "max": (0,), "median": (0,), "min": (0,), "mode": (0,), "nanmedian": (0,), "qr": (),
    "slogdet": (), "sort": (), "svd": (), "topk": (1,),
}  # fmt: skip


def _named(name, fields):
    """The class of a result that Python code makes; printed as those of the core are."""
    base = namedtuple(name, fields)

    def __repr__(self):
        shown = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self))
        return f"torch.return_types.{name}(\n{shown})"

    members = {"__slots__": (), "__module__": "torch.return_types", "__repr__": __repr__}
    return type(name, (base,), members)


histogram: Any = _named("histogram", ("hist", "bin_edges"))
histogramdd: Any = _named("histogramdd", ("hist", "bin_edges"))
linalg_lstsq: Any = _named("linalg_lstsq", ("solution", "residuals", "rank", "singular_values"))
_lu_with_info = _named("_lu_with_info", ("LU", "pivots", "info"))


def __getattr__(name: str) -> Any:
    if name not in _ARGUMENTS or not hasattr(rushlight, name):
        raise AttributeError(f"module 'rushlight.return_types' has no attribute {name!r}")
    cls = type(getattr(rushlight, name)(rushlight.ones(1, 1), *_ARGUMENTS[name]))
    globals()[name] = cls
    return cls


def __dir__() -> list[str]:
    return sorted([*_ARGUMENTS, "histogram", "histogramdd", "linalg_lstsq"])
