"""`InputObserver`: which arguments a module is called with, and which of their sizes change."""

from __future__ import annotations

import contextlib
import inspect
import time

import rushlight
from rushlight.export import Dim
from rushlight.onnx._program import session_of
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from typing_extensions import Self

    from rushlight.nn import Module
    from rushlight.onnx._program import ONNXProgram

_CONSTANTS = (int, float, bool, str)


class _Call:
    """The arguments of one call, with its results and the seconds that it took."""

    def __init__(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], constants: dict[str, Any]
    ) -> None:
        leaves, spec = tree_flatten((args, kwargs))
        copies = [t.detach().clone() if isinstance(t, rushlight.Tensor) else None for t in leaves]
        self.args, self.kwargs = tree_unflatten(copies, spec)
        self.count, self.spec, self.constants = len(leaves), spec, constants
        self.outputs: list[Any] = []
        self.seconds = 0.0


class InputObserver:
    """Watches calls of a module, and says with which arguments and dynamic shapes to export it.

    Args:
        value_if_missing: {name or position: what takes the place of an argument in calls that do
            not have it}, when arguments and shapes are inferred.

    Example:
        >>> import rushlight
        >>> model = rushlight.nn.Linear(3, 2)
        >>> observer = rushlight.onnx.InputObserver()
        >>> with observer(model):
        ...     y = model(rushlight.ones(2, 3)), model(rushlight.ones(5, 3))
        >>> observer.num_obs(), [list(dims) for dims in observer.infer_dynamic_shapes()]
        (2, [[0]])
    """

    def __init__(self, value_if_missing: dict[str | int, Any] | None = None) -> None:
        self.value_if_missing: dict[str | int, Any] = value_if_missing or {}
        self._calls: list[_Call] = []
        self._signature: inspect.Signature | None = None

    def num_obs(self) -> int:
        """How many calls are kept."""
        return len(self._calls)

    @contextlib.contextmanager
    def __call__(
        self, model: Module, store_n_calls: int = 3, method_name: str = "forward"
    ) -> Iterator[Self]:
        """A context that keeps what a method of the model is called with, and returns.

        Args:
            store_n_calls: how many calls are kept, the first ones.
            method_name: the method.
        """
        if not hasattr(model, method_name):
            raise ValueError(f"Model type {model} does not have a method {method_name!r}.")
        method = getattr(model, method_name)
        signature = inspect.signature(method)
        if self._signature is None:
            self._signature = signature
        most = len(self._calls) + store_n_calls

        def watched(*args, **kwargs):
            if len(self._calls) >= most:
                return method(*args, **kwargs)
            call = self._kept(args, kwargs)
            begin = time.perf_counter()
            result = method(*args, **kwargs)
            call.seconds = time.perf_counter() - begin
            call.outputs = [
                t.detach().clone() if isinstance(t, rushlight.Tensor) else t
                for t in tree_leaves(result)
            ]
            self._calls.append(call)
            return result

        watched.__signature__ = signature  # libraries look at it
        had = method_name in vars(model)
        object.__setattr__(model, method_name, watched)
        try:
            yield self
        finally:
            if had:
                object.__setattr__(model, method_name, method)
            else:
                object.__delattr__(model, method_name)

    def _star(self, kind):
        """The name and the position of the parameter *args or **kwargs, if there is one."""
        for place, p in enumerate(self._signature.parameters.values()):
            if p.kind is kind:
                return p.name, place
        return None

    def _kept(self, args, kwargs):
        names = list(self._signature.parameters)
        args = list(args)
        constants = {}
        for name, value in kwargs.items():
            default = getattr(self._signature.parameters.get(name), "default", None)
            if isinstance(value, _CONSTANTS) and isinstance(default, _CONSTANTS):
                if value != default:
                    constants[name] = value
        kwargs = {
            name: value
            for name, value in kwargs.items()
            if value is not None and not isinstance(value, _CONSTANTS)
        }
        for key, value in self.value_if_missing.items():
            if isinstance(key, str):
                if key not in names and not self._star(inspect.Parameter.VAR_KEYWORD):
                    raise ValueError(
                        f"InputObserver: value_if_missing names {key!r}, and the method takes "
                        f"{', '.join(names)}"
                    )
                kwargs.setdefault(key, value)
            elif not isinstance(key, int):
                raise TypeError(f"InputObserver: the key {key!r} of value_if_missing is no name")
            elif key >= len(args):
                raise ValueError(
                    f"InputObserver: value_if_missing has position {key}, and the call has "
                    f"{len(args)} arguments by position"
                )
            elif args[key] is None:
                args[key] = value
        ordered = {name: kwargs[name] for name in names if name in kwargs}
        return _Call(tuple(args), {**ordered, **kwargs}, constants)

    def _best(self):
        if not self._calls:
            raise RuntimeError("No inputs were captured.")
        return max(self._calls, key=lambda call: call.count)

    def _aligned(self, call):
        """The tensors of a call in the places that the call with most of them has; or None."""
        best = self._best()
        if call.constants != best.constants:
            raise RuntimeError(
                f"Two calls were made with different constant values, {call.constants} != "
                f"{best.constants}"
            )
        names = list(self._signature.parameters)
        extra = dict(zip(names[len(best.args) :], call.args[len(best.args) :]))
        kwargs = {**extra, **call.kwargs}
        unknown = set(kwargs) - set(best.kwargs)
        if unknown:
            raise RuntimeError(
                "At least one call to the observed model must contain all the named arguments: "
                f"none has {sorted(unknown)} beside {list(best.kwargs)}"
            )
        aligned: list[Any] = []
        given = [call.args[i] if i < len(call.args) else None for i in range(len(best.args))]
        for name, value, model in (
            *zip(range(len(best.args)), given, best.args),
            *((name, kwargs.get(name), value) for name, value in best.kwargs.items()),
        ):
            wanted = len(tree_leaves(model))
            there = isinstance(value, rushlight.Tensor) or bool(value)
            leaves = tree_leaves(value) if there else [None] * wanted
            if len(leaves) != wanted:
                raise RuntimeError(
                    f"InputObserver: argument {name!r} has {len(leaves)} tensors in one call and "
                    f"{wanted} in another"
                )
            aligned += leaves
        return aligned

    def _keys(self):
        """The position or the name of the argument to which each tensor belongs."""
        best = self._best()
        arguments = (*enumerate(best.args), *best.kwargs.items())
        return [key for key, value in arguments for _ in tree_leaves(value)]

    def _dynamic_dims(self, batch):
        """For each tensor the dims whose sizes change."""
        names = list(self._signature.parameters)

        def is_batch(key):
            if isinstance(batch, bool) or not batch:
                return bool(batch)
            return key in batch or (isinstance(key, int) and names[key] in batch)

        found = []
        for key, tensors in zip(self._keys(), zip(*map(self._aligned, self._calls))):
            shapes = [t.shape for t in tensors if t is not None]
            if len({len(shape) for shape in shapes}) > 1:
                raise RuntimeError(
                    f"InputObserver: argument {key!r} has tensors of different rank: {shapes}"
                )
            sizes = [set(column) for column in zip(*shapes)]
            found.append(
                [d for d, all_of in enumerate(sizes) if len(all_of) > 1 or d == 0 and is_batch(key)]
            )
        return found

    def infer_dynamic_shapes(
        self, set_batch_dimension_for: set[int | str] | bool | None = None
    ) -> Any:
        """Return which dims had several sizes, as `export` takes it for dynamic_shapes.

        Args:
            set_batch_dimension_for: the arguments, by name or position, whose first dim may change
                too; True for all.
        """
        best = self._best()
        shapes = [
            dict.fromkeys(dims, Dim.DYNAMIC) for dims in self._dynamic_dims(set_batch_dimension_for)
        ]
        rest = iter(shapes)
        args = tuple(_nested(value, rest) for value in best.args)
        kwargs = {name: _nested(value, rest) for name, value in best.kwargs.items()}
        kwargs.update(dict.fromkeys(best.constants))
        star = self._star(inspect.Parameter.VAR_POSITIONAL)
        if not kwargs and star is None:
            return args
        named = {}
        if args:
            last = len(args) if star is None else star[1]
            named = dict(zip(self._signature.parameters, args[:last]))
            if star is not None:
                named[star[0]] = args[last:]
        return self._grouped({**named, **kwargs})

    def _grouped(self, named):
        """The arguments that only **kwargs takes stand under its name, as `export` wants them."""
        star = self._star(inspect.Parameter.VAR_KEYWORD)
        others = [name for name in named if name not in self._signature.parameters]
        if star is None or not others:
            return named
        kept = {name: value for name, value in named.items() if name not in others}
        return {**kept, star[0]: {name: named[name] for name in others}}

    def infer_arguments(
        self,
        index_or_args_or_kwargs: tuple[Any, ...] | dict[str, Any] | int | None = None,
        flat: bool = False,
        as_args_kwargs: bool = False,
    ) -> Any:
        """Return arguments to export with. Tensors that a call does not have are empty ones.

        Args:
            index_or_args_or_kwargs: the number of a call, or arguments; by default the first call
                with as many arguments as any has.
            flat: return a list of tensors.
            as_args_kwargs: return (args, kwargs); else a tuple or a dict, whichever holds them.
        """
        best, given = self._best(), index_or_args_or_kwargs
        for kept in self._calls:
            self._aligned(kept)  # all of them must fit together
        if given is None:
            size = (len(best.args), len(best.kwargs))
            call = next(c for c in self._calls if (len(c.args), len(c.kwargs)) == size)
        elif isinstance(given, int):
            if given >= len(self._calls):
                raise RuntimeError(f"No stored input set for index={given}<{len(self._calls)}.")
            call = self._calls[given]
        elif isinstance(given, (tuple, dict)):
            args, kwargs = (given, {}) if isinstance(given, tuple) else ((), given)
            call = self._kept(args, kwargs)
        else:
            raise ValueError(f"Unexpected type {type(given)} for index_or_args_or_kwargs.")
        tensors = self._completed(self._aligned(call))
        if flat:
            return tensors
        args, kwargs = tree_unflatten(tensors, best.spec)
        kwargs = {**kwargs, **best.constants}
        if as_args_kwargs:
            return tuple(args), kwargs
        if not kwargs:
            return args
        if args and self._star(inspect.Parameter.VAR_POSITIONAL):
            raise RuntimeError(
                "InputObserver.infer_arguments: *args cannot be given by name; set "
                "as_args_kwargs=True"
            )
        return {**dict(zip(self._signature.parameters, args)), **kwargs}

    def _completed(self, tensors):
        """With an empty tensor where there is none, like those of other calls."""
        if all(t is not None for t in tensors):
            return tensors
        dims = self._dynamic_dims(None)
        examples = list(zip(*map(self._aligned, self._calls)))
        made = []
        for place, tensor in enumerate(tensors):
            if tensor is None:
                example = next(t for t in examples[place] if t is not None)
                size = list(example.shape)
                if dims[place]:
                    size[max(dims[place])] = 0
                tensor = example.new_zeros(size)
            made.append(tensor)
        return made

    def check_discrepancies(
        self,
        onnx_program: ONNXProgram,
        atol: float = 1e-4,
        rtol: float = 0.1,
        progress_bar: bool = False,
        initializer: Callable[[str | bytes], Any] = session_of,
        skip_none: bool = True,
    ) -> list[dict[str, Any]]:
        """Run an exported model on what was kept, and return how far its results are off.

        Args:
            onnx_program: the model.
            atol, rtol: how much they may differ for "SUCCESS".
            progress_bar: show one, by package tqdm.
            initializer: makes onnxruntime's session.
            skip_none: results that are None are not compared.

        Returns: a dict for each call: "SUCCESS", the largest differences "abs" and "rel", or
            "error"; its "index", seconds, and numbers of tensors.
        """
        self._best()
        onnx_program.initialize_inference_session(initializer)
        calls: Any = self._calls
        if progress_bar:
            from tqdm import tqdm

            calls = tqdm(calls)
        told = []
        for call in calls:
            aligned = self._aligned(call)
            inputs = self._completed(aligned)
            begin = time.perf_counter()
            try:
                results = onnx_program._run(onnx_program._named([t.numpy() for t in inputs]))
                line = _difference(call.outputs, results, atol, rtol, skip_none)
            except Exception as error:  # onnxruntime's are of many classes
                line = {"error": str(error), "SUCCESS": False}
            line.update(
                index=len(told), duration_torch=call.seconds,
                ort_duration=time.perf_counter() - begin, n_inputs=len(inputs),
                n_none=sum(t is None for t in aligned),
                n_empty=sum(t is None or t.numel() == 0 for t in aligned),
            )  # fmt: skip
            told.append(line)
        onnx_program.release()
        return told


def _nested(value, shapes):
    """The structure of an argument with shapes in place of tensors."""
    if isinstance(value, rushlight.Tensor):
        return next(shapes)
    if value is None:
        next(shapes)  # a leaf without a tensor
        return None
    if isinstance(value, dict):
        return {name: _nested(inner, shapes) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_nested(inner, shapes) for inner in value)
    leaves, _ = tree_flatten(value)  # a class of the program's: its parts, in a list
    return [next(shapes) for _ in leaves]


def _difference(expected, found, atol, rtol, skip_none):
    if len(expected) != len(found):
        return {"SUCCESS": False, "error": "not the same number of outputs"}
    largest = relative = 0.0
    for a, b in zip(expected, found):
        if a is None or b is None:
            if a is not b and not skip_none:
                return {"SUCCESS": False, "error": "missing output"}
            continue
        for what, same in (("shape", a.shape == b.shape), ("type", a.dtype == b.dtype)):
            if not same:
                return {"SUCCESS": False, "error": f"not the same {what}"}
        if a.numel():
            off = (a - b).abs()
            largest = max(largest, off.max().item())
            relative = max(relative, (off / (a.abs() + rtol)).max().item())
    return {"SUCCESS": largest <= atol and relative <= rtol, "abs": largest, "rel": relative}
