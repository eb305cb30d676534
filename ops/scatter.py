"""Reading and writing at flat places and along one dim."""
from ops.schema import OWN_PLACES, composite, function, kernel

# An index of slices along a dim as one of all elements.
function("expand_index(index: Tensor, dim: int, like: Tensor)", """
    if dim_of(like) == 0:
        return reshape(index, [])
    return expand(reshape(index, line_sizes(dim_of(like), dim, numel(index))), sizes(like))
         """)
function("index_fill_value(grad: Tensor, dim: int, index: Tensor)", """
    if dim_of(grad) == 0:
        all = ones([1], bool, strided, device(grad))
        return sum(masked_fill(grad, reshape(index_fill(all, 0, index, False), []), 0))
    d = wrap_dim(dim, dim_of(grad), "index_fill")
    all = ones([size(grad, d)], bool, strided, device(grad))
    kept = reshape(index_fill(all, 0, index, False), line_sizes(dim_of(grad), d, size(grad, d)))
    return sum(masked_fill(grad, kept, 0))
         """)
# How many elements are reduced into each place.
function("count_written(input: Tensor, dim: int, index: Tensor, src: Tensor, include_self: bool)",
         """
    start = ones_like(input) if include_self else zeros_like(input)
    count = scatter_add(start, dim, index, ones_like(src))
    return masked_fill(count, eq(count, 0), 1)
         """)
# The share of an extreme that each element equal to it has.
function("shared_extreme(grad: Tensor, input: Tensor, dim: int, index: Tensor, src: Tensor, "
         "out: Tensor, include_self: bool)", """
    from_self = to(eq(input, out), dtype(grad))
    if not include_self:
        from_self = scatter(from_self, dim, index, 0)
    hits = to(eq(src, gather(out, dim, index)), dtype(grad))
    ties = scatter_add(from_self, dim, index, hits)
    return grad / masked_fill(ties, eq(ties, 0), 1)
         """)
_REDUCED = ("grad: Tensor, input: Tensor, dim: int, index: Tensor, src: Tensor, out: Tensor, "
            "reduce: str, include_self: bool")
function(f"scatter_reduce_input({_REDUCED})", """
    result = grad
    if reduce == "mean":
        result = grad / count_written(input, dim, index, src, include_self)
    if reduce == "prod":
        result = grad * conj_now(scatter_reduce(ones_like(input), dim, index, src, "prod", True))
    if reduce == "amax" or reduce == "amin":
        share = shared_extreme(grad, input, dim, index, src, out, include_self)
        result = eq(input, out) * share
    return result if include_self else scatter(result, dim, index, 0)
         """)
# The product of the others: by division where the element is not zero. A zero sees the product of
# what is not zero, if it is the only one of its place, times the other one, if there are two, so
# that the second derivative is right too.
function(f"scatter_reduce_src({_REDUCED})", """
    if reduce == "sum":
        return gather(grad, dim, index)
    if reduce == "mean":
        return gather(grad / count_written(input, dim, index, src, include_self), dim, index)
    if reduce != "prod":
        share = shared_extreme(grad, input, dim, index, src, out, include_self)
        return eq(src, gather(out, dim, index)) * gather(share, dim, index)
    is_zero = eq(src, 0)
    none = zeros_like(input)
    count = gather(scatter_add(none, dim, index, to(is_zero, dtype(src))), dim, index)
    zeros = masked_fill(src, logical_not(is_zero), 0)
    another = gather(scatter_add(none, dim, index, zeros), dim, index) - src
    factor = masked_fill(masked_fill(another, eq(count, 1), 1), gt(real(count), 2), 0)
    others = masked_fill(src, is_zero, 1)
    rest = scatter_reduce(input, dim, index, others, "prod", include_self)
    divided = gather(grad * conj_now(out), dim, index) / conj_now(others)
    return where(is_zero, gather(grad * conj_now(rest), dim, index) * conj_now(factor), divided)
         """)

_SLICES = _REDUCED.replace("src", "source")
function(f"index_reduce_input({_SLICES})", """
    d = wrap_dim(dim, dim_of(input), "index_reduce")
    places = expand_index(index, d, source)
    return scatter_reduce_input(grad, input, d, places, source, out, reduce, include_self)
         """)
function(f"index_reduce_source({_SLICES})", """
    d = wrap_dim(dim, dim_of(input), "index_reduce")
    places = expand_index(index, d, source)
    return scatter_reduce_src(grad, input, d, places, source, out, reduce, include_self)
         """)

kernel("take(input: Tensor, index: Tensor)", out=True, ref="numpy.take",
       doc="The elements at places counted over all of input.",
       grad={"input": "put_(accumulated_or_zeros(accumulated, grad, sizes(input)), index, grad, "
                      "True)"},
       batch="take")
kernel("put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False)", inplace=True,
       doc="input with source written (or added) at places counted over all of input.",
       grad={"input": "grad if accumulate else put(grad, index, zeros_of(grad, sizes(source)), "
                      "False)",
             "source": "reshape(take(grad, index), sizes(source))"}, batch=OWN_PLACES)
composite("take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None)", """
    check(dtype(indices) == int64,
          "take_along_dim(): dtype of indices should be Long but got ", dtype(indices))
    if dim is None:
        return gather(reshape(input, [-1]), 0, reshape(indices, [-1]))
    check(dim_of(input) == dim_of(indices),
          "take_along_dim(): input and indices should have the same number of dimensions, but got "
          "", dim_of(input), " dimensions for input, and ", dim_of(indices),
          " dimensions for indices")
    d = wrap_dim(given(dim), dim_of(input), "take_along_dim")
    if dim_of(input) == 0:
        return gather(input, d, indices)
    places = where(lt(indices, 0), indices + sizes(input)[d], indices)
    common = broadcast_sizes(with_size(sizes(input), d, 1), with_size(sizes(indices), d, 1),
                             "take_along_dim")
    return gather(expand(input, with_size(common, d, sizes(input)[d])), d,
                  expand(places, with_size(common, d, sizes(indices)[d])))
          """, out=True,
          ref="numpy.take_along_axis",
          doc="The elements at indices along a dim, the other dims broadcast; places over all "
              "elements when dim is None.",
          batch="take_along_dim")

kernel("index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor)", inplace=True, out=True,
       doc="input with source written to the slices that index names.",
       grad={"input": "index_fill(grad, dim, index, 0)",
             "source": "reshape(index_select(grad, dim, index), sizes(source))"},
       batch="at_same_index", autocast="promote")
kernel("index_fill__tensor(input: Tensor, dim: int, index: Tensor, value: Tensor)", inplace=True,
       node="IndexFillBackward1", doc="input with value in the slices that index names.",
       grad={"input": "index_fill(grad, dim, index, 0)",
             "value": "index_fill_value(grad, dim, index)"},
       batch="at_same_index")
kernel("index_fill(input: Tensor, dim: int, index: Tensor, value: Scalar)", inplace=True,
       doc="input with value in the slices that index names.",
       grad={"input": "index_fill(grad, dim, index, 0)"},
       batch="at_same_index")

_PLACES = "dim: int, index: Tensor"
for _overload, _value in (("reduce", "src: Tensor"), ("value_reduce", "value: Scalar")):
    kernel(f"scatter__{_overload}(input: Tensor, {_PLACES}, {_value}, *, reduce: str)", out=True,
           inplace=True,
           doc="input with src added to ('add') or multiplied into ('multiply') the places that "
               "index names.",
           grad="use scatter_reduce, which is differentiable", batch="at_dim")
_REDUCE_GRADIENT = {
    "input": "scatter_reduce_input(grad, input, dim, index, src, out, reduce, include_self)",
    "src": "scatter_reduce_src(grad, input, dim, index, src, out, reduce, include_self)"}
kernel(f"scatter_reduce(input: Tensor, {_PLACES}, src: Tensor, reduce: str, *, include_self: bool "
       f"= True)", out=True, inplace=True,
       doc="input with src reduced ('sum', 'prod', 'mean', 'amax' or 'amin') into the places that "
           "index names along a dim.",
       grad=_REDUCE_GRADIENT, batch="at_dim")
composite(f"index_reduce(input: Tensor, {_PLACES}, source: Tensor, reduce: str, *, include_self: "
          f"bool = True)", """
    d = wrap_dim(dim, dim_of(input), "index_reduce")
    check(reduce == "prod" or reduce == "mean" or reduce == "amax" or reduce == "amin",
          "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got ", reduce,
          ".")
    check_index(dim_of(index) <= 1,
                "index_reduce(): Index is supposed to be a vector, but got dim: ", dim_of(index))
    check(dtype(index) == int64 or dtype(index) == int32,
          "index_reduce(): Expected dtype int32/int64 for index, got ", dtype(index))
    check(dtype(source) == dtype(input),
          "index_reduce(): self and source expected to have the same dtype, but got ",
          dtype(input), " and ", dtype(source))
    check_slices("index_reduce", input, d, index, source)
    return scatter_reduce(input, d, expand_index(index, d, source), source, reduce, include_self)
          """, out=True, inplace=True,
          doc="input with source reduced ('prod', 'mean', 'amax' or 'amin') into the slices that "
              "index names.",
          grad={"input": "index_reduce_input(grad, input, dim, index, source, out, reduce, "
                         "include_self)",
                "source": "index_reduce_source(grad, input, dim, index, source, out, reduce, "
                          "include_self)"},
          batch=OWN_PLACES)

_SLICE = "dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1"
_COPY = "clone_with_gaps(input)"
_ZEROS = "zeros_of(grad, sizes(src))"
for _view, _arguments, _place, _copy in (
        ("select", "dim: int, index: int", "dim, index", _COPY),
        ("slice", _SLICE, "dim, start, end, step", _COPY),
        ("diagonal", "offset: int = 0, dim1: int = 0, dim2: int = 1", "offset, dim1, dim2", _COPY),
        ("as_strided", "size: list[int], stride: list[int], storage_offset: int | None = None",
         "size, stride, storage_offset",
         f"copy_of_storage(input) if offset(input) > 0 else {_COPY}")):
    composite(f"{_view}_scatter(input: Tensor, src: Tensor, {_arguments})", f"""
        copy = {_copy}
        place = {_view}(copy, {_place})
        check_place("{_view}_scatter", place, src)
        copy_(place, src)
        return copy
              """, out=_view == "slice",
              grad=_view != "as_strided" and {
                  "input": f"{_view}_scatter(grad, {_ZEROS}, {_place})",
                  "src": f"{_view}(grad, {_place})"} or None,
              node="AsStridedScatterBackward0" if _view == "as_strided" else None,
              doc=f"A copy of input with src written where {_view} looks.", batch=OWN_PLACES)
