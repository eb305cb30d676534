"""Tensors of rows that differ in length, which are not supported: pad them, and mask what was
added.
"""

_ADVICE = (
    "nested tensors are not supported; pad the rows by nn.utils.rnn.pad_sequence, "
    "and mask what was added"
)


def _refuse(name):
    def function(*args, **kwargs):
        raise NotImplementedError(f"nested.{name}: {_ADVICE}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Raises NotImplementedError."
    return function


__all__ = [
    "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged",
    "to_padded_tensor",
]  # fmt: skip
globals().update({name: _refuse(name) for name in __all__})
