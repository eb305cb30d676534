"""Two networks play a game: one draws digits, the other tells them from real ones.

Goodfellow et al., "Generative Adversarial Nets", 2014, on scikit-learn's 8x8 digits.
"""

from sklearn.datasets import load_digits

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.utils.data import DataLoader, TensorDataset

NOISE = 16


class Generator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(NOISE, 2 * width * 4), nn.Unflatten(1, (2 * width, 2, 2)),
            nn.BatchNorm2d(2 * width), nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1),
            nn.BatchNorm2d(width), nn.ReLU(),
            nn.ConvTranspose2d(width, 1, 4, stride=2, padding=1), nn.Sigmoid())

    def forward(self, noise):
        return self.layers(noise)


class Discriminator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 4, stride=2, padding=1), nn.LeakyReLU(0.2), nn.Dropout(0.3),
            nn.Conv2d(width, 2 * width, 4, stride=2, padding=1), nn.LeakyReLU(0.2),
            nn.Dropout(0.3), nn.Flatten(), nn.Linear(2 * width * 4, 1))

    def forward(self, images):
        return self.layers(images).squeeze(1)


def load_images():
    return torch.from_numpy(load_digits().images).float().unsqueeze(1) / 16


def train_step(images, generator, discriminator, optimizers):
    real, fake = torch.ones(len(images)), torch.zeros(len(images))
    for_generator, for_discriminator = optimizers

    drawn = generator(torch.randn(len(images), NOISE))
    for_discriminator.zero_grad()
    loss_d = (F.binary_cross_entropy_with_logits(discriminator(images), real)
              + F.binary_cross_entropy_with_logits(discriminator(drawn.detach()), fake))
    loss_d.backward()
    for_discriminator.step()

    for_generator.zero_grad()
    loss_g = F.binary_cross_entropy_with_logits(discriminator(drawn), real)
    loss_g.backward()
    for_generator.step()
    return loss_d.item(), loss_g.item()


def show(images):
    """The images as text, side by side."""
    levels = " .:-=+*#%@"
    rows = torch.cat(list(images.squeeze(1)), dim=1)
    for row in (rows * 9.999).int().tolist():
        print("".join(2 * levels[level] for level in row))


def distance(images, others):
    """How far the nearest of `others` is from each image, on average."""
    return torch.cdist(images.flatten(1), others.flatten(1)).amin(dim=1).mean().item()


def main(epochs=40):
    torch.manual_seed(0)
    images = load_images()
    loader = DataLoader(TensorDataset(images), batch_size=64, shuffle=True, drop_last=True)
    generator, discriminator = Generator(), Discriminator()
    optimizers = [torch.optim.Adam(network.parameters(), lr=1e-3, betas=(0.5, 0.999))
                  for network in (generator, discriminator)]
    for epoch in range(epochs):
        for (batch,) in loader:
            loss_d, loss_g = train_step(batch, generator, discriminator, optimizers)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: discriminator {loss_d:.3f}, generator {loss_g:.3f}")
    generator.eval()
    with torch.no_grad():
        drawn = generator(torch.randn(200, NOISE))
    show(drawn[:8])
    return distance(drawn, images)


if __name__ == "__main__":
    print(f"distance of a drawn digit to the nearest real one: {main():.2f}")
