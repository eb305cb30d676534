"""Gamma and Dirichlet numbers through which gradients reach their parameters.

A number x with distribution function F(x; a) and density f moves with its parameter, at a constant
F, by dx/da = -(dF/da) / f: implicit reparameterisation, Figurnov, Mohamed and Mnih (2018). Here
dF/da is integrated from x away from the mode, where the density only falls, so that nothing
cancels. In log t (gamma) and log t / (1 - t) (beta) the densities are log-concave.
"""

from __future__ import annotations

import functools
from typing import Any

import rushlight
from rushlight import Tensor, nan, where
from rushlight.autograd import Function
from rushlight.autograd.function import once_differentiable
from rushlight.nn.functional import logsigmoid

# Where integrands are cut off, exp(-30), and for a fall by as much 20 points are right to 1e-12.
_NEGLIGIBLE = 30.0
_POINTS = 20


@functools.cache
def _legendre():
    """The places and weights of Gauss and Legendre's rule on [0, 1]: Golub and Welsch (1969)."""
    k = rushlight.arange(1, _POINTS, dtype=rushlight.float64, device="cpu")
    beside = k / (4 * k * k - 1).sqrt()
    places, vectors = rushlight.linalg.eigh(beside.diag(1) + beside.diag(-1))
    return list(zip((0.5 + places / 2).tolist(), vectors[0].square().tolist()))


def _fall(log_density, slope, curvature, weight):
    """Integrals over v > 0 of exp(log_density(v)) and of exp(log_density(v)) weight(v).

    Args:
        log_density: function that is 0 at 0, falls and is concave.
        slope: function, minus its derivative.
        curvature: minus its second derivative at 0, at which Newton's search for the end starts.
        weight: a smooth function.
    """
    end = (_NEGLIGIBLE / slope(0 * curvature).abs()).minimum((2 * _NEGLIGIBLE / curvature).sqrt())
    for _ in range(8):
        end = end - (-log_density(end) - _NEGLIGIBLE) / slope(end)
    near = end.clamp(max=8.0)  # what is not yet a plain exponential is close to 0
    pieces = [(0.0, near)] + [(near, end - near)] * bool((end > 8.0).any())
    total, weighted = rushlight.zeros_like(end), rushlight.zeros_like(end)
    for start, length in pieces:
        for place, mass in _legendre():
            v = start + place * length
            density = log_density(v).exp_().mul_(mass * length)
            total += density
            weighted += density.mul_(weight(v))
    return total, weighted


def _gamma_from_zero(a, x):
    """F(x; a) and dx/da for x < 1, of the series of F in x / (a + 1), x^2 / (a + 1) (a + 2) ..."""
    term = total = rushlight.ones_like(a)
    harmonic = weighted = rushlight.zeros_like(a)
    for k in range(1, 20):
        term = term * x / (a + k)
        harmonic = harmonic + 1 / (a + k)
        total = total + term
        weighted = weighted + term * harmonic
    lower = (a * x.log() - x - (a + 1).lgamma()).exp() * total
    return lower, x / a * (weighted - total * (x.log() - (a + 1).digamma()))


def _gamma_from_mode(a, x):
    """F(x; a) and dx/da for x >= 1, of integrals from x away from the mode, with t = x exp(+-v)."""
    side = where(x <= a, -1.0, 1.0).to(x)
    log_x = x.log()
    log_quotient = log_x - a.digamma()
    outside, moment = _fall(
        log_density=lambda v: side * a * v - x * (side * v).expm1(),
        slope=lambda v: side * (x * (side * v).exp() - a),
        curvature=x,
        weight=lambda v: side * v + log_quotient,
    )
    outside = outside * (a * log_x - x - a.lgamma()).exp()
    return where(side < 0, outside, 1 - outside), side * x * moment


def _gamma_cdf_and_shift(a, x):
    """F(x; a) of rate 1 and dx/da, in float64."""
    a, x = rushlight.broadcast_tensors(a.double(), x.double())
    cdf, shift = rushlight.full_like(x, nan), rushlight.full_like(x, nan)
    finfo = rushlight.finfo(x.dtype)
    for part, function in ((x < 1, _gamma_from_zero), (x >= 1, _gamma_from_mode)):
        inside = x[part].clamp(min=finfo.tiny, max=finfo.max)
        cdf[part], shift[part] = function(a[part], inside)
    return cdf, shift


def _dirichlet_shift(x, a, total):
    """dx/da / (1 - x) for a number x of the beta distribution (a, total - a), in float64."""
    x, a, total = x.double(), a.double(), total.double()
    b = total - a
    rest = 1 - x
    middle = x.log() - rest.log()
    log_x, log_rest = logsigmoid(middle), logsigmoid(-middle)
    mean_log = a.digamma() - total.digamma()
    side = where(x * total <= a, -1.0, 1.0).to(x)

    def log_density(v):
        place = middle + side * v
        return a * (logsigmoid(place) - log_x) + b * (logsigmoid(-place) - log_rest)

    _, moment = _fall(
        log_density,
        slope=lambda v: side * (total * (middle + side * v).sigmoid() - a),
        curvature=total * x * rest,
        weight=lambda v: logsigmoid(middle + side * v) - mean_log,
    )
    return side * x * moment


class _StandardGamma(Function):
    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        x = rushlight._standard_gamma(concentration)
        ctx.save_for_backward(concentration, x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        concentration, x = ctx.saved_tensors
        return grad * _gamma_cdf_and_shift(concentration, x)[1].to(grad.dtype)


class _Dirichlet(Function):
    @staticmethod
    def forward(ctx: Any, concentration: Tensor, generator: Any = None) -> Tensor:
        # In float64, where gammas of small concentrations are 0 less often.
        gamma = rushlight._standard_gamma(concentration.double(), generator)
        finfo = rushlight.finfo(concentration.dtype)
        x = (gamma / gamma.sum(-1, True)).clamp(min=finfo.tiny, max=1 - finfo.eps / 2)
        x = x.to(concentration.dtype)
        ctx.save_for_backward(concentration, x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        concentration, x = ctx.saved_tensors
        shift = _dirichlet_shift(x, concentration, concentration.sum(-1, True).expand_as(x))
        return shift.to(grad.dtype) * (grad - (x * grad).sum(-1, True)), None


def _sample_dirichlet(input: Tensor, generator: Any = None) -> Tensor:
    return _Dirichlet.apply(input, generator)


class _GammaCdf(Function):
    @staticmethod
    def forward(ctx: Any, concentration: Tensor, value: Any) -> Tensor:
        cdf, shift = _gamma_cdf_and_shift(concentration, value)
        ctx.save_for_backward(concentration, value, shift)
        return cdf.to(rushlight.promote_types(concentration.dtype, value.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        a, x, shift = ctx.saved_tensors
        slope = grad * ((a - 1).xlogy(x) - x - a.lgamma()).exp()
        return (-slope * shift).to(grad.dtype).sum_to_size(a.shape), slope.sum_to_size(x.shape)


def standard_gamma(concentration: Tensor) -> Tensor:
    """Gamma numbers of rate 1."""
    return _StandardGamma.apply(concentration)


def dirichlet(concentration: Tensor) -> Tensor:
    """Points of the simplex, Dirichlet distributed."""
    return _sample_dirichlet(concentration)


def gamma_cdf(concentration: Tensor, value: Any) -> Tensor:
    """The regularised lower incomplete gamma function, differentiable in both arguments."""
    return _GammaCdf.apply(concentration, value)
