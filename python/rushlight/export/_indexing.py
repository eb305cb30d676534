"""x[...] and x[...] = value as operations: select, slice, unsqueeze, index, index_put_, copy_."""

import rushlight
from rushlight import Tensor
from rushlight.export._symbols import is_symbol


def get_item(recorder, x, index):
    """x[index]."""
    view, places = _narrowed(recorder, x, index)
    if places:
        return recorder.call("index", (view, places))
    if view is x:
        return recorder.call("view_as", (x, x))  # always a new view
    return view


def set_item(recorder, x, index, value):
    """x[index] = value."""
    view, places = _narrowed(recorder, x, index)
    if not isinstance(value, Tensor):
        if not places:
            recorder.call("fill_", (view, value))
            return
        value = recorder.call("full", ((), value), dtype=x.dtype)
    if places:
        if value.dtype != x.dtype:
            value = recorder.call("to", (value, x.dtype))
        rank = _read_rank(view, places)
    else:
        rank = view.dim()
    while value.dim() > rank and value.size(0) == 1:
        value = recorder.call("select", (value, 0, 0))
    if places:
        recorder.call("index_put_", (view, places, value))
    else:
        recorder.call("copy_", (view, value))


def _read_rank(view, places):
    """The dims of what indices read."""
    given = [p for p in places if p is not None]
    broadcast = max([1 if _is_mask(p) else p.dim() for p in given])
    return view.dim() - sum(p.dim() if _is_mask(p) else 1 for p in given) + broadcast


def _is_mask(t):
    return t.dtype in (rushlight.bool, rushlight.uint8)


def _dims_taken(i):
    if i is None or i is Ellipsis or isinstance(i, bool):
        return 0
    return i.dim() if isinstance(i, Tensor) and _is_mask(i) else 1


def _is_whole(s):
    return (
        (s.start is None or (not is_symbol(s.start) and s.start == 0))
        and s.stop is None
        and (s.step in (None, 1))
    )


def _narrowed(recorder, x, index):
    """(the view that the plain indices make, tensors of the rest for the dims of it)."""
    if isinstance(index, list) and any(isinstance(i, Tensor) for i in index):
        index = tuple(index)  # torch deprecates it, and takes it so
    items = list(index) if isinstance(index, tuple) else [index]
    taken = sum(map(_dims_taken, items))
    if taken > x.dim():
        raise IndexError(f"too many indices for tensor of dimension {x.dim()}")
    view, dim, places = x, 0, []
    for i in items:
        if i is Ellipsis:
            dim += x.dim() - taken
        elif i is None:
            view = recorder.call("unsqueeze", (view, dim))
            dim += 1
        elif isinstance(i, bool):
            raise NotImplementedError("export: a bool as an index of a tensor is not recorded")
        elif isinstance(i, slice):
            if not _is_whole(i):
                view = recorder.call("slice", (view, dim, i.start, i.stop, i.step or 1))
            dim += 1
        elif isinstance(i, Tensor):
            if i.dim() == 0 and not _is_mask(i):
                # torch reads the element here; as an index it stays in the graph.
                flat = recorder.call("reshape", (i, (1,)))
                view = recorder.call("index_select", (view, dim, flat))
                view = recorder.call("squeeze.dim", (view, dim))
                continue
            places += [None] * (dim - len(places)) + [i]
            dim += i.dim() if _is_mask(i) else 1
        elif isinstance(i, (list, tuple, range)):
            which = rushlight.tensor(list(i))
            recorder._data(which)
            places += [None] * (dim - len(places)) + [which]
            dim += which.dim() if _is_mask(which) else 1
        else:
            view = recorder.call("select", (view, dim, i))
    return view, places
