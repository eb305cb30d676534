"""The updates of optimizers, over lists of parameters, gradients and states."""
from ops.schema import step

_AMP = "grad_scale: Tensor | None = None, found_inf: Tensor | None = None"


def _fused(name, states, numbers, doc, given, written, kernel=None):
    """`given`: what the kernel takes besides the slots; `written`: the states in these."""
    lists = ", ".join(f"{s}: list[Tensor]" for s in ["params", "grads", *states])
    step(f"_fused_{name}_({lists}, *, {numbers}, {_AMP}) -> None",
         names=(f"torch._fused_{name}_",), states=written,
         launch=f"fused_{kernel or name}(step.slots(), {{{given}}})",
         doc=f"{doc} Gradients are divided by grad_scale first; nothing happens where "
             f"found_inf is 1.")


_ADAM = ("lr: float, beta1: float, beta2: float, weight_decay: float, eps: float, amsgrad: bool, "
         "maximize: bool")
_ADAM_STATES = ["exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs", "state_steps"]

_fused("sgd", ["momentum_buffer_list"],
       "weight_decay: float, momentum: float, lr: float, dampening: float, nesterov: bool, "
       "maximize: bool, is_first_step: bool",
       "One step of SGD, in place.",
       "lr, momentum, dampening, weight_decay, nesterov, maximize, is_first_step",
       "momentum != 0 ? &momentum_buffer_list : nullptr")
_fused("adam", _ADAM_STATES, _ADAM, "One step of Adam, in place; state_steps count it already.",
       "lr, beta1, beta2, weight_decay, eps, false, amsgrad, maximize",
       "&exp_avgs, &exp_avg_sqs, amsgrad ? &max_exp_avg_sqs : nullptr")
_fused("adamw", _ADAM_STATES, _ADAM, "One step of AdamW, in place; state_steps count it already.",
       "lr, beta1, beta2, weight_decay, eps, true, amsgrad, maximize",
       "&exp_avgs, &exp_avg_sqs, amsgrad ? &max_exp_avg_sqs : nullptr", kernel="adam")
_fused("adagrad", ["state_sums", "state_steps"],
       "lr: float, lr_decay: float, weight_decay: float, eps: float, maximize: bool",
       "One step of Adagrad, in place; state_steps count it already.",
       "lr, lr_decay, weight_decay, eps, maximize",
       "&state_sums")
_fused("adadelta", ["square_avgs", "acc_deltas"],
       "lr: float, rho: float, eps: float, weight_decay: float, maximize: bool",
       "One step of Adadelta, in place.",
       "lr, rho, eps, weight_decay, maximize",
       "&square_avgs, &acc_deltas")
_fused("adamax", ["exp_avgs", "exp_infs", "state_steps"],
       "lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, maximize: bool",
       "One step of Adamax, in place; state_steps count it already.",
       "lr, beta1, beta2, eps, weight_decay, maximize",
       "&exp_avgs, &exp_infs")
_fused("nadam", ["exp_avgs", "exp_avg_sqs", "mu_products", "state_steps"],
       "lr: float, beta1: float, beta2: float, weight_decay: float, momentum_decay: float, eps: "
       "float, "
       "decoupled_weight_decay: bool, maximize: bool",
       "One step of NAdam, in place; state_steps and mu_products count it already.",
       "lr, beta1, beta2, weight_decay, momentum_decay, eps, decoupled_weight_decay, maximize, "
       "step.numbers(mu_products).data()",
       "&exp_avgs, &exp_avg_sqs")
_fused("radam", ["exp_avgs", "exp_avg_sqs", "state_steps"],
       "lr: float, beta1: float, beta2: float, weight_decay: float, eps: float, "
       "decoupled_weight_decay: bool, maximize: bool",
       "One step of RAdam, in place; state_steps count it already.",
       "lr, beta1, beta2, weight_decay, eps, decoupled_weight_decay, maximize",
       "&exp_avgs, &exp_avg_sqs")
_fused("rmsprop", ["square_avgs", "grad_avgs", "momentum_buffer_list"],
       "lr: float, alpha: float, eps: float, weight_decay: float, momentum: float, centered: bool, "
       "maximize: bool",
       "One step of RMSprop, in place; grad_avgs and momentum_buffer_list are empty where not "
       "used.",
       "lr, alpha, eps, weight_decay, momentum, centered, maximize",
       "&square_avgs, centered ? &grad_avgs : nullptr, momentum > 0 ? &momentum_buffer_list : "
       "nullptr")
_fused("rprop", ["prevs", "step_sizes"],
       "eta_minus: float, eta_plus: float, step_size_min: float, step_size_max: float, maximize: "
       "bool",
       "One step of Rprop, in place.",
       "eta_minus, eta_plus, step_size_min, step_size_max, maximize",
       "&prevs, &step_sizes")
_fused("asgd", ["axs", "mus", "etas"], "lambd: float, weight_decay: float, maximize: bool",
       "One step of ASGD, in place, with the mus and etas as they are.",
       "lambd, weight_decay, maximize, step.numbers(etas).data(), step.numbers(mus).data()",
       "&axs")
