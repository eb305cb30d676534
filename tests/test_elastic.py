"""Agents, meetings, timers, events, metrics and processes of elastic runs."""

import concurrent.futures
import datetime
import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
import ranks

from rushlight.distributed import DistStoreError, HashStore, TCPStore
from rushlight.distributed.elastic import events, metrics, rendezvous, timer
from rushlight.distributed.elastic.agent.server import WorkerSpec, WorkerState
from rushlight.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from rushlight.distributed.elastic.multiprocessing import (
    DefaultLogsSpecs,
    SignalException,
    Std,
    errors,
    redirects,
    start_processes,
    to_map,
)
from rushlight.distributed.elastic.rendezvous.c10d_rendezvous_backend import (
    C10dRendezvousBackend,
    create_backend,
)
from rushlight.distributed.elastic.rendezvous.dynamic_rendezvous import (
    DynamicRendezvousHandler,
    RendezvousTimeout,
)
from rushlight.distributed.elastic.rendezvous.registry import get_rendezvous_handler
from rushlight.distributed.elastic.utils import get_env_variable_or_raise, macros, store as meeting
from rushlight.distributed.elastic.utils.data import ElasticDistributedSampler
from rushlight.distributed.elastic.utils.distributed import create_c10d_store
from rushlight.distributed.elastic.utils.process_state import (
    is_uninterruptible_state,
    read_proc_state,
)


@pytest.fixture
def signals():
    """Workers' contexts take signals over."""
    names = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
    before = [signal.getsignal(one) for one in names]
    yield
    for one, handler in zip(names, before):
        signal.signal(one, handler)


def test_events():
    event = events.Event("e", events.EventSource.WORKER, 3, {"a": 1})
    assert events.Event.deserialize(str(event)) == event
    met = events.RdzvEvent("n", "run", "m", "host", 1, events.NodeState.FAILED, rank=2)
    assert events.RdzvEvent.deserialize(met.serialize()) == met
    with pytest.raises(KeyError, match="expected one of"):
        events.get_logging_handler("mail")
    told = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(events.Event.deserialize(record.getMessage()))
    logger = logging.getLogger("torchelastic-events-null")
    events.record(event)
    logger.addHandler(handler)
    events.record(event)
    logger.removeHandler(handler)
    assert told == [event]


def test_metrics():
    seen = []

    class Keep(metrics.MetricHandler):
        def emit(self, data):
            seen.append((data.group_name, data.name, data.value))

    metrics.configure(Keep(), "mine")

    class Works:
        @metrics.prof(group="mine")
        def on(self, fails):
            if fails:
                raise ValueError("no")
            return 3

    assert Works().on(False) == 3
    with pytest.raises(ValueError, match="no"):
        Works().on(True)
    metrics.put_metric("n", 1, "mine")
    metrics.put_metric("n", 1, "of others")
    name = "test_metrics.<locals>.Works.on"
    assert [one[1:] for one in seen if "duration" not in one[1]] == [
        (f"{name}.success", 1), (f"{name}.failure", 1), ("n", 1)
    ]  # fmt: skip
    assert sum("duration.ms" in one[1] for one in seen) == 2
    with pytest.warns(FutureWarning):
        metrics.publish_metric("mine", "old", 2)
    assert seen[-1] == ("mine", "old", 2)


def sleep_under(client):
    timer.configure(client)
    with timer.expires(after=100):
        time.sleep(0.01)
    with timer.expires(after=0.1):
        time.sleep(100)


@pytest.mark.parametrize("kind", ["queue", "file"])
def test_a_worker_that_is_late_is_killed(kind, tmp_path):
    context, happened = multiprocessing.get_context("spawn"), []
    if kind == "queue":
        queue = context.Queue()
        server = timer.LocalTimerServer(queue, max_interval=0.05)
        client = timer.LocalTimerClient(queue)
    else:
        path = str(tmp_path / "pipe")
        server = timer.FileTimerServer(
            path, "run", 0.05, log_event=lambda name, request: happened.append(name)
        )
        client = timer.FileTimerClient(path)
    server.start()
    worker = context.Process(target=sleep_under, args=(client,))
    worker.start()
    worker.join(60)
    assert worker.exitcode == -signal.SIGKILL
    server.stop()
    if kind == "file":
        assert happened == ["watchdog started", "kill worker process", "watchdog stopped"]
        with pytest.raises(BrokenPipeError, match="no server reads"):
            client.acquire("x", 1.0)
    else:
        queue.close()
        queue.join_thread()


def test_timer_needs_a_client(monkeypatch):
    monkeypatch.setattr(timer.api, "_client", None)
    with pytest.raises(RuntimeError, match="Configure timer client"), timer.expires(1):
        pass


def test_meetings_at_a_store():
    store = HashStore()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        parts = [
            pool.submit(meeting.synchronize, store, b"%d" % i, i, 3, "said/", 20) for i in range(3)
        ]
        assert [part.result() for part in parts] == [[b"0", b"1", b"2"]] * 3
    with pytest.raises(DistStoreError, match=r"rank 1, .*missing_ranks=\[zero, two\]"):
        meeting.barrier(
            store, 3, "b", barrier_timeout=0.05, rank=1, trace_timeout=0.05,
            rank_tracing_decoder={0: "zero", 2: "two"}.get,
        )  # fmt: skip
    assert create_c10d_store(True, "127.0.0.1").check(["x"]) is False
    with pytest.raises(ValueError, match="server_port must be specified"):
        create_c10d_store(True, "127.0.0.1", world_size=2)


def handler(store, least, most, **times):
    seconds = {name: datetime.timedelta(seconds=value) for name, value in times.items()}
    return DynamicRendezvousHandler.from_backend(
        "run", store, C10dRendezvousBackend(store, "run"), least, most, "127.0.0.1",
        RendezvousTimeout(**seconds), keep_alive_interval=1,
    )  # fmt: skip


def test_machines_that_come_and_go():
    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    def connect():
        return TCPStore("127.0.0.1", server.port, wait_for_workers=False)

    first, second = (handler(connect(), 1, 2, last_call=60.0) for _ in range(2))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        parts = [pool.submit(machine.next_rendezvous) for machine in (first, second)]
        found = [part.result() for part in parts]
        assert sorted(info.rank for info in found) == [0, 1]
        assert all(info.world_size == 2 for info in found)
        where = {(i.bootstrap_store_info.master_addr, i.bootstrap_store_info.master_port)
                 for i in found}  # fmt: skip
        (address,) = where  # a store that serves workers
        TCPStore(*address, wait_for_workers=False).set("a", "b")
        found[0].store.set("told", "yes")
        assert found[1].store.get("told") == b"yes"
        assert first.num_nodes_waiting() == 0
        # One starts again: the other sees that it waits, and both meet in the next round.
        again = pool.submit(second.next_rendezvous)
        while first.num_nodes_waiting() == 0:
            time.sleep(0.01)
        info = first.next_rendezvous()
        assert {info.rank, again.result().rank} == {0, 1}
    late = handler(connect(), 1, 2, join=0.3)
    with pytest.raises(rendezvous.RendezvousTimeoutError, match="fewer than 1 machines"):
        late.next_rendezvous()
    assert first.shutdown() and second.shutdown() and late.is_closed()
    with pytest.raises(rendezvous.RendezvousClosedError):
        late.next_rendezvous()


def test_a_round_begins_without_those_who_do_not_come():
    store = HashStore()
    info = handler(store, 1, 3, last_call=0.2).next_rendezvous()
    assert (info.rank, info.world_size) == (0, 1)


def test_registered_handlers():
    registry = rendezvous.RendezvousHandlerRegistry()
    with pytest.raises(ValueError, match="is not registered"):
        registry.create_handler(rendezvous.RendezvousParameters("x", "", "run", 1, 1))
    parameters = rendezvous.RendezvousParameters("etcd", "h:1", "run", 1, 1, on="no", count="3")
    assert parameters.get_as_bool("on") is False and parameters.get_as_int("count") == 3
    with pytest.raises(NotImplementedError, match="etcd_rendezvous.create_rdzv_handler.*c10d"):
        get_rendezvous_handler(parameters)
    with pytest.raises(ValueError, match="1 <= min_nodes <= max_nodes"):
        rendezvous.RendezvousParameters("c10d", "", "run", 2, 1)
    port = ranks.free_port()
    static = get_rendezvous_handler(
        rendezvous.RendezvousParameters("static", f"127.0.0.1:{port}", "run", 1, 1, rank=0)
    )
    info = static.next_rendezvous()
    assert (info.rank, info.world_size, info.bootstrap_store_info.master_port) == (0, 1, port)


def worker(value, number):
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    if attempt == 0 and os.environ["RANK"] == "1":
        raise ValueError("once")
    print("hello from", number, flush=True)
    return value * 10 + int(number) + 100 * attempt


def test_an_agent_starts_workers_again(tmp_path, signals, capfd):
    parameters = rendezvous.RendezvousParameters(
        "c10d", f"127.0.0.1:{ranks.free_port()}", "run", 1, 1, local_addr="127.0.0.1"
    )
    where = get_rendezvous_handler(parameters)

    def run(restarts, entrypoint=worker, args=(3, "${local_rank}")):
        spec = WorkerSpec(
            "trainer", 2, where, entrypoint=entrypoint, args=args, max_restarts=restarts
        )
        logs = DefaultLogsSpecs(str(tmp_path), tee=Std.OUT)
        return LocalElasticAgent(spec, logs, log_line_prefix_template="<${rank}>").run()

    result = run(1)
    assert result.state is WorkerState.SUCCEEDED and result.return_values == {0: 130, 1: 131}
    shown = capfd.readouterr().out
    assert "<0>hello from 0" in shown and "<1>hello from 1" in shown
    result = run(0, "/bin/sh", ("-c", "exit 3"))
    assert result.is_failed() and result.failures[0].exitcode == 3
    where.shutdown()
    with pytest.raises(AssertionError, match="local_world_size"):
        WorkerSpec("trainer", 0, where, entrypoint=worker)


def test_processes(tmp_path, signals):
    logs = DefaultLogsSpecs(str(tmp_path), redirects={0: Std.OUT})
    context = start_processes(
        "echo", "/bin/sh", {0: ("-c", "echo $X"), 1: ("-c", "exit 0")}, {0: {"X": "yes"}, 1: {}},
        logs,
    )  # fmt: skip
    result = context.wait(30, 0.02)
    assert not result.is_failed() and Path(result.stdouts[0]).read_text() == "yes\n"
    assert result.stdouts[1] == ""
    context = start_processes("sleep", "/bin/sleep", {0: (100,)}, {0: {}}, logs)
    assert context.wait(0.05, 0.01) is None
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    with pytest.raises(SignalException) as caught:
        context.wait()
    context.close(caught.value.sigval)
    assert not os.path.exists(f"/proc/{context.pids()[0]}")
    with pytest.raises(RuntimeError, match="local rank mapping mismatch"):
        start_processes("echo", "/bin/echo", {0: ()}, {1: {}}, logs)
    assert to_map({1: Std.ERR}, 2) == {0: Std.NONE, 1: Std.ERR}
    with pytest.raises(ValueError, match="WORKER:NUMBER"):
        Std.from_str("4")


def test_small_functions(monkeypatch):
    monkeypatch.delenv("NOT_THERE", raising=False)
    with pytest.raises(ValueError, match="NOT_THERE expected, but not set"):
        get_env_variable_or_raise("NOT_THERE")
    assert macros.substitute(["a${local_rank}", 3], "1") == ["a1", 3]
    assert read_proc_state(1 << 30) is None and not is_uninterruptible_state("R")
    sampler = ElasticDistributedSampler(list(range(11)), 2, 1, start_index=4)
    other = ElasticDistributedSampler(list(range(11)), 2, 0, start_index=4)
    assert len(sampler) == 4 and {*sampler, *other} == set(range(4, 11))


# --- errors of workers


def test_an_error_file_is_passed_on(tmp_path, monkeypatch):
    child, mine = tmp_path / "child.json", tmp_path / "mine.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(child))
    try:
        raise ValueError("no luck")
    except ValueError as error:
        errors.ErrorHandler().record_exception(error)
    failure = errors.ProcessFailure(0, 7, 3, str(child))
    assert failure.error_file_data["message"]["message"] == "ValueError: no luck"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(mine))

    @errors.record
    def main():
        raise errors.ChildFailedError("train.py", {4: failure})

    with pytest.raises(errors.ChildFailedError):
        main()
    told = json.loads(mine.read_text())["message"]
    assert told["errorCode"] == 3 and told["message"] == "ValueError: no luck"
    child.write_text('{"message": "as text", "timestamp": "12"}')
    failure = errors.ProcessFailure(0, 7, 3, str(child))
    assert (failure.message, failure.timestamp) == ("as text", 12)
    errors.ErrorHandler().dump_error_file(str(child), 3)
    assert json.loads(mine.read_text()) == {"message": "as text", "timestamp": "12"}
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE")
    mine.unlink()
    errors.ErrorHandler().dump_error_file(str(child))
    assert not mine.exists()


def test_failures_as_text():
    first = errors.ProcessFailure(1, 22, -9, "", 5, "killed\nby somebody", 100)
    later = errors.ProcessFailure(0, 21, 3, "", 4, "consequence", 200)
    assert first.error_file_data == {"message": "<NONE>"}
    assert errors.ProcessFailure(0, 1, -99, "").signal_name() == "<N/A>"
    text = errors.ChildFailedError("train.py", {4: later, 5: first}).format_msg("#", "~")
    lines = text.splitlines()
    assert (
        lines[0] == ""
        and lines[2] == "train.py FAILED"
        and lines[1] == lines[-1] == "#" * len(lines[1])
    )
    assert set(lines[3]) == {"~"} and lines[4:6] == [
        "Failures:", "rank 4 (local rank 0, process 21):",
    ]  # fmt: skip
    at = lines.index("Root Cause (first observed failure):")
    assert lines[at + 1] == "rank 5 (local rank 1, process 22):"
    assert "  exitcode  : -9 (SIGKILL)" in lines and lines[-2] == "  by somebody"
    alone = errors.ChildFailedError("x", {5: first}).format_msg()
    assert "  <NO_OTHER_FAILURES>" in alone


def test_a_stream_that_a_program_has_put_in_place_is_redirected(tmp_path, monkeypatch):
    with open(tmp_path / "elsewhere", "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        print("before")
        with redirects.redirect_stdout(str(tmp_path / "file")):
            print("within")
        print("after")
    assert (tmp_path / "file").read_text() == "within\n"
    assert (tmp_path / "elsewhere").read_text() == "before\nafter\n"


def test_a_token_of_nobodys_state_changes_nothing(tmp_path):
    backend = C10dRendezvousBackend(HashStore(), "run")
    assert backend.set_state(b"x", "no token") is None
    state, token, is_set = backend.set_state(b"x")
    assert is_set and backend.set_state(b"y", "no token") == (b"x", token, False)
    assert backend.set_state(b"y", token)[0::2] == (b"y", True)
    parameters = rendezvous.RendezvousParameters(
        "c10d", str(tmp_path / "no" / "such"), "run", 1, 1, store_type="file"
    )
    with pytest.raises(rendezvous.RendezvousConnectionError, match="such"):
        create_backend(parameters)
