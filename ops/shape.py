"""Views: other windows on the same elements."""
from ops.schema import composite, kernel, view

view("as_strided(input: Tensor, size: list[int], stride: list[int], storage_offset: int | None = None)",
     doc="A view of the storage with the given sizes, strides and offset (in elements).",
     grad={"input": "as_strided_backward(grad, meta_of(input), strides(input), offset(input), size, stride, storage_offset)"})
view("transpose(input: Tensor, dim0: int, dim1: int)",
     names=("torch.transpose", "Tensor.transpose", "torch.swapaxes", "Tensor.swapaxes", "torch.swapdims", "Tensor.swapdims"),
     doc="Swaps two dims.", grad={"input": "transpose(grad, dim0, dim1)"})
view("permute(input: Tensor, dims: list[int])", doc="Reorders the dims.", grad={"input": "permute_backward(grad, dims)"})
view("expand(input: Tensor, size: list[int], *, implicit: bool = False)", names=("Tensor.expand",),
     doc="Broadcasts dims of size 1 to `size` without copying; -1 keeps a size.", grad={"input": "grad"})
view("view(input: Tensor, size: list[int])", names=("Tensor.view",),
     doc="The same elements under another shape; the strides must allow it.", grad={"input": "reshape(grad, sizes(input))"})
view("squeeze(input: Tensor)", doc="Drops the dims of size 1.", grad={"input": "reshape(grad, sizes(input))"})
view("squeeze__dim(input: Tensor, dim: list[int, 1])", doc="Drops the given dims where their size is 1.",
     grad={"input": "reshape(grad, sizes(input))"})
view("unsqueeze(input: Tensor, dim: int)", doc="Inserts a dim of size 1.", grad={"input": "reshape(grad, sizes(input))"})
view("select(input: Tensor, dim: int, index: int)", doc="Slice `index` of `dim`, which is dropped.",
     grad={"input": "select_backward(grad, sizes(input), dim, index)"})
view("slice(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1)", names=(),
     doc="Elements start, start + step, ... of `dim`.", grad={"input": "slice_backward(grad, sizes(input), dim, start, end, step)"})
view("diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1)",
     doc="The diagonal of two dims, as the last dim.", grad={"input": "diagonal_backward(grad, sizes(input), offset, dim1, dim2)"})
view("unfold(input: Tensor, dimension: int, size: int, step: int)", names=("Tensor.unfold",),
     doc="Windows of `size` elements along a dim, as a new last dim.",
     grad={"input": "unfold_backward(grad, sizes(input), dimension, size, step)"})
view("unbind(input: Tensor, dim: int = 0) -> list[Tensor]", doc="The slices along a dim.", grad={"input": "stack(grads, dim)"})
view("split_with_sizes(input: Tensor, split_sizes: list[int], dim: int = 0) -> list[Tensor]",
     doc="Consecutive pieces of the given sizes.", grad={"input": "cat(grads, dim)"})
composite("detach(input: Tensor)", doc="The same elements, outside the graph.", names=("torch.detach", "Tensor.detach"))
composite("reshape(input: Tensor, shape: list[int])", doc="The same elements under another shape: a view where possible, else a copy.")
composite("contiguous(input: Tensor, *, memory_format: memory_format = None)", names=("Tensor.contiguous",),
          doc="The tensor itself if its elements are in order, else an ordered copy.")
composite("expand_as(input: Tensor, other: Tensor)", "expand(input, sizes(other))", names=("Tensor.expand_as",),
          doc="Broadcasts to the shape of other.")

kernel("cat(tensors: list[Tensor], dim: int = 0)", names=("torch.cat", "torch.concat", "torch.concatenate"), out=True,
       doc="Joins tensors along a dim.", grad={"tensors": "cat_backward(grad, meta_of(tensors), dim)"})
kernel("stack(tensors: list[Tensor], dim: int = 0)", names=("torch.stack",), out=True,
       doc="Joins tensors along a new dim.", grad={"tensors": "unbind(grad, dim)"})

view("view_as_real(input: Tensor)", replay=True, doc="Real and imaginary parts as a last dim of size 2.",
     names=("torch.view_as_real",), grad={"input": "view_as_complex(contiguous(grad))"})
view("view_as_complex(input: Tensor)", replay=True, doc="A last dim of size 2 as complex numbers.",
     names=("torch.view_as_complex",), grad={"input": "view_as_real(contiguous(grad))"})
composite("real(input: Tensor)", doc="The real part; real tensors are returned as they are.", names=("torch.real",))
composite("imag(input: Tensor)", "select(view_as_real(input), -1, 1)", doc="The imaginary part, a view.", names=("torch.imag",))
kernel("flip(input: Tensor, dims: list[int, 1])", doc="Reverses the order along the given dims.",
       grad={"input": "flip(grad, dims)"}, ref="numpy.flip")
kernel("roll(input: Tensor, shifts: list[int, 1], dims: list[int, 1] = ())", doc="Moves elements along dims, wrapping around.",
       grad={"input": "roll(grad, negated(shifts), dims)"}, ref="numpy.roll")
kernel("tril(input: Tensor, diagonal: int = 0)", inplace=True, out=True, doc="The part on and below a diagonal, zeros elsewhere.",
       grad={"input": "tril(grad, diagonal)"}, ref="numpy.tril")
kernel("triu(input: Tensor, diagonal: int = 0)", inplace=True, out=True, doc="The part on and above a diagonal, zeros elsewhere.",
       grad={"input": "triu(grad, diagonal)"}, ref="numpy.triu")
