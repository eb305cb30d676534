"""Products with the Jacobian and the Hessian of a function, and both matrices in full.

All functions take a Python function of tensors and the point, a tensor or a tuple of tensors, and
leave `.grad` of the point alone. `create_graph=True` makes results differentiable, also with
respect to the point; `strict=True` makes it an error if a result does not depend on the point,
where otherwise it is zero.
"""

from __future__ import annotations

import rushlight
from rushlight import autograd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import Tensor


def vjp(
    func: Callable[..., Any],
    inputs: Any,
    v: Sequence[Tensor] | Tensor | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """Return `func(*inputs)` and the product of the vector `v` with the Jacobian there.

    Args:
        func: function of tensors that returns a tensor or a tuple of tensors.
        inputs: the point.
        v: a vector of the outputs' shapes; may be left out if there is one output of one element.
        create_graph: make the results differentiable.
        strict: raise an error if an output does not depend on an input.

    Returns:
        (outputs, product), the product in the form of `inputs`.
    """
    with rushlight.enable_grad():
        call = _Call("vjp", func, inputs, create_graph, strict)
        v = call.output_vector(v)
    with rushlight.set_grad_enabled(create_graph or rushlight.is_grad_enabled()):
        product = call.input_gradients(call.outputs, v, create_graph)
    return call.finish_outputs(), call.like_inputs(product)


def jvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Sequence[Tensor] | Tensor | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """Return `func(*inputs)` and the product of the Jacobian there with the vector `v`.

    It is the gradient of the vector-Jacobian product with respect to the vector, so it needs no
    forward mode and costs two backward passes.

    Args:
        func: function of tensors that returns a tensor or a tuple of tensors.
        inputs: the point.
        v: a vector of the inputs' shapes; may be left out if there is one input of one element.
        create_graph: make the results differentiable.
        strict: raise an error if an output does not depend on an input.

    Returns:
        (outputs, product), the product in the form of the outputs.
    """
    with rushlight.enable_grad():
        call = _Call("jvp", func, inputs, create_graph, strict)
        v = call.input_vector(v)
        probes = tuple(rushlight.zeros_like(out, requires_grad=True) for out in call.outputs)
        pulled_back = call.input_gradients(call.outputs, probes, True)
    with rushlight.set_grad_enabled(create_graph or rushlight.is_grad_enabled()):
        product = call.gradients(pulled_back, probes, v, create_graph, "Jacobian")
    return call.finish_outputs(), call.like_outputs(product)


def vhp(
    func: Callable[..., Any],
    inputs: Any,
    v: Tensor | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """Return `func(*inputs)` and the product of the vector `v` with the Hessian there.

    Args:
        func: function of tensors that returns one tensor of one element.
        inputs: the point.
        v: a vector of the inputs' shapes; may be left out if there is one input of one element.
        create_graph: make the results differentiable.
        strict: raise an error if a derivative does not depend on an input.

    Returns:
        (output, product), the product in the form of `inputs`.
    """
    with rushlight.enable_grad():
        call = _Call("vhp", func, inputs, create_graph, strict)
        v = call.input_vector(v)
        gradient = call.gradient_of_scalar()
    with rushlight.set_grad_enabled(create_graph or rushlight.is_grad_enabled()):
        product = call.input_gradients(gradient, v, create_graph, "Hessian")
    return call.finish_outputs(), call.like_inputs(product)


def hvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Tensor | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> Any:
    """Return `func(*inputs)` and the product of the Hessian there with the vector `v`.

    The Hessian is symmetric wherever the second derivatives are continuous; there `vhp` gives the
    same for less.

    Args:
        func: function of tensors that returns one tensor of one element.
        inputs: the point.
        v: a vector of the inputs' shapes; may be left out if there is one input of one element.
        create_graph: make the results differentiable.
        strict: raise an error if a derivative does not depend on an input.

    Returns:
        (output, product), the product in the form of `inputs`.
    """
    with rushlight.enable_grad():
        call = _Call("hvp", func, inputs, create_graph, strict)
        v = call.input_vector(v)
        gradient = call.gradient_of_scalar()
        probes = tuple(rushlight.zeros_like(part, requires_grad=True) for part in gradient)
        pulled_back = call.input_gradients(gradient, probes, True, "Hessian")
    with rushlight.set_grad_enabled(create_graph or rushlight.is_grad_enabled()):
        product = call.gradients(pulled_back, probes, v, create_graph, "Hessian")
    return call.finish_outputs(), call.like_inputs(product)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Return the Jacobian of `func` at `inputs`.

    Args:
        func: function of tensors that returns a tensor or a tuple of tensors.
        inputs: the point.
        create_graph: make the Jacobian differentiable.
        strict: raise an error if an output does not depend on an input.
        vectorize: accepted; the result is the same.
        strategy: "reverse-mode" goes through the outputs, "forward-mode", for more outputs than
            inputs and only with `vectorize`, through the inputs.

    Returns:
        For one input and one output a tensor of the output's shape followed by the input's; a
        tuple over inputs, over outputs, or over outputs of tuples over inputs, where there are
        several.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            "jacobian: strategy must be 'forward-mode' or 'reverse-mode'. Hint: the former suits"
            " functions with more outputs than inputs."
        )
    if strict and vectorize:
        raise RuntimeError(
            "jacobian: strict=True and vectorize=True are not supported together: a vectorized "
            "pass does not tell what is independent"
        )
    if strategy == "forward-mode":
        if not vectorize:
            raise NotImplementedError("jacobian: strategy='forward-mode' needs vectorize=True")
        return _jacobian_by_columns(func, inputs, create_graph)
    with rushlight.enable_grad():
        call = _Call("jacobian", func, inputs, create_graph, strict)
        rows = tuple(call.like_inputs(call.rows(position)) for position in range(len(call.outputs)))
    return rows if call.many_outputs else rows[0]


def _jacobian_by_columns(func, inputs, create_graph):
    with rushlight.enable_grad():
        call = _Call("jacobian", func, inputs, create_graph, False)
        probes = tuple(rushlight.zeros_like(out, requires_grad=True) for out in call.outputs)
        pulled_back = call.input_gradients(call.outputs, probes, True)
        columns = [[] for _ in call.outputs]
        for position, point in enumerate(call.inputs):
            blocks = call.columns(pulled_back, probes, position)
            for output, block, per_input in zip(call.outputs, blocks, columns, strict=True):
                per_input.append(block.reshape(output.shape + point.shape))
        result = tuple(call.like_inputs(tuple(per_input)) for per_input in columns)
    return result if call.many_outputs else result[0]


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Return the Hessian of `func` at `inputs`.

    Args:
        func: function of tensors that returns one tensor of one element.
        inputs: the point.
        create_graph: make the Hessian differentiable.
        strict: raise an error if a derivative does not depend on an input.
        vectorize: accepted; the result is the same.
        outer_jacobian_strategy: how to differentiate the gradient, see `jacobian`.

    Returns:
        For one input a tensor of its shape twice over, for several a tuple of tuples.
    """
    many_inputs = isinstance(inputs, tuple)
    point = _tensors("hessian", "inputs", inputs)
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            "hessian: outer_jacobian_strategy must be 'forward-mode' or 'reverse-mode'"
        )

    def scalar(*args):
        out = func(*args)
        _tensors("hessian", "outputs of the user-provided function", out)
        if not isinstance(out, rushlight.Tensor):
            raise RuntimeError("The function given to hessian should return a single Tensor")
        if out.numel() != 1:
            raise RuntimeError(
                "The Tensor returned by the function given to hessian should contain a single"
                " element"
            )
        return out.squeeze()

    def gradient(*args):
        parts = jacobian(scalar, args, create_graph=True)
        if strict and not all(part.requires_grad for part in parts):
            raise RuntimeError("hessian: the gradient does not depend on the input (strict mode)")
        return parts

    blocks = jacobian(
        gradient, point, create_graph, strict, vectorize, strategy=outer_jacobian_strategy
    )
    return blocks if many_inputs else blocks[0][0]


def _tensors(name, what, value):
    values = value if isinstance(value, tuple) else (value,)
    for position, part in enumerate(values):
        if not isinstance(part, rushlight.Tensor):
            where = f"the value at position {position} of the {what}"
            where = where if isinstance(value, tuple) else f"the {what}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors, but"
                f" {where} has type {type(part).__name__}."
            )
    return values


# Under these names programs take the parts of Jacobians of their own.


def _as_tuple(inp, arg_name, fn_name):
    """Was an argument a tuple, and the tensors in it."""
    return isinstance(inp, tuple), _tensors(fn_name, arg_name, inp)


def _construct_standard_basis_for(tensors, tensor_numels):
    """Rows of an identity matrix for the elements of all tensors, cut into those of each."""
    rows = rushlight.eye(sum(tensor_numels)).split(tensor_numels, dim=1)
    return tuple(part.to(tensor) for part, tensor in zip(rows, tensors))


def _grad_postprocess(inputs, create_graph):
    """Nested tuples of gradients, without history unless `create_graph`."""
    if create_graph:
        return inputs
    if isinstance(inputs, rushlight.Tensor):
        return inputs.detach()
    return tuple(_grad_postprocess(part, create_graph) for part in inputs)


def _tuple_postprocess(res, to_unpack):
    """`res` without the tuple for outputs, or those in it for inputs, where these were none."""
    outer, *inner = to_unpack if isinstance(to_unpack, tuple) else (to_unpack,)
    if inner and not inner[0]:
        res = tuple(part[0] for part in res)
    return res if outer else res[0]


class _Call:
    """One evaluation of a function, at a point of which gradients can be taken."""

    def __init__(
        self, name: str, func: Callable[..., Any], inputs: Any, create_graph: bool, strict: bool
    ) -> None:
        self._name = name
        self._create_graph = create_graph
        self._strict = strict
        self.many_inputs = isinstance(inputs, tuple)
        point = _tensors(name, "inputs", inputs)
        # A view keeps the connection to the caller's graph, a detached leaf cuts it.
        self.inputs = tuple(
            part.view_as(part) if create_graph and part.requires_grad else _leaf(part)
            for part in point
        )
        outputs = func(*self.inputs)
        self.many_outputs = isinstance(outputs, tuple)
        self.outputs = _tensors(name, "outputs of the user-provided function", outputs)
        if strict:
            self._require(self.outputs, "Output {} of the user-provided function")

    def _require(self, tensors, subject):
        for position, tensor in enumerate(tensors):
            if not tensor.requires_grad:
                raise RuntimeError(
                    f"{self._name}: {subject.format(position)} does not require gradients. The"
                    " strict mode demands that it depends on the inputs in a differentiable manner."
                )

    def output_vector(self, v: Sequence[Tensor] | Tensor | None) -> Any:
        return self._vector(v, self.outputs, "user-provided function returns")

    def input_vector(self, v: Sequence[Tensor] | Tensor) -> Any:
        return self._vector(v, self.inputs, "input to the user-provided function is")

    def _vector(self, v, like, subject):
        if v is None:
            if len(like) != 1 or like[0].numel() != 1:
                raise RuntimeError(
                    f"{self._name}: The vector v can only be None if the {subject} a single"
                    " Tensor with a single element."
                )
            return (rushlight.ones_like(like[0]),)
        parts = _tensors(self._name, "v", v)
        if len(parts) != len(like):
            wanted = "a single Tensor" if len(like) == 1 else f"{len(like)} Tensors"
            raise RuntimeError(
                f"{self._name}: v has invalid length: The given v should contain {wanted}. "
                f"Got {len(parts)}."
            )
        for position, (part, other) in enumerate(zip(parts, like, strict=True)):
            if part.shape != other.shape:
                raise RuntimeError(
                    f"{self._name}: entry {position} of v has invalid size: should be "
                    f"{other.shape} but got {part.shape}."
                )
        if self._create_graph:
            return tuple(part.view_as(part) if part.requires_grad else part for part in parts)
        return tuple(part.detach() for part in parts)

    def gradients(
        self, outputs: Any, inputs: Any, weights: Sequence[Any], create_graph: bool, matrix: str
    ) -> Any:
        """Return gradients; zeros, or in strict mode an error, where there is no dependence."""
        pairs = [
            (out, weight)
            for out, weight in zip(outputs, weights, strict=True)
            if out.requires_grad and weight is not None
        ]
        found = (None,) * len(inputs)
        if pairs:
            roots, given = zip(*pairs, strict=True)
            found = autograd.grad(
                roots,
                inputs,
                given,
                allow_unused=True,
                retain_graph=True,
                create_graph=create_graph,
            )
        return tuple(
            self._checked(gradient, point, position, create_graph, matrix)
            for position, (gradient, point) in enumerate(zip(found, inputs, strict=True))
        )

    def _checked(self, gradient, point, position, create_graph, matrix):
        if self._strict and gradient is None:
            raise RuntimeError(
                f"{self._name}: The output of the user-provided function is independent of input "
                f"{position}, which strict mode does not allow ({matrix} of zeros)."
            )
        if self._strict and create_graph and not gradient.requires_grad:
            raise RuntimeError(
                f"{self._name}: The {matrix} of the user-provided function is independent of input "
                f"{position}, which strict mode does not allow when create_graph=True."
            )
        return rushlight.zeros_like(point) if gradient is None else gradient

    def input_gradients(
        self, outputs: Any, weights: Sequence[Tensor], create_graph: bool, matrix: str = "Jacobian"
    ) -> Any:
        return self.gradients(outputs, self.inputs, weights, create_graph, matrix)

    def gradient_of_scalar(self) -> Any:
        if self.many_outputs:
            raise RuntimeError(f"The function given to {self._name} should return a single Tensor")
        if self.outputs[0].numel() != 1:
            raise RuntimeError(
                f"The Tensor returned by the function given to {self._name} should contain a"
                " single element"
            )
        one = rushlight.ones_like(self.outputs[0])
        gradient = self.input_gradients(self.outputs, (one,), True)
        if self._strict:
            self._require(gradient, "The gradient with respect to input {}")
        return gradient

    def rows(self, position: int) -> Any:
        """Return the Jacobian of one output: for each input, the output's shape then its own."""
        output = self.outputs[position]
        if output.is_complex():
            raise RuntimeError("jacobian: only real outputs are supported, use view_as_real")
        directions = rushlight.eye(output.numel(), dtype=output.dtype, device=output.device)
        rows = [
            self.input_gradients((output,), (direction.reshape(output.shape),), self._create_graph)
            for direction in directions
        ]
        if not rows:
            return tuple(p.new_zeros(output.shape + p.shape) for p in self.inputs)
        return tuple(
            rushlight.stack(blocks).reshape(output.shape + point.shape)
            for blocks, point in zip(zip(*rows, strict=True), self.inputs, strict=True)
        )

    def columns(
        self, pulled_back: Sequence[Tensor], probes: Sequence[Tensor], position: int
    ) -> Any:
        """Return the derivatives of all outputs by each element of one input, last dimension."""
        point = self.inputs[position]
        columns = []
        for element in range(point.numel()):
            basis = rushlight.zeros_like(point)
            basis.view(-1)[element] = 1
            weights = [basis if i == position else None for i in range(len(self.inputs))]
            columns.append(
                self.gradients(pulled_back, probes, weights, self._create_graph, "Jacobian")
            )
        return [rushlight.stack(parts, -1) for parts in zip(*columns, strict=True)]

    def _finish(self, tensors, as_tuple):
        if not self._create_graph:
            tensors = tuple(tensor.detach() for tensor in tensors)
        return tensors if as_tuple else tensors[0]

    def finish_outputs(self) -> Any:
        return self._finish(self.outputs, self.many_outputs)

    def like_outputs(self, tensors: Sequence[Tensor]) -> Any:
        return self._finish(tensors, self.many_outputs)

    def like_inputs(self, tensors: Sequence[Tensor]) -> Any:
        return self._finish(tensors, self.many_inputs)


def _leaf(tensor):
    return tensor.detach().requires_grad_()
