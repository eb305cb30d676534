"""Ways to divide a layer."""

from __future__ import annotations

import rushlight
from rushlight import Tensor, nn
from rushlight.distributed.tensor._dtensor import DTensor, distribute_module, distribute_tensor
from rushlight.distributed.tensor.placement_types import Replicate, Shard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.distributed.tensor.placement_types import Placement


class ParallelStyle:
    """A way to divide a layer; `_apply(module, mesh)` does it."""

    src_data_rank = 0

    def _apply(self, module, device_mesh):
        raise NotImplementedError(f"{type(self).__name__}: {module} on {device_mesh}")


def _as_dtensor(thing, mesh, layout, shape=None):
    if isinstance(thing, Tensor) and not isinstance(thing, DTensor):
        stride = None if shape is None else rushlight.empty(shape, device="meta").stride()
        return DTensor.from_local(thing, mesh, (layout,), shape=shape, stride=stride)
    return thing


def _shape_of_input(child, thing, layout):
    """The whole's, where this process's part does not tell: parts may differ in length."""
    if isinstance(child, nn.Linear) and layout._divides() and thing.dim():
        if layout.dim % thing.dim() == thing.dim() - 1:
            return (*thing.shape[:-1], child.weight.shape[1])
    return None


def _given_out(output, layout, use_local):
    output = output.redistribute(placements=(layout,))
    return output.to_local() if use_local else output


class _OfLayer(ParallelStyle):
    """Divides a Linear or an Embedding.

    Args:
        input_layouts: how the input lies.
        output_layouts: how the output is to lie.
        use_local_output: give this process's part of it, as a plain tensor.
    """

    _input, _output = Replicate(), Replicate()

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        output_layouts: Any = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__()
        self.input_layouts: Any = (input_layouts or self._input,)
        self.output_layouts: Any = (output_layouts or self._output,)
        self.use_local_output = use_local_output

    @property
    def desired_input_layouts(self) -> tuple[Placement, ...]:
        """How the input of a Linear has to lie."""
        return (self._wanted(None),)

    def _wanted(self, module):
        """How the input has to lie for the layer."""
        raise NotImplementedError(f"{type(self).__name__} of {type(module).__name__}")

    def _places(self, module):
        """Names of parameters with their placements."""
        raise NotImplementedError(f"{type(self).__name__} of {type(module).__name__}")

    def _apply(self, module, device_mesh):
        if not isinstance(module, (nn.Linear, nn.Embedding)):
            raise NotImplementedError(
                f"{type(self).__name__} currently only support nn.Linear and nn.Embedding, got "
                f"{type(module).__name__}"
            )

        def partition(name, child, mesh):
            for key, placement in self._places(child).items():
                parameter = child._parameters.get(key)
                if parameter is not None:
                    divided = distribute_tensor(
                        parameter, mesh, (placement,), src_data_rank=self.src_data_rank
                    )
                    child.register_parameter(key, divided)

        def on_input(child, inputs, mesh):
            layout = self.input_layouts[0]
            shape = _shape_of_input(child, inputs[0], layout)
            first = _as_dtensor(inputs[0], mesh, layout, shape)
            return (first.redistribute(placements=(self._wanted(child),)), *inputs[1:])

        def on_output(child, output, mesh):
            return _given_out(output, self.output_layouts[0], self.use_local_output)

        return distribute_module(module, device_mesh, partition, on_input, on_output)


class ColwiseParallel(_OfLayer):
    """Each process has some of the outputs of a Linear, or some columns of an Embedding.

    Args:
        input_layouts: how the input lies; Replicate() by default.
        output_layouts: how the output is to lie; Shard(-1) by default.
        use_local_output: give this process's part of it, as a plain tensor.
    """

    _output = Shard(-1)

    def _wanted(self, module):
        return Replicate()

    def _places(self, module):
        if isinstance(module, nn.Linear):
            return {"weight": Shard(0), "bias": Shard(0)}
        return {"weight": Shard(1)}


class RowwiseParallel(_OfLayer):
    """Each process has some of the inputs of a Linear, or some rows of an Embedding.

    Args:
        input_layouts: how the input lies; Shard(-1) by default.
        output_layouts: how the output is to lie; Replicate() by default.
        use_local_output: give this process's part of it, as a plain tensor.
    """

    _input = Shard(-1)

    def _wanted(self, module):
        return Replicate() if isinstance(module, nn.Embedding) else Shard(-1)

    def _places(self, module):
        if isinstance(module, nn.Linear):
            return {"weight": Shard(1), "bias": Replicate()}
        return {"weight": Shard(0)}


class SequenceParallel(ParallelStyle):
    """A LayerNorm, RMSNorm or Dropout whose input is divided along the sequence.

    Args:
        sequence_dim: that dim.
        use_local_output: give this process's part of the output, as a plain tensor.
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        super().__init__()
        self.sequence_sharding: tuple[Shard] = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module, device_mesh):
        def on_input(child, inputs, mesh):
            first = _as_dtensor(inputs[0], mesh, self.sequence_sharding[0])
            return (first.redistribute(placements=self.sequence_sharding), *inputs[1:])

        def on_output(child, output, mesh):
            return output.to_local() if self.use_local_output else output

        return distribute_module(module, device_mesh, None, on_input, on_output)


def _tuple(thing):
    return thing if isinstance(thing, tuple) else (thing,)


class PrepareModuleInput(ParallelStyle):
    """Lets the inputs of a module lie as it wants them.

    Args:
        input_layouts: how the positional inputs lie; None for those that are left alone.
        desired_input_layouts: how they are to lie.
        input_kwarg_layouts, desired_input_kwarg_layouts: the same, by name, of keyword arguments.
        use_local_output: give plain tensors to the module.
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: Any = None,
        desired_input_kwarg_layouts: Any = None,
        use_local_output: bool = False,
    ) -> None:
        super().__init__()
        self.input_layouts: Any = None if input_layouts is None else _tuple(input_layouts)
        self.desired_input_layouts: Any = (
            None if desired_input_layouts is None else _tuple(desired_input_layouts)
        )
        self.input_kwarg_layouts: Any = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts: Any = desired_input_kwarg_layouts or {}
        self.with_kwargs: bool = len(self.input_kwarg_layouts) > 0
        self.use_local_output = use_local_output
        lengths = [len(way or ()) for way in (self.input_layouts, self.desired_input_layouts)]
        if (input_layouts is None) != (desired_input_layouts is None) or lengths[0] != lengths[1]:
            raise AssertionError("input_layouts and desired_input_layouts should have same length!")

    def _one(self, thing, mesh, layout, desired):
        if layout is None or not isinstance(thing, Tensor):
            return thing
        thing = _as_dtensor(thing, mesh, layout).redistribute(placements=(desired,))
        return thing.to_local() if self.use_local_output else thing

    def _apply(self, module, device_mesh):
        def prepare(child, args, kwargs):
            if self.input_layouts is not None:
                if len(args) != len(self.input_layouts):
                    raise ValueError("module inputs and input_layouts should have same length!")
                args = tuple(
                    self._one(thing, device_mesh, layout, desired)
                    for thing, layout, desired in zip(
                        args, self.input_layouts, self.desired_input_layouts
                    )
                )
            for name, layout in self.input_kwarg_layouts.items():
                if name in kwargs:
                    kwargs[name] = self._one(
                        kwargs[name], device_mesh, layout, self.desired_input_kwarg_layouts[name]
                    )
            return args, kwargs

        module.register_forward_pre_hook(prepare, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Lets the outputs of a module lie otherwise.

    Args:
        output_layouts: how they lie; None for those that are left alone.
        desired_output_layouts: how they are to lie.
        use_local_output: give plain tensors.
    """

    def __init__(
        self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True
    ) -> None:
        super().__init__()
        self.output_layouts: Any = _tuple(output_layouts)
        self.desired_output_layouts: Any = _tuple(desired_output_layouts)
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError(
                "output_layouts and desired_output_layouts should have same length!"
            )

    def _apply(self, module, device_mesh):
        def prepare(child, args, output):
            outputs = _tuple(output)
            if len(outputs) != len(self.output_layouts):
                raise ValueError("module outputs and output_layouts should have same length!")
            given = []
            for thing, layout, desired in zip(
                outputs, self.output_layouts, self.desired_output_layouts
            ):
                if layout is not None and isinstance(thing, Tensor):
                    thing = _as_dtensor(thing, device_mesh, layout)
                    thing = _given_out(thing, desired, self.use_local_output)
                given.append(thing)
            return tuple(given) if isinstance(output, tuple) else given[0]

        module.register_forward_hook(prepare)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """PrepareModuleInput and PrepareModuleOutput in one.

    Args:
        input_layouts, desired_input_layouts: see PrepareModuleInput.
        input_kwarg_layouts, desired_input_kwarg_layouts: see PrepareModuleInput.
        use_local_input: give plain tensors to the module.
        output_layouts, desired_output_layouts: see PrepareModuleOutput.
        use_local_output: give plain tensors to the caller.

    Example:
        >>> from rushlight.distributed.tensor import Replicate, Shard
        >>> prepared = PrepareModuleInputOutput(
        ...     input_layouts=Shard(0), desired_input_layouts=Replicate(),
        ...     output_layouts=Replicate(), desired_output_layouts=Shard(0),
        ... )
        >>> prepared.prepare_module_output.desired_output_layouts
        (Shard(dim=0),)
    """

    prepare_module_input: PrepareModuleInput
    prepare_module_output: PrepareModuleOutput

    def __init__(
        self,
        *,
        input_layouts: Placement | tuple[Placement | None, ...] | None = None,
        desired_input_layouts: Placement | tuple[Placement | None, ...] | None = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Placement | tuple[Placement | None, ...],
        desired_output_layouts: Placement | tuple[Placement, ...],
        use_local_output: bool = True,
    ) -> None:
        super().__init__()
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module, device_mesh):
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)


__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
]
