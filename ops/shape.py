"""Views: other windows on the same elements."""
from ops.schema import FIXED_DIMS, OWN_PLACES, composite, kernel, view

view("as_strided(input: Tensor, size: list[int], stride: list[int], storage_offset: int | None = "
     "None)",
     doc="A view of the storage with the given sizes, strides and offset (in elements).",
     grad={"input": "as_strided_backward(grad, meta_of(input), strides(input), offset(input), "
                    "size, stride, storage_offset)"},
     batch="as_strided")
view("transpose(input: Tensor, dim0: int, dim1: int)",
     names=("torch.transpose", "Tensor.transpose", "torch.swapaxes", "Tensor.swapaxes",
            "torch.swapdims", "Tensor.swapdims"),
     doc="Swaps two dims.", grad={"input": "transpose(grad, dim0, dim1)"}, batch="transpose")
view("permute(input: Tensor, dims: list[int])", doc="Reorders the dims.",
     grad={"input": "permute_backward(grad, dims)"},
     batch="permute")
view("expand(input: Tensor, size: list[int], *, implicit: bool = False)", names=("Tensor.expand",),
     doc="Broadcasts dims of size 1 to `size` without copying; -1 keeps a size.",
     grad={"input": "grad"},
     batch="expand")
view("view(input: Tensor, size: list[int])", names=("Tensor.view",),
     doc="The same elements under another shape; the strides must allow it.",
     grad={"input": "reshape(grad, sizes(input))"},
     batch="reshape")
view("squeeze(input: Tensor)", doc="Drops the dims of size 1.",
     grad={"input": "reshape(grad, sizes(input))"},
     batch="squeeze")
view("squeeze__dim(input: Tensor, dim: list[int, 1])", node="SqueezeBackward1",
     doc="Drops the given dims where their size is 1.",
     grad={"input": "reshape(grad, sizes(input))"}, batch="squeeze")
view("unsqueeze(input: Tensor, dim: int)", doc="Inserts a dim of size 1.",
     grad={"input": "reshape(grad, sizes(input))"},
     batch="unsqueeze")
view("select(input: Tensor, dim: int, index: int)", doc="Slice `index` of `dim`, which is dropped.",
     grad={"input": "add_select(accumulated, grad, sizes(input), dim, index)"})
view("slice(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: "
     "int = 1)", names=(),
     doc="Elements start, start + step, ... of `dim`.",
     grad={"input": "add_slice(accumulated, grad, sizes(input), dim, start, end, step)"})
view("diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1)",
     doc="The diagonal of two dims, as the last dim.",
     grad={"input": "add_diagonal(accumulated, grad, sizes(input), offset, dim1, dim2)"},
     batch="diagonal")
view("unfold(input: Tensor, dimension: int, size: int, step: int)", names=("Tensor.unfold",),
     doc="Windows of `size` elements along a dim, as a new last dim.",
     grad={"input": "unfold_backward(grad, sizes(input), dimension, size, step)"})
view("unbind(input: Tensor, dim: int = 0) -> list[Tensor]", doc="The slices along a dim.",
     grad={"input": "stack(grads, dim)"})
view("split_with_sizes(input: Tensor, split_sizes: list[int], dim: int = 0) -> list[Tensor]",
     doc="Consecutive pieces of the given sizes.", grad={"input": "cat(grads, dim)"})
composite("detach(input: Tensor)", doc="The same elements, outside the graph.",
          names=("torch.detach", "Tensor.detach"),
          batch="leading")
composite("reshape(input: Tensor, shape: list[int])",
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

view("view_as_real(input: Tensor)", replay=True,
     doc="Real and imaginary parts as a last dim of size 2.",
     names=("torch.view_as_real",), grad={"input": "view_as_complex(contiguous(grad))"},
     batch="leading")
view("view_as_complex(input: Tensor)", replay=True, doc="A last dim of size 2 as complex numbers.",
     names=("torch.view_as_complex",), grad={"input": "view_as_real(contiguous(grad))"},
     batch="leading", autocast="float32")
composite("real(input: Tensor)", doc="The real part; real tensors are returned as they are.",
          names=("torch.real",),
          batch="elementwise")
composite("imag(input: Tensor)", "select(view_as_real(input), -1, 1)",
          doc="The imaginary part, a view.", names=("torch.imag",))
kernel("flip(input: Tensor, dims: list[int, 1])", doc="Reverses the order along the given dims.",
       shape="like(input)", launch='flip(input, distinct_dims("flip", input, dims), out)',
       grad={"input": "flip(grad, dims)"}, ref="numpy.flip")
kernel("roll(input: Tensor, shifts: list[int, 1], dims: list[int, 1] = ())",
       doc="Moves elements along dims, wrapping around.",
       grad={"input": "roll(grad, negated(shifts), dims)"}, ref="numpy.roll")
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

composite("flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1)",
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
     grad={"input": "view(grad, dtype(input))"}, batch="reshape", linear=False)
composite("unflatten(input: Tensor, dim: int, sizes: list[int])", doc="One dim as several.")
composite("chunk(input: Tensor, chunks: int, dim: int = 0) -> list[Tensor]",
          doc="At most `chunks` pieces of equal size; the last may be smaller.")
composite("split(input: Tensor, split_size: int, dim: int = 0) -> list[Tensor]",
          names=("Tensor.split",), doc="Pieces of split_size; the last may be smaller.")
composite("split__sizes(input: Tensor, split_size: list[int], dim: int = 0) -> list[Tensor]",
          "split_with_sizes(input, split_size, dim)",
          names=("Tensor.split",), doc="Pieces of the given sizes.")
composite("tensor_split(input: Tensor, sections: int, dim: int = 0) -> list[Tensor]",
          doc="Pieces as equal as can be.")
composite("tensor_split__indices(input: Tensor, indices: list[int], dim: int = 0) -> list[Tensor]",
          doc="Pieces cut at the given places.")
composite("tensor_split__tensor(input: Tensor, tensor_indices_or_sections: Tensor, dim: int = 0) "
          "-> list[Tensor]",
          doc="Pieces as equal as can be, or cut at the given places.",
          samples=("x(5, 2), fixed([1, 3], 'int64')", "x(2, 5), fixed(2, 'int64'), 1"),
          batch=OWN_PLACES)
composite("hsplit(input: Tensor, sections: int) -> list[Tensor]",
          "tensor_split(input, sections, hstack_dim(input))",
          doc="Pieces side by side.")
composite("hsplit__indices(input: Tensor, indices: list[int]) -> list[Tensor]",
          "tensor_split(input, indices, hstack_dim(input))",
          doc="Pieces side by side, cut at the given places.")
for _name, _dim in (("vsplit", 0), ("dsplit", 2)):
    composite(f"{_name}(input: Tensor, sections: int) -> list[Tensor]",
              f"tensor_split(input, sections, {_dim})",
              doc=f"Pieces of dim {_dim}.")
    composite(f"{_name}__indices(input: Tensor, indices: list[int]) -> list[Tensor]",
              f"tensor_split(input, indices, {_dim})",
              doc=f"Pieces of dim {_dim}, cut at the given places.")
composite("narrow(input: Tensor, dim: int, start: int, length: int)",
          doc="`length` elements of a dim from `start`.")
composite("narrow__tensor(input: Tensor, dim: int, start: Tensor, length: int)",
          doc="`length` elements of a dim from `start`.",
          batch=OWN_PLACES)
composite("movedim(input: Tensor, source: list[int, 1], destination: list[int, 1])",
          names=("torch.movedim", "Tensor.movedim", "torch.moveaxis", "Tensor.moveaxis"),
          doc="Moves dims to other places.",
          batch="movedim")
composite("repeat(input: Tensor, repeats: list[int])", names=("Tensor.repeat",),
          doc="Copies laid side by side, `repeats` along each dim.",
          batch="repeat")
composite("tile(input: Tensor, dims: list[int])",
          doc="repeat, with missing leading counts taken as 1.",
          batch="repeat")
composite("repeat_interleave(input: Tensor, repeats: int, dim: int | None = None, *, output_size: "
          "int | None = None)",
          doc="Each element (or slice of dim) `repeats` times in a row.")
composite("repeat_interleave__tensor(input: Tensor, repeats: Tensor, dim: int | None = None, *, "
          "output_size: int | None = None)",
          doc="Each element (or slice of dim) as often as repeats says.", batch=OWN_PLACES)
composite("repeat_interleave__counts(repeats: Tensor, *, output_size: int | None = None)",
          names=("torch.repeat_interleave",),
          doc="0, 1, ... each as often as repeats says.", batch=OWN_PLACES)
composite("diag(input: Tensor, diagonal: int = 0)", out=True,
          doc="The diagonal of a matrix, or a matrix with the given diagonal.",
          batch=FIXED_DIMS)
composite("diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1)",
          doc="Matrices with the last dim on a diagonal.",
          batch="diag_embed", linear=True)
composite("diagflat(input: Tensor, offset: int = 0)", "diag(reshape(input, [-1]), offset)",
          doc="A matrix with all elements on a diagonal.",
          linear=True)
composite("fliplr(input: Tensor)", doc="Reverses dim 1.", batch=FIXED_DIMS, linear=True)
composite("flipud(input: Tensor)", doc="Reverses dim 0.", batch=FIXED_DIMS, linear=True)
composite("rot90(input: Tensor, k: int = 1, dims: list[int] = (0, 1))",
          doc="Turns a plane by k right angles.",
          linear=True)
composite("hstack(tensors: list[Tensor])", names=("torch.hstack",), out="cast",
          doc="Joins side by side.",
          batch=FIXED_DIMS)
composite("vstack(tensors: list[Tensor])", names=("torch.vstack", "torch.row_stack"), out="cast",
          doc="Joins on top of each other.",
          batch=FIXED_DIMS)
composite("dstack(tensors: list[Tensor])", names=("torch.dstack",), out="cast",
          doc="Joins along dim 2.",
          batch=FIXED_DIMS)
composite("column_stack(tensors: list[Tensor])", names=("torch.column_stack",), out="cast",
          doc="Joins vectors as columns.",
          batch=FIXED_DIMS)
composite("sum_to_size(input: Tensor, size: list[int])", "sum_to(input, size)",
          names=("Tensor.sum_to_size",), doc="Sums the dims that broadcast `size` to input.",
          batch=FIXED_DIMS, linear=True)
kernel("constant_pad_nd(input: Tensor, pad: list[int], value: Scalar = 0)",
       names=("torch.constant_pad_nd",),
       doc="Adds elements around (or, where negative, cuts them off): pad lists (before, after) "
           "from the last dim on.",
       grad={"input": "constant_pad_nd(grad, negated(pad), 0)"}, batch="leading")

# torch's names for the copies of what a view shows.
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
              doc=f"A copy of what {_name} shows.", samples=_samples)
composite("alias_copy(input: Tensor)", "in_order(input)", names=("torch.alias_copy",), out="cast",
          doc="A copy.")
composite("unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> list[Tensor]",
          doc="At most `chunks` pieces of equal size; the last may be smaller.")
composite("unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> list[Tensor]",
          doc="Pieces of split_size; the last may be smaller.")
