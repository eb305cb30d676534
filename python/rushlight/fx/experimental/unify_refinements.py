"""Solving statements about types of graphs, which is not done here."""

from rushlight import _absent

_NAMES = (
    "check_for_type_equality",
    "convert_eq",
    "infer_symbolic_types",
    "infer_symbolic_types_single_pass",
    "substitute_all_types",
    "substitute_solution_one_type",
    "unify_eq",
)
_ABSENT = _absent.refused(
    dict.fromkeys(
        _NAMES,
        "there is no type checker of graphs: run ShapeProp for the sizes of all values",
    )
)
globals().update(_ABSENT)

__all__ = list(_ABSENT)
