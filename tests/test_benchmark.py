"""torch.utils.benchmark: times of statements, and tables of them."""

import itertools

import pytest

import rushlight
from rushlight.utils import benchmark


def clock(step):
    """A clock that goes on by `step` seconds whenever it is read."""
    return map(step.__mul__, itertools.count()).__next__


def measured(times, number=10, **names):
    spec = {"stmt": "work()", "setup": "pass", "label": "Work", **names}
    return benchmark.Measurement(number, times, benchmark.TaskSpec(**spec))


def test_statements_see_their_globals_and_torch():
    before = rushlight.get_num_threads()
    ran = []
    timer = benchmark.Timer(
        "ran.append((torch.get_num_threads(), x + y))", setup="y = 2",
        globals={"x": 1, "ran": ran}, num_threads=before + 1, timer=clock(0.5),
    )  # fmt: skip
    result = timer.timeit(20)
    assert result.times == [0.5 / 20] and result.number_per_run == 20
    assert len(ran) >= 20 and set(ran) == {(before + 1, 3)}
    assert rushlight.get_num_threads() == before


def test_blocks_until_enough_time_has_passed():
    calls = []
    timer = benchmark.Timer(timer=clock(0.25))
    result = timer.blocked_autorange(lambda n, t: calls.append((n, t)), min_run_time=1)
    assert result.raw_times == [0.25] * 4 and calls == [(1, 0.25)] * 4
    assert len(timer.adaptive_autorange(min_run_time=2).times) == 8
    assert benchmark.Timer("x", globals={"x": 1}).blocked_autorange(min_run_time=1e-3).median > 0


def test_statistics():
    m = measured([1e-3, 3e-3, 2e-3, 5e-3, 4e-3])
    assert m.times == pytest.approx([1e-4, 3e-4, 2e-4, 5e-4, 4e-4])
    assert m.median == m.mean == pytest.approx(3e-4) and m.iqr == pytest.approx(2e-4)
    assert m.has_warnings and m.significant_figures == 1 and m.title == "Work"
    steady = measured([1e-3, 1e-3, 1e-3], sub_label="small")
    assert not steady.has_warnings and steady.significant_figures == 3
    assert steady.as_row_name == "small" and steady.label == "Work" and steady.num_threads == 1
    assert "100.00 us" in repr(steady) and "3 measurements, 10 runs per" in repr(steady)
    (merged,) = benchmark.Measurement.merge([steady, steady])
    assert len(merged.times) == 6
    with pytest.raises(AttributeError, match="unknown"):
        _ = m.unknown


def test_a_table_of_results():
    results = [
        measured([1e-3], sub_label="small", description="ours"),
        measured([2e-3], sub_label="small", description="theirs"),
        measured([4e-3], sub_label="large", description="ours", num_threads=4),
    ]
    table = benchmark.Compare(results)
    lines = str(table).splitlines()
    assert lines[0].strip("[-]") == " Work " and "microseconds (us)" in lines[-1]
    assert [cell.strip() for cell in lines[1].split("|")] == ["", "ours", "theirs"]
    assert lines[2].startswith("1 threads: ---") and lines[4].startswith("4 threads: ---")
    assert [cell.strip() for cell in lines[3].split("|")] == ["small", "100.0", "200.0"]
    assert [cell.strip() for cell in lines[5].split("|")] == ["large", "400.0", ""]
    assert len({len(line) for line in lines[:6]}) == 1
    table.trim_significant_figures()
    table.colorize()
    assert "\033[92m" in str(table) and "100 " in str(table)


@pytest.mark.parametrize(
    "make",
    [
        lambda: benchmark.Timer(print), lambda: benchmark.Timer(language="c++"),
        lambda: benchmark.Timer(global_setup="x"), lambda: benchmark.Compare([1]),
    ],
)  # fmt: skip
def test_refused(make):
    with pytest.raises(ValueError):
        make()


@pytest.mark.parametrize(
    ("given", "run"),
    [
        ("    x = 1\n    y = 2", "x = 1\ny = 2"),
        ("\n    x = 1\n    if x:\n        y = 2\n", "x = 1\nif x:\n    y = 2"),
        ("\tx = 1  \n\n", "x = 1"),
        ("", ""),
    ],
)
def test_code_may_be_indented(given, run):
    timer = benchmark.Timer(given, given)
    assert (timer._task_spec.stmt, timer._task_spec.setup) == (run, run)
    assert timer.timeit(2).number_per_run == 2


def test_texts_of_tasks():
    several = benchmark.TaskSpec("a\nb", "c\nd", sub_label="rows")
    assert several.title == "stmt: (rows)\n  a\n  b" and several.setup_str() == "setup:\n  c\n  d"
    assert several.summarize() == "stmt: (rows)\n  a\n  b\n\nsetup:\n  c\n  d\n"
    one = benchmark.TaskSpec("x", "y", label="sums", sub_label="wide", description="fast")
    assert one.summarize() == "sums: wide\nfast\nsetup: y"
    assert benchmark.TaskSpec("x", "pass").summarize() == "x"
    measured = benchmark.Measurement(1, [1.0], one)
    assert measured.title == "sums: wide" and measured.env is None and measured.label == "sums"


def test_timers_refuse():
    timer = benchmark.Timer("1")
    for call, message in (
        (lambda: timer.repeat(3), "blocked_autorange measures repeatedly"),
        (timer.autorange, "blocked_autorange finds"),
        (lambda: timer.collect_callgrind(number=7), r"number=7.*valgrind --tool=callgrind"),
    ):
        with pytest.raises(NotImplementedError, match=message):
            call()
