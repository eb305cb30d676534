"""The networks of examples/models in plain JAX, one jitted function to train and one to infer.

Weights come from torch's model, so that both compute the same; images lie channels last, and
kernels (H, W, in, out), which XLA's CPU code prefers.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

MOMENTUM, EPSILON = 0.1, 1e-5  # of batch norm


class Pass:
    """One pass through a network: its arrays by torch's names, and a key if it trains."""

    def __init__(self, arrays, key=None):
        self.arrays, self.key = arrays, key
        self.changed = {}  # running statistics

    def __call__(self, name):
        return self.arrays[name]

    def linear(self, name, x):
        y = x @ self(f"{name}.weight").T
        return y + self(f"{name}.bias") if f"{name}.bias" in self.arrays else y

    def convolution(self, name, x, stride=1, padding=0, groups=1):
        y = lax.conv_general_dilated(
            x, self(f"{name}.weight"), (stride, stride), [(padding, padding)] * 2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups)
        return y + self(f"{name}.bias") if f"{name}.bias" in self.arrays else y

    def batch_norm(self, name, x):
        mean, var = self(f"{name}.running_mean"), self(f"{name}.running_var")
        if self.key is not None:
            count = x.size // x.shape[-1]
            running = mean, var
            mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
            for key, old, new in zip(("running_mean", "running_var"), running,
                                     (mean, var * (count / (count - 1)))):
                self.changed[f"{name}.{key}"] = (1 - MOMENTUM) * old + MOMENTUM * new
        scale = lax.rsqrt(var + EPSILON) * self(f"{name}.weight")
        return (x - mean) * scale + self(f"{name}.bias")

    def layer_norm(self, name, x):
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(var + 1e-5) * self(f"{name}.weight") + self(f"{name}.bias")

    def dropout(self, x, p):
        if self.key is None:
            return x
        self.key, key = jax.random.split(self.key)
        return jnp.where(jax.random.bernoulli(key, 1 - p, x.shape), x / (1 - p), 0)

    def lstm(self, name, x, suffix="", reverse=False):
        """x (T, N, width) through one direction of a layer."""
        w = self(f"{name}.weight_hh_l0{suffix}").T
        bias = self(f"{name}.bias_ih_l0{suffix}") + self(f"{name}.bias_hh_l0{suffix}")
        gates = x @ self(f"{name}.weight_ih_l0{suffix}").T + bias

        def step(state, gate):
            h, c = state
            i, f, g, o = jnp.split(gate + h @ w, 4, 1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((x.shape[1], w.shape[0]))
        return lax.scan(step, (zeros, zeros), gates, reverse=reverse)[1]


def max_pool(x, size, stride, padding=0):
    around = (0, 0), (padding, padding), (padding, padding), (0, 0)
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, size, size, 1), (1, stride, stride, 1),
                             around)


def flatten(x):
    """(N, H, W, C) to (N, C * H * W), torch's order."""
    return x.transpose(0, 3, 1, 2).reshape(len(x), -1)


# ---- the networks


def mlp(net, x):
    return net.linear("2", jax.nn.relu(net.linear("0", x)))


def lenet(net, x):
    x = jax.nn.relu(net.convolution("features.0", x, padding=1))
    x = max_pool(jax.nn.relu(net.convolution("features.2", x, padding=1)), 2, 2)
    x = max_pool(jax.nn.relu(net.convolution("features.5", x, padding=1)), 2, 2)
    x = jax.nn.relu(net.linear("classifier.2", net.dropout(flatten(x), 0.3)))
    return net.linear("classifier.4", x)


def alexnet(net, x):
    for name, stride, padding, pooled in [(0, 4, 2, True), (3, 1, 2, True), (6, 1, 1, False),
                                          (8, 1, 1, False), (10, 1, 1, True)]:
        x = jax.nn.relu(net.convolution(f"features.{name}", x, stride, padding))
        x = max_pool(x, 3, 2) if pooled else x
    return classify(net, net.dropout(flatten(x), 0.5), (2, 5, 7))


def vgg(net, x):
    name = 0
    for repeats in (2, 2, 4, 4, 4):
        for _ in range(repeats):
            x = jax.nn.relu(net.convolution(f"features.{name}", x, padding=1))
            name += 2
        x, name = max_pool(x, 2, 2), name + 1
    return classify(net, flatten(x), (1, 4, 7))


def classify(net, x, names):
    first, second, third = (f"classifier.{name}" for name in names)
    x = net.dropout(jax.nn.relu(net.linear(first, x)), 0.5)
    x = jax.nn.relu(net.linear(second, x))
    return net.linear(third, x if names[0] == 2 else net.dropout(x, 0.5))


def normed(net, name, x, kernel, stride=1, groups=1):
    x = net.convolution(f"{name}.0", x, stride, kernel // 2, groups)
    return net.batch_norm(f"{name}.1", x)


def resnet(net, x):
    x = max_pool(jax.nn.relu(normed(net, "stem.0", x, 7, 2)), 3, 2, 1)
    block = 0
    for repeats, stride in [(3, 1), (4, 2), (6, 2), (3, 2)]:
        for i in range(repeats):
            name, s = f"blocks.{block}", stride if i == 0 else 1
            y = jax.nn.relu(normed(net, f"{name}.reduce", x, 1))
            y = jax.nn.relu(normed(net, f"{name}.middle", y, 3, s))
            y = normed(net, f"{name}.expand", y, 1)
            x = jax.nn.relu(y + (normed(net, f"{name}.shortcut", x, 1, s) if i == 0 else x))
            block += 1
    return net.linear("head.2", x.mean((1, 2)))


def mobilenet(net, x):
    x = jax.nn.relu6(normed(net, "features.0", x, 3, 2))
    block = 1
    for expansion, repeats, stride in [(1, 1, 1), (6, 2, 2), (6, 3, 2), (6, 4, 2), (6, 3, 1),
                                       (6, 3, 2), (6, 1, 1)]:
        for i in range(repeats):
            name, place, y = f"features.{block}.layers", 0, x
            if expansion > 1:
                y, place = jax.nn.relu6(normed(net, f"{name}.0", y, 1)), 1
            y = normed(net, f"{name}.{place}", y, 3, stride if i == 0 else 1, y.shape[-1])
            y = net.convolution(f"{name}.{place + 1}", jax.nn.relu6(y))
            y = net.batch_norm(f"{name}.{place + 2}", y)
            x = x + y if i > 0 else y
            block += 1
    x = jax.nn.relu6(normed(net, f"features.{block}", x, 1)).mean((1, 2))
    return net.linear("classifier.3", net.dropout(x, 0.2))


def ncf(net, users, items):
    product = net("user_factors.weight")[users] * net("item_factors.weight")[items]
    x = jnp.concatenate([net("user_features.weight")[users], net("item_features.weight")[items]], 1)
    for name in (0, 2, 4):
        x = jax.nn.relu(net.linear(f"perceptron.{name}", x))
    return net.linear("output", jnp.concatenate([product, x], 1))[:, 0]


def gpt(net, tokens, heads=6, layers=4, p=0.1):
    batch, length = tokens.shape
    causal = jnp.tril(jnp.ones((length, length), bool))
    x = net.dropout(net("tokens.weight")[tokens] + net("places.weight")[:length], p)
    for name in (f"blocks.{i}" for i in range(layers)):
        q, k, v = (
            t.reshape(batch, length, heads, -1).transpose(0, 2, 1, 3) for t in
            jnp.split(net.linear(f"{name}.attend", net.layer_norm(f"{name}.norm1", x)), 3, 2))
        weights = q @ k.swapaxes(2, 3) / q.shape[-1] ** 0.5
        weights = net.dropout(jax.nn.softmax(jnp.where(causal, weights, -jnp.inf)), p)
        y = (weights @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        x = x + net.dropout(net.linear(f"{name}.project", y), p)
        y = net.linear(f"{name}.perceptron.0", net.layer_norm(f"{name}.norm2", x))
        y = net.linear(f"{name}.perceptron.2", jax.nn.gelu(y, approximate=False))
        x = x + net.dropout(y, p)
    return net.layer_norm("norm", x) @ net("tokens.weight").T


def gnmt(net, source, target, layers=4, p=0.2):
    x = net.dropout(net("encoder.embedding.weight")[source], p)
    x = jnp.concatenate([net.lstm("encoder.first", x),
                         net.lstm("encoder.first", x, "_reverse", reverse=True)], 2)
    for i in range(layers - 1):
        y = net.lstm(f"encoder.rest.{i}", net.dropout(x, p))
        x = y if i == 0 else x + y
    states = x.swapaxes(0, 1)
    x = net.lstm("decoder.first", net.dropout(net("decoder.embedding.weight")[target], p))
    query = net.linear("decoder.attention.query", x).swapaxes(0, 1)[:, :, None]
    key = net.linear("decoder.attention.key", states)[:, None]
    scores = net.linear("decoder.attention.score", jnp.tanh(query + key))[..., 0]
    context = (jax.nn.softmax(scores) @ states).swapaxes(0, 1)
    for i in range(layers - 1):
        y = net.lstm(f"decoder.rest.{i}", net.dropout(jnp.concatenate([x, context], 2), p))
        x = y if i == 0 else x + y
    return net.linear("decoder.output", net.dropout(x, p))


NETWORKS = {f.__name__: f for f in (mlp, lenet, alexnet, vgg, resnet, mobilenet, ncf, gpt, gnmt)}
WITHOUT_DROPOUT = ("mlp", "resnet", "ncf")  # torch and JAX would not draw the same

# ---- losses and optimizers


def cross_entropy(scores, labels):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(scores), labels[..., None], -1)
    return -chosen.mean()


def squares(out, y):
    return ((out - y) ** 2).mean()


def logistic(scores, liked):
    return (jax.nn.softplus(scores) - scores * liked).mean()


LOSSES = {"mlp": squares, "ncf": logistic}


def adam(weights, grads, state, rate=1e-4, beta1=0.9, beta2=0.999, epsilon=1e-8):
    step, first, second = state
    step = step + 1
    first = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, first, grads)
    second = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g * g, second, grads)
    size, root = rate / (1 - beta1**step), jnp.sqrt(1 - beta2**step)
    weights = jax.tree.map(
        lambda w, m, v: w - size * m / (jnp.sqrt(v) / root + epsilon), weights, first, second)
    return weights, (step, first, second)


def momentum(weights, grads, state, rate=0.001, factor=0.9):
    state = jax.tree.map(lambda m, g: factor * m + g, state, grads)
    return jax.tree.map(lambda w, m: w - rate * m, weights, state), state


class JaxSubject:
    """A case in JAX, with the weights, inputs and targets of one in torch."""

    def __init__(self, source, reference, uses_adam):
        network, loss = NETWORKS[source], LOSSES.get(source, cross_entropy)
        self.source = source
        self.weights = {n: to_jax(w, KERNEL) for n, w in reference.model.named_parameters()}
        self.buffers = {n: to_jax(b) for n, b in reference.model.named_buffers()}
        self.inputs = [to_jax(x, IMAGES) for x in reference.inputs]
        self.target = to_jax(reference.target)
        zeros = jax.tree.map(jnp.zeros_like, self.weights)
        self.state = (jnp.zeros(()), zeros, jax.tree.map(jnp.copy, zeros)) if uses_adam else zeros
        self.key = jax.random.key(0)
        update = adam if uses_adam else momentum

        def evaluate(weights, buffers, key, inputs, target):
            net = Pass({**weights, **buffers}, key)
            return loss(network(net, *inputs), target), {**buffers, **net.changed}

        def step(weights, buffers, state, key, inputs, target):
            key, own = jax.random.split(key)
            (value, buffers), grads = jax.value_and_grad(evaluate, has_aux=True)(
                weights, buffers, own, inputs, target)
            return *update(weights, grads, state), buffers, key, value

        self.step = jax.jit(step, donate_argnums=(0, 1, 2, 3))
        self.score = jax.jit(lambda arrays, inputs: network(Pass(arrays), *inputs))

    def train(self):
        self.weights, self.state, self.buffers, self.key, loss = self.step(
            self.weights, self.buffers, self.state, self.key, self.inputs, self.target)
        return loss.block_until_ready()

    def infer(self):
        return self.score({**self.weights, **self.buffers}, self.inputs).block_until_ready()

    def check(self, reference):
        """Both programs must infer the same and, but for dropout, learn the same."""
        expected = reference.infer().numpy()
        np.testing.assert_allclose(self.infer(), expected, rtol=1e-3, atol=1e-3)
        if self.source in WITHOUT_DROPOUT:
            for _ in range(2):  # the second tells of gradients; rounding grows with each
                expected = reference.train().item()
                np.testing.assert_allclose(self.train(), expected, rtol=2e-3)


KERNEL, IMAGES = (2, 3, 1, 0), (0, 2, 3, 1)  # from (out, in, H, W) and from (N, C, H, W)


def to_jax(tensor, order=None):
    """Four-dimensional tensors in that order of dims; integers of 32 bits."""
    array = tensor.detach().numpy()
    array = array.astype(np.int32) if array.dtype == np.int64 else array
    return jnp.array(array.transpose(order) if array.ndim == 4 else array)
