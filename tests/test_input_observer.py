"""`onnx.InputObserver`: the arguments and sizes with which a module is called."""

import pytest

import rushlight as rl
from rushlight.export import Dim
from rushlight.onnx import InputObserver

ANY = Dim.DYNAMIC


class Net(rl.nn.Module):
    def forward(self, x, y=None, *, z=None, k: int = 2):
        result = x * k
        if y is not None:
            result = result + y.sum()
        if z is not None:
            result = result + sum(t.sum() for t in z)
        return result


class Open(rl.nn.Module):
    def forward(self, x, *more, **named):
        return x + sum(t.sum() for t in (*more, *named.values()))


def watched(net, *calls, **options):
    observer = InputObserver(**options)
    with observer(net) as same:
        assert same is observer
        for args, kwargs in calls:
            net(*args, **kwargs)
    assert "forward" not in vars(net)
    return observer


def ones(*size):
    return rl.ones(*size)


def shapes(value):
    if isinstance(value, rl.Tensor):
        return tuple(value.shape)
    if isinstance(value, dict):
        return {name: shapes(inner) for name, inner in value.items()}
    return type(value)(map(shapes, value)) if isinstance(value, (list, tuple)) else value


def test_arguments_by_position():
    observer = watched(Net(), ((ones(2, 3),), {}), ((ones(4, 3), ones(2)), {}))
    assert observer.num_obs() == 2
    assert observer.infer_dynamic_shapes() == ({0: ANY}, {})
    assert observer.infer_dynamic_shapes({"y"}) == ({0: ANY}, {0: ANY})
    assert shapes(observer.infer_arguments()) == ((4, 3), (2,))
    assert shapes(observer.infer_arguments(0)) == ((2, 3), (2,))  # y is missing: zeros
    assert shapes(observer.infer_arguments(flat=True)) == [(4, 3), (2,)]
    assert shapes(observer.infer_arguments(as_args_kwargs=True)) == (((4, 3), (2,)), {})


def test_arguments_by_name_and_containers():
    first = {"x": ones(2, 3), "z": [ones(1), ones(2)], "k": 3}
    second = {"z": [ones(1), ones(5)], "k": 3, "x": ones(2, 3)}
    observer = watched(Net(), ((), first), ((), second))
    assert observer.infer_dynamic_shapes() == {"x": {}, "z": [{}, {0: ANY}], "k": None}
    assert shapes(observer.infer_arguments()) == {"x": (2, 3), "z": [(1,), (2,)], "k": 3}
    every = observer.infer_dynamic_shapes(True)
    assert every == {"x": {0: ANY}, "z": [{0: ANY}, {0: ANY}], "k": None}


def test_missing_tensors_are_empty_along_what_changes():
    observer = watched(
        Net(), ((ones(2),), {}), ((ones(2), ones(3, 4)), {}), ((ones(2), ones(3, 5)), {})
    )
    assert shapes(observer.infer_arguments(0)) == ((2,), (3, 0))
    other = watched(Net(), ((), {"x": ones(2)}), value_if_missing={"y": ones(0, 7)})
    assert shapes(other.infer_arguments()) == {"x": (2,), "y": (0, 7)}


def test_stars():
    observer = watched(
        Open(), ((ones(2), ones(1)), {"u": ones(3)}), ((ones(2), ones(4)), {"u": ones(3)})
    )
    assert observer.infer_dynamic_shapes() == {"x": {}, "more": ({0: ANY},), "named": {"u": {}}}
    with pytest.raises(RuntimeError, match="as_args_kwargs=True"):
        observer.infer_arguments()
    assert shapes(observer.infer_arguments(as_args_kwargs=True)) == (((2,), (1,)), {"u": (3,)})


def test_what_is_exported():
    net = Net()
    observer = watched(net, ((ones(2, 3), ones(5)), {}), ((ones(4, 3), ones(6)), {}))
    program = rl.export.export(
        net, observer.infer_arguments(), dynamic_shapes=observer.infer_dynamic_shapes()
    )
    assert program.module()(ones(7, 3), ones(6)).shape == (7, 3)


def test_it_refuses():
    with pytest.raises(RuntimeError, match="No inputs were captured"):
        InputObserver().infer_dynamic_shapes()
    with (
        pytest.raises(ValueError, match="does not have a method 'other'"),
        InputObserver()(Net(), method_name="other"),
    ):
        pass
    observer = watched(Net(), ((ones(2),), {"k": 3}), ((ones(2),), {"k": 4}))
    with pytest.raises(RuntimeError, match="different constant values"):
        observer.infer_dynamic_shapes()
    observer = watched(Net(), ((ones(2),), {}), ((ones(2, 2),), {}))
    with pytest.raises(RuntimeError, match="different rank"):
        observer.infer_dynamic_shapes()
    net, observer = Net(), InputObserver()
    with observer(net, store_n_calls=1):
        net(ones(2)), net(ones(3))
    assert observer.num_obs() == 1
