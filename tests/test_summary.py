"""Tables of models: `utils.summary`, and what a notebook shows of a module."""

import pytest

import rushlight
from rushlight import nn
from rushlight.utils import summary


def model():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 2))


def test_counts_are_those_of_the_layers():
    table = summary(model(), rushlight.zeros(5, 1, 8, 8))
    kinds = {row[2]: row for row in table.rows}
    assert kinds["Conv2d"][3:5] == ("(5, 4, 6, 6)", 4 * 9 + 4)
    assert kinds["Conv2d"][5] == 2 * 5 * 4 * 36 * 9
    assert kinds["Linear"][3:] == ("(5, 2)", 144 * 2 + 2, 2 * 5 * 144 * 2, 5 * 2 * 4)
    assert table.flops == kinds["Conv2d"][5] + kinds["Linear"][5] == kinds["Sequential"][5]
    assert table.parameters == table.trainable == 40 + 8 + 290
    # batch norm's running mean, variance and count too
    assert table.parameter_bytes == 4 * table.parameters + 4 * 8 + 8


def test_a_run_leaves_the_model_as_it_was():
    net = model()
    net[1].eval()
    before = net[1].running_mean.clone()
    summary(net, rushlight.rand(5, 1, 8, 8))
    assert net.training and not net[1].training and net[3].training
    assert rushlight.equal(net[1].running_mean, before)
    assert not any(module._forward_hooks for module in net.modules())
    with pytest.raises(RuntimeError):
        summary(net, rushlight.zeros(5, 3, 8, 8))
    assert not any(module._forward_hooks for module in net.modules()) and net.training


def test_a_frozen_layer_is_not_trained():
    net = model()
    net[0].requires_grad_(False)
    table = summary(net)
    assert (table.parameters, table.trainable, table.flops) == (338, 298, None)
    assert "FLOPs of" not in str(table)


def test_outputs_may_be_several():
    table = summary(nn.LSTM(3, 4), rushlight.zeros(5, 2, 3))
    assert table.rows[0][3] == "(5, 2, 4), (1, 2, 4), (1, 2, 4)"


def test_a_notebook_shows_a_table_and_text_stays_text():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module("<b>", nn.Linear(1, 1))

    html = Odd()._repr_html_()
    assert html.count("<tr>") == 3 and "<b>" not in html and "&lt;b&gt;: Linear" in html
    assert "parameters: 2" in html
    assert repr(nn.Linear(1, 1)) == "Linear(in_features=1, out_features=1, bias=True)"
