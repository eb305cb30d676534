"""Reverses sequences by an encoder and a decoder with attention and teacher forcing."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

SOS, EOS, FIRST, TOKENS, HIDDEN = 0, 1, 2, 8, 32
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, HIDDEN)
        self.gru = nn.GRU(HIDDEN, HIDDEN, batch_first=True, bidirectional=True)
        self.reduce = nn.Linear(2 * HIDDEN, HIDDEN)

    def forward(self, padded, lengths):
        packed = pack_padded_sequence(
            self.embedding(padded), lengths, batch_first=True, enforce_sorted=False
        )
        output, hidden = self.gru(packed)
        output, _ = pad_packed_sequence(output, batch_first=True)
        hidden = torch.tanh(self.reduce(torch.cat([hidden[0], hidden[1]], dim=1)))
        return self.reduce(output), hidden.unsqueeze(0)


class AttentionDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, HIDDEN)
        self.W = nn.Linear(HIDDEN, HIDDEN)
        self.U = nn.Linear(HIDDEN, HIDDEN)
        self.V = nn.Linear(HIDDEN, 1)
        self.gru = nn.GRU(2 * HIDDEN, HIDDEN, batch_first=True)
        self.out = nn.Linear(HIDDEN, TOKENS)

    def step(self, token, hidden, encoded, mask):
        query = hidden.permute(1, 0, 2)
        scores = self.V(torch.tanh(self.W(query) + self.U(encoded))).squeeze(2)
        scores = scores.masked_fill(~mask, float("-inf"))
        weights = F.softmax(scores, dim=-1).unsqueeze(1)
        context = torch.bmm(weights, encoded)
        output, hidden = self.gru(torch.cat((self.embedding(token), context), dim=2), hidden)
        return self.out(output), hidden

    def forward(self, encoded, hidden, mask, steps, target=None):
        token = torch.empty(encoded.size(0), 1, dtype=torch.long, device=device).fill_(SOS)
        outputs = []
        for i in range(steps):
            output, hidden = self.step(token, hidden, encoded, mask)
            outputs.append(output)
            if target is not None:
                token = target[:, i].unsqueeze(1)
            else:
                _, best = output.topk(1)
                token = best.squeeze(-1).detach()
        return F.log_softmax(torch.cat(outputs, dim=1), dim=-1)


def batch(count):
    sequences = [torch.randint(FIRST, TOKENS, (random.randint(2, 4),)) for _ in range(count)]
    lengths = torch.tensor([len(s) for s in sequences])
    targets = [torch.cat([s.flip(0), torch.tensor([EOS])]) for s in sequences]
    padded = pad_sequence(sequences, batch_first=True, padding_value=EOS)
    return padded, lengths, pad_sequence(targets, batch_first=True, padding_value=EOS)


random.seed(0)
torch.manual_seed(0)
encoder, decoder = Encoder().to(device), AttentionDecoder().to(device)
encoder_optimizer = optim.Adam(encoder.parameters(), lr=0.01)
decoder_optimizer = optim.Adam(decoder.parameters(), lr=0.01)
criterion = nn.NLLLoss()
losses = []
for iteration in range(90):
    padded, lengths, target = batch(32)
    encoder_optimizer.zero_grad()
    decoder_optimizer.zero_grad()
    encoded, hidden = encoder(padded, lengths)
    mask = torch.arange(padded.size(1))[None, :] < lengths[:, None]
    forced = target if random.random() < 0.8 else None
    output = decoder(encoded, hidden, mask, target.size(1), forced)
    loss = criterion(output.view(-1, output.size(-1)), target.view(-1))
    loss.backward()
    encoder_optimizer.step()
    decoder_optimizer.step()
    losses.append(loss.item())
    if iteration in (0, 10):
        print(f"{iteration}: {loss.item():.3f}")

with torch.no_grad():
    padded, lengths, target = batch(64)
    encoded, hidden = encoder(padded, lengths)
    mask = torch.arange(padded.size(1))[None, :] < lengths[:, None]
    decoded = decoder(encoded, hidden, mask, target.size(1)).argmax(-1)
accuracy = (decoded == target).float().mean().item()
assert accuracy > 0.8, accuracy
