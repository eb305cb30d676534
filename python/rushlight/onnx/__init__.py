"""ONNX: `export` writes a model of its operators, `load` reads one back as a module."""

from __future__ import annotations

import contextlib
import importlib
import os

from rushlight import _absent
from rushlight._set_module import set_module as _set_module
from rushlight.onnx._export import OPSET as _OPSET, OnnxExporterError, to_model
from rushlight.onnx._exportable_module import ExportableModule
from rushlight.onnx._input_observer import InputObserver
from rushlight.onnx._load import load
from rushlight.onnx._modes import (
    OperatorExportTypes as OperatorExportTypes,
    TensorProtoDataType as TensorProtoDataType,
    TrainingMode as TrainingMode,
    exported_in as _exported_in,
)
from rushlight.onnx._program import ONNXProgram

_set_module("rushlight.onnx", OperatorExportTypes, TensorProtoDataType, TrainingMode)
_set_module("rushlight.onnx", ExportableModule, InputObserver, ONNXProgram, OnnxExporterError, load)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike
    from typing import Any

    from rushlight.export import ExportedProgram
    from rushlight.jit import ScriptFunction
    from rushlight.nn.modules.module import Module


def export(
    model: Module | ExportedProgram | ScriptFunction,
    args: Any = (),
    f: Any = None,
    *,
    kwargs: Any = None,
    verbose: Any = None,
    input_names: Any = None,
    output_names: Any = None,
    opset_version: Any = None,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: Any = None,
    custom_translation_table: Any = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str = '.',
    fallback: bool = False,
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    dynamic_axes: Any = None,
    training: Any = None,
    operator_export_type: Any = None,
    do_constant_folding: bool = True,
    custom_opsets: Any = None,
    export_modules_as_functions: bool = False,
    autograd_inlining: bool = True,
) -> Any:  # fmt: skip
    """Write a model in ONNX's operators.

    Args:
        model: an `nn.Module` in evaluation mode, an `ExportedProgram`, or an `ExportableModule`,
            which has the arguments that are not given.
        args: tuple of example arguments, or one tensor.
        f: path of the file; None to write none.
        kwargs: further example arguments.
        input_names, output_names: names instead of the program's.
        opset_version: of the operators; 18 by default, and at least.
        dynamic_shapes: as in `torch.export.export`.
        dynamic_axes: the older form of it: {name of an input: {dim: name}, or a list of dims}.
        verify: run the model by onnxruntime and compare.
        optimize: fold constants.
        training: a `TrainingMode`, to export the module in that; None: as it is.

    Returns:
        ONNXProgram.

    Raises:
        OnnxExporterError: an operation has no operator, by name and line; or `onnx` is not there.
    """
    import rushlight
    from rushlight._ignored import warn_of
    from rushlight.export import Dim, ExportedProgram, export as export_program, passes

    warn_of(
        "onnx.export", "there is one way to export",
        verbose=verbose, report=report, profile=profile, fallback=fallback,
        dump_exported_program=dump_exported_program, custom_opsets=custom_opsets,
        export_modules_as_functions=export_modules_as_functions,
        operator_export_type=operator_export_type or None,
        dynamo=None if dynamo else "False", artifacts_dir=None if artifacts_dir == "." else True,
        autograd_inlining=None if autograd_inlining else "False",
        external_data=None if external_data else "False",
        do_constant_folding=None if do_constant_folding else "False",
    )  # fmt: skip
    for name, given in (("custom_translation_table", custom_translation_table),
                        ("keep_initializers_as_inputs", keep_initializers_as_inputs),
                        ("export_params=False", not export_params)):  # fmt: skip
        if given:
            raise NotImplementedError(f"onnx.export: {name} is not supported")
    if isinstance(model, ExportableModule):
        args, kwargs = (args, kwargs) if args or kwargs else model.example_arguments()
        dynamic_shapes = model.dynamic_shapes() if dynamic_shapes is None else dynamic_shapes
        input_names = input_names or model.input_names()
        output_names = output_names or model.output_names()
    if isinstance(model, ExportedProgram):
        program = model
    else:
        args = (args,) if isinstance(args, rushlight.Tensor) else tuple(args)
        if dynamic_axes:
            names = list(input_names or [])
            unknown = set(dynamic_axes) - set(names) - set(output_names or ())
            if unknown:
                raise ValueError(f"onnx.export: dynamic_axes names {sorted(unknown)}")
            dynamic_shapes = []
            for place in range(len(args)):
                axes = dynamic_axes.get(names[place], {}) if place < len(names) else {}
                if not isinstance(axes, dict):
                    axes = {d: f"{names[place]}_dim_{d}" for d in axes}
                dynamic_shapes.append({d: Dim(n) for d, n in axes.items()} or None)
        with _exporting(), _exported_in(model, training):
            program = export_program(model, args, kwargs, dynamic_shapes=dynamic_shapes)
    _warn_of_symbolics(program)
    if optimize:
        program = passes.fold_constants(program)
    made = ONNXProgram(
        to_model(program, input_names, output_names, opset_version or _OPSET), program
    )
    if f is not None:
        made.save(os.fspath(f))
    if verify:
        example_args, example_kwargs = program.example_inputs
        want = rushlight.utils._pytree.tree_leaves(
            program.module()(*example_args, **example_kwargs)
        )
        for a, b in zip(made(*example_args, **example_kwargs), want, strict=True):
            rushlight.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    return made


def dynamo_export(
    model: Module, /, *model_args: Any, export_options: Any = None, **model_kwargs: Any
) -> Any:
    """The older name of `export`."""
    if export_options is not None:
        raise NotImplementedError("onnx.dynamo_export: export_options: give them to onnx.export")
    return export(model, model_args, kwargs=model_kwargs)


_is_exporting = False
_symbolics = {}


@contextlib.contextmanager
def _exporting():
    global _is_exporting
    _is_exporting = True
    try:
        yield
    finally:
        _is_exporting = False


def is_in_onnx_export() -> bool:
    """Is a model being exported?"""
    return _is_exporting


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Accepted, as libraries call it when they are imported. `export` has its own operators for
    operations, and warns where a program has one of these.
    """
    _symbolics[symbolic_name] = symbolic_fn, opset_version


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Undo `register_custom_op_symbolic`."""
    if _symbolics.get(symbolic_name, (None, None))[1] == opset_version:
        del _symbolics[symbolic_name]


def _warn_of_symbolics(program):
    from rushlight._ignored import warn_once

    for node in program.graph.nodes:
        name = node.target.name() if hasattr(node.target, "name") else None
        if name in _symbolics:
            warn_once(
                f"onnx.export: {name}: what register_custom_op_symbolic was given is not used"
            )


def __getattr__(name: str) -> object:
    if name == "errors":
        return importlib.import_module("rushlight.onnx.errors")
    raise AttributeError(f"module 'rushlight.onnx' has no attribute {name!r}")


globals().update(
    _absent.refused(
        {
            "ops": "operators of ONNX are not called by themselves: `load` makes a module of them",
        }
    )
)

__all__ = [
    "ExportableModule", "InputObserver", "ONNXProgram", "OnnxExporterError",
    "dynamo_export", "export", "is_in_onnx_export", "load",
    "register_custom_op_symbolic", "unregister_custom_op_symbolic",
]  # fmt: skip
