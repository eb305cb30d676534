"""Public classes and functions are as torch's: where they say that they live, whether they take
attributes, and whether they call the constructors of classes that come after them.
"""

import importlib
import json
import subprocess
import sys
import types
import warnings
from pathlib import Path

import public_names
import pytest
from public_names import GOLDEN, public_objects

import rushlight


def find(module_name, name):
    """What the module has under the name, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are old
        try:
            return getattr(importlib.import_module(module_name), name, None)
        except ImportError:
            return None


def pairs():
    """Yield (module, name, ours, torch's) where both have a class or a function."""
    for module_name, name, ours in public_objects():
        if not str(getattr(ours, "__module__", "")).startswith("rushlight"):
            continue  # what annotations are written with, as Iterable
        theirs = find(f"torch{module_name}", name)
        if callable(theirs) and not isinstance(theirs, types.ModuleType):
            yield module_name, name, ours, theirs


def is_right_home(home, module_name, name, ours, theirs):
    """Does `home` say of `ours` what torch says of `theirs`?"""
    home = "torch" + home.removeprefix("rushlight")
    if home == theirs.__module__:
        return True
    # rushlight may have in one public file what torch has in several, or in a private one: then it
    # is a module that has the very same object in torch.
    is_private = any(part.startswith("_") for part in theirs.__module__.split("."))
    is_public_here = find("rushlight" + theirs.__module__.removeprefix("torch"), name) is ours
    return (is_private or not is_public_here) and find(home, name) == theirs


@pytest.mark.torch
def test_they_say_that_they_live_where_torch_has_them():
    pytest.importorskip("torch")
    found = {}
    for module_name, name, ours, theirs in pairs():
        if name == "StorageBase":
            continue  # another name of UntypedStorage
        home = getattr(ours, "__module__", None)
        is_ours = isinstance(home, str) and home.partition(".")[0] == "rushlight"
        if is_ours and isinstance(getattr(theirs, "__module__", None), str):
            # Under several names torch may have several objects: it is enough to be as one.
            right = is_right_home(home, module_name, name, ours, theirs)
            answers = found.setdefault((id(ours), name), [False, []])
            answers[0] |= right
            answers[1].append((f"{module_name}.{name}", home, theirs.__module__))
    assert len(found) > 1500
    assert [places for right, places in found.values() if not right] == []


def test_where_public_names_live():
    # `python tests/public_names.py` writes the file anew; test_they_say_that_they_live_where_torch_
    # has_them says whether it is right.
    # In a process of its own: modules show more names once others have used them.
    command = [sys.executable, str(Path(public_names.__file__)), "--print"]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert found == GOLDEN.read_text()


def test_where_they_say_that_they_live_they_are():
    for module_name, name, value in public_objects():
        home = getattr(value, "__module__", None)
        if not isinstance(home, str) or home.partition(".")[0] != "rushlight":
            continue
        path = f"{module_name}.{name}"
        found = importlib.import_module(home)
        if isinstance(value, type):
            for part in value.__qualname__.split("."):
                found = getattr(found, part)
            assert found is value, path


# --- attributes


def takes_attributes(thing):
    try:
        thing._mark_of_a_test = 1
    except (AttributeError, TypeError):
        return False
    del thing._mark_of_a_test
    return True


@pytest.mark.torch
def test_they_take_attributes_where_torchs_do():
    pytest.importorskip("torch")
    # Functions that are compiled here and Python's in torch cannot take any.
    refused = [
        f"{module_name}.{name}"
        for module_name, name, ours, theirs in pairs()
        if not isinstance(ours, types.BuiltinFunctionType)
        and takes_attributes(theirs)
        and not takes_attributes(ours)
    ]
    assert refused == []


# --- constructors

# Their blocks are entered many times in each step of a training.
NOT_COOPERATIVE = {"enable_grad", "inference_mode", "no_grad"}
ABORTS = {"PT2ArchiveWriter"}  # torch's ends the process when it is given no path


def some_arguments(lib):
    """Arguments of which one or other suits nearly every class."""
    nn, transforms = lib.nn, lib.distributions.transforms
    two, eye = lib.ones(2), lib.eye(2)
    normal = lib.distributions.Normal(two, two)
    parts = [transforms.ExpTransform()]

    def optimizer():
        return lib.optim.SGD([nn.Parameter(lib.ones(2))], lr=0.1)

    yield ()
    for one in (1, 2, 2.0, two, [1], [two], "cpu", range(3), abs, parts, normal, eye):
        yield (one,)
    for make in (lambda: nn.Linear(2, 2), optimizer, lambda: [nn.Parameter(lib.ones(2))]):
        yield (make(),)
    for first in (1, 2, two, eye, normal, range(3), [1]):
        for second in (1, 2, two, 0.5, eye, parts, abs):
            yield (first, second)
    for second in (1, 0.5, abs):
        yield (optimizer(), second)
    for first in (1, 2, two, range(3), [1], normal):
        for second in (1, 2, two, [1], 0.5):
            for third in (1, two, False):
                yield (first, second, third)
    yield (optimizer(), 0.1, 5, 5)
    yield (4, 2, 1, 1)


def calls_what_comes_after(cls, arguments):
    """Is the constructor of a base after `cls` called? None if these arguments do not suit."""
    called = []

    class After:
        def __init__(self, *args, **kwargs):
            called.append(True)
            super().__init__()

    try:
        type(cls)("Both", (cls, After), {})(*arguments)
    except Exception:  # whatever a constructor has against them
        return None
    return bool(called)


def constructors():
    """How many were tried, and the classes whose constructors do not go on."""
    torch = pytest.importorskip("torch")
    classes = {ours: (module_name, name, theirs) for module_name, name, ours, theirs in pairs()
               if isinstance(ours, type) and isinstance(theirs, type) and name not in ABORTS
               }  # fmt: skip
    tried, wrong = 0, []
    for ours, (module_name, name, theirs) in classes.items():
        for arguments, of_torch in zip(some_arguments(rushlight), some_arguments(torch)):
            expected = calls_what_comes_after(theirs, of_torch)
            found = calls_what_comes_after(ours, arguments)
            if expected is None or found is None:
                continue
            tried += 1
            if expected and not found and name not in NOT_COOPERATIVE:
                wrong.append(f"{module_name}.{name}")
            break
    return tried, wrong


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
def test_constructors_go_on_where_torchs_do(tmp_path):
    pytest.importorskip("torch")
    # In a process of its own, as some constructors change the state of the library, and classes of
    # files close the descriptors 1 and 2: a new one, as torch's threads do not survive a fork.
    answer = tmp_path / "answer.json"
    code = (
        f"import json, pathlib, sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "import test_public_names as t;"
        "pathlib.Path(sys.argv[1]).write_text(json.dumps(t.constructors()))"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(answer)]
    # Stores make files of the names that they are given.
    subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, check=False)
    tried, wrong = json.loads(answer.read_text())
    assert tried > 300
    assert wrong == []


def test_mixins_after_a_class_are_constructed():
    distributions, data = rushlight.distributions, rushlight.utils.data
    for cls, arguments in (
        (distributions.Normal, (0.0, 1.0)),
        (distributions.TransformedDistribution, (distributions.Normal(0.0, 1.0), [])),
        (distributions.transforms.ExpTransform, ()),
        (distributions.transforms.ComposeTransform, ([],)),
        (distributions.constraints.greater_than, (0,)),
        (distributions.constraints.interval, (0, 1)),
        (data.Sampler, ()),
        (data.ConcatDataset, ([[1]],)),
        (rushlight.Generator, ()),
    ):
        assert calls_what_comes_after(cls, arguments), cls
