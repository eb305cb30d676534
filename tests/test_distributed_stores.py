"""Stores, rendezvous and launchers' environments: nothing here needs MPI."""

import contextlib
import datetime
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

import rushlight
from rushlight import distributed as dist
from rushlight.distributed import _launchers, _tcp_store, _wire
from rushlight.distributed._agreement import Call
from rushlight.distributed._table import Request
from rushlight.distributed._world_server import process_mapping
from rushlight.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
from rushlight.distributed.elastic.multiprocessing.errors import ChildFailedError
from rushlight.distributed.launcher import api as launcher

SECOND = datetime.timedelta(seconds=1)


@pytest.fixture(params=["hash", "file", "tcp", "prefix"])
def store(request, tmp_path):
    if request.param == "hash":
        yield dist.HashStore()
    elif request.param == "file":
        made = dist.FileStore(str(tmp_path / "store"), 1)
        yield made
        made.close()
        assert not (tmp_path / "store").exists()
    else:
        made = dist.TCPStore("127.0.0.1", 0, 1, is_master=True)
        yield made if request.param == "tcp" else dist.PrefixStore("part", made)
        made.close()


def test_a_store_keeps_values(store):
    store.set("a", "1")
    store.set("b", b"\x00\xff")
    assert store.get("a") == b"1" and store.get("b") == b"\x00\xff"
    assert store.add("n", 3) == 3 and store.add("n", -1) == 2 and store.get("n") == b"2"
    assert store.check(["a", "b"]) and not store.check(["a", "c"])
    store.append("a", "23")
    assert store.get("a") == b"123"
    store.multi_set(["x", "y"], ["1", "2"])
    assert store.multi_get(["y", "x"]) == [b"2", b"1"]
    assert store.delete_key("x") and not store.delete_key("x")
    assert {"a", "b", "n", "y"} <= set(store.list_keys()) and store.num_keys() >= 4
    assert store.has_extended_api()


def test_a_barrier_of_a_store(store):
    store.barrier("alone", 1)
    passed = []

    def come():
        store.clone().barrier("three", 3)
        passed.append(1)

    others = [threading.Thread(target=come) for _ in range(2)]
    for other in others:
        other.start()
    time.sleep(0.05)
    assert not passed
    store.barrier("three", 3, SECOND)
    for other in others:
        other.join()
    assert len(passed) == 2
    with pytest.raises(dist.DistStoreError, match="two/last_member"):
        store.barrier("two", 2, SECOND / 20)


def test_compare_set(store):
    assert store.compare_set("key", "", "first") == b"first"
    assert store.compare_set("key", "other", "second") == b"first"
    assert store.compare_set("key", "first", "second") == b"second"
    assert store.compare_set("none", "expected", "x") == b"expected"
    assert not store.check(["none"])


def test_queues(store):
    store.queue_push("q", "1")
    store.queue_push("q", "2")
    assert store.queue_len("q") == 2 and store.queue_pop("q") == b"1"
    assert store.queue_pop("q", block=False) == b"2"
    with pytest.raises(dist.QueueEmptyError, match="q is empty"):
        store.queue_pop("q", block=False)


def test_waiting_for_keys(store):
    store.set_timeout(datetime.timedelta(seconds=0.1))
    assert store.timeout.total_seconds() == 0.1
    with pytest.raises(dist.DistStoreError, match="timeout after 100ms, keys: .*/absent"):
        store.get("absent")
    with pytest.raises(dist.DistStoreError, match="timeout after 50ms"):
        store.wait(["absent", "too"], datetime.timedelta(seconds=0.05))
    other = store.clone()
    thread = threading.Thread(target=lambda: (time.sleep(0.05), other.set("late", "x")))
    thread.start()
    store.wait(["late"], 60 * SECOND)
    thread.join()
    store.set_timeout(60 * SECOND)
    assert store.get("late") == b"x"


def test_a_store_of_several_threads():
    master = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    clients = [dist.TCPStore("127.0.0.1", master.port) for _ in range(4)]

    def count(client):
        for _ in range(50):
            client.add("n", 1)

    threads = [threading.Thread(target=count, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert master.add("n", 0) == 200
    for one in [*clients, master]:
        one.close()


def test_a_server_can_be_closed_while_a_client_leaves(monkeypatch):
    master = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    client = dist.TCPStore("127.0.0.1", master.port)
    server = master._server
    wake = server._wake_writer

    class Late:
        def send(self, data):
            client.close()
            deadline = time.monotonic() + 10
            while server._connections and time.monotonic() < deadline:
                time.sleep(0.001)
            server._thread.join(0.05)
            return wake.send(data)

        def close(self):
            wake.close()

    monkeypatch.setattr(server, "_wake_writer", Late())
    master.close()
    assert not server._thread.is_alive()


def test_the_master_says_how_many_came():
    with pytest.raises(dist.DistStoreError, match="1/2 clients joined"):
        dist.TCPStore("127.0.0.1", 0, 2, is_master=True, timeout=datetime.timedelta(seconds=0.2))
    with pytest.raises(dist.DistNetworkError, match=r"timed out after 100ms .* \(127.0.0.1, 1\)"):
        dist.TCPStore("127.0.0.1", 1, timeout=datetime.timedelta(seconds=0.1))


def test_a_taken_port_is_named():
    master = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    said = (
        rf"^The server socket has failed to listen on any local .*{master.port}, name: EADDRINUSE"
        f".*127.0.0.1:{master.port}"
    )
    with pytest.raises(dist.DistNetworkError, match=said):
        dist.TCPStore("127.0.0.1", master.port, is_master=True, wait_for_workers=False)
    master.close()


def test_a_store_listens_where_it_was_told_alone():
    master = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}
    for address in others - {"127.0.0.1", "::1"}:
        if address.startswith("127."):
            continue
        with pytest.raises(OSError):
            socket.create_connection((address, master.port), timeout=1).close()
    with socket.create_connection(("127.0.0.1", master.port)) as s:
        assert s.getpeername()[0] == "127.0.0.1"
    master.close()


def test_a_secret_keeps_strangers_out(monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_STORE_SECRET", "right")
    master = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    dist.TCPStore("127.0.0.1", master.port).close()
    # The server reads the secret where a client shows that it knows it; a client lies here.
    real = _wire.proof
    answers = iter([b"wrong" * 7])
    monkeypatch.setattr(_wire, "proof", lambda nonce: next(answers, real(nonce)))
    with pytest.raises(dist.DistNetworkError, match="secret is another"):
        dist.TCPStore("127.0.0.1", master.port)
    master.close()


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\x00\x00\x00\x01\x7f", b"cmd=initack pmiid=7\n",
     b"cmd=put kvsname=x key=y value=z\n", b"\x00\x00\x00\x00", b"\x00\x00\x00\x09\x01\xff\xff"],
)  # fmt: skip
def test_a_server_survives_what_is_no_client(data):
    master = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with socket.create_connection(("127.0.0.1", master.port), timeout=60) as stranger:
        stranger.sendall(data)
        stranger.shutdown(socket.SHUT_WR)
        while stranger.recv(100):
            pass
    master.set("still", "there")
    assert master.get("still") == b"there"
    master.close()


def test_a_forked_process_connects_anew():
    master = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    program = (
        "import os, sys\n"
        "from rushlight import distributed as dist\n"
        "store = dist.TCPStore('127.0.0.1', int(sys.argv[1]))\n"
        "child = os.fork()\n"
        "store.add('n', 1)\n"
        "os._exit(0) if child == 0 else os.waitpid(child, 0)\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program, str(master.port)])
    assert done.returncode == 0 and master.add("n", 0) == 2
    master.close()


# ---------------------------------------------------------------- rendezvous


def test_urls_name_a_store(tmp_path):
    store, rank, size = next(dist.rendezvous(f"file://{tmp_path}/f?rank=1&world_size=3"))
    assert isinstance(store, dist.FileStore) and (rank, size) == (1, 3)
    store.set("a", "b")
    other, rank, size = next(dist.rendezvous(f"file://{tmp_path}/f", 0, 3))
    assert other.get("a") == b"b" and (rank, size) == (0, 3)


@pytest.mark.parametrize(
    ("url", "error", "text"),
    [
        ("http://x", RuntimeError, "No rendezvous handler for http"),
        ("tcp://localhost", ValueError, "port number missing"),
        ("tcp://localhost:1", ValueError, "rank parameter missing"),
        ("tcp://localhost:1?rank=0", ValueError, "world size parameter missing"),
        ("file://", ValueError, "path missing"),
        ("env://", ValueError, "environment variable RANK expected"),
        (3, RuntimeError, "must be a string"),
    ],
)
def test_urls_that_lack_something(url, error, text, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(error, match=text):
        next(dist.rendezvous(url))


def test_backends_by_device():
    config = dist.BackendConfig("cpu:gloo,cuda:nccl")
    assert config.get_device_backend_map() == {"cpu": "gloo", "cuda": "nccl"}
    assert dist.BackendConfig("MPI").get_device_backend_map() == {"cpu": "mpi", "cuda": "mpi"}
    with pytest.raises(ValueError, match="backend string argument is invalid"):
        dist.BackendConfig("cpu:gloo,cuda")
    for backend, error in (("nccl", RuntimeError), ("ucc", ValueError), ("cuda:nccl", ValueError)):
        with pytest.raises(error):
            dist.init_process_group(backend, rank=0, world_size=1)
    for asked in ("gloo", "mpi", "cpu:gloo,cuda:nccl", None):
        dist.init_process_group(asked, rank=0, world_size=1)
        assert dist.get_backend() == (asked or "undefined")
        dist.destroy_process_group()


def test_without_mpi4py_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    store = dist.HashStore()
    with pytest.raises(ImportError, match=r'pip install "rushlight\[mpi\]"'):
        dist.init_process_group("gloo", store=store, rank=0, world_size=2)
    assert not dist.is_initialized()


def test_what_launchers_say(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("PMI", "SLURM", "OMPI")) or name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)
    assert _launchers.of_torchrun() is _launchers.of_mpi() is _launchers.of_slurm() is None
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("SLURM_PROCID", "3")
    monkeypatch.setenv("SLURM_NTASKS", "8")
    monkeypatch.setenv("SLURM_LOCALID", "1")
    monkeypatch.setenv("SLURM_STEP_NODELIST", "gpu[03-05,9],login1")
    assert _launchers.of_slurm() == ("SLURM", 3, 8, 1)
    assert _launchers.slurm_address()[0] == "gpu03"
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    assert _launchers.of_mpi() == ("Open MPI", 1, 2, None)


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("a", "a"), ("a,b", "a"), ("n[1-3]", "n1"), ("n[07,9]-ib", "n07-ib"), ("n01-x,m", "n01-x")],
)
def test_the_first_of_slurms_nodes(nodes, first):
    assert _launchers.first_host(nodes) == first


def test_which_rank_is_on_which_node():
    assert process_mapping(["a"] * 4) == "(vector,(0,1,4))"
    assert process_mapping(["a", "a", "b", "b", "a"]) == "(vector,(0,1,2),(1,1,2),(0,1,1))"


def test_a_call_says_what_it_is(monkeypatch):
    monkeypatch.delenv("TORCH_DISTRIBUTED_DEBUG", raising=False)
    wide, tall = rushlight.ones(2, 3), rushlight.ones(3, 2)
    call = Call("all_reduce", wide, dist.ReduceOp.SUM)
    assert call.text() == "all_reduce(SUM) of float32 [2, 3]"
    same = Call("all_reduce", tall, dist.ReduceOp.SUM)
    assert call.header() == same.header()
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    assert dist.get_debug_level() is dist.DebugLevel.DETAIL and call.header() != same.header()
    for other in (
        Call("all_reduce", wide.double(), dist.ReduceOp.SUM),
        Call("all_reduce", wide, dist.ReduceOp.MAX),
        Call("broadcast", wide, root=0),
        Call("all_reduce", rushlight.ones(7), dist.ReduceOp.SUM),
    ):
        assert call.header() != other.header()


def test_the_launchers_options():
    from rushlight.distributed import run

    parse = run.parse_args
    words = "--nproc_per_node=3 --nnodes 2 --rdzv-endpoint=h:1 a.py --lr 1"
    args = parse(words.split())
    config, command, words = run.config_from_args(args)
    assert (config.nproc_per_node, config.max_nodes, config.rdzv_endpoint) == (3, 2, "h:1")
    assert command == sys.executable and words == ["-u", "-m", "rushlight", "a.py", "--lr", "1"]
    config, command, words = run.config_from_args(parse(["-m", "--standalone", "pkg.main"]))
    assert words == ["-u", "-m", "rushlight", "-m", "pkg.main"] and config.max_restarts == 0
    assert run.parse_min_max_nnodes("1:4") == (1, 4)
    for wrong in (["--nnodes=1:4", "x"], ["--rdzv-backend=etcd", "x"], ["--nproc-per-node=q", "x"],
                  ["--no-python", "-m", "x"], ["--rdzv-conf=a", "x"]):  # fmt: skip
        with pytest.raises(ValueError):
            run.config_from_args(parse(wrong))
    words = (
        "--tee 0:1 --signals-to-handle SIGUSR1 --duplicate-stdout-filters a,b --virtual-local-rank "
        "--shutdown-timeout 7 --event-log-handler console --start-method spawn x.py"
    )
    config, *_ = run.config_from_args(parse(words.split()))
    assert config.logs_specs._tee == {0: Std.OUT} and config.signals_to_handle == "SIGUSR1"
    assert config.duplicate_stdout_filters == ["a", "b"] and config.virtual_local_rank
    assert (config.shutdown_timeout, config.event_log_handler) == (7, "console")
    with pytest.raises(ValueError, match="WORKER:NUMBER"):
        run.config_from_args(parse(["--tee", "0=1", "x"]))
    for words, endpoint in (
        ([], ""), (["--master-port=17"], "127.0.0.1:17"), (["--master_addr=h"], "h:29500"),
        (["--nnodes=2"], "127.0.0.1:29500"), (["--rdzv-endpoint=h:1", "--master-port=2"], "h:1"),
    ):  # fmt: skip
        assert run.config_from_args(parse([*words, "x.py"]))[0].rdzv_endpoint == endpoint
    config, command, words = run.config_from_args(
        parse(["--run-path", "--rdzv-conf='join_timeout=5,is_host=1'", "x.py"])
    )
    assert command == sys.executable and words[-1] == "x.py"
    assert (config.rdzv_configs["join_timeout"], config.rdzv_configs["is_host"]) == ("5", "1")
    with pytest.raises(ValueError, match="--run-path is for a Python program"):
        run.config_from_args(parse(["--run-path", "-m", "x"]))


def test_a_program_that_launches_is_told_of_workers_that_fail(tmp_path):
    from rushlight.distributed import run

    (tmp_path / "fails.py").write_text("raise SystemExit(3)")
    with pytest.raises(ChildFailedError, match="exit code 3"):
        run.main([str(tmp_path / "fails.py")])


def test_the_launchers_processes_and_logs(monkeypatch):
    from importlib import metadata

    from rushlight.distributed import run

    here = len(os.sched_getaffinity(0))
    for gpus, kinds in ((3, {"gpu": 3, "auto": 3, "cpu": here}), (0, {"auto": here, "2": 2})):
        monkeypatch.setattr(rushlight.cuda, "is_available", lambda gpus=gpus: gpus > 0)
        monkeypatch.setattr(rushlight.cuda, "device_count", lambda gpus=gpus: gpus)
        for kind, count in kinds.items():
            assert run.determine_local_world_size(kind) == count
    with pytest.raises(ValueError, match="there are no such devices"):
        run.determine_local_world_size("gpu")

    class Specs(DefaultLogsSpecs):
        pass

    class Found:
        name = "mine"

        def load(self):
            return Specs

    monkeypatch.setattr(
        metadata, "entry_points", lambda group, name: [Found()] if name == "mine" else []
    )
    config, *_ = run.config_from_args(run.parse_args(["--logs-specs", "mine", "x.py"]))
    assert type(config.logs_specs) is Specs
    with pytest.raises(ValueError, match=r"'torchrun.logs_specs\[other\]'"):
        run.config_from_args(run.parse_args(["--logs-specs=other", "x.py"]))


def launched(tmp_path, program, count=2, **options):
    """What workers of a program write: their files, by path below the run's folder."""
    logs = DefaultLogsSpecs(str(tmp_path), tee=Std.ALL)
    options = {"max_restarts": 0, "logs_specs": logs} | options
    launcher.elastic_launch(launcher.LaunchConfig(1, 1, count, **options), sys.executable)(
        "-c", program
    )
    (folder,) = tmp_path.iterdir()
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


SAYS = "import os; print(os.environ['LOCAL_RANK'], os.environ.get('CUDA_VISIBLE_DEVICES'), 'a b')"


def test_what_a_launched_program_writes(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    files = launched(
        tmp_path, SAYS, virtual_local_rank=True, role="r", duplicate_stdout_filters=["7 a", "none"],
        log_line_prefix_template="${role_name}|${rank}|${local_rank} ",
    )  # fmt: skip
    assert files["attempt_0/0/stdout.log"] == "0 5 a b\n"
    assert files["attempt_0/1/stdout.log"] == "0 7 a b\n"
    assert files["attempt_0/filtered_stdout.log"] == "0 7 a b\n"
    assert "attempt_0/filtered_stderr.log" not in files
    shown = sorted(capsys.readouterr().out.splitlines())
    assert shown == ["r|0|0 0 5 a b", "r|1|1 0 7 a b"]
    with pytest.raises(ValueError, match="exceeds available GPUs"):
        launched(tmp_path, SAYS, 3, virtual_local_rank=True)


def test_lines_begin_with_who_has_written_them(tmp_path, capsys):
    launched(tmp_path, "print('here')", role="trainer")
    assert sorted(capsys.readouterr().out.splitlines()) == ["[trainer0]:here", "[trainer1]:here"]


def test_the_end_of_a_run_is_told(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(launcher.events, "record", lambda *what: told.append(what))
    launched(tmp_path / "a", "pass", 1, event_log_handler="console", run_id="x")
    with pytest.raises(ChildFailedError):
        launched(tmp_path / "b", "raise SystemExit(3)", 1)
    (first, where), (second, nowhere) = told
    assert first.name == "torchelastic.worker.status.SUCCEEDED" and where == "console"
    assert first.metadata["run_id"] == "x" and first.source.name == "AGENT"
    assert second.name == "torchelastic.worker.status.FAILED" and nowhere == "null"


def test_workers_that_do_not_end_are_killed(tmp_path):
    program = "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    program += "if os.environ['RANK'] == '0': time.sleep(0.5); raise SystemExit(3)\ntime.sleep(99)"
    began = time.monotonic()
    with pytest.raises(ChildFailedError):
        launched(tmp_path, program, shutdown_timeout=0)
    assert time.monotonic() - began < 20


def test_signals_end_the_workers(tmp_path):
    program = f"import os, signal, time; os.kill({os.getpid()}, signal.SIGUSR1); time.sleep(99)"
    before = signal.getsignal(signal.SIGUSR1)
    with pytest.raises(KeyboardInterrupt, match=str(int(signal.SIGUSR1))):
        launched(tmp_path, program, 1, signals_to_handle="SIGUSR1,SIGUSR2")
    assert signal.getsignal(signal.SIGUSR1) is before
    with pytest.raises(ValueError, match="no signal 'SIGNONE'"):
        launched(tmp_path, program, 1, signals_to_handle="SIGNONE")


def test_settings_of_a_launch(monkeypatch):
    config = launcher.LaunchConfig(1, 2, 3, rdzv_timeout=5)
    assert config.rdzv_configs == {"timeout": 5} and config.shutdown_timeout == 30
    monkeypatch.setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "4")
    assert launcher.LaunchConfig(1, 2, 3).shutdown_timeout == 4
    assert isinstance(launcher.LaunchConfig(1, 2, 3).logs_specs, DefaultLogsSpecs)
    with pytest.raises(ValueError, match="non-negative"):
        launcher.LaunchConfig(1, 2, 3, shutdown_timeout=-1)
    with pytest.raises(NotImplementedError, match="numa_options"):
        launcher.LaunchConfig(1, 2, 3, numa_options=1)
    with pytest.warns(UserWarning, match="start_method 'fork' has no effect"):
        launcher.LaunchConfig(1, 2, 3, start_method="fork")


# What a client can send that is none of ours; each must leave the server at work.
BEFORE_THE_SECRET = {
    "nothing": b"",
    "no fields": _wire.frame(_wire.AUTHENTICATE),
    "no hello": _wire.frame(_wire.MESSAGE, [b"{}"]),
    "a frame that ends early": struct.pack(">IB", 6, _wire.HELLO) + b"\xff" * 5,
    "an empty frame": struct.pack(">I", 0),
    "a frame of 1 GB": struct.pack(">I", 1 << 30) + b"x" * (1 << 20),
    "no number": b"cmd=initack pmiid=x\n",
    "a number of many digits": b"cmd=initack pmiid=" + b"9" * 5000 + b"\n",
    "a key alone": b"cmd=put\n",
    "a line without an end": b"cmd=" + b"x" * (1 << 17),
}
HEAD = struct.pack(">d", 0.0)
AFTERWARDS = {
    "no fields": (Request.GET, []),
    "a short time": (Request.GET, [b"x", b"key"]),
    "no number as a time": (Request.GET, [struct.pack(">d", float("nan")), b"key"]),
    "an endless time": (Request.GET, [struct.pack(">d", float("inf")), b"key"]),
    "many fields": (Request.SET, [HEAD] + [b"x"] * 100),
    "no such request": (0x55, [HEAD]),
    "a text to add": (Request.ADD, [HEAD, b"n", b"x"]),
    "many digits to add": (Request.ADD, [HEAD, b"n", b"9" * 5000]),
    "an odd number of values": (Request.MULTI_SET, [HEAD, b"a", b"b", b"c"]),
    "a message of nobody": (_wire.MESSAGE, [b"{}"]),
    "a world of many": (Request.OPEN_WORLD, [b"w", b"2000000000"]),
    "a world of none": (Request.OPEN_WORLD, [b"w", b"-1"]),
    "a world without a name": (Request.OPEN_WORLD, [b"\xff", b"1"]),
    "an unknown world": (Request.JOIN_WORLD, [b"none", b"0", b"{}"]),
}
ABOUT = {"host": "h", "pid": 1, "timeout": 5.0}
REPORT = {"what": "w", "group": "g", "number": 1, "last": None, "line": None}
MEMBERS = {
    "no object": (b"[]", None),
    "no JSON": (b"{", None),
    "deep": (b"[" * 100_000, None),
    "no time-out": (json.dumps({**ABOUT, "timeout": None}).encode(), None),
    "no number as a time-out": (b'{"host": "h", "pid": 1, "timeout": NaN}', None),
    "an endless time-out": (b'{"host": "h", "pid": 1, "timeout": Infinity}', None),
    "no event": (None, b"{}"),
    "no text": (None, b"\xff"),
    "leaves without a word": (None, b'{"event": "leave"}'),
    "a list as its reason": (None, b'{"event": "leave", "why": [], "failed": false}'),
    "asks nothing": (None, b'{"event": "stuck", "report": null}'),
    "asks for lists": (None, json.dumps({"event": "stuck", "report": {
        **REPORT, "ranks": [[], {}], "seconds": 1}}).encode()),
    "reports nothing": (None, b'{"event": "report"}'),
}  # fmt: skip


def answers_of(store, *frames):
    """What a server says to frames, sent by a client that knows the secret, before a pause."""
    connection = _tcp_store.connect(store.host, store.port, 5)
    with connection:
        connection.settimeout(0.3)
        connection.sendall(b"".join(frames))
        codes = []
        try:
            while True:
                codes.append(_wire.read_frame(connection)[0])
        except OSError:
            return codes


@pytest.mark.parametrize("secret", ["", "known"])
@pytest.mark.parametrize("sent", BEFORE_THE_SECRET)
def test_strangers_leave_a_store_at_work(sent, secret, monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_STORE_SECRET", secret)
    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True)
    for first in (b"", _wire.frame(_wire.HELLO, [_wire.GREETING])):
        with socket.create_connection((store.host, store.port), timeout=60) as connection:
            with contextlib.suppress(OSError):  # the server has closed it
                connection.sendall(first + BEFORE_THE_SECRET[sent])
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(1 << 16):
                    pass
    store.set("key", "value")
    assert store.get("key") == b"value" and store._server._thread.is_alive()
    store.close()


def test_strangers_are_given_no_memory(monkeypatch):
    monkeypatch.setenv("RUSHLIGHT_STORE_SECRET", "known")
    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True)
    with socket.create_connection((store.host, store.port), timeout=60) as connection:
        connection.sendall(_wire.frame(_wire.HELLO, [_wire.GREETING]))
        _wire.read_frame(connection)
        connection.sendall(struct.pack(">I", 1 << 29))
        assert connection.recv(1) == b""  # at once, not after the 512 MB that it announces
    store.close()


@pytest.mark.parametrize("sent", AFTERWARDS)
def test_odd_requests_leave_a_store_at_work(sent):
    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True)
    code, fields = AFTERWARDS[sent]
    codes = answers_of(store, _wire.frame(code, fields))
    assert codes == ([] if sent == "an endless time" else [_wire.REFUSED])
    store.set("key", "value")
    assert store.get("key") == b"value" and store._server._thread.is_alive()
    store.close()


@pytest.mark.parametrize("told", MEMBERS)
def test_odd_members_leave_a_store_at_work(told):
    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True)
    about, message = MEMBERS[told]
    frames = [
        _wire.frame(Request.OPEN_WORLD, [b"w", b"2"]),
        _wire.frame(Request.JOIN_WORLD, [b"w", b"0", about or json.dumps(ABOUT).encode()]),
    ]
    if message is not None:
        frames.append(_wire.frame(_wire.MESSAGE, [message]))
    codes = answers_of(store, *frames)
    wanted = told not in ("an endless time-out", "reports nothing")
    assert codes[0] == _wire.OK and (_wire.REFUSED in codes) == wanted
    time.sleep(0.1)
    store.set("key", "value")
    assert store.get("key") == b"value" and store._server._thread.is_alive()
    store.close()


def test_a_client_that_goes_while_it_waits_twice():
    store = dist.TCPStore("127.0.0.1", 0, 1, is_master=True)
    connection = _tcp_store.connect(store.host, store.port, 5)
    wait = _wire.frame(Request.GET, [struct.pack(">d", 0.2), b"missing"])
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.sendall(wait * 50)
    connection.close()
    time.sleep(0.5)
    store.set("key", "value")
    assert store.get("key") == b"value" and store._server._thread.is_alive()
    store.close()


class OwnStore(dist.Store):
    """A program's store, with the methods that it needs."""

    def __init__(self):
        super().__init__()
        self.values = {}

    def set(self, key, value):
        self.values[key] = value

    def get(self, key):
        return self.values[key]

    def compare_set(self, key, expected_value, desired_value):
        if self.values.get(key, b"") == expected_value:
            self.values[key] = desired_value
        return self.values[key]


def test_stores_of_programs():
    own = OwnStore()
    part = dist.PrefixStore("p", own)
    part.set("a", "text")
    assert own.values == {"p/a": b"text"} and part.get("a") == b"text"
    for store in (own, part):
        store.append("b", b"po")
        store.append("b", "tato")
        assert store.get("b") == b"potato"
        store.multi_set(["c", "d"], [b"1", b"2"])
        assert store.multi_get(["c", "d"]) == [b"1", b"2"]
        assert not store.has_extended_api()
    assert dist.PrefixStore("p", dist.HashStore()).has_extended_api()
    with pytest.raises(RuntimeError, match="Not implemented"):
        dist.Store().append("a", "b")
    with pytest.raises(RuntimeError, match="Not implemented"):
        dist.Store().set("a", "b")
    assert dist.PrefixStore("q", part)._underlying_non_prefix_store is own
    with pytest.raises(ValueError, match="expected a store"):
        dist.PrefixStore("p", None)
    with pytest.raises(TypeError, match="expected a store, got int"):
        dist.PrefixStore("p", 3)


def test_a_store_at_a_socket_that_has_an_address():
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    port = taken.getsockname()[1]
    store = dist.TCPStore("127.0.0.1", port, 1, True, master_listen_fd=taken.detach())
    store.set("key", "value")
    assert store.get("key") == b"value" and store.port == port and store.libuvBackend
    with pytest.raises(ValueError, match="world size cannot be 0"):
        dist.TCPStore("127.0.0.1", port, 0)


def test_urls_of_files(tmp_path):
    for slashes in ("//", "///"):
        path = tmp_path / f"store{len(slashes)}"
        url = f"file:{slashes}{path}?world_size=1"
        store, rank, size = next(dist.rendezvous(f"{url}&rank=0"))
        assert (rank, size) == (0, 1) and path.exists()
        store.set("key", "value")
        with pytest.raises(AssertionError, match="node-specific arguments"):
            next(dist.rendezvous(url, 0, 1))


def test_a_level_of_debugging_that_there_is_not(monkeypatch):
    for level, value in (("DeTaIl", 2), ("off", 0)):
        monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", level)
        assert dist.get_debug_level().value == value
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "loud")
    with pytest.raises(ValueError, match="must be OFF, INFO, or DETAIL, but got 'loud'"):
        dist.get_debug_level()
