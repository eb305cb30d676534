"""Distributions, against torch where it is installed and against scipy.stats where it is not."""

import pytest

import rushlight
from rushlight import distributions

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
    ("GeneralizedPareto", {"loc": [0.0, 1.0, 0.5], "scale": [1.0, 0.3, 2.0], "concentration": [0.0, 0.3, -0.4]}),
    ("Geometric", {"probs": [0.2, 0.7]}),
    ("Geometric", {"logits": [0.1, -1.0]}),
    ("Gumbel", {"loc": [0.0, 1.0], "scale": [1.0, 0.3]}),
    ("HalfCauchy", {"scale": [1.0, 0.3]}),
    ("HalfNormal", {"scale": [1.0, 0.3]}),
    ("Independent", {"base_distribution": ("Normal", {"loc": CHOICES, "scale": 1.0}), "reinterpreted_batch_ndims": 1}),
    ("InverseGamma", {"concentration": [0.5, 1.5, 4.0], "rate": [1.0, 2.0, 0.5]}),
    ("Kumaraswamy", {"concentration1": [0.6, 2.0], "concentration0": [1.5, 3.0]}),
    ("Laplace", {"loc": [0.0, 1.0], "scale": [1.0, 0.3]}),
    ("LKJCholesky", {"dim": 3, "concentration": [0.5, 1.0, 4.0]}),
    ("LKJCholesky", {"dim": 4, "concentration": 2.0}),
    ("LogisticNormal", {"loc": [[0.0, 1.0, 0.5]], "scale": [1.0, 0.3, 2.0]}),
    ("LogNormal", {"loc": [0.0, 1.0], "scale": [1.0, 0.3]}),
    ("LowRankMultivariateNormal", {"loc": [0.0, 1.0], "cov_factor": [[[1.0], [0.5]], [[0.3], [2.0]]], "cov_diag": [0.5, 1.0]}),
    ("MixtureSameFamily", {"mixture_distribution": ("Categorical", {"probs": [0.2, 0.5, 0.3]}),
                           "component_distribution": ("Normal", {"loc": [0.0, 1.0, 4.0], "scale": 0.5})}),
    ("MixtureSameFamily", {"mixture_distribution": ("Categorical", {"probs": CHOICES}),
                           "component_distribution": ("MultivariateNormal", {"loc": [[[0.0, 1.0], [4.0, 2.0], [1.0, 1.0]], [[1.0, 1.0], [3.0, 2.0], [1.0, 0.0]]], "scale_tril": TRIL})}),
    ("Multinomial", {"total_count": 6, "probs": CHOICES}),
    ("Multinomial", {"total_count": 3, "logits": [0.3, -0.4, 1.0]}),
    ("MultivariateNormal", {"loc": [[0.0, 1.0], [2.0, 0.5], [1.0, 1.0]], "covariance_matrix": MATRIX}),
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
    ("TransformedDistribution", {"base_distribution": ("Normal", {"loc": [0.0, 1.0], "scale": [1.0, 0.3]}),
                                 "transforms": ["ExpTransform", "SigmoidTransform"]}),
    ("Uniform", {"low": [0.0, -1.0], "high": [1.0, 3.0]}),
    ("VonMises", {"loc": [0.0, 1.0], "concentration": [0.5, 6.0]}),
    ("Weibull", {"scale": [1.0, 0.3], "concentration": [1.5, 3.0]}),
    ("Wishart", {"df": [3.0, 5.0], "covariance_matrix": MATRIX}),
    ("Wishart", {"df": 4.0, "scale_tril": TRIL}),
    ("Wishart", {"df": 4.0, "precision_matrix": [MATRIX, MATRIX]}),
]  # fmt: skip


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
