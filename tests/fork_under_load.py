"""Forks at random moments while other threads compute; each child trains a step and ends.

    python tests/fork_under_load.py [FORKS] [SEED]     prints how many children came back right

A child that hangs is killed after a minute and counts as a failure.
"""

import copy
import os
import random
import sys
import threading
import time

import rushlight
from rushlight import nn

DEADLINE_SECONDS = 60


def make_step(seed):
    """A training step of a small network, on data large enough for several OpenMP threads."""
    rushlight.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 32), nn.Linear(32, 4)
    )
    optimizer = rushlight.optim.Adam(model.parameters())
    images, labels = rushlight.randn(16, 3, 16, 16), rushlight.randint(0, 4, (16,))
    vector, matrix = rushlight.randn(1 << 17), rushlight.randn(160, 160)

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return [loss.item(), vector.exp().sum().item(), (matrix @ matrix).abs().sum().item()]

    return step


def train_for_ever(model, stop):
    """Backward is in the middle of the parameters' accumulators at most forks."""
    x = rushlight.ones(4, 64)
    while not stop.is_set():
        model.zero_grad()
        for _ in range(8):
            model(x).sum().backward()


def continues(model):
    """In the forked process: what the parent's thread was training trains on."""
    twin = copy.deepcopy(model)
    for one in (model, twin):
        one.zero_grad()
        one(rushlight.ones(4, 64)).sum().backward()
    pairs = zip(model.parameters(), twin.parameters(), strict=True)
    return all(rushlight.equal(a.grad, b.grad) for a, b in pairs)


def keep_busy(seed, stop, problems):
    step, expected = make_step(seed), None
    while not stop.is_set():
        result = step()[1:]
        expected = expected or result
        if result != expected:
            problems.append((expected, result))


def child(expected, shared):
    """In the forked process: train in this thread and in another."""
    if not continues(shared):
        return 5
    result = make_step(1)()
    if result != expected:
        return 1
    results = []
    thread = threading.Thread(target=lambda: results.append(make_step(1)()))
    thread.start()
    thread.join()
    if rushlight.get_num_threads() != 1:  # as long as the child does not ask for more
        return 3
    rushlight.set_num_threads(2)
    results.append(make_step(1)())
    return 0 if len(results) == 2 and results[0] == results[1] == result else 4


def wait_for(pid):
    """The exit status of a child, or None after the deadline, when it is killed."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.001)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return None


def run(forks, seed=0):
    """Return (children that were right, those that were wrong, those that hung, the threads')."""
    chosen = random.Random(seed)
    expected = make_step(1)()
    stop, problems = threading.Event(), []
    shared = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64))
    threads = [
        threading.Thread(target=keep_busy, args=(10 + i, stop, problems), daemon=True)
        for i in range(2)
    ]
    threads.append(threading.Thread(target=train_for_ever, args=(shared, stop), daemon=True))
    for thread in threads:
        thread.start()
    right = wrong = hung = 0
    try:
        for _ in range(forks):
            time.sleep(chosen.random() * 0.02)
            pid = os.fork()
            if pid == 0:
                status = 2
                try:
                    status = child(expected, shared)
                finally:
                    os._exit(status)
            status = wait_for(pid)
            right += status == 0
            hung += status is None
            wrong += status not in (0, None)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    return right, wrong, hung, problems


if __name__ == "__main__":
    forks = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    rushlight.set_num_threads(2)
    start = time.monotonic()
    right, wrong, hung, problems = run(forks, int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    seconds = time.monotonic() - start
    print(f"{forks} forks in {seconds:.0f} s: {right} right, {wrong} wrong, {hung} hung")
    print(f"{len(problems)} wrong results in the parent")
    sys.exit(right != forks or bool(problems))
