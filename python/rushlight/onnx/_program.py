"""`ONNXProgram`: an ONNX model, which onnxruntime runs, and the program that it was made of."""

from __future__ import annotations

import copy
import os

import rushlight
from rushlight._ignored import warn_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rushlight import Tensor

_LARGEST_MESSAGE = 1536 * 1024 * 1024  # bytes of weights; protocol buffers end at 2 GiB


def session_of(model: str | bytes) -> Any:
    """onnxruntime's session of a model, on the CPU: of its bytes, or of the path of its file."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors alone
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _tensors(inputs):
    """What the model is given, as NumPy's arrays: its inputs are the tensors."""
    return [t.detach().numpy() for t in inputs if isinstance(t, rushlight.Tensor)]


class ONNXProgram:
    """What `export` returns: the ONNX model, and the program that it was made of.

    Attributes:
        model_proto: the model, as package `onnx` has it.
        exported_program: the program.
    """

    model_proto: Any
    exported_program: Any

    def __init__(self, model_proto: Any, exported_program: Any) -> None:
        self.model_proto = model_proto
        self.exported_program = exported_program
        self._session: Any = None
        self._folder: Any = None

    def _inputs(self, args, kwargs):
        """The inputs of the model by name."""
        arrays = _tensors(self.exported_program.flat_inputs(args, kwargs))
        return self._named(arrays)

    def _named(self, arrays):
        weights = {w.name for w in self.model_proto.graph.initializer}
        names = [i.name for i in self.model_proto.graph.input if i.name not in weights]
        if len(names) != len(arrays):
            raise ValueError(
                f"ONNXProgram: the model takes {len(names)} tensors, {', '.join(names)}, and got "
                f"{len(arrays)}"
            )
        return dict(zip(names, arrays))

    def _run(self, feeds):
        if self._session is None:
            self.initialize_inference_session()
        return tuple(map(rushlight.from_numpy, self._session.run(None, feeds)))

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """Run the model by onnxruntime, and return a tuple of tensors."""
        return self._run(self._inputs(args, kwargs))

    def call_reference(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        """Run the model by the reference implementation in package `onnx`, which needs no other."""
        from onnx.reference import ReferenceEvaluator

        results = ReferenceEvaluator(self.model_proto).run(None, self._inputs(args, kwargs))
        return tuple(map(rushlight.as_tensor, results))

    def compute_values(
        self, value_names: Sequence[str], args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> tuple[Tensor, ...]:
        """Run the model, and return what it computes on the way.

        Args:
            value_names: the names of results of its nodes, of inputs or of weights.
            args, kwargs: what the model is called with.
        """
        graph = self.model_proto.graph
        known = {name for node in graph.node for name in node.output}
        known |= {value.name for value in (*graph.input, *graph.initializer)}
        for name in value_names:
            if name not in known:
                raise ValueError(
                    f"Value '{name}' not found in the model. Please provide a valid value name."
                )
        from onnx import ValueInfoProto

        model = copy.deepcopy(self.model_proto)
        del model.graph.output[:]
        model.graph.output.extend(ValueInfoProto(name=name) for name in value_names)
        other = ONNXProgram(model, self.exported_program)
        return other(*args, **(kwargs or {}))

    def optimize(self) -> None:
        """Leave out nodes that nothing needs, and let equal constants be one, in place.

        `export` folds constants before it writes the model.
        """
        graph = self.model_proto.graph
        if any(a.HasField("g") or a.graphs for node in graph.node for a in node.attribute):
            return  # a branch may need any value
        needed = {value.name for value in graph.output}
        kept = []
        for node in reversed(graph.node):
            if needed.intersection(node.output):
                kept.append(node)
                needed.update(node.input)
        kept.reverse()
        first: dict[Any, str] = {}
        names: dict[str, str] = {}
        for weight in graph.initializer:
            if weight.name in needed:
                content = (weight.data_type, tuple(weight.dims), weight.raw_data)
                if weight.raw_data:
                    names[weight.name] = first.setdefault(content, weight.name)
        for node in kept:
            node.input[:] = [names.get(name, name) for name in node.input]
        used = {name for node in kept for name in node.input} | needed & {
            value.name for value in graph.output
        }
        weights = [copy.deepcopy(w) for w in graph.initializer if w.name in used]
        nodes = [copy.deepcopy(node) for node in kept]
        del graph.node[:], graph.initializer[:]
        graph.node.extend(nodes)
        graph.initializer.extend(weights)
        self.release()

    def save(
        self,
        destination: str | os.PathLike[str],
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
    ) -> None:
        """Write the model to a file.

        Args:
            destination: path of the file.
            include_initializers: with the weights.
            keep_initializers_as_inputs: weights are inputs too, which may be given when it runs.
            external_data: weights lie in a file beside it, whose name ends in ".data"; so do those
                of models of more than 1.5 GiB.
        """
        model = self.model_proto
        if external_data is None:
            external_data = include_initializers and _weight_bytes(model) > _LARGEST_MESSAGE
        if not include_initializers or keep_initializers_as_inputs or external_data:
            model = copy.deepcopy(model)
        if keep_initializers_as_inputs:
            model.graph.input.extend(map(_input_of, model.graph.initializer))
        if not include_initializers:
            del model.graph.initializer[:]
        path = os.fspath(destination)
        if not external_data:
            with open(path, "wb") as file:
                file.write(model.SerializeToString())
            return
        import onnx

        beside = f"{os.path.basename(path)}.data"
        if os.path.exists(f"{path}.data"):
            os.remove(f"{path}.data")  # else weights are appended to it
        onnx.save_model(model, path, save_as_external_data=True, location=beside, size_threshold=0)

    def apply_weights(self, state_dict: Mapping[str, Tensor]) -> None:
        """Let the model have other weights, by the names of its initializers.

        Warns: OnnxExporterWarning for names that are none of the model's.
        """
        from onnx import numpy_helper

        from rushlight.onnx.errors import OnnxExporterWarning

        places = {w.name: w for w in self.model_proto.graph.initializer}
        for name, tensor in state_dict.items():
            if name not in places:
                warn_program(
                    f"Weight '{name}' not found in the model. Skipped applying.",
                    OnnxExporterWarning,
                )
                continue
            array = tensor.detach().contiguous().numpy()
            places[name].CopyFrom(numpy_helper.from_array(array, name))
        self.release()

    def initialize_inference_session(
        self, initializer: Callable[[str | bytes], Any] = session_of
    ) -> None:
        """Make the session of onnxruntime that calls use.

        Args:
            initializer: makes it of the model's bytes, or of the path of a file if the weights are
                large.
        """
        self.release()
        if _weight_bytes(self.model_proto) <= _LARGEST_MESSAGE:
            self._session = initializer(self.model_proto.SerializeToString())
            return
        import tempfile

        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        path = os.path.join(self._folder.name, "model.onnx")
        self.save(path, external_data=True)
        self._session = initializer(path)

    def release(self) -> None:
        """Give back the session, and the files that it reads; the next call makes another."""
        self._session = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def rename_axes(self, rename_mapping: Mapping[Any, str]) -> None:
        """Give sizes that may change other names, in all inputs, outputs and results.

        Args:
            rename_mapping: {name of a size: its new name}.
        """
        new = {str(name): other for name, other in rename_mapping.items()}
        graph = self.model_proto.graph
        for value in (*graph.input, *graph.output, *graph.value_info):
            for size in value.type.tensor_type.shape.dim:
                if size.dim_param in new:
                    size.dim_param = new[size.dim_param]
        self.release()

    def __repr__(self) -> str:
        graph = self.model_proto.graph
        return (
            f"ONNXProgram(inputs={[i.name for i in graph.input]}, "
            f"outputs={[o.name for o in graph.output]}, nodes={len(graph.node)})"
        )


def _weight_bytes(model):
    return sum(w.ByteSize() for w in model.graph.initializer)


def _input_of(weight):
    from onnx import helper

    return helper.make_tensor_value_info(weight.name, weight.data_type, list(weight.dims))
