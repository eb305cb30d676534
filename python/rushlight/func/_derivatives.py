"""Derivatives by running the function on fresh inputs and asking autograd."""

import functools

import rushlight
from rushlight.func._vmap import lift
from rushlight.nn.utils import stateless
from rushlight.utils._pytree import tree_flatten, tree_unflatten


def functional_call(
    module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False
):
    """Call a module with other tensors in place of its parameters and buffers, given by name."""
    if isinstance(parameter_and_buffer_dicts, (list, tuple)):
        given = {name: t for group in parameter_and_buffer_dicts for name, t in group.items()}
    else:
        given = parameter_and_buffer_dicts
    args = () if args is None else args
    return stateless.functional_call(
        module, given, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def stack_module_state(models):
    """Parameters and buffers of modules of one kind, each stacked along a new first dim."""

    def stacked(states):
        states = [dict(s) for s in states]
        return {name: rushlight.stack([s[name].detach() for s in states]) for name in states[0]}

    parameters = {
        n: p.requires_grad_() for n, p in stacked([m.named_parameters() for m in models]).items()
    }
    return parameters, stacked([m.named_buffers() for m in models])


def _differentiable(args, argnums):
    """The arguments, with those of argnums as fresh inputs of the graph; and these inputs, flat."""
    args, inputs = list(args), []
    for n in (argnums,) if isinstance(argnums, int) else argnums:
        leaves, structure = tree_flatten(args[n])
        leaves = [lift(leaf) for leaf in leaves]
        fresh = [
            leaf.view_as(leaf) if leaf.requires_grad else leaf.detach().requires_grad_()
            for leaf in leaves
        ]
        inputs.append((fresh, structure))
        args[n] = tree_unflatten(fresh, structure)
    return args, inputs


def _gradients(output, inputs, cotangent=None):
    flat = [leaf for leaves, _ in inputs for leaf in leaves]
    outputs = list(output) if isinstance(output, (tuple, list)) else [output]
    weights = [None] * len(outputs) if cotangent is None else list(cotangent)
    moving = [
        (out, weight) for out, weight in zip(outputs, weights) if out.requires_grad
    ]  # the others are constants
    found = [None] * len(flat)
    if moving:
        found = rushlight.autograd.grad(
            [out for out, _ in moving],
            flat,
            [w for _, w in moving],
            create_graph=True,
            allow_unused=True,
        )
    found = iter([rushlight.zeros_like(leaf) if g is None else g for leaf, g in zip(flat, found)])
    return [
        tree_unflatten([next(found) for _ in leaves], structure) for leaves, structure in inputs
    ]


def _only_recorded(tree, args):
    """Results carry a graph only where an input did: of a nested transform."""
    if any(isinstance(t, rushlight.Tensor) and t.requires_grad for t in tree_flatten(args)[0]):
        return tree
    leaves, structure = tree_flatten(tree)
    return tree_unflatten(
        [t.detach() if isinstance(t, rushlight.Tensor) else t for t in leaves], structure
    )


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that returns the gradient of func's single number, and that number (with the rest,
    if has_aux)."""

    @functools.wraps(func)
    def derived(*args, **kwargs):
        with rushlight.enable_grad():
            given, inputs = _differentiable(args, argnums)
            output = func(*given, **kwargs)
            value, aux = output if has_aux else (output, None)
            if not isinstance(value, rushlight.Tensor) or value.numel() != 1 or value.dim() != 0:
                raise RuntimeError(
                    "grad: Expected f(*args) to return a scalar tensor, got a tensor or value of "
                    "another kind"
                )
            found = _gradients(value, inputs)
        result = found[0] if isinstance(argnums, int) else tuple(found)
        result, value, aux = _only_recorded((result, value, aux), args)
        return (result, (value, aux)) if has_aux else (result, value)

    return derived


def grad(func, argnums=0, has_aux=False):
    """A function that returns the gradient of func's single number with respect to its arguments of
    the given places."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def derived(*args, **kwargs):
        result, value = both(*args, **kwargs)
        return (result, value[1]) if has_aux else result

    return derived


def vjp(func, *primals, has_aux=False):
    """func(*primals), and a function that multiplies a cotangent with its Jacobian."""
    with rushlight.enable_grad():
        given, inputs = _differentiable(primals, tuple(range(len(primals))))
        output = func(*given)
        output, aux = output if has_aux else (output, None)
    leaves, _ = tree_flatten(output)

    def multiply(*cotangents):
        weights = tree_flatten(cotangents if len(cotangents) != 1 else cotangents[0])[0]
        with rushlight.enable_grad():
            found = tuple(_gradients(leaves, inputs, weights))
        return _only_recorded(found, (primals, cotangents))

    shown = _only_recorded(output, primals)
    return (shown, multiply, aux) if has_aux else (shown, multiply)


def _pushforward(func, primals, has_aux=False):
    """func(*primals), and a function that multiplies its Jacobian with tangents.

    u -> backward(u) is linear and its transpose is the Jacobian, so the derivative of that in the
    direction of the tangents is the product: one backward pass for each, after one that stays.
    """
    with rushlight.enable_grad():
        given, inputs = _differentiable(primals, tuple(range(len(primals))))
        output = func(*given)
        output, aux = output if has_aux else (output, None)
        leaves, structure = tree_flatten(output)
        weights = [rushlight.zeros_like(leaf).requires_grad_() for leaf in leaves]
        pulled = tree_flatten(_gradients(leaves, inputs, weights))[0]

    def push(*tangents):
        flat = tree_flatten(tangents)[0]
        used = [(g, t) for g, t in zip(pulled, flat) if g.requires_grad]
        products = [None] * len(leaves)
        if used:
            with rushlight.enable_grad():
                gradients, directions = zip(*used)
                products = rushlight.autograd.grad(
                    gradients, weights, directions, create_graph=True, allow_unused=True
                )
        products = [
            rushlight.zeros_like(leaf) if p is None else p for leaf, p in zip(leaves, products)
        ]
        return _only_recorded(tree_unflatten(products, structure), (primals, tangents))

    return _only_recorded(output, primals), push, _only_recorded(aux, primals)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """func(*primals), and its Jacobian times the tangents."""
    output, push, aux = _pushforward(func, primals, has_aux)
    return (output, push(*tangents), aux) if has_aux else (output, push(*tangents))


def linearize(func, *primals):
    """func(*primals), and a function that multiplies the Jacobian there with tangents, without
    running func again.

    Example:
        >>> value, push = rushlight.func.linearize(rushlight.square, rushlight.tensor(3.0))
        >>> push(rushlight.tensor(2.0))
        tensor(12.)
    """
    output, push, _ = _pushforward(func, primals)
    return output, push


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None):
    """A function that returns the Jacobian of func, row by row."""

    @functools.wraps(func)
    def derived(*args, **kwargs):
        with rushlight.enable_grad():
            given, inputs = _differentiable(args, argnums)
            output = func(*given, **kwargs)
            output, aux = output if has_aux else (output, None)
            leaves, structure = tree_flatten(output)
            jacobians = [_jacobian(leaf, inputs) for leaf in leaves]
        result = tree_unflatten(
            [j[0] if isinstance(argnums, int) else tuple(j) for j in jacobians], structure
        )
        result, aux = _only_recorded((result, aux), args)
        return (result, aux) if has_aux else result

    return derived


def _jacobian(output, inputs):
    rows = [tree_flatten(_gradients(element, inputs))[0] for element in output.reshape(-1).unbind()]
    flat = [leaf for leaves, _ in inputs for leaf in leaves]
    stacked = iter(
        [
            rushlight.stack(list(c)).reshape(*output.shape, *leaf.shape)
            for c, leaf in zip(zip(*rows), flat)
        ]
    )
    return [
        tree_unflatten([next(stacked) for _ in leaves], structure) for leaves, structure in inputs
    ]


def jacfwd(func, argnums=0, has_aux=False, *, chunk_size=None, randomness="error"):
    """A function that returns the Jacobian of func, column by column: for functions of few
    numbers."""
    places = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @functools.wraps(func)
    def derived(*args, **kwargs):
        def of_chosen(*chosen):
            given = list(args)
            for place, value in zip(places, chosen):
                given[place] = value
            return func(*given, **kwargs)

        primals = tuple(args[place] for place in places)
        output, push, aux = _pushforward(of_chosen, primals, has_aux)
        leaves, structure = tree_flatten(primals)
        columns = [_columns(push, leaves, structure, number) for number in range(len(leaves))]
        outputs, out_structure = tree_flatten(output)
        jacobians = []
        for k, out in enumerate(outputs):
            blocks = [
                _stacked([column[k] for column in of_leaf], out, leaf)
                for of_leaf, leaf in zip(columns, leaves)
            ]
            found = tree_unflatten(blocks, structure)
            jacobians.append(found[0] if isinstance(argnums, int) else found)
        result = tree_unflatten(jacobians, out_structure)
        return (result, aux) if has_aux else result

    return derived


def _columns(push, leaves, structure, number):
    """For each element of one leaf, how the outputs move with it."""
    columns = []
    for at in range(leaves[number].numel()):
        directions = [rushlight.zeros_like(leaf) for leaf in leaves]
        directions[number].reshape(-1)[at] = 1
        columns.append(tree_flatten(push(*tree_unflatten(directions, structure)))[0])
    return columns


def _stacked(columns, output, leaf):
    if not columns:
        return output.new_zeros((*output.shape, *leaf.shape))
    return rushlight.stack(columns, -1).reshape(*output.shape, *leaf.shape)


def hessian(func, argnums=0):
    """A function that returns the second derivatives of func."""
    return jacfwd(jacrev(func, argnums), argnums)
