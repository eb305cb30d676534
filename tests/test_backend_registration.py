"""A name for the device `privateuseone`, and methods of that name: in processes of their own, as
the name is for good.
"""

import subprocess
import sys

import pytest

START = """
import rushlight as torch
from rushlight import nn
from rushlight.utils import generate_methods_for_privateuse1_backend, rename_privateuse1_backend

def refused(call, text, kind=RuntimeError):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"nothing was raised, not {text}")

"""


def run(program):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", START + program], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_name():
    run("""
assert torch._C._get_privateuse1_backend_name() == "privateuseone"
refused(lambda: rename_privateuse1_backend("cpu"), "'cpu'")
refused(lambda: rename_privateuse1_backend("a b"), "'a b'")
refused(lambda: rename_privateuse1_backend(3), "expected a str", TypeError)
refused(lambda: torch.device("foo"), "device type")
rename_privateuse1_backend("foo")
rename_privateuse1_backend("foo")
refused(lambda: rename_privateuse1_backend("bar"), "Current backend: foo")
assert torch._C._get_privateuse1_backend_name() == "foo"
assert str(torch.device("foo:1")) == "foo:1" and torch.device("foo").type == "foo"
refused(lambda: torch.ones(2, device="foo"), "foo")
profiler = torch.profiler
assert profiler.ProfilerActivity.FOO is profiler.ProfilerActivity.PrivateUse1
assert profiler.DeviceType.FOO is profiler.DeviceType.PrivateUse1
""")


def test_methods():
    run("""
rename_privateuse1_backend("foo")
refused(lambda: generate_methods_for_privateuse1_backend(for_tensor=False), "for_tensor=True")
generate_methods_for_privateuse1_backend()
packed = nn.utils.rnn.pack_sequence([torch.ones(2)])
assert torch.ones(2).is_foo is False and packed.is_foo is False
assert nn.Module.foo.__name__ == "foo" and not hasattr(torch.UntypedStorage, "foo")
for move in (torch.ones(2).foo, nn.Linear(1, 1).foo, packed.foo):
    refused(move, "foo")
refused(lambda: torch.ones(2).foo(3), "foo:3")
refused(lambda: torch.ones(2).foo("cpu"), "must be foo device")
refused(generate_methods_for_privateuse1_backend, "already been registered with is_foo")
storages = dict.fromkeys(("for_tensor", "for_module", "for_packed_sequence"), False)
generate_methods_for_privateuse1_backend(
    **storages, for_storage=True, unsupported_dtype=[torch.float64]
)
storage = torch.ones(2).untyped_storage()
assert storage.is_foo is False and torch.FloatStorage(2).is_foo is False
refused(storage.foo, "foo")
refused(torch.FloatStorage(2).foo, "foo:0")
refused(torch.DoubleStorage(2).foo, "float64 dtype is not supported")
""")


def test_subclasses_take_the_method_over():
    run("""
rename_privateuse1_backend("foo")
generate_methods_for_privateuse1_backend(for_module=False, for_packed_sequence=False)
class Mine(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, kwargs
moved = torch.ones(2).as_subclass(Mine).foo(1)
assert moved == ("foo", {"device": 1, "non_blocking": False}), moved
assert not hasattr(nn.Module, "foo")
""")


def test_a_module_of_its_functions():
    run("""
class Functions:
    @staticmethod
    def current_device():
        return 7
refused(lambda: torch._register_device_module("foo", Functions), "foo")
rename_privateuse1_backend("foo")
torch._register_device_module("foo", Functions)
assert torch.foo is Functions and torch.get_device_module("foo") is Functions
refused(lambda: torch._register_device_module("foo", Functions), "already been registered")
generate_methods_for_privateuse1_backend()
refused(torch.ones(2).foo, "foo:7")
""")


@pytest.mark.parametrize("name", ["rename_privateuse1_backend", "ThroughputBenchmark"])
def test_names_of_utils(name):
    import rushlight

    assert name in dir(rushlight.utils) and callable(getattr(rushlight.utils, name))
