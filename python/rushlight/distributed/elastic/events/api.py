"""What happens in a run, as records for loggers."""

from __future__ import annotations

import dataclasses
import enum
import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self

EventMetadataValue = str | int | float | bool | None


class EventSource(str, enum.Enum):
    """Who tells of an event."""

    AGENT = "AGENT"
    WORKER = "WORKER"


class NodeState(str, enum.Enum):
    """The state of a machine that meets others."""

    INIT = "INIT"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class _Record:
    """A dataclass that is written as JSON, with one member that is an enumeration."""

    def serialize(self) -> str:
        """The event as JSON."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def _of(cls, data, name, kind):
        if isinstance(data, cls):
            return data
        fields = json.loads(data)
        fields[name] = kind[fields[name]]
        return cls(**fields)


@dataclasses.dataclass
class Event(_Record):
    """Something that happens in a run.

    Args:
        name: what.
        source: who tells it.
        timestamp: when, in milliseconds.
        metadata: more about it.

    Example:
        >>> event = Event("started", EventSource.AGENT, metadata={"workers": 2})
        >>> Event.deserialize(event.serialize()) == event
        True
    """

    name: str
    source: EventSource
    timestamp: int = 0
    metadata: dict[str, EventMetadataValue] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        return self.serialize()

    @classmethod
    def deserialize(cls, data: str | Self) -> Self:
        """The event that `serialize` has written."""
        return cls._of(data, "source", EventSource)


@dataclasses.dataclass
class RdzvEvent(_Record):
    """Something that happens while machines meet.

    Args:
        name: what.
        run_id: the run's name.
        message: what is to be said of it.
        hostname, pid: the process.
        node_state: its machine's state.
        master_endpoint: where the store is.
        rank, local_id: the machine's numbers.
        error_trace: where an exception was raised.
    """

    name: str
    run_id: str
    message: str
    hostname: str
    pid: int
    node_state: NodeState
    master_endpoint: str = ""
    rank: int | None = None
    local_id: int | None = None
    error_trace: str = ""

    def __str__(self) -> str:
        return self.serialize()

    @classmethod
    def deserialize(cls, data: str | Self) -> Self:
        """The event that `serialize` has written."""
        return cls._of(data, "node_state", NodeState)


__all__ = ["Event", "EventSource", "NodeState", "RdzvEvent"]
