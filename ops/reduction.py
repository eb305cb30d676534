"""Reductions: one value from many elements, and running ones along a dim."""
from ops.schema import COMPLEX, FLOATING, composite, elementwise, kernel

_SPREAD = "expand_reduced({}, dims_or_all(dim), keepdim, sizes(input))"
_SHARE = "grad / count_reduced(sizes(input), dims_or_all(dim))"

kernel("sum(input: Tensor, *, dtype: dtype = None)", doc="Sum of all elements; integers add up in int64.",
       grad={"input": "repeated(expand(grad, sizes(input)))"}, ref="numpy.sum")
kernel("sum__dim(input: Tensor, dim: list[int, 1] | None, keepdim: bool = False, *, dtype: dtype = None)", out=True,
       node="SumBackward1", doc="Sum over the given dims.", grad={"input": f"repeated({_SPREAD.format('grad')})"})
kernel("nansum(input: Tensor, dim: list[int, 1] | None = None, keepdim: bool = False, *, dtype: dtype = None)", out=True,
       doc="Sum over the given dims, NaN counting as 0.", ref="numpy.nansum",
       grad={"input": f"where(isnan(input), 0, {_SPREAD.format('grad')})"})
kernel("mean(input: Tensor, *, dtype: dtype = None)", out=True, doc="Mean of all elements.", ref="numpy.mean",
       grad={"input": "expand(grad / numel(input), sizes(input))"})
kernel("mean__dim(input: Tensor, dim: list[int, 1] | None, keepdim: bool = False, *, dtype: dtype = None)", out=True,
       node="MeanBackward1", doc="Mean over the given dims.", grad={"input": _SPREAD.format(_SHARE)})
composite("nanmean(input: Tensor, dim: list[int, 1] | None = None, keepdim: bool = False, *, dtype: dtype = None)", out=True,
          doc="Mean over the given dims, without NaNs.")
kernel("prod(input: Tensor, *, dtype: dtype = None)", doc="Product of all elements.", ref="numpy.prod",
       grad={"input": "prod_backward(grad, input)"})
kernel("prod__dim(input: Tensor, dim: int, keepdim: bool = False, *, dtype: dtype = None)", out=True,
       node="ProdBackward1", doc="Product over a dim.", grad={"input": "prod_dim_backward(grad, input, dim, keepdim)"})

for _name, _doc in (("amax", "Largest"), ("amin", "Smallest")):
    kernel(f"{_name}(input: Tensor, dim: list[int, 1] = (), keepdim: bool = False)", out=True, ref=f"numpy.{_name}",
           doc=f"{_doc} element over the given dims (all when none is given).",
           grad={"input": "extreme_backward(grad, input, out, dim, keepdim)"})
for _name, _doc in (("max", "Largest"), ("min", "Smallest")):
    kernel(f"{_name}(input: Tensor)", doc=f"{_doc} of all elements.", ref=f"numpy.{_name}", out=True, node=f"{_name.capitalize()}Backward1",
           grad={"input": "extreme_backward(grad, input, out, [], False)"})
    kernel(f"{_name}__dim(input: Tensor, dim: int, keepdim: bool = False) -> tuple[values, indices]", out=True,
           doc=f"{_doc} element along a dim, and its place.",
           grad={"input": "add_place(so_far, grad, sizes(input), indices, dim, keepdim)"})
    composite(f"{_name}__other(input: Tensor, other: Tensor)", f"{_name}imum(input, other)", out=True,
              doc=f"{_doc} of two elements.")
    kernel(f"arg{_name}(input: Tensor, dim: int | None = None, keepdim: bool = False)", out=True,
           doc=f"Place of the {_doc.lower()} element, counted over all elements when dim is None.",
           grad="places have no gradient", ref=f"numpy.arg{_name}")
composite("aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[min, max]", out=True,
          doc="Smallest and largest element, over all or along a dim.")
for _name, _doc in (("all", "Are all elements nonzero?"), ("any", "Is any element nonzero?")):
    kernel(f"{_name}(input: Tensor)", doc=_doc, grad="truth values have no gradient", ref=f"numpy.{_name}", out=True)
    kernel(f"{_name}__dim(input: Tensor, dim: list[int, 1] | None, keepdim: bool = False)", doc=_doc, out=True,
           grad="truth values have no gradient")
kernel("count_nonzero(input: Tensor, dim: list[int, 1] | None = None)", doc="How many elements are nonzero.",
       grad="counts have no gradient", ref="numpy.count_nonzero")

_STATISTICS = "correction: Scalar | None = None, keepdim: bool = False"
for _name, _doc in (("var", "Variance"), ("std", "Standard deviation")):
    _gradient = {"var": "var_backward(grad, input, dim, correction, keepdim)",
                 "std": "std_backward(grad, input, out, dim, correction, keepdim)"}[_name]
    kernel(f"{_name}(input: Tensor, dim: list[int, 1] | None = None, *, {_STATISTICS})", out="cast",
           doc=f"{_doc} over the given dims; divides by count - correction (1 by default).",
           ref=f"functools.partial(numpy.{_name}, ddof=1)",
           grad={"input": _gradient})
    composite(f"{_name}__unbiased(input: Tensor, unbiased: bool)",
              f"{_name}(input, None, correction_of(unbiased), False)", doc=f"{_doc} of all elements.")
    composite(f"{_name}__dim_unbiased(input: Tensor, dim: list[int, 1] | None, unbiased: bool, keepdim: bool = False)",
              f"{_name}(input, dim, correction_of(unbiased), keepdim)", doc=f"{_doc} over the given dims.", out=True)
    composite(f"{_name}_mean(input: Tensor, dim: list[int, 1] | None = None, *, {_STATISTICS}) -> tuple[{_name}, mean]",
              names=(f"torch.{_name}_mean",), doc=f"{_doc} and mean over the given dims.")
    composite(f"{_name}_mean__all_unbiased(input: Tensor, unbiased: bool) -> tuple[{_name}, mean]",
              f"{_name}_mean(input, None, correction_of(unbiased), False)", names=(f"torch.{_name}_mean",),
              doc=f"{_doc} and mean of all elements.")
    composite(f"{_name}_mean__unbiased(input: Tensor, dim: list[int, 1] | None, unbiased: bool, keepdim: bool = False)"
              f" -> tuple[{_name}, mean]", names=(f"torch.{_name}_mean",), doc=f"{_doc} and mean over the given dims.")
kernel("vector_norm(input: Tensor, ord: Scalar = 2, dim: list[int, 1] | None = None, keepdim: bool = False, *, "
       "dtype: dtype = None)", node="LinalgVectorNormBackward0", names=("linalg.vector_norm",), out=True, doc="(sum |x|^ord)^(1/ord) over the given dims.",
       grad={"input": "norm_backward(grad, input, out, ord, dims_or_all(dim), keepdim)"})
kernel("logsumexp(input: Tensor, dim: list[int, 1], keepdim: bool = False)", out="cast",
       names=("torch.logsumexp", "Tensor.logsumexp", "special.logsumexp"), doc="log(sum(exp(input))) over the given dims, without overflow.",
       grad={"input": "logsumexp_backward(grad, input, out, dim, keepdim)"}, ref="scipy.special.logsumexp")

kernel("cumsum(input: Tensor, dim: int, *, dtype: dtype = None)", out=True, inplace=True, doc="Running sum along a dim.",
       grad={"input": "flip(cumsum(flip(grad, dims_of(dim)), dim, None), dims_of(dim))"}, ref="numpy.cumsum")
kernel("cumprod(input: Tensor, dim: int, *, dtype: dtype = None)", out=True, inplace=True, doc="Running product along a dim.",
       grad={"input": "cumprod_backward(grad, input, dim)"}, ref="numpy.cumprod")
for _name, _doc in (("cummax", "largest"), ("cummin", "smallest")):
    kernel(f"{_name}(input: Tensor, dim: int) -> tuple[values, indices]", out=True,
           doc=f"The {_doc} element so far along a dim, and its place.",
           grad={"input": "scatter_add_(so_far_or_zeros(so_far, grad, sizes(input)), dim, indices, grad)"})
kernel("logcumsumexp(input: Tensor, dim: int)", out=True, doc="log of the running sum of exp(input) along a dim.",
       grad={"input": "logcumsumexp_backward(grad, input, out, dim)"})

# Gradients of reductions, in one pass over the input.
_OWN = {"dtypes": FLOATING | COMPLEX, "names": ()}
elementwise("scaled_difference(scale: Tensor, input: Tensor, mean: Tensor)", "scale * (input - mean)", **_OWN, doc="That of a variance.",
            grad={"scale": "grad * conj(input - mean)", "input": "grad * conj(scale)", "mean": "neg(grad * conj(scale))"})
elementwise("scaled_direction(scale: Tensor, input: Tensor, norm: Tensor)", "where(norm == 0, 0, scale * (input / norm))", **_OWN,
            doc="That of a Euclidean norm.",
            grad={"scale": "where(norm == 0, 0, grad * conj(input / norm))", "input": "where(norm == 0, 0, grad * conj(scale / norm))",
                  "norm": "where(norm == 0, 0, neg(grad * conj(scale * (input / norm) / norm)))"})
elementwise("scaled_exp(scale: Tensor, input: Tensor, total: Tensor)", "scale * conj(exp(input - total))", **_OWN, doc="That of logsumexp.",
            grad={"scale": "grad * exp(input - total)", "input": "conj(grad) * out", "total": "neg(conj(grad) * out)"})
