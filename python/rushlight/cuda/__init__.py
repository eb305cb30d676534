"""CUDA, answered truthfully by a build without it: there is no device."""


def is_available():
    """Can tensors live on a GPU?"""
    return False


def is_initialized():
    """Has CUDA been started?"""
    return False


def device_count():
    """How many GPUs there are."""
    return 0


def manual_seed(seed):
    """Seeds the generator of the current GPU; there is none to seed."""


def manual_seed_all(seed):
    """Seeds the generators of all GPUs; there are none to seed."""


def empty_cache():
    """Gives cached GPU memory back; there is none."""


def synchronize(device=None):
    """Waits for the GPU."""
    raise RuntimeError("rushlight was built without CUDA: there is no device to wait for")
