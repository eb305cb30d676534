"""Reductions: one value from many elements, and running ones along a dim."""
from ops.schema import composite, kernel

_SPREAD = "expand_reduced({}, dims_or_all(dim), keepdim, sizes(input))"
_KEPT = "reshaped(out, kept_sizes(input, {}))"
_ONE = "reshaped(out, Dims(input.dim(), 1))"
_SHARE = "grad / count_reduced(sizes(input), dims_or_all(dim))"

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
kernel("nansum(input: Tensor, dim: list[int, 1] | None = None, keepdim: bool = False, *, dtype: "
       "dtype = None)", out=True,
       doc="Sum over the given dims, NaN counting as 0.", ref="numpy.nansum",
       grad={"input": f"where(isnan(input), 0, {_SPREAD.format('grad')})"})
kernel("mean(input: Tensor, *, dtype: dtype = None)", out=True, doc="Mean of all elements.",
       ref="numpy.mean",
       grad={"input": "expand(grad / numel(input), sizes(input))"})
kernel("mean__dim(input: Tensor, dim: list[int, 1] | None, keepdim: bool = False, *, dtype: dtype "
       "= None)", out=True,
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
           grad={"input": "extreme_backward(grad, input, out, [], False)"}, batch="extremum")
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
              out=True,
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
           ref=f"numpy.{_name}", out=True)
    kernel(f"{_name}__dim(input: Tensor, dim: list[int, 1] | None, keepdim: bool = False)",
           doc=_doc, out=True,
           shape=f'reduced("{_name}", input, dim, keepdim, truth_dtype(input))',
           launch=f"{_name}(physical(input), {_KEPT.format('dim')})",
           grad="truth values have no gradient")
kernel("count_nonzero(input: Tensor, dim: list[int, 1] | None = None)",
       doc="How many elements are nonzero.",
       shape='reduced("count_nonzero", input, dim, false, DType::Int64)',
       launch=f"count_nonzero(physical(input), {_KEPT.format('dim')})",
       grad="counts have no gradient", ref="numpy.count_nonzero")

_STATISTICS = "correction: Scalar | None = None, keepdim: bool = False"
for _name, _doc in (("var", "Variance"), ("std", "Standard deviation")):
    _gradient = {"var": "var_backward(grad, input, dim, correction, keepdim)",
                 "std": "std_backward(grad, input, out, dim, correction, keepdim)"}[_name]
    _of_mean = _gradient.replace("grad,", f"grad_{_name},").replace("out,", "std,")
    _of_mean += f" + {_SPREAD.format(_SHARE.replace('grad', 'grad_mean'))}"
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
              grad={"input": _of_mean},
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
       guard="check_norm(input)",
       shape='reduced("linalg.vector_norm", input, dim, keepdim, '
             'to_real(dtype.value_or(input.dtype())))',
       launch=f"norm(physical(converted(input, dtype)), ord.real(), {_KEPT.format('dim')})",
       grad={"input": "norm_backward(grad, input, out, ord, dims_or_all(dim), keepdim)"})
kernel("logsumexp(input: Tensor, dim: list[int, 1], keepdim: bool = False)", out="cast",
       names=("torch.logsumexp", "Tensor.logsumexp", "special.logsumexp"),
       doc="log(sum(exp(input))) over the given dims, without overflow.",
       grad={"input": "logsumexp_backward(grad, input, out, dim, keepdim)"},
       ref="scipy.special.logsumexp")

kernel("cumsum(input: Tensor, dim: Dim, *, dtype: dtype = None)", out=True, inplace=True,
       doc="Running sum along a dim.",
       shape="dense(input, sum_dtype(input, dtype))", launch="cumsum(input, dim, out, false)",
       grad={"input": "flip(cumsum(flip(grad, dims_of(dim)), dim, None), dims_of(dim))"},
       ref="numpy.cumsum")
kernel("cumprod(input: Tensor, dim: Dim, *, dtype: dtype = None)", out=True, inplace=True,
       doc="Running product along a dim.",
       shape="dense(input, sum_dtype(input, dtype))", launch="cumprod(input, dim, out, false)",
       grad={"input": "cumprod_backward(grad, input, dim)"}, ref="numpy.cumprod")
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

