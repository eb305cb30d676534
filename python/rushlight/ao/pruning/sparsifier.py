"""Masks of weights: which elements are zero, chosen anew as a model is trained."""

from __future__ import annotations

import abc
import copy
from collections import defaultdict

import rushlight
from rushlight import Tensor
from rushlight._module_paths import add_modules as _add_modules
from rushlight.nn import functional as F
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module
from rushlight.nn.utils import parametrize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_PLACES = ("module", "module_fqn", "tensor_name")  # what a state dict leaves out


class FakeSparsity(Module):
    """A parametrization that multiplies a weight by a mask.

    Args:
        mask: of the weight's shape.
    """

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        if self.mask.shape != x.shape:
            raise AssertionError(
                f"FakeSparsity: the mask has shape {tuple(self.mask.shape)}, the weight "
                f"{tuple(x.shape)}"
            )
        return self.mask * x

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return nothing: the mask is in the state of the sparsifier."""
        del args, kwargs
        return {}


def module_contains_param(module: Module, parametrization: type[Module]) -> bool:
    """Tell whether a weight of a module has a parametrization of this class."""
    if not parametrize.is_parametrized(module):
        return False
    lists = module.parametrizations.values()
    return any(isinstance(one, parametrization) for each in lists for one in each)


def swap_module(mod: Module, mapping: dict[type[Module], type[Module]]) -> Module:
    """Return what a mapping by class makes of a module without its masks, or the module."""
    kind = parametrize.type_before_parametrizations(mod)
    if kind not in mapping:
        return mod
    new = mapping[kind].from_dense(mod)
    for hook in mod._forward_pre_hooks.values():
        new.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        new.register_forward_hook(hook)
    return new


def module_to_fqn(model: Module, module: Module, prefix: str = "") -> str | None:
    """Return the dotted name of a module in a model, or None."""
    for name, child in model.named_modules():
        if child is module:
            return ".".join(part for part in (prefix, name) if part)
    return None


def fqn_to_module(model: Module | None, path: str) -> Any:
    """Return the module or tensor of a dotted name, or None."""
    found: Any = model
    for name in path.split(".") if path else ():
        found = getattr(found, name, None)
        if found is None:
            return None
    return found


def get_arg_info_from_tensor_fqn(model: Module, tensor_fqn: str) -> dict[str, Any]:
    """Return the module and the name in it of a tensor with a dotted name."""
    tensor_fqn = tensor_fqn.removeprefix(".")
    module_fqn, _, tensor_name = tensor_fqn.rpartition(".")
    return {
        "tensor_fqn": tensor_fqn,
        "module_fqn": module_fqn,
        "module": fqn_to_module(model, module_fqn),
        "tensor_name": tensor_name,
    }


class BaseSparsifier(abc.ABC):
    """Keeps a mask of each weight that it is given, and updates them in `step`.

    Subclasses write `update_mask(module, tensor_name, **options)`.

    Args:
        defaults: options of all weights, which a weight's own go before.
    """

    config: Any

    def __init__(self, defaults: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.defaults: dict[str, Any] = defaults or {}
        self.state: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        self.groups: list[dict[str, Any]] = []
        self.enable_mask_update = True

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "groups": self.groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for place, group in enumerate(self.groups):
            text += f"\n\tGroup {place}\n"
            for name in sorted(group):
                text += f"\t    {name}: {group[name]}\n"
        return text + ")"

    def state_dict(self) -> dict[str, Any]:
        """Return the masks, and the options of each weight."""
        groups = [
            {name: value for name, value in group.items() if name not in _PLACES}
            for group in self.groups
        ]
        return {"state": self.state, "groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Take masks and options that `state_dict` returned.

        Args:
            strict: a weight that the model lacks is an error.
        """
        groups = copy.deepcopy(state_dict["groups"])
        state = defaultdict(dict, {name: dict(own) for name, own in state_dict["state"].items()})
        for tensor_fqn, own in list(state.items()):
            info = get_arg_info_from_tensor_fqn(self.model, tensor_fqn)
            if info["module"] is None:
                if strict:
                    raise RuntimeError(f"load_state_dict: the model has no {tensor_fqn}")
                continue
            sparsity = _sparsity_of(info["module"], info["tensor_name"])
            if own.get("mask") is not None:
                sparsity.mask = own["mask"]
            for group in groups:
                if group["tensor_fqn"] == tensor_fqn:
                    group.update(info)
        self.state, self.groups = state, groups

    def make_config_from_model(
        self, model: Module, SUPPORTED_MODULES: Iterable[type[Module]] = (Linear,)
    ) -> None:
        """Take the weights of all linear layers."""
        self.config = [
            {"tensor_fqn": f"{name}.weight"}
            for name, module in model.named_modules()
            if type(module) in SUPPORTED_MODULES and name
        ]

    def prepare(self, model: Module, config: list[dict[str, Any]] | None) -> None:
        """Give weights of a model masks of ones.

        Args:
            config: a dict for each weight, with its dotted name under "tensor_fqn" and options; by
                default the weights of all linear layers.
        """
        self.model = model
        self.config = config
        if config is None:
            self.make_config_from_model(model)
        for given in self.config:
            if not isinstance(given, dict) or "tensor_fqn" not in given:
                raise AssertionError(f"prepare: expected a dict with tensor_fqn, got {given}")
            info = get_arg_info_from_tensor_fqn(model, given["tensor_fqn"])
            for name, value in info.items():
                if name in given and name != "tensor_fqn" and given[name] is not value:
                    if given[name] != value:
                        raise AssertionError(
                            f"prepare: {name} is {given[name]}, and {value} by tensor_fqn"
                        )
            if info["module"] is None:
                raise AssertionError(f"prepare: the model has no {given['tensor_fqn']}")
            self.groups.append({**copy.deepcopy(self.defaults), **given, **info})
        self._prepare()

    def _prepare(self, *args: Any, **kwargs: Any) -> None:
        """Register the masks; subclasses may take options."""
        del args, kwargs
        for group in self.groups:
            module, name = group["module"], group["tensor_name"]
            mask = group.get("mask", rushlight.ones_like(getattr(module, name)).detach())
            self.state[group["tensor_fqn"]]["mask"] = mask
            kind = group.get("parametrization", FakeSparsity)
            parametrize.register_parametrization(module, name, kind(mask))

    def squash_mask(
        self,
        params_to_keep: tuple[str, ...] | None = None,
        params_to_keep_per_layer: dict[str, tuple[str, ...]] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Multiply the weights by their masks, and remove those.

        Args:
            params_to_keep: options that each module keeps in `sparse_params`.
            params_to_keep_per_layer: the same by the module's dotted name.
        """
        del args, kwargs  # for subclasses
        for group in self.groups:
            module, name = group["module"], group["tensor_name"]
            parametrize.remove_parametrizations(module, name, leave_parametrized=True)
            kept = list(params_to_keep or ())
            kept += (params_to_keep_per_layer or {}).get(group["module_fqn"], ())
            if kept:
                module.sparse_params = {option: group[option] for option in kept}

    def convert(
        self,
        module: Module,
        mapping: dict[type[Module], type[Module]] | None = None,
        inplace: bool = False,
        parameterization: type[Module] = FakeSparsity,
    ) -> Module:
        """Return the model with masked layers replaced by what a mapping by class has for them.

        Args:
            mapping: classes with a `from_dense`.
            parameterization: what marks the layers.
        """
        if mapping is None:
            raise NotImplementedError("convert: mapping must be given")
        module = module if inplace else copy.deepcopy(module)
        for name, child in list(module.named_children()):
            if module_contains_param(child, parameterization):
                module._modules[name] = swap_module(child, mapping)
            else:
                self.convert(child, mapping, True, parameterization)
        return module

    def step(self, use_path: bool = True) -> None:
        """Choose all masks anew."""
        del use_path
        if not self.enable_mask_update:
            return
        with rushlight.no_grad():
            for group in self.groups:
                self.update_mask(**group)

    @abc.abstractmethod
    def update_mask(self, module: Module, tensor_name: str, **kwargs: Any) -> None:
        """Write the mask of one weight."""


def _sparsity_of(module, name):
    """The mask's parametrization of a weight, made where there is none."""
    if parametrize.is_parametrized(module, name):
        for one in module.parametrizations[name]:
            if isinstance(one, FakeSparsity):
                return one
    sparsity = FakeSparsity(rushlight.ones(getattr(module, name).shape))
    parametrize.register_parametrization(module, name, sparsity)
    return sparsity


def _mask_of(module, name):
    return module.parametrizations[name][0]


_NORMS = {1: rushlight.abs, 2: rushlight.square}


class WeightNormSparsifier(BaseSparsifier):
    """Makes blocks of the least norm zero, or the least elements of those.

    Args:
        sparsity_level: the part of the blocks that has zeros, from 0 to 1.
        sparse_block_shape: rows and columns of a block.
        zeros_per_block: how many elements of such a block are zero; all by default.
        norm: 1, 2, or a function of the weight; 2 by default.

    Example:
        >>> from rushlight.ao.pruning import WeightNormSparsifier
        >>> model = rushlight.nn.Sequential(rushlight.nn.Linear(4, 2, bias=False))
        >>> model[0].weight = rushlight.nn.Parameter(rushlight.arange(8.0).reshape(2, 4))
        >>> sparsifier = WeightNormSparsifier(0.5, sparse_block_shape=(1, 2))
        >>> sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}])
        >>> sparsifier.step()
        >>> model[0].weight.tolist()
        [[0.0, 0.0, 0.0, 0.0], [4.0, 5.0, 6.0, 7.0]]
    """

    def __init__(
        self,
        sparsity_level: float = 0.5,
        sparse_block_shape: tuple[int, int] = (1, 4),
        zeros_per_block: int | None = None,
        norm: Callable[..., Tensor] | int | None = None,
    ) -> None:
        rows, columns = sparse_block_shape
        if zeros_per_block is None:
            zeros_per_block = rows * columns
        norm = 2 if norm is None else norm
        if not callable(norm) and norm not in _NORMS:
            raise NotImplementedError(f"WeightNormSparsifier: norm must be 1 or 2, got {norm}")
        self.norm_fn: Any = norm if callable(norm) else _NORMS[norm]
        super().__init__({
            "sparsity_level": sparsity_level, "sparse_block_shape": sparse_block_shape,
            "zeros_per_block": zeros_per_block,
        })  # fmt: skip

    def update_mask(  # type: ignore[override]
        self,
        module: Module,
        tensor_name: str,
        sparsity_level: float,
        sparse_block_shape: tuple[int, int],
        zeros_per_block: int,
        **kwargs: Any,
    ) -> None:
        """Write the mask of one weight; `kwargs` are its other entries, which are not read."""
        del kwargs
        size = sparse_block_shape[0] * sparse_block_shape[1]
        if not 0 <= zeros_per_block <= size:
            raise ValueError(
                f"WeightNormSparsifier: zeros_per_block must be from 0 to {size}, the size of a "
                f"block, got {zeros_per_block}"
            )
        owner = _mask_of(module, tensor_name)
        if sparsity_level <= 0 or zeros_per_block == 0:
            owner.mask.data = rushlight.ones_like(owner.mask)
        elif sparsity_level >= 1 and zeros_per_block == size:
            owner.mask.data = rushlight.zeros_like(owner.mask)
        else:
            norms = self.norm_fn(getattr(module, tensor_name)).detach()
            mask = _block_mask(norms, sparsity_level, sparse_block_shape)
            if zeros_per_block != size:
                inner = _mask_in_blocks(norms, sparse_block_shape, zeros_per_block)
                mask = rushlight.logical_or(mask, inner)
            owner.mask.data = mask


def _block_mask(norms, sparsity_level, shape):
    """A mask with zeros in the blocks of the least mean norm."""
    rows, columns = norms.shape[-2:]
    if sparsity_level >= 1:
        return rushlight.zeros_like(norms)
    means = F.avg_pool2d(norms[None, None], shape, shape, ceil_mode=True)[0, 0]
    count = max(0, min(means.numel() - 1, round(sparsity_level * means.numel())))
    blocks = rushlight.ones(means.numel(), dtype=norms.dtype, device=norms.device)
    blocks[rushlight.topk(means.flatten(), count, largest=False).indices] = 0
    blocks = blocks.reshape(means.shape)
    mask = blocks.repeat_interleave(shape[0], 0).repeat_interleave(shape[1], 1)
    return mask[:rows, :columns].contiguous()


def _mask_in_blocks(norms, shape, zeros):
    """A mask with so many zeros in each block, at the elements of the least norm."""
    rows, columns = norms.shape[-2:]
    high, wide = shape
    padded = F.pad(norms, (0, -columns % wide, 0, -rows % high), value=float("inf"))
    down, across = padded.shape[0] // high, padded.shape[1] // wide
    blocks = padded.reshape(down, high, across, wide).transpose(1, 2).flatten(2)
    places = rushlight.topk(blocks, zeros, dim=2, largest=False).indices
    mask = rushlight.ones_like(blocks).scatter_(2, places, 0.0)
    mask = mask.reshape(down, across, high, wide).transpose(1, 2).reshape(padded.shape)
    return mask[:rows, :columns]


class NearlyDiagonalSparsifier(BaseSparsifier):
    """Makes zero what is far from the diagonal.

    Args:
        nearliness: how many diagonals stay, an odd number.
    """

    def __init__(self, nearliness: int = 1) -> None:
        super().__init__({"nearliness": nearliness})

    def update_mask(  # type: ignore[override]
        self, module: Module, tensor_name: str, nearliness: int, **kwargs: Any
    ) -> None:
        """Write the mask of one weight; `kwargs` are its other entries, which are not read."""
        del kwargs
        owner = _mask_of(module, tensor_name)
        mask = rushlight.zeros_like(owner.mask)
        if nearliness > 0:
            if nearliness % 2 == 0:
                raise ValueError(f"NearlyDiagonalSparsifier: nearliness must be odd: {nearliness}")
            distance = nearliness // 2
            if distance >= min(mask.shape):
                raise ValueError(
                    f"NearlyDiagonalSparsifier: nearliness {nearliness} is more than a weight of "
                    f"shape {tuple(mask.shape)} has"
                )
            mask = rushlight.ones_like(mask).triu(-distance).tril(distance)
        owner.mask.data = mask


__all__ = [
    "BaseSparsifier", "FakeSparsity", "NearlyDiagonalSparsifier", "WeightNormSparsifier",
    "fqn_to_module", "get_arg_info_from_tensor_fqn", "module_contains_param", "module_to_fqn",
    "swap_module",
]  # fmt: skip

_add_modules(
    __name__,
    {
        "base_sparsifier": "BaseSparsifier",
        "nearly_diagonal_sparsifier": "NearlyDiagonalSparsifier",
        "utils": (
            "module_contains_param swap_module module_to_fqn fqn_to_module "
            "get_arg_info_from_tensor_fqn FakeSparsity"
        ),
        "weight_norm_sparsifier": "WeightNormSparsifier",
    },
)
