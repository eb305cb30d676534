"""The generators of GPUs: Philox, a seed and a count of numbers drawn for each."""

from __future__ import annotations

import os

from rushlight import _C
from rushlight.cuda._device import device_count, index_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from rushlight import Tensor
    from rushlight.types import Device

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed",
    "seed_all", "set_rng_state", "set_rng_state_all",
]  # fmt: skip


def _generator(device, op):
    index = index_of(device, op)
    _C._cuda.init()
    return _C._default_cuda_generator(index)


def get_rng_state(device: Device = "cuda") -> Tensor:
    """Return the state of the generator of a GPU: a ByteTensor of 16 elements."""
    return _generator(device, "get_rng_state").get_state()


def get_rng_state_all() -> list[Tensor]:
    """Return the states of the generators of all GPUs."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: Tensor, device: Device = "cuda") -> None:
    """Set the state of the generator of a GPU."""
    _generator(device, "set_rng_state").set_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set the states of the generators of all GPUs."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def _get_rng_state_offset(device: Device = "cuda") -> int:
    """Return how far the generator of a GPU has drawn."""
    return _generator(device, "_get_rng_state_offset").get_offset()


def _set_rng_state_offset(offset: int, device: Device = "cuda") -> None:
    """Let the generator of a GPU go on from there."""
    _generator(device, "_set_rng_state_offset").set_offset(offset)


def manual_seed(seed: int) -> None:
    """Seed the generator of the current GPU; without one nothing happens."""
    if device_count():
        _C._default_cuda_generator(_C._cuda.current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all GPUs."""
    for index in range(device_count()):
        _C._default_cuda_generator(index).manual_seed(int(seed))


def seed() -> None:
    """Seed the generator of the current GPU from the system's entropy."""
    manual_seed(int.from_bytes(os.urandom(8), "little"))


def seed_all() -> None:
    """Seed the generators of all GPUs alike, from the system's entropy."""
    manual_seed_all(int.from_bytes(os.urandom(8), "little"))


def initial_seed() -> int:
    """Return the seed of the current GPU's generator."""
    return _generator(None, "initial_seed").initial_seed()
