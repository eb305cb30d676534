"""Tensors in other layouts than the plain one, made alike in any library of torch's API."""


def _ordered(t, order):
    """`t` on memory in which the dims lie in that order, the slowest first."""
    back = [order.index(d) for d in range(len(order))]
    return t.permute(order).contiguous().permute(back)


def _reversed(t):
    return _ordered(t, list(range(t.dim()))[::-1])


def _last_two_swapped(t):
    order = list(range(t.dim()))
    order[-1], order[-2] = order[-2], order[-1]
    return _ordered(t, order)


def _first_two_swapped(t):
    return _ordered(t, [1, 0, *range(2, t.dim())])


def _channels_last(t):
    return _ordered(t, [0, *range(2, t.dim()), 1])


def _every_other(t):
    wide = t.new_zeros((*t.shape[:-1], 2 * t.shape[-1]))
    return wide[..., ::2].copy_(t)


def _with_gaps(t):
    wide = t.new_zeros((*t.shape[:-1], t.shape[-1] + 3))
    return wide[..., 2:-1].copy_(t)


def _broadcast(t):
    return t[:1].contiguous().expand(t.shape)


def _odd_strides_of_ones(t):
    strides = [7 if size == 1 else step for size, step in zip(t.shape, t.stride())]
    return t.contiguous().as_strided(t.shape, strides)


LAYOUTS = {  # name: (what makes it, which tensors can have it)
    "reversed": (_reversed, lambda t: t.dim() >= 2),
    "last two swapped": (_last_two_swapped, lambda t: t.dim() >= 3),
    "first two swapped": (_first_two_swapped, lambda t: t.dim() >= 3),
    "channels_last": (_channels_last, lambda t: t.dim() in (3, 4, 5)),
    "every other": (_every_other, lambda t: t.dim() >= 1),
    "gaps": (_with_gaps, lambda t: t.dim() >= 2),
    "broadcast": (_broadcast, lambda t: t.dim() >= 2 and t.shape[0] > 1),
    "odd ones": (_odd_strides_of_ones, lambda t: 1 in t.shape),
}


def laid_out(t, layout):
    """`t` in that layout, or None where its shape has none such."""
    make, fits = LAYOUTS[layout]
    return make(t) if fits(t) else None
