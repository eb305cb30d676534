"""Datasets built of steps: `utils.data.datapipes`."""

import pickle

import pytest

import rushlight
from rushlight.utils.data import DataLoader, IterDataPipe, functional_datapipe
from rushlight.utils.data.datapipes.iter import IterableWrapper, Sampler
from rushlight.utils.data.datapipes.map import SequenceWrapper


def test_steps_of_elements():
    pipe = IterableWrapper(range(10)).map(lambda x: x * 2).filter(lambda x: x % 4 == 0)
    assert list(pipe) == list(pipe) == [0, 4, 8, 12, 16]
    rows = IterableWrapper([(1, 2), (3, 4)])
    assert list(rows.map(lambda a, b: a + b, input_col=[0, 1])) == [(3,), (7,)]
    assert list(rows.map(lambda a: a * 5, input_col=0, output_col=-1)) == [(1, 2, 5), (3, 4, 15)]
    assert list(rows.filter(lambda b: b > 2, input_col=1)) == [(3, 4)]


def test_batches():
    pipe = IterableWrapper(range(5))
    assert list(pipe.batch(2)) == [[0, 1], [2, 3], [4]] and len(pipe.batch(2)) == 3
    assert list(pipe.batch(2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(pipe.batch(2).unbatch()) == [0, 1, 2, 3, 4]
    (batch, _) = pipe.batch(2, drop_last=True).collate()
    assert rushlight.equal(batch, rushlight.tensor([0, 1]))
    groups = pipe.groupby(lambda x: x % 2, keep_key=True)
    assert list(groups) == [(0, [0, 2, 4]), (1, [1, 3])]


def test_several_sources():
    a, b = IterableWrapper(range(3)), IterableWrapper(range(10, 20))
    assert list(a.zip(b)) == [(0, 10), (1, 11), (2, 12)]
    assert list(a.mux(b)) == [0, 10, 1, 11, 2, 12]
    assert list(a.concat(a)) == [0, 1, 2, 0, 1, 2]
    left, right = a.fork(2)
    assert (list(left), list(right), list(left)) == ([0, 1, 2],) * 3
    even, odd = b.demux(2, lambda x: x % 2)
    assert (list(even), list(odd)) == ([10, 12, 14, 16, 18], [11, 13, 15, 17, 19])
    with pytest.raises(BufferError):
        list(b.fork(2, buffer_size=3)[0])


def test_orders():
    pipe = IterableWrapper(range(10)).shuffle(buffer_size=4)
    first = list(pipe.set_seed(3))
    assert sorted(first) == list(range(10)) != first == list(pipe.set_seed(3))
    assert list(pipe.set_shuffle(False)) == list(range(10))
    rushlight.manual_seed(0)
    drawn = list(pipe.set_shuffle(True))
    rushlight.manual_seed(0)
    assert list(pipe) == drawn
    part = IterableWrapper(range(10)).sharding_filter()
    part.apply_sharding(3, 1)
    assert list(part) == [1, 4, 7] and len(part) == 3


def test_steps_by_key():
    pipe = SequenceWrapper(range(10))
    assert pipe.map(lambda x: x + 1)[3] == 4 and pipe.concat(pipe)[12] == 2
    assert pipe.batch(3)[3] == [9] and len(pipe.batch(3)) == 4 and pipe.zip(pipe)[2] == (2, 2)
    assert sorted(pipe.shuffle().set_seed(5)) == list(range(10))
    with pytest.raises(IndexError):
        pipe.batch(3)[4]


def test_a_step_of_ones_own():
    @functional_datapipe("twice_for_this_test")
    class Twice(IterDataPipe):
        def __init__(self, source):
            self.source = source

        def __iter__(self):
            for element in self.source:
                yield from (element, element)

    try:
        assert list(IterableWrapper([1, 2]).twice_for_this_test()) == [1, 1, 2, 2]
        with pytest.raises(Exception, match="already taken"):
            functional_datapipe("twice_for_this_test")(Twice)
    finally:
        del IterDataPipe.functions["twice_for_this_test"]
    with pytest.raises(AttributeError, match="twice_for_this_test"):
        _ = IterableWrapper([1]).twice_for_this_test
    with pytest.raises(TypeError):
        functional_datapipe("plain")(int)


def test_in_a_loader_and_in_a_file():
    pipe = IterableWrapper(range(6)).batch(2)
    assert list(pickle.loads(pickle.dumps(pipe))) == list(pipe)
    batches = list(DataLoader(IterableWrapper(range(4)), batch_size=2))
    assert [batch.tolist() for batch in batches] == [[0, 1], [2, 3]]


def test_hooks_of_pickling_and_printing():
    from rushlight.utils.data import MapDataPipe

    pipe = IterableWrapper([1, 2])
    IterDataPipe.set_getstate_hook(lambda state: {"iterable": [7], "deepcopy": False})
    try:
        assert list(pickle.loads(pickle.dumps(pipe))) == [7]
        with pytest.raises(RuntimeError, match="existing getstate_hook"):
            IterableWrapper.set_getstate_hook(lambda state: state)
    finally:
        IterDataPipe.set_getstate_hook(None)
    IterDataPipe.set_reduce_ex_hook(lambda pipe: (list, ((5,),)))
    try:
        assert pickle.loads(pickle.dumps(pipe)) == [5]
        assert isinstance(pickle.loads(pickle.dumps(SequenceWrapper([1]))), MapDataPipe)
    finally:
        IterDataPipe.set_reduce_ex_hook(None)

    def not_this(pipe):
        raise NotImplementedError

    MapDataPipe.set_reduce_ex_hook(not_this)
    try:
        assert list(pickle.loads(pickle.dumps(SequenceWrapper([3])))) == [3]
    finally:
        MapDataPipe.set_reduce_ex_hook(None)
    assert IterDataPipe.reduce_ex_hook is None and repr(pipe) == "IterableWrapperIterDataPipe"

    class Shown(IterDataPipe):
        def repr_hook(self):
            return "<shown>"

        str_hook = staticmethod(lambda pipe: f"text of {len(pipe.parts)}")

    shown = Shown()
    shown.parts = [1, 2]
    shown.repr_hook = lambda pipe: f"<{len(pipe.parts)}>"
    assert repr(shown) == "<2>" and str(shown) == "text of 2"


def test_classes_take_the_type_of_their_samples():
    from rushlight.utils import data
    from rushlight.utils.data.datapipes import iter as steps

    class Ones(data.IterDataPipe[int]):
        def __iter__(self):
            yield 1

    assert list(Ones().map(lambda x: x + 1)) == [2]
    for kind in (
        data.IterDataPipe, data.MapDataPipe, data.StackDataset, data.ChainDataset, data.Subset,
        data.DistributedSampler, steps.Mapper, steps.Shuffler, rushlight.nn.DataParallel,
        rushlight.distributions.Independent,
    ):  # fmt: skip
        assert kind[rushlight.Tensor].__origin__ is kind


def by_parity(element):
    return element % 2


@pytest.mark.parametrize("worker_type", ["process", "thread"])
@pytest.mark.parametrize("persistent", [False, True])
def test_workers_share_the_elements_out(worker_type, persistent):
    pipe = IterableWrapper(range(12)).shuffle().sharding_filter()
    loader = DataLoader(
        pipe, batch_size=2, num_workers=2, worker_type=worker_type, persistent_workers=persistent
    )
    epochs = [[n for batch in loader for n in batch.tolist()] for _ in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(12))
    assert epochs[0] != epochs[1]


class EveryOther(IterDataPipe):
    """A step of its own that shares elements out."""

    def __init__(self, source):
        self.source, self.count, self.index = source, 1, 0

    def apply_sharding(self, count, index):
        self.count, self.index = count, index

    def __iter__(self):
        for place, element in enumerate(self.source):
            if place % self.count == self.index:
                yield element


def test_workers_share_by_a_step_of_the_program():
    loader = DataLoader(EveryOther(IterableWrapper(range(8))), batch_size=None, num_workers=2)
    assert sorted(loader) == list(range(8))


@pytest.mark.parametrize("workers", [0, 2])
def test_the_loader_decides_about_shuffling(workers):
    def elements(pipe, shuffle):
        rushlight.manual_seed(3)
        loader = DataLoader(pipe, batch_size=None, num_workers=workers, shuffle=shuffle)
        return [int(n) for n in loader]

    shuffled = IterableWrapper(range(12)).shuffle().sharding_filter()
    assert elements(shuffled, False) == list(range(12))
    assert elements(shuffled, True) == elements(shuffled, True) != list(range(12))
    plain = IterableWrapper(range(12))
    if workers == 0:
        assert sorted(elements(plain, True)) == list(range(12)) != elements(plain, True)


def test_steps_that_split_are_copied_and_pickled():
    source = IterableWrapper(range(6))
    for parts in (source.demux(2, by_parity), source.fork(2), source.fork(2, copy="deep")):
        expected = [list(part) for part in parts]
        next(iter(parts[0]))
        again = pickle.loads(pickle.dumps(parts))
        assert [list(part) for part in again] == expected


def test_a_file_is_listed_as_itself(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.csv").write_text("b")
    roots = [str(tmp_path / "a.txt"), str(tmp_path)]
    from rushlight.utils.data.datapipes.iter import FileLister

    assert list(FileLister(roots)) == [roots[0], roots[0], str(tmp_path / "b.csv")]
    assert list(FileLister(roots[0], masks="*.csv")) == []


def test_elements_are_shared_out_once():
    from rushlight.utils.data.graph_settings import apply_sharding

    once = IterableWrapper(range(8)).sharding_filter()
    with pytest.raises(RuntimeError, match="Sharding twice on a single pipeline"):
        apply_sharding(once.map(by_parity).sharding_filter(), 2, 0)
    apply_sharding(once.zip(IterableWrapper(range(8)).sharding_filter()), 2, 0)
    assert list(once) == [0, 2, 4, 6]


def is_odd(number):
    return number % 2


def parts_of_six(kind):
    source = IterableWrapper(range(6))
    return source.fork(2) if kind == "fork" else source.demux(2, is_odd)


@pytest.mark.parametrize("kind", ["fork", "demux"])
def test_a_part_that_begins_again_begins_with_the_first_element(kind):
    whole = [list(part) for part in parts_of_six(kind)]
    a, b = parts_of_six(kind)
    broken_off, other = iter(a), iter(b)
    assert next(broken_off) == whole[0][0] and next(other) == whole[1][0]
    assert [list(a), list(b)] == whole
    for iterator in (broken_off, other):
        with pytest.raises(RuntimeError, match="all begin anew"):
            next(iterator)
    next(iter(a))
    assert list(zip(a, b, strict=True)) == list(zip(*whole, strict=True))
    next(iter(a))
    (copied,) = pickle.loads(pickle.dumps([a]))
    assert list(copied) == whole[0]


def test_lengths_of_parts():
    assert [len(part) for part in parts_of_six("fork")] == [6, 6]
    for part in parts_of_six("demux"):  # how many go where is not known
        with pytest.raises(TypeError):
            len(part)
    source = IterableWrapper(range(6))
    assert source.fork(1) is source


def test_a_step_is_reset_before_each_iteration():
    class Counted(IterDataPipe):
        def reset(self):
            self.count = 0

        def __iter__(self):
            for element in range(3):
                self.count += 1
                yield element

    class OfItself(Counted):
        def __iter__(self):
            return self

        def __next__(self):
            if self.count == 3:
                raise StopIteration
            self.count += 1
            return self.count - 1

    for pipe in (Counted(), OfItself()):
        next(iter(pipe))
        assert list(pipe) == list(pipe.map(lambda x: x)) == [0, 1, 2] and pipe.count == 3
        assert list(DataLoader(pipe, batch_size=None)) == [0, 1, 2] and pipe.count == 3


def test_groups_that_are_left_at_the_end_are_given():
    pipe = IterableWrapper(range(9))
    pairs = [[0, 2], [1, 3], [4, 6], [5, 7], [8]]
    for drop in (False, True):
        assert list(pipe.groupby(lambda x: x % 2, group_size=2, drop_remaining=drop)) == pairs
    narrow = {"group_size": 3, "buffer_size": 3}
    with pytest.raises(RuntimeError, match="the buffer of 3 is full"):
        list(pipe.groupby(lambda x: x % 3, **narrow))
    assert list(pipe.groupby(lambda x: x % 3, drop_remaining=True, **narrow)) == [[7], [8]]


@pytest.mark.parametrize("step", ["map", "filter"])
def test_a_function_that_cannot_take_the_columns_is_refused(step):
    make = getattr(IterableWrapper([(1, 2, 3)]), step)
    for fn, columns in [(lambda a, b: a, None), (lambda a, b: a, 0), (lambda a: a, [0, 1]),
                        (lambda *, a: a, 0), (lambda: 1, (0,))]:  # fmt: skip
        with pytest.raises(ValueError, match="cannot be called with . positional arguments"):
            make(fn, columns)
    for fn, columns in [(lambda a, b=1: a, 0), (lambda *a: a, [0, 1, 2]), (len, None), (max, [0])]:
        make(fn, columns)


def test_what_steps_are_made_of_is_checked():
    rows = SequenceWrapper([1, 2])
    for make in (rows.concat, rows.zip):
        with pytest.raises(TypeError, match="MapDataPipe"):
            make(())
    with pytest.raises(AssertionError, match="length"):
        Sampler(IterableWrapper(range(3)).filter(lambda x: True))
    with pytest.raises(AssertionError, match="buffer_size"):
        IterableWrapper(range(3)).shuffle(buffer_size=0)
