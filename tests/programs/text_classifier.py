"""Classifies bags of words: EmbeddingBag with offsets, a collate function, worker processes."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from torch.utils.data.dataset import random_split

POSITIVE = "good great fine happy bright".split()
NEGATIVE = "bad awful poor sad dark".split()
NEUTRAL = "the a it was day film and very".split()
vocabulary = {w: i for i, w in enumerate(["<unk>"] + POSITIVE + NEGATIVE + NEUTRAL)}
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def sentences(count, seed):
    generator = torch.Generator().manual_seed(seed)

    def pick(words):
        return words[torch.randint(len(words), (1,), generator=generator).item()]

    for _ in range(count):
        label = torch.randint(2, (1,), generator=generator).item()
        words = [pick(NEUTRAL) for _ in range(4)] + [
            pick(POSITIVE if label else NEGATIVE) for _ in range(2)
        ]
        yield label, " ".join(words)


class Stream(IterableDataset):
    """The same sentences from several processes, each its part."""

    def __init__(self, count, seed):
        self.count, self.seed = count, seed

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for i, item in enumerate(sentences(self.count, self.seed)):
            if i % step == first:
                yield item


def collate_batch(batch):
    label_list, text_list, offsets = [], [], [0]
    for label, text in batch:
        label_list.append(label)
        processed = torch.tensor([vocabulary.get(w, 0) for w in text.split()], dtype=torch.int64)
        text_list.append(processed)
        offsets.append(processed.size(0))
    label_list = torch.tensor(label_list, dtype=torch.int64)
    offsets = torch.tensor(offsets[:-1]).cumsum(dim=0)
    return label_list.to(device), torch.cat(text_list).to(device), offsets.to(device)


class TextClassificationModel(nn.Module):
    def __init__(self, vocab_size, embed_dim, num_class):
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocab_size, embed_dim, sparse=False)
        self.fc = nn.Linear(embed_dim, num_class)
        self.init_weights()

    def init_weights(self):
        initrange = 0.5
        self.embedding.weight.data.uniform_(-initrange, initrange)
        self.fc.weight.data.uniform_(-initrange, initrange)
        self.fc.bias.data.zero_()

    def forward(self, text, offsets):
        return self.fc(self.embedding(text, offsets))


def train(model, dataloader, optimizer, criterion):
    model.train()
    start = time.time()
    total_acc, total_count = 0, 0
    for label, text, offsets in dataloader:
        optimizer.zero_grad()
        loss = criterion(model(text, offsets), label)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        total_count += label.size(0)
        total_acc += (model(text, offsets).argmax(1) == label).sum().item()
    assert time.time() >= start
    return total_acc / total_count


def evaluate(model, dataloader):
    model.eval()
    right, count = 0, 0
    with torch.no_grad():
        for label, text, offsets in dataloader:
            right += (model(text, offsets).argmax(1) == label).sum().item()
            count += label.size(0)
    assert count == 60
    return right / count


if __name__ == "__main__":
    torch.manual_seed(0)
    dataset = list(sentences(200, 0))
    train_split, _ = random_split(dataset, [180, 20])
    train_loader = DataLoader(train_split, batch_size=8, shuffle=True, collate_fn=collate_batch)
    test_loader = DataLoader(Stream(60, 1), batch_size=8, collate_fn=collate_batch, num_workers=2)
    model = TextClassificationModel(len(vocabulary), 16, 2).to(device)
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1.0, gamma=0.5)
    total_accu = None
    for epoch in range(1, 5):
        train_accu = train(model, train_loader, optimizer, criterion)
        accu_val = evaluate(model, test_loader)
        if total_accu is not None and total_accu > accu_val:
            scheduler.step()
        else:
            total_accu = accu_val
        print(f"epoch {epoch:3d} train {train_accu:.3f} valid {accu_val:.3f}")
    assert accu_val > 0.9
