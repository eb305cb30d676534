"""The CUDA backend in the simulator: each program runs in a process of its own.

`make cuda-sim` builds the simulator. Marked cuda_sim is what takes minutes where kernels are not in
the cache yet: `make test-cuda-sim` runs that too.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import sanitizers
from layouts import LAYOUTS

ROOT = pathlib.Path(__file__).parent.parent
PROGRAMS = ROOT / "tests" / "cuda_programs"
FOLDER = ROOT / "build" / "cuda-sim"

pytestmark = [
    pytest.mark.skipif(
        not (FOLDER / "libcuda.so.1").exists(), reason="`make cuda-sim` has not built the simulator"
    ),
    sanitizers.no_compilers,
]


def simulate(program, *arguments, seed=0, timeout=600, **variables):
    (FOLDER / "kernels").mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "RUSHLIGHT_CUDA_SIMULATOR": str(FOLDER),
        "RUSHLIGHT_CUDA_SIMULATOR_FOLDER": str(FOLDER),
        "RUSHLIGHT_CACHE_DIR": str(FOLDER / "cache"),
        "RUSHLIGHT_SIMULATOR_CACHE": str(FOLDER / "cache"),
        "RUSHLIGHT_SIMULATOR_SEED": str(seed),
        "RUSHLIGHT_CUDA_LIST": str(FOLDER / "kernels" / "tests"),  # for make cuda-compile-check
        **variables,
    }
    return subprocess.run(
        [sys.executable, str(PROGRAMS / program), *arguments],
        env=environment, capture_output=True, text=True, timeout=timeout,
    )  # fmt: skip


def lines(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split("\n")[:-1]


def check_kernels(groups, seed=0, least=1, **variables):
    done = lines(simulate("kernels.py", *groups, seed=seed, **variables))
    assert len(done) == 1 and int(done[0].split()[0]) >= least, "\n".join(done)


# ---- kernels beside the CPU's


def test_kernels():
    check_kernels(["elementwise", "reductions", "losses", "products", "images"], least=40)


GROUPS = (
    "formulas more_reductions more_losses more_products convolutions cudnn_switches more_images "
    "norms indexing order long_orders long_scans "
    "resampling distances tables transforms recurrent_layers attention attention_dropout "
    "placement matrices "
    "distinct host_elements optimizers random_numbers dropout training "
    "rows_of_elements moved_elements packed_reductions packed_norms packed_batch_norm "
    "packed_softmax entropies selected_rows flash_attention recurrent_steps random_packs "
    "lazy_views grouped_products"
).split()


@pytest.mark.cuda_sim
@pytest.mark.parametrize("group", GROUPS)
def test_more_kernels(group):
    check_kernels([group], least=5 if group != "training" else 1)


@pytest.mark.cuda_sim
@pytest.mark.parametrize("seed", range(1, 21))
def test_kernels_under_other_schedules(seed):
    check_kernels(
        ["elementwise", "reductions", "losses", "products", "images", "norms", "order"], seed
    )


@pytest.mark.cuda_sim
@pytest.mark.parametrize(
    "group", ["elementwise", "reductions", "losses", "products", "images", *GROUPS]
)
def test_kernels_stay_in_their_memory(group):
    check_kernels([group], RUSHLIGHT_SIMULATOR_BOUNDS="1", RUSHLIGHT_NO_CUDA_MEMORY_CACHING="1")


@pytest.mark.cuda_sim
def test_the_host_reads_no_memory_of_the_device():
    check_kernels(
        [
            "elementwise",
            "products",
            "indexing",
            "matrices",
            "distinct",
            "host_elements",
            "lazy_views",
        ],  # fmt: skip
        RUSHLIGHT_SIMULATOR_GUARD="1",
    )


@pytest.mark.cuda_sim
@pytest.mark.parametrize(
    "dtype",
    "float32 float64 float16 bfloat16 complex64 complex128 int64 int32 int16 uint8 bool".split(),
)
def test_rows_of_the_op_table(dtype):
    done = simulate("rows.py", "--dtype", dtype, timeout=3000)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.cuda_sim
@pytest.mark.parametrize("layout", [*LAYOUTS, "empty first", "empty last"])
def test_rows_of_the_op_table_in_layouts(layout):
    done = simulate("rows.py", "--layout", layout, timeout=3000)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.cuda_sim
@pytest.mark.parametrize("name", "lenet gpt ncf gnmt mobilenet resnet alexnet vgg".split())
def test_models_train_as_on_the_cpu(name):
    (said,) = lines(simulate("models.py", name, timeout=3000))
    assert said.startswith(f"{name}: right"), said


@pytest.mark.cuda_sim
def test_gpu_check():
    done = simulate("../../tools/gpu_check.py", "--quick")
    assert done.returncode == 0 and done.stdout.endswith("all passed\n"), done.stdout + done.stderr


@pytest.mark.cuda_sim
def test_figures_of_kernels():
    done = simulate("../../bench/gpu_kernels.py", "--small", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(v > 0 for v in json.loads(lines(done)[-1]).values())


# ---- streams, memory, errors

RIGHT = (
    "two_streams reused_memory pinned_memory reused_pinned_memory events graph forked_graph "
    "unjoined_graph two_devices errors memory backward exchange sync_debug training_graph"
).split()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_programs_of_several_streams(seed):
    assert lines(simulate("streams.py", *RIGHT, seed=seed)) == ["right"] * len(RIGHT)


@pytest.mark.cuda_sim
@pytest.mark.parametrize("seed", range(3, 21))
def test_programs_of_several_streams_under_other_schedules(seed):
    assert lines(simulate("streams.py", *RIGHT, seed=seed)) == ["right"] * len(RIGHT)


@pytest.mark.cuda_sim
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_memory_of_four_streams_holds_what_was_written(seed):
    assert lines(simulate("streams.py", "random_allocations", seed=seed)) == ["right"]


@pytest.mark.parametrize("program", ["backward", "exchange", "sync_debug"])
def test_the_host_touches_no_memory_of_the_device_in(program):
    done = simulate("streams.py", program, seed=1, RUSHLIGHT_SIMULATOR_GUARD="1")
    assert lines(done) == ["right"]


# ---- what programs written for torch use

FEATURES = (
    "accelerator older_names sparse_and_nested generators random_graphs graphed_callables "
    "foreign_arrays data_parallel memory_history many_dims profiles page_locked"
).split()


@pytest.mark.parametrize("seed", [0, 1])
def test_features(seed):
    assert lines(simulate("features.py", *FEATURES, seed=seed)) == ["right"] * len(FEATURES)


@pytest.mark.parametrize("setting", ["", "expandable_segments:True"])
def test_expandable_segments(setting):
    done = simulate("features.py", "expandable_segments", PYTORCH_CUDA_ALLOC_CONF=setting)
    assert lines(done) == ["right"]


@pytest.mark.parametrize("seed", [0, 1])
def test_programs_of_several_streams_in_expandable_segments(seed):
    expandable = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    programs = ["reused_memory", "graph", "training_graph"]
    assert lines(simulate("streams.py", *programs, seed=seed, **expandable)) == ["right"] * 3


@pytest.mark.cuda_sim
def test_memory_of_four_streams_in_expandable_segments():
    done = simulate("streams.py", "random_allocations", seed=1,
                    PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")  # fmt: skip
    assert lines(done) == ["right"]


# ---- several processes


@pytest.mark.parametrize("seed", [0, 1])
def test_collectives_of_gpus(seed):
    said = lines(simulate("collectives.py", seed=seed))
    # MPI complains on the same stream where a machine has no /sys.
    assert sorted(line for line in said if "UCX" not in line) == ["right 0", "right 1"]


def test_a_rank_that_is_lost_inside_of_nccl_is_named():
    said = lines(simulate("lost_rank.py"))
    (of_the_other,) = [line for line in said if line.startswith("rank 0: ")]
    assert re.search(r"all_reduce\(SUM\) .* at lost_rank.py:\d+: rank 1 .* died", of_the_other)


@pytest.mark.parametrize("guard", ["0", "1"])
def test_tensors_between_processes(guard):
    done = simulate("between_processes.py", RUSHLIGHT_SIMULATOR_GUARD=guard)
    assert lines(done) == ["right"] * 3


def test_collectives_of_gpus_need_nccl():
    done = simulate("collectives.py", RUSHLIGHT_CUDA_WITHOUT="nccl")
    assert done.returncode and "NCCL was not found: pip install nvidia-nccl-cu13" in done.stderr


# ---- products by cuBLASLt, and where it is missing


@pytest.mark.parametrize("without", ["", "cublasLt"])
def test_products(without):
    done = lines(simulate("kernels.py", "cublas_products", RUSHLIGHT_CUDA_WITHOUT=without))
    assert len(done) == 1 and int(done[0].split()[0]) >= 220, "\n".join(done)


# ---- planted faults are found


@pytest.mark.parametrize(
    "program", ["missing_wait", "missing_wait_in_graph", "missing_record", "pinned_too_early"]
)
def test_a_missing_wait_is_found(program):
    found = [lines(simulate("streams.py", program, seed=seed)) for seed in range(5)]
    assert ["wrong"] in found[1:]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_missing_barrier_is_found(seed):
    assert lines(simulate("driver.py", "barrier", seed=seed)) == ["right"]
    assert lines(simulate("driver.py", "missing_barrier", seed=seed)) == ["wrong"]


@pytest.mark.parametrize(
    "program, message",
    [("skipped_barrier", "a barrier after some threads"), ("shuffle", "deadlock")],
)
def test_threads_that_never_meet_are_found(program, message):
    done = simulate("driver.py", program, seed=1)
    assert "status 719" in done.stdout + done.stderr
    assert message in done.stderr


def test_a_write_out_of_bounds_is_found():
    strict = {"RUSHLIGHT_SIMULATOR_BOUNDS": "1"}
    assert lines(simulate("driver.py", "bounds", **strict)) == ["right"]
    assert simulate("driver.py", "out_of_bounds", **strict).returncode < 0


# ---- kernels that are compiled before there is a GPU


def test_kernels_are_compiled_ahead(tmp_path):
    """The simulator's compiler stands for NVIDIA's: a later run finds what it was asked for."""
    program = tmp_path / "program.py"
    program.write_text(
        "import rushlight as torch\n"
        "x = torch.ones(3, device='cuda')\n"
        "(x + x).sum()\n"
        "print(torch._C._cuda.kernel_counts())\n"
    )
    command = [sys.executable, str(ROOT / "tools" / "compile_ahead.py"), "--nvrtc", str(FOLDER),
               "--capability", "80", str(tmp_path / "cache"), str(program)]  # fmt: skip
    counts = []
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        first, last = done.stdout.splitlines()
        counts.append(tuple(map(int, re.findall(r"\d+", first))))
        assert last.startswith(f"{sum(counts[0][:2])} kernels in ") and last.endswith("with 0")
    assert counts[0][0] >= 3 and counts[0][1] == 0
    assert counts[1][0] == 0 and counts[1][1] == counts[0][0]
