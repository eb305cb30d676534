"""Tensors in shared memory, sent between processes; functions run in several of them."""

import gc
import multiprocessing.connection
import os
import pickle
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest
import sanitizers

import rushlight
import rushlight.multiprocessing as mp
from rushlight import nn

METHODS = ["fork", "spawn", "forkserver"]


def in_process(method, function, *args):
    """Run function(*args) in a process of its own to the end."""
    process = mp.get_context(method).Process(target=function, args=args)
    process.start()
    process.join(60)
    assert process.exitcode == 0


def descriptors():
    gc.collect()  # what earlier tests left in cycles
    return len(os.listdir("/proc/self/fd"))


# ---- share_memory_ ---------------------------------------------------------------------------


def test_sharing_moves_the_memory_in_place():
    tensor = rushlight.arange(6.0)
    storage = tensor.untyped_storage()
    assert not tensor.is_shared() and not storage.is_shared()
    assert tensor.share_memory_() is tensor
    assert tensor.is_shared() and storage.is_shared() and tensor.storage().is_shared()
    assert tensor.data_ptr() == storage.data_ptr() and tensor.tolist() == [0, 1, 2, 3, 4, 5]
    assert tensor.share_memory_() is tensor  # no effect the second time
    tensor.add_(1)
    assert tensor.tolist() == [1, 2, 3, 4, 5, 6]


def test_a_base_follows_its_view():
    base = rushlight.zeros(4)
    view = base[1:3]
    view.share_memory_()
    view.fill_(7)
    assert base.is_shared() and base.tolist() == [0, 7, 7, 0]


def test_memory_that_others_look_at_is_not_pulled_away():
    base = rushlight.zeros(4)
    view = base[1:]
    with pytest.raises(RuntimeError, match="share_memory_: other tensors"):
        base.share_memory_()
    base.fill_(1)
    assert view.tolist() == [1, 1, 1] and not base.is_shared()


def test_sharing_through_data_and_storages():
    parameter = nn.Parameter(rushlight.ones(3))
    with pytest.raises(RuntimeError, match="other tensors"):
        parameter.data.share_memory_()
    tensor = rushlight.ones(3)
    tensor.untyped_storage().share_memory_()
    assert tensor.is_shared() and tensor.tolist() == [1, 1, 1]
    assert rushlight.UntypedStorage(b"abc").share_memory_().is_shared()
    with pytest.raises(RuntimeError, match="meta"):
        rushlight.empty(3, device="meta").share_memory_()


def test_foreign_memory_is_left_to_its_owner():
    numpy = pytest.importorskip("numpy")
    array = numpy.ones(4)
    tensor = rushlight.from_numpy(array)
    tensor.share_memory_()
    tensor.fill_(2)
    assert array.tolist() == [1] * 4 and tensor.tolist() == [2] * 4
    shown = rushlight.ones(4)
    window = memoryview(shown)
    shown.share_memory_().fill_(3)
    assert window.tolist() == [1] * 4  # what it shows is still there


def test_empty_tensors_and_resizing():
    assert rushlight.empty(0).share_memory_().is_shared()
    with pytest.raises(RuntimeError, match="cannot be resized"):
        rushlight.zeros(3).share_memory_().resize_(1000)


def test_modules_share_parameters_gradients_and_buffers():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    model(rushlight.randn(5, 3)).sum().backward()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert model.share_memory() is model
    for name, value in model.state_dict().items():
        assert value.is_shared() and rushlight.equal(value, before[name])
    assert all(parameter.grad.is_shared() for parameter in model.parameters())
    model(rushlight.randn(5, 3)).sum().backward()  # gradients accumulate where they are
    assert all(parameter.grad.is_shared() for parameter in model.parameters())


def test_memory_and_descriptors_are_given_back():
    before = descriptors()
    tensors = [rushlight.zeros(1000).share_memory_() for _ in range(20)]
    assert descriptors() == before + 20
    del tensors
    gc.collect()
    assert descriptors() == before
    assert not [name for name in os.listdir("/dev/shm") if "rushlight" in name]


@pytest.mark.skipif(
    sanitizers.ADDRESS,
    reason="the sanitizer looks at objects through a pipe, for which no descriptor is left",
)
def test_too_many_descriptors_is_an_error():
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() + 5, hard))
    try:
        with pytest.raises(RuntimeError, match="ulimit -n"):
            kept = [rushlight.zeros(2).share_memory_() for _ in range(100)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        kept = None
    assert kept is None


# ---- sending ---------------------------------------------------------------------------------


def change(queue, reply):
    data = queue.get()
    view, tied = data["view"], data["tied"]
    view.add_(1)
    facts = {
        "shared": view.is_shared(),
        "tied": tied[0].untyped_storage() is tied[1].untyped_storage(),
        "kinds": [type(data["parameter"]).__name__, data["parameter"].requires_grad],
        "bytes": data["storage"].tolist(),
        "stride": view.stride(),
    }
    data["parameter"].data.fill_(5)
    data["storage"][0] = 9
    reply.put(facts)


@pytest.mark.parametrize("method", METHODS)
def test_queues_share_memory(method):
    context = mp.get_context(method)
    queue, reply = context.Queue(), context.SimpleQueue()
    process = context.Process(target=change, args=(queue, reply))
    process.start()
    matrix = rushlight.zeros(3, 4)
    whole = rushlight.zeros(10).share_memory_()
    parameter = nn.Parameter(rushlight.ones(3))
    storage = rushlight.UntypedStorage(b"abc")
    queue.put({
        "view": matrix.t(), "tied": (whole, whole[3:]), "parameter": parameter, "storage": storage,
    })  # fmt: skip
    facts = reply.get()
    process.join()
    assert facts == {
        "shared": True, "tied": True, "kinds": ["Parameter", True], "bytes": list(b"abc"),
        "stride": (1, 4),
    }  # fmt: skip
    assert matrix.is_shared() and matrix.tolist() == [[1] * 4] * 3
    assert parameter.tolist() == [5, 5, 5]
    assert storage.tolist() == list(b"9bc".replace(b"9", b"\x09"))
    queue.close()


def fill_from_pipe(connection):
    tensor = connection.recv()
    tensor.fill_(3)
    connection.send(tensor.sum())


@pytest.mark.parametrize("method", METHODS)
def test_pipes_and_arguments(method):
    context = mp.get_context(method)
    ours, theirs = context.Pipe()
    process = context.Process(target=fill_from_pipe, args=(theirs,))
    process.start()
    tensor = rushlight.zeros(4, dtype=rushlight.float64)
    ours.send(tensor)
    assert ours.recv().item() == 12
    process.join()
    assert tensor.tolist() == [3] * 4
    shared = rushlight.zeros(5).share_memory_()
    in_process(method, rushlight.Tensor.fill_, shared, 2.0)
    assert shared.tolist() == [2] * 5


def test_what_cannot_be_moved_is_sent_as_a_copy():
    base = rushlight.arange(4.0)
    other = base.detach()
    queue = mp.SimpleQueue()
    queue.put(base)
    received = queue.get()
    assert received.is_shared() and received.tolist() == [0, 1, 2, 3]
    assert not base.is_shared() and other.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", [rushlight.bfloat16, rushlight.bool, rushlight.complex64])
def test_dtypes_and_empty_tensors(dtype):
    queue = mp.SimpleQueue()
    for tensor in (rushlight.ones(2, 3).to(dtype), rushlight.empty(0, 3, dtype=dtype)):
        queue.put(tensor)
        received = queue.get()
        assert received.dtype == dtype and rushlight.equal(received, tensor)
    queue.put(rushlight.empty(2, 3, dtype=dtype, device="meta"))
    received = queue.get()
    assert received.is_meta and received.shape == (2, 3) and received.dtype == dtype


def test_history_does_not_cross():
    leaf = rushlight.ones(2, requires_grad=True)
    leaf.grad = rushlight.ones(2)
    queue = mp.SimpleQueue()
    queue.put(leaf)
    received = queue.get()
    assert received.requires_grad and received.grad is None  # as torch has it
    with pytest.raises(RuntimeError, match="history"):
        queue.put(leaf * 2)
    handle = leaf.register_hook(lambda grad: grad)
    with pytest.warns(UserWarning, match="hook"):
        queue.put(leaf)
    queue.get()
    handle.remove()


def test_what_is_received_twice_can_be_sent_on():
    queue = mp.SimpleQueue()
    tensor = rushlight.zeros(3)
    queue.put(tensor)
    first = queue.get()
    queue.put(first)
    queue.get().fill_(1)
    assert tensor.tolist() == first.tolist() == [1] * 3


def send_and_end(queue):
    queue.put(rushlight.ones(3))


def test_what_a_process_sent_last_arrives():
    for context in (mp.get_context(method) for method in METHODS):
        for queue in (context.Queue(), context.SimpleQueue()):
            process = context.Process(target=send_and_end, args=(queue,))
            process.start()
            time.sleep(0.2)
            assert queue.get().tolist() == [1] * 3
            process.join()


def send_slowly_and_end(queue):
    send_fds = socket.send_fds

    def delayed(*args):
        time.sleep(0.3)
        return send_fds(*args)

    socket.send_fds = delayed
    queue.put(rushlight.ones(3))


def test_a_process_does_not_end_while_it_sends():
    queue = mp.get_context("fork").SimpleQueue()
    process = mp.get_context("fork").Process(target=send_slowly_and_end, args=(queue,))
    process.start()
    assert queue.get().tolist() == [1] * 3
    process.join()


def test_a_sender_that_has_gone_is_an_error():
    queue = mp.get_context("fork").SimpleQueue()
    process = mp.get_context("fork").Process(target=send_and_end, args=(queue,))
    process.start()
    while queue.empty():
        time.sleep(0.01)
    process.kill()
    process.join()
    with pytest.raises(RuntimeError, match="ended before it was received"):
        queue.get()


def test_damaged_descriptors_are_refused(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    descriptor = os.open(path, os.O_RDWR)
    with pytest.raises(RuntimeError, match="could shrink"):
        rushlight.UntypedStorage._from_descriptor(descriptor, 100, True)
    small = rushlight.zeros(2).share_memory_().untyped_storage()
    with pytest.raises(RuntimeError, match="has 8 bytes, not 9"):
        rushlight.UntypedStorage._from_descriptor(os.dup(small._shared_descriptor()), 9, True)
    with pytest.raises(RuntimeError, match="inspect"):
        rushlight.UntypedStorage._from_descriptor(987654, 9, True)


# ---- spawn -----------------------------------------------------------------------------------


def add_rank(rank, total, by):
    total[rank] += rank + by


def fail_at_one(rank, length):
    if rank == 1:
        raise ValueError("x" * length)
    time.sleep(10**6)


def exit_at_zero(rank, code):
    if rank == 0:
        if code < 0:
            os.kill(os.getpid(), -code)
        sys.exit(code)
    time.sleep(10**6)


def wait_for_word(rank, words):
    words.get()


def note_interrupt(rank, path, ready):
    try:
        ready.put(rank)
        time.sleep(60)
    except KeyboardInterrupt:
        complete = Path(path).with_suffix(".complete")
        complete.write_text("interrupted")
        complete.rename(path)  # who finds the note finds all of it


@pytest.mark.parametrize("method", METHODS)
def test_start_processes(method):
    total = rushlight.zeros(3)
    total.share_memory_()
    assert mp.start_processes(add_rank, (total, 10), nprocs=3, start_method=method) is None
    assert total.tolist() == [10, 11, 12]


def test_spawn_sends_a_module():
    model = nn.Linear(2, 1)
    model.share_memory()
    mp.spawn(train_a_little, args=(model,), nprocs=2)
    assert model.weight.tolist() == [[5.0, 5.0]]


def train_a_little(rank, model):
    assert model.weight.is_shared() and isinstance(model.weight, nn.Parameter)
    with rushlight.no_grad():
        model.weight.fill_(5)


@pytest.mark.parametrize("length", [10, 1 << 20])
def test_an_exception_comes_with_its_traceback(length):
    with pytest.raises(mp.ProcessRaisedException, match="fail_at_one") as caught:
        mp.start_processes(fail_at_one, (length,), nprocs=2, start_method="fork")
    assert "ValueError: xxx" in str(caught.value) and len(str(caught.value)) > length
    assert caught.value.error_index == 1 and caught.value.pid
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.error_index == 1 and str(again) == str(caught.value)


def test_processes_that_are_started_side_by_side(monkeypatch):
    monkeypatch.setenv(mp.ENV_VAR_PARALLEL_START, "1")
    total = rushlight.zeros(3)
    total.share_memory_()
    mp.start_processes(add_rank, (total, 10), nprocs=3, start_method="forkserver")
    assert total.tolist() == [10, 11, 12]


def test_an_ended_process_is_logged(caplog):
    started = mp.start_processes(fail_at_one, (1,), nprocs=2, join=False, start_method="fork")
    with pytest.raises(mp.ProcessRaisedException):
        while not started.join():
            pass
    pid = started.processes[0].pid
    assert f"Terminating process {pid} via signal SIGTERM" in caplog.text


@pytest.mark.parametrize("code, name, text", [
    (3, None, "process 0 terminated with exit code 3"),
    (-9, "SIGKILL", "process 0 terminated with signal SIGKILL"),
])  # fmt: skip
def test_an_exit_is_reported(code, name, text):
    with pytest.raises(mp.ProcessExitedException, match=text) as caught:
        mp.start_processes(exit_at_zero, (code,), nprocs=2, start_method="fork")
    assert caught.value.exit_code == code and caught.value.signal_name == name
    assert pickle.loads(pickle.dumps(caught.value)).exit_code == code


def has_ended(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def fail_one_after_the_other(rank, first, pids):
    if rank == 0:
        process = pids.get()
        while not has_ended(process):
            time.sleep(0.01)
    else:
        pids.put(os.getpid())
        pids.close(), pids.join_thread()
        if first < 0:
            os.kill(os.getpid(), -first)
    raise ValueError(f"failure of {rank}")


@pytest.mark.parametrize("first", [1, -9, -15])
def test_the_first_failure_is_reported(first):
    """Both have ended before anybody looks: the cause is told, not its consequence."""
    pids = multiprocessing.get_context("fork").Queue()
    started = mp.start_processes(
        fail_one_after_the_other, (first, pids), nprocs=2, join=False, start_method="fork"
    )
    for sentinel in list(started.sentinels):
        assert multiprocessing.connection.wait([sentinel], 120)
    with pytest.raises((mp.ProcessRaisedException, mp.ProcessExitedException)) as caught:
        started.join()
    assert caught.value.error_index == 1
    assert ("failure of 1" if first > 0 else "terminated with signal") in str(caught.value)


def test_join():
    words = mp.get_context("fork").SimpleQueue()
    started = mp.start_processes(wait_for_word, (words,), nprocs=2, join=False, start_method="fork")
    assert len(started.pids()) == 2 and not started.join(timeout=0.01)
    words.put("one"), words.put("two")
    while not started.join():
        pass
    assert started.join()
    words.put("three")
    daemons = mp.start_processes(
        wait_for_word, (words,), nprocs=1, join=False, daemon=True, start_method="fork"
    )
    assert daemons.processes[0].daemon and daemons.join()


# Who runs the tests in the background may have them ignore SIGINT, and processes inherit that.
START_AND_WAIT = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import rushlight.multiprocessing as mp
import test_multiprocessing as tests
if __name__ == "__main__":
    ready = mp.get_context("fork").SimpleQueue()
    mp.start_processes(tests.note_interrupt, (sys.argv[1], ready), join=False, start_method="fork")
    ready.get()
    print("ready", flush=True)
    time.sleep(60)
"""


def test_processes_end_with_a_parent_that_is_killed(tmp_path):
    import subprocess

    script, note = tmp_path / "script.py", tmp_path / "note"
    script.write_text(START_AND_WAIT)
    package = Path(rushlight.__file__).parent.parent
    environment = dict(os.environ, PYTHONPATH=f"{package}:{Path(__file__).parent}")
    parent = subprocess.Popen(
        [sys.executable, script, note], stdout=subprocess.PIPE, env=environment
    )
    assert parent.stdout.readline() == b"ready\n"
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 120
    while not note.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert note.read_text() == "interrupted"


def note_what_ended(rank, path):
    try:
        time.sleep(2)
        outcome = "slept"
    except KeyboardInterrupt:
        outcome = "interrupted"
    Path(path).write_text(outcome)


@pytest.mark.parametrize("method", METHODS)
def test_processes_outlive_the_thread_that_started_them(tmp_path, method):
    note, started = tmp_path / "note", []

    def start():
        started.append(
            mp.start_processes(note_what_ended, (note,), join=False, start_method=method)
        )

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    while not started[0].join():
        pass
    assert note.read_text() == "slept"


def test_a_process_whose_parent_has_gone_already_does_not_begin(tmp_path):
    note = tmp_path / "note"
    first, second = os.pipe()
    child = os.fork()
    if child == 0:  # a parent that dies while its own child waits to begin
        orphan = mp.get_context("fork").Process(
            target=begin_once_orphaned, args=(note, os.getpid(), second)
        )
        orphan.start()
        os._exit(0)
    os.waitpid(child, 0)
    os.close(second)
    assert os.read(first, 10) == b"end"
    os.close(first)
    assert not note.exists()


def begin_once_orphaned(note, parent, done):
    from rushlight.multiprocessing.spawn import _run

    while os.getppid() == parent:
        time.sleep(0.01)
    _run(nap_and_note, 0, (note,), None, "fork", True)
    os.write(done, b"end")


def nap_and_note(rank, path):
    Path(path).write_text("begun")


def test_strategies():
    assert mp.get_sharing_strategy() == "file_descriptor"
    for name in mp.get_all_sharing_strategies():
        mp.set_sharing_strategy(name)
    mp.set_sharing_strategy("file_descriptor")
    with pytest.raises(AssertionError, match="set_sharing_strategy"):
        mp.set_sharing_strategy("pigeon")
