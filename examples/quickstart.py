"""Trains a small convolutional network to read handwritten digits, and shows what it learned.

Run by `make quickstart`. Writes runs/quickstart/: curves.png, confusion.png, misread.png, graph.svg
(the autograd graph) and model.safetensors. `--device cuda` trains on a GPU; `--steps 3` stops early
and prints the losses alone.
"""

import argparse
from pathlib import Path

from safetensors.numpy import load_file, save_file
from sklearn.datasets import load_digits
from tqdm import tqdm

import rushlight as rl
from graph_picture import graph_picture
from models.lenet import LeNet
from pictures import plot_confusion, plot_curves, plot_misread
from rushlight import nn
from rushlight.utils.data import DataLoader, TensorDataset, random_split

EPOCHS = 20


def load_data():
    """1,797 scanned digits from scikit-learn: 1,437 to learn from and 360 to test on."""
    digits = load_digits()
    images = rl.from_numpy(digits.images).float().unsqueeze(1) / 16
    dataset = TensorDataset(images, rl.from_numpy(digits.target).long())
    return random_split(dataset, [1437, 360], generator=rl.Generator().manual_seed(0))


def train_epoch(model, loader, optimizer, device, report=None):
    model.train()
    total = 0.0
    for images, labels in loader:
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
        if report is not None and not report(loss.item()):
            break
    for group in optimizer.param_groups:
        group["lr"] *= 0.85
    return total / len(loader.dataset)


def predict(model, images):
    model.eval()
    with rl.no_grad():
        return model(images).argmax(dim=1)


def accuracy(model, images, labels):
    return (predict(model, images) == labels).float().mean().item()


def first_losses(model, loader, optimizer, device, steps):
    losses = []

    def report(loss):
        losses.append(loss)
        print(f"step {len(losses)}: loss {loss:.4f}", flush=True)
        return len(losses) < steps

    train_epoch(model, loader, optimizer, device, report)
    return losses


def main(folder=Path("runs/quickstart"), device="cpu", steps=None):
    folder.mkdir(parents=True, exist_ok=True)
    rl.manual_seed(0)
    training, test = load_data()
    images, labels = (t.to(device) for t in test[:])
    loader = DataLoader(training, batch_size=32, shuffle=True)
    model = LeNet().to(device)
    optimizer = rl.optim.Adam(model.parameters(), lr=2e-3)
    if steps is not None:
        return first_losses(model, loader, optimizer, device, steps)

    losses, accuracies = [], []
    for _ in (progress := tqdm(range(EPOCHS), desc="training", unit="epoch")):
        losses.append(train_epoch(model, loader, optimizer, device))
        accuracies.append(accuracy(model, images, labels))
        progress.set_postfix(loss=f"{losses[-1]:.4f}", accuracy=f"{accuracies[-1]:.1%}")

    model, images, labels = model.cpu(), images.cpu(), labels.cpu()
    predicted = predict(model, images)
    plot_curves(losses, accuracies, folder / "curves.png")
    plot_confusion(predicted, labels, folder / "confusion.png")
    plot_misread(images, predicted, labels, folder / "misread.png")
    loss = nn.functional.cross_entropy(model(images), labels)
    graph = graph_picture(loss, dict(model.named_parameters()))
    (folder / "graph.svg").write_text(graph)

    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    save_file(weights, folder / "model.safetensors")
    saved = load_file(folder / "model.safetensors")
    reloaded = LeNet()
    reloaded.load_state_dict({name: rl.from_numpy(array) for name, array in saved.items()})
    assert accuracy(reloaded, images, labels) == accuracy(model, images, labels)
    print(f"test accuracy {accuracies[-1]:.1%}; pictures and weights in {folder}/")
    return accuracies[-1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int)
    given = parser.parse_args()
    main(device=given.device, steps=given.steps)
