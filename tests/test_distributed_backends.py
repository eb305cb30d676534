"""Process groups of a program's own class, and those of backend "fake"."""

import datetime
import threading

import pytest

import rushlight as torch
import rushlight.distributed as dist


class Recorded(dist.ProcessGroup):
    """Remembers what it was asked for, and adds 1 to each tensor that is reduced or sent."""

    def __init__(self, *args):
        super().__init__(*args)
        self.asked = []

    def getBackendName(self):
        return "recorded"

    def _note(self, name, tensors, *details):
        self.asked.append((name, *details))
        for tensor in tensors:
            tensor.add_(1)
        return Waited(tensors)

    def allreduce(self, tensors, opts=None):
        return self._note("allreduce", tensors, opts.reduceOp)

    def broadcast(self, tensors, opts=None):
        return self._note("broadcast", tensors, opts.rootRank)

    def send(self, tensors, dst, tag=0):
        return self._note("send", tensors, dst, tag)

    def recv(self, tensors, src, tag=0):
        return self._note("recv", tensors, src, tag)

    def allgather(self, output_tensors, input_tensors, opts=None):
        for output in output_tensors[0]:
            output.copy_(input_tensors[0])
        return Waited(output_tensors[0])

    def barrier(self, opts=None):
        self.asked.append(("barrier",))
        return Waited([])


class Waited(dist.Work):
    def __init__(self, tensors):
        super().__init__()
        self.tensors, self.is_waited = tensors, False

    def wait(self, timeout):
        self.is_waited = True
        return True

    def get_future(self):
        future = torch.futures.Future()
        future.set_result(self.tensors)
        return future


@pytest.fixture
def world(request):
    made = []

    def create(store, rank, size, timeout):
        store.set(f"rank {rank}", "came")
        assert timeout == datetime.timedelta(seconds=9)
        made.append(Recorded(rank, size))
        return made[-1]

    dist.Backend.register_backend("recorded", create, devices="cpu")
    dist.init_process_group(
        "recorded", rank=2, world_size=4, store=dist.HashStore(),
        timeout=datetime.timedelta(seconds=9),
    )  # fmt: skip
    yield made
    dist.destroy_process_group()


def test_methods_of_the_class_carry_the_tensors(world):
    x = torch.zeros(2)
    dist.all_reduce(x, dist.ReduceOp.MAX)
    work = dist.broadcast(x, 3, async_op=True)
    assert isinstance(work, Waited) and not work.is_waited
    dist.send(x, 1, tag=7)
    assert dist.recv(x, 0) == 0
    dist.barrier()
    assert x.tolist() == [4.0, 4.0]
    assert world[0].asked == [
        ("allreduce", dist.ReduceOp.MAX), ("broadcast", 3), ("send", 1, 7), ("recv", 0, 0),
        ("barrier",),
    ]  # fmt: skip
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (2, 4, "recorded")
    assert dist.group.WORLD.name() == "recorded"
    gathered = [None] * 4
    dist.all_gather_object(gathered, {"a": 1})
    assert gathered == [{"a": 1}] * 4
    with pytest.raises(NotImplementedError, match="Recorded defines no method for all_to_all"):
        dist.all_to_all([torch.ones(1)] * 4, [torch.ones(1)] * 4)


def test_parts_of_such_a_world_are_made_by_the_same_function(world):
    part = dist.new_group([1, 2])
    assert part is world[1] and (part.rank(), part.size()) == (1, 2)
    assert dist.get_global_rank(part, 0) == 1
    dist.broadcast(torch.zeros(1), 1, group=part)
    assert part.asked == [("broadcast", 0)]
    dist.destroy_process_group(part)
    with pytest.raises(ValueError, match="was destroyed"):
        dist.all_reduce(torch.zeros(1), group=part)


def test_data_parallel_training_in_a_group_of_a_class_of_its_own():
    group = Recorded(0, 1)
    plain = torch.nn.Linear(2, 1)
    model = torch.nn.parallel.DistributedDataParallel(plain, process_group=group)
    x = torch.ones(3, 2)
    model(x).sum().backward()
    assert plain.weight.grad.tolist() == [[4.0, 4.0]]  # its own "reduction" has added 1
    assert group.asked.count(("allreduce", dist.ReduceOp.SUM)) == 1


def test_names_by_which_torch_asks():
    class Named(dist.ProcessGroup):
        def getRank(self):
            return 7

        def getSize(self):
            return 9

        def getGroupName(self):
            return "a name"

    group = Named(0, 1)
    assert (group.rank(), group.size(), group.group_name) == (7, 9, "a name")
    with pytest.raises(TypeError, match="expected .rank, size. or"):
        Named(0)


def test_functions_that_know_all_of_a_group():
    seen = []

    def create(about, options):
        seen.append((about.group_rank, about.group_size, about.global_ranks_in_group, options))
        return Recorded(about.group_rank, about.group_size)

    dist.Backend.register_backend("thorough", create, extended_api=True, devices=["cpu"])
    assert dist.is_backend_available("Thorough") and dist.Backend.THOROUGH == "thorough"
    assert not dist.is_backend_available("unheard of")
    dist.init_process_group(
        "cpu:thorough", rank=1, world_size=2, store=dist.HashStore(), pg_options="fast"
    )
    dist.destroy_process_group()
    assert seen == [(1, 2, [0, 1], "fast")]
    dist.Backend.register_backend("wrong", lambda *place: "no group", devices="cpu")
    with pytest.raises(TypeError, match="makes groups of class str"):
        dist.init_process_group("wrong", rank=0, world_size=2, store=dist.HashStore())
    assert not dist.is_initialized()


def test_fake_groups_send_nothing():
    dist.init_process_group("fake", rank=1, world_size=4, store=dist.HashStore())
    try:
        x = torch.full((2,), 5.0)
        dist.all_reduce(x)
        dist.broadcast(x, 0)
        dist.send(x, 0)
        dist.recv(x, 3)
        dist.barrier()
        assert x.tolist() == [5.0, 5.0]
        parts = [torch.zeros(2) for _ in range(4)]
        dist.all_gather(parts, x)
        whole = torch.zeros(8)
        dist.all_gather_into_tensor(whole, x)
        assert [p.tolist() for p in parts] == [[5.0, 5.0]] * 4 and whole.tolist() == [5.0] * 8
        for function in (dist.reduce_scatter, dist.all_to_all, dist.scatter, dist.gather):
            outputs = [torch.ones(2) for _ in range(4)]
            if function is dist.all_to_all:
                function(outputs, parts)
            elif function is dist.reduce_scatter:
                function(outputs[0], parts)
            else:
                function(outputs[0], parts, 1)
            assert outputs[0].tolist() == [1.0, 1.0]
        dist.all_to_all_single(torch.ones(4), whole[:4])
        mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        assert mesh.get_coordinate() == (0, 1) and mesh["tp"].size() == 2
        shard = dist.tensor.distribute_tensor(torch.ones(8, 3), mesh["dp"], [dist.tensor.Shard(0)])
        assert shard.to_local().shape == (4, 3) and shard.full_tensor().shape == (8, 3)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 4))
        dist.fsdp.fully_shard(model, mesh=mesh["dp"])
        model(torch.ones(3, 4)).sum().backward()
        assert model[0].weight.grad.to_local().shape == (4, 4)
    finally:
        dist.destroy_process_group()


def test_a_time_limit_of_options_is_that_of_one_operation():
    from rushlight.distributed import _process_group

    dist.init_process_group("gloo", rank=0, world_size=1)
    group, limits = dist.group.WORLD, []
    options = dist.AllreduceOptions()
    options.timeout = datetime.timedelta(seconds=7)

    def meanwhile(call):
        if call.name == "all_reduce":  # another thread begins an operation of the same group
            other = threading.Thread(
                target=lambda: limits.append(group.broadcast([torch.ones(1)])._seconds)
            )
            other.start()
            other.join()

    _process_group.observers.append(meanwhile)
    try:
        limits.append(group.allreduce([torch.ones(1)], options)._seconds)
    finally:
        _process_group.observers.remove(meanwhile)
        dist.destroy_process_group()
    assert limits == [group._timeout.total_seconds(), 7]
