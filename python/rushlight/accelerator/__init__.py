"""The current accelerator: there is none in a build without CUDA."""


def is_available():
    """Is there an accelerator?"""
    return False


def device_count():
    """How many accelerators there are."""
    return 0


def current_accelerator(check_available=False):
    """The device of the accelerator; None without one."""
    return None


def synchronize(device=None):
    """Waits for the accelerator."""
    raise RuntimeError("there is no accelerator to wait for")
