"""A small GPT: a transformer that predicts the next token (Radford et al., 2019, and Vaswani et
al., 2017)."""

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F


class Block(nn.Module):
    """Causal self-attention and a perceptron, each normalised before and added to its input."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.perceptron = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width),
            nn.Dropout(dropout))

    def attention(self, x):
        batch, length, width = x.shape
        heads = [t.view(batch, length, self.heads, -1).transpose(1, 2)
                 for t in self.attend(x).split(width, 2)]
        y = F.scaled_dot_product_attention(
            *heads, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        y = self.project(y.transpose(1, 2).reshape(batch, length, width))
        return F.dropout(y, self.dropout, self.training)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.perceptron(self.norm2(x))


class GPT(nn.Module):
    """Tokens (N, T), T at most `length`, to scores (N, T, words) of the token that follows each."""

    def __init__(self, words, length=128, width=192, heads=6, layers=4, dropout=0.1):
        super().__init__()
        self.tokens = nn.Embedding(words, width)
        self.places = nn.Embedding(length, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.Sequential(*[Block(width, heads, dropout) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, words, bias=False)
        self.output.weight = self.tokens.weight
        for parameter in self.parameters():  # as GPT-2 does: larger ones saturate the softmax
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens):
        places = rl.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.places(places))
        return self.output(self.norm(self.blocks(x)))
