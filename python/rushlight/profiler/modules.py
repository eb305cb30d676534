"""The paths of modules, by which events and errors name them."""


def paths_of(root):
    """(path, module) of a module that the program calls, and of those inside of it.

    The root goes by the name of its class, the others by their attributes: layer2.0.conv1.
    """
    return [(path or type(root).__name__, module) for path, module in root.named_modules()]
