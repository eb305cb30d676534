"""`TorchDispatchMode`: a context that sees each operation below autograd, those of backward too.

What a program calls is shown as operations of `torch.ops.aten`, as torch makes them of it where
`rushlight._dispatch._lowering` knows how, and else as the library's own.
"""

from __future__ import annotations

import contextlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from typing_extensions import Self

    from rushlight import Tensor


class TorchDispatchMode:
    """A context in which `__torch_dispatch__` of this object is given each operation.

    What it calls itself goes to the mode outside of it. Nothing that it calls is recorded: the
    operation as a whole is.

    Example:
        >>> import rushlight
        >>> class Log(TorchDispatchMode):
        ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        ...         print(func)
        ...         return func(*args, **(kwargs or {}))
        >>> with Log():
        ...     y = rushlight.ones(2) + 1
        aten.ones.default
        aten.add.Tensor
    """

    def __init__(self, _dispatch_key: Any = None) -> None:
        if _dispatch_key is not None:
            raise NotImplementedError(
                f"{type(self).__name__}: _dispatch_key={_dispatch_key!r}: there are no such keys"
            )

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type[Any]],
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __torch_dispatch__")

    def __enter__(self) -> Self:
        from rushlight import _dispatch

        _dispatch.enter(self)
        return self

    def __exit__(self, *exception: object) -> None:
        from rushlight import _dispatch

        _dispatch.leave()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """The older way to write `cls(...)`."""
        return cls(*args, **kwargs)


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that changes nothing."""

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type[Any]],
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    """The modes that are active, the innermost last."""
    from rushlight import _dispatch

    return list(_dispatch.state.modes)


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    """The innermost mode; None outside of all."""
    modes = _get_current_dispatch_mode_stack()
    return modes[-1] if modes else None


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Is a mode active? All modes are the program's own: none is the library's."""
    del include_infra_modes
    return bool(_get_current_dispatch_mode_stack())


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[TorchDispatchMode]]:
    """A context without modes."""
    from rushlight import _dispatch

    modes = _get_current_dispatch_mode_stack()
    with _dispatch.active(()):
        yield modes


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Is it a tensor made of other tensors, that says so by its methods?"""
    from rushlight import Tensor

    return isinstance(t, Tensor) and is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Is it a class of such tensors?"""
    from rushlight import Tensor

    names = ("__tensor_flatten__", "__tensor_unflatten__")
    return issubclass(t, Tensor) and t is not Tensor and all(hasattr(t, n) for n in names)


def transform_subclass(
    t: Any,
    callback: Callable[[str, Tensor], Tensor],
    outer_size: Sequence[int] | None = None,
    outer_stride: Sequence[int] | None = None,
) -> Any:
    """A tensor made of others, with `callback(name, tensor)` in the place of each of them."""
    names, context = t.__tensor_flatten__()
    parts = {name: callback(name, getattr(t, name)) for name in names}
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    return type(t).__tensor_unflatten__(parts, context, size, stride)


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """What `__torch_dispatch__` of a wrapper should return for `out`.

    An operation in place returns the tensor that it changed, one with `out=` that one; all others
    return `out`. Wrappers have no elements here, so that there is no storage to share.
    """
    if kwargs and kwargs.get("out") is not None:
        return kwargs["out"]
    name = func._opname
    return args[0] if name.endswith("_") and not name.endswith("__") else out
