"""From the same seed a program takes torch's course: weights, shuffles, masks and losses."""

import importlib
import re
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

pytest.importorskip("sklearn")
pytestmark = pytest.mark.torch

EXAMPLES = Path(__file__).parent.parent / "examples"
LIBRARIES = {"rushlight": rushlight, "torch": torch}
STEPS = 50


@pytest.fixture(scope="session")
def twins(tmp_path_factory):
    """The example of a name, once as it is and once with torch in rushlight's place."""
    folder = tmp_path_factory.mktemp("twins")
    for library in LIBRARIES:
        for path in [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("models/*.py")]:
            place = folder / f"{library}_twin" / path.relative_to(EXAMPLES)
            place.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text().replace("rushlight", library)
            place.write_text(re.sub("(?m)^from models", f"from {library}_twin.models", text))
    sys.path.insert(0, str(folder))
    yield lambda name: {k: importlib.import_module(f"{k}_twin.{name}") for k in LIBRARIES}
    sys.path.remove(str(folder))


def same_bits(ours, theirs):
    ours, theirs = ours.detach(), theirs.detach()
    assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]
    return ours.shape == theirs.shape and ours.numpy().tobytes() == theirs.numpy().tobytes()


MODELS = {
    "lenet": ("models.lenet", "LeNet", {}),
    "alexnet": ("models.alexnet", "AlexNet", {"classes": 10}),
    "resnet": ("models.resnet", "ResNet50", {"classes": 10}),
    "mobilenet": ("models.mobilenet", "MobileNetV2", {"classes": 10}),
    "gnmt": ("models.gnmt", "GNMT", {"words": 50, "width": 32}),
    "ncf": ("models.ncf", "NeuMF", {"users": 20, "items": 30}),
    "gpt": ("models.gpt", "GPT", {"words": 50}),
    "vae": ("vae", "VAE", {}),
    "generator": ("gan", "Generator", {}),
    "actor-critic": ("cart_pole", "ActorCritic", {}),
}


@pytest.mark.parametrize("name", MODELS)
def test_initial_weights(twins, name):
    module, network, options = MODELS[name]
    states = {}
    for library, twin in twins(module).items():
        LIBRARIES[library].manual_seed(3)
        states[library] = getattr(twin, network)(**options).state_dict()
    ours, theirs = states["rushlight"], states["torch"]
    assert list(ours) == list(theirs)
    assert not [key for key in ours if not same_bits(ours[key], theirs[key])]


DROPOUTS = [
    ("Dropout", (4, 50, 6)),
    ("Dropout1d", (4, 50, 6)),
    ("Dropout2d", (4, 50, 3, 2)),
    ("Dropout3d", (4, 50, 3, 2, 2)),
    ("AlphaDropout", (4, 50, 6)),
    ("FeatureAlphaDropout", (4, 50, 6)),
]


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize(("layer", "shape"), DROPOUTS)
def test_dropout_masks(layer, shape, p):
    results = []
    for library in (rushlight, torch):
        library.manual_seed(5)
        results.append(getattr(library.nn, layer)(p)(library.ones(shape)))
    assert same_bits(*results)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_random_slopes(dtype):
    results = []
    for library in (rushlight, torch):
        library.manual_seed(5)
        x = (library.arange(1000) / 250 - 3).to(getattr(library, dtype))
        results.append(library.nn.RReLU()(x).double())
    assert same_bits(*results)


def loaders_of(library):
    """Loaders whose order is random, each with its data."""
    data = library.utils.data
    numbers = data.TensorDataset(library.arange(101))
    weights = library.linspace(0, 1, 101)
    generator = library.Generator().manual_seed(11)
    yield data.DataLoader(numbers, 7, shuffle=True)
    yield data.DataLoader(numbers, 7, shuffle=True, generator=generator)
    yield data.DataLoader(numbers, 7, shuffle=True, num_workers=2)
    yield data.DataLoader(numbers, sampler=data.RandomSampler(numbers, True, 150))
    yield data.DataLoader(numbers, sampler=data.RandomSampler(numbers, num_samples=250))
    yield data.DataLoader(numbers, sampler=data.SubsetRandomSampler(range(5, 50)))
    yield data.DataLoader(numbers, sampler=data.WeightedRandomSampler(weights, 60))
    yield data.DataLoader(numbers, sampler=data.WeightedRandomSampler(weights, 60, False))
    yield data.DataLoader(numbers, sampler=data.DistributedSampler(numbers, 3, 1, seed=4))
    yield from (data.DataLoader(part, 5) for part in data.random_split(numbers, [0.7, 0.3]))


def test_shuffles():
    orders = []
    for library in (rushlight, torch):
        library.manual_seed(7)
        orders.append(
            [
                [batch.tolist() for (batch,) in loader]
                for loader in loaders_of(library)
                for _ in range(2)
            ]
        )
    assert orders[0] == orders[1]


def train_lenet(library, twins):
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = library.from_numpy(digits.images).float().unsqueeze(1) / 16
    data = library.utils.data.TensorDataset(images, library.from_numpy(digits.target).long())
    training, _ = library.utils.data.random_split(
        data, [1437, 360], generator=library.Generator().manual_seed(0)
    )
    loader = library.utils.data.DataLoader(training, batch_size=32, shuffle=True)
    model = twins("models.lenet").LeNet()
    optimizer = library.optim.Adam(model.parameters(), lr=2e-3)
    while True:
        for images, labels in loader:
            optimizer.zero_grad()
            loss = library.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            yield loss.item()


def train_gpt(library, twins):
    gpt = twins("gpt")
    text = gpt.load_text()[:100_000]
    alphabet = {letter: i for i, letter in enumerate(sorted(set(text)))}
    tokens = library.tensor([alphabet[letter] for letter in text])
    model = gpt.GPT(len(alphabet), 64, width=64, heads=4, layers=2)
    model.apply(gpt.initialize)
    optimizer = library.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = library.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=STEPS)
    for _ in range(STEPS):
        yield gpt.train_step(model, optimizer, *gpt.batch_of(tokens, 16, 64)).item()
        schedule.step()


def train_vae(library, twins):
    vae = twins("vae")
    training, _ = vae.load_data()
    loader = library.utils.data.DataLoader(training, batch_size=64, shuffle=True)
    model = vae.VAE()
    optimizer = library.optim.Adam(model.parameters(), lr=1e-3)
    while True:
        for (images,) in loader:
            yield vae.train_step(model, optimizer, images).item()


def first_losses(train, library, twins):
    LIBRARIES[library].manual_seed(0)
    losses = train(LIBRARIES[library], lambda name: twins(name)[library])
    return [next(losses) for _ in range(STEPS)]


@pytest.mark.parametrize("train", [train_lenet, train_gpt, train_vae])
def test_loss_curves(train, twins):
    ours, theirs = (first_losses(train, library, twins) for library in LIBRARIES)
    assert theirs[-1] < 0.9 * theirs[0]
    differences = [abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True)]
    print(f"largest relative difference: {max(differences):.1e}")
    assert max(differences) < 1e-4
