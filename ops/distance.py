"""Distances between rows."""
from ops.schema import FIXED_DIMS, composite, kernel

kernel("cdist_kernel(x1: Tensor, x2: Tensor, p: float)", names=(), node="CdistBackward0",
       doc="Distances of all pairs of rows, one of each; batches of one shape.",
       grad={"x1, x2": "cdist_gradients(grad, x1, x2, p, out, wants(x1), wants(x2))"})
composite("cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "
          "'use_mm_for_euclid_dist_if_necessary')",
          names=("torch.cdist",), ref="scipy.spatial.distance.cdist",
          doc="(sum |a - b|^p)^(1/p) for each row a of x1 (..., n, d) and b of x2 (..., m, d); p = "
              "0 counts the elements that differ. "
              "Euclidean distances of more than 25 rows come from a matrix product, |a|^2 + |b|^2 "
              "- 2 a b, which loses digits where rows "
              "lie close together, unless compute_mode says otherwise: 'use_mm_for_euclid_dist' or "
              "'donot_use_mm_for_euclid_dist'.",
          batch="distances", autocast="float32")
kernel("pdist_kernel(input: Tensor, p: float)", names=(), node="PdistBackward0",
       doc="Distances of all pairs of one matrix's rows.",
       grad={"input": "pdist_gradient(grad, input, p, out)"})
composite("pdist(input: Tensor, p: float = 2.0)", names=("torch.pdist", "nn.functional.pdist"),
          doc="The p-norm distance of every pair of rows: (0, 1), (0, 2), ..., (n-2, n-1).",
          batch=FIXED_DIMS)
