"""Whether Triton can make kernels: never, as nothing is compiled."""


def has_triton_package() -> bool:
    """Is Triton there to be used? It is not used."""
    return False


def has_triton() -> bool:
    """Can Triton make kernels for a device that is there?"""
    return False


def has_triton_tma() -> bool:
    """Has it the newer instructions that copy memory?"""
    return False
