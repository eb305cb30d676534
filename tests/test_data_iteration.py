"""How often a DataLoader asks for iterators, and what comes of it when that can be seen."""

import copy
import importlib
import pickle
import random
from itertools import islice

import pytest

import rushlight
from rushlight.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StatefulDataLoader,
    dataloader,
    default_collate,
    get_worker_info,
)

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

WORKERS = [
    {},
    {"num_workers": 2},
    {"num_workers": 2, "persistent_workers": True},
    {"num_workers": 3, "prefetch_factor": 1},
]
THREADS = [{**options, "worker_type": "thread"} for options in WORKERS[1:]]


class OwnIterator:
    """Starts again and returns itself, and counts how often."""

    def __init__(self, values):
        self.values = values
        self.position = None
        self.starts = 0

    def __iter__(self):
        self.position = 0
        self.starts += 1
        return self

    def __next__(self):
        if self.position == len(self.values):
            raise StopIteration
        self.position += 1
        return self.values[self.position - 1]

    def __len__(self):
        return len(self.values)


class ForgetsNothing(OwnIterator):
    """Another order in each epoch, as its calls of __iter__ count them."""

    def __iter__(self):
        super().__iter__()
        self.values = self.values[self.starts :] + self.values[: self.starts]
        return iter(self.values)


def drawing_sampler(lib):
    class DrawsWhenAsked:
        def __iter__(self):
            return iter(lib.randperm(11).tolist())

        def __len__(self):
            return 11

    return DrawsWhenAsked()


class Numbers(Dataset):
    def __len__(self):
        return 11

    def __getitem__(self, index):
        return index


def stream(lib, size):
    class OwnStream(lib.utils.data.IterableDataset):
        """Is its own iterator; each worker reads a part, of another length."""

        def __iter__(self):
            info = lib.utils.data.get_worker_info()
            self.left = list(range(size))
            if info is not None:
                self.left = [100 * info.id + value for value in range(3 * info.id)]
            return self

        def __next__(self):
            if not self.left:
                raise StopIteration
            return self.left.pop(0)

    return OwnStream()


LOADERS = {
    "sampler": lambda lib, **kw: lib.utils.data.DataLoader(
        Numbers(), batch_size=3, sampler=OwnIterator([*range(11)]), drop_last=True, **kw
    ),
    "unbatched sampler": lambda lib, **kw: lib.utils.data.DataLoader(
        Numbers(), batch_size=None, sampler=OwnIterator([*range(11)]), **kw
    ),
    "batch sampler": lambda lib, **kw: lib.utils.data.DataLoader(
        Numbers(), batch_sampler=OwnIterator([[0, 1], [5], [2, 3, 4], [7, 8]]), **kw
    ),
    "counting sampler": lambda lib, **kw: lib.utils.data.DataLoader(
        Numbers(), batch_size=2, sampler=ForgetsNothing([*range(11)]), **kw
    ),
    "unbatched counting sampler": lambda lib, **kw: lib.utils.data.DataLoader(
        Numbers(), batch_size=None, sampler=ForgetsNothing([*range(11)]), **kw
    ),
    "counting batch sampler": lambda lib, **kw: lib.utils.data.DataLoader(
        Numbers(), batch_sampler=ForgetsNothing([[0, 1], [5], [2, 3, 4], [7, 8]]), **kw
    ),
    "drawing sampler": lambda lib, **kw: lib.utils.data.DataLoader(
        Numbers(), batch_size=None, sampler=drawing_sampler(lib), **kw
    ),
    "list": lambda lib, **kw: lib.utils.data.DataLoader(Numbers(), sampler=[3, 1, 2], **kw),
    "shuffled": lambda lib, **kw: lib.utils.data.DataLoader(Numbers(), 4, shuffle=True, **kw),
    "stream": lambda lib, **kw: lib.utils.data.DataLoader(stream(lib, 7), batch_size=2, **kw),
    "stream without rest": lambda lib, **kw: lib.utils.data.DataLoader(
        stream(lib, 7), batch_size=2, drop_last=True, **kw
    ),
    "unbatched stream": lambda lib, **kw: lib.utils.data.DataLoader(
        stream(lib, 7), batch_size=None, **kw
    ),
}


def plain(batch):
    return batch if isinstance(batch, int) else batch.tolist()


def epochs(lib, kind, options):
    """Three epochs, the second of which is broken off, and what the generator gives then."""
    lib.manual_seed(5)
    loader = LOADERS[kind](lib, **options)
    # More batches than any of these have mean that it does not end.
    seen = [[plain(batch) for batch in islice(loader, n)] for n in (30, 2, 30)]
    return seen, getattr(loader._index_sampler, "starts", None), lib.rand(2).tolist()


@pytest.mark.torch
@pytest.mark.parametrize("options", WORKERS)
@pytest.mark.parametrize("kind", LOADERS)
def test_epochs_are_those_of_torch(kind, options):
    torch = pytest.importorskip("torch")
    assert epochs(rushlight, kind, options) == epochs(torch, kind, options)


@pytest.mark.parametrize("options", THREADS)
@pytest.mark.parametrize("kind", [kind for kind in LOADERS if "stream" not in kind])
def test_threads_and_processes_read_the_same(kind, options):
    processes = {key: value for key, value in options.items() if key != "worker_type"}
    assert epochs(rushlight, kind, options) == epochs(rushlight, kind, processes)


@pytest.mark.parametrize("options", WORKERS[:3] + THREADS[:2])
@pytest.mark.parametrize("batch_size", [None, 1, 4])
@pytest.mark.parametrize("loader_type", [DataLoader, StatefulDataLoader])
def test_a_sampler_that_is_its_own_iterator(loader_type, batch_size, options):
    sampler = OwnIterator([*range(11)])
    loader = loader_type(Numbers(), batch_size=batch_size, sampler=sampler, **options)
    for _ in range(2):
        batches = [plain(batch) for batch in islice(loader, 12)]
        flat = batches if batch_size is None else [key for batch in batches for key in batch]
        assert flat == [*range(11)]


@pytest.mark.parametrize("batch_size", [None, 1, 4])
def test_a_stream_that_is_its_own_iterator(batch_size):
    for loader in (
        DataLoader(stream(rushlight, 7), batch_size=batch_size),
        StatefulDataLoader(stream(rushlight, 7), batch_size=batch_size),
    ):
        for _ in range(2):
            batches = [plain(batch) for batch in islice(loader, 12)]
            flat = batches if batch_size is None else [key for batch in batches for key in batch]
            assert flat == [*range(7)]


@pytest.mark.parametrize("options", WORKERS + THREADS)
@pytest.mark.parametrize("loader_type", [DataLoader, StatefulDataLoader])
def test_a_used_loader_can_be_copied(loader_type, options):
    loader = loader_type(Numbers(), batch_size=4, **options)
    expected = [plain(batch) for batch in loader]
    next(iter(loader))
    for made in (pickle.loads(pickle.dumps(loader)), copy.deepcopy(loader), copy.copy(loader)):
        assert [plain(batch) for batch in made] == expected
        with pytest.raises(ValueError, match="should not be set"):
            made.batch_size = 3
    with pytest.raises(NotImplementedError):
        pickle.dumps(iter(loader))


def test_a_copy_of_a_loader_with_a_loaded_state_goes_on_from_it():
    loader = StatefulDataLoader(Numbers(), batch_size=4)
    next(iter(loader))
    resumed = StatefulDataLoader(Numbers(), batch_size=4)
    resumed.load_state_dict(loader.state_dict())
    assert [plain(batch) for batch in copy.deepcopy(resumed)] == [[4, 5, 6, 7], [8, 9, 10]]


def test_only_the_stateful_loader_looks_stateful():
    for name in ("state_dict", "load_state_dict"):
        assert not hasattr(DataLoader(Numbers()), name)
        assert hasattr(StatefulDataLoader(Numbers()), name)


def test_names_that_libraries_use():
    data = rushlight.utils.data
    collate = data._utils.collate
    assert collate.default_collate_fn_map is not None
    assert collate.np_str_obj_array_pattern.search("<U3") and not (
        collate.np_str_obj_array_pattern.search("<f4")
    )
    numpy = pytest.importorskip("numpy")
    joined = collate.collate(
        [numpy.zeros(2), numpy.ones(2)], collate_fn_map=collate.default_collate_fn_map
    )
    assert joined.tolist() == [[0, 0], [1, 1]]
    assert ConcatDataset.cumsum([[1, 2], [3], []]) == [2, 3, 3]
    assert data._utils.pin_memory.pin_memory("text") == "text"
    assert data._utils.worker.get_worker_info() is None
    assert data._utils.worker.ManagerWatchdog().is_alive()

    kind = data._DatasetKind
    loader = DataLoader(stream(rushlight, 3), batch_size=2)
    assert loader._dataset_kind == kind.Iterable and DataLoader(Numbers())._dataset_kind == kind.Map
    fetcher = kind.create_fetcher(kind.Iterable, stream(rushlight, 3), True, list, False)
    assert [fetcher.fetch([None] * 2), fetcher.fetch([None] * 2)] == [[0, 1], [2]]
    with pytest.raises(StopIteration):
        fetcher.fetch([None] * 2)
    assert kind.create_fetcher(kind.Map, Numbers(), False, str, False).fetch(4) == "4"


def test_a_subclass_may_make_the_iterator():
    class Twice(DataLoader):
        def _get_iterator(self):
            for batch in super()._get_iterator():
                yield batch
                yield batch

    assert [plain(batch) for batch in Twice([1, 2])] == [[1], [1], [2], [2]]


def test_a_noted_process_that_fails_is_an_error():
    import os

    handling = rushlight.utils.data._utils.signal_handling
    pid = os.fork()
    if pid == 0:
        os._exit(3)
    handling._set_worker_pids("mine", (pid,))
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(RuntimeError, match=f"pid {pid}.*exit code 3"):
        handling._error_if_any_worker_fails()
    handling._remove_worker_pids("mine")
    handling._error_if_any_worker_fails()
    os.waitpid(pid, 0)


def test_a_stream_longer_than_it_says_is_warned_of():
    class Liar(type(stream(rushlight, 3))):
        def __len__(self):
            return 2

    dataset = Liar()
    loader = DataLoader(dataset, batch_size=None)
    assert len([*loader]) == 3  # nobody asked for the length
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="length of the IterableDataset"):
        assert len([*loader]) == 3


# --- resuming


class Drawing(Dataset):
    """Each sample draws from all generators that its worker has."""

    def __len__(self):
        return 14

    def __getitem__(self, index):
        info = get_worker_info()
        own = info.rng.random_generator if info.rng is not None else random
        return index, rushlight.rand(()).item(), own.random()


class DrawingStream(rushlight.utils.data.IterableDataset):
    def __iter__(self):
        drawn = rushlight.rand(()).item()  # when it is asked for its iterator
        return (self.sample(index, drawn) for index in range(self.size()))

    @staticmethod
    def size():
        return 7 + get_worker_info().id

    def sample(self, index, drawn):
        return index, drawn, Drawing()[index]


def as_they_are(samples):
    return samples


@pytest.mark.parametrize("worker_type", ["process", "thread"])
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("dataset", [Drawing(), DrawingStream()])
def test_resuming_near_the_ends_is_exact(dataset, persistent, worker_type):
    def make():
        return StatefulDataLoader(
            dataset, batch_size=2, num_workers=3, persistent_workers=persistent,
            worker_type=worker_type, collate_fn=as_they_are,
        )  # fmt: skip

    rushlight.manual_seed(1)
    loader = make()
    next(iter(loader))  # an epoch that is broken off leaves its mark on workers that live on
    assert list(loader)
    expected, states = [], []
    for _ in range(2):
        for batch in loader:
            expected.append(batch)
            states.append((pickle.dumps(loader.state_dict()), rushlight.get_rng_state()))
    del loader
    first_end = len(states) // 2
    for step in (0, *range(first_end - 4, first_end + 1), len(states) - 2):
        state, generator = states[step]
        rushlight.set_rng_state(generator)
        resumed = make()
        resumed.load_state_dict(pickle.loads(state))
        rest = [*resumed]
        if len(rest) < len(expected) - step - 1:
            rest += [*resumed]
        assert rest == expected[step + 1 :], step


def test_worker_threads_draw_the_numbers_of_worker_processes():
    def run(worker_type):
        rushlight.manual_seed(2)
        loader = DataLoader(
            Drawing(), batch_size=4, num_workers=2, worker_type=worker_type,
            collate_fn=as_they_are,
        )  # fmt: skip
        return [*loader], rushlight.rand(2).tolist()

    assert run("thread") == run("process")


class SeedsItself(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        before = rushlight.get_rng_state()
        rushlight.manual_seed(index)
        drawn = rushlight.rand(()).item()
        same = rushlight.rand((), generator=rushlight.default_generator.manual_seed(index)).item()
        rushlight.set_rng_state(before)
        return drawn, same


def test_worker_threads_seed_only_themselves():
    rushlight.manual_seed(2)
    expected = rushlight.rand(3).tolist()
    drawn = [rushlight.rand((), generator=rushlight.Generator().manual_seed(i)).item()
             for i in range(40)]  # fmt: skip
    rushlight.manual_seed(2)
    loader = DataLoader(
        SeedsItself(), batch_size=None, num_workers=4, worker_type="thread",
        generator=rushlight.Generator(),
    )  # fmt: skip
    assert [*loader] == [[value, value] for value in drawn]
    assert rushlight.rand(3).tolist() == expected


def test_scalars_of_numpy_are_collated_by_their_dtype():
    numpy = pytest.importorskip("numpy")
    for kind in ("float64", "float32", "int64", "int8", "bool_", "complex64"):
        batch = rushlight.utils.data.default_collate([getattr(numpy, kind)(1)] * 2)
        assert batch.shape == (2,) and str(batch.dtype) == f"torch.{kind.rstrip('_')}"


class LoaderOfAnotherLibrary:
    """It makes its batches itself and has torch's iterators run it, in workers if it is told to."""

    collate_fn, drop_last, generator = staticmethod(lambda batch: batch), False, None
    timeout, pin_memory, persistent_workers = 0, False, False
    worker_init_fn = multiprocessing_context = prefetch_factor = None
    _auto_collation, _IterableDataset_len_called = False, None
    _dataset_kind = rushlight.utils.data._DatasetKind.Iterable

    def __init__(self, num_workers):
        self.dataset, self.num_workers = self, num_workers
        self._index_sampler = iter(int, 1)  # without end
        if num_workers:
            self.prefetch_factor = 2

    def __iter__(self):
        info = get_worker_info()
        if info is not None:
            assert info.dataset is self
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter([[i, i * i] for i in range(first, 7, step)])


@pytest.mark.parametrize("num_workers", [0, 2])
def test_iterators_take_loaders_of_other_libraries(num_workers):
    iterators = (
        dataloader._SingleProcessDataLoaderIter, dataloader._MultiProcessingDataLoaderIter,
    )  # fmt: skip
    batches = list(iterators[num_workers > 0](LoaderOfAnotherLibrary(num_workers)))
    assert sorted(batches) == [[i, i * i] for i in range(7)]


# ---- iterators of other libraries' own


class ForkedIterator(dataloader._BaseDataLoaderIter):
    """Reads as torch's single process iterator does, and can go on from a position."""

    def __init__(self, loader):
        super().__init__(loader)
        self.fetcher = dataloader._DatasetKind.create_fetcher(
            self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn,
            self._drop_last,
        )  # fmt: skip

    def _next_data(self):
        return self.fetcher.fetch(self._next_index())


class Counting(IterableDataset):
    def __iter__(self):
        return iter(range(7))


class ForkedLoader(DataLoader):
    """Sets what torch's loaders have, without a call of their __init__."""

    def __init__(self, dataset, batch_size, shuffle=False, generator=None):
        self.dataset, self.generator, self.num_workers, self.timeout = dataset, generator, 0, 0
        self.multiprocessing_context = self.worker_init_fn = self.prefetch_factor = None
        self.pin_memory, self.pin_memory_device, self.in_order = False, "", True
        kinds = dataloader._DatasetKind
        streams = isinstance(dataset, IterableDataset)
        self._dataset_kind = kinds.Iterable if streams else kinds.Map
        if streams:
            self.sampler = dataloader._InfiniteConstantSampler()
        elif shuffle:
            self.sampler = RandomSampler(dataset, generator=generator)
        else:
            self.sampler = SequentialSampler(dataset)
        self.batch_sampler = BatchSampler(self.sampler, batch_size, False)
        self.batch_size, self.drop_last, self.persistent_workers = batch_size, False, False
        self.collate_fn = default_collate
        self._DataLoader__initialized, self._IterableDataset_len_called = True, None
        self._iterator = None
        self.check_worker_number_rationality()

    def __iter__(self):
        return ForkedIterator(self)


@pytest.mark.parametrize("shuffle", [False, True])
def test_an_iterator_of_another_library(shuffle):
    dataset, seed = list(range(10)), 5
    batches = [
        [batch.tolist() for batch in made(dataset, 4, shuffle, generator=generator)]
        for made in (DataLoader, ForkedLoader)
        for generator in [rushlight.Generator().manual_seed(seed)]
    ]
    assert batches[0] == batches[1]


def test_the_stream_of_such_an_iterator_can_be_put_elsewhere():
    iterator = iter(ForkedLoader(Counting(), 3))
    assert isinstance(iterator, dataloader._BaseDataLoaderIter)
    assert next(iterator).tolist() == [0, 1, 2]
    iterator.fetcher.dataset_iter = iter([8, 9])
    assert next(iterator).tolist() == [8, 9] and iterator.fetcher.ended
    with pytest.raises(StopIteration):
        next(iterator)
    iterator._reset(iterator)  # or any loader: the length that it promised is all that is asked
    assert iterator._num_yielded == 0
    with pytest.raises(NotImplementedError, match="_next_data"):
        next(dataloader._BaseDataLoaderIter(ForkedLoader(Counting(), 3)))
    assert isinstance(iter(DataLoader([1])), dataloader._BaseDataLoaderIter)


def test_a_worker_of_another_library_says_who_it_is():
    module = importlib.import_module("rushlight.utils.data._utils.worker")
    module._worker_info = module.WorkerInfo(id=3, num_workers=4)
    try:
        assert get_worker_info().id == 3
    finally:
        del module._worker_info
    assert get_worker_info() is None and module._worker_info is None


def test_steps_go_to_such_workers():
    pipes = importlib.import_module("rushlight.utils.data.datapipes.datapipe")
    steps = importlib.import_module("rushlight.utils.data.datapipes.iter").IterableWrapper([1, 2])
    stream = pickle.loads(pickle.dumps(pipes._IterDataPipeSerializationWrapper(steps)))
    assert list(stream) == [1, 2] and len(stream) == 2
    mapped = importlib.import_module("rushlight.utils.data.datapipes.map").SequenceWrapper([5, 6])
    keyed = pickle.loads(pickle.dumps(pipes._MapDataPipeSerializationWrapper(mapped)))
    assert keyed[1] == 6
    with pytest.raises(TypeError, match="has no length"):
        len(pipes._IterDataPipeSerializationWrapper(iter([1])))
