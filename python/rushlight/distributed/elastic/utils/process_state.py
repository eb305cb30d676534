"""What the operating system says of a process."""

from __future__ import annotations


def read_proc_state(pid: int) -> str | None:
    """The state of a process as a letter, such as "R", "S", "D" or "Z"; None if there is none.

    Example:
        >>> import os
        >>> read_proc_state(os.getpid())
        'R'
    """
    try:
        with open(f"/proc/{pid}/stat") as file:
            text = file.read()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # behind the name, which may have spaces
    return fields[0] if fields else None


def is_uninterruptible_state(state: str | None) -> bool:
    """Is it the state of a process that waits for a device and takes no signal?"""
    return state is not None and state.startswith("D")


__all__ = ["is_uninterruptible_state", "read_proc_state"]
