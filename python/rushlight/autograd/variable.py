"""`Variable`, the name that tensors with gradients had before they became one with `Tensor`.

`Variable(x)` gives a tensor. The flag `volatile`, for inference, is kept with its rules: it may not
be combined with `requires_grad`; an op with a single volatile input has volatile outputs, whatever
the flags of its other inputs; and a volatile result requires no gradient and saves nothing for
backward. So a volatile input is enough to evaluate a model without touching its parameters.
"""

import rushlight


class _VariableMeta(type):
    def __instancecheck__(cls, instance):
        return isinstance(instance, rushlight.Tensor)


class Variable(metaclass=_VariableMeta):
    """Return a leaf that shares the values of `data`.

    Args:
        data: a tensor.
        requires_grad: record the ops that use it.
        volatile: for inference only, see above.
    """

    def __new__(cls, data=None, requires_grad=False, volatile=False):
        if data is None:
            data = rushlight.empty(0)
        if not isinstance(data, rushlight.Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        if volatile and requires_grad:
            raise ValueError("Variable can't be volatile and require_grad at the same time!")
        if volatile:
            return data.detach().as_subclass(_Volatile)
        return _plain(data).detach().requires_grad_(requires_grad)


def _plain(tensor):
    return tensor.as_subclass(rushlight.Tensor) if isinstance(tensor, _Volatile) else tensor


class _Volatile(rushlight.Tensor):
    """A tensor whose flag spreads to everything that is computed from it."""

    volatile = True

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        with rushlight.no_grad(), rushlight._C.DisableTorchFunctionSubclass():
            return _spread(function(*args, **(kwargs or {})))

    def backward(self, *args, **kwargs):
        raise RuntimeError("calling backward on a volatile variable")

    @property
    def data(self):
        return _plain(self).data

    def requires_grad_(self, requires_grad=True):
        if requires_grad:
            raise ValueError("Variable can't be volatile and require_grad at the same time!")
        return self

    def __repr__(self):
        return repr(_plain(self))[:-1] + ", volatile=True)"


def _spread(result):
    if type(result) is rushlight.Tensor and not result.requires_grad:
        return result.as_subclass(_Volatile)
    if isinstance(result, (tuple, list)):
        parts = [_spread(part) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return result
