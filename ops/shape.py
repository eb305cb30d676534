"""Views: other windows on the same elements."""
from ops.schema import FIXED_DIMS, OWN_PLACES, composite, function, kernel, view

view("as_strided(input: Tensor, size: list[int], stride: list[int], storage_offset: int | None = "
     "None)",
     doc="A view of the storage with the given sizes, strides and offset (in elements).",
     shape="window::as_strided(input, size, stride, storage_offset)",
     grad={"input": "as_strided_backward(grad, meta_of(input), strides(input), offset(input), "
                    "size, stride, storage_offset)"},
     batch="as_strided")
view("transpose(input: Tensor, dim0: int, dim1: int)",
     names=("torch.transpose", "Tensor.transpose", "torch.swapaxes", "Tensor.swapaxes",
            "torch.swapdims", "Tensor.swapdims"),
     doc="Swaps two dims.", shape="window::transpose(input, dim0, dim1)",
     grad={"input": "transpose(grad, dim0, dim1)"}, batch="transpose")
view("permute(input: Tensor, dims: list[int])", doc="Reorders the dims.",
     shape="window::permute(input, dims)",
     grad={"input": "permute_backward(grad, dims)"},
     batch="permute")
view("expand(input: Tensor, size: list[int], *, implicit: bool = False)", names=("Tensor.expand",),
     doc="Broadcasts dims of size 1 to `size` without copying; -1 keeps a size.",
     shape="window::expand(input, size)",
     grad={"input": "grad"},
     batch="expand")
# Without a node where nothing is to be broadcast.
function("expanded(t: Tensor, wanted: list[int])", "t if sizes(t) == wanted else expand(t, wanted)")
view("view(input: Tensor, size: list[int])", names=("Tensor.view",),
     doc="The same elements under another shape; the strides must allow it.",
     shape="window::view(input, size)",
     grad={"input": "reshape(grad, sizes(input))"},
     batch="reshape")
view("unsafe_view(input: Tensor, size: list[int])", names=(),
     doc="view of a tensor that nobody else has.", shape="window::view(input, size)",
     grad={"input": "reshape(grad, sizes(input))"}, batch="reshape")
view("t(input: Tensor)", names=("torch.t", "Tensor.t"), doc="Transpose of a matrix; a view of "
     "vectors and numbers.", shape="window::t(input)", grad={"input": "t(grad)"}, batch="t")
view("squeeze(input: Tensor)", doc="Drops the dims of size 1.",
     shape="window::squeeze(input)",
     grad={"input": "reshape(grad, sizes(input))"},
     batch="squeeze")
view("squeeze__dim(input: Tensor, dim: list[int, 1])",
     node="SqueezeBackward{dim.size() == 1 ? 1 : 2}",
     doc="Drops the given dims where their size is 1.",
     shape="window::squeeze(input, dim)",
     grad={"input": "reshape(grad, sizes(input))"}, batch="squeeze")
view("unsqueeze(input: Tensor, dim: int)", doc="Inserts a dim of size 1.",
     shape="window::unsqueeze(input, dim)",
     grad={"input": "reshape(grad, sizes(input))"},
     batch="unsqueeze")
view("select(input: Tensor, dim: int, index: int)", doc="Slice `index` of `dim`, which is dropped.",
     shape="window::select(input, dim, index)",
     grad={"input": "add_select(accumulated, grad, sizes(input), dim, index)"})
view("slice(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: "
     "int = 1)", names=(),
     doc="Elements start, start + step, ... of `dim`.",
     shape="window::slice(input, dim, start, end, step)",
     grad={"input": "add_slice(accumulated, grad, sizes(input), dim, start, end, step)"},
       batch="spread_dim")
view("diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1)",
     doc="The diagonal of two dims, as the last dim.",
     shape="window::diagonal(input, offset, dim1, dim2)",
     grad={"input": "add_diagonal(accumulated, grad, sizes(input), offset, dim1, dim2)"},
     batch="diagonal")
view("unfold(input: Tensor, dimension: int, size: int, step: int)", names=("Tensor.unfold",),
     doc="Windows of `size` elements along a dim, as a new last dim.",
     shape="window::unfold(input, dimension, size, step)",
     grad={"input": "unfold_backward(grad, sizes(input), dimension, size, step)"})
view("unbind(input: Tensor, dim: int = 0) -> list[Tensor]", doc="The slices along a dim.",
     grad={"input": "stack(grads, dim)"})
view("split_with_sizes(input: Tensor, split_sizes: list[int], dim: int = 0) -> list[Tensor]",
     doc="Consecutive pieces of the given sizes.", grad={"input": "cat(grads, dim)"},
     keeps=("split_sizes", "sizes(input)"))
composite("detach(input: Tensor)",
          "alias(input)", doc="The same elements, outside the graph.",
          names=("torch.detach", "Tensor.detach"),
          batch="leading")
composite("reshape(input: Tensor, shape: list[int])", """
    sizes = infer_size(shape, numel(input), "reshape")
    if is_viewable(input, sizes):
        return view(input, sizes)
    return without_base(unsafe_view(in_order(input), sizes))
          """,
          doc="The same elements under another shape: a view where possible, else a copy.",
          batch="reshape")
composite("contiguous(input: Tensor, *, memory_format: memory_format = None)",
          names=("Tensor.contiguous",),
          doc="The tensor itself if its elements are in order, else an ordered copy.",
          batch="leading", linear=True)
composite("expand_as(input: Tensor, other: Tensor)", "expand(input, sizes(other))",
          names=("Tensor.expand_as",),
          doc="Broadcasts to the shape of other.")

kernel("cat(tensors: list[Tensor], dim: int = 0)",
       names=("torch.cat", "torch.concat", "torch.concatenate"), out="cast",
       doc="Joins tensors along a dim.",
       grad={"tensors": "cat_backward(grad, meta_of(tensors), dim)"},
       batch="cat", autocast="promote")
kernel("stack(tensors: list[Tensor], dim: int = 0)", names=("torch.stack",), out="cast",
       doc="Joins tensors along a new dim.", grad={"tensors": "unbind(grad, dim)"},
       batch="stack", autocast="promote")

view("conj_view(input: Tensor)", names=(), replay=True, node="ConjBackward0",
     doc="The conjugate, over the same memory.", grad={"input": "conj(grad)"}, batch="elementwise")
view("neg_view(input: Tensor)", names=("torch._neg_view",), replay=True, node="NegViewBackward0",
     doc="The negative, over the same memory.", grad={"input": "neg(grad)"}, batch="elementwise")
view("view_as_real(input: Tensor)", replay=True,
     doc="Real and imaginary parts as a last dim of size 2.",
     names=("torch.view_as_real",), shape="window::as_real(input)",
     grad={"input": "view_as_complex(contiguous(grad))"},
     batch="leading")
view("view_as_complex(input: Tensor)", replay=True, doc="A last dim of size 2 as complex numbers.",
     names=("torch.view_as_complex",), shape="window::as_complex(input)",
     grad={"input": "view_as_real(contiguous(grad))"},
     batch="leading", autocast="float32")
composite("real(input: Tensor)",
          """
    if not is_complex(input):
        return input
    return select(view_as_real(conj_view(input) if is_conjugated(input) else input), -1, 0)
          """,
          doc="The real part; real tensors are returned as they are.",
          names=("torch.real",),
          batch="elementwise")
composite("imag(input: Tensor)", """
    if is_conjugated(input):
        return select(neg_view(view_as_real(conj_view(input))), -1, 1)
    return select(view_as_real(input), -1, 1)
          """,
          doc="The imaginary part, a view.", names=("torch.imag",), batch="elementwise")
kernel("flip(input: Tensor, dims: list[int, 1])", doc="Reverses the order along the given dims.",
       shape="like(input)", launch='flip(input, distinct_dims("flip", input, dims), out)',
       grad={"input": "flip(grad, dims)"}, ref="numpy.flip")
kernel("roll(input: Tensor, shifts: list[int, 1], dims: list[int, 1] = ())",
       doc="Moves elements along dims, wrapping around.",
       grad={"input": "roll_backward(grad, shifts, dims)"}, ref="numpy.roll", batch="roll")
kernel("tril(input: Tensor, diagonal: int = 0)", inplace=True, out=True,
       guard='check_matrices("tril", input)', shape="dense(input)",
       launch="tril(input, diagonal, out)",
       doc="The part on and below a diagonal, zeros elsewhere.",
       grad={"input": "tril(grad, diagonal)"}, ref="numpy.tril", batch="leading")
kernel("triu(input: Tensor, diagonal: int = 0)", inplace=True, out=True,
       guard='check_matrices("triu", input)', shape="dense(input)",
       launch="triu(input, diagonal, out)",
       doc="The part on and above a diagonal, zeros elsewhere.",
       grad={"input": "triu(grad, diagonal)"}, ref="numpy.triu", batch="leading")

composite("flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1)", """
    together = flattened_sizes(input, start_dim, end_dim)
    return input if together == sizes(input) else reshape(input, together)
          """,
          doc="Dims start_dim to end_dim as one.",
          batch="flatten")
composite("ravel(input: Tensor)", "reshape(contiguous(input), [-1])",
          doc="All elements as a vector.")
composite("view_as(input: Tensor, other: Tensor)", "view(input, sizes(other))",
          names=("Tensor.view_as",), doc="A view in other's shape.")
composite("reshape_as(input: Tensor, other: Tensor)", "reshape(input, sizes(other))",
          names=("Tensor.reshape_as",), doc="Reshapes to other's shape.")
view("view__dtype(input: Tensor, dtype: dtype)", names=("Tensor.view",), replay=True,
     doc="The same bytes as another dtype.",
     shape="window::as_dtype(input, *dtype)", followed_if="window::keeps_numbers(input, *dtype)",
     grad={"input": "view(contiguous(grad), dtype(input))"}, batch="reshape", linear=False)
composite("unflatten(input: Tensor, dim: int, sizes: list[int])",
          "view(input, unflattened_sizes(input, dim, sizes))", doc="One dim as several.")
composite("chunk(input: Tensor, chunks: int, dim: int = 0) -> list[Tensor]",
          "split_with_sizes(input, chunk_sizes(input, chunks, dim), dim)",
          node="SplitBackward0",
          doc="At most `chunks` pieces of equal size; the last may be smaller.")
composite("split(input: Tensor, split_size: int, dim: int = 0) -> list[Tensor]",
          "split_with_sizes(input, split_sizes_of(input, split_size, dim), dim)",
          names=("Tensor.split",), node="SplitBackward0",
          doc="Pieces of split_size; the last may be smaller.")
composite("split__sizes(input: Tensor, split_size: list[int], dim: int = 0) -> list[Tensor]",
          "split_with_sizes(input, split_size, dim)",
          names=("Tensor.split",), doc="Pieces of the given sizes.")
composite("tensor_split(input: Tensor, sections: int, dim: int = 0) -> list[Tensor]", """
    check(dim_of(input) > 0, "tensor_split: expected at least a 1-dimensional tensor")
    check(sections > 0, "tensor_split: number of sections must be larger than 0, got ", sections)
    check_pieces("tensor_split", sections)
    d = wrap_dim(dim, dim_of(input), "tensor_split")
    n = sizes(input)[d]
    parts = no_tensors
    at = 0
    for i in range(sections):
        end = at + n // sections + (1 if i < n % sections else 0)
        append(parts, slice(input, d, at, end, 1))
        at = end
    return parts
          """,
          doc="Pieces as equal as can be.")
composite("tensor_split__indices(input: Tensor, indices: list[int], dim: int = 0) -> list[Tensor]",
          """
    d = wrap_dim(dim, dim_of(input), "tensor_split")
    parts = no_tensors
    begin = 0
    for end in indices:
        append(parts, slice(input, d, begin, end, 1))
        begin = end
    append(parts, slice(input, d, begin, None, 1))
    return parts
          """,
          doc="Pieces cut at the given places.")
composite("tensor_split__tensor(input: Tensor, tensor_indices_or_sections: Tensor, dim: int = 0) "
          "-> list[Tensor]",
          doc="Pieces as equal as can be, or cut at the given places.",
          samples=("x(5, 2), fixed([1, 3], 'int64')", "x(2, 5), fixed(2, 'int64'), 1"),
          batch=OWN_PLACES)
_DIVISIBLE = """
    check(sections > 0 and size(input, {dim}) % sections == 0,
          "torch.{name} attempted to split along dimension ", {dim},
          ", but the size of the dimension ", size(input, {dim}),
          " is not divisible by the split_size ", sections)
    return tensor_split(input, sections, {dim})
"""
composite("hsplit(input: Tensor, sections: int) -> list[Tensor]",
          "    d = hstack_dim(input)" + _DIVISIBLE.format(name="hsplit", dim="d"),
          doc="Pieces side by side.", batch=FIXED_DIMS)
composite("hsplit__indices(input: Tensor, indices: list[int]) -> list[Tensor]",
          "tensor_split(input, indices, hstack_dim(input))",
          doc="Pieces side by side, cut at the given places.")
for _name, _dim, _least in (("vsplit", 0, 2), ("dsplit", 2, 3)):
    _LARGE = f"""
    check(dim_of(input) >= {_least}, "torch.{_name} requires a tensor with at least {_least} "
          "dimension, but got a tensor with ", dim_of(input), " dimensions")
"""
    composite(f"{_name}(input: Tensor, sections: int) -> list[Tensor]",
              _LARGE + _DIVISIBLE.format(name=_name, dim=_dim),
              doc=f"Pieces of dim {_dim}.", batch=FIXED_DIMS)
    composite(f"{_name}__indices(input: Tensor, indices: list[int]) -> list[Tensor]",
              _LARGE + f"    return tensor_split(input, indices, {_dim})\n",
              doc=f"Pieces of dim {_dim}, cut at the given places.", batch=FIXED_DIMS)
composite("narrow(input: Tensor, dim: int, start: int, length: int)", """
    check(dim_of(input) > 0, "narrow: narrow() cannot be applied to a 0-dim tensor.")
    d = wrap_dim(dim, dim_of(input), "narrow")
    n = size(input, d)
    check(length >= 0, "narrow: narrow(): length must be non-negative, got ", length)
    check_index(start >= -n and start <= n,
                "narrow: start out of range (expected to be in range of [", -n, ", ", n,
                "], but got ",
                start, ")")
    begin = start + n if start < 0 else start
    check(length <= n - begin, "narrow: start (", begin, ") + length (", length,
          ") exceeds dimension size (", n, ").")
    return slice(input, d, begin, begin + length, 1)
          """,
          doc="`length` elements of a dim from `start`.")
composite("narrow__tensor(input: Tensor, dim: int, start: Tensor, length: int)", """
    check(dim_of(start) == 0 and is_integral(dtype(start)),
          "narrow: start must be an 0-dim integral Tensor.")
    check_elements("narrow", start)
    return narrow(input, dim, whole_item(start), length)
          """,
          doc="`length` elements of a dim from `start`.",
          batch=OWN_PLACES)
composite("movedim(input: Tensor, source: list[int, 1], destination: list[int, 1])",
          "permute(input, moved_dims(input, source, destination))",
          names=("torch.movedim", "Tensor.movedim", "torch.moveaxis", "Tensor.moveaxis"),
          doc="Moves dims to other places.",
          batch="movedim")
# Each dim n becomes (repeat, n), expanded and then joined.
composite("repeat(input: Tensor, repeats: list[int])", """
    check(length(repeats) >= dim_of(input),
          "repeat: Number of dimensions of repeat dims can not be smaller than number of "
          "dimensions of tensor")
    wide = with_leading_ones(sizes(input), length(repeats))
    split = no_sizes
    copied = no_sizes
    joined = no_sizes
    for d in range(length(repeats)):
        check(repeats[d] >= 0, "repeat: Trying to create tensor with negative dimension ",
              wrapping_product(repeats[d], wide[d]), ": repeats ", repeats)
        append(split, 1)
        append(split, wide[d])
        append(copied, repeats[d])
        append(copied, wide[d])
        append(joined, wrapping_product(repeats[d], wide[d]))
    copies = reshape(expand(reshape(input, split), copied), joined)
    return in_order(copies) if shares_storage(copies, input) else without_base(copies)
          """, names=("Tensor.repeat",),
          grad={"input": "repeat_backward(grad, repeats, sizes(input))"},
          doc="Copies laid side by side, `repeats` along each dim.",
          batch="repeat", node="RepeatBackward0")
composite("tile(input: Tensor, dims: list[int])",
          "repeat(input, with_leading_ones(dims, dim_of(input)))",
          doc="repeat, with missing leading counts taken as 1.",
          batch="repeat", node="RepeatBackward0")
composite("repeat_interleave(input: Tensor, repeats: int, dim: int | None = None, *, output_size: "
          "int | None = None)", """
    check(repeats >= 0, "repeat_interleave: Repeats must be non-negative, got ", repeats)
    x = at_least(reshape(input, [-1]) if dim is None else input, 1)
    d = wrap_dim(value_or(dim, 0), dim_of(x), "repeat_interleave")
    expected = wrapping_product(sizes(x)[d], repeats)
    check(value_or(output_size, expected) == expected,
          "repeat_interleave: Invalid output_size, expected ", expected, " but got ",
          value_or(output_size, 0))
    wide = sizes(x)
    insert(wide, d + 1, repeats)
    joined = with_size(sizes(x), d, expected)
    return reshape(in_order(expand(unsqueeze(x, d + 1), wide)), joined)
          """,
          doc="Each element (or slice of dim) `repeats` times in a row.")
composite("repeat_interleave__tensor(input: Tensor, repeats: Tensor, dim: int | None = None, *, "
          "output_size: int | None = None)",
          doc="Each element (or slice of dim) as often as repeats says.", batch=OWN_PLACES)
composite("repeat_interleave__counts(repeats: Tensor, *, output_size: int | None = None)", """
    check(dim_of(repeats) == 1, "repeat_interleave: only accept 1D vector as repeat, got shape ",
          sizes(repeats))
    places = arange(numel(repeats), dtype(repeats), strided, device(repeats))
    return repeat_interleave(places, repeats, None, output_size)
          """,
          names=("torch.repeat_interleave",),
          doc="0, 1, ... each as often as repeats says.", batch=OWN_PLACES)
composite("diag(input: Tensor, diagonal: int = 0)", """
    check(dim_of(input) == 1 or dim_of(input) == 2, "diag: diag(): Supports 1D or 2D tensors. Got ",
          dim_of(input), "D")
    if dim_of(input) == 1:
        return diag_embed(input, diagonal, 0, 1)
    return diagonal_copy(input, diagonal, 0, 1)
          """, out=True,
          doc="The diagonal of a matrix, or a matrix with the given diagonal.",
          batch="diag")
composite("diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1)", """
    out_sizes = embedded_sizes(input, offset, dim1, dim2)
    result = zeros(out_sizes, dtype(input), strided, device(input))
    copy_(diagonal(result, offset, dim1, dim2), input)
    return result
          """,
          doc="Matrices with the last dim on a diagonal.",
          grad={"input": "diagonal(grad, offset, dim1, dim2)"}, batch="diag_embed", linear=True)
composite("diagflat(input: Tensor, offset: int = 0)", "diag(reshape(input, [-1]), offset)",
          doc="A matrix with all elements on a diagonal.",
          linear=True)
composite("fliplr(input: Tensor)", """
    check(dim_of(input) >= 2, "fliplr: Input must be >= 2-d, got shape ", sizes(input))
    return flip(input, [1])
          """, doc="Reverses dim 1.", batch="flipped", linear=True)
composite("flipud(input: Tensor)", """
    check(dim_of(input) >= 1, "flipud: Input must be >= 1-d, got shape ", sizes(input))
    return flip(input, [0])
          """, doc="Reverses dim 0.", batch="flipped", linear=True)
composite("rot90(input: Tensor, k: int = 1, dims: list[int] = (0, 1))", """
    check(length(dims) == 2, "rot90: expected total rotation dims == 2, but got dims = ",
          length(dims))
    check(dim_of(input) >= 2, "rot90: expected total dims >= 2, but got total dims = ",
          dim_of(input))
    a = wrap_dim(dims[0], dim_of(input), "rot90")
    b = wrap_dim(dims[1], dim_of(input), "rot90")
    check(a != b, "rot90: expected rotation dims to be different, but got dim0 = ", dims[0],
          " and dim1 = ", dims[1])
    turns = (k % 4 + 4) % 4
    if turns == 1:
        return without_base(transpose(flip(input, [b]), a, b))
    if turns == 2:
        return flip(input, [a, b])
    if turns == 3:
        return without_base(transpose(flip(input, [a]), a, b))
    return in_order(input)
          """,
          doc="Turns a plane by k right angles.",
          grad={"input": "rot90(grad, turned_back(k), dims)"},
          linear=True)
composite("hstack(tensors: list[Tensor])", """
    check(not is_empty(tensors), "hstack: expects a non-empty TensorList")
    parts = [at_least(t, 1) for t in tensors]
    return cat(parts, 0 if dim_of(parts[0]) == 1 else 1)
          """, names=("torch.hstack",), out="cast",
          doc="Joins side by side.",
          batch=FIXED_DIMS)
composite("vstack(tensors: list[Tensor])", """
    check(not is_empty(tensors), "vstack: expects a non-empty TensorList")
    return cat([at_least(t, 2) for t in tensors], 0)
          """, names=("torch.vstack", "torch.row_stack"), out="cast",
          doc="Joins on top of each other.",
          batch=FIXED_DIMS)
composite("dstack(tensors: list[Tensor])", """
    check(not is_empty(tensors), "dstack: expects a non-empty TensorList")
    return cat([at_least(t, 3) for t in tensors], 2)
          """, names=("torch.dstack",), out="cast",
          doc="Joins along dim 2.",
          batch=FIXED_DIMS)
composite("column_stack(tensors: list[Tensor])", """
    check(not is_empty(tensors), "column_stack: expects a non-empty TensorList")
    return cat([reshape(t, [numel(t), 1]) if dim_of(t) <= 1 else t for t in tensors], 1)
          """, names=("torch.column_stack",), out="cast",
          doc="Joins vectors as columns.",
          batch=FIXED_DIMS)
composite("sum_to_size(input: Tensor, size: list[int])", """
    if length(size) == 0:
        return sum(input)
    check(length(size) <= dim_of(input) and
          broadcast_sizes(size, sizes(input), "sum_to_size") == sizes(input),
          "sum_to_size: size ", size, " is not expandable to size ", sizes(input))
    return sum_to(input, size)
          """, names=("Tensor.sum_to_size",), doc="Sums the dims that broadcast `size` to input.",
          batch=FIXED_DIMS, linear=True)
kernel("constant_pad_nd(input: Tensor, pad: list[int], value: Scalar = 0)",
       names=("torch.constant_pad_nd",),
       doc="Adds elements around (or, where negative, cuts them off): pad lists (before, after) "
           "from the last dim on.",
       grad={"input": "constant_pad_nd(grad, negated(pad), 0)"}, batch="leading")

# torch's names for the copies of what a view shows, and their gradients, which no view shares.
_VIEW_GRADIENTS = {
    "as_strided": "as_strided_backward(grad, meta_of(input), strides(input), offset(input), size, "
                  "stride, storage_offset)",
    "diagonal": "add_diagonal(accumulated, grad, sizes(input), offset, dim1, dim2)",
    "expand": "grad", "permute": "permute_backward(grad, dims)",
    "narrow": "add_slice(accumulated, grad, sizes(input), dim, start, start + length, 1)",
    "select": "add_select(accumulated, grad, sizes(input), dim, index)", "t": "t(grad)",
    "transpose": "transpose(grad, dim0, dim1)",
    "unfold": "unfold_backward(grad, sizes(input), dimension, size, step)",
    **dict.fromkeys(("squeeze", "squeeze__dim", "unsqueeze", "view"),
                    "reshape(grad, sizes(input))")}
for _view, _arguments, _samples in (
        ("as_strided", "size: list[int], stride: list[int], storage_offset: int | None = None",
         ("x(2, 3), (2, 2), (3, 1)",)),
        ("diagonal", "offset: int = 0, dim1: int = 0, dim2: int = 1", ()),
        ("expand", "size: list[int], *, implicit: bool = False", ("x(3), (2, 3)",)),
        ("narrow", "dim: int, start: int, length: int", ("x(2, 3), 1, 0, 2",)),
                                    ("permute", "dims: list[int]", ("x(2, 3), (1, 0)",)),
        ("select", "dim: int, index: int", ("x(2, 3), 1, 0",)), ("squeeze", "", ("x(2, 1, 3)",)),
        ("squeeze__dim", "dim: list[int, 1]", ("x(2, 1, 3), 1",)), ("t", "", ()),
                                    ("transpose", "dim0: int, dim1: int", ("x(2, 3), 0, 1",)),
        ("unfold", "dimension: int, size: int, step: int", ("x(5), 0, 2, 1",)),
                                    ("unsqueeze", "dim: int", ("x(2, 3), 0",)),
        ("view", "size: list[int]", ("x(2, 3), (3, 2)",))):
    _name, _, _overload = _view.partition("__")
    _parameters = _arguments.replace("*, ", "").replace("[int, 1]", "").split(", ")
    _names = [_a.split(":")[0] for _a in _parameters if _a]
    composite(f"{_name}_copy{_overload and '__' + _overload}(input: "
              f"Tensor{_arguments and ', ' + _arguments})",
              f"in_order({'reshape' if _name == 'view' else _name}"
              f"({', '.join(['input', *_names])}))",
              names=(f"torch.{_name}_copy",), out=True,
              node=f"{_name.title().replace('_', '')}Backward{int(bool(_overload))}_copy"
              if _name != "narrow" else "NarrowCopyBackward0",
              grad={"input": _VIEW_GRADIENTS[_view]},
              doc=f"A copy of what {_name} shows.", samples=_samples)
composite("alias_copy(input: Tensor)", "in_order(input)", names=("torch.alias_copy",), out="cast",
          node="AliasBackward0_copy", doc="A copy.")
composite("unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> list[Tensor]",
          "without_bases(chunk(input, chunks, dim))", node="UnsafeSplitBackward0",
          doc="At most `chunks` pieces of equal size; the last may be smaller.")
composite("unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> list[Tensor]",
          "without_bases(split(input, split_size, dim))", node="UnsafeSplitBackward0",
          doc="Pieces of split_size; the last may be smaller.")
