"""Distances between rows."""
from ops.schema import FIXED_DIMS, composite, function, kernel

function("check_rows(op: name, x: Tensor, what: name) -> None", """
    check(is_floating(x), op, " only supports floating-point dtypes, ", what, " got: ", dtype(x))
         """)
# Of rows and ones beside their squares: |a|^2 + |b|^2 - 2 a b.
function("euclidean_distances(x1: Tensor, x2: Tensor)", """
    left = sum(square(x1), [-1], True)
    right = sum(square(x2), [-1], True)
    squares = matmul(cat([x1 * -2, left, ones_like(left)], -1),
                     transpose(cat([x2, ones_like(right), right], -1), -2, -1))
    if not is_recorded(squares):
        return sqrt_(clamp_min_(squares, 0))
    # Below 0 by rounding; the distance 0 has no slope, its gradient is 0.
    near = le(squares, 0)
    return where(near, 0, sqrt(where(near, 1, squares)))
         """)
# Made of differentiable ops: the gradient by a, less that by b, of distances of a - b. Where a
# distance is 0, the derivative of a quotient would be NaN, and not 0 for being masked.
function("difference_gradient(grad: Tensor, difference: Tensor, p: float, distance: Tensor)", """
    weight = unsqueeze(grad, -1)
    far = unsqueeze(distance, -1)
    if p == 1:
        return weight * sgn(difference)
    if p == inf:
        return weight * sgn(difference) * eq(abs(difference), far)
    none = eq(far, 0)
    divisor = where(none, 1, far)
    if p == 2:
        return difference * where(none, 0, weight / divisor)
    share = where(none, 0, weight / pow(divisor, p - 1))
    same = eq(difference, 0)
    distance_of_one = where(same, 1, abs(difference))
    return where(same, 0, share * sgn(difference) * pow(distance_of_one, p - 1))
         """)
kernel("cdist_slopes(grad_output: Tensor, distances: Tensor, a: Tensor, b: Tensor, p: float, "
       "by_columns: bool)", names=(), doc="The gradient of distances by the rows of a.",
       grad="cdist_gradients composes it", shape="dense(a)",
       launch="pair_distance_gradient(grad_output, distances, a, b, p, by_columns, out)")
function("cdist_gradients(grad: Tensor, x1: Tensor, x2: Tensor, p: float, out: Tensor, "
         "of_x1: bool, of_x2: bool) -> tuple[a, b]", """
    if p == 0:
        return zeros_like(x1), zeros_like(x2)
    if grad_enabled():
        g = difference_gradient(grad, unsqueeze(x1, -2) - unsqueeze(x2, -3), p, out)
        return (sum(g, [-2], False) if of_x1 else None,
                neg(sum(g, [-3], False)) if of_x2 else None)
    g = contiguous(grad)
    a = contiguous(x1)
    b = contiguous(x2)
    return (cdist_slopes(g, out, a, b, p, False) if of_x1 else None,
            cdist_slopes(g, out, b, a, p, True) if of_x2 else None)
         """)
kernel("pdist_slopes(grad_output: Tensor, distances: Tensor, rows: Tensor, p: float)", names=(),
       doc="The gradient of distances by the rows.", grad="pdist_gradient composes it",
       shape="dense(rows)",
       launch="own_distance_gradient(grad_output, distances, rows, p, out)")
function("pdist_gradient(grad: Tensor, input: Tensor, p: float, out: Tensor)", """
    if p == 0:
        return zeros_like(input)
    if not grad_enabled():
        return pdist_slopes(contiguous(grad), out, contiguous(input), p)
    n = size(input, 0)
    places = triu_indices(n, n, 1, None, device(input))
    first = select(places, 0, 0)
    second = select(places, 0, 1)
    difference = index_select(input, 0, first) - index_select(input, 0, second)
    g = difference_gradient(grad, difference, p, out)
    return index_add(index_add(zeros_like(input), 0, first, g, 1), 0, second, g, -1)
         """)

kernel("cdist_kernel(x1: Tensor, x2: Tensor, p: float)", names=(), node="CdistBackward0",
       shape="OutputSpec{with_matrix(batch_of(x1), x1.size(-2), x2.size(-2)), x1.dtype()}",
       launch="pair_distances(ops::contiguous(x1), ops::contiguous(x2), p, out)",
       doc="Distances of all pairs of rows, one of each; batches of one shape.",
       grad={"x1, x2": "cdist_gradients(grad, x1, x2, p, out, wants(x1), wants(x2))"})
composite("cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "
          "'use_mm_for_euclid_dist_if_necessary')", """
    check_rows("cdist", x1, "X1")
    check_rows("cdist", x2, "X2")
    check(dim_of(x1) >= 2, "cdist only supports at least 2D tensors, X1 got: ", dim_of(x1), "D")
    check(dim_of(x2) >= 2, "cdist only supports at least 2D tensors, X2 got: ", dim_of(x2), "D")
    always = compute_mode == "use_mm_for_euclid_dist"
    if_many = compute_mode == "use_mm_for_euclid_dist_if_necessary"
    check_value(always or if_many or compute_mode == "donot_use_mm_for_euclid_dist", compute_mode,
                " is not a valid value for compute_mode")
    check(size(x1, -1) == size(x2, -1),
          "X1 and X2 must have the same number of columns. X1: ", size(x1, -1), " X2: ",
          size(x2, -1))
    check(p >= 0, "cdist only supports non-negative p values")
    check(dtype(x1) == dtype(x2), "cdist: expected X1 and X2 to have the same dtype, got ",
          dtype(x1), " and ", dtype(x2))
    if p == 2 and (always or (if_many and max(size(x1, -2), size(x2, -2)) > 25)):
        return euclidean_distances(x1, x2)
    if is_reduced(dtype(x1)):
        return to(cdist(to(x1, float32), to(x2, float32), p, compute_mode), dtype(x1))
    a, b = with_common_batch("cdist", x1, x2)
    return cdist_kernel(a, b, p)
          """,
          names=("torch.cdist",), ref="scipy.spatial.distance.cdist",
          doc="(sum |a - b|^p)^(1/p) for each row a of x1 (..., n, d) and b of x2 (..., m, d); p = "
              "0 counts the elements that differ. "
              "Euclidean distances of more than 25 rows come from a matrix product, |a|^2 + |b|^2 "
              "- 2 a b, which loses digits where rows "
              "lie close together, unless compute_mode says otherwise: 'use_mm_for_euclid_dist' or "
              "'donot_use_mm_for_euclid_dist'.",
          batch="distances", autocast="float32")
kernel("pdist_kernel(input: Tensor, p: float)", names=(), node="PdistBackward0",
       shape="OutputSpec{Dims{number_of_pairs(input.size(0))}, input.dtype()}",
       launch="own_distances(ops::contiguous(input), p, out)",
       doc="Distances of all pairs of one matrix's rows.",
       grad={"input": "pdist_gradient(grad, input, p, out)"})
composite("pdist(input: Tensor, p: float = 2.0)", """
    check_rows("pdist", input, "input")
    check(dim_of(input) == 2, "pdist only supports 2D tensors, got: ", dim_of(input), "D")
    check(p >= 0, "pdist only supports non-negative p values")
    if is_reduced(dtype(input)):
        return to(pdist_kernel(to(input, float32), p), dtype(input))
    return pdist_kernel(input, p)
          """, names=("torch.pdist", "nn.functional.pdist"),
          doc="The p-norm distance of every pair of rows: (0, 1), (0, 2), ..., (n-2, n-1).",
          batch=FIXED_DIMS)
