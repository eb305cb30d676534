"""Which parts of a module would be sharded on their own: rules that say it of each."""

import contextlib


class _Policy:
    """Says of a module's parts whether they would be sharded on their own."""

    def _chosen(self, module):
        raise NotImplementedError


class ModuleWrapPolicy(_Policy):
    """Those of the given classes.

    Args:
        module_classes: the classes.
    """

    def __init__(self, module_classes):
        self._module_classes = set(module_classes)
        self._module_classes_str = str(self._module_classes)

    def __call__(self, module, recurse, *args, **kwargs):
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self):
        return f"{super().__repr__()}({self._module_classes_str})"


class CustomPolicy(_Policy):
    """Those of which a function says so.

    Args:
        lambda_fn: module -> bool, or a dict of options.
    """

    def __init__(self, lambda_fn):
        self._lambda_fn = lambda_fn


def always_wrap_policy(*args, **kwargs):
    """Every part."""
    return True


def transformer_auto_wrap_policy(module, recurse, nonwrapped_numel, transformer_layer_cls):
    """Those of the classes of a transformer's layers."""
    del nonwrapped_numel
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module, recurse, nonwrapped_numel, min_num_params=int(1e8), force_leaf_modules=None,
    exclude_wrap_modules=None,
):  # fmt: skip
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


def lambda_auto_wrap_policy(module, recurse, nonwrapped_numel, lambda_fn):
    """Those of which a function says so."""
    del nonwrapped_numel
    return recurse or lambda_fn(module)


def wrap(module, **options):
    """Return the module as it is, which it is outside of `enable_wrap` in torch too."""
    del options
    return module


@contextlib.contextmanager
def enable_wrap(*, wrapper_cls, **options):
    """Refused: `wrap` would shard inside this context."""
    raise NotImplementedError(
        f"enable_wrap({wrapper_cls.__name__}, {', '.join(options)}): one model cannot be sharded"
        " over processes"
    )
    yield


__all__ = [
    "CustomPolicy", "ModuleWrapPolicy", "always_wrap_policy", "enable_wrap",
    "lambda_auto_wrap_policy", "size_based_auto_wrap_policy", "transformer_auto_wrap_policy",
    "wrap",
]  # fmt: skip
