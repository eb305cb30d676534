"""Order: sorting, selection, search, distinct values, histograms."""
from ops.schema import OWN_PLACES, OWN_SIZES, composite, function, kernel

_PICKED = "add_place(accumulated, grad, sizes(input), indices, dim, True)"
# Of one element of each line.
_CHOICE = 'with_places(reduced("{}", input, Dims{{dim}}, keepdim, input.dtype()))'
_CHOSEN = ", ".join(f"reshaped({o}, kept_sizes(input, Dims{{dim}}))" for o in ("values", "indices"))
_REDUCED = "add_place(accumulated, grad, sizes(input), indices, dim, keepdim)"

kernel("sort(input: Tensor, dim: Dim = -1, descending: bool = False, *, stable: bool | None = "
       "None) -> tuple[values, indices]",
       out=True, shape="with_places(like(input))",
       launch="sort(input, dim, descending, values, indices)",
       node="SortBackward{stable ? 1 : 0}",
       doc="The elements of each line along a dim in order, and where they came from; always "
           "stable.",
       grad={"input": _PICKED})
kernel("argsort(input: Tensor, dim: Dim = -1, descending: bool = False, *, stable: bool | None = "
       "None)", ref="numpy.argsort", shape="like(input, DType::Int64)",
       launch="sort(input, dim, descending, nullptr, out)",
       doc="The places that put each line along a dim in order.", grad="places have no gradient")
composite("msort(input: Tensor)", "first(sort(input, 0))", out=True,
          doc="The elements in order along dim 0.")
kernel("topk(input: Tensor, k: int, dim: Dim = -1, largest: bool = True, sorted: bool = True) -> "
       "tuple[values, indices]", out=True, shape="with_places(top(input, k, dim))",
       launch="topk(input, dim, k, largest, values, indices)",
       doc="The k largest (or smallest) elements along a dim, and their places.",
       grad={"input": _PICKED})
kernel("kthvalue(input: Tensor, k: int, dim: Dim = -1, keepdim: bool = False) -> tuple[values, "
       "indices]", out=True, guard='check_not_empty("kthvalue", input, Dims{dim})',
       shape=_CHOICE.format("kthvalue"), launch=f"kthvalue(input, dim, k, {_CHOSEN})",
       doc="The k-th smallest element along a dim, and its place.", grad={"input": _REDUCED})
kernel("mode(input: Tensor, dim: Dim = -1, keepdim: bool = False) -> tuple[values, indices]",
       out=True, guard='check_not_empty("mode", input, Dims{dim})',
       shape=_CHOICE.format("mode"), launch=f"mode(input, dim, {_CHOSEN})",
       doc="The most frequent element along a dim, and its last place.", grad={"input": _REDUCED})
# All elements equal to the median share its gradient: by counts, not by a fraction, which would be
# of the default dtype.
function("median_backward(grad: Tensor, input: Tensor, out: Tensor)", """
    hit = logical_or(eq(input, out), logical_and(isnan(input), isnan(out)))
    return grad * hit / sum(hit)
         """)
for _name, _doc in (("median", "The lower median; NaN if there is a NaN"),
                    ("nanmedian", "The lower median of what is not NaN")):
    kernel(f"{_name}(input: Tensor)", body=f"""
    if numel(input) == 0:
        check(is_floating(input),
              "{_name}: median() is not defined for an empty tensor of dtype ", dtype(input))
        return full([], nan, dtype(input), strided, device(input))
    return {_name}(reshape(input, [-1]), 0, False)[0]
           """, doc=f"{_doc}.",
           grad={"input": "median_backward(grad, input, out)"})
    kernel(f"{_name}__dim(input: Tensor, dim: Dim, keepdim: bool = False) "
           "-> tuple[values, indices]", out=True,
           guard=f'check_not_empty("{_name}", input, Dims{{dim}})', shape=_CHOICE.format(_name),
           launch=f"median(input, dim, {str(_name == 'nanmedian').lower()}, {_CHOSEN})",
           node=f"{_name.capitalize()}Backward1", doc=f"{_doc}, along a dim, and its place.",
           grad={"input": _REDUCED})

# Values at fractional places (..., q) of rows sorted along the last dim.
function("interpolate_rows(rows: Tensor, places: Tensor, how: str)", """
    if how == "nearest":
        return gather(rows, -1, to(round(places), int64))
    below = floor(places)
    low = gather(rows, -1, to(below, int64))
    if how == "lower":
        return low
    high = gather(rows, -1, to(ceil(places), int64))
    if how == "higher":
        return high
    return lerp(low, high, 0.5) if how == "midpoint" else lerp(low, high, places - below)
         """)
function("quantiles(op: name, input: Tensor, q: Tensor, dim: int | None, keepdim: bool, how: str, "
         "ignore_nan: bool)", """
    check(numel(input) > 0, op, ": input tensor must be non-empty")
    check(dim_of(q) <= 1, op, ": q must be a scalar or 1D tensor, got shape ", sizes(q))
    check(dtype(input) == float32 or dtype(input) == float64, op,
          ": input tensor must be either float or double dtype, got ", dtype(input))
    check(dtype(q) == dtype(input), op,
          ": q tensor must be same dtype as the input tensor, got ", dtype(q), " and ",
          dtype(input))
    check(how == "linear" or how == "lower" or how == "higher" or how == "midpoint"
          or how == "nearest", op,
          ": interpolation must be one of linear, lower, higher, midpoint or nearest, but got ",
          how)
    check(item_or(all(logical_and(ge(q, 0), le(q, 1))), True), op,
          ": q values must be in the range [0, 1]")
    ndim = dim_of(input)
    d = wrap_dim(given(dim), ndim, op) if dim is not None else 0
    whole = dim is None or ndim == 0
    rows = sort(reshape(input, [-1]) if whole else movedim(input, [d], [-1]), -1)[0]
    last = float(size(rows, -1) - 1)
    flat_q = reshape(q, [-1])
    places = flat_q
    if ignore_nan:  # the NaNs stand at the end of each row
        numbers = sum(logical_not(isnan(rows)), [-1], True)
        places = clamp_min(flat_q * to(numbers - 1, dtype(input)), 0)
    else:
        wide = with_last(without_last(sizes(rows)), numel(flat_q))
        places = where(any(isnan(rows), [-1], True), last, expand(flat_q * last, wide))
    found = interpolate_rows(rows, places, how)
    if keepdim and dim is None:
        found = reshape(found, with_last(with_leading_ones(no_sizes, ndim), numel(flat_q)))
    if keepdim and dim is not None and ndim > 0:
        found = unsqueeze(found, d)
    return without_base(movedim(found, [-1], [0]) if dim_of(q) > 0 else squeeze(found, [-1]))
         """)
_QUANTILE = "dim: int | None = None, keepdim: bool = False, *, interpolation: str = 'linear'"
for _name, _doc in (("quantile", "The q-th quantiles (q in [0, 1])"),
                    ("nanquantile", "The q-th quantiles of what is not NaN")):
    composite(f"{_name}(input: Tensor, q: Tensor, {_QUANTILE})",
              f'quantiles("{_name}", input, q, dim, keepdim, interpolation, '
              f'{_name == "nanquantile"})', out=True,
              doc=f"{_doc}, over all elements or along a dim.",
              batch=OWN_PLACES, autocast="float32")
    composite(f"{_name}__number(input: Tensor, q: float, {_QUANTILE})", f"""
        check(q >= 0 and q <= 1, "{_name}: q must be in the range [0, 1] but got ", q)
        whole = full([], q, dtype(input), strided, device(input))
        return {_name}(input, whole, dim, keepdim, interpolation)
              """, out=True,
              doc=f"{_doc}, over all elements or along a dim.",
              autocast="float32")

for _name, _doc in (("unique", "The distinct elements (or slices of a dim) in order"),
                    ("unique_consecutive",
                     "The first of each run of equal elements (or slices of a dim)")):
    kernel(f"{_name}(input: Tensor, dim: int | None = None, return_inverse: bool = True, "
           "return_counts: bool = True) -> tuple[values, inverse, counts]",
           names=(f"torch._{_name}",),
           doc=f"{_doc}, which of them each element is, and how often each occurs, if wanted.",
           grad="which elements are distinct jumps with the input",
           batch="value" if _name == "unique" else OWN_SIZES)

_SEARCH = "*, out_int32: bool = False, right: bool = False"
kernel(f"searchsorted(sorted_sequence: Tensor, input: Tensor | Number, {_SEARCH}, side: str | None "
       f"= None, "
       "sorter: Tensor | None = None)", names=("torch.searchsorted",), out=True,
       ref="numpy.searchsorted",
       doc="Where each element would go in a sorted row: before its equals, or after them if "
           "right.",
       grad="places have no gradient",
       batch="searchsorted")
composite(f"bucketize(input: Tensor | Number, boundaries: Tensor, {_SEARCH})", """
    check(dim_of(boundaries) == 1,
          "bucketize: boundaries tensor must be 1 dimension, but got shape ",
          sizes(boundaries))
    return searchsorted(boundaries, input, out_int32, right)
          """,
          names=("torch.bucketize",), out=True,
          ref="numpy.digitize",
          doc="The number of the interval between boundaries that each element lies in.",
          batch="leading")
composite("isin(elements: Tensor | Number, test_elements: Tensor | Number, *, assume_unique: bool "
          "= False, invert: bool = False)", """
    check(not is_complex(elements) and not is_complex(test_elements),
          "isin: complex tensors are not supported")
    check(dtype(elements) != bool and dtype(test_elements) != bool,
          "isin: truth values are not supported, got ", dtype(elements), " and ",
          dtype(test_elements))
    if numel(test_elements) == 0:
        return full(sizes(elements), invert, bool, strided,
                    device(number_beside(elements, test_elements)))
    with no_grad():
        common = common_dtype(elements, test_elements)
        tested = reshape(number_beside(test_elements, elements), [-1])
        wanted = to(number_beside(elements, test_elements), common)
        if numel(tested) <= 8:
            few = to(tested, common)
            among = eq(wanted, select(few, 0, 0))
            for i in range(1, numel(few)):
                among = logical_or(among, eq(wanted, select(few, 0, i)))
            return logical_not(among) if invert else among
        found = to(sort(tested, 0)[0], common)
        place = clamp_max(searchsorted(found, wanted), numel(found) - 1)
        nearest = reshape(index_select(found, 0, reshape(place, [-1])), sizes(wanted))
        return ne(nearest, wanted) if invert else eq(nearest, wanted)
          """,
          names=("torch.isin",), out=True, ref="numpy.isin",
          doc="Is the element one of test_elements?",
          batch="leading")

kernel("histc(input: Tensor, bins: int = 100, min: Scalar = 0, max: Scalar = 0)", out=True,
       guard='check(bins > 0, "histc: bins must be > 0, but got ", bins), '
             'check_number_of("histc", min, input), check_number_of("histc", max, input)',
       shape="OutputSpec{Dims{bins}, input.dtype()}",
       launch="histc(input, min.real(), max.real(), out)",
       doc="How many elements lie in each of `bins` equal parts of [min, max]; of the input's "
           "range if both are 0.",
       grad="counts have no gradient", batch=OWN_SIZES)
kernel("bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0)",
       ref="numpy.bincount",
       doc="How often (or with what total weight) each number from 0 on occurs.",
       grad="counts have no gradient",
       batch=OWN_SIZES)
