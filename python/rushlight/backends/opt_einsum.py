"""opt_einsum, which is not used: einsum multiplies from left to right."""

enabled = False
strategy = None


def is_available():
    """Is it used?"""
    return False
