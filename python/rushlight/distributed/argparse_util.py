"""Options of a command that the environment may give: PET_NAME for --name."""

from __future__ import annotations

import argparse
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class env(argparse.Action):
    """An option whose default is PET_NAME, if that is set.

    Example:
        >>> import argparse, os
        >>> parser = argparse.ArgumentParser()
        >>> os.environ["PET_COUNT"] = "3"
        >>> _ = parser.add_argument("--count", action=env, type=int, required=True)
        >>> parser.parse_args([]).count
        3
        >>> del os.environ["PET_COUNT"]
    """

    def __init__(
        self, dest: str, default: Any = None, required: bool = False, **kwargs: Any
    ) -> None:
        default = os.environ.get(f"PET_{dest.upper()}", default)
        super().__init__(dest=dest, default=default, required=required and not default, **kwargs)

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any,
        option_string: str | None = None,
    ) -> None:  # fmt: skip
        setattr(namespace, self.dest, values)


class check_env(argparse.Action):
    """A flag that is also True where PET_NAME is set and no zero."""

    def __init__(self, dest: str, default: bool = False, **kwargs: Any) -> None:
        default = bool(int(os.environ.get(f"PET_{dest.upper()}", default)))
        super().__init__(dest=dest, const=True, default=default, nargs=0, **kwargs)

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any,
        option_string: str | None = None,
    ) -> None:  # fmt: skip
        setattr(namespace, self.dest, True)


__all__ = ["check_env", "env"]
