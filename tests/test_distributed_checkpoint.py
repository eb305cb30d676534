"""Planners, storages and files of distributed checkpoints, in one process."""

import dataclasses
import json
import pickle
import struct

import pytest

import rushlight as torch
import rushlight.distributed.checkpoint as dcp
from rushlight.distributed.checkpoint import (
    _safetensors,
    default_planner,
    format_utils,
    metadata as kinds,
    planner as plans,
    state_dict as states,
)
from rushlight.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys

pytestmark = pytest.mark.filterwarnings("ignore:FileSystemWriter. the checkpoint")


def state(factor=1):
    return {
        "model": {"w": torch.arange(6.0).view(2, 3) * factor, "b": torch.ones(3).bfloat16()},
        "list": [torch.arange(4), {"lr": 0.5 * factor}],
        "epoch": 3 * factor,
        "view": torch.arange(100.0)[10:12],
    }


def test_a_state_comes_back(tmp_path):
    saved = dcp.save(state(), checkpoint_id=tmp_path, no_dist=True)
    assert saved.planner_data["list.1.lr"] == ("list", 1, "lr")
    assert isinstance(saved.state_dict_metadata["epoch"], dcp.BytesStorageMetadata)
    about = saved.state_dict_metadata["model.w"]
    assert about.size == torch.Size([2, 3]) and about.chunks[0].offsets == torch.Size([0, 0])
    found = state(0)
    weight = found["model"]["w"]
    dcp.load(found, checkpoint_id=tmp_path, no_dist=True)
    assert weight.tolist() == [[0, 1, 2], [3, 4, 5]] and found["model"]["w"] is weight
    assert found["epoch"] == 3 and found["list"][1] == {"lr": 0.5}
    assert (tmp_path / "__0_0.distcp").stat().st_size < 12_000  # of views their elements alone
    whole = _load_state_dict_from_keys("model", checkpoint_id=tmp_path)
    assert set(whole) == {"model"} and torch.equal(whole["model"]["w"], weight)


@pytest.mark.parametrize("options", [
    {"thread_count": 3}, {"single_file_per_rank": False}, {"sync_files": False},
    {"single_file_per_rank": False, "thread_count": 2},
])  # fmt: skip
def test_writers(tmp_path, options):
    dcp.save(state(), storage_writer=dcp.FileSystemWriter(tmp_path, **options), no_dist=True)
    found = state(0)
    dcp.load(found, storage_reader=dcp.FileSystemReader(tmp_path), no_dist=True)
    assert torch.equal(found["model"]["w"], state()["model"]["w"]) and found["epoch"] == 3
    count = len(list(tmp_path.glob("*.distcp")))
    assert count == (6 if options.get("single_file_per_rank") is False else
                     options.get("thread_count", 1))  # fmt: skip


def test_what_is_there_is_replaced_or_not(tmp_path):
    dcp.save({"x": torch.ones(2)}, checkpoint_id=tmp_path, no_dist=True)
    with pytest.warns(UserWarning, match="is replaced"):
        dcp.save({"x": torch.zeros(2)}, checkpoint_id=tmp_path, no_dist=True)
    writer = dcp.FileSystemWriter(tmp_path, overwrite=False)
    with pytest.raises(dcp.CheckpointException, match="already exists") as caught:
        dcp.save({"x": torch.zeros(2)}, storage_writer=writer, no_dist=True)
    assert isinstance(caught.value.failures[0][0], RuntimeError)


def test_old_names_warn(tmp_path):
    with pytest.warns(FutureWarning, match="use `save`"):
        dcp.save_state_dict({"x": torch.ones(2)}, dcp.FileSystemWriter(tmp_path), no_dist=True)
    found = {"x": torch.zeros(2)}
    with pytest.warns(FutureWarning, match="use `load`"):
        dcp.load_state_dict(found, dcp.FileSystemReader(tmp_path), no_dist=True)
    assert found["x"].tolist() == [1, 1]


def test_each_process_by_itself(tmp_path):
    dcp.save(state(), checkpoint_id=tmp_path, no_dist=True, use_collectives=False)
    assert (tmp_path / "__0.metadata").exists() and not (tmp_path / ".metadata").exists()
    found = state(0)
    dcp.load(found, checkpoint_id=tmp_path, no_dist=True)
    assert found["epoch"] == 3


def test_planners_of_ones_own(tmp_path):
    class Half(dcp.DefaultSavePlanner):
        def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
            renamed = {"prefix." + key: value for key, value in state_dict.items()}
            super().set_up_planner(renamed, storage_meta, is_coordinator)

        def resolve_data(self, write_item):
            found = super().resolve_data(write_item)
            return found if write_item.tensor_data is None else found.half()

    class Renamed(dcp.DefaultLoadPlanner):
        def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
            renamed = {"prefix." + key: value for key, value in state_dict.items()}
            super().set_up_planner(renamed, metadata, is_coordinator)

    x = torch.tensor([1.0, 2.0])
    saved = dcp.save({"x": x}, checkpoint_id=tmp_path, planner=Half(), no_dist=True)
    assert list(saved.state_dict_metadata) == ["prefix.x"]
    found = {"x": torch.zeros(2)}
    dcp.load(found, checkpoint_id=tmp_path, planner=Renamed(), no_dist=True)
    assert torch.equal(found["x"], x)


def test_partial_loads_and_errors(tmp_path):
    dcp.save({"x": torch.ones(2), "n": 1}, checkpoint_id=tmp_path, no_dist=True)
    found = {"x": torch.zeros(2), "y": torch.zeros(1)}
    planner = dcp.DefaultLoadPlanner(allow_partial_load=True)
    dcp.load(found, checkpoint_id=tmp_path, planner=planner, no_dist=True)
    assert found["x"].tolist() == [1, 1] and found["y"].tolist() == [0]
    for wanted, text in (
        ({"y": torch.zeros(1)}, "Missing key in checkpoint state_dict: y"),
        ({"x": torch.zeros(3)}, "Size mismatch"),
        ({"x": 5}, "x is a tensor in the checkpoint"),
    ):
        with pytest.raises(dcp.CheckpointException, match=text):
            dcp.load(wanted, checkpoint_id=tmp_path, no_dist=True)
    meta = {"x": torch.zeros(2, device="meta")}
    dcp.load(meta, checkpoint_id=tmp_path, no_dist=True)
    assert meta["x"].tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="`checkpoint_id` must be specified"):
        dcp.save({})
    with pytest.raises(RuntimeError, match="no path of a folder"):
        dcp.save({}, checkpoint_id="s3://bucket/x")
    with pytest.raises(dcp.CheckpointException, match="no whole checkpoint"):
        dcp.load({}, checkpoint_id=tmp_path / "nothing", no_dist=True)
    with pytest.raises(NotImplementedError, match="resolve_bytes"):
        item = plans.ReadItem(plans.LoadItemType.BYTE_IO, *[kinds.MetadataIndex("x")] * 5)
        planner.resolve_bytes(item)


def test_a_hostile_file_is_refused(tmp_path):
    dcp.save({"x": torch.ones(2)}, checkpoint_id=tmp_path, no_dist=True)

    class Evil:
        def __reduce__(self):
            return print, ("run",)

    (tmp_path / ".metadata").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(dcp.CheckpointException, match="builtins.print, which no checkpoint needs"):
        dcp.load({"x": torch.ones(2)}, checkpoint_id=tmp_path, no_dist=True)
    metadata = dcp.save({"x": torch.ones(2)}, checkpoint_id=tmp_path / "a", no_dist=True)
    reader = dcp.FileSystemReader(tmp_path / "a")
    metadata = reader.read_metadata()
    (info,) = metadata.storage_data.values()
    info.relative_path = "../../secret"
    with pytest.raises(ValueError, match="outside"):
        reader.set_up_storage_reader(metadata, True)
        planner = dcp.DefaultLoadPlanner()
        planner.set_up_planner({"x": torch.ones(2)}, metadata, True)
        reader.read_data(planner.create_local_plan(), planner)


def chunk(offsets, sizes):
    return dcp.ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes))


def shard(name, offsets, sizes, whole):
    data = plans.TensorWriteData(chunk(offsets, sizes), kinds.TensorProperties(), torch.Size(whole))
    return dcp.WriteItem(
        kinds.MetadataIndex(name, offsets), plans.WriteItemType.SHARD, tensor_data=data
    )


def test_plans_of_several_processes():
    items = [shard("a", [0], [4], [4]), shard("b", [0], [4], [4])]
    same = [dcp.SavePlan(items, planner_data={})] * 2
    shared = default_planner.dedup_save_plans(same)
    assert [[i.index.fqn for i in plan.items] for plan in shared] == [["a"], ["b"]]
    lowest = default_planner.dedup_save_plans(same, save_to_lowest_rank=True)
    assert [len(plan.items) for plan in lowest] == [2, 0]
    planner = dcp.DefaultSavePlanner()
    parts = [dcp.SavePlan([shard("a", [i], [1], [2])], planner_data={}) for i in range(2)]
    _, metadata = planner.create_global_plan(parts)
    assert metadata.state_dict_metadata["a"].chunks == [chunk([0], [1]), chunk([1], [1])]
    for wrong, text in (
        ([shard("a", [0], [1], [3]), shard("a", [1], [1], [3])], "2 elements, and the tensor 3"),
        ([shard("a", [0], [2], [3]), shard("a", [1], [1], [3])], "overlap"),
        ([shard("a", [0], [1], [2]), shard("a", [2], [1], [2])], "not within"),
    ):
        with pytest.raises(ValueError, match=text):
            planner.create_global_plan([dcp.SavePlan([i], planner_data={}) for i in wrong])


def test_plans_are_kept(tmp_path):
    class Counting(dcp.DefaultSavePlanner):
        def create_local_plan(self):
            plan = super().create_local_plan()
            seen.append(plan.usable)
            return plan

    seen = []
    for step in range(3):
        extra = {"y": torch.ones(1)} if step == 2 else {}
        planner = Counting(enable_plan_caching=True)
        folder = tmp_path / str(step)
        dcp.save({"x": torch.full((2,), float(step)), **extra}, checkpoint_id=folder,
                 planner=planner, no_dist=True)  # fmt: skip
        found = {"x": torch.zeros(2)}
        dcp.load(found, checkpoint_id=folder, no_dist=True)
        assert found["x"].tolist() == [step] * 2
    assert seen == [True, False, True]


def test_pieces_are_put_together():
    stored = dcp.TensorStorageMetadata(
        kinds.TensorProperties(), torch.Size([4, 4]), [chunk([0, 0], [4, 2]), chunk([0, 2], [4, 2])]
    )
    whole = dcp.Metadata({"x": stored})
    plan = default_planner.create_default_local_load_plan({"x": torch.zeros(4, 4)}, whole)
    assert [(tuple(i.dest_offsets), tuple(i.lengths)) for i in plan.items] == [
        ((0, 0), (4, 2)), ((0, 2), (4, 2))
    ]  # fmt: skip


def test_async_copies(tmp_path):
    x = torch.ones(3)
    writer = dcp.FileSystemWriter(tmp_path, cache_staged_state_dict=True)
    for step in range(2):
        x.fill_(step)
        future = dcp.async_save({"x": x}, storage_writer=writer)
        x.fill_(-1)
        future.result()
        found = {"x": torch.zeros(3)}
        dcp.load(found, checkpoint_id=tmp_path, no_dist=True)
        assert found["x"].tolist() == [step] * 3
    kind = dcp.state_dict_saver.AsyncCheckpointerType.PROCESS
    with pytest.raises(NotImplementedError, match="no world of MPI"):
        dcp.async_save({"x": x}, checkpoint_id=tmp_path, async_checkpointer_type=kind)


def test_an_optimizers_state_without_an_optimizer(tmp_path):
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    saved, kept = states.get_state_dict(model, optimizer)
    dcp.save({"model": saved, "optim": kept}, checkpoint_id=tmp_path, no_dist=True)
    reader = dcp.FileSystemReader(tmp_path)
    found = dcp.load_sharded_optimizer_state_dict(saved, "optim", reader)
    expected = optimizer.state[model.weight]["exp_avg"]
    assert torch.equal(found["optim"]["state"]["weight"]["exp_avg"], expected)
    assert found["optim"]["param_groups"][0]["lr"] == 1e-3
    with pytest.raises(KeyError, match="no key 'other'"):
        dcp.load_sharded_optimizer_state_dict(saved, "other", reader)


def two_optimizers(steps):
    """A model, each layer with an optimizer of its own, after some steps."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    optimizers = (
        torch.optim.AdamW(model[0].parameters(), lr=0.1),
        torch.optim.SGD(model[2].parameters(), lr=0.2 if steps else 0.5, momentum=0.9),
    )
    for _ in range(steps):
        one_step(model, optimizers)
    return model, optimizers


def one_step(model, optimizers):
    model(torch.ones(3, 2)).square().sum().backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("flat", [False, True])
def test_an_optimizer_without_a_step_loads_what_others_have_saved(tmp_path, flat):
    options = states.StateDictOptions(flatten_optimizer_state_dict=flat)
    model, optimizers = two_optimizers(2)
    saved, kept = states.get_state_dict(model, optimizers, options=options)
    if flat:
        assert kept["state.0.weight.exp_avg"].shape == (3, 2)
        assert kept["param_groups.2.bias.lr"] == 0.2
    else:
        assert list(kept["state"]) == ["0.weight", "0.bias", "2.weight", "2.bias"]
        assert [g["params"] for g in kept["param_groups"]] == [list(saved)[:2], list(saved)[2:]]
    dcp.save({"model": saved, "optim": kept}, checkpoint_id=tmp_path, no_dist=True)
    other, others = two_optimizers(0)
    saved, kept = states.get_state_dict(other, others, options=options)
    into = {"model": saved, "optim": kept}
    dcp.load(into, checkpoint_id=tmp_path, no_dist=True)
    states.set_state_dict(
        other, others, model_state_dict=into["model"], optim_state_dict=into["optim"],
        options=options,
    )  # fmt: skip
    assert others[1].param_groups[0]["lr"] == 0.2
    for pair in ((model, optimizers), (other, others)):
        one_step(*pair)
    for p, q in zip(model.parameters(), other.parameters()):
        assert torch.equal(p, q)


def test_states_of_nested_dicts_are_flattened():
    kept = {"state": {"a": {"inner": {"x": 1, "y": 2.0}}}, "param_groups": [{"params": ["a"]}]}
    flat = states._flattened(kept)
    assert flat == {"state.a.inner.x": 1, "state.a.inner.y": 2.0}
    assert states._unflattened_value(flat, "state.a.inner") == {"x": 1, "y": 2.0}
    kept["state"]["a"]["inner"]["x"] = "text"
    with pytest.raises(NotImplementedError, match="for state.a.inner.x"):
        states._flattened(kept)


def test_names_of_states_are_those_without_wrappers():
    torch.distributed.init_process_group("gloo", rank=0, world_size=1)
    try:
        wrapped = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.PReLU()))
        outer = torch.nn.ModuleDict({"module": torch.nn.PReLU(), "in": wrapped})
        assert list(states.get_model_state_dict(wrapped)) == ["0.weight"]
        assert list(states.get_model_state_dict(outer)) == ["module.weight", "in.0.weight"]
        state = {"module.weight": torch.full((1,), 3.0), "in.0.weight": torch.full((1,), 4.0)}
        states.set_model_state_dict(outer, state)
        assert [p.item() for p in outer.parameters()] == [3, 4]
        compiled = torch.compile(torch.nn.Linear(1, 1))
        assert list(states.get_model_state_dict(compiled)) == ["weight", "bias"]
    finally:
        torch.distributed.destroy_process_group()


def test_states_of_submodules():
    model, optimizers = two_optimizers(0)
    with pytest.warns(FutureWarning, match="submodules is an older argument"):
        found = states.get_model_state_dict(model, submodules={model[2]})
    assert list(found) == ["2.weight", "2.bias"]
    options = states.StateDictOptions(keep_submodule_prefixes=False)
    with pytest.warns(FutureWarning):
        found, kept = states.get_state_dict(model, (), submodules={model[2]}, options=options)
    assert list(found) == ["weight", "bias"] and kept == {}
    with pytest.raises(NotImplementedError, match="submodules"):
        states.get_optimizer_state_dict(model, optimizers, submodules={model[2]})


def test_options_of_states_are_checked():
    model, _ = two_optimizers(0)
    with pytest.raises(ValueError, match="full_state_dict must be True"):
        states.set_model_state_dict(
            model, {}, options=states.StateDictOptions(broadcast_from_rank0=True)
        )
    with pytest.raises(RuntimeError, match="give an optimizer"):
        states.get_optimizer_state_dict(model, ())
    with pytest.warns(UserWarning, match="dsd_fqn_modifiers has no effect"):
        states.get_model_state_dict(model, options=states.StateDictOptions(dsd_fqn_modifiers="x"))


def test_one_file_and_a_folder(tmp_path):
    torch.save({"a": {"b": torch.ones(2)}, "c": 5}, tmp_path / "one.pt")
    format_utils.torch_save_to_dcp(tmp_path / "one.pt", tmp_path / "folder")
    format_utils.dcp_to_torch_save(tmp_path / "folder", tmp_path / "two.pt")
    found = torch.load(tmp_path / "two.pt")
    assert found["c"] == 5 and found["a"]["b"].tolist() == [1, 1]


def test_safetensors(tmp_path):
    tensors = {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(4).bfloat16(),
               "c": torch.empty(0)}  # fmt: skip
    writer = dcp.HuggingFaceStorageWriter(tmp_path, {"a": 1, "b": 2, "c": 2}, thread_count=2)
    dcp.save(tensors, storage_writer=writer, no_dist=True)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["weight_map"]["b"] == "model-00002-of-00002.safetensors"
    assert index["metadata"]["total_size"] == 32
    found = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    reader = dcp.HuggingFaceStorageReader(tmp_path, thread_count=2)
    dcp.load(found, storage_reader=reader, no_dist=True)
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    with pytest.raises(dcp.CheckpointException, match="n is no tensor"):
        dcp.save({"n": 5}, storage_writer=dcp.HuggingFaceStorageWriter(tmp_path), no_dist=True)
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(b"\x08" + bytes(7) + b"nonsense")
    with pytest.raises(dcp.CheckpointException, match="header is damaged"):
        dcp.load(found, storage_reader=reader, no_dist=True)


@pytest.mark.parametrize(
    ("header", "error"),
    [
        ([], "no object"),
        ({"__metadata__": {"a": 1}}, "no texts"),
        ({"a": 5}, "the entry of a"),
        ({"a": {"dtype": "F32", "shape": [1]}}, "the entry of a"),
        ({"a": {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}}, "dtype 'C64' of a"),
        ({"a": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}}, "dtype"),
        ({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}, "the entry of a"),
        ({"a": {"dtype": "F32", "shape": [1.0], "data_offsets": [0, 4]}}, "the entry of a"),
        ({"a": {"dtype": "F32", "shape": [1] * 65, "data_offsets": [0, 4]}}, "65 dims"),
        ({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}, "ends early"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}, "the bytes of a"),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 8]}}, "8 bytes for sizes"),
    ],
)
def test_damaged_headers_of_safetensors(header, error, tmp_path):
    text = json.dumps(header).encode()
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with open(path, "rb") as f, pytest.raises(ValueError, match=error):
        _safetensors.Header(f)


def test_parts_in_safetensors_are_put_together(tmp_path):
    writer = dcp.HuggingFaceStorageWriter(
        tmp_path, save_distributed=True, enable_consolidation=True
    )
    assert writer.consolidated_output_path == str(tmp_path)
    assert writer.metadata_path == "model.safetensors.index.json"
    assert dcp.HuggingFaceStorageWriter(tmp_path).consolidated_output_path is None
    assert dcp.DefaultLoadPlanner().original_state_dict == {}
    writer.path.mkdir()
    whole = torch.arange(8.0).view(4, 2)
    for rank, part in enumerate(whole.chunk(2)):
        name = f"shard-0000{rank + 1}-model-00001-of-00001.safetensors"
        with open(writer.path / name, "wb") as f:
            info = _safetensors.sharding_info({"x": [2 * rank, 0]})
            _safetensors.write(f, {"x": part}, info)
    writer.finish(dcp.Metadata({"x": None}), [])
    with open(tmp_path / "model-00001-of-00001.safetensors", "rb") as f:
        assert torch.equal(_safetensors.Header(f).read(f, "x"), whole)
    several = [dcp.SavePlan([shard("a", [i], [1], [2])]) for i in range(2)]
    with pytest.raises(ValueError, match="save_distributed=True"):
        dcp.HuggingFaceStorageWriter(tmp_path).prepare_global_plan(several)


def raw(path, entries):
    """A file of tensors given by code of dtype, sizes and bytes."""
    header, data = {}, b""
    for name, (code, shape, part) in entries.items():
        ends = [len(data), len(data + part)]
        header[name] = {"dtype": code, "shape": shape, "data_offsets": ends}
        data += part
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_quantized_files(tmp_path):
    scales = struct.pack("<4f", 1.0, 2.0, 3.0, 4.0)
    raw(tmp_path / "a.safetensors", {
        "l.weight": ("F8_E4M3", [3, 3], bytes([0x38, 0x40, 0xB8] * 3)),  # 1, 2, -1
        "l.weight_scale_inv": ("F32", [2, 2], scales),
        "m_blocks": ("U8", [1, 1, 2, 1], bytes([0x12, 0x9F])),  # 1, 0.5 and -6, -0.5
        "m_scales": ("U8", [1, 1, 2], bytes([128, 127])),
    })  # fmt: skip
    names = "l.weight", "l.weight_scale_inv", "m_blocks", "m_scales"
    files = dict.fromkeys(names, "a.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    found = {"l.weight": torch.zeros(3, 3), "m_blocks": torch.zeros(1, 1, 4)}
    reader = dcp.QuantizedHuggingFaceStorageReader(tmp_path, block_size=2)
    dcp.load(found, storage_reader=reader, no_dist=True)
    assert found["l.weight"].tolist() == [[1, 2, -2], [1, 2, -2], [3, 6, -4]]
    assert found["m_blocks"].flatten().tolist() == [2, 1, -6, -0.5]
    plain = dcp.HuggingFaceStorageReader(tmp_path)
    with pytest.raises(dcp.CheckpointException, match="QuantizedHuggingFaceStorageReader reads it"):
        dcp.load({"l.weight": torch.zeros(3, 3)}, storage_reader=plain, no_dist=True)


def test_metadata_travels():
    index = kinds.MetadataIndex("a", [1, 2], 5)
    assert index == kinds.MetadataIndex("a", [1, 2]) and hash(index) == hash(
        dataclasses.replace(index, index=7)
    )
    properties = pickle.loads(pickle.dumps(kinds.TensorProperties(dtype=torch.float16)))
    assert properties.dtype is torch.float16
    assert shard("a", [0], [2], [4]).tensor_storage_size() == 16
