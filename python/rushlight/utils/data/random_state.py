"""The state of all random number generators that datasets and samplers draw from by default.

A state is a dict of plain values and tensors, so that it can be saved with a model.
"""

import random
import sys

import rushlight


def capture():
    """Return the state of the global generators of rushlight, Python and, if loaded, NumPy."""
    state = {"tensor": rushlight.get_rng_state(), "python": random.getstate()}
    if "numpy" in sys.modules:
        kind, keys, *rest = sys.modules["numpy"].random.get_state()
        state["numpy"] = (kind, keys.tolist(), *rest)
    return state


def restore(state):
    """Go back to a state from `capture`."""
    rushlight.set_rng_state(state["tensor"])
    version, keys, gauss = state["python"]
    random.setstate((version, tuple(keys), gauss))
    if "numpy" in state:
        import numpy

        numpy.random.set_state(tuple(state["numpy"]))


def same(a, b):
    """Say whether two states are equal."""
    if a.keys() != b.keys() or not rushlight.equal(a["tensor"], b["tensor"]):
        return False
    return a["python"] == b["python"] and a.get("numpy") == b.get("numpy")
