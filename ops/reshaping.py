"""Changes of a tensor's own shape, and questions about types."""
from ops.schema import FIXED_DIMS, composite

composite("squeeze_(input: Tensor)", """
    check_in_place_geometry(input, "squeeze_")
    return become(input, squeeze(input), "squeeze_")
          """, names=("Tensor.squeeze_",),
          doc="Drops the dims of size 1, in place.",
          batch="shape_in_place")
composite("squeeze___dim(input: Tensor, dim: list[int, 1])", """
    check_in_place_geometry(input, "squeeze_")
    return become(input, squeeze(input, dim), "squeeze_")
          """, names=("Tensor.squeeze_",),
          doc="Drops the given dims where their size is 1, in place.",
          batch="squeeze")
composite("unsqueeze_(input: Tensor, dim: int)", """
    check_in_place_geometry(input, "unsqueeze_")
    return become(input, unsqueeze(input, dim), "unsqueeze_")
          """, names=("Tensor.unsqueeze_",),
          doc="Inserts a dim of size 1, in place.",
          batch="shape_in_place")
composite("transpose_(input: Tensor, dim0: int, dim1: int)", """
    check_in_place_geometry(input, "transpose_")
    return become(input, transpose(input, dim0, dim1), "transpose_")
          """,
          names=("Tensor.transpose_", "Tensor.swapaxes_", "Tensor.swapdims_"),
          doc="Swaps two dims, in place.", batch="shape_in_place")
composite("t_(input: Tensor)", """
    check(dim_of(input) <= 2, "t_: expects a tensor with <= 2 dimensions, but self is ",
          dim_of(input),
          "D")
    return input if dim_of(input) < 2 else transpose_(input, 0, 1)
          """, names=("Tensor.t_",), doc="Transposes a matrix, in place.",
          batch="shape_in_place")
composite("as_strided_(input: Tensor, size: list[int], stride: list[int], storage_offset: int | "
          "None = None)", """
    check_in_place_geometry(input, "as_strided_")
    return become(input, as_strided(input, size, stride, storage_offset), "as_strided_")
          """,
          names=("torch.as_strided_", "Tensor.as_strided_"),
          doc="Looks at the storage with other sizes, strides and offset, in place.",
          batch="as_strided")
composite("resize_as_(input: Tensor, the_template: Tensor, *, memory_format: memory_format = None)",
          "resize_(input, sizes(the_template), format_like(the_template, memory_format))",
          names=("torch.resize_as_", "Tensor.resize_as_"),
          doc="Resizes to the shape of another tensor.", batch=FIXED_DIMS)
composite("broadcast_to(input: Tensor, size: list[int])", "expand(input, size)",
          doc="Broadcasts to a shape without copying.")
composite("zero_(input: Tensor)", "fill_(input, 0)", node="ZeroBackward0",
          names=("torch.zero_", "Tensor.zero_"),
          doc="Overwrites input with zeros.",
          batch="keeps_itself")
composite("fill_diagonal_(input: Tensor, fill_value: Scalar, wrap: bool = False)",
          names=("Tensor.fill_diagonal_",),
          doc="Overwrites the diagonal; of a tall matrix again and again if wrap.",
          batch=FIXED_DIMS)

composite("result_type(tensor: Tensor | Number, other: Tensor | Number) -> dtype",
          "common_dtype(tensor, other)",
          names=("torch.result_type",),
          doc="The dtype that arithmetic on both would have.", batch="metadata")
composite("promote_types(type1: dtype, type2: dtype) -> dtype",
          "promote(given(type1), given(type2))", names=("torch.promote_types",),
          doc="The smallest dtype that both convert to.")
composite("can_cast(from_: dtype, to: dtype) -> bool",
          "casts_to(given(from_), given(to))", names=("torch.can_cast",),
          doc="May a result of dtype from_ be written into dtype to?")
