"""Worker processes of the DataLoader: memory that is shared, interrupts, and sudden ends."""

import gc
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rushlight
from rushlight.utils.data import DataLoader, Dataset, TensorDataset

SHAPE = (64, 300)  # 77 KB: large enough to travel in a block


class Large(Dataset):
    """Sample i is full of i."""

    def __init__(self, size, shape=SHAPE):
        self.size, self.shape = size, shape

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return rushlight.full(self.shape, float(index))


def is_full_of(batch, indices):
    wanted = rushlight.tensor(indices, dtype=batch.dtype)
    return rushlight.equal(batch, wanted.view(-1, *[1] * (batch.dim() - 1)).expand(batch.shape))


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_batches_come_in_shared_memory(context, batch_size):
    loader = DataLoader(
        Large(7), batch_size, num_workers=2, multiprocessing_context=context, worker_init_fn=None
    )
    for start, batch in zip(range(0, 7, batch_size), loader, strict=True):
        assert batch.is_shared()
        assert is_full_of(batch, list(range(start, min(7, start + batch_size))))
        batch.add_(1)  # it is the caller's


def test_batches_that_are_kept_stay_as_they_are():
    loader = DataLoader(Large(200), 2, num_workers=2, persistent_workers=True)
    chosen = random.Random(0)
    kept = []
    for _ in range(3):
        for number, batch in enumerate(loader):
            kept.append((number, batch))
            if chosen.random() < 0.7:
                kept.pop(chosen.randrange(len(kept)))
    assert len(kept) > 50
    assert all(is_full_of(batch, [2 * n, 2 * n + 1]) for n, batch in kept)


def test_memory_is_used_again():
    loader = DataLoader(Large(400), 2, num_workers=1)
    addresses = {batch.data_ptr() for batch in loader}
    assert len(addresses) < 20


def test_batches_of_all_sizes():
    sizes = [chosen for _ in range(20) for chosen in (1, 40_000, 9_000, 300_000, 0, 20_000)]

    class Ragged(Large):
        def __getitem__(self, index):
            return rushlight.full((sizes[index],), float(index))

    kept = list(DataLoader(Ragged(len(sizes)), batch_size=None, num_workers=2))
    for index, (size, sample) in enumerate(zip(sizes, kept, strict=True)):
        assert sample.shape == (size,) and bool((sample == index).all())


class Repeating(Large):
    """Gives out the very same tensor each time."""

    def __init__(self, size):
        super().__init__(size)
        self.same = rushlight.zeros(SHAPE)

    def __getitem__(self, index):
        return self.same


class CollateOnce:
    """Keeps what it has collated, and sends it again."""

    batch = None

    def __call__(self, samples):
        if self.batch is None:
            self.batch = rushlight.utils.data.default_collate(samples)
        return self.batch


@pytest.mark.parametrize("options", [{"batch_size": None}, {"collate_fn": CollateOnce()}])
def test_what_is_sent_twice_is_not_confused(options):
    kept = []
    for number, batch in enumerate(DataLoader(Repeating(12), num_workers=1, **options)):
        batch.fill_(number)
        kept = [*kept[-3:], batch]
    assert [batch.mean().item() for batch in kept] == [8, 9, 10, 11]


def test_parts_of_a_batch_share_memory_and_windows_travel_alone():
    def halves(samples):
        batch = rushlight.stack(samples)
        return batch, batch[1:], rushlight.zeros(1_000_000)[:3]

    batch, rest, window = next(iter(DataLoader(Large(2), 2, collate_fn=halves, num_workers=1)))
    assert rest.untyped_storage() is batch.untyped_storage()
    assert window.untyped_storage().nbytes() == 12
    batch.fill_(9)
    assert bool((rest == 9).all())


def test_a_shared_dataset_is_passed_on_as_it_is():
    data = rushlight.zeros(4, 5).share_memory_()
    for row in DataLoader(TensorDataset(data), batch_size=None, num_workers=1):
        row[0].add_(1)
    assert data.tolist() == [[1] * 5] * 4


def test_history_does_not_travel():
    def collate(samples):
        return rushlight.stack(samples).requires_grad_() * 2

    with pytest.raises(RuntimeError, match="history"):
        next(iter(DataLoader(Large(2), 2, collate_fn=collate, num_workers=1)))


def test_a_batch_that_cannot_be_sent_gives_its_memory_back():
    def collate(samples):
        return [rushlight.stack(samples), lambda: None]

    loader = DataLoader(Large(40), 2, collate_fn=collate, num_workers=1)
    batches = iter(loader)
    for _ in range(20):
        with pytest.raises((AttributeError, rushlight.utils.data.worker.pickle.PicklingError)):
            next(batches)


def test_a_child_of_the_main_process_keeps_its_batch():
    loader = iter(DataLoader(Large(60), 1, num_workers=1))
    batch = next(loader)
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(told)
        os.read(ready, 1)  # until the parent has let go of its own and read on
        os._exit(0 if is_full_of(batch, [0]) else 1)
    os.close(ready)
    del batch
    assert [is_full_of(b, [i + 1]) for i, b in enumerate(loader)] == [True] * 59
    os.close(told)
    assert os.waitpid(child, 0)[1] == 0


def test_descriptors_and_mappings_are_given_back():
    def used():
        gc.collect()  # what earlier tests left in cycles
        maps = Path("/proc/self/maps").read_text().count("memfd:rushlight")
        return len(os.listdir("/proc/self/fd")), maps

    list(DataLoader(Large(10), 2, num_workers=2))
    before = used()
    for _ in range(5):
        list(DataLoader(Large(10), 2, num_workers=2))
    # Those of earlier loaders may go meanwhile, and the last one's a moment later.
    deadline = time.monotonic() + 60
    while not all(now <= then for now, then in zip(used(), before, strict=True)):
        assert time.monotonic() < deadline, (before, used())
        time.sleep(0.01)


SLOW_PROGRAM = """
import os, signal, sys, time
import rushlight
from rushlight.utils.data import DataLoader, Dataset
signal.signal(signal.SIGINT, signal.default_int_handler)

class Slow(Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        time.sleep(0.05)
        return rushlight.zeros(10_000)

if __name__ == "__main__":
    workers = DataLoader(Slow(), 2, num_workers=2, multiprocessing_context=sys.argv[1])
    try:
        for number, batch in enumerate(workers):
            if number == 2:
                pids = [p.pid for p in __import__("multiprocessing").active_children()]
                print(*pids, flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.parametrize("how", ["Ctrl-C", "SIGKILL"])
def test_workers_end_with_the_program(tmp_path, context, how):
    script = tmp_path / "program.py"
    script.write_text(SLOW_PROGRAM)
    environment = dict(os.environ, PYTHONPATH=str(Path(rushlight.__file__).parent.parent))
    program = subprocess.Popen(
        [sys.executable, script, context], env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    workers = [int(pid) for pid in program.stdout.readline().split()]
    assert len(workers) == 2
    if how == "Ctrl-C":  # which all processes in the foreground get
        os.killpg(program.pid, signal.SIGINT)
        output, errors = program.communicate(timeout=120)
        assert output == "interrupted\n" and "Traceback" not in errors, errors
        assert program.returncode == 0
    else:
        program.kill()
        program.wait()
        program.stdout.close()
        program.stderr.close()
    deadline = time.monotonic() + 120
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers))


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_a_killed_worker_is_an_error(context):
    loader = DataLoader(Large(500), 2, num_workers=2, multiprocessing_context=context)
    batches = iter(loader)
    next(batches)
    victim = batches._pool._processes[1]
    os.kill(victim.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=r"worker 1 \(pid \d+\) is killed by signal: Killed"):
        for _ in batches:
            pass
