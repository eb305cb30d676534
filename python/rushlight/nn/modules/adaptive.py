"""Adaptive softmax: a softmax for many classes of very different frequency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules.container import ModuleList, Sequential
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module
from rushlight.types import Device, _dtype

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of classes in clusters, the frequent ones in the head.

    Args:
        in_features: size of the input.
        n_classes: number of classes, sorted by frequency.
        cutoffs: where each cluster ends.
        div_value: cluster i + 1 is computed in in_features / div_value^(i + 1) dims.
        head_bias: whether the head has a bias.

    Grave et al., "Efficient softmax approximation for GPUs", 2017.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Device = None,
        dtype: _dtype | None = None,
    ) -> None:
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        cutoffs = list(cutoffs)
        if len(cutoffs) == 0:
            raise ValueError("cutoffs: expected at least one")
        if (
            cutoffs != sorted(cutoffs)
            or min(cutoffs) <= 0
            or max(cutoffs) > n_classes - 1
            or len(set(cutoffs)) != len(cutoffs)
            or any(int(c) != c for c in cutoffs)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                f"order, where each value is between 1 and n_classes-1 = {n_classes - 1}, but are "
                f"{cutoffs}"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs: list[int] = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size: int = self.cutoffs[0]
        self.n_clusters: int = len(self.cutoffs) - 1
        self.head_size: int = self.shortlist_size + self.n_clusters
        self.head: Linear = Linear(in_features, self.head_size, bias=head_bias, **factory)
        self.tail: ModuleList = ModuleList()
        for i in range(self.n_clusters):
            hidden = int(in_features // (div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, bias=False, **factory),
                    Linear(hidden, size, bias=False, **factory),
                )
            )

    def reset_parameters(self) -> None:
        self.head.reset_parameters()
        for to_hidden, to_classes in self.tail:
            to_hidden.reset_parameters()
            to_classes.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """(output, loss): the log-probability of each target, and minus their mean."""
        batched = target_.dim() > 0
        input, target = self._batched(input_, target_)
        head = F.log_softmax(self.head(input), dim=1)
        # The head's index of each target: the class itself, or its cluster's entry.
        head_index = target.clone()
        tail_output = head.new_zeros(target.size(0))
        used = (target >= 0) & (target < self.shortlist_size)
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:])):
            inside = (target >= low) & (target < high)
            used = used | inside
            rows = inside.nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            log_probs = F.log_softmax(self.tail[i](input.index_select(0, rows)), dim=1)
            relative = (target.index_select(0, rows) - low).unsqueeze(1)
            picked = log_probs.gather(1, relative).squeeze(1)
            tail_output = tail_output.index_copy(0, rows, picked.to(tail_output.dtype))
            head_index = head_index.masked_fill(inside, self.shortlist_size + i)
        if not bool(used.all()):
            raise RuntimeError(
                f"target: must be in [0, {self.n_classes - 1}] but is in "
                f"[{target.min().item()}, {target.max().item()}]"
            )
        output = tail_output + head.gather(1, head_index.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _batched(self, input, target):
        if target.dim() == 1:
            if input.size(0) != target.size(0):
                raise RuntimeError(
                    f"input and target: batch sizes {input.size(0)} and {target.size(0)} differ"
                )
            if input.dim() != 2:
                raise RuntimeError(f"input: expected 2 dims for 1D targets but got {input.dim()}")
            return input, target
        if target.dim() == 0:
            if input.dim() != 1:
                raise RuntimeError(f"input: expected 1 dim for a 0D target but got {input.dim()}")
            return input.unsqueeze(0), target.unsqueeze(0)
        raise RuntimeError(f"target: expected 0 or 1 dims but got {target.dim()}")

    def _get_full_log_prob(self, input, head_output):
        """The log-probabilities of all classes, given the head's output."""
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            within = F.log_softmax(tail(input), dim=1)
            parts.append(within + head[:, self.shortlist_size + i].unsqueeze(1))
        return rushlight.cat(parts, dim=1)

    def log_prob(self, input: Tensor) -> Tensor:
        """Log-probabilities of all classes, (N, n_classes)."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The most likely class of each row; the tail is computed only where the head wants it."""
        head_output = self.head(input)
        output = rushlight.argmax(head_output, dim=1)
        in_tail = output >= self.shortlist_size
        if not bool(in_tail.any()):
            return output
        if bool(in_tail.all()):
            return rushlight.argmax(self._get_full_log_prob(input, head_output), dim=1)
        log_prob = self._get_full_log_prob(input[in_tail], head_output[in_tail])
        output[in_tail] = rushlight.argmax(log_prob, dim=1)
        return output
