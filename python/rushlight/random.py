"""The global random number generator of the CPU, and of GPUs where there are any."""

from __future__ import annotations

import contextlib
import sys

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight import Generator, Tensor

default_generator: Any = rushlight.default_generator


def _loaded(device_type):
    """Return the subpackage of a device if the program has loaded it and there is such a device.

    A subpackage that is loaded later takes its first seed from `initial_seed()`.
    """
    module = sys.modules.get(f"rushlight.{device_type}")
    return module if module is not None and module.is_available() else None


def manual_seed(seed: int) -> Generator:
    """Seed all global generators and return that of the CPU.

    Args:
        seed: any 64-bit integer; a negative one counts from 2**64.

    Example:
        >>> generator = rushlight.manual_seed(0)
        >>> rushlight.rand(1)
        tensor([0.4963])
    """
    seed = int(seed)
    _seed_devices(seed)
    return rushlight.default_generator.manual_seed(seed)


def seed() -> int:
    """Seed all global generators from the operating system and return the seed."""
    drawn = rushlight.default_generator.seed()
    _seed_devices(drawn)
    return drawn


def _seed_devices(seed):
    cuda = _loaded("cuda")
    if cuda is not None:
        cuda.manual_seed_all(seed)


def initial_seed() -> int:
    """Return the last seed of the CPU's global generator."""
    return rushlight.default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Return the state of the CPU's global generator as a uint8 tensor."""
    return rushlight.default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Go back to a state from `get_rng_state`."""
    rushlight.default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str = "cuda") -> Iterator[Any]:
    """Leave the global generators after a `with` block as they were before.

    Args:
        devices: GPUs whose generators are included, by default all.
        enabled: False makes the block an ordinary one.
        device_type: kind of the devices; tensors on meta draw nothing.
    """
    if not enabled:
        yield
        return
    kind = rushlight.device(device_type).type
    module = None if kind == "cpu" else _loaded(kind)
    if devices is None or kind in ("cpu", "meta"):  # the CPU's is included in any case
        devices = range(module.device_count()) if module is not None else ()
    devices = list(devices)
    if devices and module is None:
        raise RuntimeError(f"fork_rng: there is no device of type {device_type!r}")
    state = get_rng_state()
    device_states = [module.get_rng_state(device) for device in devices]
    try:
        yield
    finally:
        set_rng_state(state)
        for device, device_state in zip(devices, device_states, strict=True):
            module.set_rng_state(device_state, device)


def thread_safe_generator() -> Generator | None:
    """The generator of the `DataLoader` worker that this thread is; None for any other thread,
    whose operations take the global one.
    """
    from rushlight.utils.data import get_worker_info

    rng = getattr(get_worker_info(), "rng", None)
    return None if rng is None else rng.torch_generator
