"""Choosing elements by a condition."""
from ops.schema import OWN_PLACES, OWN_SIZES, composite, kernel

kernel("nonzero(input: Tensor)", names=("torch._nonzero",), out=True, ref="numpy.argwhere",
       doc="The places of elements that are not zero, a row each.",
       grad="positions have no gradient",
       batch="value")
composite("nonzero_tuple(input: Tensor) -> list[Tensor]",
          "unbind(nonzero(input if dim_of(input) > 0 else reshape(input, [1])), 1)",
          names=("torch._nonzero_tuple",),
          doc="The places of elements that are not zero, one tensor for each dim.", batch="value")
composite("argwhere(input: Tensor)", "nonzero(input)",
          doc="The places of elements that are not zero, a row each.",
          batch=OWN_SIZES)
composite("where__condition(condition: Tensor) -> list[Tensor]", "nonzero_tuple(condition)",
          names=("torch.where",),
          doc="The places where condition holds, one tensor for each dim.", batch="where")
composite("where_method(input: Tensor, condition: Tensor, other: Tensor | Number)",
          "where(condition, input, other)",
          names=("Tensor.where",), doc="Where condition holds input, else other.", batch="where")

kernel("masked_fill__tensor(input: Tensor, mask: Tensor, value: Tensor)", inplace=True,
       node="MaskedFillBackward1", doc="input with value where mask holds.",
       grad={"input": "masked_fill(grad, mask, 0)", "value": "sum(where(mask, grad, 0))"},
       batch="masked_fill")
kernel("masked_fill__value(input: Tensor, mask: Tensor, value: Scalar)", inplace=True,
       doc="input with value where mask holds.", grad={"input": "masked_fill(grad, mask, 0)"},
       batch="masked_fill")
kernel("masked_pick(input: Tensor, mask: Tensor)", node="MaskedSelectBackward0", names=(),
       called="masked_select",
       doc="masked_select of a mask in input's shape.",
       grad={"input": "masked_scatter(zeros_of(grad, sizes(input)), mask, grad)"})
composite("masked_select(input: Tensor, mask: Tensor)", """
    check(dtype(mask) == bool, "masked_select: expected BoolTensor for mask, got ", dtype(mask))
    common = broadcast_sizes(sizes(input), sizes(mask), "masked_select")
    return masked_pick(expanded(input, common), expanded(mask, common))
          """, out=True, node="MaskedSelectBackward0", inputs=("input",),
          doc="The elements where mask holds, as a vector.",
          batch="value")
kernel("masked_scatter(input: Tensor, mask: Tensor, source: Tensor)", inplace=True,
       doc="input with the elements of source, in order, where mask holds.",
       grad={"input": "masked_fill(grad, mask, 0)",
             "source": "masked_scatter_source(grad, mask, sizes(source))"},
       batch=OWN_PLACES)
