"""Softmax and losses."""
from ops.schema import FLOATING, composite, elementwise, function, kernel

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
# out = output * (g - sum(g * output)), differentiated by output.
function("softmax_second(grad: Tensor, grad_output: Tensor, output: Tensor, dim: int)", """
    inner = sum(grad_output * output, [dim], True)
    return grad * (grad_output - inner) - sum(grad * output, [dim], True) * grad_output
         """)
kernel("softmax_gradient(grad_output: Tensor, output: Tensor, dim: Dim)", names=(),
       shape="like(output)",
       launch="softmax_backward(converted(grad_output, output.dtype()), output, dim, out)",
       doc="Gradient of softmax from its output.",
       grad={"grad_output": "softmax_gradient(grad, output, dim)",
             "output": "softmax_second(grad, grad_output, output, dim)"}, batch="spread_dim")
kernel("log_softmax_gradient(grad_output: Tensor, output: Tensor, dim: Dim)", names=(),
       shape="like(output)",
       launch="log_softmax_backward(converted(grad_output, output.dtype()), output, dim, out)",
       doc="Gradient of log_softmax from its output.",
       grad={"grad_output": "grad - sum(grad * exp(output), [dim], True, None)",
             "output": "neg(grad * exp(output) * sum(grad_output, [dim], True, None))"},
       batch="spread_dim")

elementwise("mse_elements(input: Tensor, target: Tensor)", "(input - target) * (input - target)",
            node="MseLossBackward0", dtypes=FLOATING, called="mse_loss", names=(), loss=True,
            doc="Squared difference.", grad={"input": "2 * grad * (input - target)",
                                             "target": "2 * grad * (target - input)"})
elementwise("l1_elements(input: Tensor, target: Tensor)", "abs(input - target)",
            node="AbsBackward0", dtypes=FLOATING,
            called="l1_loss", names=(),
            doc="Absolute difference.", grad={"input": "grad * sgn(input - target)",
                                              "target": "grad * sgn(target - input)"})
elementwise("smooth_l1_elements(input: Tensor, target: Tensor, beta: float)",
            "where(abs(input - target) < beta, 0.5 * square(input - target) / beta, abs(input - "
            "target) - 0.5 * beta)",
            node="SmoothL1LossBackward0", dtypes=FLOATING,
            called="smooth_l1_loss", names=(), loss=True,
            doc="Squared difference below beta, absolute above.",
            grad={"input": "grad * where(input - target >= beta, 1, where(target - input >= beta, "
                           "-1, (input - target) / beta))",
                  "target": "grad * where(input - target >= beta, -1, where(target - input >= "
                            "beta, 1, (target - input) / beta))"})
elementwise("huber_elements(input: Tensor, target: Tensor, delta: float)",
            "where(abs(input - target) <= delta, 0.5 * square(input - target), delta * (abs(input "
            "- target) - 0.5 * delta))",
            node="HuberLossBackward0", dtypes=FLOATING, called="huber_loss", names=(), loss=True,
            doc="Squared difference below delta, linear above.",
            grad={"input": "grad * where(input - target >= delta, delta, where(target - input >= "
                           "delta, -delta, input - target))",
                  "target": "grad * where(input - target >= delta, -delta, where(target - input >= "
                            "delta, delta, target - input))"})
elementwise("bce_elements(input: Tensor, target: Tensor)",
            "neg(target * maximum(log(input), -100) + (1 - target) * maximum(log1p(-input), -100))",
            node="BinaryCrossEntropyBackward0", dtypes=FLOATING,
            called="binary_cross_entropy", names=(), loss=True,
            doc="Binary cross entropy, logarithms held above -100.",
            grad={"input": "grad * (input - target) / clamp_min((1 - input) * input, 1e-12)",
                  "target": "grad * (clamp_min(log1p(neg(input)), -100) - clamp_min(log(input), "
                            "-100))"})
elementwise("bce_plain_logits_elements(input: Tensor, target: Tensor)",
            "(1 - target) * input + log1pexp(neg(input))",
            node="BinaryCrossEntropyWithLogitsBackward0", dtypes=FLOATING,
            called="binary_cross_entropy_with_logits", names=(), loss=True,
            doc="Binary cross entropy of sigmoid(input).",
            grad={"input": "grad * (sigmoid(input) - target)", "target": "neg(grad * input)"})
elementwise("bce_logits_elements(input: Tensor, target: Tensor, pos_weight: Tensor)",
            "(1 - target) * input + (1 + (pos_weight - 1) * target) * log1pexp(neg(input))",
            node="BinaryCrossEntropyWithLogitsBackward0", dtypes=FLOATING,
            called="binary_cross_entropy_with_logits", names=(), loss=True,
            doc="Binary cross entropy of sigmoid(input), the positives weighted.",
            grad={"input": "grad * (1 - target - (1 + (pos_weight - 1) * target) * "
                           "sigmoid(neg(input)))",
                  "target": "grad * ((pos_weight - 1) * softplus(neg(input)) - input)",
                  "pos_weight": "grad * target * softplus(neg(input))"})
elementwise("kl_elements(input: Tensor, target: Tensor)", "xlogy(target, target) - target * input",
            node="SubBackward0", dtypes=FLOATING, called="kl_div", names=(),
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
          doc="Mean squared difference.", batch="element_loss", autocast="float32")
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
          batch="element_loss", autocast="float32")
# Weights do not widen a loss.
function("weighed_loss(elements: Tensor, weight: Tensor | None)",
         "elements if weight is None else to_dtype(elements * weight, dtype(elements))")
composite(f"binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, "
          f"{_REDUCE})", """
    check_value(sizes(input) == sizes(target), "Using a target size (", sizes(target),
                ") that is different to the input size (", sizes(input),
                ") is deprecated. Please ensure they have the same size.")
    check_probabilities("binary_cross_entropy", input)
    elements = bce_elements(input, target)
    return reduced_loss(weighed_loss(elements, weight),
                        reduction_name(size_average, reduce, reduction))
          """,
          names=("nn.functional.binary_cross_entropy",),
          doc="Cross entropy of probabilities and 0/1 targets.",
          batch="element_loss", autocast="float32", node="BinaryCrossEntropyBackward0",
          inputs=("input", "target"))
composite(f"binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None "
          f"= None, {_REDUCE}, "
          "pos_weight: Tensor | None = None)", """
    check_value(sizes(input) == sizes(target), "Target size (", sizes(target),
                ") must be the same as input size (", sizes(input), ")")
    elements = (bce_plain_logits_elements(input, target) if pos_weight is None
                else bce_logits_elements(input, target, to_dtype(pos_weight, dtype(input))))
    return reduced_loss(weighed_loss(elements, weight),
                        reduction_name(size_average, reduce, reduction))
          """,
          names=("nn.functional.binary_cross_entropy_with_logits",),
          doc="Cross entropy of sigmoid(input) and 0/1 targets.",
          batch="element_loss", autocast="float32", node="BinaryCrossEntropyWithLogitsBackward0",
          inputs=("input", "target"))
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

function("check_class_weight(op: name, weight: Tensor | None, classes: int) -> None", """
    if weight is not None:
        check(dim_of(weight) == 1 and numel(weight) == classes, op,
              ": weight tensor should be defined either for all ", classes,
              " classes or no classes but got weight tensor of shape ", sizes(weight))
         """)
# Scores, class targets and weights in the shapes and dtypes that kernels take.
function("class_targets(op: name, input: Tensor, target: Tensor, weight: Tensor | None) "
         "-> tuple[scores, targets, weights]", """
    check_value(dim_of(input) > 0, op, ": input must have at least one dim, got shape ",
                sizes(input))
    check(not is_recorded(weight), op,
          ": The function is not differentiable with respect to argument 'weight'. This input "
          "cannot have requires_grad True.")
    single = dim_of(input) == 1
    scores = unsqueeze(input, 0) if single else input
    targets = unsqueeze(target, 0) if single and dim_of(target) == 0 else target
    check_implemented(is_floating(input), op, ": not implemented for dtype ", dtype(input))
    check(dim_of(scores) > 1, op, ": expected classes in dim 1 of input")
    classes = sizes(scores)[1]
    expected = without_dim(sizes(scores), 1)
    target_batch = sizes(targets)[0] if dim_of(targets) > 0 else 0
    check_value(sizes(scores)[0] == target_batch, "Expected input batch_size (", sizes(scores)[0],
                ") to match target batch_size (", target_batch, ").")
    check(dtype(targets) == int64 or dtype(targets) == uint8, op,
          ": expected target dtype to be Long or Byte, but got ", dtype(target))
    check(sizes(targets) == expected, op, ": expected target size ", expected, ", got ",
          sizes(targets))
    check_class_weight(op, weight, classes)
    if weight is not None:
        check(dtype(weight) == dtype(input), op, ": expected weight of the input's dtype ",
              dtype(input), " but got ", dtype(weight))
    return scores, targets, None if weight is None else contiguous(weight)
         """)
function("loss_of_one(input: Tensor, loss: Tensor)",
         "without_base(squeeze(loss, [0])) if dim_of(input) == 1 and dim_of(loss) == 1 else loss")
_SUMS = "OutputSpec{target.sizes(), compute_dtype(input.dtype())}"
_LOSS_SIZES = 'reduction == "none" ? target.sizes() : Dims()'
kernel("nll_loss_kernel(input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, "
       "reduction: str) "
       "-> tuple[loss, total_weight]", names=(),
       node='NllLoss{input_sizes.size() > 2 ? "2D" : ""}Backward0',
       shape=f"each(OutputSpec{{{_LOSS_SIZES}, input.dtype()}}, OutputSpec{{{{}}, input.dtype()}})",
       launch="nll_loss(input, target, weight, ignore_index, reduction_of(reduction), loss, "
              "total_weight)",
       doc="Weighted negative of the target's log probability, (N, C, ...).",
       grad={"input": "nll_loss_gradient_kernel(grad, target, weight, ignore_index, reduction, "
                      "total_weight, sizes(input))"})
kernel("nll_loss_gradient_kernel(grad_output: Tensor, target: Tensor, weight: Tensor | None, "
       "ignore_index: int, reduction: str, "
       "total_weight: Tensor, size: list[int])", names=("torch._nll_loss_gradient",),
       doc="Gradient of nll_loss_kernel.", batch="nll_loss_gradient",
       shape="OutputSpec{size, total_weight.dtype()}",
       launch="nll_loss_backward(converted(grad_output, total_weight.dtype()), target, weight, "
              "ignore_index, reduction_of(reduction), total_weight, out)",
       grad={"grad_output": "nll_loss_kernel(grad, target, weight, ignore_index, reduction)[0]"})
composite("nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: "
          "bool | None = None, "
          "ignore_index: int = -100, reduce: bool | None = None, reduction: str = 'mean')", """
    scores, targets, weights = class_targets("nll_loss", input, target, weight)
    how = reduction_name(size_average, reduce, reduction)
    check_reduction(how)
    return loss_of_one(input, nll_loss_kernel(scores, targets, weights, ignore_index, how)[0])
          """,
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
# How much of each class a target is: the loss is the sum of goal * -log_softmax(input).
function("class_goals(input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, "
         "smoothing: float)", """
    classes = sizes(input)[1]
    by_class = channel_sizes(dim_of(input), classes)
    index = unsqueeze(to_dtype(target, int64), 1)
    numbers = view(arange(0, classes, 1, int64, strided, device(input)), by_class)
    hits = to_dtype(eq(numbers, index), dtype(input))
    goal = hits * (1 - smoothing) + float(smoothing) / float(classes)
    weighed = goal if weight is None else goal * view(weight, by_class)
    return masked_fill(weighed, eq(index, ignore_index), 0)
         """)
kernel("cross_entropy_slopes(grad_output: Tensor, input: Tensor, target: Tensor, "
       "weight: Tensor | None, largest: Tensor, sums: Tensor, total_weight: Tensor, "
       "ignore_index: int, reduction: str, label_smoothing: float)", names=(), shape="dense(input)",
       launch="cross_entropy_backward(CrossEntropyViews(input, target, weight, ignore_index, "
              "reduction_of(reduction), label_smoothing), converted(grad_output, input.dtype()), "
              "largest, sums, total_weight, out)",
       doc="Gradient of cross_entropy_kernel.", grad="cross_entropy_gradient composes it")
# total_weight is 0 where all targets are ignored.
function("cross_entropy_gradient(grad: Tensor, input: Tensor, target: Tensor, "
         "weight: Tensor | None, largest: Tensor, sums: Tensor, total_weight: Tensor, "
         "ignore_index: int, reduction: str, label_smoothing: float)", """
    if not grad_enabled():
        return cross_entropy_slopes(grad, input, target, weight, largest, sums, total_weight,
                                    ignore_index, reduction, label_smoothing)
    goal = class_goals(input, target, weight, ignore_index, label_smoothing)
    g = unsqueeze(grad, 1) if dim_of(grad) > 0 else grad
    if reduction == "mean":
        ignored = eq(unsqueeze(target, 1), ignore_index)
        g = where(ignored, 0, g / where(ignored, 1, total_weight))
    return g * (softmax(input, 1) * sum(goal, [1], True) - goal)
         """)
kernel("cross_entropy_kernel(input: Tensor, target: Tensor, weight: Tensor | None, "
       "ignore_index: int, reduction: str, label_smoothing: float) "
       "-> tuple[loss, largest, sums, total_weight]", node="NllLossBackward0", names=(),
       shape=f"each(OutputSpec{{{_LOSS_SIZES}, input.dtype()}}, {_SUMS}, {_SUMS}, "
             "OutputSpec{{}, compute_dtype(input.dtype())})",
       launch="cross_entropy(CrossEntropyViews(input, target, weight, ignore_index, "
              "reduction_of(reduction), label_smoothing), loss, largest, sums, total_weight)",
       doc="nll_loss of log_softmax for class targets, (N, C, ...).",
       grad={"input": "cross_entropy_gradient(grad, input, target, weight, largest, sums, "
                      "total_weight, ignore_index, reduction, label_smoothing)"})
# As torch's own C++ divides, whose nodes have another number than those of Python's.
composite("divided(input: Tensor, number: Scalar)", """
    return div(input, number)
          """, names=(), node="DivBackward1", doc="input / number.", batch="elementwise")
# Targets are probabilities of the classes.
function("soft_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None, "
         "ignore_index: int, reduction: str, smoothing: float)", """
    check(is_floating(target),
          "Expected floating point type for target with class probabilities, got ", dtype(target))
    check(ignore_index < 0,
          "cross_entropy: ignore_index is not supported for floating point target, got ",
          ignore_index)
    d = 0 if dim_of(input) == 1 else 1
    classes = size(input, d)
    check_class_weight("cross_entropy", weight, classes)
    goal = (target * (1 - smoothing) + float(smoothing) / float(classes) if smoothing > 0
            else target)
    likely = log_softmax(input, d) * goal
    if weight is not None:
        likely = likely * (weight if d == 0 else
                           view(weight, channel_sizes(dim_of(input), classes)))
    if reduction == "none":
        return neg(sum(likely, [d], False))
    loss = neg(sum(likely))
    if reduction == "mean":
        return divided(loss, numel(input) // classes if classes > 0 else 0)
    return loss
         """)
composite("cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, "
          "size_average: bool | None = None, "
          "ignore_index: int = -100, reduce: bool | None = None, reduction: str = 'mean', "
          "label_smoothing: float = 0.0)", """
    how = reduction_name(size_average, reduce, reduction)
    check_reduction(how)
    check_value(dim_of(input) > 0, "cross_entropy: input must have at least one dim, got shape ",
                sizes(input))
    if sizes(input) == sizes(target):
        return soft_cross_entropy(input, target, weight, ignore_index, how, label_smoothing)
    check(label_smoothing >= 0 and label_smoothing <= 1,
          "label_smoothing must be between 0.0 and 1.0. Got: ", label_smoothing)
    scores, targets, weights = class_targets("cross_entropy", input, target, weight)
    return loss_of_one(input, cross_entropy_kernel(scores, targets, weights, ignore_index, how,
                                                   label_smoothing)[0])
          """,
          names=("nn.functional.cross_entropy",),
          doc="nll_loss of log_softmax; class or probability targets.",
          batch="class_loss", autocast="float32")
