"""Trains LeNet on the digits as examples/quickstart.py does: 98 % right in at most a minute."""

import time
from pathlib import Path

from lenet_model import LeNet

import rushlight as torch
from rushlight import nn
from rushlight.utils.data import DataLoader, TensorDataset, random_split

EPOCHS, COUNT = 20, 1797

data = torch.frombuffer(bytearray(Path("/tests/digits.bin").read_bytes()), dtype=torch.uint8)
images = data[: COUNT * 64].reshape(COUNT, 1, 8, 8).float() / 16
labels = data[COUNT * 64 :].long()

torch.manual_seed(0)
training, test = random_split(
    TensorDataset(images, labels), [1437, 360], generator=torch.Generator().manual_seed(0)
)
loader = DataLoader(training, batch_size=32, shuffle=True)
model = LeNet()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.85)

began = time.perf_counter()
for _ in range(EPOCHS):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    scheduler.step()
seconds = time.perf_counter() - began

model.eval()
x, y = test[:]
with torch.no_grad():
    right = (model(x).argmax(1) == y).float().mean().item()
print(f"LeNet: {EPOCHS} epochs in {seconds:.1f} s, {right:.1%} of the test images right")
assert right >= 0.98
assert seconds < 60, "the time that was promised"
