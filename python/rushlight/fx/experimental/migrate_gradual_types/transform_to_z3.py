"""Solving constraints on types by z3, which is not done here."""

from rushlight import _absent

_REASON = (
    "constraints on types are solved by z3, which is not used: "
    "run ShapeProp for the sizes of all values"
)
_NAMES = (
    "evaluate_conditional_with_constraints",
    "iterate_till_fixed_point",
    "transform_algebraic_expression",
    "transform_all_constraints",
    "transform_all_constraints_trace_time",
    "transform_dimension",
    "transform_to_z3",
    "transform_var",
)
_ABSENT = _absent.refused(dict.fromkeys(_NAMES, _REASON))
globals().update(_ABSENT)

__all__ = list(_ABSENT)
