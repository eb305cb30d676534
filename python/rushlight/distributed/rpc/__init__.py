"""Remote procedure calls, which are refused: anyone who reaches the port runs code.

Programs for one process import the module and never call it.
"""


def is_available():
    """Are there remote calls? No."""
    return False


def init_rpc(name, *args, **kwargs):
    """Raises NotImplementedError: there are no remote calls."""
    raise NotImplementedError(f"init_rpc: {name}: rushlight has no remote procedure calls")


__all__ = ["init_rpc", "is_available"]
