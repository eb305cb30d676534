"""Weak references and dicts that go by identity, for keys whose == is elementwise: tensors."""

from __future__ import annotations

import weakref
from collections.abc import MutableMapping
from typing import Any
from weakref import ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

    from rushlight import Tensor

WeakRef = ref


class WeakIdRef(ref[Any]):
    """A weak reference that is equal to another of the same object."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Callable[[Any], Any] | None = None) -> None:
        self._id = id(key)
        super().__init__(key, callback)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        a, b = self(), other()
        return a is b if a is not None and b is not None else self is other


class _WeakHashRef(ref[Any]):
    """A weak reference that is equal to another of an equal object."""

    __slots__ = ("_hash",)

    def __init__(self, key: str, callback: Callable[..., Any] | None = None) -> None:
        self._hash = hash(key)
        super().__init__(key, callback)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        a, b = self(), other()
        return a == b if a is not None and b is not None else self is other


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dict whose keys are held weakly and compared by identity.

    Args:
        dict: items to begin with.
        ref_type: the class of the references.
    """

    def __init__(self, dict: Any = None, ref_type: type[Any] = WeakIdRef) -> None:
        self.data: dict[Any, Any] = {}
        self.ref_type: type[Any] = ref_type
        data = weakref.ref(self)

        def remove(reference):
            owner = data()
            if owner is not None:
                owner.data.pop(reference, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def _key(self, key):
        return self.ref_type(key)

    def __getitem__(self, key: Any) -> Any:
        return self.data[self._key(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self._key(key)]

    def __len__(self) -> int:
        return sum(reference() is not None for reference in list(self.data))

    def __contains__(self, key: object) -> bool:
        try:
            return self._key(key) in self.data
        except TypeError:  # of what has no weak references
            return False

    def __iter__(self) -> Iterator[Any]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def copy(self) -> Self:
        """A dict with the same items."""
        return type(self)(self, self.ref_type)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> Self:
        from copy import deepcopy

        result = type(self)(ref_type=self.ref_type)
        for key, value in self.items():
            result[key] = deepcopy(value, memo)
        return result

    def keyrefs(self) -> list[Any]:
        """The references to the keys."""
        return list(self.data)

    def __or__(self, other: Any) -> Self:
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other: Any) -> Self:
        result = type(self)(other, self.ref_type)
        result.update(self)
        return result

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WeakIdKeyDictionary):
            return NotImplemented
        return {id(k): v for k, v in self.items()} == {id(k): v for k, v in other.items()}

    __hash__ = None


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor."""

    __slots__ = ("ref",)

    def __init__(self, tensor: Tensor) -> None:
        self.ref: Any = WeakIdRef(tensor)

    def __call__(self) -> Tensor | None:
        return self.ref()


__all__ = [
    "TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakRef", "WeakTensorKeyDictionary",
]  # fmt: skip
