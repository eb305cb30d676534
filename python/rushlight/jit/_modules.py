"""Traced and scripted modules and functions: programs, called like what they were made of."""

from __future__ import annotations

import functools
import inspect
import typing

import rushlight
from rushlight import _C, Tensor
from rushlight._ignored import warn_of
from rushlight._typed_tensors import _TensorType
from rushlight.export import _archive, _scripts, passes
from rushlight.export._table import is_operation
from rushlight.export._trace import DynamicSize, difference, names_of_inputs, record
from rushlight.export.exported_program import (
    ExportedProgram,
    FixedInputError,
    ProgramModule,
    guards_of,
    signature_of,
)
from rushlight.fx import GraphModule
from rushlight.jit import _compiler
from rushlight.jit._errors import errors_of_scripts
from rushlight.jit._interpreted import (
    Interpreted,
    interpreted_function,
    interpreted_module,
    warn_interpreted,
)
from rushlight.jit._script_members import FunctionMembers, ModuleMembers
from rushlight.jit._state import _enabled
from rushlight.jit._tracer import TraceRecorder
from rushlight.jit._type_comments import hints_of
from rushlight.jit._values import Builder, CompilationError, Computed
from rushlight.jit._written import ScriptModuleMeta, WrittenModule
from rushlight.nn import Module
from rushlight.utils._pytree import tree_flatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from typing_extensions import Self

    from rushlight.fx import Graph
    from rushlight.types import Device, FileLike


def _bound(signature, args, kwargs):
    """All arguments by position."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    return tuple(bound.arguments.values())


def _by_name(program, known, args, kwargs):
    """The arguments as they were given when the program was recorded: those that were given by
    position may come by name, and the reverse. `known` names containers, which inputs do not.
    """
    positional, keywords = program.in_spec.children()
    nodes = [n for n in program.graph.nodes if n.meta.get("kind") == "input"]
    names, first = [], 0
    for place, spec in enumerate(positional.children()):
        named = known[place] if place < len(known) else None
        names.append(nodes[first].meta["target"] if spec.is_leaf() else named)
        first += spec.num_leaves
    names += keywords.context
    if len(args) > len(names):
        raise RuntimeError(f"forward() takes {len(names)} arguments, got {len(args)}")
    given = dict(enumerate(args))
    for name, value in kwargs.items():
        if name not in names:
            known = ", ".join(filter(None, names))
            raise RuntimeError(f"forward() has no argument {name!r}, only {known}")
        if names.index(name) in given:
            raise RuntimeError(f"forward() got two values for argument {name!r}")
        given[names.index(name)] = value
    for place, name in enumerate(names):
        if place not in given:
            raise RuntimeError(f"forward() is missing value for argument {name or place!r}")
    values = [given[place] for place in range(len(names))]
    count = positional.num_children
    return values[:count], dict(zip(keywords.context, values[count:]))


class ScriptModule(ModuleMembers, ProgramModule, metaclass=ScriptModuleMeta):
    """A module that runs a graph: made by `trace`, `script` or `load`."""

    def _complete_call(self, args, kwargs):
        signature = self.__dict__.get("_signature")
        if signature is not None:
            return _bound(signature, args, kwargs), {}
        if kwargs or self._program.in_spec.children()[1].context:
            return _by_name(self._program, self.__dict__.get("_argument_names", ()), args, kwargs)
        return args, kwargs

    @errors_of_scripts
    def __call__(self, *args, **kwargs):
        try:
            if "_is_stale" in self.__dict__:
                self._compile_again()
            if _C._len_torch_function_stack():
                recorder = _scripts.recorder_of(self._program)
                if recorder is not None:
                    args, kwargs = self._complete_call(args, kwargs)
                    return _scripts.call(recorder, self._program, args, kwargs)
            return super().__call__(*args, **kwargs)
        except FixedInputError:  # it was compiled for the argument's default
            source = self.__dict__.get("_script_source")
            if source is None:
                raise
            return source(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        source = self.__dict__.get("_script_source")
        try:
            return super().__getattr__(name)
        except AttributeError:
            if source is None:
                raise
            return getattr(source, name)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        source = self.__dict__.get("_script_source")
        if source is None:
            return
        if name in source.__dict__ and name in self.__dict__:
            setattr(source, name, value)  # which the program has as a constant
            self.__dict__["_is_stale"] = True
        elif isinstance(value, Module) and name in source._modules:
            setattr(source, name, value.__dict__.get("_script_source", value))
            self.__dict__["_is_stale"] = True

    def _compile_again(self):
        del self.__dict__["_is_stale"]
        self._adopt(_compiled_module(self._script_source))

    def save(self, f: FileLike, _extra_files: dict[str, str | bytes] | None = None) -> None:
        """Write the program to a file: see `torch.jit.save`."""
        save(self, f, _extra_files)

    def train(self, mode: bool = True) -> Self:
        """Set the mode; a script is compiled anew in it.

        Raises:
            NotImplementedError: the program was traced or loaded in the other mode, on which
                operations of it depend.
        """
        program = self._program
        source = self.__dict__.get("_script_source")
        if source is not None:
            if source.training is not mode or program.training is not mode:
                source.train(mode)
                self._adopt(_compiled_module(source))
        elif program.training is not mode and program.training is not None:
            named = {p.name for n in program.graph.nodes if is_operation(n.target)
                     for p in n.target.row.parameters}  # fmt: skip
            if named & {"training", "train"}:
                was = "training" if program.training else "evaluation"
                raise NotImplementedError(
                    f"jit: the mode of this module was fixed to {was} when it was recorded; set "
                    "it before tracing or saving"
                )
        self.__dict__["training"] = mode
        return self

    def eval(self) -> Self:
        """`train(False)`."""
        return self.train(False)

    def _adopt(self, program):
        """Run another program of the same parameters."""
        module = program.module(_kind=ScriptModule)
        self.__dict__["_program"] = program
        self._graph._codegen.program = program
        for name in program.graph_module._modules:
            setattr(self, name, getattr(program.graph_module, name))
        self.graph: Graph = module.graph


class ScriptFunction(FunctionMembers):
    """A function that runs a graph: made by `trace` or `script`."""

    def __init__(
        self,
        program: ExportedProgram,
        original: Callable[..., Any],
        signature: inspect.Signature | None = None,
    ) -> None:
        self.original = original
        self._module = program.module(_kind=ScriptModule)
        if signature is not None:
            self._module.__dict__["_signature"] = signature
        functools.update_wrapper(self, original)

    @errors_of_scripts
    def __call__(self, *args, **kwargs):
        try:
            return self._module(*args, **kwargs)
        except FixedInputError:  # it was compiled for the argument's default
            return self.original(*args, **kwargs)

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._module.graph

    @property
    def code(self) -> str:
        """The program as Python source."""
        return self._module.code

    def save(self, f: FileLike, _extra_files: dict[str, str | bytes] | None = None) -> None:
        """Write the program to a file: see `torch.jit.save`."""
        save(self, f, _extra_files)


# ---- trace


def trace(
    func: Callable[..., Any],
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Sequence[Any] | None = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: dict[str, Any] | None = None,
    _store_inputs: bool = True,
) -> Any:
    """Record what a function or module does with example inputs, as a graph.

    Sizes, dtypes and numbers of dims may change from call to call. What the program decided by
    sizes is checked at each call; where it looks at elements of tensors, a `TracerWarning` says so,
    and the graph goes on as with the example.

    Args:
        func: a module or function.
        example_inputs: a tensor, or a tuple of arguments.
        check_trace: record a second time, and raise if it does something else.
        check_inputs: further tuples of arguments, on which graph and program must agree.
        check_tolerance: how much they may differ.
        strict: raise if the result has a dict in it, whose keys the graph keeps as they are.
        example_kwarg_inputs: a dict of arguments instead of example_inputs.

    Returns:
        ScriptModule or ScriptFunction.

    Example:
        >>> f = torch.jit.trace(lambda x: x * x.size(0), torch.ones(2))
        >>> f(torch.ones(3))
        tensor([3., 3., 3.])
    """
    warn_of(
        "jit.trace", "graphs are recorded and run in one way",
        optimize=optimize, _force_outplace=_force_outplace, _module_class=_module_class,
        _compilation_unit=_compilation_unit, _store_inputs=None if _store_inputs else "False",
    )  # fmt: skip
    if not _enabled or isinstance(func, (ScriptModule, ScriptFunction)):
        return func
    if (example_inputs is None) == (example_kwarg_inputs is None):
        raise RuntimeError(
            "jit.trace: give example_inputs or example_kwarg_inputs, and one of them"
        )
    kwargs = _in_order(func, example_kwarg_inputs or {})
    args = () if example_inputs is None else example_inputs
    args = (args,) if isinstance(args, (Tensor, dict)) else tuple(args)
    program = _traced(func, args, kwargs, check_trace, strict)
    made = _of_program(program, func)
    module = made if isinstance(func, Module) else made._module
    module.__dict__["_argument_names"] = _names_of_arguments(func)
    for more in check_inputs or ():
        by_name = more if isinstance(more, dict) else {}
        more = (more,) if isinstance(more, Tensor) else () if by_name else tuple(more)
        rushlight.testing.assert_close(
            made(*more, **by_name), func(*more, **by_name),
            rtol=check_tolerance, atol=check_tolerance,
        )  # fmt: skip
    return made


def _names_of_arguments(func):
    try:
        return [*inspect.signature(func.forward if isinstance(func, Module) else func).parameters]
    except (TypeError, ValueError):  # a builtin function
        return []


def _in_order(func, kwargs):
    """Arguments by name in the order in which the function takes them."""
    names = _names_of_arguments(func)
    return {**{name: kwargs[name] for name in names if name in kwargs}, **kwargs}


def _has_dict(spec):
    is_dict = isinstance(spec.type, type) and issubclass(spec.type, dict)
    return is_dict or any(map(_has_dict, spec.children()))


def _traced(func, args, kwargs, check, strict):
    """The program of a run, of any sizes."""
    from rushlight import export

    module = func if isinstance(func, Module) else getattr(func, "__self__", None)
    module = module if isinstance(module, Module) else Module()
    leaves, in_spec = tree_flatten((args, kwargs))
    signature = func.forward if isinstance(func, Module) else func
    names = names_of_inputs(signature, args, kwargs)
    sizes, count = [], 0
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            sizes.append([DynamicSize(f"s{count + d}") for d in range(leaf.dim())])
            count += leaf.dim()
        else:
            sizes.append(None)
    runs = []
    for again in range(1 + bool(check)):
        recorder = TraceRecorder(dynamic=True)
        recorder.takes_inputs = not again
        runs.append(record(module, func, leaves, in_spec, names, sizes, True, recorder))
    if strict and _has_dict(runs[0].out_spec):
        raise RuntimeError(
            "jit.trace: the result has a dict in it, whose keys the graph keeps as they are now; "
            "return a tuple or a NamedTuple, or pass strict=False if they are always the same"
        )
    if check and (found := difference(*runs)):
        raise RuntimeError(f"jit.trace: the program does not do the same twice: {found}")
    for node in runs[0].graph.nodes:  # as in torch, of any dtype and number of dims
        is_input = node.op == "placeholder" and node.meta.get("kind", "input") == "input"
        if is_input and isinstance(node.meta.get("val"), Tensor):
            node.meta["type"] = "Tensor"
    return export._assembled(runs[0], func, args, kwargs, {})


def _of_program(program, func):
    if isinstance(func, Module):
        module = program.module(_kind=ScriptModule)
        module.__dict__.update(training=func.training, _original_name=type(func).__name__)
        return module
    return ScriptFunction(program, func)


def trace_module(
    mod: Module,
    inputs: dict[str, Any],
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Sequence[dict[str, Any]] | None = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_inputs_is_kwarg: bool = False,
    _store_inputs: bool = True,
) -> Any:
    """`trace` for the method forward: {"forward": example inputs}, and a list of such dicts as
    `check_inputs`.

    Raises:
        NotImplementedError: another method is among them.
    """
    if not _enabled:
        return mod
    if set(inputs) != {"forward"}:
        raise NotImplementedError("jit.trace_module: only forward is traced, of one module")
    check_inputs = [more["forward"] for more in check_inputs or ()]
    if example_inputs_is_kwarg:
        return trace(mod, None, optimize, check_trace, check_inputs, check_tolerance, strict,
                     _force_outplace, _module_class, _compilation_unit, inputs["forward"],
                     _store_inputs)  # fmt: skip
    return trace(mod, inputs["forward"], optimize, check_trace, check_inputs, check_tolerance,
                 strict, _force_outplace, _module_class, _compilation_unit, None,
                 _store_inputs)  # fmt: skip


# ---- script


def scripted_from_source(obj):
    """The ScriptModule of what the source of a module says."""
    module = _compiled_module(obj).module(_kind=ScriptModule)
    module.__dict__["_script_source"] = obj
    module.__dict__["_signature"] = inspect.signature(obj.forward)
    module.__dict__["training"] = obj.training
    return module


def script(
    obj: Any = None,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """Compile the source of a function or module to a graph, with its branches and loops.

    Arguments are tensors unless they are annotated: int, float, bool, Tensor, List and Tuple of
    these. What cannot be compiled runs as Python; a warning names what it is and its line, and
    `save`, `graph` and `code` raise CompilationError. So does a call with a string or None where
    the default is another.

    Args:
        obj: a function or module; of a module `forward` and what it calls.

    Returns:
        ScriptModule or ScriptFunction.

    Raises:
        CompilationError: `obj` is a module's class, or nothing that can be called.

    Example:
        >>> def twice_or_not(x: torch.Tensor, twice: bool):
        ...     if twice:
        ...         x = x * 2
        ...     return x
        >>> torch.jit.script(twice_or_not)(torch.ones(2), True)
        tensor([2., 2.])
    """
    if obj is None:
        return functools.partial(script, optimize=optimize, _frames_up=_frames_up, _rcb=_rcb,
                                 example_inputs=example_inputs)  # fmt: skip
    warn_of(
        "jit.script", "types are read from annotations",
        optimize=optimize, _frames_up=_frames_up or None, _rcb=_rcb, example_inputs=example_inputs,
    )  # fmt: skip
    if not _enabled or isinstance(obj, (ScriptModule, ScriptFunction)):
        return obj
    if isinstance(obj, Module):
        try:
            return scripted_from_source(obj)
        except CompilationError as reason:
            return interpreted_module(ScriptModule, obj, reason)
    if inspect.isclass(obj) and issubclass(obj, Module):
        raise CompilationError(
            f"jit.script: the class {obj.__name__}: script a module, not its class"
        )
    if inspect.isclass(obj):
        warn_interpreted(obj.__qualname__, "jit.script: classes are not compiled")
        return obj
    if isinstance(obj, (list, dict)):  # torch's wrappers of them differ in speed alone
        return obj
    if not callable(obj):
        raise CompilationError(f"jit.script: a {type(obj).__name__} is no function or module")
    try:
        made = ScriptFunction(_compiled(obj, None), obj, inspect.signature(obj))
    except CompilationError as reason:
        made = interpreted_function(ScriptFunction, obj, reason)
    made.__name__, made.__qualname__ = "ScriptFunction", "torch.jit.ScriptFunction"  # as in torch
    return made


def _compiled_module(module):
    return _compiled(module.forward, module)


def _compiled(function, module):
    """The program of a function, or of a module's forward."""
    _compiler.mark_special()
    builder = Builder()
    if module is not None:
        for kind, members in (("parameter", module.named_parameters()),
                              ("buffer", module.named_buffers())):  # fmt: skip
            for name, value in members:
                if kind == "parameter" and value.grad_fn is not None:
                    raise CompilationError(f"jit.script: the parameter {name} is no leaf")
                builder.lifted[id(value)] = (name, kind, value)
                builder._tensor(value)
    try:
        hints = hints_of(function)
    except (NameError, TypeError) as error:
        raise CompilationError(f"jit.script: an annotation cannot be read: {error}") from None
    arguments = []
    for name, p in inspect.signature(function).parameters.items():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise CompilationError(f"jit.script: the argument *{name} is not compiled")
        arguments.append(_input(builder, name, hints.get(name, Tensor), p.default))
    compiler = _compiler.Function(getattr(function, "__func__", function), builder)
    given = [module, *arguments] if module is not None else arguments
    result = compiler.call(given, {})
    if isinstance(result, _compiler.Shape):
        result = builder.call_primitive("shape", (result.tensor,))
    leaves, out_spec = tree_flatten(result)
    graph = builder.graph
    graph.output(tuple(builder.lower(v) for v in leaves))
    passes.eliminate_dead_code(graph)
    _, in_spec = tree_flatten(
        (tuple(_shape_of(a) for a in arguments), {}), lambda v: isinstance(v, list)
    )
    state, constants = {}, {}
    saved = module.state_dict() if module is not None else {}
    for node, value in builder.constants.values():
        kept = node.meta["kind"] == "parameter" or node.meta["target"] in saved
        (state if kept else constants)[node.meta["target"]] = value
    program = ExportedProgram(
        GraphModule(builder.modules, graph), signature_of(graph, set(constants)), state, constants,
        in_spec, out_spec, guards_of(graph), {},
    )  # fmt: skip
    program.takes_lists = True
    program.training = module.training if module is not None else None
    return program


def _shape_of(argument):
    """The argument with leaves for computed values."""
    if isinstance(argument, tuple):
        return tuple(map(_shape_of, argument))
    return 0


_SIMPLE = {Tensor: "Tensor", int: "int", float: "float", bool: "bool"}


def _input(builder, name, hint, default):
    """The value of an argument: a computed one, a tuple of such, or a fixed default."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, _TensorType):  # LongTensor and the like say nothing more to a compiler
        hint = Tensor
    if hint in _SIMPLE:
        return _typed_input(builder, name, _SIMPLE[hint])
    if origin is list and inner == (Tensor,):
        return _typed_input(builder, name, "tensors")
    if origin is list and inner and inner[0] in (int, float, bool):
        return _typed_input(builder, name, "list", _SIMPLE[inner[0]])
    if origin is tuple and inner and Ellipsis not in inner:
        return tuple(_input(builder, f"{name}_{i}", h, inspect.Parameter.empty)
                     for i, h in enumerate(inner))  # fmt: skip
    if default is None or isinstance(default, str):  # fixed, as the guard of the input says
        node = builder.placeholder(name)
        node.meta.update(kind="input", target=node.name, val=default)
        return default
    raise CompilationError(
        f"jit.script: the argument {name} of type {hint}: those of type Tensor, int, float, bool, "
        "List and Tuple of these are compiled"
    )


def _typed_input(builder, name, kind, item=None):
    node = builder.placeholder(name)
    node.meta.update(kind="input", target=node.name, val=None, type=kind)
    return Computed(builder, node, kind, item)


# ---- files


def save(
    m: ScriptModule | ScriptFunction,
    f: FileLike,
    _extra_files: dict[str, str | bytes] | None = None,
) -> None:
    """Write a traced or scripted module or function to a file, which needs nothing of Python.

    Args:
        m: ScriptModule or ScriptFunction.
        f: path, or file object open for writing bytes.
        _extra_files: {name: str or bytes} to lie beside the program.
    """
    if isinstance(m, Interpreted):
        raise m._reason
    m = m._module if isinstance(m, ScriptFunction) else m
    if "_is_stale" in getattr(m, "__dict__", ()):
        m._compile_again()
    m = m._scripted() if isinstance(m, WrittenModule) else m
    if not isinstance(m, ScriptModule):
        raise TypeError(
            f"jit.save: expected a traced or scripted module or function, got {type(m).__name__}; "
            "see torch.jit.trace, torch.jit.script, and torch.save for others"
        )
    _archive.save(m._program, f, _extra_files)


def load(
    f: FileLike,
    map_location: Device = None,
    _extra_files: dict[str, Any] | None = None,
    _restore_shapes: bool = False,
) -> ScriptModule:
    """Read what `save`, or `rushlight.export.save`, wrote. Nothing in the file is executed.

    Args:
        f: path, or file object open for reading bytes.
        map_location: None or the CPU: where the parameters go.
        _extra_files: dict whose keys name files to read; their bytes become the values.

    Raises:
        RuntimeError: there is no such extra file.
        ValueError: the file is damaged, or none of this format, such as one of TorchScript.
    """
    if map_location is not None and rushlight.device(map_location).type != "cpu":
        raise NotImplementedError("jit.load: map_location: parameters are loaded on the CPU")
    if _restore_shapes:
        raise NotImplementedError("jit.load: _restore_shapes")
    try:
        program = _archive.load(f, _extra_files)
    except KeyError as error:
        raise RuntimeError(*error.args) from None
    module = program.module(_kind=ScriptModule)
    module.__dict__["training"] = bool(program.training)
    return module


# ---- inference


def _frozen(program):
    """The program with its parameters and buffers as constants."""
    program = passes.copied(program)
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.meta["kind"] in ("parameter", "buffer"):
            if passes._is_written(node):
                raise RuntimeError(
                    f"jit.freeze: the program changes {node.meta['target']}, which cannot be frozen"
                )
            value = program._lifted_value(node).detach().clone()
            node.meta.update(kind="constant", val=value)
            program.constants[node.meta["target"]] = value
            program.state_dict.pop(node.meta["target"], None)
    return passes.fold_constants(passes.finish(program))


def freeze(
    mod: ScriptModule, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True
) -> ScriptModule:
    """A traced or scripted module of evaluation with its parameters as constants of the graph.

    What does not depend on inputs is computed now; batch norms go into the convolutions before
    them, unless `optimize_numerics` is false.
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError("jit.freeze: expected a traced or scripted module")
    mod = mod._scripted() if isinstance(mod, WrittenModule) else mod
    if mod.training:
        raise RuntimeError("jit.freeze: the module must be in evaluation mode: call eval()")
    if isinstance(mod, Interpreted):
        warn_interpreted(f"jit.freeze: {mod.original_name}", mod._reason)
        return mod
    if preserved_attrs:
        raise NotImplementedError("jit.freeze: preserved_attrs")
    program = _frozen(mod._program)
    if optimize_numerics:
        program = passes.fuse_conv_batch_norm(program)
    return _again(mod, program)


def optimize_for_inference(
    mod: ScriptModule, other_methods: list[str] | None = None
) -> ScriptModule:
    """`freeze`, and linear layers fused with the relu behind them."""
    if other_methods:
        raise NotImplementedError("jit.optimize_for_inference: other_methods")
    mod = freeze(mod.eval())
    if isinstance(mod, Interpreted):
        return mod
    return _again(mod, passes.fuse_linear_activation(mod._program))


def _again(mod, program):
    made = program.module(_kind=ScriptModule)
    made.__dict__.update(training=mod.training, _signature=mod.__dict__.get("_signature"),
                         _original_name=mod.original_name)  # fmt: skip
    return made
