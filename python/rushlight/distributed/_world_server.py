"""What the store's server knows of worlds: who has joined, left or died, who waits for whom, and
what MPI's start-up (PMI-1) asks.
"""

from __future__ import annotations

import json
import random
import time

from rushlight.distributed import _wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SECONDS_FOR_REPORTS = 1.5
_LARGEST_WORLD = 1 << 20

# What members tell, by name: the types that it may have.
_ABOUT = {"host": str, "pid": int, "timeout": (int, float)}
_REPORT = {"what": (str, type(None)), "group": (str, type(None)), "number": (int, type(None)),
           "last": (str, type(None)), "line": (str, type(None))}  # fmt: skip
_QUESTION = {**_REPORT, "ranks": list, "seconds": (int, float)}


def _checked(told, types):
    """What a member told, a dict with values of these types; ValueError if it is none."""
    if not isinstance(told, dict):
        raise ValueError(f"a member tells a {type(told).__name__}, not an object")
    for name, kinds in types.items():
        if name not in told or not isinstance(told[name], kinds) or told[name] != told[name]:
            raise ValueError(f"a member tells {str(told.get(name))[:40]!r} as {name}")
    return told


def process_mapping(hosts: Any) -> Any:
    """MPI's description of which rank is on which node: runs of (node, nodes, ranks per node)."""
    nodes = {host: number for number, host in reversed(list(enumerate(dict.fromkeys(hosts))))}
    runs = []
    for host in hosts:
        if runs and runs[-1][0] == nodes[host]:
            runs[-1][1] += 1
        else:
            runs.append([nodes[host], 1])
    return "(vector," + ",".join(f"({node},1,{count})" for node, count in runs) + ")"


def _listed(ranks):
    ranks = list(ranks)
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


class Worlds:
    """All worlds of a server."""

    def __init__(self) -> None:
        self._worlds = {}
        self._by_process_id = {}  # PMI_ID -> (world, rank)

    def open(self, name: str, size: Any) -> Any:
        """Make a world, and the numbers by which MPI's processes show that they belong to it."""
        size = int(size)
        if not 0 < size <= _LARGEST_WORLD:
            raise ValueError(f"a world of {size}")
        numbers = random.SystemRandom().sample(range(1, 1 << 31), size)
        world = World(name.decode(), size)
        self._worlds[name] = world
        for rank, number in enumerate(numbers):
            self._by_process_id[number] = (world, rank)
        return [str(number).encode() for number in numbers]

    def join(self, connection: Any, name: str, rank: int, about: Any) -> None:
        """Make the connection that of a member."""
        world, rank, about = self._worlds[name], int(rank), _checked(json.loads(about), _ABOUT)
        if connection.member is not None:
            raise ValueError("the connection is that of a member already")
        if not 0 <= rank < world.size:
            raise ValueError(f"rank {rank} is not in a world of {world.size}")
        if rank in world.members or rank in world.gone:
            raise ValueError(f"rank {rank} has joined already: two processes have the same rank")
        connection.member = (world, rank)
        connection.send(_wire.frame(_wire.OK))
        world.joined(rank, connection, about)

    def look_at_clock(self, now: Any) -> None:
        """Do what is due."""
        for world in self._worlds.values():
            world.look_at_clock(now)

    def deadlines(self) -> Any:
        """When something will be due."""
        worlds = self._worlds.values()
        return [world.deadline for world in worlds if world.deadline is not None]

    def process_manager(self, connection: Any, line: Any) -> None:
        """Answer a line of PMI-1."""
        words = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
        if words.get("cmd") == "initack":
            connection.seat = self._by_process_id.get(int(words.get("pmiid", "-1")))
            if connection.seat is None:
                connection.close()  # a stranger
                return
            world, rank = connection.seat
            replies = ["cmd=initack rc=0", f"cmd=set size={world.size}", f"cmd=set rank={rank}"]
            connection.send("".join(f"{r}\n" for r in [*replies, "cmd=set debug=0"]).encode())
            world.managed.append(connection)
        elif connection.seat is None:
            connection.close()
        else:
            world, _ = connection.seat
            reply = world.managed_request(connection, words)
            if reply:
                connection.send(f"{reply}\n".encode())


class World:
    """One world of `size` ranks."""

    def __init__(self, name: str, size: Any) -> None:
        self.name, self.size = name, size
        self.members, self.about = {}, {}  # rank -> connection, rank -> what it told of itself
        self.gone = {}  # rank -> why
        self.managed = []  # MPI's connections
        self.failure = None
        self.deadline = None
        self._complete = False
        self._values = {}
        self._at_barrier = []
        self._inquiry = None  # (who asks and what it told, reports so far)

    def joined(self, rank: int, connection: Any, about: Any) -> None:
        """A member has come."""
        self.members[rank], self.about[rank] = connection, about
        if self.failure:
            self._tell(rank, event="failed", text=self.failure)
            return
        if not self._complete:
            self.deadline = max(self.deadline or 0.0, time.monotonic() + about["timeout"])
        if len(self.members) == self.size and not self._complete:
            self._complete, self.deadline = True, None
            self._tell_all(event="complete", hosts=self._hosts())

    def _hosts(self):
        return [self.about[rank]["host"] for rank in range(self.size)]

    def _tell(self, member, **event):
        self.members[member].send(_wire.frame(_wire.EVENT, [json.dumps(event).encode()]))

    def _tell_all(self, **event):
        for member in list(self.members):
            self._tell(member, **event)

    def _fail(self, text, **more):
        if self.failure is None:
            self.failure, self.deadline = text, None
            self._tell_all(event="failed", text=text, **more)

    def lost(self, rank: int) -> None:
        """The connection of a member ended without a word."""
        self.members.pop(rank, None)
        if rank not in self.gone:
            about = self.about[rank]
            self.gone[rank] = "died"
            self._fail(
                f"rank {rank} (process {about['pid']} on {about['host']}) died without a word, as "
                "a process does that is killed or crashes"
            )

    def message(self, rank: int, data: Any) -> None:
        """A member tells something."""
        message = _checked(json.loads(data), {"event": str})
        if message["event"] == "leave":
            _checked(message, {"why": str, "failed": bool})
            self.gone[rank] = message["why"]
            if message["failed"]:
                self._fail(f"rank {rank} ended: {message['why']}")
            else:
                self._tell_all(event="left", rank=rank, why=message["why"])
        elif message["event"] == "stuck" and self.failure is None:
            if self._inquiry is None:
                question = _checked(message.get("report"), _QUESTION)
                if not all(isinstance(rank, int) for rank in question["ranks"]):
                    raise ValueError("a member asks for ranks that are no numbers")
                self._inquiry = ((rank, question), {rank: question})
                self._tell_all(event="report")
                self.deadline = time.monotonic() + _SECONDS_FOR_REPORTS
        elif message["event"] == "report" and self._inquiry is not None:
            self._inquiry[1][rank] = _checked(message.get("report"), _REPORT)
            if len(self._inquiry[1]) == len(self.members):
                self._judge()

    def look_at_clock(self, now: Any) -> None:
        """Do what is due."""
        if self.deadline is not None and now >= self.deadline:
            self.deadline = None
            if self._inquiry is not None:
                self._judge()
            elif not self._complete:
                missing = [rank for rank in range(self.size) if rank not in self.members]
                self._fail(f"{_listed(missing)} of {self.size} did not come before the time-out")

    def _judge(self):
        """Say who lets whom wait, of what they told."""
        (asking, told), reports = self._inquiry
        self._inquiry, self.deadline = None, None
        waiting, elsewhere = [], []
        for rank in told["ranks"]:
            report = reports.get(rank)
            if report is None:
                why = self.gone.get(rank)
                elsewhere.append(
                    f"rank {rank} does not answer: it is stopped, or its machine is lost"
                    if why is None
                    else f"rank {rank} has left ({why})"
                )
            elif report["group"] == told["group"] and report["number"] == told["number"]:
                waiting.append(rank)
            else:
                elsewhere.append(f"rank {rank} {_whereabouts(report)}")
        text = f"{told['what']} timed out after {told['seconds']:g} s on rank {asking}: "
        text += "; ".join(elsewhere) if elsewhere else "all ranks take part, but no data comes"
        others = [rank for rank in waiting if rank != asking]
        if others:
            text += f" ({_listed(others)} waited too)"
        self._fail(text)

    def managed_request(self, connection: Any, words: Any) -> Any:
        """The reply to a line of PMI-1 from a process of this world."""
        command = words.get("cmd")
        if command == "put":
            self._values[words["key"]] = words["value"]
            return "cmd=put_result rc=0 msg=success"
        if command == "get":
            if words["key"] == "PMI_process_mapping":
                return f"cmd=get_result rc=0 msg=success value={process_mapping(self._hosts())}"
            if words["key"] in self._values:
                return f"cmd=get_result rc=0 msg=success value={self._values[words['key']]}"
            return "cmd=get_result rc=-1 msg=key_not_found value=unknown"
        if command == "barrier_in":
            self._at_barrier.append(connection)
            if len(self._at_barrier) == self.size:
                arrived, self._at_barrier = self._at_barrier, []
                for one in arrived:
                    one.send(b"cmd=barrier_out rc=0\n")
            return None
        return {
            "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=4096",
            "get_appnum": "cmd=appnum appnum=0",
            "get_universe_size": f"cmd=universe_size size={self.size}",
            "get_my_kvsname": f"cmd=my_kvsname kvsname={self.name}",
            "finalize": "cmd=finalize_ack rc=0",
        }.get(command)


def _whereabouts(report):
    """Where a rank is that others wait for."""
    text = f"waits in {report['what']}" if report["what"] else f"is at {report['line']}"
    return f"{text}, after {report['last']}" if report["last"] else f"{text}, before any collective"
