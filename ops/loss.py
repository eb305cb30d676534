"""Softmax and losses."""
from ops.schema import FLOATING, composite, elementwise, kernel

for _name, _doc in (("softmax", "exp(input) / sum(exp(input)) along a dim."),
                    ("log_softmax", "log(softmax(input)) along a dim.")):
    kernel(f"{_name}_kernel(input: Tensor, dim: Dim)", names=(f"torch._{_name}",), doc=_doc,
           guard=f'check_floating("{_name}", input)', shape="dense(input)",
           launch=f"{_name}(input, dim, out)",
           node={"softmax": "SoftmaxBackward0", "log_softmax": "LogSoftmaxBackward0"}[_name],
           grad={"input": f"{_name}_gradient(grad, out, dim)"})
    composite(f"{_name}(input: Tensor, dim: int, dtype: dtype = None)",
              f"{_name}_kernel(to_dtype(input, dtype) if dtype is not None and given(dtype) != "
              "dtype(input) else input, dim)", out=True, doc=_doc,
              names=(f"torch.{_name}", f"Tensor.{_name}", f"special.{_name}"))
kernel("softmax_gradient(grad_output: Tensor, output: Tensor, dim: Dim)", names=(),
       shape="like(output)",
       launch="softmax_backward(converted(grad_output, output.dtype()), output, dim, out)",
       doc="Gradient of softmax from its output.",
       grad={"grad_output": "softmax_gradient(grad, output, dim)",
             "output": "softmax_second(grad, grad_output, output, dim)"})
kernel("log_softmax_gradient(grad_output: Tensor, output: Tensor, dim: Dim)", names=(),
       shape="like(output)",
       launch="log_softmax_backward(converted(grad_output, output.dtype()), output, dim, out)",
       doc="Gradient of log_softmax from its output.",
       grad={"grad_output": "grad - sum(grad * exp(output), [dim], True, None)",
             "output": "neg(grad * exp(output) * sum(grad_output, [dim], True, None))"})

elementwise("mse_elements(input: Tensor, target: Tensor)", "(input - target) * (input - target)",
            node="MseLossBackward0", dtypes=FLOATING, names=(), loss=True,
            doc="Squared difference.", grad={"input": "2 * grad * (input - target)",
                                             "target": "2 * grad * (target - input)"})
elementwise("l1_elements(input: Tensor, target: Tensor)", "abs(input - target)",
            node="AbsBackward0", dtypes=FLOATING,
            names=(),
            doc="Absolute difference.", grad={"input": "grad * sgn(input - target)",
                                              "target": "grad * sgn(target - input)"})
elementwise("smooth_l1_elements(input: Tensor, target: Tensor, beta: float)",
            "where(abs(input - target) < beta, 0.5 * square(input - target) / beta, abs(input - "
            "target) - 0.5 * beta)",
            node="SmoothL1LossBackward0", dtypes=FLOATING, names=(), loss=True,
            doc="Squared difference below beta, absolute above.",
            grad={"input": "grad * where(input - target >= beta, 1, where(target - input >= beta, "
                           "-1, (input - target) / beta))",
                  "target": "grad * where(input - target >= beta, -1, where(target - input >= "
                            "beta, 1, (target - input) / beta))"})
elementwise("huber_elements(input: Tensor, target: Tensor, delta: float)",
            "where(abs(input - target) <= delta, 0.5 * square(input - target), delta * (abs(input "
            "- target) - 0.5 * delta))",
            node="HuberLossBackward0", dtypes=FLOATING, names=(), loss=True,
            doc="Squared difference below delta, linear above.",
            grad={"input": "grad * where(input - target >= delta, delta, where(target - input >= "
                           "delta, -delta, input - target))",
                  "target": "grad * where(input - target >= delta, -delta, where(target - input >= "
                            "delta, delta, target - input))"})
elementwise("bce_elements(input: Tensor, target: Tensor)",
            "neg(target * maximum(log(input), -100) + (1 - target) * maximum(log1p(-input), -100))",
            node="BinaryCrossEntropyBackward0", dtypes=FLOATING, names=(), loss=True,
            doc="Binary cross entropy, logarithms held above -100.",
            grad={"input": "grad * (input - target) / clamp_min((1 - input) * input, 1e-12)",
                  "target": "grad * (clamp_min(log1p(neg(input)), -100) - clamp_min(log(input), "
                            "-100))"})
elementwise("bce_plain_logits_elements(input: Tensor, target: Tensor)",
            "(1 - target) * input + log1pexp(neg(input))",
            node="BinaryCrossEntropyWithLogitsBackward0", dtypes=FLOATING, names=(), loss=True,
            doc="Binary cross entropy of sigmoid(input).",
            grad={"input": "grad * (sigmoid(input) - target)", "target": "neg(grad * input)"})
elementwise("bce_logits_elements(input: Tensor, target: Tensor, pos_weight: Tensor)",
            "(1 - target) * input + (1 + (pos_weight - 1) * target) * log1pexp(neg(input))",
            node="BinaryCrossEntropyWithLogitsBackward0", dtypes=FLOATING, names=(), loss=True,
            doc="Binary cross entropy of sigmoid(input), the positives weighted.",
            grad={"input": "grad * (1 - target - (1 + (pos_weight - 1) * target) * "
                           "sigmoid(neg(input)))",
                  "target": "grad * ((pos_weight - 1) * softplus(neg(input)) - input)",
                  "pos_weight": "grad * target * softplus(neg(input))"})
elementwise("kl_elements(input: Tensor, target: Tensor)", "xlogy(target, target) - target * input",
            node="SubBackward0", dtypes=FLOATING, names=(),
            doc="target * (log(target) - input).",
            grad={"input": "neg(grad * target)",
                  "target": "grad * where(target == 0, 0, log(where(target == 0, 1, target)) + 1 - "
                            "input)"})
elementwise("xlogy(input: Tensor | Number, other: Tensor | Number)", "xlogy(input, other)",
            node={None: "XlogyBackward0", "input": "XlogyBackward1", "other": "XlogyBackward2"},
            result="float", dtypes=FLOATING,
            names=("torch.xlogy", "Tensor.xlogy", "special.xlogy"), inplace=True,
            doc="input * log(other), 0 where input is 0.",
            grad={"input": "where((input == 0) & (other <= 0), 0, xlogy(grad, other))",
                  "other": "grad * input / other"},
            ref="scipy.special.xlogy")

_REDUCE = "size_average: bool | None = None, reduce: bool | None = None, reduction: str = 'mean'"
composite("reduced_loss(elements: Tensor, reduction: str)", """
    check_reduction(reduction)
    if reduction == "none":
        return elements
    return reduced_by_node(elements, reduction == "mean")
          """, names=(), doc="The mean or the sum of a loss's elements, or these.")
# The mean of squared and absolute differences is that of as many as the weights sum up to.
composite("weighted_loss(elements: Tensor, input: Tensor, weight: Tensor | None, reduction: str)",
          """
    check_loss_weight(input, weight)
    if weight is None:
        return reduced_loss(elements, reduction)
    if reduction == "mean":
        return div(sum(elements * weight), sum(weight))
    return reduced_loss(elements * weight, reduction)
          """, names=(), doc="reduced_loss of weighted elements.")
composite(f"mse_loss(input: Tensor, target: Tensor, {_REDUCE}, weight: Tensor | None = None)", """
    reduction_used = reduction_name(size_average, reduce, reduction)
    return weighted_loss(mse_elements(input, target), input, weight, reduction_used)
          """,
          names=("nn.functional.mse_loss",),
          doc="Mean squared difference.", batch="element_loss", autocast="float32",
          node="MseLossBackward0")
composite(f"l1_loss(input: Tensor, target: Tensor, {_REDUCE}, weight: Tensor | None = None)", """
    elements = (l1_elements(input, target) if is_floating(input) and is_floating(target)
                else abs(input - target))
    return weighted_loss(elements, input, weight, reduction_name(size_average, reduce, reduction))
          """,
          names=("nn.functional.l1_loss",),
          doc="Mean absolute difference.", batch="element_loss", autocast="float32")
composite(f"smooth_l1_loss(input: Tensor, target: Tensor, {_REDUCE}, beta: float = 1.0)", """
    check(beta >= 0, "smooth_l1_loss does not support negative values for beta, got ", beta)
    elements = l1_elements(input, target) if beta == 0 else smooth_l1_elements(input, target, beta)
    return reduced_loss(elements, reduction_name(size_average, reduce, reduction))
          """,
          names=("nn.functional.smooth_l1_loss",),
          doc="Squared difference below beta, absolute above.",
          batch="element_loss", autocast="float32", node="SmoothL1LossBackward0")
composite("huber_loss(input: Tensor, target: Tensor, reduction: str = 'mean', delta: float = 1.0, "
          "weight: Tensor | None = None)", """
    check(delta > 0, "huber_loss does not support non-positive values for delta, got ", delta)
    elements = huber_elements(input, target, delta)
    check_loss_weight(input, weight)
    return reduced_loss(elements if weight is None else elements * weight, reduction)
          """,
          names=("nn.functional.huber_loss",), doc="Squared difference below delta, linear above.",
          batch="element_loss", autocast="float32", node="HuberLossBackward0")
composite(f"binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, "
          f"{_REDUCE})", """
    check_value(sizes(input) == sizes(target), "Using a target size (", sizes(target),
                ") that is different to the input size (", sizes(input),
                ") is deprecated. Please ensure they have the same size.")
    check_probabilities("binary_cross_entropy", input)
    elements = bce_elements(input, target)
    return reduced_loss(elements if weight is None else elements * weight,
                        reduction_name(size_average, reduce, reduction))
          """,
          names=("nn.functional.binary_cross_entropy",),
          doc="Cross entropy of probabilities and 0/1 targets.",
          batch="element_loss", autocast="float32", node="BinaryCrossEntropyBackward0")
composite(f"binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None "
          f"= None, {_REDUCE}, "
          "pos_weight: Tensor | None = None)", """
    check_value(sizes(input) == sizes(target), "Target size (", sizes(target),
                ") must be the same as input size (", sizes(input), ")")
    elements = (bce_plain_logits_elements(input, target) if pos_weight is None
                else bce_logits_elements(input, target, pos_weight))
    return reduced_loss(elements if weight is None else elements * weight,
                        reduction_name(size_average, reduce, reduction))
          """,
          names=("nn.functional.binary_cross_entropy_with_logits",),
          doc="Cross entropy of sigmoid(input) and 0/1 targets.",
          batch="element_loss", autocast="float32", node="BinaryCrossEntropyWithLogitsBackward0")
composite(f"kl_div(input: Tensor, target: Tensor, {_REDUCE}, log_target: bool = False)", """
    elements = exp(target) * (target - input) if log_target else kl_elements(input, target)
    name = reduction_name(size_average, reduce, reduction)
    if name == "mean":
        warn("kl_div: reduction 'mean' divides by the number of elements; 'batchmean', by the "
             "batch size, is the mean of the divergences")
    if name == "batchmean":
        return div(sum(elements), size(input, 0) if dim_of(input) > 0 else 1)
    return reduced_loss(elements, name)
          """,
          names=("nn.functional.kl_div",),
          doc="Kullback-Leibler divergence of target from exp(input).",
          batch="element_loss", autocast="float32")

kernel("nll_loss_kernel(input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, "
       "reduction: str) "
       "-> tuple[loss, total_weight]", names=(),
       node='NllLoss{input_meta_of.sizes.size() > 2 ? "2D" : ""}Backward0',
       doc="Weighted negative of the target's log probability, (N, C, ...).",
       grad={"input": "nll_loss_gradient(grad, target, weight, ignore_index, reduction, "
                      "total_weight, meta_of(input))"})
kernel("nll_loss_gradient_kernel(grad_output: Tensor, target: Tensor, weight: Tensor | None, "
       "ignore_index: int, reduction: str, "
       "total_weight: Tensor, size: list[int])", names=(), doc="Gradient of nll_loss_kernel.",
       grad={"grad_output": "nll_loss_kernel_first(grad, target, weight, ignore_index, reduction)"})
composite("nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: "
          "bool | None = None, "
          "ignore_index: int = -100, reduce: bool | None = None, reduction: str = 'mean')",
          names=("nn.functional.nll_loss",),
          doc="Negative log likelihood of class targets.", batch="class_loss", autocast="float32")
kernel("ctc_loss_kernel(log_probs: Tensor, labels: Tensor, input_lengths: list[int], "
       "target_lengths: list[int], blank: int) "
       "-> tuple[loss, alpha]", node="CtcLossBackward0", names=("torch._ctc_loss_of",),
       doc="-log of the probability of all alignments, (N), of padded labels (N, longest).",
       grad={"log_probs": "ctc_loss_gradient(grad, log_probs, labels, input_lengths, "
                          "target_lengths, blank, loss, alpha)"})
kernel("ctc_loss_gradient(grad_output: Tensor, log_probs: Tensor, labels: Tensor, input_lengths: "
       "list[int], "
       "target_lengths: list[int], blank: int, loss: Tensor, alpha: Tensor)", names=(),
       doc="Gradient of ctc_loss_kernel.",
       grad="ctc_loss has no second derivative")
kernel("cross_entropy_kernel(input: Tensor, target: Tensor, weight: Tensor | None, "
       "ignore_index: int, reduction: str, label_smoothing: float) "
       "-> tuple[loss, largest, sums, total_weight]", node="NllLossBackward0", names=(),
       doc="nll_loss of log_softmax for class targets, (N, C, ...).",
       grad={"input": "cross_entropy_gradient(grad, input, target, weight, largest, sums, "
                      "total_weight, ignore_index, reduction, label_smoothing)"})
composite("cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, "
          "size_average: bool | None = None, "
          "ignore_index: int = -100, reduce: bool | None = None, reduction: str = 'mean', "
          "label_smoothing: float = 0.0)",
          names=("nn.functional.cross_entropy",),
          doc="nll_loss of log_softmax; class or probability targets.",
          batch="class_loss", autocast="float32")
