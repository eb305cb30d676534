"""Pruning: parameters masked with zeros."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import rushlight
from rushlight import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    from rushlight.nn.modules.module import Module

    _T = TypeVar("_T", bound="Module")

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]


class BasePruningMethod(ABC):
    """A way to prune; the hook that computes a pruned parameter before each forward.

    A pruned parameter `name` becomes `name_orig`, with a buffer `name_mask`; `name` is their
    product. A subclass defines `compute_mask(t, default_mask)` and its PRUNING_TYPE: whether it
    prunes single elements ("unstructured"), slices ("structured") or regardless ("global").
    """

    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> None:
        """The mask of `t`: 0 where it is pruned, given what is pruned already."""

    def apply_mask(self, module: Module) -> Any:
        """The original times the mask."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask = getattr(module, self._tensor_name + "_mask")
        original = getattr(module, self._tensor_name + "_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        *args: Any,
        importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Prune `module.name`, once more if it is pruned already."""
        hooks = module._forward_pre_hooks
        earlier = [
            (key, hook)
            for key, hook in hooks.items()
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
        ]
        if len(earlier) > 1:
            raise AssertionError(f"{len(earlier)} pruning hooks on '{name}', expected one at most")
        method = cls(*args, **kwargs)
        method._tensor_name = name
        if earlier:
            key, old = earlier[0]
            del hooks[key]
            container = old
            if not isinstance(old, PruningContainer):
                container = PruningContainer(old)
            container.add_pruning_method(method)
            method = container
        original = getattr(module, name)
        if importance_scores is None:
            importance_scores = original
        elif importance_scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores: shape {tuple(importance_scores.shape)} must be the "
                f"parameter's {tuple(original.shape)}"
            )
        if not earlier:
            default_mask = rushlight.ones_like(original)
        else:
            default_mask = (
                getattr(module, name + "_mask")
                .detach()
                .clone(memory_format=rushlight.contiguous_format)
            )
        mask = method.compute_mask(importance_scores, default_mask=default_mask)
        if not earlier:
            module.register_parameter(name + "_orig", module._parameters.pop(name))
        module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Any:
        """A pruned copy of a tensor."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                f"importance_scores: shape {tuple(scores.shape)} must be {tuple(t.shape)}"
            )
        default_mask = rushlight.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=default_mask)

    def remove(self, module: Module) -> None:
        """Make the pruned parameter an ordinary one; the zeros stay."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before it can be removed")
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        original.data = weight.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several methods on one parameter, each on what the ones before left."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods = ()
        if len(args) == 1 and not isinstance(args[0], Iterable):
            self._tensor_name = args[0]._tensor_name
        methods = args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args
        for method in methods:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method for the same parameter."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None:
            own = getattr(self, "_tensor_name", method._tensor_name)
            if own != method._tensor_name:
                raise ValueError(
                    "Can only add pruning methods acting on the parameter named "
                    f"'{own}' to PruningContainer {self}. Found '{method._tensor_name}'"
                )
            self._tensor_name = own
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of the last method, on the part that its type says."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            part = mask == 1
        elif method.PRUNING_TYPE == "structured":
            # Slices that are not all zero yet.
            if not hasattr(method, "dim"):
                raise AttributeError(f"{type(method).__name__} has no attribute 'dim'")
            dim = method.dim % t.dim()
            others = [d for d in range(t.dim()) if d != dim]
            kept = mask.sum(others) != 0 if others else mask != 0
            part = (slice(None),) * dim + (kept,)
        elif method.PRUNING_TYPE == "global":
            part = (slice(None),) * t.dim()
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        new = method.compute_mask(t[part], default_mask=mask[part])
        mask[part] = new.to(dtype=mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _Unstructured(BasePruningMethod):
    """Prunes elements, those at the flat indices that `_chosen(t, count)` gives."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _compute_nparams_toprune(self.amount, t.nelement())
        mask = default_mask.clone(memory_format=rushlight.contiguous_format)
        if count != 0:
            mask.view(-1)[self._chosen(t, count)] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Prunes elements at random; `amount` is a share or a number of them."""

    def _chosen(self, t, count):
        return rushlight.topk(rushlight.rand_like(t).view(-1), k=count).indices


class L1Unstructured(_Unstructured):
    """Prunes the smallest elements; `amount` is a share or a number of them."""

    def _chosen(self, t, count):
        return rushlight.topk(t.abs().reshape(-1), k=count, largest=False).indices


class _Structured(BasePruningMethod):
    """Prunes whole slices along `dim`, those of the lowest numbers that `_scores(t)` gives."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        slices = t.shape[self.dim]
        count = _compute_nparams_toprune(self.amount, slices)
        if count == 0:
            return default_mask
        best = rushlight.topk(self._scores(t), k=slices - count, largest=True).indices
        mask = rushlight.zeros_like(t)
        mask[(slice(None),) * (self.dim % t.dim()) + (best,)] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(_Structured):
    """Prunes slices along `dim` at random; `amount` is a share or a number of them."""

    def _scores(self, t):
        return rushlight.rand(t.shape[self.dim])


class LnStructured(_Structured):
    """Prunes the slices along `dim` of the smallest n-norm."""

    def __init__(self, amount: Any, n: int, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t):
        others = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        return rushlight.norm(t, p=self.n, dim=others)

    @classmethod
    def apply(
        cls,
        module: Module,
        name: str,
        amount: Any,
        n: int,
        dim: int,
        importance_scores: Tensor | None = None,
    ) -> Any:
        return super().apply(
            module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """Prunes by a mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"mask: shape {tuple(self.mask.shape)} must be {tuple(default_mask.shape)}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)


def identity(module: _T, name: str) -> _T:
    """Make `name` pruned, with nothing pruned yet."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: _T, name: str, amount: Any) -> _T:
    """Prune a share or number of elements at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: _T, name: str, amount: Any, importance_scores: Tensor | None = None
) -> _T:
    """Prune the elements of the smallest absolute value, or score."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: _T, name: str, amount: Any, dim: int) -> _T:
    """Prune slices along `dim` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: _T,
    name: str,
    amount: Any,
    n: int,
    dim: int,
    importance_scores: Tensor | None = None,
) -> _T:
    """Prune the slices along `dim` of the smallest n-norm."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: _T, name: str, mask: Tensor) -> _T:
    """Prune by a given mask."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Tensor | None = None, **kwargs: Any
) -> None:
    """Prune several parameters, pairs of module and name, as if they were one vector."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    if importance_scores is not None and not isinstance(importance_scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters = list(parameters)
    importance_scores = importance_scores or {}
    scores = [
        importance_scores.get((module, name), getattr(module, name)) for module, name in parameters
    ]
    masks = [
        getattr(module, name + "_mask", rushlight.ones_like(getattr(module, name)))
        for module, name in parameters
    ]
    container = PruningContainer()
    container._tensor_name = "temp"  # the name that the one vector has here
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    mask = container.compute_mask(
        rushlight.cat([score.reshape(-1) for score in scores]),
        rushlight.cat([part.reshape(-1) for part in masks]),
    )
    offset = 0
    for module, name in parameters:
        param = getattr(module, name)
        part = mask[offset : offset + param.numel()].view_as(param)
        custom_from_mask(module, name, mask=part)
        offset += param.numel()


def remove(module: _T, name: str) -> _T:
    """Make a pruned parameter an ordinary one; the zeros stay."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Module) -> bool:
    """Whether anything below `module` is pruned."""
    return any(
        isinstance(hook, BasePruningMethod)
        for below in module.modules()
        for hook in below._forward_pre_hooks.values()
    )


def _validate_pruning_amount_init(amount):
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    whole = isinstance(amount, numbers.Integral)
    if (whole and amount < 0) or (not whole and not 0.0 <= float(amount) <= 1.0):
        raise ValueError(
            f"amount={amount} should be a fraction, from 0.0 to 1.0, or a count, an int of at "
            "least 0"
        )


def _validate_pruning_amount(amount, tensor_size):
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to "
            f"prune={tensor_size}"
        )


def _compute_nparams_toprune(amount, tensor_size):
    """How many of `tensor_size` entries an amount is."""
    _validate_pruning_amount(amount, tensor_size)
    return amount if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _validate_structured_pruning(t):
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found a tensor "
            f"of shape {tuple(t.shape)} with {t.dim()} dims"
        )


def _validate_pruning_dim(t, dim):
    if not -t.dim() <= dim < t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {tuple(t.shape)}")
