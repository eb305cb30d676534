"""Runs a worker, watches it, and starts it again after the case that ended it."""

import argparse
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS, ROOT = HERE.parent, HERE.parent.parent
HANG = 20  # seconds of CPU that one case may take
SILENCE = 120  # seconds that it may wait for something other than a CPU
IMPORTS = 200  # seconds of CPU, with torch
WORKER = 900  # seconds, after which another goes on: it imports and evaluates samples anew
RECORD = struct.Struct("qqqq")
ENOUGH = 200  # findings, after which a run ends


def preloaded(kind, folder):
    """What LD_PRELOAD is for a worker: `memory` lets allocations fail. Made in `folder`."""
    if kind != "memory":
        return {}
    made = Path(folder) / "failing_allocations.so"
    source = HERE / "failing_allocations.cpp"
    command = ["g++", "-std=c++17", "-O1", "-fPIC", "-shared", source, "-o", made, "-ldl"]
    subprocess.run(command, check=True)
    return {"LD_PRELOAD": str(made)}


def environment():
    paths = [str(ROOT), str(TESTS), *map(os.path.abspath, filter(None, sys.path))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"}


def command(kind, first, count, seconds, *progress):
    text = map(str, (kind, first, count, seconds, *progress))
    return [sys.executable, "-m", "fuzz.worker", *text]


def state(pid):
    """Seconds of CPU that a process has had, and whether it would go on if it were given one."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return 0, False
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), fields[0] == "R"


def watch(kind, first, count, seconds, folder, timed, preload):
    """Run one worker to its end: (findings, seed after the last one, calls, resident bytes)."""
    progress = Path(folder) / "progress"
    progress.write_bytes(RECORD.pack(first, -1, 0, 0))  # -1: its imports are no case's time
    words, errors = Path(folder) / "words", Path(folder) / "errors"
    with open(words, "w") as out, open(errors, "w") as err:
        process = subprocess.Popen(
            command(kind, first, count, seconds, progress),
            stdout=out, stderr=err, cwd=TESTS,
            env={**environment(), **preload, "FUZZ_TIMED": str(int(timed))},
        )  # fmt: skip
        place, since, used, hung = None, time.monotonic(), 0, False
        while process.poll() is None:
            time.sleep(0.05)
            seed, done, _, _ = RECORD.unpack(progress.read_bytes())
            cpu, could_run = state(process.pid)
            if could_run:
                since = time.monotonic()
            most = HANG if done >= 0 else IMPORTS
            if (seed, done) != place:
                place, since, used = (seed, done), time.monotonic(), cpu
            elif time.monotonic() - since > SILENCE or cpu - used > most:
                hung = True
                process.kill()
                process.wait()
    seed, done, calls, size = RECORD.unpack(progress.read_bytes())
    found = [json.loads(line) for line in words.read_text().splitlines() if line[:1] == "{"]
    if seed < 0:  # the end
        return found, first + done, calls, size
    what = "hang" if hung else f"exit {process.returncode}"
    found.append({"seed": seed, "what": what, "detail": errors.read_text()[:1500]})
    return found, seed + 1, calls, size


def last_step(kind, seed, preload):
    """The step at which a case ends its process, by running it again."""
    try:
        again = subprocess.run(
            command(kind, seed, 1, 0), capture_output=True, text=True, cwd=TESTS, timeout=SILENCE,
            env={**environment(), **preload},
        )  # fmt: skip
        lines, ended = again.stdout, again.returncode
    except subprocess.TimeoutExpired as late:
        lines, ended = (late.stdout or b"").decode(), "hang"
    steps = [line for line in lines.splitlines() if not line.startswith("{")]
    return f"again: {ended}, at {steps[-1].strip() if steps else 'its start'}"


def run(kind, first, seconds, count=10**12, say=None, timed=True):
    """(findings, cases, calls, resident bytes of each worker) of a run."""
    end, at, calls, found, sizes = time.monotonic() + seconds, first, 0, [], []
    with tempfile.TemporaryDirectory() as folder:
        preload = preloaded(kind, folder)
        while at < first + count and time.monotonic() < end and len(found) < ENOUGH:
            left = max(1, int(min(end - time.monotonic(), WORKER)))
            more, at, made, size = watch(kind, at, first + count - at, left, folder, timed, preload)
            calls += made
            sizes.append(size)
            for one in more:
                if re.match("exit|hang", one["what"]):
                    one["detail"] = f"{last_step(kind, one['seed'], preload)}\n{one['detail']}"
                found.append(one)
                if say:
                    say(f"{kind} --seed {one['seed']}: {one['what']}: {one['detail'][:600]}")
            if say:
                say(f"{kind}: {at - first} cases, {calls} calls, {len(found)} findings")
    return found, at - first, calls, sizes


def main():
    parser = argparse.ArgumentParser(description=sys.modules["fuzz"].__doc__)
    kinds = """
    calls programs files exported hooks memory training transforms wrappers
    """.split()
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("--seed", type=int, help="one case, its steps printed")
    parser.add_argument("--first", type=int, default=int(time.time()) * 1000)
    seconds = float(os.environ.get("FUZZ_SECONDS", 600))
    parser.add_argument("--seconds", type=float, default=seconds)
    options = parser.parse_args()
    if options.seed is not None:
        again = command(options.kind, options.seed, 1, 0)
        with tempfile.TemporaryDirectory() as folder:
            env = {**environment(), **preloaded(options.kind, folder)}
            return subprocess.run(again, env=env, cwd=TESTS).returncode
    found, cases, calls, sizes = run(
        options.kind, options.first, options.seconds, say=lambda text: print(text, flush=True)
    )
    print(
        f"{options.kind}: {cases} cases from seed {options.first}, {calls} calls, "
        f"{len(found)} findings, at most {max(sizes, default=0) >> 20} MiB resident"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
