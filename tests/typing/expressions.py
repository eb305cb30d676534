"""What type checkers think of expressions: `assert_type` fails where they think otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import Tensor, nn
from rushlight.utils.data import DataLoader, TensorDataset

if TYPE_CHECKING:
    from typing_extensions import assert_type


def of_tensors(x: Tensor) -> None:
    # making them
    assert_type(torch.tensor([1.0, 2.0]), Tensor)
    assert_type(torch.zeros(2, 3), Tensor)
    assert_type(torch.zeros((2, 3), dtype=torch.float64), Tensor)
    assert_type(torch.ones_like(x), Tensor)
    assert_type(torch.arange(10), Tensor)
    assert_type(torch.linspace(0, 1, 5), Tensor)
    assert_type(torch.randint(10, (3,)), Tensor)
    assert_type(torch.randn(2, generator=torch.Generator()), Tensor)
    assert_type(torch.eye(3), Tensor)
    assert_type(torch.full((2,), 3.0), Tensor)
    assert_type(x.new_zeros(3, 4), Tensor)
    # operators
    assert_type(x + 1, Tensor)
    assert_type(1 - x, Tensor)
    assert_type(x * x, Tensor)
    assert_type(2 / x, Tensor)
    assert_type(x // 2, Tensor)
    assert_type(x**2, Tensor)
    assert_type(x @ x, Tensor)
    assert_type(-x, Tensor)
    assert_type(abs(x), Tensor)
    assert_type(~(x > 0), Tensor)
    assert_type(x == 1, Tensor)
    assert_type(x != x, Tensor)
    assert_type((x > 0) & (x < 1), Tensor)
    # what they are
    assert_type(x.shape, torch.Size)
    assert_type(x.shape[0], int)
    assert_type(x.shape[1:], torch.Size)
    assert_type(x.size(), torch.Size)
    assert_type(x.size(0), int)
    assert_type(x.dim(), int)
    assert_type(x.ndim, int)
    assert_type(x.numel(), int)
    assert_type(len(x), int)
    assert_type(x.dtype, torch.dtype)
    assert_type(x.device, torch.device)
    assert_type(x.device.type, str)
    assert_type(x.dtype.is_floating_point, bool)
    assert_type(x.requires_grad, bool)
    assert_type(x.is_contiguous(), bool)
    assert_type(x.stride(), tuple[int, ...])
    assert_type(x.grad, Tensor | None)
    assert_type(x.item(), Any)
    assert_type(bool(x), bool)
    assert_type(float(x), float)
    # shapes
    assert_type(x[0], Tensor)
    assert_type(x[:, None, ..., 1:2], Tensor)
    assert_type(x[x > 0], Tensor)
    assert_type(x.view(-1, 2), Tensor)
    assert_type(x.view((2, 3)), Tensor)
    assert_type(x.reshape(2, 3), Tensor)
    assert_type(x.permute(1, 0), Tensor)
    assert_type(x.T, Tensor)
    assert_type(x.flatten(1), Tensor)
    assert_type(x.unbind(), tuple[Tensor, ...])
    assert_type(x.split(2), tuple[Tensor, ...])
    assert_type(torch.chunk(x, 2), tuple[Tensor, ...])
    assert_type(torch.cat([x, x], dim=1), Tensor)
    assert_type(torch.stack((x, x)), Tensor)
    # reductions
    assert_type(x.sum(), Tensor)
    assert_type(x.sum(dim=(0, 1), keepdim=True), Tensor)
    assert_type(x.mean(0), Tensor)
    assert_type(x.max(), Tensor)
    assert_type(x.max(dim=1).values, Tensor)
    assert_type(torch.min(x, 0).indices, Tensor)
    assert_type(torch.sort(x).values, Tensor)
    assert_type(torch.topk(x, 2).indices, Tensor)
    assert_type(x.argmax(-1), Tensor)
    assert_type(torch.allclose(x, x), bool)
    assert_type(torch.equal(x, x), bool)
    assert_type(torch.var_mean(x), tuple[Tensor, Tensor])
    # functions
    assert_type(torch.sin(x), Tensor)
    assert_type(torch.clamp(x, min=0), Tensor)
    assert_type(torch.where(x > 0, x, 0.0), Tensor)
    assert_type(torch.where(x > 0), tuple[Tensor, ...])
    assert_type(torch.einsum("ij->ji", x), Tensor)
    assert_type(torch.linalg.norm(x), Tensor)
    assert_type(torch.linalg.svd(x).S, Tensor)
    assert_type(torch.fft.fft(x), Tensor)
    assert_type(torch.special.erf(x), Tensor)
    assert_type(torch.is_tensor(x), bool)
    assert_type(torch.result_type(x, 1.0), torch.dtype)
    assert_type(torch.get_default_dtype(), torch.dtype)
    # in place, and where they are
    assert_type(x.add_(1), Tensor)
    assert_type(x.requires_grad_(), Tensor)
    assert_type(x.to("cpu"), Tensor)
    assert_type(x.to(torch.float64), Tensor)
    assert_type(x.detach().cpu(), Tensor)
    assert_type(x.float(), Tensor)


def of_layers(x: Tensor) -> None:
    assert_type(F.relu(x), Tensor)
    assert_type(F.softmax(x, dim=-1), Tensor)
    assert_type(F.conv2d(x, x, padding="same"), Tensor)
    assert_type(F.cross_entropy(x, x), Tensor)
    assert_type(F.max_pool2d(x, 2), Tensor)
    assert_type(F.dropout(x, 0.5), Tensor)
    layer = nn.Linear(3, 4)
    assert_type(layer.in_features, int)
    assert_type(layer.weight, nn.Parameter)
    assert_type(layer.state_dict(), dict[str, Any])
    assert_type(nn.Sequential(layer)(x), Any)
    assert_type(layer.train(), nn.Linear)
    assert_type(TensorDataset(x)[0], tuple[Tensor, ...])
    assert_type(DataLoader(TensorDataset(x)), DataLoader[tuple[Tensor, ...]])
    assert_type(torch.optim.SGD(layer.parameters(), lr=0.1).state_dict(), dict[str, Any])
    with torch.no_grad():
        assert_type(torch.is_grad_enabled(), bool)
