"""The profiler that torch had before `torch.profiler`: the same profile, with its arguments."""

from __future__ import annotations

from rushlight.autograd import profiler as _profiler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.profiler import EventList

__all__ = ["profile"]


class profile(_profiler.profile):
    """`autograd.profiler.profile` with fewer arguments; its events say that they are of this one.

    Args:
        enabled: False watches nothing.
        use_cuda: time what runs on GPUs too; without one a warning says so.
        record_shapes, with_flops, profile_memory, with_stack, with_modules: what events show.

    Example:
        >>> with profile() as prof:
        ...     y = rushlight.ones(3).exp()
        >>> [(e.name, e.is_legacy) for e in prof.function_events]
        [('aten::ones', True), ('aten::exp', True)]
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
    ) -> None:
        super().__init__(
            enabled, use_device="cuda" if use_cuda else None, record_shapes=record_shapes,
            with_flops=with_flops, profile_memory=profile_memory, with_stack=with_stack,
            with_modules=with_modules,
        )  # fmt: skip
        self.use_cuda: bool = self.use_device == "cuda"

    def events(self) -> EventList:
        """All events, in the order of their starts.

        Raises:
            RuntimeError: the profile has not ended.
        """
        if self._is_unfinished():
            raise RuntimeError("profiler_legacy.profile: the profile has not ended")
        events = super().events()
        for event in events:
            event.is_legacy = True
        return events

    @property
    def function_events(self) -> EventList | None:
        """All events; None before the profile has ended."""
        return None if self._is_unfinished() else self.events()
