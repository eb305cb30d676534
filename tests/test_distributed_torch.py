"""Programs of several processes, by torch and, unchanged, by rushlight: the same losses."""

import importlib
import pkgutil

import pytest
import ranks

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not ranks.HAVE_MPI, reason="needs mpi4py and mpich"),
]


# How torch's own processes end at times, when all is printed: by a thread of its gloo.
GLOO_ENDS = "terminate called without an active exception"


def losses(section, *python):
    run = ranks.by_environment(2, ranks.program("patterns"), section, python=python)
    if python or not any(GLOO_ENDS in output for output in run.outputs):
        run.check()
    (line,) = [line for line in run.outputs[0].splitlines() if line.startswith(section)]
    return [float(word) for word in line.split()[1:]]


# torch has them without any public name in it, or cannot import them.
WITHOUT_NAMES = "mixed_precision_hooks optimizer_overlap_hooks"


def public_modules():
    """The names of torch.distributed's public modules."""
    packages, found = [torch.distributed], ["torch.distributed"]
    while packages:
        package = packages.pop()
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if module.name.rpartition(".")[2].startswith("_"):
                continue
            found.append(module.name)
            if module.ispkg:
                packages.append(importlib.import_module(module.name))
    return found


@pytest.mark.filterwarnings("ignore")
def test_public_names_are_there_or_refuse():
    count = 0
    for name in public_modules():
        theirs = importlib.import_module(name)
        names = getattr(theirs, "__all__", None)
        if names is None:
            names = [
                key
                for key, value in vars(theirs).items()
                if not key.startswith("_") and getattr(value, "__module__", None) == name
            ]
        if not names or name.rpartition(".")[2] in WITHOUT_NAMES.split():
            continue
        ours = importlib.import_module("rushlight" + name.removeprefix("torch"))
        assert [key for key in names if not hasattr(ours, key)] == [], name
        count += len(names)
    assert count > 500


SECTIONS = [
    "data_parallel", "sharded", "tensor_parallel", "fully_sharded", "sequence_parallel",
    "root_mean_square", "pipelined", "checkpointed", "counted", "set_on_modules", "hooked",
    "old_states",
]  # fmt: skip


@pytest.mark.parametrize("section", SECTIONS)
def test_a_program_prints_the_same_losses(section):
    ours = losses(section, "-m", "rushlight")
    assert len(ours) >= 4 and ours == pytest.approx(losses(section), rel=1e-4, abs=1e-4)


def styles(torch):
    """What styles of tensor parallelism remember of how they were made, as text."""
    from importlib import import_module

    name = f"{torch.__name__}.distributed.tensor"
    tensor, parallel = import_module(name), import_module(f"{name}.parallel")
    cut, copied = tensor.Shard(0), tensor.Replicate()
    ways = {"input_layouts": cut, "desired_input_layouts": (copied,)}
    named = {"input_kwarg_layouts": {"x": cut}, "desired_input_kwarg_layouts": {"x": copied}}
    out = {"output_layouts": (None, cut), "desired_output_layouts": (None, copied)}
    made = [
        parallel.ColwiseParallel(), parallel.ColwiseParallel(output_layouts=copied),
        parallel.RowwiseParallel(use_local_output=False),
        parallel.SequenceParallel(sequence_dim=2), parallel.PrepareModuleInput(**ways),
        parallel.PrepareModuleInput(**named), parallel.PrepareModuleOutput(**out),
    ]  # fmt: skip
    partial = tensor.Partial
    return [
        *({key: str(value) for key, value in vars(style).items()} for style in made),
        *(style.desired_input_layouts for style in made[:2]),
        (partial.ALL_REDUCE_OPS, partial.LINEAR_REDUCE_OPS),
    ]


def test_styles_of_tensor_parallelism_have_torchs_attributes():
    import rushlight

    theirs = styles(torch)
    for i, (mine, wanted) in enumerate(zip(styles(rushlight), theirs, strict=True)):
        if isinstance(wanted, dict):  # one that is a property here is compared by itself
            wanted = {key: value for key, value in wanted.items() if key in mine}
            assert mine == wanted, i
        else:
            assert str(mine) == str(wanted), i
