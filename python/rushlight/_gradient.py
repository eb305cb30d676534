"""The gradient of a sampled function."""

from __future__ import annotations

import rushlight
from rushlight._integers import integers, wrapped_dim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor


def gradient(
    input: Tensor, *, spacing: float = 1, dim: int | None = None, edge_order: int = 1
) -> tuple[Any, ...]:
    """Derivatives of a function along dims, from its values on a grid, by second-order differences.

    Args:
        input: the values.
        spacing: the distance between neighbours, for all dims or one for each; or, one tensor for
            each dim, the coordinates.
        dim: the dims to differentiate along, all by default.
        edge_order: 1 or 2, the order of the one-sided differences at the edges.

    Returns:
        A tuple of tensors of input's shape, one for each dim.

    Raises:
        RuntimeError: for a dim with less than edge_order + 1 values, or spacings that do not fit.

    Example::

        >>> rushlight.gradient(rushlight.tensor([1.0, 4.0, 9.0, 16.0]))[0].tolist()
        [3.0, 4.0, 6.0, 7.0]
    """
    if dim is None:
        dims = list(range(input.dim()))
    else:
        dims = list(integers(dim))
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    spacing = 1 if spacing is None else spacing
    spacings = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    if len(spacings) != len(dims):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or a list of as many as "
            f"dims, got {len(spacings)} spacings for {len(dims)} dims"
        )
    found = []
    for d in dims:
        place = wrapped_dim(d, input.dim())
        if place in found:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
        found.append(place)
    for d, step in zip(found, spacings):
        size = input.shape[d]
        if size < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1, got "
                f"{size} in dim {d}"
            )
        if isinstance(step, rushlight.Tensor) and step.dim():
            if step.device != input.device:
                raise RuntimeError(
                    "torch.gradient expected each tensor to be on the same device, but got devices "
                    f"{input.device} and {step.device}"
                )
            if tuple(step.shape) != (size,):
                raise RuntimeError(
                    f"torch.gradient expected {size} coordinates in dim {d}, got shape "
                    f"{tuple(step.shape)}"
                )
    return tuple(_along(input, d, step, edge_order) for d, step in zip(found, spacings))


def _along(f, d, spacing, edge_order):
    size = f.shape[d]

    def at(start, count=1):
        return f.narrow(d, start, count)

    def gap(start, count=1):
        """The distances from the places start, start + 1, ... to the next."""
        return steps.narrow(d, start, count) if steps is not None else spacing

    steps = None
    if isinstance(spacing, rushlight.Tensor) and spacing.dim():
        shape = [1] * f.dim()
        shape[d] = -1
        steps = spacing.diff().view(shape)
    parts = []
    if edge_order == 1:
        parts.append((at(1) - at(0)) / gap(0))
    else:
        parts.append(_one_sided(at(0), at(1), at(2), gap(0), gap(1)))
    if size > 2 and steps is None:
        parts.append((at(2, size - 2) - at(0, size - 2)) / (2 * spacing))
    elif size > 2:
        before, after = gap(0, size - 2), gap(1, size - 2)
        total = before + after
        parts.append(
            at(0, size - 2) * (-after / (before * total))
            + at(1, size - 2) * ((after - before) / (before * after))
            + at(2, size - 2) * (before / (after * total))
        )
    if edge_order == 1:
        parts.append((at(size - 1) - at(size - 2)) / gap(size - 2))
    else:
        parts.append(
            -_one_sided(at(size - 1), at(size - 2), at(size - 3), gap(size - 2), gap(size - 3))
        )
    return rushlight.cat(parts, d)


def _one_sided(f0, f1, f2, near, far):
    """The slope at f0 of the parabola through three values, `near` and `far` apart."""
    total = near + far
    return (
        f0 * (-(near + total) / (near * total))
        + f1 * (total / (near * far))
        - f2 * (near / (far * total))
    )


rushlight.overrides._make_overridable(globals(), "rushlight")
