"""A character-level language model: embedding, LSTM, generation with a temperature."""

import torch
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog. " * 8
chars = sorted(set(TEXT))
index = {c: i for i, c in enumerate(chars)}


class CharModel(nn.Module):
    def __init__(self, vocabulary, hidden=32, layers=1):
        super().__init__()
        self.hidden, self.layers = hidden, layers
        self.embed = nn.Embedding(vocabulary, 16)
        self.lstm = nn.LSTM(16, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, vocabulary)

    def forward(self, x, state=None):
        out, state = self.lstm(self.embed(x), state)
        return self.head(out), state

    def init_hidden(self, batch):
        weight = next(self.parameters()).data
        shape = self.layers, batch, self.hidden
        return weight.new(*shape).zero_(), weight.new(*shape).zero_()


def batches(data, batch, length):
    rows = data[: data.size(0) // batch * batch].view(batch, -1)
    for start in range(0, rows.size(1) - 1, length):
        size = min(length, rows.size(1) - 1 - start)
        yield rows[:, start : start + size], rows[:, start + 1 : start + 1 + size]


@torch.no_grad()
def generate(model, start, count, temperature=0.5):
    model.eval()
    text, state = start, None
    x = torch.tensor([[index[c] for c in start]])
    for _ in range(count):
        logits, state = model(x, state)
        probabilities = torch.softmax(logits[0, -1] / temperature, dim=-1)
        choice = torch.multinomial(probabilities, 1)
        text += chars[choice.item()]
        x = choice.view(1, 1)
    return text


torch.manual_seed(0)
data = torch.tensor([index[c] for c in TEXT], dtype=torch.long)
model = CharModel(len(chars))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
for epoch in range(10):
    model.train()
    state, total = model.init_hidden(6), 0.0
    for x, y in batches(data, 6, 20):
        state = tuple(s.detach() for s in state)
        optimizer.zero_grad()
        logits, state = model(x, state)
        loss = criterion(logits.reshape(-1, len(chars)), y.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5)
        optimizer.step()
        total += loss.item()
    if epoch % 4 == 0:
        print(f"epoch {epoch}: loss {total / 3:.3f}")
assert total / 3 < 1.0
text = generate(model, "the ", 20)
assert len(text) == 24 and set(text) <= set(chars)
