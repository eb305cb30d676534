"""Sparsifiers and their schedules."""

import copy

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.ao import pruning


def zeros(layer):
    return (layer.parametrizations.weight[0].mask == 0).float().mean().item()


def test_blocks_of_the_least_norm_are_zero():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 5))
    sparsifier = pruning.WeightNormSparsifier(0.5, (1, 4), 2)
    sparsifier.prepare(model, [{"tensor_fqn": "0.weight"}, {"tensor_fqn": "2.weight",
                                                            "sparsity_level": 0.25,
                                                            "sparse_block_shape": (1, 1),
                                                            "zeros_per_block": 1}])  # fmt: skip
    assert zeros(model[0]) == 0
    sparsifier.step()
    assert zeros(model[0]) == 0.25 and zeros(model[2]) == pytest.approx(8 / 30)
    blocks = model[0].parametrizations.weight[0].mask.reshape(-1, 4).float().sum(1)
    assert sorted(set(blocks.tolist())) == [2, 4]
    state = sparsifier.state_dict()
    other, again = (
        copy.deepcopy(sparsifier),
        nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 5)),
    )
    other = pruning.WeightNormSparsifier(0.9)
    other.prepare(again, None)
    other.load_state_dict(copy.deepcopy(state))
    assert zeros(again[0]) == 0.25 and other.groups[0]["module"] is again[0]
    sparsifier.squash_mask(params_to_keep=("sparsity_level",))
    assert (model[0].weight == 0).float().mean() == 0.25
    assert model[2].sparse_params == {"sparsity_level": 0.25}
    assert type(model[0]) is nn.Linear
    with pytest.raises(ValueError, match="zeros_per_block"):
        bad = pruning.WeightNormSparsifier(0.5, (1, 4), 5)
        bad.prepare(nn.Sequential(nn.Linear(4, 4)), None)
        bad.step()
    with pytest.raises(NotImplementedError, match="norm must be 1 or 2"):
        pruning.WeightNormSparsifier(norm=3)


def test_what_is_near_the_diagonal_stays():
    model = nn.Sequential(nn.Linear(5, 5))
    sparsifier = pruning.NearlyDiagonalSparsifier(3)
    sparsifier.prepare(model, None)
    sparsifier.step()
    assert torch.equal(model[0].weight.triu(2) + model[0].weight.tril(-2), torch.zeros(5, 5))
    sparsifier.groups[0]["nearliness"] = 2
    with pytest.raises(ValueError, match="odd"):
        sparsifier.step()


def test_sparsifiers_of_ones_own():
    class Rows(pruning.BaseSparsifier):
        def update_mask(self, module, tensor_name, rows, **kwargs):
            module.parametrizations[tensor_name][0].mask[:rows] = 0

    class Half(nn.Module):
        @classmethod
        def from_dense(cls, mod):
            return cls()

    model = nn.Sequential(nn.Linear(4, 4))
    sparsifier = Rows({"rows": 2})
    sparsifier.prepare(model, None)
    sparsifier.step()
    assert (model[0].weight[:2] == 0).all() and "rows: 2" in repr(sparsifier)
    assert type(sparsifier.convert(model, {nn.Linear: Half})[0]) is Half
    with pytest.raises(NotImplementedError, match="mapping"):
        sparsifier.convert(model)
    sparsifier.enable_mask_update = False
    sparsifier.groups[0]["rows"] = 4
    sparsifier.step()
    assert (model[0].weight[2:] != 0).any()
    with pytest.raises(AssertionError, match="no 7.weight"):
        Rows().prepare(model, [{"tensor_fqn": "7.weight"}])


def test_schedules(capsys):
    model = nn.Sequential(nn.Linear(8, 8))
    sparsifier = pruning.WeightNormSparsifier(0.8)
    sparsifier.prepare(model, None)
    schedule = pruning.LambdaSL(sparsifier, lambda epoch: 0.5**epoch, verbose=True)
    sparsifier.step()
    schedule.step(3)
    assert schedule.get_last_sl() == [0.4]
    assert (
        "Epoch     3: adjusting sparsity level of group 0 to 4.0000e-01." in capsys.readouterr()[0]
    )
    with pytest.warns(UserWarning, match="get_last_sl"):
        schedule.get_sl()
    sparsifier.groups[0]["sparsity_level"] = 0.8
    cubic = pruning.CubicSL(sparsifier, 0.2, 1, 2, 3, True)
    sparsifier.step()
    levels = [cubic.get_last_sl()[0]]
    for _ in range(8):
        cubic.step()
        levels += cubic.get_last_sl()
    assert levels[0] == 0 and levels[1] == pytest.approx(0.2) and levels[7:] == [0.8, 0.8]
    again = pruning.CubicSL(sparsifier, 0.2)
    again.load_state_dict(cubic.state_dict())
    assert again.last_epoch == 8
    with pytest.raises(ValueError, match="one for each weight"):
        pruning.LambdaSL(sparsifier, [abs, abs])
    with pytest.raises(TypeError, match="BaseSparsifier"):
        pruning.LambdaSL(model, abs)


def test_a_failing_mask_leaves_the_module_as_it_was():
    prune = nn.utils.prune

    class Failing(prune.L1Unstructured):
        def compute_mask(self, t, default_mask):
            raise ArithmeticError

    layer = nn.Linear(3, 2)
    with pytest.raises(ArithmeticError):
        Failing.apply(layer, "weight", amount=0.5)
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    assert not list(layer.buffers()) and not layer._forward_pre_hooks
