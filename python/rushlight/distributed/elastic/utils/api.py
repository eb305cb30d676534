"""Environment variables, ports, and words in arguments of workers."""

from __future__ import annotations

import os
import string

from rushlight.distributed.elastic.utils.distributed import get_socket_with_port

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def get_env_variable_or_raise(env_name: str) -> str:
    """The value of an environment variable.

    Raises:
        ValueError: it is not set.
    """
    value = os.environ.get(env_name)
    if value is None:
        raise ValueError(f"Environment variable {env_name} expected, but not set")
    return value


class macros:
    """Words in the arguments of workers that mean something else in each."""

    local_rank = "${local_rank}"

    @staticmethod
    def substitute(args: list[Any], local_rank: str) -> list[Any]:
        """Arguments with a worker's number in place of `macros.local_rank`."""
        return [
            string.Template(one).safe_substitute(local_rank=local_rank)
            if isinstance(one, str)
            else one
            for one in args
        ]


__all__ = ["get_env_variable_or_raise", "get_socket_with_port", "macros"]
