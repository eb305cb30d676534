"""Variables of constraints on types, which nothing solves here."""

from rushlight import _absent

_REASON = (
    "constraints on types are solved by z3, which is not used: "
    "run ShapeProp for the sizes of all values"
)
_NAMES = (
    "gen_bvar",
    "gen_dvar",
    "gen_nat_constraints",
    "gen_tensor_dims",
    "gen_tvar",
)
_ABSENT = _absent.refused(dict.fromkeys(_NAMES, _REASON))
globals().update(_ABSENT)

__all__ = list(_ABSENT)
