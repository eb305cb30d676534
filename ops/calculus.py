"""Differences, integrals, statistics and products of vectors."""
from ops.schema import FIXED_DIMS, composite, function

# Twice the areas of the strips between neighbours along a dim.
function("strips(y: Tensor, width: Tensor, d: int)", """
    heights = slice(y, d, 1, None, 1) + slice(y, d, 0, max(sizes(y)[d] - 1, 0), 1)
    return heights * width
         """)
# The dim of the samples, of which a tensor without dims has none.
function("sample_dim(op: name, y: Tensor, dim: int) -> int", """
    check_index(dim_of(y) > 0, op, ": Dimension specified as ", dim,
                " but tensor has no dimensions")
    return wrap_dim(dim, dim_of(y), op)
         """)
function("check_not_bool(t: Tensor, op: name) -> None", """
    check(dtype(t) != bool, op, ": received a bool input, but bool is not supported")
         """)
function("strips_at(op: name, y: Tensor, x: Tensor, dim: int)", """
    d = sample_dim(op, y, dim)
    check_not_bool(y, op)
    check_not_bool(x, op)
    check(dim_of(x) > 0, op, ": x must have at least one dim")
    at = wrap_dim(dim, dim_of(x), op) if dim_of(x) > 1 else 0
    check(dim_of(x) > 1 or sizes(x)[0] == sizes(y)[d], op,
          ": There must be one `x` value for each sample point, got ", sizes(x)[0], " and ",
          sizes(y)[d])
    count = max(sizes(x)[at] - 1, 0)
    widths = slice(x, at, 1, None, 1) - slice(x, at, 0, count, 1)
    return strips(y, widths if dim_of(x) > 1 else reshape(widths, line_sizes(dim_of(y), d, count)),
                  d)
         """)
function("check_spacing(op: name, y: Tensor, dx: Scalar) -> None", """
    check_not_bool(y, op)
    check(not is_complex(dx) and not is_bool(dx), op,
          ": Currently, we only support dx as a real number")
         """)
# An integral over no point at all is 0.
function("no_points(y: Tensor, d: int)", """
    kept = without_dim(sizes(y), d)
    return zeros(kept, dtype(y), strided, device(y))
         """)
composite("diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: "
          "Tensor | None = None)", out="cast",
          ref="numpy.diff", doc="Differences of neighbours along a dim, n times over.",
          batch="dim", linear=False)
_BY_RULE = "of y along a dim by the trapezoidal rule"
composite("trapezoid__points(y: Tensor, x: Tensor, *, dim: int = -1)", """
    d = sample_dim("trapezoid", y, dim)
    if sizes(y)[d] == 0:
        return no_points(y, d)
    return sum(strips_at("trapezoid", y, x, d), [d]) / 2
          """, names=("torch.trapezoid", "torch.trapz"),
          doc=f"Integral {_BY_RULE}, at places x.", batch=FIXED_DIMS)
# The sum, less half of both ends: a pass over y alone.
composite("trapezoid(y: Tensor, *, dx: Scalar = 1, dim: int = -1)", """
    d = sample_dim("trapezoid", y, dim)
    if sizes(y)[d] == 0:
        return no_points(y, d)
    check_spacing("trapezoid", y, dx)
    ends = select(y, d, 0) + select(y, d, -1)
    return (sum(y, [d]) - ends * 0.5) * wrap_number(dx)
          """, names=("torch.trapezoid", "torch.trapz"),
          doc=f"Integral {_BY_RULE}, steps dx apart.")
composite("cumulative_trapezoid__points(y: Tensor, x: Tensor, *, dim: int = -1)",
          'cumsum(strips_at("cumulative_trapezoid", y, x, dim), dim) / 2',
          names=("torch.cumulative_trapezoid",), doc=f"Running integral {_BY_RULE}, at places x.",
          batch=FIXED_DIMS)
composite("cumulative_trapezoid(y: Tensor, *, dx: Scalar = 1, dim: int = -1)", """
    check_spacing("cumulative_trapezoid", y, dx)
    d = sample_dim("cumulative_trapezoid", y, dim)
    return cumsum(strips(y, wrap_number(dx), d), d) / 2
          """, names=("torch.cumulative_trapezoid",),
          doc=f"Running integral {_BY_RULE}, steps dx apart.")
function("check_weights(w: Tensor, input: Tensor, what: name) -> None", """
    check(dim_of(w) <= 1, "cov: expected ", what,
          " to have one or fewer dimensions but got ", dim_of(w))
    count = size(input, -1) if dim_of(input) > 0 else 1
    check(numel(w) == count, "cov: expected ", what,
          " to have the same numel as there are observations, got ", numel(w), " and ", count)
    check(numel(w) == 0 or item_or(min(w), 0.0) >= 0, "cov: ", what, " cannot be negative")
         """)
composite("cov(input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: "
          "Tensor | None = None)", """
    check(dim_of(input) <= 2,
          "cov: expected input to have two or fewer dimensions but got an input with ",
          dim_of(input), " dimensions")
    check(dtype(input) != bool, "cov: bool dtype is not supported for input")
    x = reshape(input, [1, -1]) if dim_of(input) < 2 else input
    weights = no_tensor
    if fweights is not None:
        check(is_integral(dtype(fweights)),
              "cov: expected fweights to have integral dtype but got fweights with ",
              dtype(fweights))
        check_weights(fweights, input, "fweights")
        weights = reshape(fweights, [-1])
    if aweights is not None:
        check(is_floating(aweights),
              "cov: expected aweights to have floating point dtype but got aweights with ",
              dtype(aweights))
        check_weights(aweights, input, "aweights")
        weighed = reshape(aweights, [-1])
        weights = weighed if weights is None else weights * weighed
    if weights is None and sizes(x)[1] <= correction:
        warn("cov: degrees of freedom is <= 0: correction should be less than the number of "
             "observations")
    total = wrap_number(sizes(x)[1]) if weights is None else sum(weights)
    average = (mean(floating(x), [1], True) if weights is None
               else sum(x * weights, [1], True) / total)
    norm = total
    if correction != 0:
        lost = wrap_number(correction)
        if aweights is not None:
            lost = sum(weights * aweights) * correction / total
        norm = total - lost
    centred = x - average
    weighed = conj_now(centred if weights is None else centred * weights)
    common = common_dtype(centred, weighed)
    products = mm(to(centred, common), t(to(weighed, common)))
    result = products / maximum(norm, zeros_like(norm))
    return reshape(result, []) if dim_of(input) < 2 or numel(result) == 1 else result
          """, ref="numpy.cov",
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
    check_same_dtype("cross", input, "other", other)
    common = broadcast_sizes(sizes(input), sizes(other), "cross")
    a = expand(input, common)
    b = expand(other, common)
    # a[i + 1] b[i + 2] - a[i + 2] b[i + 1]
    return roll(a, [-1], [d]) * roll(b, [1], [d]) - roll(a, [1], [d]) * roll(b, [-1], [d])
          """, names=("linalg.cross",), out=True,
          grad={"input": "linalg_cross(conj(other), grad, dim)",
                "other": "linalg_cross(grad, conj(input), dim)"},
          ref="numpy.cross", doc="Cross product of vectors of three elements in a dim.",
          batch="cross")
composite("cross(input: Tensor, other: Tensor, dim: int | None = None)",
          "linalg_cross(input, other, cross_dim(input, other, dim))", out=True,
          ref="numpy.cross",
          doc="Vector product along a dim of size 3, by default the first such dim.",
          batch="cross", node="LinalgCrossBackward0")
composite("dist(input: Tensor, other: Tensor, p: Scalar = 2)",
          "vector_norm(input - other, p)", doc="p-norm of input - other.",
          grad={"input": "norm_backward(grad, input - other, out, p, [], False)",
                "other": "neg(norm_backward(grad, input - other, out, p, [], False))"},
          batch="dist")
composite("renorm(input: Tensor, p: Scalar, dim: int, maxnorm: Scalar)", """
    check(not is_complex(p) and real_part(p) > 0,
          "renorm: non-positive norm not supported, got p = ", p)
    check(not is_complex(maxnorm) and real_part(maxnorm) >= 0,
          "renorm: expected maxnorm to be >= 0 but got ", maxnorm)
    check(dim_of(input) > 1, "renorm: input needs at least 2 dimensions, got ", dim_of(input),
          " dimensions")
    if is_reduced(dtype(input)):  # whose norms overflow where the result does not
        return to(renorm(to(input, float32), p, dim, maxnorm), dtype(input))
    others = other_dims(dim_of(input), wrap_dim(dim, dim_of(input), "renorm"))
    norm = vector_norm(input, p, others, True)
    large = gt(norm, wrap_number(maxnorm))
    # Slices that stay as they are have no norm in the graph: its derivative may be NaN.
    if is_recorded(input):
        norm = vector_norm(where(large, input, 0), p, others, True)
    factor = where(large, wrap_number(maxnorm) / (norm + 1e-7), ones_like(norm))
    return contiguous(input * to(factor, dtype(norm)))
          """, inplace=True, out=True,
          doc="Slices along a dim whose p-norm is over maxnorm are scaled down to it.",
          batch=FIXED_DIMS, node="RenormBackward0")
function("trace_backward(grad: Tensor, size: list[int])", """
    result = zeros(size, dtype(grad), strided, device(grad))
    copy_(diagonal(result, 0, 0, 1), grad)
    return result
         """)
composite("trace(input: Tensor)", """
    check(dim_of(input) == 2, "trace: expected a matrix, but got tensor with dim ", dim_of(input))
    return sum(diagonal(input))
          """, doc="Sum of the diagonal.", ref="numpy.trace",
          grad={"input": "trace_backward(grad, sizes(input))"},
          batch="trace", autocast="float32", linear=True)
composite("kron(input: Tensor, other: Tensor)", """
    ndim = max(dim_of(input), dim_of(other))
    a = with_leading_ones(sizes(input), ndim)
    b = with_leading_ones(sizes(other), ndim)
    left = no_sizes
    right = no_sizes
    joined = no_sizes
    for d in range(ndim):
        append(left, a[d])
        append(left, 1)
        append(right, 1)
        append(right, b[d])
        append(joined, product([a[d], b[d]]))
    return without_base(reshape(reshape(input, left) * reshape(other, right), joined))
          """, out="cast", ref="numpy.kron",
          doc="Kronecker product.",
          batch="kron")
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
