"""The state of all random number generators that datasets and samplers draw from by default.

A state is a dict of plain values and tensors, so that it can be saved with a model.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import rushlight
from rushlight import Generator, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from numpy.typing import NDArray


def capture(rng: Any = None) -> Any:
    """Return the state of the global generators of rushlight, Python and, if loaded, NumPy.

    Args:
        rng: the `RNG` of a worker thread, whose generators take the place of the global ones.
    """
    if rng is not None:
        return rng.capture()
    state = {"tensor": rushlight.get_rng_state(), "python": random.getstate()}
    if "numpy" in sys.modules:
        kind, keys, *rest = sys.modules["numpy"].random.get_state()
        state["numpy"] = (kind, keys.tolist(), *rest)
    return state


def restore(state: Any, rng: RNG | None = None) -> None:
    """Go back to a state from `capture`."""
    if rng is not None:
        rng.restore(state)
        return
    rushlight.set_rng_state(state["tensor"])
    _restore_python(random, state["python"])
    if "numpy" in state:
        import numpy

        numpy.random.set_state(tuple(state["numpy"]))


def _restore_python(generator, state):
    version, keys, gauss = state
    generator.setstate((version, tuple(keys), gauss))


def same(a: Tensor, b: dict[str, Any]) -> bool:
    """Say whether two states are equal."""
    if a.keys() != b.keys() or not rushlight.equal(a["tensor"], b["tensor"]):
        return False
    return a["python"] == b["python"] and a.get("numpy") == b.get("numpy")


def numpy_seed(base_seed: int, index: int) -> NDArray[Any]:
    """The words from which NumPy's generator of worker number `index` is seeded, as in torch."""
    import numpy

    words = [index, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return numpy.random.SeedSequence(words).generate_state(4)


class RNG:
    """Generators that belong to one worker thread.

    Attributes:
        random_generator: a `random.Random`.
        torch_generator: a `Generator`, the default one in this thread.
        numpy_generator: a `numpy.random.RandomState`, or None without NumPy.

    They are seeded as the global generators of worker process number `index`.
    """

    def __init__(self, base_seed: int, index: int) -> None:
        self.random_generator: Any = random.Random(base_seed + index)
        self.torch_generator: Generator = rushlight.Generator().manual_seed(base_seed + index)
        self.numpy_generator = None
        try:
            import numpy
        except ImportError:
            return
        self.numpy_generator: Any = numpy.random.RandomState(numpy_seed(base_seed, index))

    def capture(self) -> Any:
        state = {
            "tensor": self.torch_generator.get_state(),
            "python": self.random_generator.getstate(),
        }
        if self.numpy_generator is not None:
            kind, keys, *rest = self.numpy_generator.get_state()
            state["numpy"] = (kind, keys.tolist(), *rest)
        return state

    def restore(self, state: Any) -> None:
        self.torch_generator.set_state(state["tensor"])
        _restore_python(self.random_generator, state["python"])
        if "numpy" in state:
            self.numpy_generator.set_state(tuple(state["numpy"]))
