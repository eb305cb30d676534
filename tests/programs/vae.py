"""A variational autoencoder on synthetic pictures."""

import torch
import torch.utils.data
from torch import nn, optim
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 48)
        self.fc21 = nn.Linear(48, 4)
        self.fc22 = nn.Linear(48, 4)
        self.fc3 = nn.Linear(4, 48)
        self.fc4 = nn.Linear(48, 64)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        eps = torch.randn_like(std)
        return mu + eps * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 64))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    BCE = F.binary_cross_entropy(recon_x, x.view(-1, 64), reduction="sum")
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


def blobs(count):
    at = torch.rand(count, 2, 1, 1) * 5 + 1
    grid = torch.stack(torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij"))
    return torch.exp(-((grid - at) ** 2).sum(1) / 3).unsqueeze(1)


torch.manual_seed(1)
device = "cuda" if torch.cuda.is_available() else "cpu"
loader = torch.utils.data.DataLoader(blobs(512), batch_size=64, shuffle=True)
model = VAE().to(device)
optimizer = optim.Adam(model.parameters(), lr=3e-3)
history = []
for epoch in range(1, 13):
    model.train()
    train_loss = 0
    for data in loader:
        data = data.to(device)
        optimizer.zero_grad()
        recon_batch, mu, logvar = model(data)
        loss = loss_function(recon_batch, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
    history.append(train_loss / len(loader.dataset))
    if epoch % 4 == 0:
        print(f"====> Epoch: {epoch} Average loss: {history[-1]:.2f}")
with torch.no_grad():
    sample = model.decode(torch.randn(16, 4).to(device)).cpu()
assert sample.view(16, 1, 8, 8).shape == (16, 1, 8, 8) and 0 <= sample.min() <= sample.max() <= 1
assert history[-1] < 0.8 * history[0]
