"""Trains one network in several processes at once, without locks: Hogwild.

The parameters lie in shared memory. Each process draws batches of its own, works out gradients of
its own, and changes the parameters whenever it has some, whatever the others are doing meanwhile.

    python examples/hogwild.py --workers 4

Recht, Ré, Wright and Niu, "Hogwild!: A Lock-Free Approach to Parallelizing Stochastic Gradient
Descent", 2011; the example of parallel training in the PyTorch paper of 2019.
"""

import argparse
import time

from sklearn.datasets import load_digits

import rushlight as rl
import rushlight.multiprocessing as mp
from rushlight import nn
from rushlight.utils.data import DataLoader, TensorDataset, random_split


def make_model():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def load_data():
    """1,797 scanned digits from scikit-learn: 1,437 to learn from and 360 to test on."""
    digits = load_digits()
    images = rl.from_numpy(digits.images).float() / 16
    dataset = TensorDataset(images, rl.from_numpy(digits.target).long())
    return random_split(dataset, [1437, 360], generator=rl.Generator().manual_seed(0))


def train(rank, model, steps, epochs):
    """What each process runs; `steps` counts those of all."""
    rl.set_num_threads(1)
    rl.manual_seed(rank)
    loader = DataLoader(load_data()[0], batch_size=16, shuffle=True)
    optimizer = rl.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()  # gradients are this process's, parameters everybody's
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            steps[rank] += 1


def accuracy(model):
    images, labels = load_data()[1][:]
    with rl.no_grad():
        return (model(images).argmax(dim=1) == labels).float().mean().item()


def main(workers=2, epochs=8, start_method="spawn"):
    rl.manual_seed(0)
    model = make_model().share_memory()
    steps = rl.zeros(workers, dtype=rl.int64).share_memory_()
    start = time.perf_counter()
    mp.start_processes(train, (model, steps, epochs), workers, start_method=start_method)
    seconds = time.perf_counter() - start
    counts = " + ".join(str(count) for count in steps.tolist())
    print(f"{counts} steps of {workers} processes in {seconds:.1f} s")
    print(f"test accuracy {accuracy(model):.1%}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--start-method", default="spawn", choices=["spawn", "fork", "forkserver"])
    options = parser.parse_args()
    main(options.workers, options.epochs, options.start_method)
