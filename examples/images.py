"""Trains one of the image networks of the 2019 PyTorch paper's table to read digits.

    python examples/images.py alexnet | vgg19 | resnet50 | mobilenet

The images are scikit-learn's, enlarged and in three equal channels.
"""

import argparse

from sklearn.datasets import load_digits

import rushlight as torch
from models.alexnet import AlexNet
from models.mobilenet import MobileNetV2
from models.resnet import ResNet50
from models.vgg import VGG19
from rushlight.nn import functional as F
from rushlight.utils.data import DataLoader, TensorDataset, random_split

NETWORKS = {"alexnet": AlexNet, "vgg19": VGG19, "resnet50": ResNet50, "mobilenet": MobileNetV2}


def load_data(side):
    """1,437 images (3, side, side) to learn from and 360 to test on."""
    digits = load_digits()
    images = torch.from_numpy(digits.images).float().unsqueeze(1) / 8 - 1
    images = F.interpolate(images, size=(side, side), mode="bilinear").expand(-1, 3, -1, -1)
    dataset = TensorDataset(images, torch.from_numpy(digits.target).long())
    return random_split(dataset, [1437, 360], generator=torch.Generator().manual_seed(0))


def train_step(model, optimizer, images, labels):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def accuracy(model, dataset):
    model.eval()
    right = 0
    for images, labels in DataLoader(dataset, batch_size=120):
        right += (model(images).argmax(dim=1) == labels).sum().item()
    return right / len(dataset)


def main(network="mobilenet", steps=225, batch_size=32, side=64, lr=0.02):
    torch.manual_seed(0)
    training, test = load_data(side)
    loader = DataLoader(training, batch_size=batch_size, shuffle=True, drop_last=True)
    model = NETWORKS[network](classes=10)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=lr, total_steps=steps)
    losses = []
    while len(losses) < steps:
        model.train()
        for images, labels in loader:
            losses.append(train_step(model, optimizer, images, labels))
            schedule.step()
            if len(losses) == steps:
                break
        recent = losses[-len(loader):]
        print(f"{network}, step {len(losses)}: loss {sum(recent) / len(recent):.3f}", flush=True)
    print(f"test accuracy {accuracy(model, test):.1%}")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("network", choices=NETWORKS, nargs="?", default="mobilenet")
    parser.add_argument("--steps", type=int, default=225)
    options = parser.parse_args()
    main(options.network, options.steps)
