"""Random networks of the layers of `nn`, with their data and losses: as text, so that two libraries
can make the same.
"""

import importlib
from types import SimpleNamespace

import rushlight as rl

# Layers by the number of dims of what comes in; {c} is its second size, {w} its last one.
_ANY = """
nn.ReLU()
nn.ReLU(inplace=True)
nn.Tanh()
nn.GELU()
nn.SiLU(inplace=True)
nn.ELU(0.5)
nn.Softplus(2, 10)
nn.LeakyReLU(0.3, inplace=True)
nn.Hardtanh(-2.0, 0.5)
nn.PReLU(init=0.1)
nn.PReLU({c})
nn.Softmax(dim=-1)
nn.LogSoftmax(dim=1)
nn.Mish()
nn.GLU(1)
nn.Sigmoid()
nn.Softsign()
nn.LayerNorm({w})
nn.LayerNorm({w}, bias=False)
nn.RMSNorm({w})
nn.GroupNorm(2, {c})
nn.GroupNorm({c}, {c})
nn.Dropout(0.3)
nn.AlphaDropout(0.2)
nn.Linear({w}, 5)
nn.Linear({w}, {w}, bias=False)
L.Residual(nn.Linear({w}, {w}))
L.Residual(nn.Tanh())
L.Residual(nn.Sequential(nn.LayerNorm({w}), nn.Linear({w}, {w}), nn.GELU()))
L.Twice(nn.Linear({w}, {w}))
L.Tied({w})
L.Scaled({w})
L.Frozen(nn.Linear({w}, {w}))
L.Parallel(nn.Linear({w}, 3), nn.Linear({w}, 2))
L.Parallel(nn.Identity(), nn.Sequential(nn.Linear({w}, 3), nn.Tanh()))
U.weight_norm(nn.Linear({w}, 4))
U.weight_norm(nn.Linear({w}, 4), dim=None)
P.weight_norm(nn.Linear({w}, 4))
P.spectral_norm(nn.Linear({w}, 4))
U.spectral_norm(nn.Linear({w}, 4))
P.orthogonal(nn.Linear({w}, {w}))
P.orthogonal(nn.Linear({w}, {w}), orthogonal_map='cayley')
T.nn.utils.parametrize.register_parametrization(nn.Linear({w}, {w}), 'weight', L.Symmetric())
T.nn.utils.prune.l1_unstructured(nn.Linear({w}, 4), 'weight', 0.3)
L.Hooked(nn.Linear({w}, 4))
L.Noise()
nn.Sequential(nn.Linear({w}, 4), nn.Sequential(nn.Tanh(), nn.Linear(4, {w})))
"""
_OF_DIMS = {
    2: """
nn.BatchNorm1d({c})
nn.BatchNorm1d({c}, momentum=None)
nn.BatchNorm1d({c}, affine=False)
nn.BatchNorm1d({c}, track_running_stats=False)
nn.SyncBatchNorm({c})
L.Both(nn.Bilinear({w}, {w}, 4))
L.First(nn.LSTMCell({w}, 4))
nn.GRUCell({w}, 4)
nn.RNNCell({w}, 4, nonlinearity='relu')
nn.Unflatten(1, (2, -1))
""",
    3: """
nn.LSTM({w}, 4, batch_first=True)
nn.LSTM({w}, 3, 2, bidirectional=True, batch_first=True)
nn.LSTM({w}, 4, proj_size=2, batch_first=True)
nn.LSTM({w}, 4, 2, dropout=0.3, batch_first=True)
nn.GRU({w}, 4, batch_first=True)
nn.GRU({w}, 3, 2, bidirectional=True)
nn.RNN({w}, 4, batch_first=True)
nn.RNN({w}, 4, nonlinearity='relu', bias=False)
L.Packed(nn.GRU({w}, 4, batch_first=True))
L.Packed(nn.LSTM({w}, 3, 2, batch_first=True, bidirectional=True))
L.Attend(nn.MultiheadAttention({w}, 1, batch_first=True))
L.Attend(nn.MultiheadAttention({w}, 2, batch_first=True, dropout=0.2))
L.Attend(nn.MultiheadAttention({w}, 2, bias=False, add_zero_attn=True))
L.Attend(nn.MultiheadAttention({w}, 2, add_bias_kv=True, batch_first=True))
nn.TransformerEncoderLayer({w}, 2, 8, dropout=0.0, batch_first=True)
nn.TransformerEncoderLayer({w}, 2, 8, dropout=0.1, activation='gelu', norm_first=True)
nn.TransformerEncoder(nn.TransformerEncoderLayer({w}, 1, 8, 0.0, batch_first=True), 2)
L.Both(nn.TransformerDecoderLayer({w}, 2, 8, dropout=0.0, batch_first=True))
L.Both(nn.Transformer({w}, 2, 1, 1, 8, 0.0, batch_first=True))
nn.Conv1d({c}, 4, 3, padding=1)
nn.Conv1d({c}, {c}, 2, groups={c})
nn.Conv1d({c}, 4, 3, padding='same', padding_mode='circular')
nn.ConvTranspose1d({c}, 3, 2, stride=2)
nn.BatchNorm1d({c})
nn.InstanceNorm1d({c}, affine=True, track_running_stats=True)
nn.InstanceNorm1d({c})
nn.MaxPool1d(2)
nn.AvgPool1d(2, ceil_mode=True)
nn.LPPool1d(2.0, 2)
nn.AdaptiveMaxPool1d(3)
nn.Upsample(scale_factor=2, mode='linear')
nn.ReflectionPad1d(1)
nn.Dropout1d(0.3)
U.weight_norm(nn.Conv1d({c}, 4, 2))
nn.Flatten()
""",
    4: """
nn.Conv2d({c}, 4, 3, padding=1)
nn.Conv2d({c}, {c}, 3, groups={c}, padding=1)
nn.Conv2d({c}, 4, 1, bias=False)
nn.Conv2d({c}, 6, 2, stride=2)
nn.Conv2d({c}, 4, 3, padding='same', padding_mode='reflect')
nn.Conv2d({c}, 4, 3, dilation=2, padding=2)
nn.ConvTranspose2d({c}, 3, 2, stride=2)
nn.ConvTranspose2d({c}, {c}, 3, padding=1, groups={c})
nn.Sequential(nn.Conv2d({c}, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
nn.BatchNorm2d({c})
nn.BatchNorm2d({c}, momentum=0.5, eps=1e-3)
nn.InstanceNorm2d({c}, affine=True)
nn.LocalResponseNorm(2)
nn.MaxPool2d(2)
nn.MaxPool2d(3, stride=1, padding=1)
nn.AvgPool2d(2)
nn.AvgPool2d(3, 2, padding=1, count_include_pad=False)
nn.AdaptiveAvgPool2d(2)
nn.AdaptiveAvgPool2d((1, 3))
nn.AdaptiveMaxPool2d(2)
nn.Upsample(scale_factor=2)
nn.Upsample((5, 6), mode='bicubic', align_corners=True)
nn.ReplicationPad2d(1)
nn.CircularPad2d((1, 0, 1, 0))
nn.PixelShuffle(2)
nn.PixelUnshuffle(2)
nn.ChannelShuffle(2)
nn.Dropout2d(0.2)
nn.Softmax2d()
nn.Unfold(2)
nn.Flatten(2)
nn.Flatten(1, 2)
U.spectral_norm(nn.Conv2d({c}, 4, 2))
P.weight_norm(nn.Conv2d({c}, 4, 2))
L.Residual(nn.Conv2d({c}, {c}, 3, padding=1))
""",
    5: """
nn.Conv3d({c}, 3, 2)
nn.ConvTranspose3d({c}, 2, 2)
nn.BatchNorm3d({c})
nn.MaxPool3d(2)
nn.AvgPool3d(2)
nn.AdaptiveAvgPool3d(2)
nn.Dropout3d(0.2)
nn.Flatten(2, 3)
nn.Flatten(1)
""",
}
LAYERS = {
    dims: [line for line in (_ANY + more).splitlines() if line] for dims, more in _OF_DIMS.items()
}
# First layers of integers.
OF_INTEGERS = [
    "nn.Embedding(7, 4)",
    "nn.Embedding(7, 6, padding_idx=1)",
    "nn.Embedding(7, 6, scale_grad_by_freq=True)",
    "nn.Embedding(7, 4, max_norm=1.0)",
    "nn.EmbeddingBag(7, 6)",
    "nn.EmbeddingBag(7, 4, mode='sum', padding_idx=2)",
    "nn.EmbeddingBag(7, 4, mode='max')",
    "L.TiedEmbedding(7, 4)",
    "nn.Embedding(7, 4, sparse=True)",
    "nn.EmbeddingBag(7, 6, sparse=True)",
]
SHAPES = [(4, 6), (4, 3, 6), (4, 4, 5, 6), (4, 2, 3, 4, 3)]
LARGEST = 900  # elements of what one layer gives

# (name of the loss, kind of its target): what the last layer gives is (4, 5).
LOSSES = [
    ("nn.MSELoss()", "real"),
    ("nn.L1Loss()", "real"),
    ("nn.SmoothL1Loss(beta=0.5)", "real"),
    ("nn.HuberLoss(delta=0.5)", "real"),
    ("nn.BCEWithLogitsLoss()", "unit"),
    ("nn.BCEWithLogitsLoss(pos_weight=T.arange(5.0).double())", "unit"),
    ("nn.CrossEntropyLoss()", "class"),
    ("nn.CrossEntropyLoss(label_smoothing=0.1)", "class"),
    ("nn.CrossEntropyLoss()", "softmax"),
    ("nn.PoissonNLLLoss(full=True)", "count"),
    ("nn.MultiMarginLoss()", "class"),
    ("nn.MultiLabelMarginLoss()", "labels"),
    ("nn.SoftMarginLoss()", "sign"),
    ("nn.MultiLabelSoftMarginLoss()", "unit"),
    ("nn.HingeEmbeddingLoss(2.0)", "sign"),
    ("L.Of(nn.KLDivLoss(reduction='batchmean'))", "softmax"),
    ("L.Of(nn.NLLLoss())", "class"),
    ("L.Of(nn.GaussianNLLLoss())", "real"),
    ("L.Of(nn.CosineEmbeddingLoss(0.2))", "real"),
    ("L.Of(nn.TripletMarginLoss())", "real"),
    ("L.Of(nn.CTCLoss(zero_infinity=True))", "class"),
]
# Whose mean over a batch is not the mean of those over its parts.
NOT_MEANS = ("CTCLoss", "GaussianNLL")


def wrappers(T, module=None):
    """The classes of ours that networks consist of beside those of `nn`, for a library."""
    nn = T.nn

    class Residual(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return x + self.inner(x)

    class Twice(Residual):
        """One layer at two places."""

        def forward(self, x):
            return self.inner(self.inner(x).tanh())

    class Frozen(Residual):
        def __init__(self, inner):
            super().__init__(inner.requires_grad_(False))

        def forward(self, x):
            return self.inner(x)

    class Hooked(Frozen):
        """A layer whose hooks change what comes in, what goes out and its gradients."""

        def __init__(self, inner):
            super().__init__(inner)
            inner.requires_grad_(True)
            inner.register_forward_pre_hook(_halved)
            inner.register_forward_hook(_shifted)
            inner.register_full_backward_hook(_tripled)

    class Tied(nn.Module):
        """Two layers with one weight."""

        def __init__(self, n):
            super().__init__()
            self.a, self.b = nn.Linear(n, n), nn.Linear(n, n)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x).relu())

    class TiedEmbedding(nn.Module):
        """An embedding whose weight is a layer's too, as in language models."""

        def __init__(self, n, width):
            super().__init__()
            self.table, self.head = nn.Embedding(n, width), nn.Linear(width, n, bias=False)
            self.head.weight = self.table.weight

        def forward(self, x):
            return self.head(self.table(x))

    class Scaled(nn.Module):
        """Parameters in containers, a buffer and a view of a parameter."""

        def __init__(self, n):
            super().__init__()
            self.by_name = nn.ParameterDict({"scale": nn.Parameter(T.randn(n))})
            self.listed = nn.ParameterList([nn.Parameter(T.randn(2, n)), nn.Parameter(T.ones(()))])
            self.register_buffer("seen", T.zeros(n))
            self.register_buffer("passing", T.ones(n), persistent=False)

        def forward(self, x):
            if self.training:
                with T.no_grad():
                    self.seen += x.detach().reshape(-1, x.shape[-1]).mean(0)
            first, second = self.listed[0]
            return x * self.by_name["scale"] + first * self.passing - second.exp() * self.listed[1]

    class Parallel(nn.Module):
        def __init__(self, *inner):
            super().__init__()
            self.inner = nn.ModuleList(inner)

        def forward(self, x):
            return T.cat([layer(x) for layer in self.inner], -1)

    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).mT

    class Noise(nn.Module):
        def forward(self, x):
            return x + 0.1 * T.rand_like(x) if self.training else x

    class First(Frozen):
        """The first of what a recurrent layer gives."""

        def __init__(self, inner):
            super().__init__(inner)
            inner.requires_grad_(True)

        def forward(self, x):
            return self.inner(x)[0]

    class Both(First):
        def forward(self, x):
            return self.inner(x, x.tanh())

    class Attend(First):
        def forward(self, x):
            return self.inner(x, x, x, need_weights=False)[0]

    class Packed(First):
        def forward(self, x):
            rnn = nn.utils.rnn
            lengths = T.arange(x.shape[0]) % x.shape[1] + 1
            packed = rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            return rnn.pad_packed_sequence(self.inner(packed)[0], batch_first=True)[0]

    class Of(First):
        """A loss that takes more than what comes out and a target."""

        def forward(self, out, target):
            loss = self.inner
            match type(loss).__name__:
                case "KLDivLoss" | "NLLLoss":
                    return loss(out.log_softmax(-1), target)
                case "GaussianNLLLoss":
                    return loss(out[:, :4], target[:, :4], out[:, 4:].exp())
                case "CosineEmbeddingLoss":
                    return loss(out, target, T.ones(len(out)))
                case "TripletMarginLoss":
                    return loss(out, target, target.flip(-1))
            labels = (target % 4 + 1)[:, None]
            size = len(out)
            steps = out.log_softmax(-1).unsqueeze(0).expand(3, *out.shape)
            return loss(steps, labels, T.full((size,), 3), T.full((size,), 1))

    return SimpleNamespace(**{k: v for k, v in locals().items() if isinstance(v, type)})


def _halved(layer, args):
    return (args[0] * 0.5,)


def _shifted(layer, args, out):
    return out + 0.25


def _tripled(layer, into, outof):
    return tuple(g if g is None else g * 3 for g in into)


OURS = wrappers(rl)
for _name, _class in vars(OURS).items():  # where pickle looks for them
    _class.__qualname__ = _name
    globals()[_name] = _class
_LIBRARIES = {rl: OURS}


def evaluate(T, text):
    if T not in _LIBRARIES:
        _LIBRARIES[T] = wrappers(T)
    importlib.import_module(f"{T.__name__}.nn.utils.prune")
    utils = T.nn.utils
    names = {"T": T, "nn": T.nn, "L": _LIBRARIES[T], "U": utils, "P": utils.parametrizations}
    return eval(text, names)


def layer(T, text):
    """A layer by its text; of one that is recurrent, the first of its results."""
    made = evaluate(T, text)
    recurrent = isinstance(made, T.nn.RNNBase)
    return evaluate(T, "L.First")(made) if recurrent else made


class Network:
    """The text of a random network, with its data."""

    def __init__(self, rng):
        self.shape = rng.choice([*SHAPES, (4, 5)])
        self.of_integers = self.shape == (4, 5)
        self.layers = []
        rl.manual_seed(1)
        value = self.data(rl, 0)[0]
        if self.of_integers:
            value = self.extend(rng.choice(OF_INTEGERS), value)
        most = rng.choice([1, 2, 3, 4, 6])
        for _ in range(40):
            if len(self.layers) >= most:
                break
            text = rng.choice(LAYERS[value.dim()])
            if rng.random() < 0.5:  # more of what has statistics or is recurrent
                text = rng.choice(LAYERS[value.dim()][len(_ANY.splitlines()) - 1 :])
            value = self.extend(text.format(c=value.shape[1], w=value.shape[-1]), value)
        self.layers += ["nn.Flatten()", f"nn.Linear({value.flatten(1).shape[1]}, 5)"]
        self.loss, self.target = rng.choice(LOSSES)

    def extend(self, text, value):
        """The value after a layer, which is appended if it can be computed."""
        if "inplace" in text and all("latten" in layer for layer in self.layers):
            return value  # would change the data
        try:
            made = layer(rl, text).double()(value.clone())
        except (RuntimeError, IndexError, ValueError, TypeError, AssertionError):
            return value
        if not (len(made) == 4 and 1 < made.dim() < 6 and 1 < made.numel() < LARGEST):
            return value
        if not bool(made.isfinite().all()) or made.abs().max() < 1e-6:
            return value
        self.layers.append(text)
        return made.detach()

    def data(self, T, step):
        """(input, target) of one step."""
        generator = T.Generator().manual_seed(100 + step)
        shape = self.shape
        if self.of_integers:
            x = T.randint(7, shape, generator=generator)
        else:
            x = T.randn(shape, generator=generator, dtype=T.float64)
        y = T.randn(4, 5, generator=generator, dtype=T.float64)
        match getattr(self, "target", "real"):
            case "unit":
                y = y.sigmoid()
            case "class":
                y = y.argmax(1)
            case "softmax":
                y = y.softmax(1)
            case "count":
                y = (y.abs() * 3).floor()
            case "sign":
                y = y.sign()
            case "labels":
                y = T.tensor([[1, 3, -1, 0, 0]] * 4)
        return x, y

    def make(self, T, seed=1):
        """The network with its first values."""
        T.manual_seed(seed)
        return T.nn.Sequential(*[layer(T, text) for text in self.layers]).double()

    def loss_of(self, T):
        return evaluate(T, self.loss)

    def has(self, *words):
        return any(word in text for text in [*self.layers, self.loss] for word in words)

    def __str__(self):
        return f"{self.shape}: {', '.join(self.layers)}; {self.loss} of {self.target}"
