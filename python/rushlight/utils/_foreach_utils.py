"""Lists of tensors by device and dtype, for operations on lists."""

import rushlight
from rushlight import Tensor


def _get_foreach_kernels_supported_devices():
    """The kinds of devices with operations on lists."""
    return ["cuda", "xpu", "mtia", rushlight._C._get_privateuse1_backend_name()]


def _get_fused_kernels_supported_devices():
    """The kinds of devices with optimizers in one call."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia",
            rushlight._C._get_privateuse1_backend_name()]  # fmt: skip


def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
    """The lists, taken apart by the device and dtype of the first list's tensors.

    Returns:
        A dict from (device, dtype) to (lists, places of their elements in the given ones).
    """
    groups = {}
    for place, first in enumerate(tensorlistlist[0]):
        key = (first.device, first.dtype)
        lists, places = groups.setdefault(key, ([[] for _ in tensorlistlist], []))
        for part, tensors in zip(lists, tensorlistlist):
            part.append(tensors[place] if tensors else None)
        if with_indices:
            places.append(place)
    return groups


def _device_has_foreach_support(device):
    """Are operations on lists better there than loops?"""
    return device.type in (*_get_foreach_kernels_supported_devices(), "cpu")


def _has_foreach_support(tensors, device):
    """Are all of them plain tensors on such a device?"""
    return _device_has_foreach_support(device) and all(t is None or type(t) is Tensor
                                                       for t in tensors)  # fmt: skip
