"""The generators of GPUs: Philox, a seed and a count of numbers drawn for each."""

from __future__ import annotations

import os

import rushlight
from rushlight import _C
from rushlight.cuda._device import device_count, index_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_cuda = _C._cuda

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed",
    "seed_all", "set_rng_state", "set_rng_state_all",
]  # fmt: skip


def get_rng_state(device: str = 'cuda') -> Any:
    """Return the state of the generator of a GPU: a ByteTensor of 16 elements."""
    seed, offset = _cuda.rng_state(index_of(device, "get_rng_state"))
    state = seed.to_bytes(8, "little") + offset.to_bytes(8, "little")
    return rushlight.tensor(list(state), dtype=rushlight.uint8)


def get_rng_state_all() -> Any:
    """Return the states of the generators of all GPUs."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: Any, device: str = 'cuda') -> None:
    """Set the state of the generator of a GPU."""
    state = bytes(new_state.tolist())
    if len(state) != 16:
        raise RuntimeError(f"cuda.set_rng_state: expected 16 bytes, got {len(state)}")
    index = index_of(device, "set_rng_state")
    _cuda.init()
    _cuda.set_rng_state(
        index, int.from_bytes(state[:8], "little"), int.from_bytes(state[8:], "little")
    )


def set_rng_state_all(new_states: Any) -> None:
    """Set the states of the generators of all GPUs."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seed the generator of the current GPU; without one nothing happens."""
    if device_count():
        _cuda.set_rng_state(_cuda.current_device(), int(seed) % 2**64, 0)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all GPUs."""
    for index in range(device_count()):
        _cuda.set_rng_state(index, int(seed) % 2**64, 0)


def seed() -> None:
    """Seed the generator of the current GPU from the system's entropy."""
    manual_seed(int.from_bytes(os.urandom(8), "little"))


def seed_all() -> None:
    """Seed the generators of all GPUs alike, from the system's entropy."""
    manual_seed_all(int.from_bytes(os.urandom(8), "little"))


def initial_seed() -> Any:
    """Return the seed of the current GPU's generator."""
    return _cuda.rng_state(index_of(None, "initial_seed"))[0]
