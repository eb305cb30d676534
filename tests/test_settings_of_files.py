"""`utils.serialization.config` and steps of datasets as graphs."""

import mmap

import pytest

import rushlight as torch
from rushlight.utils.data import graph_settings
from rushlight.utils.data.datapipes.iter import IterableWrapper
from rushlight.utils.data.graph import traverse_dps
from rushlight.utils.serialization import config


def test_files_are_mapped_where_the_settings_say_so(tmp_path):
    path = tmp_path / "x.pt"
    torch.save(torch.arange(5000.0), path)

    def is_mapped():
        x = torch.load(path)
        with open("/proc/self/maps") as file:
            found = str(path) in file.read()
        assert x[-1] == 4999
        return found

    assert config.load.mmap is False and not is_mapped()
    config.load.mmap = True
    try:
        assert config.load.mmap is True and is_mapped()
        assert torch.load(path, mmap=False)[1] == 1
        with open(path, "rb") as file:  # has no path to be mapped by
            assert torch.load(file)[1] == 1
    finally:
        config.load.mmap = False


def test_the_settings_are_those_of_serialization():
    assert config.load.mmap_flags == mmap.MAP_PRIVATE and config.load.endianness is None
    config.load.mmap_flags = mmap.MAP_SHARED
    try:
        assert torch.serialization.get_default_mmap_options() == mmap.MAP_SHARED
    finally:
        torch.serialization.set_default_mmap_options(mmap.MAP_PRIVATE)
    assert config.save.compute_crc32 is torch.serialization.get_crc32_options()
    config.save.storage_alignment = 64
    config.load.calculate_storage_offsets = config.save.use_pinned_memory_for_d2h = False
    for owner, name, value in ((config.save, "storage_alignment", 4096),
                               (config.save, "use_pinned_memory_for_d2h", True),
                               (config.load, "calculate_storage_offsets", True)):  # fmt: skip
        with pytest.raises(NotImplementedError, match=name):
            setattr(owner, name, value)


def test_steps_as_a_graph():
    source = IterableWrapper(range(20))
    left, right = source.fork(2)
    last = left.map(lambda x: x).zip(right.shuffle()).sharding_filter()
    graph = traverse_dps(last)
    steps = graph_settings.get_all_graph_pipes(graph)
    names = [type(step).__name__ for step in steps]
    assert list(graph) == [id(last)] and steps[0] is last
    assert (
        names.count("IterableWrapperIterDataPipe") == 1 and names.count("ShufflerIterDataPipe") == 1
    )
    with pytest.raises(RuntimeError, match="Expected `IterDataPipe`"):
        traverse_dps([1])


def test_settings_of_all_steps():
    pipe = IterableWrapper(range(20)).shuffle().sharding_filter()
    graph_settings.apply_shuffle_settings(pipe, shuffle=False)
    graph_settings.apply_sharding(pipe, 2, 1)
    assert list(pipe) == list(range(1, 20, 2))
    graph_settings.apply_shuffle_settings(pipe, shuffle=True)
    orders = []
    for seed in (1, 1, 2):
        graph_settings.apply_random_seed(pipe, torch.Generator().manual_seed(seed))
        orders.append(list(pipe))
    assert orders[0] == orders[1] != orders[2]
    plain = IterableWrapper(range(20))
    assert graph_settings.apply_shuffle_settings(plain) is plain
    mixed = graph_settings.apply_shuffle_settings(plain, shuffle=True)
    assert mixed is not plain and sorted(mixed) == list(range(20))
