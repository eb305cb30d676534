"""What a user's program says, checked by `mypy --strict`: not run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import Tensor, nn, optim
from rushlight.autograd import Function, grad
from rushlight.distributions import Categorical, Normal, kl_divergence
from rushlight.nn import init
from rushlight.optim.lr_scheduler import CosineAnnealingLR, StepLR
from rushlight.utils.data import DataLoader, Dataset, TensorDataset, random_split


# --- tensors
def tensors() -> Tensor:
    x = torch.randn(3, 4)
    y = torch.zeros((3, 4), dtype=torch.float64, device="cpu")
    z = torch.arange(12).reshape(3, 4).float()
    w = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    x = x + y.to(torch.float32) * 2 - z / 3
    x += 1
    x = x @ z.T
    x[0] = 0.0
    x[:, 1:] = x[:, :-1].clone()
    first: Tensor = x[0, 0]
    rows, columns = x.shape
    assert rows == x.size(0) and columns == x.size(-1)
    count: int = x.numel()
    mean: float = x.mean().item()
    values, places = x.max(dim=1)
    best = torch.argmax(x, dim=-1, keepdim=True)
    top = torch.topk(x, k=2)
    ordered = torch.sort(x, descending=True).values
    joined = torch.cat([values, ordered[0]], dim=0)
    stacked = torch.stack((first, first * mean))
    mask = (x > 0) & (x < 1)
    chosen = torch.where(mask, x, torch.zeros_like(x))
    parts = torch.split(chosen, 1)
    a, b, *rest = chosen.unbind(0)
    wide = chosen.unsqueeze(0).expand(2, -1, -1).permute(2, 0, 1).contiguous()
    total = wide.sum() + joined.sum() + stacked.sum() + best.sum() + top.values.sum()
    total = total + sum(part.sum() for part in parts) + len(rest) + count + places.sum()
    array = x.detach().cpu().numpy()
    back = torch.from_numpy(array)
    assert torch.allclose(back, x) and torch.is_tensor(back)
    flat: list[float] = back.flatten().tolist()
    return total + a.norm() + b.std() + w.sum() + flat[0]


# --- gradients
def gradients() -> Tensor:
    x = torch.linspace(0, math.pi, 10, requires_grad=True)
    y = x.sin().sum()
    y.backward()
    if x.grad is None:
        raise RuntimeError("no gradient")
    slope = x.grad.clone()
    x.grad.zero_()
    (again,) = grad(x.cos().sum(), [x], create_graph=True)
    with torch.no_grad():
        x -= 0.1 * slope
    with torch.enable_grad(), torch.autograd.set_detect_anomaly(True):
        z = (x * again).sum()
    z.backward()
    return slope


@torch.no_grad()
def evaluate(model: nn.Module, loader: DataLoader[tuple[Tensor, ...]]) -> float:
    model.eval()
    right = 0
    seen = 0
    for images, labels in loader:
        right += int((model(images).argmax(1) == labels).sum().item())
        seen += labels.size(0)
    return right / seen


class Clip(Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, bound: float) -> Tensor:
        ctx.save_for_backward(x)
        return x.clamp(-bound, bound)

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


# --- modules
class Block(nn.Module):
    scale: Tensor

    def __init__(self, width: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width, bias=False)
        self.norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        self.gain = nn.Parameter(torch.ones(width))
        self.register_buffer("scale", torch.tensor(0.5))
        init.kaiming_uniform_(self.linear.weight, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        y = F.gelu(self.linear(self.norm(x)))
        out: Tensor = x + self.dropout(y) * self.gain * self.scale
        return out


class Net(nn.Module):
    def __init__(self, channels: int = 1, classes: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channels, 16, kernel_size=3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        )
        self.blocks = nn.ModuleList([Block(64) for _ in range(2)])
        self.head = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        x = F.adaptive_avg_pool2d(x, (2, 2)).flatten(1)
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(x)
        return F.log_softmax(logits, dim=-1)


class Tagger(nn.Module):
    def __init__(self, words: int, tags: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 32, padding_idx=0)
        self.lstm = nn.LSTM(32, 64, num_layers=2, batch_first=True, bidirectional=True)
        self.attention = nn.MultiheadAttention(128, num_heads=4, batch_first=True)
        self.out = nn.Linear(128, tags)

    def forward(self, words: Tensor, lengths: Tensor | None = None) -> Tensor:
        x, _ = self.lstm(self.embedding(words))
        attended, _ = self.attention(x, x, x, need_weights=False)
        tags: Tensor = self.out(attended)
        return tags


# --- data
class Squares(Dataset[tuple[Tensor, Tensor]]):
    def __init__(self, count: int) -> None:
        self.x = torch.rand(count, 1)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index], self.x[index] ** 2


def loaders(batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    train, test = random_split(Squares(100), [80, 20], torch.Generator().manual_seed(0))
    loader = DataLoader(train, batch_size=batch_size, shuffle=True, num_workers=0, drop_last=True)
    yield from loader
    plain = TensorDataset(torch.rand(4, 2), torch.rand(4))
    print(len(test), len(plain), plain[0][0].shape)


# --- training
def train(model: nn.Module, epochs: int, path: Path) -> list[float]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device).train()
    optimizer = optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    scheduler = CosineAnnealingLR(optimizer, T_max=epochs)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    losses: list[float] = []
    for epoch in range(epochs):
        for x, y in loaders(16):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = criterion(model(x.to(device)), y.to(device))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
        print(f"{epoch}: {losses[-1]:.4f}, lr {scheduler.get_last_lr()[0]}")
    torch.save({"model": model.state_dict(), "epoch": epochs}, path)
    state = torch.load(path, map_location=device)
    model.load_state_dict(state["model"])
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and parameter.dim() > 1:
            print(name, tuple(parameter.shape), parameter.grad is not None)
    return losses


def policy_loss(logits: Tensor, actions: Tensor, returns: Tensor) -> Tensor:
    distribution = Categorical(logits=logits)
    prior = Normal(torch.zeros(2), torch.ones(2))
    divergence = kl_divergence(prior, Normal(1.0, 2.0)).sum()
    loss = -(distribution.log_prob(actions) * returns).mean() - 0.01 * distribution.entropy().mean()
    return loss + divergence * 0


def mathematics() -> Tensor:
    matrix = torch.eye(3) * 2
    u, s, vh = torch.linalg.svd(matrix)
    solution = torch.linalg.solve(matrix, torch.ones(3))
    spectrum = torch.fft.rfft(solution).abs()
    batched = torch.vmap(torch.dot)(matrix, matrix)
    jacobian = torch.func.jacrev(torch.sin)(solution)
    product = torch.einsum("ij,jk->ik", u, vh)
    print(spectrum, batched, jacobian, StepLR, torch.finfo(torch.float32).eps)
    return product * s + torch.special.erf(s)
