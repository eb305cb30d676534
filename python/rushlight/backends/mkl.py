"""Intel MKL, which is not used: OpenBLAS and oneDNN are."""


def is_available():
    """Is it there?"""
    return False
