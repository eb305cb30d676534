"""Checks of gradients against finite differences.

A complex tensor counts as twice as many real numbers. With L the real or the imaginary part of an
output element, backward gives dL/dRe(x) + i dL/dIm(x) for a complex input x, so one real Jacobian
serves all combinations of real and complex inputs and outputs.
"""

from __future__ import annotations

import itertools

import rushlight
from rushlight import autograd
from rushlight._ignored import warn_program as _warn_program
from rushlight.autograd.function import Function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import Tensor


class GradcheckError(RuntimeError):
    """Raised by `gradcheck` and `gradgradcheck` when a check fails."""


def gradcheck(
    func: Callable[..., Tensor | Sequence[Tensor]],
    inputs: Tensor | Sequence[Tensor],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Check gradients of `func` against central differences.

    Args:
        func: function of tensors that returns a tensor or a tuple of tensors.
        inputs: the point; tensors in it that require gradients are checked. They should be of
            double precision, and no two of their elements may share memory.
        eps: step of the differences.
        atol: absolute tolerance.
        rtol: relative tolerance.
        raise_exception: raise an error if a check fails, in place of returning False.
        nondet_tol: how far two runs of backward may differ.
        check_undefined_grad: check that undefined gradients of outputs count as zeros.
        check_grad_dtypes: check that gradients have the dtypes of their inputs.
        check_batched_grad: check `grad(..., is_grads_batched=True)`.
        check_batched_forward_grad: check forward mode under `vmap`.
        check_forward_ad: check forward mode.
        check_backward_ad: check backward.
        fast_mode: check one random combination of each Jacobian's elements, not each element.
        masked: for sparse inputs: check the elements that are stored, not all elements. Outputs
            must be dense: see `Tensor.to_dense(masked_grad=...)`.

    Returns:
        True if all checks pass.

    Raises:
        GradcheckError: a check fails.
        ValueError: there is nothing to check.
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError(
            "gradcheck: Expected at least one of check_forward_ad and check_backward_ad to be True"
        )
    point = _as_tuple(inputs)
    if any(_is_sparse(value) for value in point if _needs_gradient(value)):
        from rushlight.sparse._gradcheck import of_values

        func, point = of_values(func, point, bool(masked))
    try:
        check = _Check(func, point, eps, atol, rtol, nondet_tol)
        check.differences(fast_mode)
        if check_backward_ad:
            check.backward(check_grad_dtypes)
            check.zero_gradients()
        if check_forward_ad:
            check.forward_mode()
        if check_batched_forward_grad:
            check.batched_forward_mode()
        if check_batched_grad:
            check.batched_backward()
        if check_undefined_grad and check_backward_ad:
            check.undefined_gradients()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Tensor | Sequence[Tensor]],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool | None = False,
) -> bool:
    """Check gradients of gradients of `func`, by `inputs` and by `grad_outputs`.

    Args:
        func: function of tensors that returns a tensor or a tuple of tensors.
        inputs: the point, see `gradcheck`.
        grad_outputs: the gradients with respect to the outputs, random by default.
        gen_non_contig_grad_outputs: make the random ones non-contiguous.
        check_fwd_over_rev: check forward mode over backward.
        check_rev_over_rev: check backward over backward.

    The other arguments are those of `gradcheck`.

    Returns:
        True if all checks pass.
    """
    point = _as_tuple(inputs)
    if grad_outputs is None:
        outputs = _differentiable(_as_tuple(func(*point)))
        weights = tuple(_random_weight(out, gen_non_contig_grad_outputs) for out in outputs)
    else:
        weights = _as_tuple(grad_outputs)

    def gradient(*args):
        arguments, given = args[: len(point)], args[len(point) :]
        for argument, original in zip(arguments, point, strict=True):
            if _needs_gradient(original):
                argument.requires_grad_()
        outputs = _differentiable(_as_tuple(func(*arguments)))
        sources = _differentiable(arguments)
        found = autograd.grad(outputs, sources, given, create_graph=True, allow_unused=True)
        return tuple(
            part.to_dense() if _is_sparse(part) else part for part in found if part is not None
        )

    return gradcheck(
        gradient,
        point + weights,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def _as_tuple(value):
    return (value,) if isinstance(value, rushlight.Tensor) else tuple(value)


def _needs_gradient(value):
    return isinstance(value, rushlight.Tensor) and value.requires_grad


def _is_sparse(value):
    return isinstance(value, rushlight.Tensor) and value.layout != rushlight.strided


def _differentiable(tensors):
    return tuple(filter(_needs_gradient, tensors))


def _random_weight(output, scattered):
    wide = output.to(rushlight.complex128 if output.is_complex() else rushlight.float64)
    weight = rushlight.randn_like(wide).to(output.dtype)
    if scattered:
        weight = rushlight.stack([weight, weight], -1)[..., 0]
    return weight.detach().requires_grad_()


def _parts(tensor):
    """Return the real numbers that `tensor` is made of, as one dimension."""
    tensor = rushlight.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return tensor.reshape(-1)


def _directions(tensor):
    """Yield for each real number in `tensor` its index and a unit step."""
    for index in itertools.product(*map(range, tensor.shape)):
        yield index, 1.0
        if tensor.is_complex():
            yield index, 1.0j


def _unit(tensor, index, step):
    unit = rushlight.zeros_like(tensor, requires_grad=False)
    unit[index] = step
    return unit


class _Check:
    """The function, the point, and what is measured there."""

    def __init__(
        self,
        func: Callable[..., Any],
        point: Sequence[Any],
        eps: float,
        atol: float,
        rtol: float,
        nondet_tol: float,
    ) -> None:
        self._func = func
        self._point = point
        self._eps = eps
        self._atol, self._rtol, self._nondet_tol = atol, rtol, nondet_tol
        self._sources = _differentiable(point)
        self._validate()

    def _validate(self):
        if not self._sources:
            raise ValueError(
                "gradcheck expects at least one input tensor to require gradient, but none does"
            )
        for position, tensor in enumerate(self._point):
            if not _needs_gradient(tensor):
                continue
            if tensor.dtype not in (rushlight.float64, rushlight.complex128):
                _warn_program(
                    f"gradcheck: Input #{position} requires gradient and is not a double precision"
                    f" number but of {tensor.dtype}, for which differences are not precise enough",
                )
            strides = zip(tensor.stride(), tensor.shape, strict=True)
            if any(stride == 0 and size > 1 for stride, size in strides):
                raise RuntimeError(
                    f"gradcheck: The {position}th input has a dimension with stride 0, so its "
                    "elements cannot be changed one by one; use a contiguous copy"
                )

    def _outputs(self, point=None):
        """Return the outputs that could have gradients, whether or not they require them."""
        outputs = _as_tuple(self._func(*(self._point if point is None else point)))
        if any(map(_is_sparse, outputs)):
            raise ValueError(
                "gradcheck: Sparse output is not supported at gradcheck yet: let the function call "
                "to_dense(masked_grad=...) on it"
            )
        return [
            out
            for out in outputs
            if isinstance(out, rushlight.Tensor) and (out.is_floating_point() or out.is_complex())
        ]

    # --- numerical

    def _difference(self, moves):
        """Return the derivative of each output's parts along `moves`, (tensor, change) pairs."""
        values = []
        originals = [tensor.detach().clone() for tensor, _ in moves]
        try:
            for sign in (1, -1):
                for (tensor, change), original in zip(moves, originals, strict=True):
                    tensor.data.copy_(original + sign * self._eps * change)
                values.append([_parts(out.detach()).clone() for out in self._outputs()])
        finally:
            for (tensor, _), original in zip(moves, originals, strict=True):
                tensor.data.copy_(original)
        for before, after in zip(*values, strict=True):
            self._expect_same_kind(before, after)
        return [(a - b) / (2 * self._eps) for a, b in zip(*values, strict=True)]

    @staticmethod
    def _expect_same_kind(before, after):
        kinds = (("shape", before.shape, after.shape), ("dtype", before.dtype, after.dtype))
        for what, a, b in kinds:
            if a != b:
                raise AssertionError(
                    "gradcheck: the function must return outputs with the same "
                    f"{what} when inputs are perturbed, but one is {a}, then {b}"
                )

    def differences(self, fast: bool) -> None:
        """Measure the Jacobian: for each source, for each output, the derivatives along a row."""
        self._fast = fast
        if fast:
            self._moves = [[self._random_direction(source)] for source in self._sources]
        else:
            self._moves = [
                [_unit(source, *direction) for direction in _directions(source)]
                for source in self._sources
            ]
        self._numerical = []
        for source, moves in zip(self._sources, self._moves, strict=True):
            rows = [self._difference([(source, move)]) for move in moves]
            if rows:
                self._numerical.append([rushlight.stack(r) for r in zip(*rows, strict=True)])
            else:
                self._numerical.append(
                    [
                        _parts(out.detach()).new_zeros(0, _parts(out).numel())
                        for out in self._outputs()
                    ]
                )

    @staticmethod
    def _random_direction(source):
        direction = rushlight.randn_like(source.detach())
        return direction / direction.abs().square().sum().sqrt().clamp_min(1e-30)

    def _length(self, directions):
        """How much of the tolerance of one element of the Jacobian a combination of them has."""
        return _parts(directions[0]).abs().sum().item() if self._fast and directions else 1.0

    # --- analytical

    def backward(self, check_dtypes: bool) -> None:
        outputs = self._outputs()
        for number, output in enumerate(outputs):
            numerical = [row[number] for row in self._numerical]
            if not output.requires_grad:
                self._expect_zeros(numerical, number)
                continue
            weights = self._output_weights(output)
            first = self._pull_back(output, weights, check_dtypes)
            second = self._pull_back(output, weights, check_dtypes)
            for position, (once, again) in enumerate(zip(first, second, strict=True)):
                self._expect_same(once, again, number, position)
                if weights:
                    combination = rushlight.stack([_parts(weight) for weight in weights], -1)
                    measured = numerical[position] @ combination.to(numerical[position].dtype)
                    scale = self._length(self._moves[position]) * self._length(weights)
                    self._compare(measured, once, number, position, scale=scale)

    def _output_weights(self, output):
        detached = output.detach()
        if self._fast:
            return [self._random_direction(detached)]
        return [_unit(detached, *direction) for direction in _directions(detached)]

    def _pull_back(self, output, weights, check_dtypes):
        """Return for each source a matrix: derivative along each move of each weighted output."""
        columns = [[] for _ in self._sources]
        for weight in weights:
            found = autograd.grad(
                output, self._sources, weight, retain_graph=True, allow_unused=True
            )
            for source, moves, gradient, column in zip(
                self._sources, self._moves, found, columns, strict=True
            ):
                column.append(self._along(source, moves, gradient, check_dtypes))
        return [rushlight.stack(column, -1) if column else None for column in columns]

    @staticmethod
    def _along(source, moves, gradient, check_dtypes):
        reals = _parts(source.detach()).new_zeros(len(moves))
        if gradient is None or not moves:
            return reals
        if gradient.shape != source.shape:
            raise GradcheckError(
                f"The gradient has shape {tuple(gradient.shape)}, the input {tuple(source.shape)}"
            )
        if check_dtypes and gradient.dtype != source.dtype:
            raise GradcheckError(
                f"Backward gives a gradient of {gradient.dtype} for an input of {source.dtype}"
            )
        directions = rushlight.stack([_parts(move) for move in moves])
        return directions @ _parts(gradient.detach().to(source.dtype))

    # --- comparison

    def _expect_zeros(self, numerical, number):
        for matrix in numerical:
            if not rushlight.allclose(matrix, rushlight.zeros_like(matrix), self._rtol, self._atol):
                raise GradcheckError(
                    f"Numerical gradient for function expected to be zero, because output {number}"
                    f" does not require gradients, but it is\n{matrix}"
                )

    def _expect_same(self, once, again, number, position):
        if once is None:
            return
        difference = (once - again).abs()
        if difference.numel() and difference.max().item() > self._nondet_tol:
            raise GradcheckError(
                "Backward is not reentrant: two passes from the same gradient differ, though "
                f"each agrees with the numerical gradient. Output {number}, input {position}. "
                f"The tolerance for nondeterminism was {self._nondet_tol}."
            )

    def _compare(self, numerical, analytical, number, position, mode="Jacobian", scale=1.0):
        numerical, atol = numerical.to(analytical.dtype), self._atol * scale
        if not rushlight.allclose(analytical, numerical, self._rtol, atol, equal_nan=True):
            raise GradcheckError(
                f"{mode} mismatch for output {number} with respect to input {position},\n"
                f"numerical:{numerical}\nanalytical:{analytical}\n"
            )

    # --- further checks

    def forward_mode(self) -> None:
        from rushlight.autograd import forward_ad

        for position, (source, moves) in enumerate(zip(self._sources, self._moves, strict=True)):
            for row, move in enumerate(moves):
                for number, tangent in enumerate(self._push_forward(forward_ad, source, move)):
                    measured = self._numerical[position][number][row]
                    if tangent is None:
                        tangent = rushlight.zeros_like(measured)
                    scale = self._length(moves)
                    mode = "Jacobian computed with forward mode"
                    self._compare(measured, _parts(tangent), number, position, mode, scale)

    def _push_forward(self, forward_ad, source, tangent):
        """Return the tangent of each output when `source` moves along `tangent`."""
        with forward_ad.dual_level():
            point = [
                forward_ad.make_dual(t.detach(), tangent)
                if t is source
                else t.detach()
                if isinstance(t, rushlight.Tensor)
                else t
                for t in self._point
            ]
            return [forward_ad.unpack_dual(out).tangent for out in self._outputs(point)]

    def batched_forward_mode(self) -> None:
        from rushlight.autograd import forward_ad
        from rushlight.func import vmap

        for position, (source, moves) in enumerate(zip(self._sources, self._moves, strict=True)):
            if not moves:
                continue

            def push(move, source=source):
                found = self._push_forward(forward_ad, source, move)
                self._pushed = [tangent is not None for tangent in found]
                return tuple(tangent for tangent in found if tangent is not None)

            try:
                together = vmap(push)(rushlight.stack(moves))
            except RuntimeError as error:
                raise GradcheckError(
                    "gradcheck failed while testing batched forward mode: vmap of the computation "
                    f"of tangents raised {error}"
                ) from error
            numbers = [number for number, is_pushed in enumerate(self._pushed) if is_pushed]
            one_by_one = list(zip(*map(push, moves), strict=True))
            for number, batch, singles in zip(numbers, together, one_by_one, strict=True):
                single = rushlight.stack(singles)
                mode = "Forward mode under vmap: Jacobian"
                self._compare(single, batch, number, position, mode)

    def batched_backward(self) -> None:
        for number, output in enumerate(self._outputs()):
            if not output.requires_grad:
                continue
            weights = [self._random_direction(output.detach()) for _ in range(2)]
            keep = {"retain_graph": True, "allow_unused": True}
            together = self._together(output, rushlight.stack(weights), keep)
            singles = [autograd.grad(output, self._sources, weight, **keep) for weight in weights]
            for position, batch in enumerate(together):
                if batch is not None:
                    single = rushlight.stack([found[position] for found in singles])
                    self._compare(single, batch, number, position, "Batched backward: Jacobian")

    def _together(self, output, weights, keep):
        try:
            return autograd.grad(output, self._sources, weights, is_grads_batched=True, **keep)
        except RuntimeError as error:
            raise GradcheckError(
                "gradcheck or gradgradcheck failed while testing batched gradient computation: "
                f"vmap of the backward pass raised {error}"
            ) from error

    def zero_gradients(self) -> None:
        """Check that backward is linear: zeros give zeros."""
        outputs = [out for out in self._outputs() if out.requires_grad]
        zeros = [rushlight.zeros_like(out) for out in outputs]
        for gradient in autograd.grad(outputs, self._sources, zeros, allow_unused=True):
            # At a point where the Jacobian is infinite, or NaN, so are its products with zero.
            if gradient is not None and not (gradient.eq(0) | gradient.isnan()).all():
                raise GradcheckError(
                    f"backward not multiplied by grad_output: of zeros it returned {gradient}"
                )

    def undefined_gradients(self) -> None:
        """Check that backward takes undefined gradients: of all outputs, and of each one."""
        outputs = [out for out in self._outputs() if out.requires_grad]
        choices = [set(range(len(outputs)))]
        if len(outputs) > 1:
            choices += [{number} for number in range(len(outputs))]
        for undefined in choices:
            fresh = [out for out in self._outputs() if out.requires_grad]
            roots = [
                _Undefined.apply(out) if number in undefined else out
                for number, out in enumerate(fresh)
            ]
            if roots:
                self._expect_zero_gradients(roots)

    def _expect_zero_gradients(self, roots):
        advice = (
            "Expected backward function to handle undefined output grads as zeros: look at all"
            " uses of the gradients that it is given"
        )
        zeros = [rushlight.zeros_like(root) for root in roots]
        try:
            found = autograd.grad(roots, self._sources, zeros, allow_unused=True)
        except RuntimeError as error:
            raise GradcheckError(f"{advice}. It failed with: {error}") from error
        for gradient in found:
            if gradient is not None and not gradient.eq(0).all():
                raise GradcheckError(f"{advice}. It returned {gradient}")


class _Undefined(Function):
    """The identity, with an undefined gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> None:
        return None
