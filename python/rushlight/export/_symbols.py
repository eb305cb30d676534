"""Numbers that a graph computes as it runs: sizes that may change, and elements of tensors.

Each has the value of the run that was recorded (its hint) and the node that computes it. Arithmetic
makes new ones, a comparison answers by the hints and notes a guard, and whatever needs a plain
number gets the hint: that fixes it, and the check of the recording (see `_record`) finds out where.
"""

import operator

import rushlight


class _Symbol:
    """A number with a node; `expression` is how guards print it."""

    def __init__(self, recorder, node, hint, expression):
        self.recorder, self.node, self.hint, self.expression = recorder, node, hint, expression

    def __repr__(self):
        return self.expression

    __str__ = __repr__

    def __hash__(self):
        return hash(self.hint)

    def __format__(self, spec):
        return format(self.hint if spec else self.expression, spec)

    def _fixed(self):
        self.recorder.fix(self)
        return self.hint

    def __bool__(self):
        return self._compared(operator.ne, 0)

    def __float__(self):
        return float(self._fixed())

    def __int__(self):
        return int(self._fixed())

    def _compared(self, function, other):
        right = other.hint if isinstance(other, _Symbol) else other
        if not isinstance(right, (int, float)):
            return NotImplemented
        answer = function(self.hint, right)
        self.recorder.guard(function, self, other, answer)
        return answer


def _arithmetic(name, sign, reflected):
    function = getattr(operator, name)

    def method(self, other):
        if not isinstance(other, (int, float, _Symbol)) or isinstance(other, bool):
            return NotImplemented
        a, b = (other, self) if reflected else (self, other)
        return self.recorder.number(function, (a, b), f"({_text(a)} {sign} {_text(b)})")

    return method


def _text(v):
    return v.expression if isinstance(v, _Symbol) else repr(v)


def _comparison(name):
    function = getattr(operator, name)
    return lambda self, other: self._compared(function, other)


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "truediv": "/", "mod": "%",
          "pow": "**"}  # fmt: skip
for _name, _sign in _SIGNS.items():
    setattr(_Symbol, f"__{_name}__", _arithmetic(_name, _sign, False))
    setattr(_Symbol, f"__r{_name}__", _arithmetic(_name, _sign, True))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(_Symbol, f"__{_name}__", _comparison(_name))
_Symbol.__neg__ = lambda self: self.recorder.number(operator.neg, (self,), f"(-{self.expression})")
_Symbol.__pos__ = lambda self: self
_Symbol.__abs__ = lambda self: self if self >= 0 else -self
_Symbol.__divmod__ = lambda self, other: (self // other, self % other)
_Symbol.__rdivmod__ = lambda self, other: (other // self, other % self)


class SymInt(_Symbol, rushlight.SymInt):
    """An integer: to `isinstance`, an int too."""

    @property
    def __class__(self):
        return int

    def __index__(self):
        return self._fixed()

    def __trunc__(self):
        return self

    __floor__ = __ceil__ = __trunc__

    def __round__(self, ndigits=None):
        return self if ndigits is None or ndigits >= 0 else round(self._fixed(), ndigits)

    def is_integer(self):
        return True


class SymFloat(_Symbol, rushlight.SymFloat):
    """A float: to `isinstance`, a float too."""

    @property
    def __class__(self):
        return float

    def __trunc__(self):
        from rushlight.export._record import to_int

        return self.recorder.number(to_int(), (self,), f"int({self.expression})")

    def __floor__(self):
        return (self // 1).__trunc__()

    def __ceil__(self):
        return -((-self).__floor__())

    def __round__(self, ndigits=None):
        return round(self._fixed(), ndigits)


def is_symbol(v):
    """Is it a number that the graph computes?"""
    return issubclass(type(v), _Symbol)


def hint_of(v):
    """The value of the recorded run."""
    return v.hint if is_symbol(v) else v


# isinstance(v, _Symbol) looks at the true type first, so it holds for both.


def symbol_of(recorder, node, hint, expression):
    """A symbol of the hint's type."""
    kind = SymFloat if type(hint) is float else SymInt
    return kind(recorder, node, hint, expression)
