"""What the `extra_repr` of layers with many options is made of."""


def _options(layer, *names):
    """The attributes of these names, as "name=value, ..."."""
    return ", ".join(f"{name}={getattr(layer, name)}" for name in names)


def _changed_options(layer, **defaults):
    """A list of "name=value" for the attributes that differ from what they are by default."""
    return [
        f"{name}={getattr(layer, name)}"
        for name, default in defaults.items()
        if getattr(layer, name) != default
    ]
