"""Distributions, against torch where it is installed and against scipy.stats where it is not."""

import importlib

import numpy as np
import pytest
import scipy.special
from scipy import stats

import rushlight
from rushlight import distributions
from rushlight.distributions._implicit import _dirichlet_shift, _gamma_cdf_and_shift

MATRIX = [[2.0, 0.3], [0.3, 1.5]]
TRIL = [[1.2, 0.0], [0.4, 0.8]]
CHOICES = [[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]

# (class, parameters); a pair (class, parameters) within stands for a distribution.
CASES = [
    ("Bernoulli", {"probs": [0.2, 0.5, 0.9]}),
    ("Bernoulli", {"logits": [-1.0, 0.5]}),
    ("Beta", {"concentration1": [0.6, 2.0, 30.0], "concentration0": [1.5, 0.4, 5.0]}),
    ("Binomial", {"total_count": 7, "probs": [0.2, 0.7]}),
    ("Binomial", {"total_count": 30, "logits": [[0.2], [-1.5]]}),
    ("Categorical", {"probs": CHOICES}),
    ("Categorical", {"logits": [0.3, -0.4, 1.0]}),
    ("Cauchy", {"loc": [0.0, 1.0], "scale": [1.0, 0.3]}),
    ("Chi2", {"df": [0.5, 3.0, 20.0]}),
    ("ContinuousBernoulli", {"probs": [0.1, 0.5, 0.4995, 0.8]}),
    ("ContinuousBernoulli", {"logits": [-1.0, 0.001]}),
    ("Dirichlet", {"concentration": [[0.3, 1.0, 4.0], [10.0, 0.7, 2.0]]}),
    ("Exponential", {"rate": [0.5, 2.0]}),
    ("FisherSnedecor", {"df1": [1.0, 4.0, 8.0], "df2": [3.0, 5.0, 20.0]}),
    ("Gamma", {"concentration": [0.2, 1.0, 3.0, 50.0], "rate": [1.0, 2.0, 0.5, 3.0]}),
    (
        "GeneralizedPareto",
        {"loc": [0.0, 1.0, 0.5], "scale": [1.0, 0.3, 2.0], "concentration": [0.0, 0.3, -0.4]},
    ),
    ("Geometric", {"probs": [0.2, 0.7]}),
    ("Geometric", {"logits": [0.1, -1.0]}),
    ("Gumbel", {"loc": [0.0, 1.0], "scale": [1.0, 0.3]}),
    ("HalfCauchy", {"scale": [1.0, 0.3]}),
    ("HalfNormal", {"scale": [1.0, 0.3]}),
    (
        "Independent",
        {
            "base_distribution": ("Normal", {"loc": CHOICES, "scale": 1.0}),
            "reinterpreted_batch_ndims": 1,
        },
    ),
    ("InverseGamma", {"concentration": [0.5, 1.5, 4.0], "rate": [1.0, 2.0, 0.5]}),
    ("Kumaraswamy", {"concentration1": [0.6, 2.0], "concentration0": [1.5, 3.0]}),
    ("Laplace", {"loc": [0.0, 1.0], "scale": [1.0, 0.3]}),
    ("LKJCholesky", {"dim": 3, "concentration": [0.5, 1.0, 4.0]}),
    ("LKJCholesky", {"dim": 4, "concentration": 2.0}),
    ("LogisticNormal", {"loc": [[0.0, 1.0, 0.5]], "scale": [1.0, 0.3, 2.0]}),
    ("LogNormal", {"loc": [0.0, 1.0], "scale": [1.0, 0.3]}),
    (
        "LowRankMultivariateNormal",
        {"loc": [0.0, 1.0], "cov_factor": [[[1.0], [0.5]], [[0.3], [2.0]]], "cov_diag": [0.5, 1.0]},
    ),
    (
        "MixtureSameFamily",
        {
            "mixture_distribution": ("Categorical", {"probs": [0.2, 0.5, 0.3]}),
            "component_distribution": ("Normal", {"loc": [0.0, 1.0, 4.0], "scale": 0.5}),
        },
    ),
    (
        "MixtureSameFamily",
        {
            "mixture_distribution": ("Categorical", {"probs": CHOICES}),
            "component_distribution": (
                "MultivariateNormal",
                {
                    "loc": [
                        [[0.0, 1.0], [4.0, 2.0], [1.0, 1.0]],
                        [[1.0, 1.0], [3.0, 2.0], [1.0, 0.0]],
                    ],
                    "scale_tril": TRIL,
                },
            ),
        },
    ),
    ("Multinomial", {"total_count": 6, "probs": CHOICES}),
    ("Multinomial", {"total_count": 3, "logits": [0.3, -0.4, 1.0]}),
    (
        "MultivariateNormal",
        {"loc": [[0.0, 1.0], [2.0, 0.5], [1.0, 1.0]], "covariance_matrix": MATRIX},
    ),
    ("MultivariateNormal", {"loc": [0.0, 1.0], "precision_matrix": [MATRIX, MATRIX]}),
    ("MultivariateNormal", {"loc": [0.0, 1.0], "scale_tril": TRIL}),
    ("NegativeBinomial", {"total_count": [2.0, 5.5], "probs": [0.2, 0.7]}),
    ("NegativeBinomial", {"total_count": 4, "logits": [0.1, -1.0]}),
    ("Normal", {"loc": [0.0, 1.0], "scale": [1.0, 0.3]}),
    ("Normal", {"loc": 0.0, "scale": [[2.0], [0.3]]}),
    ("OneHotCategorical", {"probs": CHOICES}),
    ("OneHotCategoricalStraightThrough", {"logits": [0.3, -0.4, 1.0]}),
    ("Pareto", {"scale": [1.0, 0.3], "alpha": [1.5, 3.0]}),
    ("Poisson", {"rate": [0.5, 4.0, 60.0]}),
    ("RelaxedBernoulli", {"temperature": 0.7, "probs": [0.2, 0.7]}),
    ("RelaxedBernoulli", {"temperature": [0.7], "logits": [0.2, -0.7]}),
    ("RelaxedOneHotCategorical", {"temperature": 0.7, "probs": CHOICES}),
    ("RelaxedOneHotCategorical", {"temperature": [0.7], "logits": [0.3, -0.4, 1.0]}),
    ("StudentT", {"df": [0.8, 1.5, 6.0], "loc": [0.0, 1.0, 2.0], "scale": 1.5}),
    (
        "TransformedDistribution",
        {
            "base_distribution": ("Normal", {"loc": [0.0, 1.0], "scale": [1.0, 0.3]}),
            "transforms": ["ExpTransform", "SigmoidTransform"],
        },
    ),
    ("Uniform", {"low": [0.0, -1.0], "high": [1.0, 3.0]}),
    ("VonMises", {"loc": [0.0, 1.0], "concentration": [0.5, 6.0]}),
    ("Weibull", {"scale": [1.0, 0.3], "concentration": [1.5, 3.0]}),
    ("Wishart", {"df": [3.0, 5.0], "covariance_matrix": MATRIX}),
    ("Wishart", {"df": 4.0, "scale_tril": TRIL}),
    ("Wishart", {"df": 4.0, "precision_matrix": [MATRIX, MATRIX]}),
]


def build(library, package, name, parameters):
    """The distribution, and the tensors it was made of, which ask for gradients."""
    tensors, arguments = [], {}
    for key, value in parameters.items():
        if isinstance(value, tuple):
            value, inner = build(library, package, *value)
            tensors += inner
        elif key == "transforms":
            value = [getattr(package, t)() for t in value]
        elif isinstance(value, (float, list)):
            value = library.tensor(value, requires_grad=True)
            tensors.append(value)
        arguments[key] = value
    return getattr(package, name)(**arguments), tensors


def name_of(case):
    return f"{case[0]}-{'-'.join(case[1])}"


every_case = pytest.mark.parametrize("case", CASES, ids=name_of)


def close(actual, expected, tolerance=1e-5):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


# ---- without another library as the oracle -------------------------------------------------------


def test_every_class_has_a_case():
    abstract = {"Distribution", "ExponentialFamily"}
    classes = {
        name
        for name in distributions.__all__
        if isinstance(getattr(distributions, name), type)
        and issubclass(getattr(distributions, name), distributions.Distribution)
    }
    assert classes - abstract == {name for name, _ in CASES}


@every_case
def test_shapes_and_expansion(case):
    d, _ = build(rushlight, distributions, *case)
    sample = d.sample((5, 2))
    assert sample.shape == (5, 2) + d.batch_shape + d.event_shape
    assert not sample.requires_grad
    assert d.log_prob(sample).shape == (5, 2) + d.batch_shape
    wide = d.expand((3,) + tuple(d.batch_shape))
    assert type(wide) is type(d) and wide.event_shape == d.event_shape
    assert wide.sample((2,)).shape == (2, 3) + d.batch_shape + d.event_shape
    close(wide.log_prob(sample[0, 0]).detach()[2], d.log_prob(sample[0, 0]).detach())


@every_case
def test_samples_differ_and_have_the_mean(case):
    d, _ = build(rushlight, distributions, *case)
    try:
        mean, deviation = d.mean.detach(), d.stddev.detach()
    except NotImplementedError:
        return
    if isinstance(d, distributions.VonMises):
        return  # its mean and variance are circular
    drawn = d.sample((4000,))
    # Where the variance is finite, and the fourth moment as a rule too: five standard errors.
    known = deviation.isfinite() & (deviation < 10 * mean.abs() + 5)
    error = (drawn.double().mean(0) - mean).abs() / (deviation / 4000**0.5 + 1e-6)
    assert (error[known] < 5).all(), error


@every_case
def test_densities_sum_to_one(case):
    d, _ = build(rushlight, distributions, *case)
    if d.has_enumerate_support:
        total = d.log_prob(d.enumerate_support()).exp().sum(0)
        close(total.detach(), np.ones(total.shape), 1e-4)


@every_case
def test_gradients_of_samples_follow_the_distribution_function(case):
    """At a fixed probability, dx/dparameter = -(dF/dparameter) / density."""
    d, tensors = build(rushlight, distributions, *case)
    univariate = not d.event_shape and isinstance(d.support, distributions.constraints.Constraint)
    if not (d.has_rsample and univariate):
        return
    x = d.rsample()
    fixed = x.detach()
    try:
        cdf = d.cdf(fixed)
    except NotImplementedError:
        return
    for tensor in tensors:
        (moved,) = rushlight.autograd.grad(x.sum(), tensor, retain_graph=True)
        (tilted,) = rushlight.autograd.grad(
            (cdf / -d.log_prob(fixed).exp().detach()).sum(), tensor, retain_graph=True
        )
        close(moved, tilted, 2e-3)


@pytest.mark.parametrize("concentration", [1e-3, 0.05, 0.7, 1.0, 3.3, 40.0, 1e4])
def test_gradient_of_gamma_numbers(concentration):
    quantiles = np.linspace(0.02, 0.98, 9)
    a, h = concentration, concentration * 1e-5
    x = scipy.special.gammaincinv(a, quantiles)
    kept = x > 1e-300
    moved = scipy.special.gammaincinv(a + h, quantiles) - scipy.special.gammaincinv(
        a - h, quantiles
    )
    shapes = rushlight.full((9,), a, dtype=rushlight.float64)
    cdf, shift = _gamma_cdf_and_shift(shapes, rushlight.from_numpy(x))
    np.testing.assert_allclose(cdf.numpy()[kept], quantiles[kept], rtol=1e-9)
    np.testing.assert_allclose(shift.numpy()[kept], (moved / (2 * h))[kept], rtol=1e-4)


@pytest.mark.parametrize("a", [0.05, 0.7, 1.0, 3.3, 200.0])
@pytest.mark.parametrize("b", [0.05, 1.0, 30.0])
def test_gradient_of_beta_numbers(a, b):
    quantiles = np.linspace(0.05, 0.95, 7)
    x, h = scipy.special.betaincinv(a, b, quantiles), a * 1e-5
    kept = (x > 1e-300) & (x < 1 - 1e-6)
    moved = scipy.special.betaincinv(a + h, b, quantiles) - scipy.special.betaincinv(
        a - h, b, quantiles
    )
    full = [rushlight.full((7,), v, dtype=rushlight.float64) for v in (a, a + b)]
    shift = _dirichlet_shift(rushlight.from_numpy(x), *full).numpy() * (1 - x)
    np.testing.assert_allclose(shift[kept], (moved / (2 * h))[kept], rtol=1e-3)


SCIPY = {
    "Beta": lambda p: stats.beta(p["concentration1"], p["concentration0"]),
    "Cauchy": lambda p: stats.cauchy(p["loc"], p["scale"]),
    "Chi2": lambda p: stats.chi2(p["df"]),
    "Exponential": lambda p: stats.expon(scale=1 / p["rate"]),
    "FisherSnedecor": lambda p: stats.f(p["df1"], p["df2"]),
    "Gamma": lambda p: stats.gamma(p["concentration"], scale=1 / p["rate"]),
    "GeneralizedPareto": lambda p: stats.genpareto(p["concentration"], p["loc"], p["scale"]),
    "Gumbel": lambda p: stats.gumbel_r(p["loc"], p["scale"]),
    "HalfCauchy": lambda p: stats.halfcauchy(scale=p["scale"]),
    "HalfNormal": lambda p: stats.halfnorm(scale=p["scale"]),
    "InverseGamma": lambda p: stats.invgamma(p["concentration"], scale=p["rate"]),
    "Laplace": lambda p: stats.laplace(p["loc"], p["scale"]),
    "LogNormal": lambda p: stats.lognorm(p["scale"], scale=np.exp(p["loc"])),
    "Normal": lambda p: stats.norm(p["loc"], p["scale"]),
    "Pareto": lambda p: stats.pareto(p["alpha"], scale=p["scale"]),
    "StudentT": lambda p: stats.t(p["df"], p["loc"], p["scale"]),
    "Uniform": lambda p: stats.uniform(p["low"], p["high"] - p["low"]),
    "Weibull": lambda p: stats.weibull_min(p["concentration"], scale=p["scale"]),
    "Poisson": lambda p: stats.poisson(p["rate"]),
    "Geometric": lambda p: stats.geom(p["probs"], loc=-1),
    "NegativeBinomial": lambda p: stats.nbinom(p["total_count"], 1 - p["probs"]),
    "VonMises": lambda p: stats.vonmises(p["concentration"], p["loc"]),
}


@pytest.mark.parametrize(
    "case", [c for c in CASES if c[0] in SCIPY and "logits" not in c[1]], ids=name_of
)
def test_against_scipy(case):
    name, parameters = case
    d, _ = build(rushlight, distributions, name, parameters)
    oracle = SCIPY[name]({k: np.asarray(v, np.float64) for k, v in parameters.items()})
    x = d.sample((6,))
    log_density = oracle.logpmf if isinstance(oracle.dist, stats.rv_discrete) else oracle.logpdf
    close(d.log_prob(x).detach(), log_density(x.double().numpy()), 2e-3)
    if name != "VonMises":  # of which they are circular
        for ours, theirs in ((d.mean, oracle.mean()), (d.variance, oracle.var())):
            known = np.isfinite(theirs)
            close(ours.detach().numpy()[known], np.broadcast_to(theirs, known.shape)[known], 1e-4)
    for method, value in (("cdf", x), ("icdf", rushlight.rand(x.shape)), ("entropy", None)):
        try:
            ours = getattr(d, method)(*([] if value is None else [value])).detach()
        except NotImplementedError:
            continue
        theirs = getattr(oracle, {"icdf": "ppf"}.get(method, method))
        close(ours, theirs() if value is None else theirs(value.double().numpy()), 1e-3)


def test_multivariate_normal_against_scipy():
    x = rushlight.randn(5, 2)
    d = distributions.MultivariateNormal(rushlight.ones(2), rushlight.tensor(MATRIX))
    oracle = stats.multivariate_normal([1.0, 1.0], MATRIX)
    close(d.log_prob(x), oracle.logpdf(x.numpy()))
    close(d.entropy(), oracle.entropy())
    low_rank = distributions.LowRankMultivariateNormal(
        rushlight.ones(2), rushlight.tensor([[1.0], [0.5]]), rushlight.tensor([0.5, 1.0])
    )
    same = distributions.MultivariateNormal(rushlight.ones(2), low_rank.covariance_matrix)
    close(low_rank.log_prob(x), same.log_prob(x))
    close(low_rank.entropy(), same.entropy())
    close(low_rank.precision_matrix, rushlight.linalg.inv(low_rank.covariance_matrix))
    close(low_rank.scale_tril, same.scale_tril)
    close(distributions.kl_divergence(low_rank, same), 0)


def test_errors_name_the_parameter_and_the_value():
    with pytest.raises(ValueError, match=r"Normal: parameter scale of shape \(2,\).*GreaterThan"):
        distributions.Normal(0.0, rushlight.tensor([1.0, -1.0]))
    with pytest.raises(ValueError, match="Normal: parameter loc"):
        distributions.Normal(float("nan"), 1.0)
    with pytest.raises(ValueError, match="either probs or logits"):
        distributions.Bernoulli()
    with pytest.raises(ValueError, match="exactly one of"):
        distributions.MultivariateNormal(rushlight.zeros(2))
    with pytest.raises(ValueError, match="Bernoulli: a value .* not within the support"):
        distributions.Bernoulli(0.5).log_prob(rushlight.tensor(2.0))
    with pytest.raises(ValueError, match=r"Categorical: the value's shape \(4,\)"):
        distributions.Categorical(rushlight.ones(3, 2)).log_prob(rushlight.zeros(4))
    with pytest.raises(ValueError, match="must be a Tensor"):
        distributions.Normal(0.0, 1.0).log_prob(0.5)
    with pytest.raises(NotImplementedError, match="no differentiable samples"):
        distributions.Poisson(1.0).rsample()
    with pytest.raises(NotImplementedError, match="Poisson.*Normal|Normal.*Poisson"):
        distributions.kl_divergence(distributions.Poisson(1.0), distributions.Normal(0.0, 1.0))
    with pytest.raises(ValueError, match="df must be above"):
        distributions.Wishart(1.0, rushlight.eye(3))
    unchecked = distributions.Normal(0.0, -1.0, validate_args=False)
    assert unchecked.log_prob(rushlight.tensor(0.0)).isnan()


def test_a_subclass_with_parameters_of_its_own():
    class Shifted(distributions.Normal):
        def __init__(self, shift, validate_args=None):
            self.shift = shift
            super().__init__(shift + 1.0, 1.0, validate_args=validate_args)

    d = Shifted(2.0).expand((3,))
    assert type(d) is Shifted and d.shift == 2.0 and d.mean.tolist() == [3.0] * 3


def test_import_paths():
    for name, _ in CASES:
        cls = getattr(distributions, name)
        assert getattr(importlib.import_module(cls.__module__), name) is cls


# ---- transforms and constraints ------------------------------------------------------------------

TRANSFORMS = [
    lambda t: t.AbsTransform(),
    lambda t: t.AffineTransform(0.5, -2.0),
    lambda t: t.ComposeTransform([t.AffineTransform(0.5, 2.0), t.SigmoidTransform()]),
    lambda t: t.CorrCholeskyTransform(),
    lambda t: t.CumulativeDistributionTransform(
        importlib.import_module(t.__package__).Normal(0.0, 2.0)
    ),
    lambda t: t.ExpTransform(),
    lambda t: t.ExpTransform().inv,
    lambda t: t.IndependentTransform(t.ExpTransform(), 1),
    lambda t: t.LowerCholeskyTransform(),
    lambda t: t.PositiveDefiniteTransform(),
    lambda t: t.PowerTransform(2.0),
    lambda t: t.ReshapeTransform((6,), (2, 3)),
    lambda t: t.SigmoidTransform(),
    lambda t: t.SoftplusTransform(),
    lambda t: t.TanhTransform(),
    lambda t: t.SoftmaxTransform(),
    lambda t: t.StackTransform([t.ExpTransform(), t.TanhTransform()], dim=0),
    lambda t: t.CatTransform([t.ExpTransform(), t.TanhTransform()], dim=-1, lengths=[4, 2]),
    lambda t: t.StickBreakingTransform(),
]


def domain_sample(transform, shape):
    x = rushlight.randn(shape, dtype=rushlight.float64)
    domain = transform.domain
    while isinstance(domain, distributions.constraints.independent):
        domain = domain.base_constraint
    return x.abs() + 0.1 if domain in (distributions.constraints.positive,) else x


@pytest.mark.parametrize("make", TRANSFORMS)
def test_transform(make):
    transform = make(distributions.transforms)
    matrix = transform.domain.event_dim == 2
    x = domain_sample(transform, (2, 3, 3) if matrix else (2, 6))
    y = transform(x)
    assert transform.codomain.check(y).all()
    assert y.shape == transform.forward_shape(x.shape)
    assert x.shape == transform.inverse_shape(y.shape)
    close(transform(transform.inv(y)), y)
    assert transform.inv.inv is transform
    if not transform.bijective:
        return
    close(transform.inv(y), x)
    jacobian = transform.log_abs_det_jacobian(x, y)
    close(transform.inv.log_abs_det_jacobian(y, x), -jacobian)
    if y.shape == x.shape and transform.domain.event_dim == 0:
        leaf = x.detach().requires_grad_()
        (slope,) = rushlight.autograd.grad(transform(leaf).sum(), leaf)
        close(jacobian, slope.abs().log())


def test_transform_cache():
    transform = distributions.TanhTransform(cache_size=1)
    x = rushlight.tensor(30.0)
    assert transform.inv(transform(x)) is x
    assert distributions.TanhTransform().inv(transform(x)).isinf()
    assert transform.with_cache(0)._cache_size == 0
    assert distributions.AffineTransform(1, 2.0) == distributions.AffineTransform(1, 2.0)
    assert distributions.AffineTransform(1, 2.0) != distributions.AffineTransform(1, 3.0)


CONSTRAINTS = [
    "real", "positive", "nonnegative", "unit_interval", "simplex", "corr_cholesky", "real_vector",
    ("greater_than", 1.5), ("less_than", 2.0), ("interval", -1.0, 3.0), ("half_open_interval", 0.0,
    2.0),
]  # fmt: skip


@pytest.mark.parametrize("spec", CONSTRAINTS, ids=str)
def test_registries_reach_their_constraint(spec):
    constraints = distributions.constraints
    constraint = getattr(constraints, spec) if isinstance(spec, str) else None
    constraint = constraint or getattr(constraints, spec[0])(*spec[1:])
    for registry in (distributions.biject_to, distributions.transform_to):
        x = rushlight.randn(4, 3)
        y = registry(constraint)(x)
        assert constraint.check(y).all()
    with pytest.raises(NotImplementedError, match="Boolean"):
        distributions.biject_to(constraints.boolean)


@pytest.mark.parametrize("name", ["positive_definite", "positive_semidefinite", "lower_cholesky"])
def test_transform_to_matrices(name):
    constraint = getattr(distributions.constraints, name)
    y = distributions.transform_to(constraint)(rushlight.randn(4, 3, 3, dtype=rushlight.float64))
    assert constraint.check(y).all()
    assert not constraint.check(rushlight.full((4, 3, 3), -1.0)).any()


def test_constraints_reject():
    c = distributions.constraints
    x = rushlight.tensor([-1.0, 0.0, 0.5, 1.0, 2.0, rushlight.nan])
    expected = {
        c.boolean: [0, 1, 0, 1, 0, 0],
        c.positive: [0, 0, 1, 1, 1, 0],
        c.nonnegative: [0, 1, 1, 1, 1, 0],
        c.unit_interval: [0, 1, 1, 1, 0, 0],
        c.nonnegative_integer: [0, 1, 0, 1, 1, 0],
        c.real: [1, 1, 1, 1, 1, 0],
        c.integer_interval(0, 1): [0, 1, 0, 1, 0, 0],
        c.half_open_interval(0, 1): [0, 1, 1, 0, 0, 0],
        c.stack([c.boolean, c.real] * 3): [0, 1, 0, 1, 0, 0],
        c.cat([c.real, c.positive], lengths=[3, 3]): [1, 1, 1, 1, 1, 0],
    }
    for constraint, result in expected.items():
        assert constraint.check(x).int().tolist() == result, constraint
    assert c.simplex.check(rushlight.tensor([[0.5, 0.5], [0.5, 0.6]])).tolist() == [True, False]
    assert not c.symmetric.check(rushlight.tensor([[1.0, 2.0], [0.0, 1.0]]))
    assert not c.square.check(rushlight.zeros(2, 3))


# ---- divergences ---------------------------------------------------------------------------------

OF_A_KIND = {
    "Bernoulli": {"probs": 0.3},
    "Beta": {"concentration1": 1.5, "concentration0": 2.0},
    "Binomial": {"total_count": 5, "probs": 0.3},
    "Categorical": {"probs": [0.2, 0.3, 0.5]},
    "Cauchy": {"loc": 0.5, "scale": 2.0},
    "ContinuousBernoulli": {"probs": 0.3},
    "Dirichlet": {"concentration": [0.7, 2.0, 3.0]},
    "Exponential": {"rate": 1.5},
    "Gamma": {"concentration": 2.5, "rate": 1.5},
    "Geometric": {"probs": 0.3},
    "Gumbel": {"loc": 0.2, "scale": 1.5},
    "HalfNormal": {"scale": 1.5},
    "Independent": {
        "base_distribution": ("Normal", {"loc": [0.0, 1.0], "scale": 2.0}),
        "reinterpreted_batch_ndims": 1,
    },
    "Laplace": {"loc": 0.2, "scale": 1.5},
    "LowRankMultivariateNormal": {
        "loc": [0.0, 1.0],
        "cov_factor": [[1.0], [0.5]],
        "cov_diag": [0.5, 1.0],
    },
    "MultivariateNormal": {"loc": [0.5, 1.0], "scale_tril": TRIL},
    "Normal": {"loc": 0.2, "scale": 1.5},
    "OneHotCategorical": {"probs": [0.2, 0.3, 0.5]},
    "Pareto": {"scale": 0.5, "alpha": 3.0},
    "Poisson": {"rate": 2.0},
    "TransformedDistribution": {
        "base_distribution": ("Normal", {"loc": 0.2, "scale": 1.5}),
        "transforms": ["ExpTransform"],
    },
    "Uniform": {"low": 0.2, "high": 0.9},
}

OTHERS_OF_A_KIND = OF_A_KIND | {
    "Bernoulli": {"probs": 0.6},
    "Beta": {"concentration1": 2.5, "concentration0": 0.8},
    "Binomial": {"total_count": 5, "probs": 0.6},
    "Categorical": {"probs": [0.5, 0.1, 0.4]},
    "ContinuousBernoulli": {"probs": 0.8},
    "Exponential": {"rate": 0.7},
    "Gamma": {"concentration": 1.3, "rate": 0.8},
    "Gumbel": {"loc": -0.2, "scale": 2.5},
    "Laplace": {"loc": -0.2, "scale": 2.5},
    "Normal": {"loc": -0.2, "scale": 2.5},
    "MultivariateNormal": {"loc": [0.0, -1.0], "covariance_matrix": MATRIX},
    "Pareto": {"scale": 0.1, "alpha": 2.0},
    "Poisson": {"rate": 3.0},
    "Uniform": {"low": -0.2, "high": 1.9},
}
PAIRS = [
    (p.__name__, q.__name__)
    for p, q in distributions.kl._KL_REGISTRY
    if p.__name__ in OF_A_KIND and q.__name__ in OF_A_KIND
]


def pair(library, package, names):
    p, _ = build(library, package, names[0], OF_A_KIND[names[0]])
    q, _ = build(library, package, names[1], OTHERS_OF_A_KIND[names[1]])
    return p, q


@pytest.mark.parametrize("names", PAIRS, ids="-".join)
def test_divergence_is_the_mean_of_log_quotients(names):
    p, q = pair(rushlight, distributions, names)
    divergence = distributions.kl_divergence(p, q)
    assert divergence.shape == ()
    with rushlight.no_grad():
        x = p.sample((20000,))
        inside = q.support.check(x).all()
        if divergence.isinf():
            assert not inside or names[1] in ("Bernoulli", "Binomial")
            return
        log_quotients = p.log_prob(x) - q.log_prob(x)
        error = log_quotients.std() / 20000**0.5
        assert (divergence - log_quotients.mean()).abs() < 5 * error + 1e-4


def test_ambiguous_divergence_warns():
    class A(distributions.Normal):
        pass

    distributions.register_kl(A, distributions.Normal)(lambda p, q: "left")
    distributions.register_kl(distributions.Normal, A)(lambda p, q: "right")
    try:
        with pytest.warns(RuntimeWarning, match="ambiguous"):
            assert distributions.kl_divergence(A(0.0, 1.0), A(0.0, 1.0)) == "left"
    finally:
        for key in [k for k in distributions.kl._KL_REGISTRY if A in k]:
            del distributions.kl._KL_REGISTRY[key]


# ---- against torch -------------------------------------------------------------------------------

NOT_OF_TORCH = {
    ("Kumaraswamy", "mode"),  # torch: NaN for concentrations above 1
    ("Wishart", "gradient of rsample"),  # torch: an error, it redraws in place
}


def outcome(function):
    """Value of a function as an array, or the type of the error."""
    try:
        return np.array(function().detach().numpy())
    except (NotImplementedError, ValueError) as error:
        return type(error)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Singular sample")
@every_case
def test_against_torch(case):
    torch = pytest.importorskip("torch")
    pairs = [
        (library, *build(library, package, *case))
        for library, package in ((rushlight, distributions), (torch, torch.distributions))
    ]

    def same(what, function, tolerance=1e-5):
        if (case[0], what) in NOT_OF_TORCH:
            return None
        ours, theirs = (outcome(lambda args=args: function(*args[:2])) for args in pairs)
        if isinstance(ours, type) or isinstance(theirs, type):
            assert ours is theirs, what
            return None
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), what
        np.testing.assert_allclose(ours, theirs, tolerance, tolerance, err_msg=what)
        return theirs

    def seeded(library, draw):
        library.manual_seed(3)
        return draw((4,))

    def gradients(library, d, draw):
        tensors = next(args[2] for args in pairs if args[0] is library)
        out = draw()
        weights = np.random.RandomState(1).randn(*out.shape, 1)[..., 0].astype("float32")
        found = library.autograd.grad(
            (out * library.tensor(weights)).sum(), tensors, retain_graph=True, allow_unused=True
        )
        if case[0] == "Wishart" and "scale_tril" in case[1]:
            found = [g.tril() if g.dim() == 2 else g for g in found]  # L's upper part is not read
        return library.cat([f.flatten() for f in found if f is not None])

    ours, theirs = pairs[0][1], pairs[1][1]
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape)
    assert tuple(ours.event_shape) == tuple(theirs.event_shape)
    for flag in ("has_rsample", "has_enumerate_support"):
        assert getattr(ours, flag) == getattr(theirs, flag)
    if case[0] != "MixtureSameFamily":
        assert repr(ours) == repr(theirs)

    # The diagonal of LKJ's factors is sqrt(1 - the row's squares): near 0 it magnifies the rounding
    # of the row, which is another one on each processor (6e-8 / 0.003 = 2e-5).
    exact = 2e-5 if case[0] == "LKJCholesky" else 1e-6
    x = same("sample", lambda library, d: seeded(library, d.sample), exact)
    same(
        "expanded", lambda library, d: seeded(library, d.expand((2, *d.batch_shape)).sample), exact
    )
    for name in ("mean", "mode", "variance", "stddev"):
        same(name, lambda library, d, name=name: getattr(d, name))
    for name in ("entropy", "perplexity", "enumerate_support"):
        same(name, lambda library, d, name=name: getattr(d, name)())
    same("log_prob", lambda library, d: d.log_prob(library.tensor(x)))
    same("cdf", lambda library, d: d.cdf(library.tensor(x)))
    if not ours.event_shape:
        levels = np.random.RandomState(0).rand(3, *ours.batch_shape).astype("float32")
        same("icdf", lambda library, d: d.icdf(library.tensor(levels)))
    same(
        "gradient of log_prob",
        lambda library, d: gradients(library, d, lambda: d.log_prob(library.tensor(x))),
        1e-4,
    )
    if outcome(ours.entropy) is not NotImplementedError:
        same("gradient of entropy", lambda library, d: gradients(library, d, d.entropy), 1e-4)
    if ours.has_rsample:
        same("rsample", lambda library, d: seeded(library, d.rsample), exact)
        # Torch's gradients of gamma and beta numbers are approximations, to about 1e-3.
        same(
            "gradient of rsample",
            lambda library, d: gradients(library, d, lambda: seeded(library, d.rsample)),
            2e-3,
        )


@pytest.mark.torch
def test_the_registry_of_divergences_is_that_of_torch():
    torch = pytest.importorskip("torch")
    ours, theirs = (
        {(p.__name__, q.__name__) for p, q in package.kl._KL_REGISTRY}
        for package in (distributions, torch.distributions)
    )
    assert ours == theirs


@pytest.mark.torch
@pytest.mark.parametrize("names", PAIRS, ids="-".join)
def test_divergence_against_torch(names):
    torch = pytest.importorskip("torch")
    ours = distributions.kl_divergence(*pair(rushlight, distributions, names))
    theirs = torch.distributions.kl_divergence(*pair(torch, torch.distributions, names))
    close(ours.detach(), theirs.detach())


@pytest.mark.torch
@pytest.mark.parametrize("make", TRANSFORMS)
def test_transform_against_torch(make):
    torch = pytest.importorskip("torch")
    ours, theirs = make(distributions.transforms), make(torch.distributions.transforms)
    assert (ours.bijective, ours.domain.event_dim) == (theirs.bijective, theirs.domain.event_dim)
    x = domain_sample(ours, (2, 3, 3) if ours.domain.event_dim == 2 else (2, 6))
    x_there = torch.from_numpy(x.numpy())
    y, y_there = ours(x), theirs(x_there)
    close(y, y_there, 1e-9)
    close(ours.inv(y), theirs.inv(y_there), 1e-9)
    if ours.bijective:
        jacobian = ours.log_abs_det_jacobian(x, y)
        close(jacobian, theirs.log_abs_det_jacobian(x_there, y_there), 1e-9)


@pytest.mark.torch
def test_both_libraries_refuse_the_same():
    torch = pytest.importorskip("torch")
    torch.distributions.Distribution.set_default_validate_args(True)  # its compiler ends that
    for package, library in ((distributions, rushlight), (torch.distributions, torch)):
        two, three = library.zeros(2), library.ones(3)
        for make in (
            lambda d=package, a=two, b=three: d.Normal(a, b),
            lambda d=package, a=two: d.Independent(d.Normal(a, 1.0), 2),
            lambda d=package, a=three: d.Categorical(a.sum()),
            lambda d=package, a=two: d.Categorical(probs=a.new_tensor([-1.0, 2.0])),
            lambda d=package, a=three: d.MultivariateNormal(a, -a.diag_embed()),
            lambda d=package, a=three: d.MixtureSameFamily(d.Categorical(a), d.Normal(a[:2], 1.0)),
            lambda d=package, a=two: d.Uniform(a, a),
            lambda d=package, a=two: d.Normal(a, 1.0).log_prob(0.5),
            lambda d=package, a=two: d.Dirichlet(a + 1).log_prob(a + 1),
            lambda d=package, a=two: d.Gamma(a, a),
            lambda d=package: d.transforms.ReshapeTransform((2, 3), (4,)),
        ):
            with pytest.raises((ValueError, RuntimeError)):
                make()


@pytest.mark.parametrize("dtype", [rushlight.float32, rushlight.float64], ids=str)
def test_small_concentrations_fall_into_the_corners(dtype):
    rushlight.manual_seed(0)
    concentration = rushlight.tensor(0.01, dtype=dtype)
    sample = distributions.Beta(concentration, concentration).sample((4000,))
    assert sample.dtype == dtype and 0 < sample.min() and sample.max() < 1
    for corner in (sample < 0.1, sample > 0.9):
        assert abs(corner.double().mean().item() - 0.49) < 0.03


def test_entropy_of_wishart_from_its_natural_parameters():
    scale = rushlight.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=rushlight.float64)
    wishart = distributions.Wishart(rushlight.tensor(5.0).double(), precision_matrix=scale)
    by_derivatives = super(type(wishart), wishart).entropy()
    assert rushlight.allclose(by_derivatives, wishart.entropy())


@pytest.mark.parametrize("name", ["HalfCauchy", "HalfNormal", "Cauchy"])
def test_a_number_is_no_sample(name):
    made = getattr(distributions, name)(*([0.0] if name == "Cauchy" else []), 1.0)
    with pytest.raises(ValueError, match="must be a Tensor"):
        made.log_prob(0.5)


def test_continuous_bernoulli_of_large_logits_has_samples():
    rushlight.manual_seed(0)
    sample = distributions.ContinuousBernoulli(logits=rushlight.tensor([1e9, -1e9])).sample((50,))
    assert sample.isfinite().all() and sample[:, 0].mean() > 0.8 and sample[:, 1].mean() < 0.2


def test_points_of_the_simplex_are_drawn_from_a_generator():
    from rushlight.distributions import Dirichlet

    concentration = rushlight.tensor([0.5, 1.0, 2.0])
    rushlight.manual_seed(3)
    expected = Dirichlet(concentration).sample()
    found = rushlight._sample_dirichlet(concentration, rushlight.Generator().manual_seed(3))
    assert found.equal(expected)


def test_mixtures_pad_what_other_libraries_hand_them():
    normal = distributions.Normal(rushlight.zeros(2, 3), rushlight.ones(2, 3))
    parts = distributions.Independent(normal, 1)
    mixture = distributions.MixtureSameFamily(
        distributions.Categorical(rushlight.tensor([0.25, 0.75])), parts
    )
    x = rushlight.arange(12.0).reshape(4, 3)
    assert mixture._pad(x).shape == (4, 1, 3)
    expected = parts.log_prob(mixture._pad(x)).mean(-1)  # the components are the same
    assert rushlight.allclose(mixture.log_prob(x), expected)
