"""The classes of the named tuples that operations return, by the operation's name."""

from __future__ import annotations

from collections import namedtuple

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Arguments after the input; an operation makes its class when it first runs. In the names, "_" is
# for "." after linalg.
_ARGUMENTS = {
    "aminmax": (), "cummax": (0,), "cummin": (0,), "frexp": (), "geqrf": (), "kthvalue": (1, 0),
    "max": (0,), "median": (0,), "min": (0,), "mode": (0,), "nanmedian": (0,), "qr": (),
    "slogdet": (), "sort": (), "svd": (), "topk": (1,),
    "linalg_cholesky_ex": (), "linalg_eig": (), "linalg_eigh": (), "linalg_inv_ex": (),
    "linalg_ldl_factor": (), "linalg_ldl_factor_ex": (), "linalg_lu": (), "linalg_lu_factor": (),
    "linalg_lu_factor_ex": (), "linalg_qr": (), "linalg_slogdet": (),
    "linalg_svd": (),
}  # fmt: skip
_BESIDE_A_MATRIX = {
    "linalg_solve_ex": lambda: rushlight.ones(1, 1),
    "lu_unpack": lambda: rushlight.ones(1, dtype=rushlight.int32),
    "triangular_solve": lambda: rushlight.ones(1, 1),
}
_MADE_HERE = ("histogram", "histogramdd", "linalg_lstsq")


def _named(name, fields):
    """The class of a result that Python code makes; printed as those of the core are."""
    base = namedtuple(name, fields)

    def __repr__(self):
        shown = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self))
        return f"torch.return_types.{name}(\n{shown})"

    members = {
        "__slots__": (), "__module__": "torch.return_types", "__repr__": __repr__,
        "n_fields": len(fields), "n_sequence_fields": len(fields), "n_unnamed_fields": 0,
    }  # fmt: skip
    return type(name, (base,), members)


histogram: Any = _named("histogram", ("hist", "bin_edges"))
histogramdd: Any = _named("histogramdd", ("hist", "bin_edges"))
linalg_lstsq: Any = _named("linalg_lstsq", ("solution", "residuals", "rank", "singular_values"))
_lu_with_info = _named("_lu_with_info", ("LU", "pivots", "info"))


def __getattr__(name: str) -> Any:
    operation = name.removesuffix("_out")  # with out= the same class is returned
    if operation in _MADE_HERE:
        cls = globals()[operation]
    elif operation in _ARGUMENTS or operation in _BESIDE_A_MATRIX:
        inner = operation.removeprefix("linalg_")
        home = rushlight if inner == operation else rushlight.linalg
        other = _BESIDE_A_MATRIX.get(operation)
        arguments = _ARGUMENTS[operation] if other is None else (other(),)
        cls = type(getattr(home, inner)(rushlight.ones(1, 1), *arguments))
    else:
        raise AttributeError(f"module 'rushlight.return_types' has no attribute {name!r}")
    globals()[name] = cls
    return cls


def __dir__() -> list[str]:
    names = [*_ARGUMENTS, *_BESIDE_A_MATRIX, *_MADE_HERE]
    return sorted([*names, *(f"{name}_out" for name in names)])
