"""Operations on graphs: cond, while_loop and scan, as nodes call them."""

import rushlight
from rushlight import _C
from rushlight.library import _operator


class HigherOrder:
    """An operation whose arguments are graphs and their operands.

    A subclass with a `__call__` of its own needs no function.
    """

    def __init__(self, name, function=None):
        self.__name__ = self.__qualname__ = name
        self.__module__ = "torch.ops.higher_order"
        self._function = function

    def __call__(self, *args, **kwargs):
        if _C._has_torch_function(()):
            return _C._handle_torch_function(self, (), args, kwargs)
        if self._function is None:
            raise NotImplementedError(f"{self.__name__}: the operation has no implementation")
        return self._function(*args, **kwargs)

    def __repr__(self):
        return f"<HigherOrderOperator {self.__name__}>"

    __str__ = __repr__

    def __reduce__(self):
        return higher_order, (self.__name__,)

    def __deepcopy__(self, memo):
        return self


def _cond(pred, true_graph, false_graph, operands):
    return (true_graph if pred else false_graph)(*operands)


def _while_loop(condition, body, carried, operands):
    carried = tuple(carried)
    while condition(*carried, *operands)[0]:
        carried = tuple(body(*carried, *operands))
    return carried


def _scan(combine, carried, xs, operands, count):
    """Graphs take (carried, slices of xs, operands) and return (carried, outputs)."""
    carried, length = tuple(carried), xs[0].size(0)
    rows = []
    for i in range(length):
        result = combine(*carried, *(x.select(0, i) for x in xs), *operands)
        carried = tuple(result[:count])
        rows.append(result[count:])
    return (*carried, *(rushlight.stack(parts, 0) for parts in zip(*rows)))


_ALL = {"cond": HigherOrder("cond", _cond), "while_loop": HigherOrder("while_loop", _while_loop),
        "scan": HigherOrder("scan", _scan)}  # fmt: skip

for _one in _ALL.values():
    setattr(_operator.namespace("higher_order"), _one.__name__, _one)


def higher_order(name):
    """The operation of a name, or None."""
    return _ALL.get(name)
