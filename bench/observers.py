"""What it costs to watch a program: a profile by event, the NaN trap and anomaly mode by network;
and how much of a training step's time a profile's events cover.

    python -m bench.observers [--only TEXT] [--rounds N]

Watched and unwatched calls take turns, by the CPU time of the thread; of an event the least round
counts, of networks the median. Promised are at most 0.15 us an event, networks that are at most 5 %
slower in the trap, and events over at least 98 % of a step, of which the best step counts.
"""

import argparse
import contextlib
import math
import statistics
import time

import rushlight
from bench.models import CASES, Subject
from bench.overhead import CHAIN, MLP
from rushlight import _C
from rushlight.autograd import set_detect_anomaly
from rushlight.debug import trap_nan
from rushlight.profiler import profile, schedule
from rushlight.profiler.report import Limits, Report

PROMISED_EVENT, PROMISED_TRAP, PROMISED_COVER = 0.15, 1.05, 0.98
STATEMENTS = [
    ("a + b", "a = T.ones(4); b = T.ones(4)", "a + b", 2000),
    ("a * b, grad recorded", "a = T.ones(4, requires_grad=True); b = T.ones(4)", "a * b", 2000),
    ("8x8 @ 8x8", "a = T.ones(8, 8); b = T.ones(8, 8)", "a @ b", 2000),
    ("chain of 100 ops, forward + backward", CHAIN, "chain()", 20),
    ("MLP 32-32-32, step with Adam", MLP, "step()", 50),
]
CALLS = [
    ("a function in Python", "def f(): pass", "f()", 2000),
    ("a function in C", "f = [].append", "f(0)", 2000),
    ("MLP 32-32-32, step with Adam, and its calls", MLP, "step()", 50),
]


@contextlib.contextmanager
def recorded(shapes, calls=False):
    """A recording as a profile makes one, of Python's calls too if asked; the list it gives holds
    the events afterwards.
    """
    events = []
    if not _C._profiler_start(False, shapes, False, False):
        raise RuntimeError("a profile is under way")
    if calls:
        _C._profiler_watch_calls()
    try:
        yield events
    finally:
        events += _C._profiler_stop()


def seconds(function, count, clock):
    start = clock()
    for _ in range(count):
        function()
    return clock() - start


def cost_of_event(setup, statement, count, rounds, calls=False):
    """Microseconds that an event adds, and how many there are in a call."""
    scope = {"T": rushlight}
    exec(setup, scope)
    function = eval(f"lambda: {statement}", scope)
    plain = watched = math.inf
    per_call = 0
    for _ in range(rounds + 1):
        plain = min(plain, seconds(function, count, time.thread_time))
        with recorded(shapes=True, calls=calls) as events:
            watched = min(watched, seconds(function, count, time.thread_time))
        per_call = len(events) / count
    return 1e6 * (watched - plain) / (per_call * count), per_call


def cost_of_watching(case, rounds, watch):
    """How much longer a step of training takes in a context that `watch` makes."""
    subject = Subject(case, rushlight)
    ratios = []
    for turn in range(rounds + 1):
        taken = {}
        for watches in (False, True) if turn % 2 else (True, False):
            with watch() if watches else contextlib.nullcontext():
                taken[watches] = seconds(subject.train, case.steps, time.process_time)
        if turn > 0:  # the first warms up
            ratios.append(taken[True] / taken[False])
    return statistics.median(ratios)


def covered(case, rounds, calls):
    """The share of a training step's wall time during which some event is under way: of the
    operations, modules and parts that a profile always has, or of Python's functions too.
    """
    subject, best = Subject(case, rushlight), 0.0
    subject.train()
    for _ in range(rounds):
        plan = schedule(wait=0, warmup=1, active=2, repeat=1)
        with profile(schedule=plan, with_modules=True, with_stack=calls) as prof:
            for _ in range(3):
                subject.train()
                prof.step()
        report = Report(prof.recording, Limits(1e10, 1e11))  # limits say nothing of the time
        best = max(best, report.covered / report.wall)
    return best


def main():
    parser = argparse.ArgumentParser(prog="bench.observers", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name has TEXT in it")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    rushlight.set_num_threads(options.threads)
    print(f"{'A profile, by event':<46}{'events a call':>14}{'cost':>12}  promised")
    for name, setup, statement, count in STATEMENTS:
        if options.only in name:
            cost, per_call = cost_of_event(setup, statement, count, options.rounds)
            print(f"{name:<46}{per_call:>14.0f}{cost:>9.3f} us  {PROMISED_EVENT} us")
    for name, setup, statement, count in CALLS:
        if options.only in name:
            cost, per_call = cost_of_event(setup, statement, count, options.rounds, calls=True)
            print(f"{name:<46}{per_call:>14.0f}{cost:>9.3f} us  {PROMISED_EVENT} us")
    print(f"{'Training watched, beside without':<50}{'NaN trap':>10}{'anomaly':>12}  promised")
    for case in CASES:
        if options.only in case.name:
            trap, anomaly = (cost_of_watching(case, max(3, options.rounds // 2), watch)
                             for watch in (trap_nan, lambda: set_detect_anomaly(True)))
            print(f"{case.name:<50}{trap:>9.3f}x{anomaly:>11.3f}x  {PROMISED_TRAP}x")
    print(f"{'Events over the wall time of a training step':<50}{'share':>10}{'with_stack':>12}"
          "  promised")  # fmt: skip
    for case in CASES:
        if options.only in case.name:
            plain, whole = (covered(case, max(3, options.rounds // 3), c) for c in (False, True))
            print(f"{case.name:<50}{plain:>10.3f}{whole:>12.3f}  {PROMISED_COVER}")


if __name__ == "__main__":
    main()
