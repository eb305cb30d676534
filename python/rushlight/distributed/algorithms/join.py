"""Training on uneven inputs: with one process none waits for another."""


class JoinHook:
    """What a process does for those that still work when its inputs have ended."""

    def main_hook(self):
        """Called in each iteration of the others."""

    def post_hook(self, is_last_joiner):
        """Called when all have ended."""


class Joinable:
    """An object that takes part in `Join`."""

    def join_hook(self, **kwargs):
        """Return its JoinHook."""
        return JoinHook()


class Join:
    """A context in which processes may have different numbers of inputs."""

    def __init__(self, joinables, enable=True, throw_on_early_termination=False, **kwargs):
        self.joinables = list(joinables)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    @staticmethod
    def notify_join_context(joinable):
        """Tell the other processes that this one still works: there are none."""


__all__ = ["Join", "JoinHook", "Joinable"]
