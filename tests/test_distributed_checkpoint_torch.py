"""Checkpoints of torch that rushlight reads, and the other way round."""

import pytest

import rushlight
import rushlight.distributed.checkpoint as ours

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def state(library, factor):
    return {
        "model": {"w": library.arange(6.0).view(2, 3) * factor, "i": library.arange(4) * factor},
        "half": (library.ones(3) * factor).bfloat16(),
        "flag": library.tensor([True, False]),
        "list": [library.ones(2) * factor, {"lr": 0.5 * factor, "name": "a" * factor}],
        "epoch": 3 * factor,
        "scalar": library.tensor(1.5 * factor),
    }


def flat(state):
    return {
        "w": state["model"]["w"].tolist(), "i": state["model"]["i"].tolist(),
        "half": state["half"].float().tolist(), "flag": state["flag"].tolist(),
        "list": state["list"][0].tolist(), "lr": state["list"][1], "epoch": state["epoch"],
        "scalar": state["scalar"].item(), "dtype": str(state["half"].dtype),
    }  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
def test_a_checkpoint_of_torch(tmp_path, threads):
    import torch.distributed.checkpoint as theirs

    writer = theirs.FileSystemWriter(tmp_path, thread_count=threads)
    theirs.save(state(torch, 1), storage_writer=writer, no_dist=True)
    found = state(rushlight, 0)
    ours.load(found, checkpoint_id=tmp_path, no_dist=True)
    assert flat(found) == flat(state(rushlight, 1))
    metadata = ours.FileSystemReader(tmp_path).read_metadata()
    assert metadata.state_dict_metadata["model.w"].properties.dtype is rushlight.float32


@pytest.mark.parametrize("threads", [1, 2])
def test_a_checkpoint_for_torch(tmp_path, threads):
    import torch.distributed.checkpoint as theirs

    writer = ours.FileSystemWriter(tmp_path, thread_count=threads)
    written = ours.save(state(rushlight, 1), storage_writer=writer, no_dist=True)
    found = state(torch, 0)
    theirs.load(found, checkpoint_id=tmp_path, no_dist=True)
    assert flat(found) == flat(state(torch, 1))
    metadata = theirs.FileSystemReader(tmp_path).read_metadata()
    assert set(metadata.state_dict_metadata) == set(written.state_dict_metadata)
    assert metadata.planner_data == written.planner_data
    assert metadata.version == "1.0.0"
    from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

    dcp_to_torch_save(tmp_path, tmp_path / "one.pt")
    assert torch.load(tmp_path / "one.pt")["list"][1]["lr"] == 0.5


def test_the_same_plans():
    """What deduplication and resharding make of the same pieces."""
    import torch.distributed.checkpoint as theirs

    def made(library, dcp):
        kinds, plans = dcp.metadata, dcp.planner

        def item(name, offsets, sizes, whole):
            size = library.Size
            chunk = kinds.ChunkStorageMetadata(size(offsets), size(sizes))
            data = plans.TensorWriteData(chunk, kinds.TensorProperties(), size(whole))
            return plans.WriteItem(
                kinds.MetadataIndex(name, offsets), plans.WriteItemType.SHARD, tensor_data=data
            )

        both = [item("c", [0], [8], [8]), item("d", [0], [2], [2]), item("e", [0], [5], [5])]
        all_plans = [
            plans.SavePlan([*both, item("a", [4 * r, 0], [4, 6], [8, 6])], planner_data={})
            for r in range(2)
        ]
        chosen, metadata = dcp.DefaultSavePlanner().create_global_plan(all_plans)
        wanted = {"a": library.zeros(8, 6)}
        reads = dcp.default_planner.create_default_local_load_plan(wanted, metadata).items
        return (
            [[i.index.fqn for i in plan.items] for plan in chosen],
            [
                (tuple(i.dest_offsets), tuple(i.storage_index.offset), i.storage_index.index,
                 tuple(i.storage_offsets), tuple(i.lengths))
                for i in reads
            ],
        )  # fmt: skip

    assert made(rushlight, ours) == made(torch, theirs)
