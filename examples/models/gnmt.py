"""Sequence to sequence with LSTMs and attention, after GNMT (Wu et al., 2016), version 2: the first
decoder layer's output asks, and what the attention answers goes to every layer above it."""

import rushlight as rl
from rushlight import nn


class Encoder(nn.Module):
    """Tokens (T, N) to states (T, N, width): one layer in both directions, then residual ones."""

    def __init__(self, words, width, layers, dropout):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.first = nn.LSTM(width, width, bidirectional=True)
        self.rest = nn.ModuleList(
            nn.LSTM(2 * width if i == 0 else width, width) for i in range(layers - 1))
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens):
        x = self.first(self.dropout(self.embedding(tokens)))[0]
        for i, layer in enumerate(self.rest):
            y = layer(self.dropout(x))[0]
            x = y if i == 0 else x + y
        return x


class Attention(nn.Module):
    """Additive attention (Bahdanau et al., 2014): (S, N, width) over (T, N, width)."""

    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(self, queries, states):
        query = self.query(queries).transpose(0, 1).unsqueeze(2)  # (N, S, 1, width)
        key = self.key(states).transpose(0, 1).unsqueeze(1)       # (N, 1, T, width)
        weights = self.score(rl.tanh(query + key)).squeeze(3).softmax(2)
        return rl.bmm(weights, states.transpose(0, 1)).transpose(0, 1)


class Decoder(nn.Module):
    """Target tokens (S, N) and the encoder's states to scores (S, N, words)."""

    def __init__(self, words, width, layers, dropout):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.first = nn.LSTM(width, width)
        self.attention = Attention(width)
        self.rest = nn.ModuleList(nn.LSTM(2 * width, width) for _ in range(layers - 1))
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, words)

    def forward(self, tokens, states):
        x = self.first(self.dropout(self.embedding(tokens)))[0]
        context = self.attention(x, states)
        for i, layer in enumerate(self.rest):
            y = layer(self.dropout(rl.cat([x, context], 2)))[0]
            x = y if i == 0 else x + y
        return self.output(x)


class GNMT(nn.Module):
    """Source tokens (T, N) and target tokens (S, N) to scores (S, N, words) of the next target."""

    def __init__(self, words=32000, width=1024, layers=4, dropout=0.2):
        super().__init__()
        self.encoder = Encoder(words, width, layers, dropout)
        self.decoder = Decoder(words, width, layers, dropout)

    def forward(self, source, target):
        return self.decoder(target, self.encoder(source))
