"""Softmax and losses."""
from ops.schema import FLOATING, composite, elementwise, kernel

for _name, _doc in (("softmax", "exp(input) / sum(exp(input)) along a dim."), ("log_softmax", "log(softmax(input)) along a dim.")):
    kernel(f"{_name}_kernel(input: Tensor, dim: int)", names=(f"torch._{_name}",), doc=_doc,
           node={"softmax": "SoftmaxBackward0", "log_softmax": "LogSoftmaxBackward0"}[_name],
           grad={"input": f"{_name}_gradient(grad, out, dim)"})
    composite(f"{_name}(input: Tensor, dim: int, dtype: dtype = None)", out=True, doc=_doc,
              names=(f"torch.{_name}", f"Tensor.{_name}", f"special.{_name}"))
kernel("softmax_gradient(grad_output: Tensor, output: Tensor, dim: int)", names=(), doc="Gradient of softmax from its output.",
       grad={"grad_output": "softmax_gradient(grad, output, dim)",
             "output": "softmax_second(grad, grad_output, output, dim)"})
kernel("log_softmax_gradient(grad_output: Tensor, output: Tensor, dim: int)", names=(), doc="Gradient of log_softmax from its output.",
       grad={"grad_output": "grad - sum(grad * exp(output), [dim], True, None)",
             "output": "neg(grad * exp(output) * sum(grad_output, [dim], True, None))"})

elementwise("mse_elements(input: Tensor, target: Tensor)", "(input - target) * (input - target)", dtypes=FLOATING, names=(),
            doc="Squared difference.", grad={"input": "2 * grad * (input - target)", "target": "2 * grad * (target - input)"})
elementwise("l1_elements(input: Tensor, target: Tensor)", "abs(input - target)", dtypes=FLOATING, names=(),
            doc="Absolute difference.", grad={"input": "grad * sgn(input - target)", "target": "grad * sgn(target - input)"})
elementwise("smooth_l1_elements(input: Tensor, target: Tensor, beta: float)",
            "where(abs(input - target) < beta, 0.5 * square(input - target) / beta, abs(input - target) - 0.5 * beta)",
            dtypes=FLOATING, names=(), doc="Squared difference below beta, absolute above.",
            grad={"input": "where(abs(input - target) < beta, grad * (input - target) / beta, grad * sgn(input - target))",
                  "target": "where(abs(input - target) < beta, grad * (target - input) / beta, grad * sgn(target - input))"})
elementwise("huber_elements(input: Tensor, target: Tensor, delta: float)",
            "where(abs(input - target) <= delta, 0.5 * square(input - target), delta * (abs(input - target) - 0.5 * delta))",
            dtypes=FLOATING, names=(), doc="Squared difference below delta, linear above.",
            grad={"input": "where(abs(input - target) <= delta, grad * (input - target), grad * delta * sgn(input - target))",
                  "target": "where(abs(input - target) <= delta, grad * (target - input), grad * delta * sgn(target - input))"})
elementwise("bce_elements(input: Tensor, target: Tensor)",
            "neg(target * maximum(log(input), -100) + (1 - target) * maximum(log1p(-input), -100))", dtypes=FLOATING, names=(),
            doc="Binary cross entropy, logarithms held above -100.",
            grad={"input": "grad * (input - target) / clamp_min((1 - input) * input, 1e-12)",
                  "target": "grad * (clamp_min(log1p(neg(input)), -100) - clamp_min(log(input), -100))"})
elementwise("bce_logits_elements(input: Tensor, target: Tensor, pos_weight: Tensor)",
            "(1 - target) * input + (1 + (pos_weight - 1) * target) * log1pexp(neg(input))", dtypes=FLOATING, names=(),
            doc="Binary cross entropy of sigmoid(input), the positives weighted.",
            grad={"input": "grad * (1 - target - (1 + (pos_weight - 1) * target) * sigmoid(neg(input)))",
                  "target": "grad * ((pos_weight - 1) * softplus(neg(input)) - input)",
                  "pos_weight": "grad * target * softplus(neg(input))"})
elementwise("kl_elements(input: Tensor, target: Tensor)", "xlogy(target, target) - target * input", dtypes=FLOATING, names=(),
            doc="target * (log(target) - input).",
            grad={"input": "neg(grad * target)", "target": "where(target == 0, 0, grad * (log(target) + 1 - input))"})
elementwise("xlogy(input: Tensor | Number, other: Tensor | Number)", "xlogy(input, other)", result="float", dtypes=FLOATING,
            names=("torch.xlogy", "Tensor.xlogy", "special.xlogy"), inplace=True, doc="input * log(other), 0 where input is 0.",
            grad={"input": "where(input == 0, where(other <= 0, 0, grad * log(other)), grad * log(other))", "other": "grad * input / other"},
            ref="scipy.special.xlogy")

_REDUCE = "size_average: bool | None = None, reduce: bool | None = None, reduction: str = 'mean'"
composite(f"mse_loss(input: Tensor, target: Tensor, {_REDUCE}, weight: Tensor | None = None)", names=("nn.functional.mse_loss",),
          doc="Mean squared difference.")
composite(f"l1_loss(input: Tensor, target: Tensor, {_REDUCE}, weight: Tensor | None = None)", names=("nn.functional.l1_loss",),
          doc="Mean absolute difference.")
composite(f"smooth_l1_loss(input: Tensor, target: Tensor, {_REDUCE}, beta: float = 1.0)", names=("nn.functional.smooth_l1_loss",),
          doc="Squared difference below beta, absolute above.")
composite("huber_loss(input: Tensor, target: Tensor, reduction: str = 'mean', delta: float = 1.0, weight: Tensor | None = None)",
          names=("nn.functional.huber_loss",), doc="Squared difference below delta, linear above.")
composite(f"binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, {_REDUCE})",
          names=("nn.functional.binary_cross_entropy",), doc="Cross entropy of probabilities and 0/1 targets.")
composite(f"binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, {_REDUCE}, "
          "pos_weight: Tensor | None = None)", names=("nn.functional.binary_cross_entropy_with_logits",),
          doc="Cross entropy of sigmoid(input) and 0/1 targets.")
composite(f"kl_div(input: Tensor, target: Tensor, {_REDUCE}, log_target: bool = False)", names=("nn.functional.kl_div",),
          doc="Kullback-Leibler divergence of target from exp(input).")

kernel("nll_loss_kernel(input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str) "
       "-> tuple[loss, total_weight]", node="NllLossBackward0", names=(), doc="Weighted negative of the target's log probability, (N, C, ...).",
       grad={"input": "nll_loss_gradient(grad, target, weight, ignore_index, reduction, total_weight, meta_of(input))"})
kernel("nll_loss_gradient_kernel(grad_output: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, "
       "total_weight: Tensor, size: list[int])", names=(), doc="Gradient of nll_loss_kernel.",
       grad={"grad_output": "nll_loss_kernel_first(grad, target, weight, ignore_index, reduction)"})
composite("nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None, "
          "ignore_index: int = -100, reduce: bool | None = None, reduction: str = 'mean')", names=("nn.functional.nll_loss",),
          doc="Negative log likelihood of class targets.")
kernel("ctc_loss_kernel(log_probs: Tensor, labels: Tensor, input_lengths: list[int], target_lengths: list[int], blank: int) "
       "-> tuple[loss, alpha]", node="CtcLossBackward0", names=("torch._ctc_loss_of",),
       doc="-log of the probability of all alignments, (N), of padded labels (N, longest).",
       grad={"log_probs": "ctc_loss_gradient(grad, log_probs, labels, input_lengths, target_lengths, blank, loss, alpha)"})
kernel("ctc_loss_gradient(grad_output: Tensor, log_probs: Tensor, labels: Tensor, input_lengths: list[int], "
       "target_lengths: list[int], blank: int, loss: Tensor, alpha: Tensor)", names=(), doc="Gradient of ctc_loss_kernel.",
       grad="ctc_loss has no second derivative")
kernel("cross_entropy_kernel(input: Tensor, target: Tensor, weight: Tensor | None, "
       "ignore_index: int, reduction: str, label_smoothing: float) "
       "-> tuple[loss, largest, sums, total_weight]", node="NllLossBackward0", names=(),
       doc="nll_loss of log_softmax for class targets, (N, C, ...).",
       grad={"input": "cross_entropy_gradient(grad, input, target, weight, largest, sums, "
                      "total_weight, ignore_index, reduction, label_smoothing)"})
composite("cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None, "
          "ignore_index: int = -100, reduce: bool | None = None, reduction: str = 'mean', label_smoothing: float = 0.0)",
          names=("nn.functional.cross_entropy",), doc="nll_loss of log_softmax; class or probability targets.")
