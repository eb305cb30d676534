"""The models of examples/ train on "cuda" with the CPU's losses: `python models.py [NAME ...]`.

Prints the losses of each on both devices, and "wrong" where they differ. Dropout is off, as the two
devices draw other numbers.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent.parent / "examples"))

import rushlight as torch
import rushlight.nn.functional as F
from models.alexnet import AlexNet
from models.gnmt import GNMT
from models.gpt import GPT
from models.lenet import LeNet
from models.mobilenet import MobileNetV2
from models.ncf import NeuMF
from models.resnet import ResNet50
from models.vgg import VGG19


def images(count, channels, size):
    x = torch.randn(count, channels, size, size)
    return (x,), torch.arange(count) % 10


def tokens(words, *shape):
    return torch.randint(words, shape)


def of_scores(scores, targets):
    return F.cross_entropy(scores.flatten(0, -2), targets.flatten())


# Of each: the model, its arguments and targets, the loss, the rate, the steps.
MODELS = {
    "lenet": lambda: (LeNet(), *images(8, 1, 8), F.cross_entropy, 0.05, 5),
    "gpt": lambda: (
        GPT(17, length=8, width=16, heads=2, layers=2),
        (tokens(17, 2, 8),), tokens(17, 2, 8), of_scores, 0.1, 5,
    ),
    "ncf": lambda: (
        NeuMF(9, 7, factors=8, widths=(16, 8)),
        (tokens(9, 6), tokens(7, 6)), torch.rand(6), F.binary_cross_entropy_with_logits, 0.1, 5,
    ),
    "gnmt": lambda: (
        GNMT(words=13, width=8, layers=3),
        (tokens(13, 5, 2), tokens(13, 4, 2)), tokens(13, 4, 2), of_scores, 0.1, 3,
    ),
    "alexnet": lambda: (AlexNet(10), *images(2, 3, 63), F.cross_entropy, 0.01, 2),
    "vgg": lambda: (VGG19(10), *images(2, 3, 32), F.cross_entropy, 0.01, 2),
    "mobilenet": lambda: (MobileNetV2(10), *images(4, 3, 64), F.cross_entropy, 0.01, 2),
    "resnet": lambda: (ResNet50(10), *images(4, 3, 64), F.cross_entropy, 0.01, 2),
}  # fmt: skip
# Their second loss says little in float32: batch norm over 16 numbers magnifies what is rounded,
# the CPU's own losses differ by 0.7 % and 7 % from those in float64.
IN_DOUBLE = ("mobilenet", "resnet")


def train(name, device):
    torch.manual_seed(0)
    model, inputs, targets, loss_of, rate, steps = MODELS[name]()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
    dtype = torch.float64 if name in IN_DOUBLE else torch.float32
    model.to(device, dtype)
    inputs = [x.to(device, dtype if x.is_floating_point() else x.dtype) for x in inputs]
    targets = targets.to(device)
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model(*inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    torch.backends.cudnn.allow_tf32 = False  # rounds as no CPU does
    for name in sys.argv[1:] or MODELS:
        expected, got = train(name, "cpu"), train(name, "cuda")
        tolerance = 1e-7 if name in IN_DOUBLE else 2e-3
        a, b = (torch.tensor(losses, dtype=torch.float64) for losses in (expected, got))
        same = torch.allclose(a, b, tolerance, 0.0)
        print(f"{name}: {'right' if same else 'wrong'}", *(f"{x:.5f}" for x in expected), "on cuda",
              *(f"{x:.5f}" for x in got))  # fmt: skip
