"""Programs that tests/test_distributed.py runs in several processes, and how it does."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import sanitizers

HERE = Path(__file__).parent
MPIEXEC = Path(sys.executable).parent / "mpiexec"  # of the mpich that pip installs
HAVE_RAY = importlib.util.find_spec("ray") is not None
HAVE_MPI = importlib.util.find_spec("mpi4py") is not None and MPIEXEC.exists()


def free_port():
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment(**variables):
    """This process's, without what launchers set."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PMI", "SLURM_", "TORCHELASTIC", "OMPI_", "PET_"))
        and name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    }
    import rushlight

    root = str(Path(rushlight.__file__).parent.parent)
    kept |= {"PYTHONPATH": root, "OMP_NUM_THREADS": "1", "RUSHLIGHT_NUM_THREADS": "1"}
    if sanitizers.ADDRESS:  # the search for leaks itself fails in a process with MPI's memory
        kept["ASAN_OPTIONS"] = kept.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    return kept | variables


def program(name):
    """The path of a program here."""
    return str(HERE / f"{name}.py")


class Run:
    """What the processes of a run did: exit codes and outputs."""

    def __init__(self, codes, outputs, seconds):
        self.codes, self.outputs, self.seconds = codes, outputs, seconds

    def check(self):
        """Raise unless all ended well."""
        assert set(self.codes) == {0}, f"exit codes {self.codes}\n" + "\n".join(self.outputs)
        return self


def by_environment(count, *words, timeout=100, python=(), **variables):
    """Start each rank with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set by hand."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(count)}
    began = time.monotonic()
    processes = [
        subprocess.Popen(
            [sys.executable, *python, *words],
            env=environment(**shared, RANK=str(rank), LOCAL_RANK=str(rank), **variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        outputs = []
        for process in processes:
            left = max(1.0, began + timeout - time.monotonic())
            outputs.append(process.communicate(timeout=left)[0])
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
    return Run([p.returncode for p in processes], outputs, time.monotonic() - began)


def by_command(*words, timeout=100, **variables):
    """Run a launcher, which starts the ranks."""
    began = time.monotonic()
    done = subprocess.run(
        words,
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout,
    )
    return Run([done.returncode], [done.stdout], time.monotonic() - began)


def by_run(count, *words, options=(), **settings):
    """python -m rushlight.distributed.run"""
    launcher = [sys.executable, "-m", "rushlight.distributed.run", f"--nproc-per-node={count}"]
    return by_command(*launcher, *options, *words, **settings)


def with_culprit(mode, culprit, when, count=2, seconds=5, timeout=60, **variables):
    """Run failing.py: exit codes and outputs of all ranks; the culprit, if it still runs when the
    others have ended, is killed, and so is who does not end within `timeout` seconds.
    """
    port = str(free_port())
    began = time.monotonic()
    words = [program("failing"), mode, str(culprit), str(when), str(seconds)]
    processes = [
        subprocess.Popen(
            [sys.executable, *words],
            env=environment(
                MASTER_ADDR="127.0.0.1", MASTER_PORT=port, WORLD_SIZE=str(count), RANK=str(rank),
                **variables,
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(count)
    ]  # fmt: skip
    try:
        outputs = [""] * count
        for rank in [r for r in range(count) if r != culprit]:
            left = max(1.0, began + timeout - time.monotonic())
            outputs[rank] = _output_within(processes[rank], left)
        seconds = time.monotonic() - began
        outputs[culprit] = _output_within(processes[culprit], 3, stacks=False)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()
    return Run([p.returncode for p in processes], outputs, seconds)


def _output_within(process, seconds, stacks=True):
    """What a process prints; one that has not ended by then shows its stacks and is ended."""
    try:
        return process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        if stacks:  # failing.py has registered faulthandler
            process.send_signal(signal.SIGUSR1)
            time.sleep(1)
        process.kill()
        late = f"\n[did not end within {seconds:.0f} s]" if stacks else ""
        return process.communicate()[0] + late
