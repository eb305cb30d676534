"""Meshes and DTensors as one process of four sees them, in groups that send nothing."""

import io
import pickle

import pytest

import rushlight as torch
import rushlight.distributed as dist
from rushlight.distributed import _functional_collectives as functional
from rushlight.distributed.tensor import (
    DeviceMesh,
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    init_device_mesh,
)
from rushlight.distributed.tensor.experimental import local_map


@pytest.fixture(autouse=True)
def world():
    dist.init_process_group("fake", rank=1, world_size=4, store=dist.HashStore())
    yield
    dist.destroy_process_group()


def two_by_two():
    return init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))


def test_parts_of_meshes_by_names():
    grid = two_by_two()
    assert grid.mesh.dtype is torch.int32 and grid["tp"].mesh.tolist() == [0, 1]
    flat = grid._flatten("all")
    assert flat.mesh.tolist() == [0, 1, 2, 3] and grid["all"] is flat
    assert grid["all"].get_group() is flat.get_group() is grid.get_group("all")
    cube = init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("a", "b", "c"))
    pair = cube["a", "b"]._flatten("ab")
    both = cube["ab", "c"]
    assert both.mesh.tolist() == [[0, 1], [2, 3]] and both.mesh_dim_names == ("ab", "c")
    assert both.get_group("ab") is pair.get_group()
    assert both.get_group("c") is cube.get_group("c")
    with pytest.raises(KeyError, match="keep the order"):
        cube["c", "ab"]
    with pytest.raises(RuntimeError, match="overlapping"):
        cube["a", "ab"]
    with pytest.raises(KeyError, match="Invalid mesh_dim_names .*'d' does not exist"):
        cube["d"]
    with pytest.raises(ValueError, match="already exists"):
        cube["a", "b"]._flatten("c")
    with pytest.raises(ValueError, match="has been created before"):
        cube["b", "c"]._flatten("ab")


def test_what_meshes_refuse():
    grid = two_by_two()
    with pytest.raises(RuntimeError, match="Device type with index"):
        init_device_mesh("cuda:0", (4,))
    with pytest.raises(ValueError, match="Invalid mesh"):
        DeviceMesh.from_group(grid.get_group("tp"), "cpu", [0, 3])
    empty = DeviceMesh("cpu", [0, 1], _init_backend=False)
    assert empty.get_coordinate() == (1,)
    with pytest.raises(RuntimeError, match="groups not initialized"):
        empty.get_group()


def test_strides_are_in_the_order_of_the_part():
    grid = two_by_two()
    whole = torch.arange(12.0).view(4, 3)
    rows = distribute_tensor(whole, grid["dp"], [Shard(0)])
    assert rows.stride() == (3, 1) and rows.t().stride() == (1, 3) == whole.t().stride()
    across = DTensor.from_local(torch.ones(3, 2).t(), grid["dp"], [Shard(1)])
    assert across.shape == (2, 6) and across.stride() == (1, 2)
    given = DTensor.from_local(
        torch.ones(2, 3), grid["dp"], [Shard(0)], shape=(3, 3), stride=(3, 1)
    )
    assert given.shape == (3, 3) and given.stride() == (3, 1)
    with pytest.raises(RuntimeError, match="both shape and stride"):
        DTensor.from_local(torch.ones(2, 3), grid["dp"], [Shard(0)], shape=(3, 3))
    with pytest.raises(NotImplementedError, match="the whole has the part's order"):
        DTensor.from_local(torch.ones(2, 3), grid["dp"], [Shard(0)], shape=(3, 3), stride=(1, 3))


@pytest.mark.parametrize("weights_only", [True, False])
def test_a_file_holds_this_process_part(weights_only):
    grid = two_by_two()
    saved = distribute_tensor(torch.arange(8.0), grid, [Shard(0), Replicate()])
    weight = torch.nn.Parameter(distribute_tensor(torch.ones(4, 2), grid["tp"], [Shard(1)]))
    stream = io.BytesIO()
    torch.save({"saved": saved, "weight": weight}, stream)
    stream.seek(0)
    loaded = torch.load(stream, weights_only=weights_only)
    again = loaded["saved"]
    assert isinstance(again, DTensor) and again.shape == (8,) and not again.requires_grad
    assert again.placements == (Shard(0), Replicate()) and again.device_mesh == grid
    assert again.to_local().tolist() == [0.0, 1.0, 2.0, 3.0]
    assert again.device_mesh.get_group("tp") is grid.get_group("tp")
    assert isinstance(loaded["weight"], torch.nn.Parameter) and loaded["weight"].requires_grad
    assert loaded["weight"].to_local().shape == (4, 1)
    copy = pickle.loads(pickle.dumps(weight))
    assert copy.requires_grad and copy.placements == (Shard(1),) and copy.shape == (4, 2)


def test_hooks_and_gradients_lie_as_the_tensor_does():
    grid = two_by_two()
    mesh, seen = grid["dp"], []
    x = distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)]).requires_grad_()

    def double(grad):
        seen.append((type(grad), grad.placements, tuple(grad.shape)))
        return (grad * 2).redistribute(placements=[Replicate()])

    x.register_hook(double)
    (x * 3).backward(distribute_tensor(torch.ones(4, 2), mesh, [Replicate()]))
    assert seen == [(DTensor, (Shard(0),), (4, 2))]
    assert x.grad.placements == (Shard(0),) and x.grad.to_local().tolist() == [[6.0, 6.0]] * 2
    y = torch.ones(3, requires_grad=True)
    torch.autograd.backward([y * x.to_local().sum().detach(), x * 1], [torch.ones(3), x.detach()])
    assert y.grad.tolist() == [4.0] * 3


def test_results_in_tensors_that_are_there():
    grid = two_by_two()
    mesh = grid["dp"]
    x = distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)])
    out = distribute_tensor(torch.zeros(4, 2), mesh, [Replicate()])
    assert torch.add(x, x, out=out) is out
    assert out.placements == (Replicate(),) and out.to_local()[:2].tolist() == [[2.0, 2.0]] * 2
    with pytest.raises(NotImplementedError, match="out= that is no DTensor"):
        torch.add(x, x, out=torch.zeros(4, 2))
    like = x.new_full((4, 2), 7.0)
    assert like.placements == (Shard(0),) and like.to_local().tolist() == [[7.0, 7.0]] * 2
    assert x.new_zeros(3).placements == (Replicate(),)


def test_processes_outside_of_a_mesh_have_nothing():
    two_by_two()
    mesh = DeviceMesh("cpu", [0, 2])
    x = DTensor.from_local(torch.ones(3, 4), mesh, [Shard(0)])
    assert x.shape == (6, 4) and x.to_local().numel() == 0
    y = (x + 2).redistribute(placements=[Replicate()])
    assert y.shape == (6, 4) and y.to_local().numel() == 0
    assert x.sum().to_local().item() == 0.0
    assert [part.shape for part in x.split([1, 3], 1)] == [(6, 1), (6, 3)]
    assert dist.tensor.zeros(5, device_mesh=mesh).to_local().numel() == 0
    assert distribute_tensor(torch.ones(5), mesh, [Shard(0)]).shape == (5,)


def test_what_cannot_be_distributed():
    grid = two_by_two()
    x = distribute_tensor(torch.ones(4, 4), grid, [Shard(0), Shard(1)])
    assert distribute_tensor(x, grid, [Shard(0), Shard(1)]) is x
    with pytest.raises(ValueError, match="to a different device mesh"):
        distribute_tensor(x, grid["dp"], [Shard(0)])
    with pytest.raises(ValueError, match="to a different placements"):
        distribute_tensor(x, grid, [Shard(0), Replicate()])
    with pytest.raises(RuntimeError, match="does not support cross-mesh"):
        x + distribute_tensor(torch.ones(4, 4), grid["dp"], [Shard(0)])
    meta = distribute_tensor(torch.ones(4, 4, device="meta"), grid["dp"], [Shard(0)])
    assert meta.is_meta and meta.to_local().shape == (2, 4)
    with pytest.warns(UserWarning, match="numel=1 and ndim!=0"):
        assert (torch.tensor([1.0]) + x).placements == x.placements


def test_older_functions_of_inputs_and_outputs():
    grid = two_by_two()
    with pytest.warns(FutureWarning, match="Deprecating (in|out)put_fn"):
        module = distribute_module(
            torch.nn.Linear(2, 3), grid["dp"],
            input_fn=lambda inputs, mesh: DTensor.from_local(inputs[0], mesh, [Replicate()]),
            output_fn=lambda outputs, mesh: outputs.to_local(),
        )  # fmt: skip
    assert type(module(torch.ones(4, 2))) is torch.Tensor


def test_functions_of_parts():
    grid = two_by_two()
    mesh = grid["dp"]
    x = distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)])
    double = local_map(lambda t: t * 2, [Shard(0)], ([Shard(0)],), device_mesh=mesh)
    assert double(x).placements == (Shard(0),)
    assert type(double(torch.ones(2))) is torch.Tensor  # no DTensor comes, and none goes
    with pytest.raises(AssertionError, match="expects placements"):
        local_map(lambda t: t, [Shard(0)], (None,))(x)
    with pytest.raises(AssertionError, match="plain tensor is expected"):
        local_map(lambda t: x, [Shard(0)], ([Shard(0)],))(x)
    with pytest.raises(ValueError, match="set redistribute_inputs"):
        local_map(lambda t: t, [Shard(0)], ([Replicate()],))(x)


def test_results_of_functional_collectives_can_be_waited_for():
    grid = two_by_two()
    x = torch.ones(4, 2)
    for result in (
        functional.all_reduce(x, "sum", grid["dp"]),
        functional.all_reduce(x, "sum", grid["dp"].get_group().group_name),
        functional.all_gather_single(x, 1, (grid, 0)),
        functional.reduce_scatter_single(x, "sum", 0, [0, 1]),
        functional.permute_tensor(x, [1, 0], grid["tp"]),
        *functional.all_reduce_coalesced([x, x], "sum", grid["dp"]),
    ):
        assert isinstance(result, functional.AsyncCollectiveTensor)
        assert type(result.wait()) is type(functional.wait_tensor(result)) is torch.Tensor
        assert type(result + 1) is torch.Tensor and result.wait().data_ptr() == result.data_ptr()


def test_how_a_tensor_lies_as_one_object():
    grid = two_by_two()
    x = distribute_tensor(torch.ones(4, 2), grid, [Shard(1), Replicate()])
    spec = x._spec
    assert (spec.mesh, spec.placements, spec.shape) == (grid, x.placements, (4, 2))
    assert spec.num_shards == 2 and spec.dim_map == [-1, 0] and not spec.is_replicated()
    assert type(x._local_tensor) is torch.Tensor and x._local_tensor.shape == (4, 1)
    assert Partial() != Replicate()
