"""Sharing tensors out among devices: there is one."""

__all__ = ["gather", "scatter", "scatter_kwargs"]


def _check(target_gpus):
    if len(target_gpus) != 1:
        raise RuntimeError(f"scatter: one device can be used, got {len(target_gpus)}")


def scatter(inputs, target_gpus, dim=0):
    """The inputs for each device: for the one that there is, all of them."""
    _check(target_gpus)
    return [inputs]


def scatter_kwargs(inputs, kwargs, target_gpus, dim=0):
    """The positional and the keyword arguments for each device."""
    _check(target_gpus)
    return (tuple(inputs),), (kwargs or {},)


def gather(outputs, target_device, dim=0):
    """Bring the outputs of all devices together."""
    _check(outputs)
    return outputs[0]
