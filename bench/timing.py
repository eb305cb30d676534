"""Timing one statement in several libraries, in one process.

Of the repetitions, which take turns between the libraries, the least counts.
"""

import time
import timeit

REPETITION_SECONDS = 0.01
# OpenMP's threads spin for up to this long after a library's turn, on processors that are the next
# one's by then.
SPIN_SECONDS = 0.03


class Row:
    """One line of a table: a statement, timed in each library that can run it.

    Args:
        name: what the table calls it.
        statement: the code to time; `T` stands for the library.
        setup: code that runs once before.
        per: how many operations the statement holds; figures are per operation.
        target: the ratio torch / rushlight that the project promises, if it promises one.
        numpy: statement and setup for NumPy, where it has the operation.
    """

    def __init__(self, name, statement, setup="", per=1, target=None, numpy=None):
        self.name, self.statement, self.setup = name, statement, setup
        self.per, self.target, self.numpy = per, target, numpy

    def timer(self, library, clock):
        statement, setup = self.statement, self.setup
        if library.__name__ == "numpy":
            if self.numpy is None:
                return None
            statement, setup = self.numpy
        return timeit.Timer(statement, setup, timer=clock, globals={"T": library})


def begin_turn(clock, function):
    """On several threads: those of the library measured before go to sleep, and a few calls that do
    not count wake this one's."""
    if clock is time.perf_counter:
        time.sleep(SPIN_SECONDS)
        for _ in range(3):
            function()


def repetitions_of(timer):
    """How often a statement must run to fill one repetition; the calls before that warm it up."""
    timer.timeit(1)  # what is imported or compiled first says nothing of the next call
    count = 1
    while (seconds := timer.timeit(count)) < REPETITION_SECONDS:
        count = max(2 * count, int(count * REPETITION_SECONDS / max(seconds, 1e-6)))
    return count


def time_in_turns(timers, repetitions, clock=time.thread_time):
    """Seconds that a call takes, by the timers' names."""
    counts = {name: repetitions_of(timer) for name, timer in timers.items()}
    best = dict.fromkeys(timers, float("inf"))
    for _ in range(repetitions):
        for name, timer in timers.items():
            begin_turn(clock, lambda timer=timer: timer.timeit(1))
            best[name] = min(best[name], timer.timeit(counts[name]) / counts[name])
    return best


def time_row(row, libraries, repetitions, clock=time.thread_time):
    """Nanoseconds per operation, by library name."""
    timers = {name: row.timer(library, clock) for name, library in libraries.items()}
    timers = {name: timer for name, timer in timers.items() if timer}
    best = time_in_turns(timers, repetitions, clock)
    return {name: seconds * 1e9 / row.per for name, seconds in best.items()}
