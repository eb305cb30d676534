"""Reading and writing at flat places and along one dim."""
from ops.schema import OWN_PLACES, composite, kernel

kernel("take(input: Tensor, index: Tensor)", out=True, ref="numpy.take",
       doc="The elements at places counted over all of input.",
       grad={"input": "put_(accumulated_or_zeros(accumulated, grad, sizes(input)), index, grad, "
                      "True)"},
       batch=OWN_PLACES)
kernel("put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False)", inplace=True,
       doc="input with source written (or added) at places counted over all of input.",
       grad={"input": "grad if accumulate else put(grad, index, zeros_of(grad, sizes(source)), "
                      "False)",
             "source": "reshape(take(grad, index), sizes(source))"}, batch=OWN_PLACES)
composite("take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None)", out=True,
          ref="numpy.take_along_axis",
          doc="The elements at indices along a dim, the other dims broadcast; places over all "
              "elements when dim is None.",
          batch="take_along_dim")

kernel("index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor)", inplace=True, out=True,
       doc="input with source written to the slices that index names.",
       grad={"input": "index_fill(grad, dim, index, 0)",
             "source": "index_copy_source(grad, dim, index, sizes(source))"},
       batch=OWN_PLACES, autocast="promote")
kernel("index_fill__tensor(input: Tensor, dim: int, index: Tensor, value: Tensor)", inplace=True,
       node="IndexFillBackward1", doc="input with value in the slices that index names.",
       grad={"input": "index_fill(grad, dim, index, 0)",
             "value": "index_fill_value(grad, dim, index)"},
       batch=OWN_PLACES)
kernel("index_fill(input: Tensor, dim: int, index: Tensor, value: Scalar)", inplace=True,
       doc="input with value in the slices that index names.",
       grad={"input": "index_fill(grad, dim, index, 0)"},
       batch=OWN_PLACES)

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
          f"bool = True)", out=True, inplace=True,
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
              doc=f"A copy of input with src written where {_view} looks.", batch=OWN_PLACES)
