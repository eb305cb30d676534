"""The base classes of steps, and how a step becomes a method of all others."""

from __future__ import annotations

import functools
import importlib
import inspect
import pickle
import random
import types
from typing import Any

import rushlight
from rushlight._set_module import set_module
from rushlight.utils.data.dataset import Dataset, IterableDataset, _T_co

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self


class _Steps:
    """The methods that steps are."""

    __class_getitem__: Any = classmethod(types.GenericAlias)  # each of them may have a parameter

    @classmethod
    def register_function(cls, function_name: Any, function: Callable[..., Any]) -> None:
        """Let `pipe.function_name(...)` be function(pipe, ...)."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: Any, cls_to_register: Any, enable_df_api_tracing: bool = False
    ) -> None:
        """Let `pipe.function_name(...)` be cls_to_register(pipe, ...)."""
        if enable_df_api_tracing:
            raise NotImplementedError("register_datapipe_as_function: tracing of data frames")
        if function_name in cls.functions:
            raise Exception(  # of no narrower class, as in torch
                f"Unable to add DataPipe function name {function_name} as it is already taken"
            )

        def make(source, *args, **kwargs):
            return cls_to_register(source, *args, **kwargs)

        functools.update_wrapper(make, cls_to_register, updated=())
        cls.functions[function_name] = make

    def __getattr__(self, name: str) -> Any:
        found = type(self).functions.get(name)
        if found is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return functools.partial(found, self)

    @classmethod
    def _base(cls):
        """The class that has the hooks and functions of all steps of its kind."""
        return IterDataPipe if issubclass(cls, IterDataPipe) else MapDataPipe

    @classmethod
    def set_getstate_hook(cls, hook_fn: Callable[[Any], Any] | None) -> None:
        """Let `__getstate__` of all steps return hook_fn(dict of attributes); None ends it."""
        cls._set_hook("getstate_hook", hook_fn)

    @classmethod
    def set_reduce_ex_hook(cls, hook_fn: Callable[[Any], Any] | None) -> None:
        """Let pickle take hook_fn(step) of all steps for which it raises no NotImplementedError;
        None ends that."""
        cls._set_hook("reduce_ex_hook", hook_fn)

    @classmethod
    def _set_hook(cls, name, hook_fn):
        base = cls._base()
        if getattr(base, name) is not None and hook_fn is not None:
            raise RuntimeError(f"Attempt to override existing {name}")
        setattr(base, name, hook_fn)

    def __getstate__(self) -> Any:
        hook = self._base().getstate_hook
        return self.__dict__ if hook is None else hook(self.__dict__)

    def __reduce_ex__(self, *args: Any, **kwargs: Any) -> Any:
        hook = self._base().reduce_ex_hook
        if hook is not None:
            try:
                return hook(self)
            except NotImplementedError:
                pass
        return super().__reduce_ex__(*args, **kwargs)

    def __repr__(self) -> str:
        hook = self.repr_hook
        return str(type(self).__qualname__) if hook is None else hook(self)

    def __str__(self) -> str:
        hook = self.str_hook
        return str(type(self).__qualname__) if hook is None else hook(self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.functions]


def _after_reset(begin):
    """`__iter__` that resets the step first; a generator does so when it is asked for the first
    element."""
    if inspect.isgeneratorfunction(begin):

        def __iter__(self):
            self.reset()
            yield from begin(self)

    else:

        def __iter__(self):
            self.reset()
            return begin(self)

    return functools.wraps(begin)(__iter__)


class IterDataPipe(_Steps, IterableDataset[_T_co]):
    """A step whose elements come one after the other: subclasses write `__iter__`.

    Example:
        >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
        >>> list(IterableWrapper(range(5)).map(lambda x: x * 2).filter(lambda x: x > 2))
        [4, 6, 8]
    """

    functions: dict[Any, Any] = {}
    reduce_ex_hook: Callable[..., Any] | None = None
    getstate_hook: Callable[..., Any] | None = None
    str_hook: Callable[..., Any] | None = None
    repr_hook: Callable[..., Any] | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__iter__" in vars(cls):
            cls.__iter__ = _after_reset(cls.__iter__)

    def reset(self) -> None:
        """Begin anew: for subclasses to write. It is called before each iteration."""


class DFIterDataPipe(IterDataPipe[Any]):
    """A step whose elements are rows of data frames."""


class _Shuffled(IterDataPipe[Any]):
    """A step in a random order that is drawn anew each time, unless it was given a seed."""

    def __init__(self) -> None:
        super().__init__()
        self._enabled, self._seed = True, None

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Say whether the order changes at all. Returns self."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Self:
        """Give the next order its seed. Returns self."""
        self._seed = seed
        return self

    def _generator(self) -> random.Random:
        """What draws the next order, from the seed that was set or one of the global generator."""
        seed, self._seed = self._seed, None
        if seed is None:
            seed = int(rushlight.empty((), dtype=rushlight.int64).random_())
        return random.Random(seed)


class MapDataPipe(_Steps, Dataset[_T_co]):
    """A step whose elements are found by key: subclasses write `__getitem__` and `__len__`."""

    functions: dict[Any, Any] = {}
    reduce_ex_hook: Callable[..., Any] | None = None
    getstate_hook: Callable[..., Any] | None = None
    str_hook: Callable[..., Any] | None = None
    repr_hook: Callable[..., Any] | None = None


def _check_all(datapipes: tuple[Any, ...], kind: type) -> None:
    """Raise an error unless there are steps, all of a kind."""
    if not datapipes:
        raise ValueError("Expected at least one DataPipe, but got nothing")
    if not all(isinstance(pipe, kind) for pipe in datapipes):
        raise TypeError(f"Expected all inputs to be `{kind.__name__}`")


class _PickledByDill:
    """Stands for a step that goes to a worker: what pickle cannot take, dill does, if it is
    installed.
    """

    def __init__(self, datapipe: Any) -> None:
        self._datapipe = datapipe

    def __getstate__(self) -> Any:
        try:
            return "pickle", pickle.dumps(self._datapipe)
        except Exception as error:
            try:
                import dill
            except ImportError:
                raise error from None
            return "dill", dill.dumps(self._datapipe)

    def __setstate__(self, state: Any) -> None:
        name, data = state
        self._datapipe = importlib.import_module(name).loads(data)

    def __len__(self) -> int:
        try:
            return len(self._datapipe)
        except Exception as error:
            raise TypeError(f"{type(self).__name__} has no length") from error


class _IterDataPipeSerializationWrapper(_PickledByDill, IterDataPipe[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(self._datapipe)


class _MapDataPipeSerializationWrapper(_PickledByDill, MapDataPipe[Any]):
    def __getitem__(self, key: Any) -> Any:
        return self._datapipe[key]


class DataChunk(list[Any]):
    """Several elements: a batch."""

    def __init__(self, items: Any) -> None:
        items = list(items)
        super().__init__(items)
        self.items: Any = items

    def as_str(self, indent: str = "") -> Any:
        """The elements as text."""
        return indent + "[" + ", ".join(str(item) for item in self) + "]"

    def raw_iterator(self) -> Iterator[Any]:
        """The elements, one after the other."""
        yield from self.items


class functional_datapipe:
    """Decorates a class of steps: it becomes a method of this name.

    Args:
        name: of the method.
        enable_df_api_tracing: refused.
    """

    name: str
    enable_df_api_tracing: bool

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name, self.enable_df_api_tracing = name, enable_df_api_tracing

    def __call__(self, cls: Any) -> Any:
        kinds = (IterDataPipe, MapDataPipe)
        if not (isinstance(cls, type) and issubclass(cls, kinds)):
            raise TypeError("`functional_datapipe` can only decorate IterDataPipe or MapDataPipe")
        base = IterDataPipe if issubclass(cls, IterDataPipe) else MapDataPipe
        base.register_datapipe_as_function(self.name, cls, self.enable_df_api_tracing)
        return cls


set_module("rushlight.utils.data.datapipes._decorator", functional_datapipe)
