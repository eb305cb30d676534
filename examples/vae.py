"""Learns a two-dimensional map of handwritten digits, from which new ones can be drawn.

Kingma and Welling, "Auto-Encoding Variational Bayes", 2014, on scikit-learn's 8x8 digits.
"""

from sklearn.datasets import load_digits

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.utils.data import DataLoader, TensorDataset


class VAE(nn.Module):
    def __init__(self, width=256, latent=2):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width),
                                     nn.ReLU())
        self.mean = nn.Linear(width, latent)
        self.log_variance = nn.Linear(width, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, width),
                                     nn.ReLU(), nn.Linear(width, 64))

    def forward(self, images):
        hidden = self.encoder(images)
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        # A sample that gradients pass through: the noise does not depend on the parameters.
        latent = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return self.decoder(latent), mean, log_variance


def loss_function(logits, images, mean, log_variance):
    """The negative evidence lower bound per image, in nats."""
    reconstruction = F.binary_cross_entropy_with_logits(logits, images, reduction="sum")
    divergence = -0.5 * torch.sum(1 + log_variance - mean**2 - log_variance.exp())
    return (reconstruction + divergence) / len(images)


def load_data():
    images = torch.from_numpy(load_digits().images).float().flatten(1) / 16
    return TensorDataset(images[:1500]), images[1500:]


def train_step(model, optimizer, images):
    optimizer.zero_grad()
    logits, mean, log_variance = model(images)
    loss = loss_function(logits, images, mean, log_variance)
    loss.backward()
    optimizer.step()
    return loss


def show_map(model, side=8):
    """Digits decoded at the points of a grid of the latent plane, as text."""
    levels = " .:-=+*#%@"
    ticks = torch.linspace(-2, 2, side)
    grid = torch.stack(torch.meshgrid(ticks, ticks, indexing="ij"), dim=-1).reshape(-1, 2)
    with torch.no_grad():
        images = torch.sigmoid(model.decoder(grid)).reshape(side, side, 8, 8)
    for row in (images.permute(0, 2, 1, 3).reshape(8 * side, 8 * side) * 9.999).int().tolist():
        print("".join(2 * levels[level] for level in row))


def main(epochs=60):
    torch.manual_seed(0)
    training, test = load_data()
    loader = DataLoader(training, batch_size=64, shuffle=True)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for (images,) in loader:
            train_step(model, optimizer, images)
        if epoch % 10 == 9 or epoch + 1 == epochs:
            with torch.no_grad():
                logits, mean, log_variance = model(test)
                loss = loss_function(logits, test, mean, log_variance).item()
            print(f"epoch {epoch + 1}: {loss:.2f} nats per test image")
    show_map(model)
    return loss


if __name__ == "__main__":
    main()
