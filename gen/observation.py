"""What a profile and the NaN trap see of an op: its name, and the call that they watch."""

from gen.signature import cxx_variable

# Where torch's profiler has another name than the row.
_NAMES = {
    "addmm_activation": "_addmm_activation",
    "attention_kernel": "_scaled_dot_product_flash_attention_for_cpu",
    "batch_norm_kernel": "native_batch_norm",
    "convolution_input": "convolution_backward_input",
    "convolution_weight": "convolution_backward_weight",
    "cross_entropy": "cross_entropy_loss",
    "embedding_gradient": "embedding_dense_backward",
    "group_norm_kernel": "native_group_norm",
    "layer_norm_kernel": "native_layer_norm",
    "linear_activation": "_linear_activation",
    "log_softmax_gradient": "_log_softmax_backward_data",
    "log_softmax_kernel": "_log_softmax",
    "nll_loss": "nll_loss_nd",
    "nll_loss_gradient_kernel": "nll_loss_backward",
    "nll_loss_kernel": "nll_loss_forward",
    "prelu_kernel": "_prelu_kernel",
    "softmax_gradient": "_softmax_backward_data",
    "softmax_kernel": "_softmax",
    "to_dtype": "_to_copy",
    "vector_norm": "linalg_vector_norm",
}

# Their results hold what memory held.
_UNINITIALIZED = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
    "resize_", "resize_as_",
}  # fmt: skip


# How the function of a row computes a batch of gradients, by the rule that the row has for vmap.
_SPREADS = {
    "elementwise": "Elementwise",
    "masked_fill": "Elementwise",
    "spread_leading": "Leading",
    "spread_merged": "Merged",
    "spread_images": "Images",
    "spread_channels": "Channels",
    "spread_dim": "Dim",
    "transpose": "Dims",
    "unsqueeze": "Dim",
    "expand": "Expand",
    "reshape": "View",
}


def is_observed(op):
    """A form of another op, such as one that may work in place, is seen as that op."""
    return not (op.row.kind == "composite" and op.name.startswith("functional_"))


def observed_name(op):
    if op.name in _NAMES:
        return _NAMES[op.name]
    kernel = op.name.endswith("_kernel")  # what an op of the same name computes with
    return "_" * kernel + op.name.removeprefix("functional_").removesuffix("_kernel")


def _elements(op):
    return "<Elements::Uninitialized>" if op.name in _UNINITIALIZED else ""


def observation(op, name, arguments, call):
    """The C++ of a call that is watched; `arguments`: pairs of a name and what is given."""
    given = ", ".join(f'{{"{n}", {value}}}' for n, value in arguments)
    body = f"[&]() -> decltype(auto) {{ return {call}; }}"
    return f'observe{_elements(op)}("{name}", {{{given}}}, {body})'


def observable(op, text, suffix="", out=False):
    """A function of a row, and one around it that asks whether it is watched.

    Args:
        text: the function, whose first line is its head.
        suffix: what follows the name of the op in that of the function.
        out: the first parameter is the caller's tensor.
    """
    if not is_observed(op):
        return text
    head, _, rest = text.partition("\n")
    function = f"{op.name if suffix == '_' else op.cxx_name}{suffix}"
    overload = op.full_name.removeprefix(op.name)  # each has a name of its own: it has no other use
    body = f"{function}{overload and '_' + overload}_body"
    parameters = [cxx_variable(p.name) for p in op.signature.parameters]
    names = [p.name for p in op.signature.parameters]
    if out:
        parameters, names = ["out", *parameters], ["out", *names]
    arguments = ", ".join(parameters)
    name = observed_name(op) + ("_" if suffix == "_" else "")
    given = "".join(f", {parameter}" for parameter in parameters)
    key = "!" if out else op.key(suffix == "_")
    name += "\\0" + key * (key != name)
    names = "\\0".join(names)  # all are shown, so that ops of the same types share the function
    rule = op.row.batch or ("elementwise" if op.row.kind == "elementwise" else None)
    how = _SPREADS.get(rule) if not (out or suffix) else None
    observe = f"observe_spread<Spread::{how}>" if how else f"observe{_elements(op)}"
    watched = f'{observe}("{name}", {body}, "{names}"{given})'
    inner = head.replace(f" {function}(", f" {body}(", 1)
    assert inner != head, head
    return "\n".join(
        [
            f"static {inner}",
            rest,
            head,
            f"  if (observed()) return {watched};",
            f"  return {body}({arguments});",
            "}",
        ]
    )
