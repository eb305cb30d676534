"""How messages travel between the loader and its worker processes.

Messages are pickled where they are made, not in a background thread, so that an object that cannot
be pickled is an error of the worker that made it and reaches the user. `ForkingPickler` knows the
reductions that a module has registered for sharing objects between processes.
"""

import pickle
from multiprocessing.reduction import ForkingPickler


def pack(message):
    """Return `message` as bytes."""
    return bytes(ForkingPickler.dumps(message, pickle.HIGHEST_PROTOCOL))


def unpack(data):
    """Return the message in `data`."""
    return pickle.loads(data)
