"""Which parts of a module are sharded on their own: policies that say it of each."""

from __future__ import annotations

import contextlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

    from rushlight.nn.modules.module import Module


class _Policy:
    """Says of a module's parts whether they are sharded on their own, and how."""

    def chosen(self, module: Module) -> NoReturn:
        """False; or True, or a dict of options in place of those of the outer module."""
        raise NotImplementedError


class ModuleWrapPolicy(_Policy):
    """Those of the given classes.

    Args:
        module_classes: the classes.
    """

    def __init__(self, module_classes: Any) -> None:
        self._module_classes = set(module_classes)
        self._module_classes_str = str(self._module_classes)

    def chosen(self, module: Module) -> bool:
        """Is it of one of the classes?"""
        return isinstance(module, tuple(self._module_classes))

    def __call__(self, module: Module, recurse: Any, *args: Any, **kwargs: Any) -> Any:
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"{super().__repr__()}({self._module_classes_str})"


class CustomPolicy(_Policy):
    """Those of which a function says so.

    Args:
        lambda_fn: module -> bool, or a dict of options.
    """

    def __init__(self, lambda_fn: Any) -> None:
        self._lambda_fn = lambda_fn

    def chosen(self, module: Module) -> Any:
        """What the function says."""
        answer = self._lambda_fn(module)
        if not isinstance(answer, (bool, dict)):
            raise ValueError(
                f"CustomPolicy: lambda_fn must return a bool or a dict, got {answer!r}"
            )
        return answer


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every part."""
    return True


def transformer_auto_wrap_policy(
    module: Module, recurse: Any, nonwrapped_numel: Any, transformer_layer_cls: Any
) -> Any:
    """Those of the classes of a transformer's layers."""
    del nonwrapped_numel
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: Any,
    nonwrapped_numel: Any,
    min_num_params: int = int(100000000.0),
    force_leaf_modules: Any = None,
    exclude_wrap_modules: Any = None,
) -> bool:  # fmt: skip
    """Those with at least `min_num_params` parameters that are not yet on their own.

    Args:
        recurse: the question is whether to look inside.
        nonwrapped_numel: how many parameters are not yet on their own.
        force_leaf_modules: classes inside which nothing is looked for.
        exclude_wrap_modules: classes that never are.
    """
    import rushlight

    leaves = force_leaf_modules or {rushlight.nn.MultiheadAttention}
    excluded = exclude_wrap_modules or {rushlight.nn.ModuleList, rushlight.nn.ModuleDict}
    if nonwrapped_numel < min_num_params:
        return False
    return not isinstance(module, tuple(leaves if recurse else excluded))


def lambda_auto_wrap_policy(
    module: Module, recurse: Any, nonwrapped_numel: Any, lambda_fn: Any
) -> Any:
    """Those of which a function says so."""
    del nonwrapped_numel
    return recurse or lambda_fn(module)


def _or_policy(module: Module, recurse: Any, nonwrapped_numel: Any, policies: Any) -> bool:
    """Those that one of `policies` chooses."""
    return any(
        policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel)
        for policy in policies
    )


def wrap_children(module: Module, policy: Any, make: Any, ignored: Any) -> None:
    """Wrap the submodules that a policy chooses, from the innermost on.

    Args:
        module: changed in place, not wrapped itself.
        policy: a policy of this module, or a function policy(module=, recurse=, nonwrapped_numel=).
        make: make(submodule, options) wraps one.
        ignored: a set of parameters that do not count.
    """
    done = {}  # a module may be in two places

    def answer(part, recurse, count):
        if isinstance(policy, _Policy):
            return recurse or policy.chosen(part)
        return policy(module=part, recurse=recurse, nonwrapped_numel=count)

    def visit(part, is_root):
        """The part, wrapped or not, and how many elements are wrapped in it."""
        if id(part) in done:
            return done[id(part)], 0
        kept = {id(p) for p in ignored}
        count = sum(p.numel() for p in part.parameters() if id(p) not in kept)
        found, wrapped = part, 0
        if type(part).__name__ != "FullyShardedDataParallel" and answer(part, True, count):
            for name, child in list(part.named_children()):
                inner, inside = visit(child, False)
                setattr(part, name, inner)
                wrapped += inside
            chosen = False if is_root else answer(part, False, count - wrapped)
            if chosen or isinstance(chosen, dict):
                found = make(part, chosen if isinstance(chosen, dict) else {})
                wrapped = count
        done[id(part)] = found
        return found, wrapped

    visit(module, True)


_wrapping = []  # (class, options) of the contexts of enable_wrap


def wrap(module: Module, **options: Any) -> Any:
    """The module, wrapped if this is inside of `enable_wrap`.

    Args:
        module: the module.
        options: in place of those of enable_wrap.
    """
    if not _wrapping:
        return module
    wrapper, given = _wrapping[-1]
    return wrapper(module, **given | options)


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls: Any, **options: Any) -> Iterator[Any]:
    """A context in which `wrap` wraps.

    Args:
        wrapper_cls: in what: FullyShardedDataParallel.
        options: its arguments.
    """
    _wrapping.append((wrapper_cls, options))
    try:
        yield
    finally:
        _wrapping.pop()


__all__ = [
    "CustomPolicy", "ModuleWrapPolicy", "always_wrap_policy", "enable_wrap",
    "lambda_auto_wrap_policy", "size_based_auto_wrap_policy", "transformer_auto_wrap_policy",
    "wrap",
]  # fmt: skip
