"""Every argument of distributions, transforms and constraints does something: with another value
than its default something changes, or it raises an error or a warning. What does not is listed.
"""

import pytest
from options import found, ignored, in_python

import rushlight as rl
from rushlight import distributions as D
from rushlight.distributions import constraints, utils

NO_EFFECT = {"Independent": {"validate_args": "as in torch, its base checks values"}}

HALF, ONES = rl.tensor([0.5, 0.25]), rl.ones(2)
EYE = rl.eye(2)


def made(cls, outside, *arguments, **usual):
    """What a distribution tells and draws; `outside` is no value of it."""

    def run(**named):
        names = {"probs", "logits", "covariance_matrix", "precision_matrix", "scale_tril"}
        given = {k: v for k, v in usual.items() if not (k in names and names & named.keys())}
        parts = (a() if callable(a) else a for a in arguments)  # which keep what they compute
        d = cls(*parts, **{**given, **named})
        seen = [d.batch_shape, d.event_shape]
        try:
            drawn = d.sample()
            seen += [drawn, d.log_prob(drawn)]
        except NotImplementedError:
            seen.append("nothing is drawn")
        try:
            d.log_prob(outside)
        except ValueError as error:
            seen.append(str(error)[:40])
        except (NotImplementedError, RuntimeError, IndexError):
            seen.append("not computed")
        return seen

    return run


def wrong(cls, *arguments):
    """Whether arguments that do not fit are refused."""

    def run(**named):
        try:
            cls(*arguments, **named)
        except ValueError as error:
            return str(error)[:40]
        return "made"

    return run


FAR = rl.tensor([-2.0, -2.0])
LOGITS = {"probs": [rl.tensor([0.1, 0.9])], "logits": [rl.tensor([2.0, -1.0])]}
CASES = {
    **{name: [made(getattr(D, name), FAR, probs=HALF)] for name in (
        "Bernoulli", "ContinuousBernoulli", "Geometric", "Categorical", "OneHotCategorical",
        "OneHotCategoricalStraightThrough")},
    "Binomial": [made(D.Binomial, FAR, probs=HALF)],
    "Multinomial": [made(D.Multinomial, FAR, probs=HALF)],
    "NegativeBinomial": [made(D.NegativeBinomial, FAR, 3.0, probs=HALF)],
    **{name: [made(found(f"distributions.{name}"), outside, rl.tensor(0.5), probs=HALF),
              wrong(found(f"distributions.{name}"), rl.tensor(0.5), -HALF)]
       for name, outside in {
           "RelaxedBernoulli": FAR, "RelaxedOneHotCategorical": FAR,
           "relaxed_bernoulli.LogitRelaxedBernoulli": FAR,
           "relaxed_categorical.ExpRelaxedCategorical": rl.ones(3)}.items()},
    **{name: [made(getattr(D, name), FAR, *[HALF] * count),
              wrong(getattr(D, name), *[-HALF] * count)]
       for name, count in {
           "Beta": 2, "Cauchy": 2, "Chi2": 1, "Dirichlet": 1, "Exponential": 1, "FisherSnedecor": 2,
           "Gamma": 2, "Gumbel": 2, "HalfCauchy": 1, "HalfNormal": 1, "InverseGamma": 2,
           "Kumaraswamy": 2, "Laplace": 2, "LogNormal": 2, "LogisticNormal": 2, "Normal": 2,
           "Pareto": 2, "StudentT": 1, "Poisson": 1, "VonMises": 2, "Weibull": 2,
           "GeneralizedPareto": 3}.items()},
    "Uniform": [made(D.Uniform, FAR, 0 * ONES, ONES), wrong(D.Uniform, ONES, -ONES)],
    "LKJCholesky": [made(D.LKJCholesky, FAR, 2)],
    "MultivariateNormal": [made(D.MultivariateNormal, rl.ones(3), ONES, covariance_matrix=EYE)],
    "LowRankMultivariateNormal": [
        made(D.LowRankMultivariateNormal, rl.ones(3), ONES, rl.ones(2, 1), ONES)],
    "Wishart": [made(D.Wishart, -EYE, rl.tensor(3.0), covariance_matrix=EYE)],
    "Independent": [made(D.Independent, FAR, lambda: D.Exponential(ONES, validate_args=False), 1)],
    "MixtureSameFamily": [
        made(D.MixtureSameFamily, -ONES[0], lambda: D.Categorical(HALF),
             lambda: D.Exponential(ONES, validate_args=False))],
    "TransformedDistribution": [
        made(D.TransformedDistribution, FAR, lambda: D.Normal(ONES, ONES), [D.ExpTransform()])],
    **{name: [lambda name=name, **named: getattr(D, name)(**named).batch_shape,
              lambda name=name, **named: getattr(D, name)(**named).event_shape,
              lambda name=name, **named: wrong(
                  Positive if name == "Distribution" else PositiveFamily, -1)(**named)]
       for name in ("Distribution", "ExponentialFamily")},
}  # fmt: skip


class Positive(D.Distribution):
    """Of the base class, which checks what a class says of its arguments."""

    arg_constraints = {"rate": constraints.positive}  # noqa: RUF012

    def __init__(self, rate, validate_args=None):
        self.rate = rl.tensor(float(rate))
        super().__init__(validate_args=validate_args)


class PositiveFamily(D.ExponentialFamily):
    arg_constraints = Positive.arg_constraints

    def __init__(self, rate, validate_args=None):
        self.rate = rl.tensor(float(rate))
        super().__init__(validate_args=validate_args)


def cached(make, x):
    """Whether the inverse of a result is the very argument."""

    def run(**named):
        transform = make(**named)
        y = transform(x)
        try:
            same = transform.inv(y) is x
        except NotImplementedError:
            same = transform(x) is y
        return same, y

    return run


def affine(**named):
    transform = D.AffineTransform(ONES, 2 * ONES, **named)
    x = ONES.clone()
    y = transform(x)
    return transform.inv(y) is x, transform.log_abs_det_jacobian(x, y), transform.domain.event_dim


def concatenated(kind):
    def run(**named):
        parts = [D.ExpTransform(), D.AffineTransform(0.0, 2.0)]
        x = rl.arange(16.0).reshape(4, 4) / 10 if kind is D.CatTransform else rl.ones(2, 2) / 2
        given = {"lengths": [2, 2], **named} if kind is D.CatTransform else named
        transform = kind(parts, **given)
        y = transform(x)
        return y, transform.inv(y) is x

    return run


X = rl.tensor([0.3, 0.6])
TRANSFORMS = {
    "AbsTransform": D.AbsTransform, "ExpTransform": D.ExpTransform,
    "SigmoidTransform": D.SigmoidTransform, "SoftplusTransform": D.SoftplusTransform,
    "TanhTransform": D.TanhTransform, "SoftmaxTransform": D.SoftmaxTransform,
    "StickBreakingTransform": D.StickBreakingTransform,
    "CorrCholeskyTransform": D.CorrCholeskyTransform,
    "PowerTransform": lambda **named: D.PowerTransform(rl.tensor(2.0), **named),
    "ReshapeTransform": lambda **named: D.ReshapeTransform((2,), (2, 1), **named),
    "ComposeTransform": lambda **named: D.ComposeTransform([D.ExpTransform()], **named),
    "IndependentTransform": lambda **named: D.IndependentTransform(D.ExpTransform(), 1, **named),
    "CumulativeDistributionTransform":
    lambda **named: D.CumulativeDistributionTransform(D.Normal(0.0, 1.0), **named),
}  # fmt: skip
CASES |= {name: [cached(make, rl.tensor([0.3]) if name.startswith("Corr") else X)]
          for name, make in TRANSFORMS.items()}  # fmt: skip
CASES |= {
    name: [cached(getattr(D, name), EYE)]
    for name in ("LowerCholeskyTransform", "PositiveDefiniteTransform")
}
CASES |= {
    "AffineTransform": [affine], "CatTransform": [concatenated(D.CatTransform)],
    "StackTransform": [concatenated(D.StackTransform)],
    "Transform": [lambda **named: D.Transform(**named).with_cache(1)._cache_size,
                  lambda **named: D.Transform(**named)._cache_size],
}  # fmt: skip


def property_of(**named):
    class Mine(D.Distribution):
        @constraints.dependent_property(is_discrete=False, event_dim=0)
        def usual(self):
            return constraints.real

        given = constraints.dependent_property(**{"is_discrete": True, "event_dim": 0, **named})

    return Mine.given.is_discrete, Mine.given.event_dim, Mine.given.fset is None, \
        Mine.given.fget is None  # fmt: skip


def of_parts(kind):
    def run(**named):
        parts = [constraints.positive, constraints.unit_interval]
        x = rl.tensor([[0.5, 2.0], [-1.0, 0.5]])
        return kind(parts, **named).check(x)

    return run


CASES |= {
    "constraints.cat": [of_parts(constraints.cat)],
    "constraints.stack": [of_parts(constraints.stack)],
    "constraints.dependent": [lambda **named: [
        constraints.dependent(**{"is_discrete": True, "event_dim": 0, **named}).is_discrete,
        constraints.dependent(**{"is_discrete": True, "event_dim": 0, **named}).event_dim]],
    "constraints.dependent_property": [property_of],
    "utils.logits_to_probs": [lambda **named: utils.logits_to_probs(X, **named)],
    "utils.probs_to_logits": [lambda **named: utils.probs_to_logits(X, **named)],
    "utils.tril_matrix_to_vec": [lambda **named: utils.tril_matrix_to_vec(EYE, **named)],
    "utils.vec_to_tril_matrix": [
        lambda **named: utils.vec_to_tril_matrix(rl.arange(3.0), **named)],
}  # fmt: skip

NAMED = {
    "validate_args": [False], "probs": LOGITS["probs"], "logits": LOGITS["logits"],
    "covariance_matrix": [EYE * 2], "precision_matrix": [EYE * 2], "scale_tril": [EYE * 2],
    "lims": [(0.1, 0.9)], "loc": [3.0], "scale": [5.0], "batch_shape": [rl.Size([3])],
    "event_shape": [rl.Size([4])], "cache_size": [1], "lengths": [[1, 3], [2, 1]], "dim": [1, -1],
    "is_discrete": [False], "event_dim": [1], "fn": [lambda self: constraints.real],
    "total_count": [3], "concentration": [3.0],
}  # fmt: skip

# Those of nn.functional and of torch's own names.
ELSEWHERE = {"utils.binary_cross_entropy_with_logits", "utils.softmax"}


@pytest.mark.parametrize("name", CASES)
def test_arguments(name):
    left = ignored(found(f"distributions.{name}"), CASES[name], NAMED)
    assert set(left) == set(NO_EFFECT.get(name, {}))


@pytest.mark.parametrize("space", ["", ".transforms", ".constraints", ".utils"])
def test_each_is_called(space):
    known = [found(f"distributions.{name}") for name in [*CASES, *ELSEWHERE]]
    left = {name for name, v in in_python(f"distributions{space}").items() if v not in known}
    assert not left
