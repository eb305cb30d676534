"""Selective checkpointing: which operations of a checkpointed function keep their results.

A mode sees every operation of the first call and keeps the results that the policy wants; another
gives them back in the second call, which then computes only the rest. What a skipped operation
saves for its backward is handed over in its stead: its arguments, which the second call has made
anew, and its results, which were kept.
"""

from __future__ import annotations

import enum
import types

import rushlight
from rushlight import Tensor
from rushlight.overrides import TorchFunctionMode
from rushlight.utils import _pytree as pytree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from typing_extensions import Self

    from rushlight.library._operator import _Builtin


class CheckpointPolicy(enum.Enum):
    """What to do with the results of an operation; without torch.compile PREFER means MUST."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy is told; it is asked in the first call alone."""

    is_recompute: bool
    op_output: Any

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


_SAVES = (
    CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE,
    CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD,
)  # fmt: skip
_OF_TWO_TENSORS = {"add", "sub", "mul", "div", "eq", "ne", "lt", "le", "gt", "ge"}
_QUESTIONS = {"dim", "size", "stride", "numel", "storage_offset", "is_contiguous", "detach"}


def _of_matmul(args):
    ndims = tuple(a.dim() for a in args[:2])
    known = {(1, 1): "dot", (2, 1): "mv", (1, 2): "mm", (2, 2): "mm"}
    return known.get(ndims, "mm" if ndims[1] == 2 else "bmm")


def operation(func: Callable[..., Any], args: Any, kwargs: Any) -> _Builtin | None:
    """What torch calls the operation that a function runs, or None: torch.ops.aten.mm.default."""
    name = getattr(func, "__name__", "")
    if name.startswith("__") or name in _QUESTIONS or isinstance(func, types.FunctionType):
        return None
    if name == "matmul":
        name = _of_matmul(args)
    elif name == "linear":
        name = "mm" if len(args) < 3 or args[2] is None else "addmm"
    elif name in ("conv1d", "conv2d", "conv3d"):
        name = "convolution"
    packet = getattr(rushlight.ops.aten, name, None)
    if packet is None:
        return None
    return packet.Tensor if name in _OF_TWO_TENSORS else packet.default


def _tensors(value):
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _place(tensor):
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


class _Kept:
    """The results of one operation, and where what it saves is to be found again."""

    def __init__(
        self,
        result: Any,
        args: Any,
        kwargs: Any,
        saved: Sequence[Any],
        random_state: Tensor | None,
        may_change: bool,
    ) -> None:
        leaves, self.structure = pytree.tree_flatten(result)
        self.needs = [isinstance(leaf, Tensor) and leaf.requires_grad for leaf in leaves]
        self.leaves = [leaf.detach() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self.versions = None if may_change else self._versions()
        self.random_state = random_state
        places = [_place(t) for t in _tensors((args, kwargs, result))]
        self.is_known = all(place in places for place in saved)
        self.sources = [places.index(place) for place in saved] if self.is_known else []

    def _versions(self):
        return [leaf._version for leaf in _tensors(self.leaves)]

    def again(self, args: Any, kwargs: Any, pack: Callable[..., Any]) -> Tensor:
        """The results, once `pack` has got what the operation saves."""
        if self.versions is not None and self._versions() != self.versions:
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated; with "
                "allow_cache_entry_mutation=True that is allowed"
            )
        sources = _tensors((args, kwargs, self.leaves))
        for source in self.sources:
            pack(sources[source])
        if self.random_state is not None:
            rushlight.set_rng_state(self.random_state)
        leaves = [
            _computed(leaf) if needs else leaf.detach() if isinstance(leaf, Tensor) else leaf
            for leaf, needs in zip(self.leaves, self.needs, strict=True)
        ]
        return pytree.tree_unflatten(leaves, self.structure)


class _Given(rushlight.autograd.Function):
    """Gives a kept result a history, which nobody follows: operations in place refuse leaves."""

    @staticmethod
    def forward(ctx: Any, root: Tensor, held: list[Tensor]) -> Tensor:
        return held[0].data

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None]:
        return None, None


def _computed(kept):
    return _Given.apply(rushlight.empty(0, requires_grad=True), [kept])


class Selective(TorchFunctionMode):
    """Sees every operation; Python functions of the library it follows inside."""

    def __init__(self, policy: Callable[..., Any], kept: dict[Any, Any], may_change: bool) -> None:
        super().__init__()
        self.policy, self.kept, self.may_change = policy, kept, may_change
        self.frame, self.seen = None, {}

    def __enter__(self) -> Self:
        self.seen = {}
        return super().__enter__()

    def __exit__(self, *exception: object) -> None:
        self.frame = None
        super().__exit__(*exception)

    def __torch_function__(
        self, func: Callable[..., Any], types_: Sequence[Any], args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        inside = getattr(func, "__wrapped__", None)
        if inside is not None:
            with _Reentered(self):
                return inside(*args, **kwargs)
        op = operation(func, args, kwargs)
        if op is None or self.frame is None:
            return func(*args, **kwargs)
        number = self.seen[op] = self.seen.get(op, -1) + 1
        return self.run(op, number, func, args, kwargs)


class _Reentered:
    """The mode once more, inside of a function that it is looking into."""

    def __init__(self, mode: str) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        TorchFunctionMode.__enter__(self.mode)

    def __exit__(self, *exception: object) -> None:
        TorchFunctionMode.__exit__(self.mode, *exception)


class Keeping(Selective):
    """The mode of the first call."""

    def run(self, op: Any, number: int, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        context = SelectiveCheckpointContext(is_recompute=False)
        policy = self.policy(context, op, *args, **kwargs)
        if policy not in _SAVES and policy is not True:
            return func(*args, **kwargs)
        saved, before = [], rushlight.get_rng_state()

        def pack(tensor):
            saved.append(_place(tensor))
            return self.frame.pack(tensor)

        with rushlight.autograd.graph.saved_tensors_hooks(pack, self.frame.unpack):
            result = func(*args, **kwargs)
        after = rushlight.get_rng_state()
        state = None if rushlight.equal(before, after) else after
        entry = _Kept(result, args, kwargs, saved, state, self.may_change)
        given = [t.data_ptr() for t in _tensors((args, kwargs))]
        is_new = all(t.data_ptr() not in given for t in _tensors(result))  # no view, not in place
        if entry.is_known and is_new:
            self.kept[op, number] = entry
        return result


class Giving(Selective):
    """The mode of the second call."""

    def run(self, op: Any, number: int, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        entry = self.kept.get((op, number))
        if entry is None:
            return func(*args, **kwargs)
        return entry.again(args, kwargs, self.frame.pack_again)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | Sequence[Any] | int | None,
    allow_cache_entry_mutation: bool = False,
) -> tuple[Any, ...]:
    """The two contexts of a checkpoint that keeps the results of some operations.

    Args:
        policy_fn_or_list: policy(ctx, op, *args, **kwargs), which returns a `CheckpointPolicy`, or
            the list of operations to save. An operation is one like torch.ops.aten.mm.default;
            what the library computes in one step, as `linear` or `conv2d`, is called by the name
            of the step that takes its time in torch.
        allow_cache_entry_mutation: use kept results though they have been changed in place since.

    Example:
        >>> import functools
        >>> from rushlight.utils.checkpoint import checkpoint
        >>> save = [rushlight.ops.aten.mm.default]
        >>> context_fn = functools.partial(create_selective_checkpoint_contexts, save)
        >>> x = rushlight.ones(2, 2, requires_grad=True)
        >>> y = checkpoint(lambda x: (x @ x).exp(), x, use_reentrant=False, context_fn=context_fn)
        >>> y.sum().backward()
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, rushlight._ops.OpOverload):
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}"
                )
        listed = frozenset(policy_fn_or_list)

        def policy(ctx, op, *args, **kwargs):
            return op in listed
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    kept = {}
    return (
        Keeping(policy, kept, allow_cache_entry_mutation),
        Giving(policy, kept, allow_cache_entry_mutation),
    )
