"""Every module of nn, made in its main ways, with what goes into it.

A case is a pair of expressions over a library `T` and its `nn`: the module, and its inputs.
"""

import re
from collections import OrderedDict

_IMAGE, _VOLUME, _SIGNAL = "T.randn(2, 4, 9, 8)", "T.randn(2, 4, 6, 7, 5)", "T.randn(2, 4, 12)"
_ROWS, _LABELS = "T.randn(3, 5)", "T.tensor([1, 0, 4])"
_BY_DIMS = {1: _SIGNAL, 2: _IMAGE, 3: _VOLUME}

CASES = [
    ("nn.Identity(7, unused=True)", _ROWS),
    ("nn.Linear(5, 3)", _ROWS),
    ("nn.Linear(5, 3, bias=False)", _ROWS),
    ("nn.Linear(5, 3, dtype=T.float64)", "T.randn(3, 5).double()"),
    ("nn.Bilinear(5, 4, 3)", "T.randn(2, 5), T.randn(2, 4)"),
    ("nn.LazyLinear(3)", _ROWS),
    ("nn.Flatten()", _IMAGE),
    ("nn.Flatten(1, 2)", _IMAGE),
    ("nn.Unflatten(1, (2, 2))", _IMAGE),
    ("nn.Fold((4, 5), (2, 2))", "T.randn(2, 8, 12)"),
    ("nn.Unfold((2, 3), dilation=2, padding=1, stride=2)", _IMAGE),
    ("nn.PixelShuffle(2)", _IMAGE),
    ("nn.PixelUnshuffle(2)", "T.randn(2, 1, 4, 6)"),
    ("nn.ChannelShuffle(2)", _IMAGE),
    ("nn.CosineSimilarity(dim=1)", f"{_ROWS}, {_ROWS}"),
    ("nn.PairwiseDistance(p=3.0, keepdim=True)", f"{_ROWS}, {_ROWS}"),
    ("nn.Upsample(scale_factor=2)", _IMAGE),
    ("nn.Upsample((5, 6), mode='bicubic', align_corners=True)", _IMAGE),
    ("nn.Upsample(scale_factor=2, mode='linear')", _SIGNAL),
    ("nn.UpsamplingNearest2d(scale_factor=2)", _IMAGE),
    ("nn.UpsamplingBilinear2d(size=(5, 6))", _IMAGE),
    ("nn.LocalResponseNorm(2)", _IMAGE),
    ("nn.CrossMapLRN2d(3)", _IMAGE),
    ("nn.LayerNorm(8)", _IMAGE),
    ("nn.LayerNorm((9, 8), eps=1e-3, bias=False)", _IMAGE),
    ("nn.LayerNorm(8, elementwise_affine=False)", _IMAGE),
    ("nn.GroupNorm(2, 4)", _IMAGE),
    ("nn.GroupNorm(4, 4, affine=False)", _IMAGE),
    ("nn.RMSNorm(8)", _IMAGE),
    ("nn.RMSNorm((9, 8), eps=1e-5, elementwise_affine=False)", _IMAGE),
    ("nn.Embedding(6, 3)", "T.tensor([[0, 5], [2, 2]])"),
    (
        "nn.Embedding(6, 3, padding_idx=1, max_norm=1.0, scale_grad_by_freq=True)",
        "T.tensor([[0, 1], [2, 2]])",
    ),
    ("nn.EmbeddingBag(6, 3)", "T.tensor([[0, 5], [2, 2]])"),
    (
        "nn.EmbeddingBag(6, 3, mode='sum', include_last_offset=True)",
        "T.tensor([0, 5, 2, 2]), T.tensor([0, 2, 4])",
    ),
    ("nn.EmbeddingBag(6, 3, mode='max')", "T.tensor([0, 5, 2, 2]), T.tensor([0, 3])"),
    ("nn.MultiheadAttention(6, 2)", "T.randn(3, 2, 6), T.randn(4, 2, 6), T.randn(4, 2, 6)"),
    (
        "nn.MultiheadAttention(6, 2, kdim=3, vdim=5, batch_first=True, add_bias_kv=True)",
        "T.randn(2, 3, 6), T.randn(2, 4, 3), T.randn(2, 4, 5)",
    ),
    (
        "nn.MultiheadAttention(6, 3, bias=False, add_zero_attn=True)",
        "T.randn(3, 2, 6), T.randn(4, 2, 6), T.randn(4, 2, 6)",
    ),
    ("nn.Transformer(8, 2, 1, 1, 16, dropout=0.0)", "T.randn(3, 2, 8), T.randn(4, 2, 8)"),
    (
        "nn.Transformer(8, 2, 2, 1, 16, 0.1, 'gelu', batch_first=True, norm_first=True)",
        "T.randn(2, 3, 8), T.randn(2, 4, 8)",
    ),
    ("nn.TransformerEncoderLayer(8, 2, 16)", "T.randn(3, 2, 8)"),
    (
        "nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)",
        "T.randn(3, 2, 8)",
    ),
    ("nn.TransformerDecoderLayer(8, 2, 16, bias=False)", "T.randn(3, 2, 8), T.randn(4, 2, 8)"),
    (
        "nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2, nn.LayerNorm(8))",
        "T.randn(3, 2, 8), T.randn(4, 2, 8)",
    ),
    ("nn.RNN(5, 4)", "T.randn(3, 2, 5)"),
    ("nn.RNN(5, 4, 2, nonlinearity='relu', bias=False, batch_first=True)", "T.randn(2, 3, 5)"),
    ("nn.LSTM(5, 4)", "T.randn(3, 2, 5)"),
    ("nn.LSTM(5, 4, 2, bidirectional=True, proj_size=3, dropout=0.5)", "T.randn(3, 2, 5)"),
    ("nn.GRU(5, 4)", "T.randn(3, 5)"),
    ("nn.GRU(5, 4, 2, bidirectional=True, batch_first=True)", "T.randn(2, 3, 5)"),
    ("nn.RNNCell(5, 4)", "T.randn(2, 5)"),
    ("nn.RNNCell(5, 4, bias=False, nonlinearity='relu')", "T.randn(2, 5), T.randn(2, 4)"),
    ("nn.LSTMCell(5, 4)", "T.randn(2, 5)"),
    ("nn.GRUCell(5, 4)", "T.randn(2, 5), T.randn(2, 4)"),
    ("nn.Sequential(nn.Linear(5, 3), nn.ReLU())", _ROWS),
    ("nn.Sequential(OrderedDict(a=nn.Linear(5, 3), b=nn.Tanh()))", _ROWS),
    ("nn.ModuleList([nn.Linear(5, 3), nn.Linear(5, 3), nn.ReLU()])", None),
    ("nn.ModuleDict({'a': nn.Linear(5, 3), 'b': nn.ModuleDict()})", None),
    ("nn.ParameterList([T.ones(2), nn.Parameter(T.zeros(3)), 'text'])", None),
    ("nn.ParameterDict({'a': T.ones(2), 'b': nn.Parameter(T.zeros(3)), 'c': 1})", None),
    ("nn.AdaptiveLogSoftmaxWithLoss(5, 9, [3, 6], head_bias=True)", f"{_ROWS}, {_LABELS}"),
    ("nn.SyncBatchNorm(4)", _IMAGE),
    ("nn.DataParallel(nn.Linear(5, 3))", _ROWS),
]

for _name in (
    "ReLU ReLU6 Sigmoid Tanh SiLU Mish Hardswish Hardsigmoid SELU Softsign Tanhshrink "
    "LogSigmoid Softmin Softmax2d Softshrink Hardshrink CELU ELU GELU GLU LeakyReLU "
    "Softplus Hardtanh PReLU"
).split():
    CASES.append((f"nn.{_name}({'' if _name != 'Softmin' else 'dim=1'})", _IMAGE))
for _text in (
    "ReLU(inplace=True)",
    "ReLU6(True)",
    "RReLU(0.1, 0.4)",
    "ELU(0.5)",
    "GELU('tanh')",
    "GLU(1)",
    "LeakyReLU(0.3, inplace=True)",
    "Softplus(2, 10)",
    "Hardtanh(-2.0, 0.5)",
    "PReLU(4, init=0.1)",
    "Softmax(dim=2)",
    "LogSoftmax(dim=1)",
    "Threshold(0.1, 20)",
    "SiLU(inplace=True)",
    "Dropout(0.2)",
    "Dropout2d(0.2)",
    "AlphaDropout(0.2)",
    "FeatureAlphaDropout(0.2)",
    "Hardshrink(0.2)",
    "Softshrink(0.2)",
    "CELU(0.5)",
):
    CASES.append((f"nn.{_text}", _IMAGE))
CASES += [("nn.Dropout1d(0.3)", _SIGNAL), ("nn.Dropout3d(0.3)", _VOLUME)]

for _n, _input in _BY_DIMS.items():
    _twos, _ones = (2,) * _n, (1,) * _n
    CASES += [
        (f"nn.Conv{_n}d(4, 6, 3)", _input),
        (
            f"nn.Conv{_n}d(4, 6, {_twos}, stride=2, padding=1, dilation=2, groups=2, bias=False)",
            _input,
        ),
        (f"nn.Conv{_n}d(4, 6, 3, padding='same', padding_mode='circular')", _input),
        (f"nn.ConvTranspose{_n}d(4, 6, 3)", _input),
        (
            f"nn.ConvTranspose{_n}d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)",
            _input,
        ),
        (f"nn.LazyConv{_n}d(6, 3, padding=1)", _input),
        (f"nn.LazyConvTranspose{_n}d(6, 3)", _input),
        (f"nn.BatchNorm{_n}d(4)", _input),
        (f"nn.BatchNorm{_n}d(4, eps=1e-3, momentum=None, affine=False)", _input),
        (f"nn.BatchNorm{_n}d(4, track_running_stats=False)", _input),
        (f"nn.LazyBatchNorm{_n}d()", _input),
        (f"nn.InstanceNorm{_n}d(4)", _input),
        (f"nn.InstanceNorm{_n}d(4, affine=True, track_running_stats=True)", _input),
        (f"nn.LazyInstanceNorm{_n}d(affine=True)", _input),
        (f"nn.MaxPool{_n}d(2)", _input),
        (f"nn.MaxPool{_n}d(3, stride=2, padding=1, return_indices=True, ceil_mode=True)", _input),
        (f"nn.AvgPool{_n}d(3, 2, padding=1, ceil_mode=True, count_include_pad=False)", _input),
        (f"nn.LPPool{_n}d(2.0, 2)", _input),
        (f"nn.AdaptiveAvgPool{_n}d(3)", _input),
        (f"nn.AdaptiveMaxPool{_n}d(2, return_indices=True)", _input),
        (
            f"nn.MaxUnpool{_n}d(2)",
            f"*nn.functional.max_pool{_n}d(T.randn(2, 4, *{(6,) * _n}), 2, return_indices=True)",
        ),
        (f"nn.ZeroPad{_n}d(1)", _input),
        (f"nn.ConstantPad{_n}d({tuple(range(2 * _n))}, 0.5)", _input),
        (f"nn.ReflectionPad{_n}d({tuple(range(2 * _n))[: 2 * _n - 2] + (1, 2)})", _input),
        (f"nn.ReplicationPad{_n}d({tuple(range(2 * _n))})", _input),
        (f"nn.CircularPad{_n}d(2)", _input),
    ]
CASES += [
    ("nn.AdaptiveAvgPool2d((None, 3))", _IMAGE),
    ("nn.AvgPool2d(2, divisor_override=3)", _IMAGE),
    (
        "nn.FractionalMaxPool2d(2, output_size=(4, 3), _random_samples=T.full((2, 4, 2), 0.3))",
        _IMAGE,
    ),
    ("nn.FractionalMaxPool2d(2, output_ratio=0.5)", _IMAGE),
    ("nn.FractionalMaxPool3d(2, output_size=3, return_indices=True)", _VOLUME),
]

_UNIT = "T.rand(3, 5)"
CASES += [
    ("nn.L1Loss()", f"{_ROWS}, {_ROWS}"),
    ("nn.MSELoss(reduction='sum')", f"{_ROWS}, {_ROWS}"),
    ("nn.SmoothL1Loss(beta=0.5)", f"{_ROWS}, {_ROWS}"),
    ("nn.HuberLoss(delta=0.5, reduction='none')", f"{_ROWS}, {_ROWS}"),
    ("nn.BCELoss(weight=T.arange(5.0))", f"{_UNIT}, {_UNIT}"),
    ("nn.BCEWithLogitsLoss(pos_weight=T.arange(5.0))", f"{_ROWS}, {_UNIT}"),
    ("nn.CrossEntropyLoss()", f"{_ROWS}, {_LABELS}"),
    (
        "nn.CrossEntropyLoss(T.arange(5.0), ignore_index=1, label_smoothing=0.1, reduction='sum')",
        f"{_ROWS}, {_LABELS}",
    ),
    ("nn.NLLLoss(T.arange(5.0), ignore_index=4)", f"{_ROWS}.log_softmax(1), {_LABELS}"),
    ("nn.NLLLoss2d()", "T.randn(2, 4, 9, 8).log_softmax(1), T.ones(2, 9, 8, dtype=T.long)"),
    ("nn.PoissonNLLLoss(full=True)", f"{_ROWS}, {_UNIT} * 5"),
    ("nn.GaussianNLLLoss(full=True)", f"{_ROWS}, {_ROWS}, {_UNIT}"),
    ("nn.KLDivLoss(reduction='batchmean')", f"{_ROWS}.log_softmax(1), {_UNIT}"),
    ("nn.KLDivLoss(reduction='sum', log_target=True)", f"{_ROWS}, {_ROWS}.log_softmax(1)"),
    ("nn.HingeEmbeddingLoss(2.0)", f"{_ROWS}, {_ROWS}.sign()"),
    ("nn.SoftMarginLoss()", f"{_ROWS}, {_ROWS}.sign().long()"),
    ("nn.MultiLabelMarginLoss()", f"{_ROWS}, T.tensor([[1, 3, -1, 0, 0]] * 3)"),
    ("nn.MultiLabelSoftMarginLoss()", f"{_ROWS}, {_UNIT}.round()"),
    ("nn.MultiMarginLoss(p=2, margin=0.5)", f"{_ROWS}, {_LABELS}"),
    ("nn.CosineEmbeddingLoss(0.2)", f"{_ROWS}, {_ROWS}, T.tensor([1, -1, 1])"),
    ("nn.MarginRankingLoss(0.3)", "T.randn(3), T.randn(3), T.tensor([1.0, -1, 1])"),
    ("nn.TripletMarginLoss(swap=True)", f"{_ROWS}, {_ROWS}, {_ROWS}"),
    ("nn.TripletMarginWithDistanceLoss(margin=0.5)", f"{_ROWS}, {_ROWS}, {_ROWS}"),
    (
        "nn.CTCLoss(zero_infinity=True)",
        "T.randn(6, 2, 4).log_softmax(2), T.tensor([[1, 2], [3, 3]]), T.tensor([6, 6]), "
        "T.tensor([2, 2])",
    ),
    ("nn.LinearCrossEntropyLoss(5, 7)", f"{_ROWS}, {_LABELS}"),
]

# Names of nn that are not modules to be made, or only bases of such.
NOT_CASES = {
    "Buffer",
    "Container",
    "LinearCrossEntropyOptions",
    "Module",
    "Parameter",
    "RNNBase",
    "RNNCellBase",
    "UninitializedBuffer",
    "UninitializedParameter",
}


def names(text):
    """The classes of nn that an expression makes."""
    return set(re.findall(r"\bnn\.([A-Z]\w*)\(", text))


def evaluate(library, text, seed):
    library.manual_seed(seed)
    return eval(text, {"T": library, "nn": library.nn, "OrderedDict": OrderedDict})


def make(library, text):
    """The module of a case, with the initial values that its seed gives."""
    return evaluate(library, text, seed=1)


def inputs(library, text):
    return evaluate(library, f"({text},)", seed=2)
