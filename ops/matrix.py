"""Products of matrices and vectors."""
from ops.schema import composite, kernel

kernel("mm(input: Tensor, mat2: Tensor)", out=True, doc="Product of two matrices, (n, k) by (k, m).",
       grad={"input": "mm(grad, conj(t(mat2)))", "mat2": "mm(conj(t(input)), grad)"})
composite("t(input: Tensor)", doc="Transpose of a matrix; vectors are returned as they are.",
          names=("torch.t", "Tensor.t"))
