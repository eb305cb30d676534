"""Memory reports: which lines of the program hold how much, and for what."""

import threading

import pytest

import rushlight
from rushlight import debug, nn

MEGABYTE = 1 << 20


def lines_of(report, kind):
    return {row.where[1]: row for row in report.rows if row.kind == kind and row.where}


def line(function, offset):
    return function.__code__.co_firstlineno + offset


def train(check):
    model = nn.Sequential(nn.Linear(512, 512), nn.Linear(512, 512))
    optimizer = rushlight.optim.Adam(model.parameters())
    x = rushlight.randn(1024, 512)
    for _ in range(2):
        optimizer.zero_grad()
        y = model(x)
        loss = y.square().mean()
        loss.backward()
        optimizer.step()
    y = model(x).relu()
    del y
    kept = model(x).tanh().square().sum()
    check(model, x, kept)


def test_kinds_and_lines():
    def check(model, x, kept):
        report = debug.memory_report()
        parameters = lines_of(report, "parameter")[line(train, 1)]
        assert parameters.bytes == 2 * MEGABYTE and parameters.count == 2
        assert sorted(parameters.names) == ["0.weight", "1.weight"]
        # Of each weight: the gradient, from the line of its forward op.
        gradients = lines_of(report, "gradient")
        assert sum(row.bytes for row in gradients.values()) == 2 * MEGABYTE
        assert line(train, 6) in gradients
        states = lines_of(report, "optimizer state")[line(train, 9)]
        assert states.bytes == 4 * MEGABYTE
        assert lines_of(report, "tensor")[line(train, 3)].bytes == 2 * MEGABYTE
        # Backward of `kept` needs the input of the second layer, and the result of tanh.
        saved = lines_of(report, "saved for backward")[line(train, 12)]
        assert saved.bytes == 4 * MEGABYTE and saved.count == 2
        text = str(report)
        for words in ("4.00 MB  saved for backward, 2 blocks", "test_memory_report.py", "in train"):
            assert words in text
        assert report.kinds["parameter"] == 2 * MEGABYTE
        assert report.known <= report.allocated and "at the peak" in text
        assert kept.requires_grad and x.numel()

    train(check)
    assert line(train, 12) not in lines_of(debug.memory_report(), "saved for backward")


def test_lines_are_known_while_another_thread_has_the_interpreter():
    """Backward then runs without it."""
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        test_kinds_and_lines()
    finally:
        done.set()
        other.join()


def test_smaller_blocks_are_known_when_they_are_tracked():
    def work():
        return rushlight.ones(1000)

    before = work()
    assert line(work, 1) not in lines_of(debug.memory_report(), "tensor")
    with debug.track_memory():
        after = work()
        report = debug.memory_report()
    (row,) = (row for row in report.rows if row.where and row.where[2] == "work")
    assert (row.kind, row.count) == ("tensor", 1) and 4000 <= row.bytes <= 4500
    assert before.numel() == after.numel()
    unknown = rushlight.ones(1000)
    assert line(test_smaller_blocks_are_known_when_they_are_tracked, 12) not in lines_of(
        debug.memory_report(), "tensor"
    )
    assert unknown.numel()


def test_an_out_of_memory_error_tells_who_holds_the_memory():
    held = rushlight.ones(4 * MEGABYTE)
    place = test_an_out_of_memory_error_tells_who_holds_the_memory.__code__.co_firstlineno + 1
    for size in ((1 << 45) + 1, 1 << 61):
        with pytest.raises(RuntimeError, match="out of memory: tried to allocate") as caught:
            rushlight.empty(size, dtype=rushlight.int8)
        text = str(caught.value)
        assert f"tried to allocate {size} bytes" in text
        assert "Most of it is held by\n" in text
        assert f"16777216 bytes in 1 block: line {place} of {__file__}" in text
        assert "memory_report()" in text
    assert held[0] == 1
