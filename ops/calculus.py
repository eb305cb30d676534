"""Differences, integrals, statistics and products of vectors."""
from ops.schema import FIXED_DIMS, composite

composite("diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: "
          "Tensor | None = None)", out=True,
          ref="numpy.diff", doc="Differences of neighbours along a dim, n times over.",
          batch="dim", linear=False)
for _name, _doc in (("trapezoid", "Integral of y along a dim by the trapezoidal rule"),
                    ("cumulative_trapezoid",
                     "Running integral of y along a dim by the trapezoidal rule")):
    _names = ("torch.trapezoid", "torch.trapz") if _name == "trapezoid" else (f"torch.{_name}",)
    composite(f"{_name}__points(y: Tensor, x: Tensor, *, dim: int = -1)", names=_names,
              doc=f"{_doc}, at places x.",
              batch=FIXED_DIMS)
    composite(f"{_name}(y: Tensor, *, dx: Scalar = 1, dim: int = -1)", names=_names,
              doc=f"{_doc}, steps dx apart.")
composite("cov(input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: "
          "Tensor | None = None)", ref="numpy.cov",
          doc="Covariances of the rows; columns counted fweights times and weighed by aweights.",
          batch=FIXED_DIMS, autocast="lower_precision")
composite("corrcoef(input: Tensor)", """
    check(dim_of(input) <= 2,
          "corrcoef: expected input to have two or fewer dimensions but got an input with ",
          dim_of(input), " dimensions")
    c = cov(input)
    if dim_of(c) == 0:
        return c / c
    spread = real(sqrt(diagonal(c)))
    r = c / unsqueeze(spread, 1) / unsqueeze(spread, 0)
    if not is_complex(r):
        return clamp(r, -1, 1)
    return complex(clamp(real(r), -1, 1), clamp(imag(r), -1, 1))
          """, ref="numpy.corrcoef", doc="Correlations of the rows.",
          batch=FIXED_DIMS, autocast="lower_precision")
composite("linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1)", """
    d = cross_dim(input, other, dim)
    common = broadcast_sizes(sizes(input), sizes(other), "cross")
    a = expand(input, common)
    b = expand(other, common)
    # a[i + 1] b[i + 2] - a[i + 2] b[i + 1]
    return roll(a, [-1], [d]) * roll(b, [1], [d]) - roll(a, [1], [d]) * roll(b, [-1], [d])
          """, names=("linalg.cross",), out=True,
          grad={"input": "linalg_cross(conj(other), grad, dim)",
                "other": "linalg_cross(grad, conj(input), dim)"},
          ref="numpy.cross", doc="Cross product of vectors of three elements in a dim.",
          batch=FIXED_DIMS)
composite("cross(input: Tensor, other: Tensor, dim: int | None = None)",
          "linalg_cross(input, other, cross_dim(input, other, dim))", out=True,
          ref="numpy.cross",
          doc="Vector product along a dim of size 3, by default the first such dim.",
          batch=FIXED_DIMS, node="LinalgCrossBackward0")
composite("dist(input: Tensor, other: Tensor, p: Scalar = 2)",
          "vector_norm(input - other, p)", doc="p-norm of input - other.",
          grad={"input": "norm_backward(grad, input - other, out, p, [], False)",
                "other": "neg(norm_backward(grad, input - other, out, p, [], False))"},
          batch=FIXED_DIMS)
composite("renorm(input: Tensor, p: Scalar, dim: int, maxnorm: Scalar)", inplace=True, out=True,
          doc="Slices along a dim whose p-norm is over maxnorm are scaled down to it.",
          batch=FIXED_DIMS, node="RenormBackward0")
composite("trace(input: Tensor)", """
    check(dim_of(input) == 2, "trace: expected a matrix, but got tensor with dim ", dim_of(input))
    return sum(diagonal(input))
          """, doc="Sum of the diagonal.", ref="numpy.trace",
          grad={"input": "trace_backward(grad, sizes(input))"},
          batch="trace", autocast="float32", linear=True)
composite("kron(input: Tensor, other: Tensor)", out="cast", ref="numpy.kron",
          doc="Kronecker product.",
          batch=FIXED_DIMS)
composite("vander(x: Tensor, N: int | None = None, increasing: bool = False)", """
    check(dim_of(x) == 1, "vander: x must be a one-dimensional tensor.")
    n = value_or(N, numel(x))
    check(n >= 0, "vander: N must be non-negative.")
    base = to(x, int64) if is_integral_or_bool(dtype(x)) else x
    if n == 0:
        return zeros([numel(x), 0], dtype(base), strided, device(x))
    column = unsqueeze(base, 1)
    result = cumprod(cat([ones_like(column), expand(column, [numel(x), n - 1])], 1), 1)
    return result if increasing else flip(result, [1])
          """,
          names=("torch.vander",), ref="numpy.vander",
          doc="Powers of each element as a row.", batch=FIXED_DIMS)
composite("combinations(input: Tensor, r: int = 2, with_replacement: bool = False)",
          names=("torch.combinations",),
          doc="All choices of r elements, a row each.", batch=FIXED_DIMS)
for _name, _doc in (("tril", "on and below"), ("triu", "on and above")):
    composite(f"{_name}_indices(row: int, col: int, offset: int = 0, *, dtype: dtype = None, "
              f"device: device = None, layout: layout = None, "
              "pin_memory: bool = False)", names=(f"torch.{_name}_indices",),
              doc=f"Rows and columns of the places {_doc} a diagonal.")
