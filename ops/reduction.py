"""Reductions: one value from many elements, and running ones along a dim."""
from ops.schema import composite, function, kernel

_SPREAD = "expand_reduced({}, dims_or_all(dim), keepdim, sizes(input))"
_KEPT = "reshaped(out, kept_sizes(input, {}))"
_ONE = "reshaped(out, Dims(input.dim(), 1))"
_SHARE = "grad / count_reduced(sizes(input), dims_or_all(dim))"

# Equal extremes share the gradient.
function("extreme_backward(grad: Tensor, input: Tensor, out: Tensor, dim: list[int], "
         "keepdim: bool)", """
    hit = eq(input, expand_reduced(out, dim, keepdim, sizes(input)))
    hits = sum(hit, dim, True, None)
    whole = keepdim or is_empty(dim) or dim_of(input) == 0
    return (grad if whole else unsqueeze_all(grad, dim, dim_of(input))) / hits * hit
         """)
# Where the extreme of all elements is NaN, the NaNs share it.
function("extreme_of_all_backward(grad: Tensor, input: Tensor, out: Tensor)", """
    hit = eq(input, out)
    if is_floating(input):
        hit = logical_or(hit, logical_and(ne(input, input), ne(out, out)))
    return where(hit, grad / sum(hit), zeros_like(grad))
         """)
function("add_place(accumulated: Tensor | None, grad: Tensor, shape: list[int], indices: Tensor, "
         "dim: int, keepdim: bool)", """
    full = accumulated_or_zeros(accumulated, grad, shape)
    if keepdim or is_empty(shape):
        return scatter_add_(full, dim, indices, grad)
    return scatter_add_(full, dim, unsqueeze(indices, dim), unsqueeze(grad, dim))
         """)
# The product of the others: what comes before times what comes after, so that zeros are no trouble.
function("prod_dim_backward(grad: Tensor, input: Tensor, dim: int, keepdim: bool)", """
    if dim_of(input) == 0:
        return grad
    d = wrap_dim(dim, dim_of(input), "prod")
    n = sizes(input)[d]
    if n == 0:
        return zeros_like(input)
    one = ones_like(slice(input, d, 0, 1, 1))
    before = cumprod(cat([one, slice(input, d, 0, n - 1, 1)], d), d, None)
    after = cumprod_reversed(cat([slice(input, d, 1, n, 1), one], d), d)
    return (grad if keepdim else unsqueeze(grad, d)) * conj_now(before * after)
         """)
function("prod_backward(grad: Tensor, input: Tensor)", """
    if dim_of(input) == 0:
        return grad
    return reshape(prod_dim_backward(grad, reshape(input, [-1]), 0, False), sizes(input))
         """)
function("var_backward(grad: Tensor, input: Tensor, dim: list[int] | None, "
         "correction: Scalar | None, keepdim: bool)", """
    dims = dims_or_all(dim)
    count = float(count_reduced(sizes(input), dims))
    divisor = count - (real_part(given(correction)) if correction is not None else 1)
    share = expand_reduced(grad * (2 / divisor), dims, keepdim, sizes(input))
    return scaled_difference(share, input, mean(input, dims, True, None))
         """)
function("std_backward(grad: Tensor, input: Tensor, out: Tensor, dim: list[int] | None, "
         "correction: Scalar | None, keepdim: bool)", """
    none = eq(out, 0)
    half = grad / (where(none, 1, out) * 2)
    return var_backward(where(none, zeros_like(half), half), input, dim, correction, keepdim)
         """)
# Where a norm is 0, the derivative of a quotient would be NaN, and not 0 for being masked.
function("norm_backward(grad: Tensor, input: Tensor, out: Tensor, ord: Scalar, dims: list[int], "
         "keepdim: bool)", """
    p = real_part(ord)
    g = expand_reduced(grad, dims, keepdim, sizes(input))
    norm = expand_reduced(out, dims, keepdim, sizes(input))
    if p == 0:
        return zeros_like(input)
    if p == 1:
        return g * sgn(input)
    if p == inf or p == -inf:
        lengths = abs(input)  # whose rounding is not that of the norm's kernel
        hit = eq(lengths, amax(lengths, dims, True) if p > 0 else amin(lengths, dims, True))
        return g * sgn(input) * hit / sum(hit, dims, True, None)
    if p == 2:
        return scaled_direction(g, input, norm)
    if p < 1:
        none = eq(input, 0)
        power = where(none, 0, sgn(input) * pow(where(none, 1, abs(input)), p - 1))
        return power * (g / pow(norm, p - 1))
    nowhere = eq(norm, 0)
    divisor = pow(where(nowhere, 1, norm) if grad_enabled() else norm, p - 1)
    slope = sgn(input) * pow(abs(input), p - 1) if p < 2 else input * pow(abs(input), p - 2)
    result = slope * (g / divisor)
    return where(nowhere, zeros_like(result), result)
         """)
function("logsumexp_backward(grad: Tensor, input: Tensor, out: Tensor, dim: list[int], "
         "keepdim: bool)", """
    total = expand_reduced(out, dim, keepdim, sizes(input))
    return scaled_exp(expand_reduced(grad, dim, keepdim, sizes(input)), input, total)
         """)
kernel("cumprod_slopes(grad_output: Tensor, input: Tensor, dim: int)", names=(),
       doc="The gradient of cumprod.", grad="cumprod_backward composes it",
       shape="like(input)", launch="cumprod_backward(grad_output, input, dim, out)")
# d out[k] / d input[i] = product over j <= k, j != i: one row a position, exact where the input has
# zeros.
function("cumprod_backward(grad: Tensor, input: Tensor, dim: int)", """
    if dim_of(input) == 0:
        return grad
    d = wrap_dim(dim, dim_of(input), "cumprod")
    n = sizes(input)[d]
    if n == 0:
        return zeros_like(input)
    if not grad_enabled() and dtype(grad) == dtype(input):
        return cumprod_slopes(grad, input, d)
    columns = no_tensors
    before = ones_like(select(input, d, 0))
    for i in range(n):
        lead = unsqueeze(before, d)
        slope = lead
        if i + 1 < n:
            slope = cat([lead, lead * cumprod(slice(input, d, i + 1, n, 1), d, None)], d)
        append(columns, sum(slice(grad, d, i, n, 1) * conj_now(slope), [d], False, None))
        before = before * select(input, d, i)
    return stack(columns, d)
         """)
kernel("logcumsumexp_slopes(grad_output: Tensor, input: Tensor, output: Tensor, dim: int)",
       names=(), doc="The gradient of logcumsumexp.", grad="logcumsumexp_backward composes it",
       shape="like(input)", launch="logcumsumexp_backward(grad_output, input, output, dim, out)")
# sum over j >= i of grad[j] exp(input[i] - out[j]), all pairs side by side in the last two dims.
function("logcumsumexp_backward(grad: Tensor, input: Tensor, out: Tensor, dim: int)", """
    if dim_of(input) == 0:
        return grad
    if not grad_enabled():
        return logcumsumexp_slopes(grad, input, out, wrap_dim(dim, dim_of(input), "logcumsumexp"))
    x = unsqueeze(transpose(input, dim, -1), -1)
    total = unsqueeze(transpose(out, dim, -1), -2)
    n = size(input, dim)
    later = triu(ones([n, n], bool, strided, device(input)))
    used = logical_and(later, logical_not(isneginf(real(x))))
    power = where(used, x - total, 0)
    slope = where(used, conj_now(exp(power)), 0)
    weighed = unsqueeze(transpose(grad, dim, -1), -2) * slope
    return transpose(sum(weighed, [-1], False), dim, -1)
         """)
kernel("sum(input: Tensor, *, dtype: dtype = None)",
       shape="OutputSpec{Dims(), sum_dtype(input, dtype)}",
       launch=f"sum(physical(converted(input, dtype)), {_ONE})",
       doc="Sum of all elements; integers add up in int64.",
       grad={"input": "repeated(expand(grad, sizes(input)))"}, ref="numpy.sum")
kernel("sum__dim(input: Tensor, dim: list[int, 1] | None, keepdim: bool = False, *, dtype: dtype = "
       "None)", out=True,
       shape='reduced("sum", input, dim, keepdim, sum_dtype(input, dtype))',
       launch=f"sum(physical(converted(input, dtype)), {_KEPT.format('dim')})",
       node="SumBackward1", doc="Sum over the given dims.",
       grad={"input": f"repeated({_SPREAD.format('grad')})"})
kernel("nansum_kernel(input: Tensor, dim: list[int, 1] | None, keepdim: bool)", names=(),
       shape='reduced("nansum", input, dim, keepdim, input.dtype())',
       launch=f"nansum(physical(input), {_KEPT.format('dim')})",
       doc="nansum of floating point numbers.", grad="nansum has it")
kernel("nansum(input: Tensor, dim: list[int, 1] | None = None, keepdim: bool = False, *, dtype: "
       "dtype = None)", body="""
    check(not is_complex(input), "nansum: does not support complex inputs")
    x = converted(input, dtype)
    check_implemented(is_floating(x) or not is_floating(input),
                      "nansum: not implemented for sums of ", dtype(input), " in ", dtype(x))
    return nansum_kernel(x, dim, keepdim) if is_floating(x) else sum(x, dim, keepdim, dtype)
       """, out=True,
       doc="Sum over the given dims, NaN counting as 0.", ref="numpy.nansum",
       grad={"input": f"where(isnan(input), 0, {_SPREAD.format('grad')})"})
kernel("mean_kernel(input: Tensor, dim: list[int, 1] | None, keepdim: bool)", names=(),
       shape='reduced("mean", input, dim, keepdim, input.dtype())',
       launch=f"mean(physical(input), {_KEPT.format('dim')})",
       doc="mean of floating point and complex numbers.", grad="mean has it")
function("mean_of(input: Tensor, dim: list[int] | None, keepdim: bool, dtype: dtype)", """
    kind = value_or(dtype, dtype_of(input))
    check(is_differentiable(kind),
          "mean(): could not infer output dtype. Input dtype must be either a floating point or "
          "complex dtype. Got: ", kind)
    return mean_kernel(converted(input, dtype), dim, keepdim)
         """)
kernel("mean(input: Tensor, *, dtype: dtype = None)",
       body="return mean_of(input, None, False, dtype)", out=True, doc="Mean of all elements.",
       ref="numpy.mean",
       grad={"input": "expand(grad / numel(input), sizes(input))"})
kernel("mean__dim(input: Tensor, dim: list[int, 1] | None, keepdim: bool = False, *, dtype: dtype "
       "= None)", body="return mean_of(input, dim, keepdim, dtype)", out=True,
       node="MeanBackward1", doc="Mean over the given dims.",
       grad={"input": _SPREAD.format(_SHARE)})
composite("nanmean(input: Tensor, dim: list[int, 1] | None = None, keepdim: bool = False, *, "
          "dtype: dtype = None)", """
    check(is_floating(input), "nanmean: expected input to have floating point dtype but got ",
          dtype(input))
    count = sum(logical_not(isnan(input)), dim, keepdim)
    return nansum(input, dim, keepdim, dtype) / count
          """, out=True,
          doc="Mean over the given dims, without NaNs.")
kernel("prod(input: Tensor, *, dtype: dtype = None)",
       shape="OutputSpec{Dims(), sum_dtype(input, dtype)}",
       launch=f"prod(physical(converted(input, dtype)), {_ONE})",
       doc="Product of all elements.", ref="numpy.prod",
       grad={"input": "prod_backward(grad, input)"}, autocast="float32")
kernel("prod__dim(input: Tensor, dim: int, keepdim: bool = False, *, dtype: dtype = None)",
       out=True,
       shape='reduced("prod", input, Dims{dim}, keepdim, sum_dtype(input, dtype))',
       launch=f"prod(physical(converted(input, dtype)), {_KEPT.format('Dims{dim}')})",
       node="ProdBackward1", doc="Product over a dim.",
       grad={"input": "prod_dim_backward(grad, input, dim, keepdim)"},
       autocast="float32")

for _name, _doc in (("amax", "Largest"), ("amin", "Smallest")):
    kernel(f"{_name}(input: Tensor, dim: list[int, 1] = (), keepdim: bool = False)", out=True,
           ref=f"numpy.{_name}", guard=f'check_extreme("{_name}", input, dim)',
           shape=f'reduced("{_name}", input, dim, keepdim, input.dtype())',
           launch=f"{_name}(physical(input), {_KEPT.format('dim')})",
           doc=f"{_doc} element over the given dims (all when none is given).",
           grad={"input": "extreme_backward(grad, input, out, dim, keepdim)"})
for _name, _doc in (("max", "Largest"), ("min", "Smallest")):
    kernel(f"{_name}(input: Tensor)", doc=f"{_doc} of all elements.", ref=f"numpy.{_name}",
           guard=f'check_extreme("{_name}", input, {{}})',
           shape="OutputSpec{Dims(), input.dtype()}",
           launch=f"a{_name}(physical(input), {_ONE})",
           out=True, node=f"{_name.capitalize()}Backward1",
           grad={"input": "extreme_of_all_backward(grad, input, out)"}, batch="extremum")
    kernel(f"{_name}__dim(input: Tensor, dim: int, keepdim: bool = False) "
           "-> tuple[values, indices]", out=True,
           guard=f'check_real("{_name}", input), check_not_empty("{_name}", input, Dims{{dim}})',
           shape=f'with_places(reduced("{_name}", input, Dims{{dim}}, keepdim, input.dtype()))',
           launch=f"{_name}_with_index(input, reshaped(values, kept_sizes(input, Dims{{dim}})), "
                  "reshaped(indices, kept_sizes(input, Dims{dim})))",
           doc=f"{_doc} element along a dim, and its place.",
           grad={"input": "add_place(accumulated, grad, sizes(input), indices, dim, keepdim)"},
           batch="extremum")
    composite(f"{_name}__other(input: Tensor, other: Tensor)", f"{_name}imum(input, other)",
              out="cast",
              doc=f"{_doc} of two elements.", batch="extremum")
    kernel(f"arg{_name}(input: Tensor, dim: int | None = None, keepdim: bool = False)", out=True,
           guard=f'check_real("arg{_name}", input), '
                 f'check_not_empty("arg{_name}", input, shape::one_or_all(dim))',
           shape=f'reduced("arg{_name}", input, one_or_all(dim), keepdim, DType::Int64)',
           launch=f"{_name}_with_index(input, nullptr, {_KEPT.format('one_or_all(dim)')})",
           doc=f"Place of the {_doc.lower()} element, counted over all elements when dim is None.",
           grad="places have no gradient", ref=f"numpy.arg{_name}")
composite("aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[min, "
          "max]", """
    dims = one_or_all(dim)
    return amin(input, dims, keepdim), amax(input, dims, keepdim)
          """, out=True, grad={
    "input": "extreme_backward(grad_min, input, min, one_or_all(dim), keepdim) + "
             "extreme_backward(grad_max, input, max, one_or_all(dim), keepdim)"},
          doc="Smallest and largest element, over all or along a dim.")
for _name, _doc in (("all", "Are all elements nonzero?"), ("any", "Is any element nonzero?")):
    kernel(f"{_name}(input: Tensor)", doc=_doc, grad="truth values have no gradient",
           shape="OutputSpec{Dims(), truth_dtype(input)}",
           launch=f"{_name}(physical(input), {_ONE})",
           ref=f"numpy.{_name}", out="truth")
    # An empty list names no dim here, where other reductions take it for all.
    kernel(f"{_name}__dim(input: Tensor, dim: list[int, 1] | None, keepdim: bool = False)",
           doc=_doc, out="truth",
           shape="dim && dim->empty() ? OutputSpec{input.sizes(), truth_dtype(input)} : "
                 f'reduced("{_name}", input, dim, keepdim, truth_dtype(input))',
           launch=f"{_name}(physical(input), reshaped(out, dim && dim->empty() ? input.sizes() : "
                  "kept_sizes(input, dim)))",
           grad="truth values have no gradient")
    composite(f"{_name}__whole(input: Tensor, *, keepdim: bool)", f"{_name}(input, None, keepdim)",
              doc=_doc, out="truth")
kernel("count_nonzero(input: Tensor, dim: list[int, 1] | None = None)",
       doc="How many elements are nonzero.",
       shape='reduced("count_nonzero", input, dim, false, DType::Int64)',
       launch=f"count_nonzero(physical(input), {_KEPT.format('dim')})",
       grad="counts have no gradient", ref="numpy.count_nonzero")

_STATISTICS = "correction: Scalar | None = None, keepdim: bool = False"
for _name, _doc in (("var", "Variance"), ("std", "Standard deviation")):
    _gradient = {"var": "var_backward(grad, input, dim, correction, keepdim)",
                 "std": "std_backward(grad, input, out, dim, correction, keepdim)"}[_name]
    kernel(f"{_name}(input: Tensor, dim: list[int, 1] | None = None, *, {_STATISTICS})", out="cast",
           guard=f'check_spread("{_name}", input, dim, correction)',
           shape=f'reduced("{_name}", input, dim, keepdim, to_real(input.dtype()))',
           launch=f"var(input, correction ? correction->real() : 1, {str(_name == 'std').lower()}, "
                  f"{_KEPT.format('dim')}, nullptr)",
           doc=f"{_doc} over the given dims; divides by count - correction (1 by default).",
           ref=f"functools.partial(numpy.{_name}, ddof=1)",
           grad={"input": _gradient})
    composite(f"{_name}__unbiased(input: Tensor, unbiased: bool)",
              f"{_name}(input, None, correction_of(unbiased), False)",
              doc=f"{_doc} of all elements.")
    composite(f"{_name}__dim_unbiased(input: Tensor, dim: list[int, 1] | None, unbiased: bool, "
              f"keepdim: bool = False)",
              f"{_name}(input, dim, correction_of(unbiased), keepdim)",
              doc=f"{_doc} over the given dims.", out=True)
    composite(f"{_name}_mean(input: Tensor, dim: list[int, 1] | None = None, *, {_STATISTICS}) -> "
              f"tuple[{_name}, mean]",
              f"return {_name}(input, dim, correction, keepdim), mean(input, dim, keepdim)",
              names=(f"torch.{_name}_mean",), named=False,
              node=f"{_name.capitalize()}MeanBackward0",
              doc=f"{_doc} and mean over the given dims.")
    composite(f"{_name}_mean__all_unbiased(input: Tensor, unbiased: bool) -> tuple[{_name}, mean]",
              f"{_name}_mean(input, None, correction_of(unbiased), False)",
              names=(f"torch.{_name}_mean",), named=False,
              node=f"{_name.capitalize()}MeanBackward0",
              doc=f"{_doc} and mean of all elements.")
    composite(f"{_name}_mean__unbiased(input: Tensor, dim: list[int, 1] | None, unbiased: bool, "
              f"keepdim: bool = False)"
              f" -> tuple[{_name}, mean]",
              f"{_name}_mean(input, dim, correction_of(unbiased), keepdim)",
              names=(f"torch.{_name}_mean",), named=False,
              node=f"{_name.capitalize()}MeanBackward0",
              doc=f"{_doc} and mean over the given dims.")
kernel("vector_norm(input: Tensor, ord: Scalar = 2, dim: list[int, 1] | None = None, keepdim: bool "
       "= False, *, "
       "dtype: dtype = None)", node="LinalgVectorNormBackward0", names=("linalg.vector_norm",),
       out=True, doc="(sum |x|^ord)^(1/ord) over the given dims.",
       guard='check_norm(input), check_real_number("linalg.vector_norm", "the order of norm", ord)',
       shape='reduced("linalg.vector_norm", input, dim, keepdim, '
             'to_real(dtype.value_or(input.dtype())))',
       launch=f"norm(physical(converted(input, dtype)), ord.real(), {_KEPT.format('dim')})",
       grad={"input": "norm_backward(grad, input, out, ord, dims_or_all(dim), keepdim)"})
kernel("logsumexp_kernel(input: Tensor, dim: list[int], keepdim: bool)", names=(),
       shape='reduced("logsumexp", input, dim, keepdim, input.dtype())',
       launch=f"logsumexp(physical(input), {_KEPT.format('dim')})",
       doc="logsumexp of floating point numbers.", grad="logsumexp has it")
kernel("logsumexp(input: Tensor, dim: list[int, 1], keepdim: bool = False)", body="""
    x = floating(input)
    if not is_complex(x):
        return logsumexp_kernel(x, dim, keepdim)
    high = amax(real(x), dim, True)
    least = where(isinf(high), 0.0, high)  # inf - inf would be NaN
    rest = log(sum(exp(x - least), dim, keepdim))
    return rest + (least if keepdim else view(least, sizes(rest)))
       """, out="cast",
       names=("torch.logsumexp", "Tensor.logsumexp", "special.logsumexp"),
       doc="log(sum(exp(input))) over the given dims, without overflow.",
       grad={"input": "logsumexp_backward(grad, input, out, dim, keepdim)"},
       ref="scipy.special.logsumexp")

kernel("cumsum(input: Tensor, dim: Dim, *, dtype: dtype = None)", out=True, inplace=True,
       doc="Running sum along a dim.",
       shape="dense(input, sum_dtype(input, dtype))", launch="cumsum(input, dim, out, false)",
       grad={"input": "cumsum_reversed(grad, dim)"},
       ref="numpy.cumsum")
kernel("cumprod(input: Tensor, dim: Dim, *, dtype: dtype = None)", out=True, inplace=True,
       doc="Running product along a dim.",
       shape="dense(input, sum_dtype(input, dtype))", launch="cumprod(input, dim, out, false)",
       grad={"input": "cumprod_backward(grad, input, dim)"}, ref="numpy.cumprod")
kernel("cumsum_reversed(input: Tensor, dim: Dim)", names=(), shape="dense(input)",
       doc="Running sum along a dim, from the last element to the first.",
       launch="cumsum(input, dim, out, true)", grad={"input": "cumsum(grad, dim, None)"},
       batch="spread_dim")
kernel("cumprod_reversed(input: Tensor, dim: Dim)", names=(), shape="dense(input)",
       doc="Running product along a dim, from the last element to the first.",
       launch="cumprod(input, dim, out, true)",
       grad={"input": "flip(cumprod_backward(flip(grad, dims_of(dim)), flip(input, dims_of(dim)), "
                      "dim), dims_of(dim))"})
for _name, _doc in (("cummax", "largest"), ("cummin", "smallest")):
    kernel(f"{_name}(input: Tensor, dim: Dim) -> tuple[values, indices]", out=True,
           guard=f'check_real("{_name}", input)',
           shape="each(dense(input), dense(input, DType::Int64))",
           launch=f"{_name}(input, dim, values, indices)",
           doc=f"The {_doc} element so far along a dim, and its place.",
           grad={"input": "scatter_add_(accumulated_or_zeros(accumulated, grad, sizes(input)), "
                          "dim, indices, grad)"})
kernel("logcumsumexp(input: Tensor, dim: Dim)", out=True, shape="dense(input)",
       launch="logcumsumexp(input, dim, out, false)",
       doc="log of the running sum of exp(input) along a dim.",
       grad={"input": "logcumsumexp_backward(grad, input, out, dim)"})

