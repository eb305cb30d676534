"""Recommends names to programmers: which identifiers will a file of the standard library use?

Neural collaborative filtering (He et al., 2017) and its way to judge: one name of each file is kept
back, and shall be among the ten best of a hundred, the rest of which the file does not use.
"""

import re
import sysconfig
from collections import Counter
from pathlib import Path

import rushlight as torch
from models.ncf import NeuMF
from rushlight.nn import functional as F
from rushlight.utils.data import DataLoader, TensorDataset


def load_uses(files=None):
    """Which of the file's names each file uses: a table of bools (files, names)."""
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    paths += sorted(Path(sysconfig.get_path("stdlib")).glob("*/*.py"))
    texts = [path.read_text("utf-8", "ignore") for path in paths[:files] if "test" not in str(path)]
    words = [set(re.findall(r"[A-Za-z_]\w+", text)) for text in texts]
    count = Counter(word for used in words for word in used)
    names = sorted(word for word, n in count.items() if 10 <= n <= len(texts) / 2)
    index = {name: i for i, name in enumerate(names)}
    uses = torch.zeros(len(words), len(names), dtype=torch.bool)
    for row, used in enumerate(words):
        uses[row, [index[word] for word in used if word in index]] = True
    return uses[uses.sum(dim=1) >= 10]


def hold_back(uses):
    """A name that each file uses, at random, and the table without it."""
    kept = torch.multinomial(uses.float(), 1).squeeze(1)
    training = uses.clone()
    training[torch.arange(len(uses)), kept] = False
    return training, kept


def epoch_data(training, negatives):
    """All uses, and for each some names that the file does not use."""
    users, items = training.nonzero(as_tuple=True)
    others = torch.multinomial((~training).float(), negatives * int(training.sum(1).max()), True)
    place = torch.arange(len(users)).unsqueeze(1) * negatives + torch.arange(negatives)
    unused = others[users.unsqueeze(1), place % others.shape[1]].flatten()
    all_users = torch.cat([users, users.repeat_interleave(negatives)])
    labels = torch.cat([torch.ones(len(users)), torch.zeros(len(unused))])
    return TensorDataset(all_users, torch.cat([items, unused]), labels)


@torch.no_grad()
def hit_rate(score, uses, kept):
    """How often the kept name is among the ten best of itself and 99 that the file lacks."""
    items = torch.cat([kept.unsqueeze(1), torch.multinomial((~uses).float(), 99)], dim=1)
    users = torch.arange(len(uses)).unsqueeze(1).expand_as(items)
    scores = score(users.flatten(), items.flatten()).view(items.shape)
    best = scores.topk(10, dim=1).indices
    return (best == 0).any(dim=1).float().mean().item()


def main(epochs=3, files=None, batch_size=1024):
    torch.manual_seed(0)
    uses = load_uses(files)
    training, kept = hold_back(uses)
    print(f"{uses.sum().item():,} uses of {uses.shape[1]:,} names in {uses.shape[0]} files")
    popularity = training.float().sum(dim=0)
    rate = hit_rate(lambda users, items: popularity[items], uses, kept)
    print(f"the most popular names: {rate:.1%} hits among the ten best of a hundred")
    model = NeuMF(*uses.shape, factors=16, widths=(64, 32, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(1, epochs + 1):
        for users, items, labels in DataLoader(epoch_data(training, 4), batch_size, shuffle=True):
            optimizer.zero_grad()
            F.binary_cross_entropy_with_logits(model(users, items), labels).backward()
            optimizer.step()
        rate = hit_rate(model, uses, kept)
        print(f"epoch {epoch}: {rate:.1%} hits", flush=True)
    return rate


if __name__ == "__main__":
    main()
