"""Names below the public ones that libraries import: they do what they say."""

import sys

import pytest

import rushlight as rl
import rushlight.distributed.constants
from rushlight.distributed.elastic.utils.distributed import get_free_port, get_socket_with_port
from rushlight.nn.utils._named_member_accessor import NamedMemberAccessor, swap_tensor


def module():
    net = rl.nn.Sequential(rl.nn.Linear(2, 3), rl.nn.BatchNorm1d(3))
    net[0].scale = rl.ones(1)
    return net


def test_members_are_exchanged_by_path():
    net = module()
    members, weight = NamedMemberAccessor(net), net[0].weight
    assert members.get_tensor("0.weight") is weight
    other = rl.zeros(3, 2)
    assert members.swap_tensor("0.weight", other) is weight
    assert net[0].weight is other
    members.set_tensors_dict({"0.weight": weight, "1.running_mean": rl.ones(3)})
    assert net[0].weight is weight and net[1].running_mean.tolist() == [1, 1, 1]
    assert members.check_keys(["0.weight", "other"])[1] == ["other"]
    members.del_tensor("0.scale")
    assert not hasattr(net[0], "scale")
    with pytest.raises(AttributeError, match="absent"):
        swap_tensor(net[0], "absent", other)
    with pytest.raises(KeyError, match="dot"):
        swap_tensor(net, "0.weight", other)
    with pytest.raises(TypeError, match="not a Tensor"):
        swap_tensor(net[0], "weight", 3)


def test_nothing_is_exchanged_if_one_is_missing():
    net = module()
    members, weight = NamedMemberAccessor(net), net[0].weight
    with pytest.raises(RuntimeError, match="missing"):
        members.swap_tensors_dict({"0.weight": rl.zeros(3, 2), "0.absent": rl.zeros(1)})
    assert net[0].weight is weight and not hasattr(net[0], "absent")


def test_a_free_port():
    with get_socket_with_port() as listener:
        assert listener.getsockname()[1] > 0
    assert 0 < get_free_port() < 65536


def test_the_bar_without_tqdm(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with rl.hub.tqdm(total=4) as bar:
        bar.update(1)
        bar.update(2)
    assert "25.0%" in (text := capsys.readouterr().err) and "75.0%" in text
    assert rl.utils.model_zoo.tqdm is rl.hub.tqdm
    with rl.hub.tqdm(total=4, disable=True) as bar:
        bar.update(1)
    assert capsys.readouterr().err == ""


def test_names():
    assert rl.distributed.ReduceOp.RedOpType.SUM is rl.distributed.ReduceOp.SUM
    assert rl.distributed.constants.default_pg_timeout.total_seconds() == 1800
    assert isinstance(rl.device("cpu"), rl.DeviceObjType)
    assert rl._C._mps_is_available() is False
    x = rl.tensor([-200.0, 0.0, 200.0])
    clipped = rl.distributions.transforms._clipped_sigmoid(x)
    assert clipped.min() > 0 and clipped.max() < 1 and clipped[1] == 0.5


@pytest.mark.filterwarnings("ignore:compile. backend has no effect")
def test_a_compile_counter_counts_the_graphs_it_is_given():
    from rushlight._dynamo.testing import CompileCounter, CompileCounterWithBackend

    def double(x):
        return x.sin() * 2

    traced = rl.fx.symbolic_trace(double)
    for counter in (CompileCounter(), CompileCounterWithBackend("inductor")):
        x = rl.ones(2)
        assert rl.equal(rl.compile(double, backend=counter)(x), double(x))
        assert counter.frame_count == 0, "nothing is compiled"
        assert rl.equal(counter(traced, [x])(x), double(x))
        assert (counter.frame_count, counter.op_count) == (1, 2)
        counter.clear()
        assert counter.frame_count == 0
    assert counter.graphs == [] and counter.backend == "inductor"


def test_a_function_that_asks_for_remote_calls_is_refused_when_it_is_called():
    from rushlight.distributed.rpc import api

    @api._require_initialized  # as PyTorch Geometric does where it is imported
    def gather(value):
        return value

    with pytest.raises(RuntimeError, match="gather: RPC has not been initialized"):
        gather(1)
    with pytest.raises(NotImplementedError, match="anyone who reaches the port"):
        api._all_gather(1)
    assert not api._is_current_rpc_agent_set()
