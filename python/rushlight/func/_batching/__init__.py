"""How operations are computed for all examples of a mapped function at once."""

import rushlight
from rushlight import Tensor
from rushlight.func._batching import _indexing, _networks, _products  # noqa: F401  their rules
from rushlight.func._batching._elements import pointwise
from rushlight.func._batching._random import RANDOM, random
from rushlight.func._batching._rules import RULES, register, words
from rushlight.func._batching._views import transposed
from rushlight.utils._pytree import tree_flatten


def compute(level, func, args, kwargs):
    """`func` of the arguments, among which are stand-ins of the level and other tensors."""
    name = func.__name__
    if name == "__get__":
        name = func.__self__.__name__
        return _attribute(level, func, name, args)
    leaves = tree_flatten((args, kwargs))[0]
    mapped = [leaf for leaf in leaves if level.examples(leaf) is not None]
    if name in RANDOM:
        return random(level, func, name, args, kwargs, mapped)
    if not mapped:
        return func(*args, **kwargs)
    if name in _OF_ONE_VALUE:
        raise RuntimeError(
            f"vmap: It looks like you're calling {_OF_ONE_VALUE[name]} on a Tensor that has a "
            "value for each example: a program cannot depend on one; use torch.where, or map "
            "outside"
        )
    if name in _AS_THEY_ARE:
        return func(*args, **kwargs)
    if kwargs.get("out") is not None:
        raise RuntimeError(f"vmap: {name}() cannot write into out=")
    rule = getattr(func, "batching_rule", None) or RULES.get(name)
    result = NotImplemented if rule is None else rule(level, func, args, kwargs)
    if result is not NotImplemented:
        return result
    inner = getattr(func, "__wrapped__", None)  # written in Python: its operations have rules
    if inner is not None:
        return level.run_inside(inner, args, kwargs)
    return level.one_by_one(func, args, kwargs)


def pointwise_names():
    """The operations that are computed element by element."""
    return frozenset(name for name, rule in RULES.items() if rule is pointwise)


_OF_ONE_VALUE = {
    "item": ".item()", "__bool__": "bool() (as `if` does)", "__int__": "int()",
    "__float__": "float()", "__index__": "int()", "__complex__": "complex()", "tolist": ".tolist()",
    "numpy": ".numpy()", "__array__": "numpy.asarray()", "nonzero": "nonzero()",
    "_nonzero": "nonzero()", "_nonzero_tuple": "nonzero()",
    "masked_select": "masked_select()", "unique": "unique()", "allclose": "allclose()",
    "equal": "equal()", "__contains__": "`in`",
}  # fmt: skip
_AS_THEY_ARE = words(
    """
    size dim ndimension stride numel nelement is_floating_point is_complex is_contiguous
    storage_offset element_size get_device is_same_size __len__ data_ptr is_tensor
    is_inference is_conj is_neg result_type can_cast __format__ __hash__ is_shared
    """
)


def _attribute(level, func, name, args):
    examples = level.examples(args[0])
    if examples is None or name not in ("T", "mT", "H", "mH", "real", "imag", "data", "grad"):
        return func(*args)
    if name == "grad":
        return None if examples.grad is None else level.stand_in(examples.grad)
    if name in ("T", "H"):
        turned = transposed(None, examples, examples.dim() - 1)
        return level.stand_in(turned.conj() if name == "H" else turned)
    return level.stand_in(getattr(examples, name))


def _show(level, func, args, kwargs):
    return f"vmap: one of {level.size} examples\n{func(level.examples(args[0]))}"


register("__repr__ __str__", _show)


def _gradient(level, func, args, kwargs):
    """autograd.grad: of all examples at once, if each input has a value for each."""
    given = dict(zip(("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph"), args))
    given.update(kwargs)
    outputs, inputs, weights = (
        [value] if value is None or isinstance(value, Tensor) else list(value)
        for value in (given.pop("outputs"), given.pop("inputs"), given.pop("grad_outputs", None))
    )
    weights = weights if weights != [None] else [None] * len(outputs)
    sources = [level.examples(leaf) for leaf in inputs]
    batched = given.get("is_grads_batched")
    if any(found is None for found in sources):
        return _gradient_of_shared(level, func, outputs, inputs, weights, given)
    outputs = [level.all_examples(out) for out in outputs]
    if batched:  # then their batch comes before the examples
        weights = [None if w is None else level.all_examples(w).movedim(1, 0) for w in weights]
    else:
        weights = [
            rushlight.ones_like(out) if w is None else level.all_examples(w)
            for out, w in zip(outputs, weights)
        ]
    gradients = func(outputs, sources, weights, **given)
    return tuple(
        None if g is None else level.stand_in(g.movedim(1, 0) if batched else g) for g in gradients
    )


def _gradient_of_shared(level, func, outputs, inputs, weights, given):
    """One backward pass for each example, as all of them end in the same tensors."""
    create_graph = given.get("create_graph", False)
    retain = given.pop("retain_graph", None)
    retain = create_graph if retain is None else retain
    wholes = [level.examples(out) for out in outputs]
    sources = [leaf if (f := level.examples(leaf)) is None else f for leaf in inputs]
    found = []
    for i in range(level.size):
        roots = [out if f is None else f.select(0, i) for out, f in zip(outputs, wholes)]
        parts = [w if (f := level.examples(w)) is None else f.select(0, i) for w in weights]
        gradients = func(
            roots, sources, parts, retain_graph=retain or i < level.size - 1, **given
        )
        found.append([
            g if g is None or level.examples(leaf) is None else g.select(0, i)
            for g, leaf in zip(gradients, inputs)
        ])
    return tuple(
        None if column[0] is None else level.stand_in(rushlight.stack(column))
        for column in zip(*found)
    )


register("grad", _gradient)


def _backward(level, func, args, kwargs):
    raise RuntimeError("vmap: backward() cannot be called on a mapped tensor; use func.grad")


register("backward", _backward)
