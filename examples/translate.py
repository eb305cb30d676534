"""Translates dates as people write them to ISO 8601 with LSTMs and attention, letter by letter.

The network is that of Google's translator (GNMT, 2016), in small.
"""

import random
from datetime import date, timedelta

import rushlight as torch
from models.gnmt import GNMT
from rushlight import nn
from rushlight.nn import functional as F

FORMATS = ["%d %B %Y", "%B %d, %Y", "%A, %d %b %Y", "%d.%m.%Y", "%m/%d/%y", "the %d of %B, %Y"]
ALPHABET = "\0 ,-./0123456789" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + "abcdefghijklmnopqrstuvwxyz"
INDEX = {letter: i for i, letter in enumerate(ALPHABET)}
START, LENGTH = "\0", 10


def sample(count, source):
    """Random days of 1970 to 2069, each as somebody wrote it and in ISO 8601."""
    days = [date(1970, 1, 1) + timedelta(source.randrange(36_500)) for _ in range(count)]
    return [day.strftime(source.choice(FORMATS)) for day in days], [day.isoformat() for day in days]


def encode(texts):
    """Texts as tokens (length, count), the shorter ones filled up."""
    tokens = [torch.tensor([INDEX[letter] for letter in text]) for text in texts]
    return nn.utils.rnn.pad_sequence(tokens)


def train_step(model, optimizer, written, iso):
    target = encode([START + text for text in iso])
    optimizer.zero_grad()
    logits = model(encode(written), target[:-1])
    loss = F.cross_entropy(logits.flatten(0, 1), target[1:].flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


@torch.no_grad()
def translate(model, texts):
    """The likeliest letter after letter."""
    model.eval()
    states = model.encoder(encode(texts))
    target = encode([START] * len(texts))
    for _ in range(LENGTH):
        following = model.decoder(target, states)[-1].argmax(dim=1, keepdim=True)
        target = torch.cat([target, following.t()])
    return ["".join(ALPHABET[i] for i in column) for column in target[1:].t().tolist()]


def main(steps=700, batch_size=64, width=64):
    torch.manual_seed(0)
    source = random.Random(0)
    model = GNMT(len(ALPHABET), width, layers=2, dropout=0.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps)
    losses = []
    for step in range(1, steps + 1):
        losses.append(train_step(model, optimizer, *sample(batch_size, source)))
        schedule.step()
        if step % 100 == 0:
            print(f"step {step}: loss {losses[-1]:.4f}", flush=True)
    written, iso = sample(500, source)
    translated = translate(model, written)
    for line in zip(written[:5], translated):
        print(" -> ".join(line))
    right = sum(ours == theirs for ours, theirs in zip(translated, iso)) / len(iso)
    print(f"{right:.1%} of new dates right")
    return losses, right


if __name__ == "__main__":
    main()
