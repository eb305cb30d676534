"""Datasets, samplers, collation and the DataLoader."""

import collections
import gc
import multiprocessing
import os
import pickle
import random
import signal
import time

import pytest

import rushlight
from rushlight.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    StatefulDataLoader,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    get_worker_info,
    random_split,
)

WORKERS = [(0, "process"), (2, "process"), (2, "thread")]
Point = collections.namedtuple("Point", ["x", "y"])


class Squares(Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index >= self.size:
            raise IndexError(index)
        return index * index


class Noisy(Squares):
    """Samples that depend on all global random generators."""

    def __getitem__(self, index):
        return rushlight.tensor([index, random.random(), rushlight.rand(()).item()])


class Count(IterableDataset):
    """0, 1, 2, ... dealt out to the workers."""

    def __init__(self, size):
        self.size = size

    def __iter__(self):
        info = get_worker_info()
        start, step = (info.id, info.num_workers) if info else (0, 1)
        yield from range(start, self.size, step)


class NoisyCount(Count):
    def __iter__(self):
        for value in super().__iter__():
            yield value + random.random()


class ResumableCount(Count):
    """Knows its own position; iterating again from the start would be an error."""

    position = 0
    fresh = True

    def __iter__(self):
        info = get_worker_info()
        step = info.num_workers if info else 1
        first = info.id if info else 0
        while first + self.position * step < self.size:
            self.position += 1
            yield first + (self.position - 1) * step
        self.position = 0

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


class Faulty(Squares):
    """Sample 3 fails in the way that `fault` says."""

    def __init__(self, size, fault):
        super().__init__(size)
        self.fault = fault

    def __getitem__(self, index):
        if index == 3:
            self.fault()
        return index


def raise_value_error():
    raise ValueError("the text of the error")


def raise_key_error():
    raise KeyError("two\nlines")


def raise_local():
    class LocalError(Exception):
        pass

    raise LocalError("local")


class DemandingError(Exception):
    def __init__(self, text, *, code):
        super().__init__(text)


def raise_demanding():
    raise DemandingError("demanding", code=1)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def leave():
    raise SystemExit(3)


def sleep():
    time.sleep(2)


def as_lists(batches):
    return [batch.tolist() if isinstance(batch, rushlight.Tensor) else batch for batch in batches]


# --- datasets


def test_tensor_dataset():
    data = TensorDataset(rushlight.arange(3), rushlight.ones(3, 2))
    assert len(data) == 3 and data[1][0].item() == 1 and data[1][1].tolist() == [1.0, 1.0]
    with pytest.raises(AssertionError, match="Size mismatch"):
        TensorDataset(rushlight.ones(3), rushlight.ones(2))


def test_combinations():
    joined = Squares(3) + Squares(2)
    assert isinstance(joined, ConcatDataset) and [joined[i] for i in range(5)] == [0, 1, 4, 0, 1]
    assert joined[-1] == 1
    for index, error in [(5, IndexError), (-6, ValueError)]:
        with pytest.raises(error):
            joined[index]
    assert list(Count(2) + Count(3)) == [0, 1, 0, 1, 2] and len(ChainDataset([])) == 0
    stacked = StackDataset(a=Squares(3), b=Subset(Squares(9), [8, 7, 6]))
    assert stacked[1] == {"a": 1, "b": 49}
    assert stacked.__getitems__([0, 2]) == [{"a": 0, "b": 64}, {"a": 4, "b": 36}]
    assert StackDataset(Squares(2), Squares(2))[1] == (1, 1)
    with pytest.raises(ValueError, match="Size mismatch"):
        StackDataset(Squares(2), Squares(3))


def test_base_classes_name_the_subclass():
    class Empty(Dataset):
        pass

    with pytest.raises(NotImplementedError, match="Empty"):
        Empty()[0]
    assert issubclass(Dataset[int].__origin__, Dataset)


def test_random_split():
    generator = rushlight.Generator().manual_seed(1)
    parts = random_split(Squares(10), [0.5, 0.25, 0.25], generator)
    assert [len(part) for part in parts] == [6, 2, 2]
    assert sorted(i for part in parts for i in part.indices) == list(range(10))
    with pytest.raises(ValueError, match="does not equal"):
        random_split(Squares(10), [5, 4])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        random_split(Squares(3), [1.0, 0.0])


# --- samplers


def test_samplers():
    assert list(SequentialSampler(Squares(3))) == [0, 1, 2]
    assert sorted(RandomSampler(Squares(40))) == list(range(40))
    assert len(list(RandomSampler(Squares(3), num_samples=8))) == 8
    assert set(RandomSampler(Squares(3), replacement=True, num_samples=50)) <= {0, 1, 2}
    assert sorted(SubsetRandomSampler([5, 7, 9])) == [5, 7, 9]
    assert set(WeightedRandomSampler([0.0, 1.0, 0.0], 20)) == {1}
    assert list(BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    assert list(BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
    assert len(BatchSampler(range(5), 2, False)) == 3 and len(BatchSampler(range(5), 2, True)) == 2


def test_sampler_errors():
    for make, error in [
        (lambda: RandomSampler(Squares(2), replacement=1), TypeError),
        (lambda: RandomSampler(Squares(2), num_samples=-1), ValueError),
        (lambda: RandomSampler(Squares(2), num_samples=0), ValueError),
        (lambda: DataLoader(Squares(0), shuffle=True), ValueError),
        (lambda: BatchSampler(range(2), 0, False), ValueError),
        (lambda: BatchSampler(range(2), 2, 1), ValueError),
        (lambda: WeightedRandomSampler([1.0], 0), ValueError),
        (lambda: WeightedRandomSampler([[1.0]], 1), ValueError),
        (lambda: DistributedSampler(Squares(4), 2, 2), ValueError),
        (lambda: DistributedSampler(Squares(4)), ValueError),
    ]:
        with pytest.raises(error):
            make()


@pytest.mark.parametrize("drop_last", [False, True])
def test_distributed_sampler_deals_out_everything(drop_last):
    samplers = [DistributedSampler(Squares(10), 4, rank, drop_last=drop_last) for rank in range(4)]
    shares = [list(sampler) for sampler in samplers]
    assert {len(share) for share in shares} == {2 if drop_last else 3}
    if not drop_last:
        assert {i for share in shares for i in share} == set(range(10))
    samplers[0].set_epoch(1)
    assert list(samplers[0]) != shares[0]


# --- collation


def test_default_collate():
    batch = default_collate([{"x": 1, "y": ("a", 2.0)}, {"x": 3, "y": ("b", 4.0)}])
    assert batch["x"].tolist() == [1, 3] and batch["x"].dtype == rushlight.int64
    assert batch["y"][0] == ("a", "b") and batch["y"][1].dtype == rushlight.float64
    point = default_collate([Point(rushlight.ones(2), True), Point(rushlight.zeros(2), False)])
    assert isinstance(point, Point) and point.x.shape == (2, 2) and point.y.dtype == rushlight.bool
    assert default_collate(["a", "b"]) == ["a", "b"]  # columns of samples are tuples
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([[1], [1, 2]])
    with pytest.raises(TypeError, match="default_collate"):
        default_collate([object()])


def test_numpy_samples():
    numpy = pytest.importorskip("numpy")
    batch = default_collate([numpy.ones(2, "float32"), numpy.zeros(2, "float32")])
    assert batch.tolist() == [[1, 1], [0, 0]] and batch.dtype == rushlight.float32
    assert default_collate([numpy.float32(1), numpy.float32(2)]).dtype == rushlight.float32
    assert default_collate([numpy.float64(1)]).dtype == rushlight.float64
    with pytest.raises(TypeError, match="default_collate"):
        default_collate([numpy.array("text")])
    converted = default_convert({"a": numpy.ones(2), "b": "text", "c": (1, 2)})
    assert isinstance(converted["a"], rushlight.Tensor)
    assert converted["b"] == "text" and converted["c"] == [1, 2]


# --- the loader


@pytest.mark.parametrize(("num_workers", "worker_type"), WORKERS)
def test_order_and_length(num_workers, worker_type):
    workers = {"num_workers": num_workers, "worker_type": worker_type}
    expected = [[0, 1, 4], [9, 16, 25], [36]]
    loader = DataLoader(Squares(7), batch_size=3, **workers)
    assert as_lists(loader) == as_lists(loader) == expected and len(loader) == 3
    loader = DataLoader(Squares(7), batch_size=3, drop_last=True, **workers)
    assert as_lists(loader) == expected[:2] and len(loader) == 2
    assert list(DataLoader(Squares(3), batch_size=None, **workers)) == [0, 1, 4]
    loader = DataLoader(Squares(7), batch_sampler=[[6], [0, 2]], **workers)
    assert as_lists(loader) == [[36], [0, 4]]
    loader = DataLoader(Squares(20), batch_size=3, shuffle=True, **workers)
    assert sorted(sum(as_lists(loader), [])) == [i * i for i in range(20)]
    loader = DataLoader(Squares(20), batch_size=2, in_order=False, **workers)
    assert sorted(sum(as_lists(loader), [])) == [i * i for i in range(20)]


@pytest.mark.parametrize(("num_workers", "worker_type"), WORKERS)
def test_iterable_datasets(num_workers, worker_type):
    loader = DataLoader(Count(11), batch_size=2, num_workers=num_workers, worker_type=worker_type)
    batches = as_lists(loader)
    assert sorted(sum(batches, [])) == list(range(11))
    if num_workers:
        assert batches[:3] == [[0, 2], [1, 3], [4, 6]]


def test_spawned_workers():
    loader = DataLoader(Squares(5), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    assert as_lists(loader) == [[0, 1], [4, 9], [16]]


@pytest.mark.parametrize("worker_type", ["process", "thread"])
def test_workers_know_themselves(worker_type):
    class Self(Squares):
        def __getitem__(self, index):
            info = get_worker_info()
            with pytest.raises(RuntimeError, match="Cannot assign"):
                info.id = 5
            return (info.id, info.num_workers, info.seed, info.dataset is self)

    loader = DataLoader(
        Self(4), batch_size=None, num_workers=2, worker_type=worker_type, collate_fn=lambda x: x
    )
    facts = list(loader)
    assert [fact[0] for fact in facts] == [0, 1, 0, 1] and facts[1][2] == facts[0][2] + 1
    assert all(fact[1] == 2 and fact[3] for fact in facts)
    assert get_worker_info() is None


def test_persistent_workers_stay():
    class Pid(Squares):
        def __getitem__(self, index):
            return os.getpid()

    for persistent in (False, True):
        loader = DataLoader(Pid(4), num_workers=2, persistent_workers=persistent)
        epochs = [{batch.item() for batch in loader} for _ in range(2)]
        assert len(epochs[0]) == 2 and (epochs[0] == epochs[1]) is persistent


def test_an_abandoned_epoch_leaves_nothing_behind():
    loader = DataLoader(Squares(30), num_workers=2, persistent_workers=True)
    for _ in range(3):
        for batch, _ in zip(loader, range(4), strict=False):
            assert batch.numel() == 1
    assert as_lists(loader) == [[i * i] for i in range(30)]


def test_breaking_off_stops_the_workers():
    gc.collect()  # loaders that earlier tests left in cycles
    for batch in DataLoader(Squares(1000), num_workers=2):
        assert batch.item() == 0
        break
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("worker_type", ["process", "thread"])
@pytest.mark.parametrize(
    ("fault", "kind", "text"),
    [
        (raise_value_error, ValueError, "the text of the error"),
        (raise_key_error, KeyError, "two\\nlines"),
        (raise_local, RuntimeError, "LocalError"),
        (raise_demanding, RuntimeError, "DemandingError"),
    ],
)
def test_errors_come_with_the_workers_traceback(worker_type, fault, kind, text):
    loader = DataLoader(Faulty(6, fault), num_workers=2, worker_type=worker_type)
    iterator = iter(loader)
    assert [next(iterator).item() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(kind) as caught:
        next(iterator)
    message = str(caught.value)
    assert f"in DataLoader worker {worker_type} 1" in message and text in message
    assert fault.__name__ in message and "Original Traceback" in message
    assert next(iterator).item() == 4


def test_what_cannot_be_sent_is_an_error_too():
    loader = DataLoader(Squares(2), num_workers=1, collate_fn=lambda batch: lambda: batch)
    with pytest.raises((AttributeError, pickle.PicklingError), match="worker process 0"):
        next(iter(loader))


def test_a_failing_init_function_is_reported():
    def fail(worker):
        raise ValueError(f"no start for {worker}")

    with pytest.raises(ValueError, match="no start for 0"):
        next(iter(DataLoader(Squares(2), num_workers=1, worker_init_fn=fail)))


@pytest.mark.parametrize(
    ("fault", "text"), [(die, "killed by signal: Killed"), (leave, "exit code 3")]
)
def test_a_worker_that_dies_is_reported(fault, text):
    with pytest.raises(RuntimeError, match=text):
        list(DataLoader(Faulty(6, fault), num_workers=2))


@pytest.mark.parametrize("worker_type", ["process", "thread"])
def test_time_out(worker_type):
    loader = DataLoader(Faulty(6, sleep), num_workers=1, timeout=0.3, worker_type=worker_type)
    with pytest.raises(RuntimeError, match="timed out after 0.3 seconds"):
        list(loader)


def test_argument_errors():
    for error, arguments in [
        (ValueError, {"num_workers": -1}),
        (ValueError, {"timeout": -1}),
        (ValueError, {"prefetch_factor": 2}),
        (ValueError, {"num_workers": 1, "prefetch_factor": -2}),
        (ValueError, {"persistent_workers": True}),
        (ValueError, {"shuffle": True, "sampler": range(3)}),
        (ValueError, {"batch_sampler": [[0]], "batch_size": 2}),
        (ValueError, {"batch_size": None, "drop_last": True}),
        (ValueError, {"batch_size": 0}),
        (ValueError, {"multiprocessing_context": "fork"}),
        (ValueError, {"num_workers": 1, "multiprocessing_context": "bad"}),
        (TypeError, {"num_workers": 1, "multiprocessing_context": 5}),
        (ValueError, {"worker_type": "coroutine"}),
    ]:
        with pytest.raises(error):
            DataLoader(Squares(3), **arguments)
    with pytest.raises(ValueError, match="shuffle"):
        DataLoader(Count(3), shuffle=True)
    with pytest.raises(TypeError):
        len(DataLoader(Count(3)))
    with pytest.raises(ValueError, match="should not be set"):
        DataLoader(Squares(3)).batch_size = 4


# --- resuming


def run(loader, batches=None):
    iterator = iter(loader)
    if batches is None:
        return as_lists(iterator)
    return as_lists(next(iterator) for _ in range(batches))


LOADERS = {
    "sequential": lambda **kw: StatefulDataLoader(Squares(23), batch_size=2, **kw),
    "shuffled": lambda **kw: StatefulDataLoader(Squares(23), batch_size=2, shuffle=True, **kw),
    "unbatched": lambda **kw: StatefulDataLoader(
        Squares(23), batch_size=None, sampler=SubsetRandomSampler(range(23)), **kw
    ),
    "generator": lambda **kw: StatefulDataLoader(
        Squares(23),
        batch_size=2,
        sampler=RandomSampler(
            Squares(9), num_samples=25, generator=rushlight.Generator().manual_seed(4)
        ),
        **kw,
    ),
    "stream": lambda **kw: StatefulDataLoader(Count(23), batch_size=2, **kw),
    "resumable stream": lambda **kw: StatefulDataLoader(ResumableCount(23), batch_size=2, **kw),
}


@pytest.mark.parametrize(("num_workers", "worker_type"), WORKERS[:2])
@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("taken", [0, 1, 5, None])
def test_resume(kind, num_workers, worker_type, taken):
    def make():
        return LOADERS[kind](num_workers=num_workers, worker_type=worker_type)

    rushlight.manual_seed(3)
    loader = make()
    first = run(loader)  # an epoch before, so that nothing is at its initial state
    generator_state = rushlight.get_rng_state()
    whole = [run(loader), run(loader), rushlight.rand(2).tolist()]

    rushlight.manual_seed(3)
    loader = make()
    assert run(loader) == first
    begun = run(loader, taken)
    state = pickle.loads(pickle.dumps(loader.state_dict()))
    generator_state = rushlight.get_rng_state()

    rushlight.manual_seed(999)
    rushlight.set_rng_state(generator_state)
    resumed = make()
    resumed.load_state_dict(state)
    if taken is None:
        assert begun == whole[0]
        assert [run(resumed), rushlight.rand(2).tolist()] == whole[1:]
    else:
        assert [begun + run(resumed), run(resumed), rushlight.rand(2).tolist()] == whole


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("dataset", [Noisy(24), NoisyCount(24)])
@pytest.mark.parametrize("taken", [1, 4, None])
def test_resume_continues_the_workers_random_numbers(dataset, persistent, taken):
    def make():
        return StatefulDataLoader(
            dataset, batch_size=2, num_workers=2, persistent_workers=persistent, shuffle=None
        )

    rushlight.manual_seed(1)
    loader = make()
    run(loader)
    whole = [run(loader), run(loader)]

    rushlight.manual_seed(1)
    loader = make()
    run(loader)
    begun = run(loader, taken)
    state, generator_state = loader.state_dict(), rushlight.get_rng_state()
    del loader

    resumed = make()
    rushlight.set_rng_state(generator_state)
    resumed.load_state_dict(state)
    if taken is None:
        assert run(resumed) == whole[1]
    else:
        assert [begun + run(resumed), run(resumed)] == whole


def test_resume_out_of_order_reads_everything_once():
    loader = StatefulDataLoader(Squares(30), num_workers=2, in_order=False)
    begun = run(loader, 7)
    resumed = StatefulDataLoader(Squares(30), num_workers=2, in_order=False)
    resumed.load_state_dict(loader.state_dict())
    assert sorted(sum(begun + run(resumed), [])) == [i * i for i in range(30)]


def test_resume_with_a_stateful_sampler():
    class Stateful(SequentialSampler):
        position = 0

        def __iter__(self):
            while self.position < len(self):
                self.position += 1
                yield self.position - 1
            self.position = 0

        def state_dict(self):
            return {"position": self.position}

        def load_state_dict(self, state):
            self.position = state["position"]

    def make(num_workers):
        return StatefulDataLoader(
            Squares(10), batch_size=2, sampler=Stateful(Squares(10)), num_workers=num_workers
        )

    for num_workers in (0, 2):
        loader = make(num_workers)
        begun = run(loader, 2)
        resumed = make(num_workers)
        resumed.load_state_dict(loader.state_dict())
        assert sum(begun + run(resumed), []) == [i * i for i in range(10)]


def test_a_loaded_state_can_be_saved_again():
    loader = StatefulDataLoader(Squares(9), 2, shuffle=True)
    batches = [batch.tolist() for _, batch in zip(range(2), loader)]
    state = loader.state_dict()
    for _ in range(3):
        loader = StatefulDataLoader(Squares(9), 2, shuffle=True)
        loader.load_state_dict(state)
        state = loader.state_dict()
    batches += [batch.tolist() for batch in loader]
    assert sorted(sum(batches, [])) == [i * i for i in range(9)]


def test_resume_refuses_another_number_of_workers():
    state = StatefulDataLoader(Squares(3)).state_dict()
    with pytest.raises(ValueError, match="num_workers"):
        StatefulDataLoader(Squares(3), num_workers=1).load_state_dict(state)


# --- against torch


@pytest.mark.torch
@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize("shared_generator", [False, True])
def test_same_numbers_as_torch(num_workers, shared_generator):
    import torch

    numpy = pytest.importorskip("numpy")

    def epochs(library, loader_class, **options):
        class Sample(Squares, library.utils.data.Dataset):
            def __getitem__(self, index):
                draws = [random.random(), numpy.random.rand(), library.rand(()).item()]
                return library.tensor([float(index), *draws])

        library.manual_seed(7)
        random.seed(7)
        numpy.random.seed(7)
        generator = library.Generator().manual_seed(8) if shared_generator else None
        loader = loader_class(Sample(13), generator=generator, num_workers=num_workers, **options)
        return [[batch.tolist() for batch in loader] for _ in range(2)] + [library.rand(2).tolist()]

    for options in [
        {"shuffle": True, "batch_size": 4},
        {"shuffle": True, "batch_size": 4, "drop_last": True},
        {"shuffle": True, "batch_size": None},
    ]:
        ours = epochs(rushlight, DataLoader, **options)
        assert ours == epochs(torch, torch.utils.data.DataLoader, **options)


@pytest.mark.torch
def test_all_samplers_and_splits_draw_as_torch():
    import torch

    def draws(library):
        data = library.utils.data
        weights = [0.1, 3.0, 0.5, 0.0, 1.4, 2.2]
        found = []
        for seed in (0, 7, 123456789):

            def own():
                return library.Generator().manual_seed(seed)  # noqa: B023

            for generator in (None, own):
                library.manual_seed(seed)
                make = {} if generator is None else {"generator": generator()}
                found += [list(data.RandomSampler(Squares(11), **make)) for _ in range(2)]
                for count in (5, 23, 70):
                    replaced = data.RandomSampler(Squares(11), True, count, **make)
                    found.append(list(replaced))
                    found.append(list(data.RandomSampler(Squares(11), False, count, **make)))
                found.append(list(data.SubsetRandomSampler([5, 1, 9, 2], **make)))
                found.append(list(data.WeightedRandomSampler(weights, 20, True, **make)))
                found.append(list(data.WeightedRandomSampler(weights, 5, False, **make)))
                batches = data.BatchSampler(data.RandomSampler(Squares(10), **make), 4, False)
                found.append(list(batches))
                for lengths in ([7, 3, 1], [0.5, 0.25, 0.25]):
                    parts = data.random_split(Squares(11), lengths, **make)
                    found.append([part.indices for part in parts])
            for rank in range(3):
                distributed = data.DistributedSampler(Squares(11), 3, rank, True, seed)
                distributed.set_epoch(4)
                found.append(list(distributed))
        return found

    assert draws(rushlight) == draws(torch)


class Seeds(Squares):
    """What a worker's generators start from."""

    def __init__(self, size, library):
        super().__init__(size)
        self.library = library

    def __getitem__(self, index):
        import numpy

        info = self.library.utils.data.get_worker_info()
        state = random.getstate()[1][:3], numpy.random.get_state()[1][:3].tolist()
        return info.id, info.seed, self.library.initial_seed(), self.library.rand(2).tolist(), state


@pytest.mark.torch
@pytest.mark.parametrize("persistent", [False, True])
def test_workers_are_seeded_as_torchs(persistent):
    import torch

    def seeds(library):
        library.manual_seed(3)
        loader = library.utils.data.DataLoader(
            Seeds(6, library), batch_size=None, num_workers=2, persistent_workers=persistent
        )
        return [list(map(tuple, loader)) for _ in range(2)]

    assert repr(seeds(rushlight)).replace("[", "(").replace("]", ")") == repr(seeds(torch)).replace(
        "[", "("
    ).replace("]", ")")


def test_an_older_name_of_cumulative_sizes():
    both = rushlight.utils.data.ConcatDataset([[1, 2], [3]])
    with pytest.warns(FutureWarning, match="cumulative_sizes"):
        assert both.cummulative_sizes == [2, 3]
