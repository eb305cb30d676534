"""The generators of GPUs: the names of rushlight.cuda that are about them."""

from rushlight import cuda as _cuda

_NAMES = (
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed",
    "seed_all", "set_rng_state",
    "set_rng_state_all",
)  # fmt: skip
globals().update({name: getattr(_cuda, name) for name in _NAMES})
__all__ = list(_NAMES)
