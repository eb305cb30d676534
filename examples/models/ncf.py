"""Neural collaborative filtering (He et al., 2017): its NeuMF model."""

import rushlight as rl
from rushlight import nn


class NeuMF(nn.Module):
    """Users (N) and items (N) to the score (N) of their meeting.

    A product of `factors` features beside a perceptron over `widths[0]` features, half of them the
    user's and half the item's.
    """

    def __init__(self, users, items, factors=64, widths=(256, 256, 128, 64)):
        super().__init__()
        self.user_factors = nn.Embedding(users, factors)
        self.item_factors = nn.Embedding(items, factors)
        self.user_features = nn.Embedding(users, widths[0] // 2)
        self.item_features = nn.Embedding(items, widths[0] // 2)
        layers = []
        for before, after in zip(widths, widths[1:]):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.perceptron = nn.Sequential(*layers)
        self.output = nn.Linear(factors + widths[-1], 1)

    def forward(self, users, items):
        product = self.user_factors(users) * self.item_factors(items)
        features = rl.cat([self.user_features(users), self.item_features(items)], 1)
        return self.output(rl.cat([product, self.perceptron(features)], 1)).squeeze(1)
