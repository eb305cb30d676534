"""Process groups of real processes, by the MPI that pip installs; skipped without it."""

import concurrent.futures
import contextlib
import os
import random
import re
import signal
import sys
import time
from pathlib import Path

import pytest
import ranks
import sanitizers

pytestmark = pytest.mark.skipif(not ranks.HAVE_MPI, reason="needs mpi4py and mpich")


def test_collectives_of_two_ranks():
    ranks.by_environment(
        2, ranks.program("collectives"), "reductions", "copies", "messages", "objects",
        "of_other_kinds", "without_waiting", "meeting",
    ).check()  # fmt: skip


@pytest.mark.parametrize("count", [2, 3])
def test_collectives_through_shared_memory(count):
    ranks.by_environment(count, ranks.program("collectives"), "through_shared_memory").check()


def test_collectives_of_three_ranks():
    ranks.by_environment(
        3, ranks.program("collectives"), "copies", "messages", "objects", "parts"
    ).check()


def test_arguments():
    ranks.by_environment(2, ranks.program("arguments")).check()


def lines(run):
    return sorted(line for line in "\n".join(run.outputs).splitlines() if line.startswith("rank"))


def test_the_launcher():
    run = ranks.by_run(2, ranks.program("launched"), "cpu:gloo,cuda:nccl").check()
    assert lines(run) == [f"rank {r} of 2 by cpu:gloo,cuda:nccl" for r in range(2)]


def test_mpiexec():
    program = [sys.executable, "-m", "rushlight", ranks.program("launched"), "mpi"]
    run = ranks.by_command(str(ranks.MPIEXEC), "-n", "2", *program).check()
    assert lines(run) == [f"rank {r} of 2 by mpi" for r in range(2)]


def test_programs_that_a_program_starts():
    """Lightning starts its ranks so."""
    child = "import torch.nn as nn, torch; print(torch.__version__, nn.Linear(2, 1).weight.shape)"
    program = f"import subprocess, sys; subprocess.check_call([sys.executable, '-c', {child!r}])"
    run = ranks.by_command(sys.executable, "-m", "rushlight", "-c", program).check()
    assert "+rushlight" in run.outputs[0] and "torch.Size([1, 2])" in run.outputs[0]


# Lightning counts the processes of MPI, though it has started none, before it makes a group.
COUNTS_FIRST = """
from mpi4py import MPI
print(MPI.COMM_WORLD.Get_size(), MPI.COMM_WORLD.rank, MPI.Is_initialized())
import torch.distributed as dist, torch
dist.init_process_group("gloo")
x = torch.ones(2)
dist.all_reduce(x)
print("sum", x.tolist(), MPI.COMM_WORLD.Get_size())
dist.destroy_process_group()
"""


def test_mpi_starts_when_it_is_used():
    run = ranks.by_environment(2, "-m", "rushlight", "-c", COUNTS_FIRST).check()
    assert all("1 0 False" in one and "sum [2.0, 2.0] 2" in one for one in run.outputs)
    alone = "from mpi4py import MPI; print(MPI.COMM_WORLD.allreduce(3), MPI.Is_initialized())"
    run = ranks.by_command(sys.executable, "-m", "rushlight", "-c", alone).check()
    assert run.outputs[0] == "3 True\n"


def test_data_parallel_gradients_are_those_of_one_process():
    ranks.by_environment(
        2, ranks.program("data_parallel"), "buckets", "accumulation", "unused", "ignored_outputs",
        "annotations_of_hooks", "buffers_of_rank_0", "hooks", "precision", "parts_of_calls",
    ).check()  # fmt: skip


def test_data_parallel_of_three_ranks():
    ranks.by_environment(
        3, ranks.program("data_parallel"), "unused", "uneven_inputs", "sparse_gradients"
    ).check()


# What the survivors must say of each kind of failure, by rank 1.
FAILURES = {
    "killed": r"rank {0}.* died",
    "crashes": r"rank {0}.* died",
    "async": r"rank {0}.* died",
    "raises": r"rank {0} ended: RuntimeError: no more luck at failing.py:\d+",
    "exits": r"rank {0}(, which| has left).*it ended normally",
    "stopped": r"(rank {0} does not answer|rank {0}, the process .* does not answer)",
    "hangs": r"rank {0} is at failing.py:\d+ in misbehave",
    "shape": r"rank {0} called all_reduce\(SUM\) of float32 \[7\] at failing.py:\d+",
    "dtype": r"rank {0} called all_reduce\(SUM\) of float64 \[1000\] at failing.py:\d+",
    "operation": r"rank {0} called all_reduce\(MAX\) of float32 \[1000\] at failing.py:\d+",
    "order": r"rank {0} called broadcast \(root 0\) of float32 \[1000\] at failing.py:\d+",
    "root": r"rank {0} called broadcast \(root {0}\) of float32 \[3\] at failing.py:\d+",
}


def check_failure(mode, culprit, step, count):
    run = ranks.with_culprit(mode, culprit, step, count, seconds=4)
    shown = f"{mode} of {culprit} in {step}: {run.codes} after {run.seconds:.1f} s, load "
    shown += f"{os.getloadavg()[0]:.1f}\n" + "\n---\n".join(run.outputs)
    try:
        for rank in set(range(count)) - {culprit}:
            assert run.codes[rank] not in (0, -9), shown
            assert re.search(FAILURES[mode].format(culprit), run.outputs[rank]), shown
            assert re.search(r"failing.py:\d+", run.outputs[rank]), shown
    except AssertionError:
        keep(shown, f"{mode}-{culprit}-{step}-{count}")
        raise


def keep(text, name):
    """Write what a failing run has printed into the folder RUSHLIGHT_FAILURES_KEPT."""
    folder = os.environ.get("RUSHLIGHT_FAILURES_KEPT")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{name}-{time.time_ns()}.txt").write_text(text)


@pytest.mark.parametrize(("mode", "culprit"), [("killed", 1), ("shape", 0), ("hangs", 2)])
def test_a_failing_rank_is_named(mode, culprit):
    check_failure(mode, culprit, 4, 3)


@pytest.mark.distributed
@pytest.mark.parametrize("seed", range(int(os.environ.get("RUSHLIGHT_FAILURES", "60"))))
def test_any_failure_is_named(seed):
    draw = random.Random(seed)
    count = draw.randint(2, 4)
    mode = list(FAILURES)[seed % len(FAILURES)]
    check_failure(mode, draw.randrange(count), draw.randrange(10), count)


def test_what_is_built_on_collectives():
    ranks.by_environment(
        2, ranks.program("shared"), "gradients", "functions", "batch_norm", "sharded_optimizer",
        "averages", "meshes", "pipelines",
    ).check()  # fmt: skip


@pytest.mark.parametrize("count", [2, 3])
def test_sequences_in_parts(count):
    sections = ["attention", "details", "training", "registered"]
    ranks.by_environment(count, ranks.program("sequences"), *sections).check()


@pytest.mark.parametrize("scheme", ["tcp", "file"])
def test_spawn(scheme, tmp_path):
    url = f"tcp://127.0.0.1:{ranks.free_port()}" if scheme == "tcp" else f"file://{tmp_path}/store"
    run = ranks.by_command(sys.executable, "-m", "rushlight", ranks.program("spawned"), url).check()
    assert lines(run) == [f"rank {r} has [{n}, {n}]" for r in range(2) for n in (2.0, 4.0)]


def test_a_killed_worker_is_started_again_and_ends_as_if_it_had_not_been(tmp_path):
    undisturbed, disturbed = tmp_path / "a", tmp_path / "b"
    undisturbed.mkdir(), disturbed.mkdir()
    wanted = lines(ranks.by_run(2, ranks.program("resuming"), str(undisturbed)).check())
    run = ranks.by_run(
        2, ranks.program("resuming"), str(disturbed), "1", options=["--max-restarts=1"]
    ).check()
    assert "rank 1 ended with code -9; restart 1 of 1" in run.outputs[0]
    assert all("from step 0" in line for line in wanted)
    assert lines(run) == [line.replace("from step 0", "from step 8") for line in wanted]


# All end before the launcher looks: who caused it is told, not who has the least rank.
ONE_IS_THE_CAUSE = """
import os, signal, sys, time
from rushlight.distributed.elastic.multiprocessing.errors import record

@record
def main():
    rank, how, folder = int(os.environ["RANK"]), sys.argv[1], sys.argv[2]
    if rank == 1:
        with open(f"{folder}/pid.new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(f"{folder}/pid.new", f"{folder}/pid")
        if how != "raises":
            os.kill(os.getpid(), getattr(signal, how))
        raise ValueError("no more luck")
    while not os.path.exists(f"{folder}/pid"):
        time.sleep(0.01)
    with open(f"{folder}/pid") as file:
        pid = file.read()
    while True:  # until that process is a zombie
        with open(f"/proc/{pid}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] == "Z":
                break
        time.sleep(0.01)
    raise RuntimeError("rank 1 died")

main()
"""


@pytest.mark.parametrize(
    "how",
    [
        "SIGKILL", "SIGTERM", "raises",
        pytest.param("SIGSEGV", marks=pytest.mark.skipif(
            sanitizers.ADDRESS, reason="the sanitizer reports the signal itself, which takes long"
        )),
    ],
)  # fmt: skip
def test_the_cause_of_a_failure_is_told_before_its_consequences(how, tmp_path, monkeypatch):
    from rushlight.distributed.elastic.multiprocessing.errors import ChildFailedError
    from rushlight.distributed.launcher.api import Agent, LaunchConfig, elastic_launch

    monkeypatch.setenv("PYTHONPATH", ranks.environment()["PYTHONPATH"])

    # As on a machine that is so busy that the launcher has its turn after both have ended.
    def wait_for_all(agent, seconds):
        for worker in agent.workers:
            with contextlib.suppress(ChildProcessError):  # asked for once more, after its end
                os.waitid(os.P_PID, worker.process.pid, os.WEXITED | os.WNOWAIT)

    monkeypatch.setattr(Agent, "_wait_for_an_end", wait_for_all)
    config = LaunchConfig(1, 1, 3, max_restarts=0)
    with pytest.raises(ChildFailedError, match="first rank 1 ") as caught:
        elastic_launch(config, sys.executable)("-c", ONE_IS_THE_CAUSE, how, str(tmp_path))
    rank, failure = caught.value.get_first_failure()
    assert rank == 1 and set(caught.value.failures) == {0, 1, 2}
    if how == "raises":
        assert failure.exitcode == 1 and "no more luck" in failure.message
    else:
        assert failure.exitcode == -getattr(signal, how)


def test_the_launcher_sees_an_end_at_once(tmp_path):
    from rushlight.distributed.elastic.multiprocessing.errors import ChildFailedError
    from rushlight.distributed.launcher.api import LaunchConfig, elastic_launch

    began = time.monotonic()
    with pytest.raises(ChildFailedError, match="exit code 3"):
        elastic_launch(LaunchConfig(1, 1, 2, max_restarts=0, monitor_interval=900.0), "sh")(
            "-c", "exit 3"
        )
    assert time.monotonic() - began < 600  # not when it looks the next time


def test_two_machines():
    """Two launchers that say to be on different machines: MPI then uses the network."""
    port = str(ranks.free_port())
    command = [
        sys.executable, "-m", "rushlight.distributed.run", "--nnodes=2", "--nproc-per-node=1",
        "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=x",
        ranks.program("launched"), "gloo",
    ]  # fmt: skip
    with concurrent.futures.ThreadPoolExecutor() as pool:
        runs = [
            pool.submit(ranks.by_command, *command, RUSHLIGHT_NODE=f"node{i}") for i in range(2)
        ]
    found = [line for run in runs for line in lines(run.result().check())]
    assert sorted(found) == [f"rank {r} of 2 by gloo" for r in range(2)]


def test_the_example():
    example = str(Path(__file__).parent.parent / "examples" / "distributed.py")
    run = ranks.by_command(sys.executable, example, "50").check()
    assert 1.5 < float(re.search(r"step 50: ([\d.]+) nats", run.outputs[0])[1]) < 3.2


@pytest.mark.distributed
@pytest.mark.skipif(not ranks.HAVE_RAY, reason="needs ray")
def test_ray(tmp_path):
    run = ranks.by_command(sys.executable, ranks.program("by_ray"), str(tmp_path), timeout=240)
    output = run.check().outputs[0]
    # Sum over 6 steps of step + (step + 1); three steps were done before the worker was killed.
    assert "result 36.0 begun at 3" in output and "checkpoint checkpoint_000006" in output


@pytest.mark.parametrize("count", [2, 3])
def test_sharded_models(count):
    sections = [
        "placements", "drawn", "operations", "attention", "tensor_parallel", "fully_sharded",
        "states",
    ]  # fmt: skip
    ranks.by_environment(count, ranks.program("sharded"), *sections).check()


def test_sharded_models_with_tensor_parallelism():
    ranks.by_environment(4, ranks.program("sharded"), "two_dims").check()


@pytest.mark.parametrize("count", [2, 3])
def test_wrapped_models(count):
    sections = ["curves", "states", "whole_parameters", "details", "hooks"]
    ranks.by_environment(count, ranks.program("wrapped"), *sections).check()


def test_a_checkpoint_of_three_ranks_is_read_by_two(tmp_path):
    for count, what in ((3, "write"), (2, "read")):
        ranks.by_environment(count, ranks.program("checkpoints"), str(tmp_path / "c"), what).check()


@pytest.mark.parametrize("count", [2, 3])
def test_options_and_tensors_made_in_parts(count):
    sections = [
        "options", "methods", "creation", "losses", "prefetch", "keys", "styles", "parts",
        "local_steps", "counted", "together", "broadcast_file",
    ]  # fmt: skip
    ranks.by_environment(count, ranks.program("names"), *sections).check()


def test_the_part_that_a_process_has():
    ranks.by_environment(4, ranks.program("names"), "own_parts").check()


def test_functional_optimizers():
    import rushlight
    from rushlight.distributed.optim import DistributedOptimizer, as_functional_optim

    for kind in (rushlight.optim.SGD, rushlight.optim.Adam, rushlight.optim.RMSprop):
        ours, theirs = rushlight.ones(3), rushlight.ones(3, requires_grad=True)
        functional, optimizer = as_functional_optim(kind, lr=0.1), kind([theirs], lr=0.1)
        for step in range(3):
            theirs.grad = rushlight.full((3,), step + 1.0)
            functional.step_param(ours, theirs.grad)
            optimizer.step()
        assert rushlight.equal(ours, theirs.detach()) and ours.grad is None
    functional.param_group["params"].append(ours)
    functional.step([None])
    with pytest.raises(ValueError, match="2 gradients for 1"):
        functional.step([None, None])
    with pytest.raises(ValueError, match="functional counterpart"):
        as_functional_optim(rushlight.optim.LBFGS)
    with pytest.raises(NotImplementedError, match="no remote procedure calls"):
        DistributedOptimizer(rushlight.optim.SGD, [])


def test_the_launchers_names(tmp_path, capsys):
    from rushlight.distributed import run

    args = run.parse_args(["--rdzv-endpoint=host0:1", "train.py", "--x"])
    assert run.get_rdzv_endpoint(args) == "host0:1" and run.get_use_env(args)
    assert run.REMAINDER == "..."
    (tmp_path / "train.py").write_text("import sys; print(__name__, sys.argv[1:])")
    before = sys.argv
    try:
        run.run_script_path(str(tmp_path / "train.py"), "a", "b")
    finally:
        sys.argv = before
    assert capsys.readouterr().out == "__main__ ['a', 'b']\n"


def test_the_older_launcher(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(
        "import os, sys\n"
        "os.write(1, f'rank {os.environ[\"LOCAL_RANK\"]} {sys.argv[1:]}\\n'.encode())\n"
    )
    module = [sys.executable, "-m", "rushlight.distributed.launch", "--nproc_per_node=2"]
    run = ranks.by_command(*module, str(program), "--x").check()
    assert lines(run) == [f"rank {r} ['--local-rank={r}', '--x']" for r in range(2)]
    assert "the older launcher" in run.outputs[0]
    run = ranks.by_command(*module, "--use-env", str(program), "--x").check()
    assert lines(run) == [f"rank {r} ['--x']" for r in range(2)]


@pytest.mark.parametrize("share", ["0/40", "17/40"])
def test_rows_of_the_op_table_in_parts(share):
    """`make test-distributed` runs all."""
    check_rows(share, at_least=150)


@pytest.mark.distributed
@pytest.mark.parametrize("share", [f"{part}/8" for part in range(8)])
def test_all_rows_of_the_op_table_in_parts(share):
    check_rows(share, at_least=900)


def check_rows(share, at_least):
    run = ranks.by_environment(2, ranks.program("rows"), share, timeout=550).check()
    counts = re.search(r"rows (\{.*\})", run.outputs[0])
    assert counts and "wrong" not in counts[1], run.outputs[0]
    assert int(re.search(r"'same': (\d+)", counts[1])[1]) > at_least


def test_pipelines_of_two_ranks():
    sections = ["schedules", "errors", "put_off", "tracing", "chunks", "functions", "by_hand"]
    ranks.by_environment(2, ranks.program("pipelined"), *sections).check()


def test_pipelines_beside_data_parallelism():
    ranks.by_environment(4, ranks.program("pipelined"), "beside_data_parallelism").check()


def test_pipelines_of_three_ranks():
    ranks.by_environment(3, ranks.program("pipelined"), "schedules").check()


def test_names_below_the_core():
    """Libraries import names of process groups from there."""
    program = (
        "from torch._C._distributed_c10d import FakeProcessGroup, ProcessGroup, ReduceOp, Store\n"
        "import torch.distributed as dist\n"
        "assert ProcessGroup is dist.ProcessGroup and ReduceOp is dist.ReduceOp\n"
        "assert Store is dist.Store and issubclass(FakeProcessGroup, ProcessGroup)"
    )
    ranks.by_command(sys.executable, "-m", "rushlight", "-c", program).check()
