"""The Kullback-Leibler divergence of two distributions, by their types.

Most pairs are one line: KL(p | q) = -H(p) - E_p[log q(x)], and E_p[log q] takes few moments of p.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import Tensor, inf, where
from rushlight._ignored import warn_program as _warn_program
from rushlight.distributions.bernoulli import Bernoulli
from rushlight.distributions.beta import Beta
from rushlight.distributions.binomial import Binomial
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.cauchy import Cauchy
from rushlight.distributions.continuous_bernoulli import ContinuousBernoulli
from rushlight.distributions.dirichlet import Dirichlet
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.exponential import Exponential
from rushlight.distributions.gamma import Gamma
from rushlight.distributions.geometric import Geometric
from rushlight.distributions.gumbel import Gumbel
from rushlight.distributions.half_normal import HalfNormal
from rushlight.distributions.independent import Independent
from rushlight.distributions.laplace import Laplace
from rushlight.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from rushlight.distributions.multivariate_normal import MultivariateNormal
from rushlight.distributions.normal import Normal
from rushlight.distributions.one_hot_categorical import OneHotCategorical
from rushlight.distributions.pareto import Pareto
from rushlight.distributions.poisson import Poisson
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.uniform import Uniform
from rushlight.distributions.utils import _sum_rightmost, euler_constant
from rushlight.nn.functional import softplus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.distributions.distribution import Distribution

__all__ = ["register_kl", "kl_divergence"]

_KL_REGISTRY = {}  # (type of p, type of q) -> function of p and q


def register_kl(type_p: type[Any], type_q: type[Any]) -> Callable[..., Any]:
    """Register the decorated function of p and q as the divergence of two types of distributions.

    Example:
        >>> class Mine(torch.distributions.Normal): pass
        >>> @torch.distributions.register_kl(Mine, Mine)
        ... def kl_mine(p, q):
        ...     return p.loc - q.loc
        >>> torch.distributions.kl_divergence(Mine(3.0, 1.0), Mine(1.0, 1.0))
        tensor(2.)
    """
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise TypeError(f"register_kl: expected types of distributions, got {kind!r}")

    def register(function):
        _KL_REGISTRY[type_p, type_q] = function
        return function

    return register


def _closest(type_p, type_q):
    """The function registered for the pair of base types that is closest, first p's, then q's."""

    def distance(pair):
        return type_p.__mro__.index(pair[0]), type_q.__mro__.index(pair[1])

    pairs = [k for k in _KL_REGISTRY if issubclass(type_p, k[0]) and issubclass(type_q, k[1])]
    if not pairs:
        return None
    best = min(pairs, key=distance)
    other = min(pairs, key=lambda pair: distance(pair)[::-1])
    if _KL_REGISTRY[best] is not _KL_REGISTRY[other]:
        shown = [f"({a.__name__}, {b.__name__})" for a, b in (best, other)]
        _warn_program(
            f"kl_divergence of {type_p.__name__} and {type_q.__name__} is ambiguous: {shown[0]} "
            f"is taken, not {shown[1]}; register the pair itself",
            RuntimeWarning,
        )
    return _KL_REGISTRY[best]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return KL(p | q), the integral of p(x) log(p(x) / q(x)), for each place of the batch.

    Raises:
        NotImplementedError: nothing is registered for the two types.

    Example:
        >>> p, q = torch.distributions.Normal(0.0, 1.0), torch.distributions.Normal(2.0, 1.0)
        >>> torch.distributions.kl_divergence(p, q)
        tensor(2.)
    """
    function = _closest(type(p), type(q))
    if function is None:
        raise NotImplementedError(
            f"kl_divergence: no KL(p | q) is implemented for p of type {type(p).__name__} "
            f"and q of type {type(q).__name__}"
        )
    return function(p, q)


# ---- both of one kind ----------------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    def term(probability, other, log_quotient):
        term = probability * log_quotient
        return where(probability == 0, 0.0, where(other == 0, inf, term))

    ones = term(p.probs, q.probs, softplus(-q.logits) - softplus(-p.logits))
    return ones + term(1 - p.probs, 1 - q.probs, softplus(q.logits) - softplus(p.logits))


@register_kl(Binomial, Binomial)
def _binomial(p, q):
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "kl_divergence of binomials is implemented for p of at least q's total_count"
        )
    per_trial = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return where(p.total_count > q.total_count, inf, p.total_count * per_trial)


@register_kl(Categorical, Categorical)
def _categorical(p, q):
    terms = p.probs * (p.logits - q.logits)
    return where(p.probs == 0, 0.0, where(q.probs == 0, inf, terms)).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_categorical(p, q):
    return _categorical(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p, q):
    def log_density_of_zero(d):
        return d._cont_bern_log_norm() + (-d.probs).log1p()

    return p.mean * (p.logits - q.logits) + log_density_of_zero(p) - log_density_of_zero(q)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p, q):
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    log_beta = (b.lgamma() - a.lgamma()).sum(-1) + total.lgamma() - b.sum(-1).lgamma()
    return log_beta + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Beta, Beta)
def _beta(p, q):
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p, q):
    a, b = p.concentration, q.concentration
    digammas = (a - b) * a.digamma() + b.lgamma() - a.lgamma()
    return digammas + b * (p.rate / q.rate).log() + (q.rate - p.rate) * (a / p.rate)


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p, q):
    """The Bregman divergence of the log-normalizer, after Nielsen and Nock (2010)."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "kl_divergence of exponential families needs both of one type, got "
            f"{type(p).__name__} and {type(q).__name__}"
        )
    p_params = [x.detach().requires_grad_() for x in p._natural_params]
    q_params = q._natural_params
    normalizer = p._log_normalizer(*p_params)
    gradients = rushlight.autograd.grad(normalizer.sum(), p_params, create_graph=True)
    result = q._log_normalizer(*q_params) - normalizer
    for x, y, gradient in zip(p_params, q_params, gradients):
        result = result - _sum_rightmost((y - x) * gradient, len(q.event_shape))
    return result


@register_kl(Gumbel, Gumbel)
def _gumbel(p, q):
    ratio = p.scale / q.scale
    shift = (p.loc - q.loc) / q.scale
    growth = (ratio + 1).lgamma() - shift
    return shift - ratio.log() + ratio * euler_constant + growth.exp() - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _geometric(p, q):
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    shift = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + shift - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p, q):
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    distance = (p.loc - q.loc).abs()
    ratio = p.scale / q.scale
    return distance / q.scale + ratio * (-distance / p.scale).exp() - ratio.log() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p, q):
    """Source: Chyzak and Nielsen (2019)."""
    sum_squares = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return sum_squares.log() - (4 * p.scale * q.scale).log()


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _multivariate_normal(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"kl_divergence of normal vectors: the event shapes {tuple(p.event_shape)} and "
            f"{tuple(q.event_shape)} differ"
        )
    columns = p._factor().expand(p.batch_shape + (-1, -1)).movedim(-1, 0)
    trace = q._squared_length(columns).sum(0)
    shift = q._squared_length(q.loc - p.loc)
    return 0.5 * (q._log_det() - p._log_det() + trace + shift - p.event_shape[0])


@register_kl(Pareto, Pareto)
def _pareto(p, q):
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return where(p.scale < q.scale, inf, result)


@register_kl(Poisson, Poisson)
def _poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return where((q.low > p.low) | (q.high < p.high), inf, result)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError(
            "kl_divergence of transformed distributions needs equal transforms and event shapes"
        )
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "kl_divergence of Independent needs equal reinterpreted_batch_ndims, got "
            f"{p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}"
        )
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# ---- different kinds, where q does not cover the support of p: infinite --------------------------


def _infinite(p, q):
    shape = rushlight.broadcast_shapes(p.batch_shape, q.batch_shape)
    like = p.mean
    return rushlight.full(shape, inf, dtype=like.dtype, device=like.device)


_ON_THE_REAL_LINE = (Gumbel, Laplace, Normal)
for _p, _narrower in {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    **dict.fromkeys(
        _ON_THE_REAL_LINE, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)
    ),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}.items():
    for _q in _narrower:
        register_kl(_p, _q)(_infinite)


# ---- different kinds, by moments of p ------------------------------------------------------------


def _register_by_moments(q, *kinds_of_p):
    """Register a function that returns E_p[log q(x)], for several kinds of p."""

    def register(expected_log):
        def divergence(p, q):
            return -p.entropy() - expected_log(p, q)

        for p in kinds_of_p:
            register_kl(p, q)(divergence)
        return expected_log

    return register


def _mean_log(p):
    """E[log x]."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Gamma):
        return p.concentration.digamma() - p.rate.log()
    if isinstance(p, Exponential):
        return -euler_constant - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    low, high = p.low.clamp(min=0), p.high.clamp(min=0)  # of a Uniform
    return (high.xlogy(high) - low.xlogy(low)) / (high - low) - 1


def _mean_exp(p, t):
    """E[exp(t x)], for t < 0."""
    if isinstance(p, Normal):
        return (t * p.loc + 0.5 * (t * p.scale).pow(2)).exp()
    if isinstance(p, Gamma):
        return (1 - t / p.rate).pow(-p.concentration)
    if isinstance(p, Exponential):
        return p.rate / (p.rate - t)
    return ((t * p.high).exp() - (t * p.low).exp()) / (t * (p.high - p.low))  # of a Uniform


@_register_by_moments(Poisson, Bernoulli)
def _log_poisson(p, q):
    return p.probs * q.rate.log() - q.rate


@_register_by_moments(
    Normal, Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform
)
def _log_normal(p, q):
    squared = (p.variance + (p.mean - q.loc).pow(2)) / q.scale.pow(2)
    return -0.5 * (squared + math.log(2 * math.pi)) - q.scale.log()


@_register_by_moments(Exponential, Beta, ContinuousBernoulli, Gamma, Pareto, Uniform)
def _log_exponential(p, q):
    result = q.rate.log() - q.rate * p.mean
    return where(p.low < 0, -inf, result) if isinstance(p, Uniform) else result


@_register_by_moments(Gamma, Beta, Exponential, Pareto, Uniform)
def _log_gamma(p, q):
    powers = (q.concentration - 1) * _mean_log(p) - q.rate * p.mean
    result = powers + q.concentration * q.rate.log() - q.concentration.lgamma()
    return where(p.low < 0, -inf, result) if isinstance(p, Uniform) else result


@_register_by_moments(Gumbel, Exponential, Gamma, Normal, Uniform)
def _log_gumbel(p, q):
    standard_mean = (p.mean - q.loc) / q.scale
    growth = (q.loc / q.scale).exp() * _mean_exp(p, -q.scale.reciprocal())
    return -standard_mean - growth - q.scale.log()


@_register_by_moments(Laplace, Normal)
def _log_laplace(p, q):
    shift = p.loc - q.loc
    z = shift / (math.sqrt(2) * p.scale)
    distance = math.sqrt(2 / math.pi) * p.scale * (-z.pow(2)).exp() + shift * z.erf()
    return -distance / q.scale - (2 * q.scale).log()


@_register_by_moments(ContinuousBernoulli, Beta, Uniform)
def _log_continuous_bernoulli(p, q):
    result = p.mean * q.logits + (-q.probs).log1p() + q._cont_bern_log_norm()
    if isinstance(p, Uniform):
        return where((p.low < 0) | (p.high > 1), -inf, result)
    return result


@_register_by_moments(Beta, Uniform)
def _log_beta(p, q):
    a, b = q.concentration1, q.concentration0
    mirrored = Uniform(1 - p.high, 1 - p.low, validate_args=False)
    powers = (a - 1) * _mean_log(p) + (b - 1) * _mean_log(mirrored)
    result = powers + (a + b).lgamma() - a.lgamma() - b.lgamma()
    return where((p.low < 0) | (p.high > 1), -inf, result)


@_register_by_moments(Pareto, Uniform)
def _log_pareto(p, q):
    result = (q.alpha * q.scale.pow(q.alpha)).log() - (q.alpha + 1) * _mean_log(p)
    return where(p.low < q.scale, -inf, result)


@_register_by_moments(Uniform, Beta, ContinuousBernoulli)
def _log_uniform(p, q):
    result = -(q.high - q.low).log()
    return where((q.low > 0) | (q.high < 1), -inf, result)
