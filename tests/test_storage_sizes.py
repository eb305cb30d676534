"""Storages that change their size under tensors: programs free activations that way, and make room
for them again before backward.
"""

import copy
import io
import os

import numpy as np
import pytest
import sanitizers

import rushlight as torch

COUNT = 6 << 20  # elements: 24 MB


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.skipif(sanitizers.ADDRESS, reason="the sanitizer's build keeps no blocks")
@pytest.mark.parametrize("of", ["untyped", "typed"])
def test_memory_is_given_back_and_taken_again(of):
    x = torch.ones(COUNT)
    row = x[-4:]
    storage, sizes = (
        (x.untyped_storage(), (4 * COUNT, 16))
        if of == "untyped"
        else (x.storage(), (COUNT, 4))
    )  # fmt: skip
    before = resident_bytes()
    storage.resize_(0)
    assert before - resident_bytes() > 3 * COUNT
    assert storage.size() == 0 and x.shape == (COUNT,) and x.data_ptr() == row.data_ptr() - 4 * (
        COUNT - 4)  # fmt: skip
    assert x.sum().item() == 0  # what was given back reads as zeros
    storage.resize_(sizes[1])
    assert storage.size() == sizes[1]
    storage.resize_(sizes[0])
    x.fill_(2.0)
    assert row.tolist() == [2.0] * 4 and x.sum().item() == 2.0 * COUNT
    with pytest.raises(RuntimeError, match=f"has room for {4 * COUNT} bytes, not for"):
        storage.resize_(2 * sizes[0])


@pytest.mark.parametrize("kept", [0, 4, 5000, 100_000])
def test_what_is_kept_stays(kept):
    x = torch.arange(30_000.0)
    x.untyped_storage().resize_(kept)
    assert x[: kept // 4].tolist() == list(range(30_000))[: kept // 4]
    x.untyped_storage().resize_(120_000)
    x.copy_(torch.arange(30_000.0))
    assert x[-1].item() == 29_999


def test_a_free_storage_may_grow_again():
    x = torch.ones(1000)
    storage = x.untyped_storage()
    storage.resize_(4)
    del x
    storage.resize_(8000)
    y = torch.empty(0).set_(storage, 0, (2000,), (1,))
    assert y[0].item() == 1.0 and storage.nbytes() == 8000


def test_gradients_through_values_that_were_freed_and_came_back():
    x = torch.rand(500, requires_grad=True)
    h = x * 2
    y = h * h
    values = h.detach().clone()
    h.untyped_storage().resize_(0)
    h.untyped_storage().resize_(2000)
    h.data.copy_(values)
    y.sum().backward()
    assert torch.equal(x.grad, 4 * values)


def small():
    x = torch.rand(100, 100)
    x.untyped_storage().resize_(400)
    return x


# Whatever looks at all of a tensor finds memory there, or says that there is too little.
@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + 1,
        lambda x: x.numpy().sum(),
        lambda x: np.asarray(x),
        lambda x: x.share_memory_() + 1,
        lambda x: x.view(-1)[5000:].sum(),
        lambda x: x.clone(),
        lambda x: x.t().contiguous(),
        lambda x: x @ x,
        lambda x: x.tolist(),
        lambda x: repr(x),
        lambda x: torch.from_dlpack(x) + 1,
        lambda x: copy.deepcopy(x) + 1,
        lambda x: torch.save(x, io.BytesIO()),
        lambda x: x.data.zero_(),
        lambda x: x.resize_(50, 50).sum(),
        lambda x: torch.empty(0).set_(x) + 1,
        lambda x: torch.empty(0).set_(x.untyped_storage(), 0, (100, 100), (100, 1)) + 1,
        lambda x: x.as_strided((100, 100), (100, 1)) + 1,
        lambda x: x.untyped_storage().clone(),
        lambda x: x.view(torch.uint8).sum(),
    ],
)
def test_no_use_reads_what_is_not_there(use):
    try:
        use(small())
    except (RuntimeError, ValueError) as error:
        assert "storage" in str(error)


def test_foreign_memory_keeps_its_size():
    for x in (torch.from_numpy(np.ones(8)), torch.ones(8).share_memory_()):
        with pytest.raises(RuntimeError, match="resize"):
            x.untyped_storage().resize_(0)
