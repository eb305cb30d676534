"""Apple's GPUs, which are not supported."""


def is_built():
    """Was the library built for them?"""
    return False


def is_available():
    """Can tensors live there?"""
    return False


def is_macos13_or_newer(minor=0):
    """Is this macOS 13 or newer?"""
    return False
