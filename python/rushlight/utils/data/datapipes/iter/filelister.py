"""The step that lists files."""

from __future__ import annotations

import fnmatch
import os
from typing import Any

from rushlight.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from rushlight.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def _raise(error):
    raise error


class _Sized(IterDataPipe[Any]):
    """A step of which only its maker knows the length."""

    length = -1

    def __len__(self) -> int:
        if self.length == -1:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length


@functional_datapipe("list_files")
class FileListerIterDataPipe(_Sized):
    """The paths of the files in folders.

    Args:
        root: a folder, or several, or a step that gives some.
        masks: patterns of shells for the names, of which one fits; "" takes all.
        recursive: files in folders inside too.
        abspath: absolute paths.
        non_deterministic: paths as the system lists them, not sorted.
        length: how many there are, for `len`.
    """

    def __init__(
        self, root: str | Sequence[str] | IterDataPipe = ".", masks: str | list[str] = "", *,
        recursive: bool = False, abspath: bool = False, non_deterministic: bool = False,
        length: int = -1,
    ) -> None:  # fmt: skip
        super().__init__()
        if isinstance(root, str):
            root = [root]
        if not isinstance(root, IterDataPipe):
            root = IterableWrapperIterDataPipe(root)
        self.datapipe = root
        self.masks, self.recursive, self.abspath = masks, recursive, abspath
        self.non_deterministic, self.length = non_deterministic, length

    def _fits(self, name):
        masks = [self.masks] if isinstance(self.masks, str) else self.masks
        return masks in ([""], []) or any(fnmatch.fnmatch(name, mask) for mask in masks)

    def __iter__(self) -> Iterator[str]:
        for root in self.datapipe:
            if os.path.isfile(root):
                if self._fits(os.path.basename(root)):
                    yield os.path.abspath(root) if self.abspath else root
                continue
            for folder, inside, names in os.walk(root, onerror=_raise):
                if not self.non_deterministic:
                    inside.sort()
                    names.sort()
                if self.abspath:
                    folder = os.path.abspath(folder)
                for name in names:
                    if self._fits(name):
                        yield os.path.join(folder, name)
                if not self.recursive:
                    break
