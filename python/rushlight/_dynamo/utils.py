"""What programs ask about compilation."""


def is_compile_supported(device_type):
    """Would `torch.compile` make a program faster there? It runs functions as they are."""
    return False
