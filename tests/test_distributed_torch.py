"""Programs of several processes, by torch and, unchanged, by rushlight: the same losses."""

import pytest
import ranks

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not ranks.HAVE_MPI, reason="needs mpi4py and mpich"),
]


def losses(section, *python):
    run = ranks.by_environment(2, ranks.program("patterns"), section, python=python).check()
    (line,) = [line for line in run.outputs[0].splitlines() if line.startswith(section)]
    return [float(word) for word in line.split()[1:]]


SECTIONS = [
    "data_parallel", "sharded", "tensor_parallel", "fully_sharded", "sequence_parallel",
    "root_mean_square", "pipelined", "checkpointed",
]  # fmt: skip


@pytest.mark.parametrize("section", SECTIONS)
def test_a_program_prints_the_same_losses(section):
    ours = losses(section, "-m", "rushlight")
    assert len(ours) >= 4 and ours == pytest.approx(losses(section), rel=1e-4, abs=1e-4)
