"""Continues sine waves: two LSTM cells, double precision, LBFGS with a closure."""

import math

import torch
import torch.nn as nn
import torch.optim as optim


class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm1 = nn.LSTMCell(1, 12)
        self.lstm2 = nn.LSTMCell(12, 12)
        self.linear = nn.Linear(12, 1)

    def forward(self, input, future=0):
        outputs = []
        h_t = torch.zeros(input.size(0), 12, dtype=torch.double)
        c_t = torch.zeros(input.size(0), 12, dtype=torch.double)
        h_t2 = torch.zeros(input.size(0), 12, dtype=torch.double)
        c_t2 = torch.zeros(input.size(0), 12, dtype=torch.double)
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        for i in range(future):
            h_t, c_t = self.lstm1(output, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        return torch.cat(outputs, dim=1)


torch.manual_seed(0)
phase = torch.linspace(0, 2 * math.pi, 8, dtype=torch.double).unsqueeze(1)
data = torch.sin(phase + torch.arange(24, dtype=torch.double) / 2)
input, target = data[:, :-1], data[:, 1:]
seq = Sequence()
seq.double()
criterion = nn.MSELoss()
optimizer = optim.LBFGS(seq.parameters(), lr=0.8, max_iter=8)
for i in range(3):

    def closure():
        optimizer.zero_grad()
        loss = criterion(seq(input), target)
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    print("STEP: %d loss: %.6f" % (i, loss.item()))
with torch.no_grad():
    future = 5
    pred = seq(input, future=future)
    final = criterion(pred[:, :-future], target)
assert pred.shape == (8, 28) and pred.dtype == torch.float64
assert final < 0.1, final
y = pred.detach().numpy()
assert y.shape == (8, 28)
