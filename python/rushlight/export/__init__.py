"""Programs as data: `export` records a module as a graph, `save` and `load` keep it in a file.

    program = torch.export.export(model, (x,))
    print(program)                       # readable: code, signature, what is assumed
    torch.export.save(program, "model.rl")
    torch.export.load("model.rl").module()(x)

docs/programs.md says what a graph holds, and how the file is laid out.
"""

from __future__ import annotations

from rushlight._ignored import warn_of as _warn_of
from rushlight.export._record import UnsupportedOperation, elements_of as _elements_of
from rushlight.export._trace import trace as _trace
from rushlight.export.decomp_utils import CustomDecompTable
from rushlight.export.dynamic_shapes import (
    AdditionalInputs,
    Constraint,
    Dim,
    ShapesCollection,
    dims,
)
from rushlight.export.exported_program import (
    ExportedProgram,
    GuardError,
    ModuleCallEntry,
    ModuleCallSignature,
    default_decompositions,
    guards_of,
    signature_of,
)
from rushlight.export.graph_signature import (
    ConstantArgument,
    CustomObjArgument,
    ExportBackwardSignature,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from rushlight.export.unflatten import FlatArgsAdapter, UnflattenedModule, unflatten
from rushlight.fx import GraphModule as _GraphModule
from rushlight.nn import Module as _Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping
    from typing import IO, Any


def export(
    mod: _Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """Record a module as a graph of operations.

    The module runs on the example inputs, more than once. What it decides by their sizes becomes
    a guard; what it decides by values of tensors is an error that names the line (see
    `torch.cond`).

    Args:
        mod: an `nn.Module`.
        args: tuple of example arguments.
        kwargs: dict of further ones.
        dynamic_shapes: which sizes may change: for each argument a dict {dim: Dim}, or a list with
            an entry for each dim; see `Dim`.
        strict: has no effect, with a warning: programs are run, not read.
        preserve_module_call_signature: paths of modules that `unflatten` lets take what they took.

    Returns:
        ExportedProgram.

    Raises:
        UnsupportedOperation: the program does something that a graph cannot hold.

    Example:
        >>> net = torch.nn.Linear(2, 1)
        >>> program = torch.export.export(net, (torch.ones(3, 2),))
        >>> [n.name for n in program.graph.nodes]
        ['p_weight', 'p_bias', 'input_1', 'linear', 'output']
        >>> bool((program.module()(torch.ones(3, 2)) == net(torch.ones(3, 2))).all())
        True
    """
    if not isinstance(mod, _Module):
        raise ValueError(f"export: mod must be a torch.nn.Module, got {type(mod).__name__}")
    if not isinstance(args, tuple):
        raise ValueError(
            f"export: args must be a tuple of example inputs, got {type(args).__name__}"
        )
    if kwargs is not None and not isinstance(kwargs, dict):
        raise ValueError(f"export: kwargs must be a dict, got {type(kwargs).__name__}")
    _warn_of("export", "programs are run, not read, with the same graph", strict=strict)
    if prefer_deferred_runtime_asserts_over_guards:
        raise NotImplementedError("export: prefer_deferred_runtime_asserts_over_guards")
    preserved = _modules_named(mod, preserve_module_call_signature)
    program = _program(mod, args, kwargs, dynamic_shapes, preserved=preserved)
    if isinstance(dynamic_shapes, AdditionalInputs):
        dynamic_shapes.verify(program)
    return program


def _modules_named(mod, paths):
    """The paths, which must be of modules."""
    missing = set(paths) - {path for path, _ in mod.named_modules()}
    if missing:
        raise ValueError(
            f"export: preserve_module_call_signature: there is no module {sorted(missing)[0]!r}"
        )
    return tuple(paths)


def _program(mod, args, kwargs, dynamic_shapes=None, check=True, preserved=()):
    """The ExportedProgram of a module or function."""
    recording, sizes, _ = _trace(mod, args, kwargs, dynamic_shapes, check, preserved)
    return _assembled(recording, mod, args, kwargs, dict(sizes.ranges))


def _assembled(recording, mod, args, kwargs, ranges):
    """The ExportedProgram of a recording."""
    from rushlight.export import passes

    graph = recording.graph
    passes.eliminate_dead_code(graph)
    module = mod if isinstance(mod, _Module) else getattr(mod, "__self__", None)
    module = module if isinstance(module, _Module) else _Module()
    state = dict(module.named_parameters())
    buffers, saved = dict(module.named_buffers()), module.state_dict()
    not_saved = {name for name in buffers if name not in saved}
    state |= {name: value for name, value in buffers.items() if name not in not_saved}
    for named in (module.named_parameters, module.named_buffers):  # further names of the same
        again = dict(named(remove_duplicate=False))
        state |= {n: v for n, v in again.items() if n in saved and n not in state}
    constants = {name: buffers[name] for name in not_saved}
    found = recording.recorder.constants
    constants |= {n.meta["target"]: _elements_of(value) for n, value in found}
    root = {f"{name}": value for name, value in recording.recorder.modules.items()}
    program = ExportedProgram(
        _GraphModule(root, graph), signature_of(graph, not_saved), state, constants,
        recording.in_spec, recording.out_spec, guards_of(graph), ranges,
        (tuple(args), dict(kwargs or {})),
    )  # fmt: skip
    program.training = mod.training if isinstance(mod, _Module) else None
    if recording.module_calls is not None:  # of a graph for kernels, nobody asks
        program._module_calls = recording.module_calls.resolved()
    return program


def save(
    ep: ExportedProgram,
    f: str | os.PathLike[str] | IO[bytes],
    *,
    extra_files: dict[str, str | bytes] | None = None,
    opset_version: dict[str, int] | None = None,
    pickle_protocol: int | None = None,
) -> None:
    """Write a program to a file: docs/programs.md has its layout. No pickle is in it.

    Args:
        ep: ExportedProgram.
        f: path, or file object open for writing bytes.
        extra_files: {name: str or bytes} to lie beside the program.
    """
    from rushlight.export import _archive

    if opset_version is not None:
        raise NotImplementedError(
            "export.save: opset_version: files have the version of this library"
        )
    if pickle_protocol is not None:
        raise NotImplementedError("export.save: pickle_protocol: nothing is pickled")
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"export.save: expected an ExportedProgram, got {type(ep).__name__}")
    _archive.save(ep, f, extra_files)


def load(
    f: str | os.PathLike[str] | IO[bytes],
    *,
    extra_files: dict[str, Any] | None = None,
    expected_opset_version: dict[str, int] | None = None,
) -> ExportedProgram:
    """Read what `save` wrote. Nothing in the file is executed or unpickled.

    Args:
        f: path, or file object open for reading bytes.
        extra_files: dict whose keys name files to read; their text becomes the values.

    Raises:
        ValueError: the file is damaged, or no program.
    """
    from rushlight.export import _archive

    if expected_opset_version is not None:
        raise NotImplementedError("export.load: expected_opset_version")
    program = _archive.load(f, extra_files)
    for name, data in (extra_files or {}).items():
        extra_files[name] = data.decode()
    return program


def draft_export(
    mod: _Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    preserve_module_call_signature: tuple[str, ...] = (),
    strict: bool = False,
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """Refused: a program with operations that were left out would not be what the module does.

    Raises: NotImplementedError. The errors of `export` say what a graph cannot hold, and where.
    """
    raise NotImplementedError(
        "draft_export: no program is made of what a graph cannot hold: the error of export names "
        "it, and the line"
    )


def register_dataclass(cls: type[Any], *, serialized_type_name: str | None = None) -> None:
    """Let inputs and outputs of programs be instances of a dataclass."""
    from rushlight.utils._pytree import register_dataclass as register

    name = serialized_type_name or f"{cls.__module__}.{cls.__qualname__}"
    register(cls, serialized_type_name=name)


export_for_training = export

__all__ = [
    "AdditionalInputs", "ConstantArgument", "Constraint", "CustomDecompTable", "CustomObjArgument",
    "Dim", "ExportBackwardSignature", "ExportGraphSignature", "ExportedProgram", "FlatArgsAdapter",
    "GuardError", "InputKind", "InputSpec", "ModuleCallEntry", "ModuleCallSignature", "OutputKind",
    "OutputSpec", "ShapesCollection", "SymBoolArgument", "SymFloatArgument", "SymIntArgument",
    "TensorArgument", "UnflattenedModule", "UnsupportedOperation", "default_decompositions",
    "dims", "draft_export", "export", "export_for_training", "load", "register_dataclass", "save",
    "unflatten",
]  # fmt: skip
