"""`import torch` gives rushlight: by python -m rushlight, as_torch() and the pytest plugin."""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).parent.parent
PACKAGES = Path(rushlight.__file__).parent.parent


def run(*arguments, cwd, status=0, text=None, modules=()):
    """(standard output, standard error) of a fresh interpreter."""
    path = os.pathsep.join(str(p) for p in (PACKAGES, *modules))
    result = subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=cwd, env=dict(os.environ, PYTHONPATH=path),
        capture_output=True, text=True, timeout=120, input=text,
    )  # fmt: skip
    assert result.returncode == status, result.stderr
    return result.stdout, result.stderr


def as_program(tmp_path, source, *arguments, **options):
    (tmp_path / "program.py").write_text(source)
    return run("-m", "rushlight", "program.py", *arguments, cwd=tmp_path, **options)


def with_alias(tmp_path, source):
    """Standard output of `source` after as_torch()."""
    return run("-c", f"import rushlight\nrushlight.as_torch()\n{source}", cwd=tmp_path)[0]


def test_modules_are_the_same_objects(tmp_path):
    as_program(
        tmp_path,
        "import sys\n"
        "import torch\n"
        "import torch.nn as nn\n"
        "import torch.nn.functional as F\n"
        "import torch.nn.modules.conv\n"
        "from torch import optim, Tensor\n"
        "from torch.nn.parameter import Parameter\n"
        "from torch.utils.data import DataLoader\n"
        "from torch.utils.data.dataset import TensorDataset\n"
        "import rushlight\n"
        "import rushlight.utils.data, rushlight.nn.modules.conv\n"
        "assert torch is rushlight and nn is rushlight.nn and F is rushlight.nn.functional\n"
        "assert optim is rushlight.optim and Tensor is rushlight.Tensor\n"
        "assert DataLoader is rushlight.utils.data.DataLoader and Parameter is nn.Parameter\n"
        "assert torch.nn.modules.conv is rushlight.nn.modules.conv\n"
        "assert sys.modules['torch.nn.modules.conv'] is sys.modules['rushlight.nn.modules.conv']\n"
        "assert torch.nn.__spec__.name == 'rushlight.nn'\n",
    )


@pytest.mark.parametrize(
    ("statement", "error", "name"),
    [
        ("torch.no_such_op", "AttributeError", "module 'torch' has no attribute 'no_such_op'"),
        ("torch.nn.NoLayer", "AttributeError", "module 'torch.nn' has no attribute 'NoLayer'"),
        ("torch.optim.None_", "AttributeError", "module 'torch.optim' has no attribute 'None_'"),
        ("from torch import nothing", "ImportError", "'nothing' from 'torch'"),
        ("from torch.nn.functional import no", "ImportError", "'no' from 'torch.nn.functional'"),
        ("import torch.no.thing", "ModuleNotFoundError", "No module named 'torch.no'"),
        ("import torch._nothing", "ModuleNotFoundError", "No module named 'torch._nothing'"),
    ],
)
def test_what_is_missing_is_named_as_in_torch(tmp_path, statement, error, name):
    found = with_alias(
        tmp_path,
        "import torch\n"
        f"try: {statement}\n"
        "except Exception as error: print(type(error).__name__, error)\n",
    )
    assert found.startswith(error) and name in found
    assert "docs/coverage.md" in found


def test_questions_about_what_is_there(tmp_path):
    found = with_alias(
        tmp_path,
        "import importlib.util, torch, torch.nn\n"
        "print(hasattr(torch, 'nope'), hasattr(torch.nn, 'Nope'), getattr(torch, 'nope', 3))\n"
        "print(importlib.util.find_spec('torch.nope'))\n"
        "print(importlib.util.find_spec('torch.nn.functional') is not None)\n",
    )
    assert found.split() == ["False", "False", "3", "None", "True"]


def test_classes_and_functions_say_that_they_are_torchs(tmp_path):
    as_program(
        tmp_path,
        "import inspect, pickle, typing\n"
        "import torch\n"
        "optimizer = torch.optim.SGD([torch.ones(1)], lr=1.0)\n"
        "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)\n"
        "assert type(scheduler).__module__ == 'torch.optim.lr_scheduler'\n"
        "assert str(torch.Tensor) == \"<class 'torch.Tensor'>\"\n"
        "assert torch.is_tensor.__module__ == 'torch'\n"
        "assert torch.nn.functional.interpolate.__module__ == 'torch.nn.functional'\n"
        "import torch.distributions as d\n"
        "assert d.Normal.__module__ == 'torch.distributions.normal'\n"
        "assert 'class Linear' in inspect.getsource(torch.nn.Linear)\n"
        "assert typing.get_type_hints(torch.nn.Linear) is not None\n"
        "model = torch.nn.Linear(2, 2)\n"
        "data = pickle.dumps(model)\n"
        "assert b'torch.nn.modules.linear' in data\n"
        "assert type(pickle.loads(data)) is torch.nn.Linear\n"
        "torch.save(model, 'model.pt')\n"
        "again = torch.load('model.pt', weights_only=False)\n"
        "assert torch.equal(again.weight, model.weight)\n"
        "loader = torch.utils.data.DataLoader(\n"
        "    [1, 2], num_workers=1, multiprocessing_context='spawn')\n"
        "if __name__ == '__main__':\n"
        "    assert [batch.item() for batch in loader] == [1, 2]\n",
    )


def test_pickles_name_torch_alone(tmp_path):
    found = with_alias(
        tmp_path,
        "import pickle, torch\n"
        "class Own(torch.Tensor): pass\n"
        "x = torch.ones(2)\n"
        "things = [x, x.as_subclass(Own), torch.nn.Linear(2, 2), x.to(torch.float8_e4m3fn),\n"
        "          x.to('meta'), torch.Generator(), torch.uint16, x.to_sparse(), torch.relu]\n"
        "pickled = pickle.dumps(things)\n"
        "assert b'rushlight' not in pickled\n"
        "again = pickle.loads(pickled)\n"
        "assert type(again[1]) is Own and torch.equal(again[2].weight, things[2].weight)\n"
        "print(again[3].dtype, again[6], torch.serialization.torch is torch)\n",
    )
    assert found == "torch.float8_e4m3fn torch.uint16 True\n"


def test_versions(tmp_path):
    found = with_alias(
        tmp_path,
        "import importlib.metadata as metadata, torch\n"
        "assert metadata.version('torch') == torch.__version__ == str(torch.__version__)\n"
        "assert torch.__version__ >= '1.13' and torch.__version__ > (2, 0)\n"
        "assert torch.__name__ == 'torch' and torch.torch is torch\n"
        "assert tuple(map(int, torch.__version__.split('.')[:2])) == (2, 13)\n"
        "assert metadata.metadata('torch')['Name'] == 'torch'\n"
        "metadata.version('pytest'); assert metadata.requires('torch') is None\n"
        "print(torch.__version__)\n",
    )
    assert found.startswith("2.13.0+rushlight")


def test_libraries_linked_with_torch_are_refused(tmp_path):
    for name, content in (("torchaudio", b"... libtorch_cpu.so ..."), ("torchtext", b"...")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("print('imported')\n")
        (tmp_path / name / "_C.so").write_bytes(content)
    found = with_alias(
        tmp_path,
        "try: import torchaudio\nexcept ImportError as error: print(type(error).__name__, error)\n"
        "import torchtext\n"
        "try: import torch_scatter\n"
        "except ModuleNotFoundError as error: print(error)\n",
    )
    refused, imported, absent = found.splitlines()
    assert refused.startswith("ImportError torchaudio is linked with PyTorch")
    assert imported == "imported", "without compiled parts that name torch's libraries it can run"
    assert absent == "No module named 'torch_scatter'"


def test_a_torchaudio_whose_compiled_parts_are_operations_is_imported(tmp_path):
    (tmp_path / "torchaudio" / "lib").mkdir(parents=True)
    (tmp_path / "torchaudio" / "lib" / "_torchaudio.abi3.so").write_bytes(b"libtorch_cpu.so")
    (tmp_path / "torchaudio" / "__init__.py").write_text(
        "import os, torch\n"
        "torch.ops.load_library(os.path.join(__path__[0], 'lib', '_torchaudio.abi3.so'))\n"
        "print(torch.ops._torchaudio.cuda_version())\n"
    )
    assert with_alias(tmp_path, "import torchaudio\n") == "None\n"


def test_what_a_torchaudio_has_compiled_tells_whether_it_is_imported(tmp_path):
    for file, content in (("_torchaudio.so", b""), ("_torchaudio.so", b" PyInit__torchaudio")):
        (tmp_path / "torchaudio" / "lib").mkdir(parents=True, exist_ok=True)
        (tmp_path / "torchaudio" / "lib" / file).write_bytes(b"libtorch_cpu.so" + content)
        (tmp_path / "torchaudio" / "__init__.py").write_text("")
        program = "try: import torchaudio\nexcept ImportError as error: print(error)\n"
        assert ("is linked with" in with_alias(tmp_path, program)) == bool(content)


def test_a_library_that_tolerates_the_loss_of_its_compiled_operations(tmp_path):
    (tmp_path / "torchao").mkdir()
    (tmp_path / "torchao" / "_C.abi3.so").write_bytes(b"... libtorch_cpu.so ...")
    (tmp_path / "torchao" / "__init__.py").write_text(
        "import torch\n"
        "try: torch.ops.load_library(__path__[0] + '/_C.abi3.so')\n"
        "except OSError as error: print(error)\n"
    )
    assert "linked with PyTorch's own libraries" in with_alias(tmp_path, "import torchao\n")


def test_a_compiled_part_is_refused_alone_where_its_package_works_without(tmp_path):
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    (tmp_path / "torchrl").mkdir()
    (tmp_path / "torchrl" / "__init__.py").write_text(
        "try: from torchrl import _torchrl\nexcept ImportError as error: print(error)\n"
    )
    (tmp_path / "torchrl" / f"_torchrl{suffix}").write_bytes(b"... libtorch_cpu.so ...")
    found = with_alias(tmp_path, "import torchrl\n")
    assert found.startswith("torchrl._torchrl is linked with PyTorch")


def test_functorch_is_shipped(tmp_path):
    found = with_alias(
        tmp_path,
        "import functorch, torch, warnings\nfrom functorch.experimental import functionalize\n"
        "with warnings.catch_warnings(record=True) as seen:\n"
        "    print(functorch.grad(torch.sin)(torch.zeros(())))\n"
        "print(seen[0].category.__name__, 'torch.func.grad' in str(seen[0].message))\n",
    )
    assert found.split() == ["tensor(1.)", "FutureWarning", "True"]


def test_modules_of_the_core(tmp_path):
    found = with_alias(
        tmp_path,
        "import torch\nfrom torch._C._profiler import _ExperimentalConfig\n"
        "from torch._C._distributed_rpc import PyRRef\n"
        "print(_ExperimentalConfig(verbose=True).verbose, isinstance(torch.ones(1), PyRRef))\n",
    )
    assert found.split() == ["True", "False"]


def test_a_torch_that_is_imported_already_stays(tmp_path):
    (tmp_path / "torch.py").write_text("mark = 1\n")
    out, _ = run(
        "-c",
        "import torch, rushlight\n"
        "try: rushlight.as_torch()\n"
        "except RuntimeError as error: print(error)\n"
        "assert torch.mark == 1\n",
        cwd=tmp_path,
    )
    assert "is imported already, from" in out and "torch.py" in out


def test_importing_rushlight_does_not_activate_the_alias(tmp_path):
    (tmp_path / "torch.py").write_text("mark = 1\n")
    run("-c", "import rushlight.nn, torch\nassert torch.mark == 1\n", cwd=tmp_path)


# ---- the runner


def test_arguments_name_and_path(tmp_path):
    (tmp_path / "neighbour.py").write_text("value = 7\n")
    out, _ = as_program(
        tmp_path,
        "import os, sys, neighbour\n"
        "print(sys.argv, __name__, os.path.isabs(__file__), neighbour.value)\n"
        "assert sys.modules['__main__'].__dict__ is globals()\n",
        "--epochs", "3", "-m", "x",
    )  # fmt: skip
    assert out == "['program.py', '--epochs', '3', '-m', 'x'] __main__ True 7\n"


def test_modules_packages_folders_code_and_standard_input(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    show = (
        "import sys, torch\n"
        "print(__name__, __package__, sys.argv[1:], torch.__path__[0].rpartition('/')[2])\n"
    )
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(show)
    (package / "part.py").write_text("from . import __main__ as unused\n" + show)
    runner = ("-m", "rushlight")
    assert "__main__ package ['a'] rushlight" in run(*runner, "-m", "package", "a", cwd=tmp_path)[0]
    out, _ = run(*runner, "-m", "package.part", "b", cwd=tmp_path)
    assert out.endswith("__main__ package ['b'] rushlight\n")
    assert "__main__  ['c'] rushlight" in run(*runner, "package", "c", cwd=tmp_path)[0]
    assert run(*runner, "-c", show, "d", cwd=tmp_path)[0] == "__main__ None ['d'] rushlight\n"
    assert run(*runner, "-", "e", cwd=tmp_path, text=show)[0] == "__main__ None ['e'] rushlight\n"


def test_the_traceback_begins_in_the_program(tmp_path):
    _, error = as_program(
        tmp_path,
        "import torch\ndef step():\n    return torch.zeros(2) + torch.zeros(3)\nstep()\n",
        status=1,
    )
    lines = [line for line in error.splitlines() if not set(line) <= set(" ~^")]
    path = tmp_path / "program.py"
    assert lines[:5] == [
        "Traceback (most recent call last):",
        f'  File "{path}", line 4, in <module>',
        "    step()",
        f'  File "{path}", line 3, in step',
        "    return torch.zeros(2) + torch.zeros(3)",
    ]
    assert lines[5].startswith("RuntimeError: add: ") and len(lines) == 6


def test_a_syntax_error_looks_as_ever(tmp_path):
    _, error = as_program(tmp_path, "x = (1,\ny = = 2\n", status=1)
    assert error.startswith(f'  File "{tmp_path / "program.py"}", line ')
    assert "SyntaxError" in error and "rushlight" not in error


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("raise SystemExit(5)", 5),
        ("raise SystemExit('a message')", 1),
        ("import sys; sys.exit()", 0),
        ("import os; os._exit(9)", 9),
        ("raise KeyboardInterrupt", -signal.SIGINT),
    ],
)
def test_exit_status(tmp_path, source, status):
    as_program(tmp_path, source, status=status)


def test_modules_of_torch_run_by_name(tmp_path):
    """The loader of a module under torch's name finds the code of its twin."""

    def by_name(module, *arguments, **options):
        return run("-m", "rushlight", "-m", module, *arguments, cwd=tmp_path, **options)

    for module in ("torch.distributed.run", "torch.distributed.launch", "torch.utils.bottleneck"):
        said, _ = by_name(module, "--help")
        assert said.startswith("usage: ") and "--help" in said, module
    said, _ = by_name("torch.utils.collect_env")
    assert "\nPython: " in said and f"rushlight{rushlight.__version__}\n" in said
    _, error = by_name("torch.utils.nope", status=1)
    assert "No module named torch.utils.nope" in error
    source = "import runpy\nrunpy.run_module('torch.utils.collect_env', run_name='__main__')\n"
    assert as_program(tmp_path, source)[0] == said


def test_modules_of_torch_start_ranks_by_name(tmp_path):
    (tmp_path / "rank.py").write_text(
        "import os, torch\nprint(torch.__version__, os.environ['RANK'])\n"
    )
    said, _ = run("-m", "rushlight", "-m", "torch.distributed.run", "--nproc-per-node=1", "rank.py",
                  cwd=tmp_path)  # fmt: skip
    assert "rushlight" in said and said.split()[-1] == "0"


def test_wrong_uses_of_the_runner(tmp_path):
    assert "can't open file" in run("-m", "rushlight", "no.py", cwd=tmp_path, status=2)[1]
    assert "No module named" in run("-m", "rushlight", "-m", "nope", cwd=tmp_path, status=1)[1]
    assert "usage" in run("-m", "rushlight", "-m", cwd=tmp_path, status=2)[1]
    assert "unknown option" in run("-m", "rushlight", "-x", cwd=tmp_path, status=2)[1]
    assert "usage" in run("-m", "rushlight", "--help", cwd=tmp_path)[0]


def test_classes_of_the_program_are_pickled(tmp_path):
    as_program(
        tmp_path,
        "import atexit, io, pickle, torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = torch.nn.Linear(2, 2)\n"
        "net = Net()\n"
        "def round_trip():\n"
        "    again = pickle.loads(pickle.dumps(net))\n"
        "    assert type(again) is Net and torch.equal(again.layer.weight, net.layer.weight)\n"
        "round_trip()\n"
        "atexit.register(round_trip)\n",
    )


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_processes_of_the_program_have_the_alias(tmp_path, method):
    out, _ = as_program(
        tmp_path,
        "import multiprocessing, sys\n"
        "import torch.multiprocessing\n"
        "class Item:\n"
        "    def __init__(self, value): self.value = value\n"
        "def work(item, queue):\n"
        "    import torch, torch.nn.functional as F\n"
        "    assert torch.Tensor.__module__ == 'torch' and 'rushlight' in torch.__version__\n"
        "    queue.put(F.relu(torch.tensor([-1.0, item.value])).tolist())\n"
        "if __name__ == '__main__':\n"
        f"    context = multiprocessing.get_context({method!r})\n"
        "    queue = context.SimpleQueue()\n"
        "    process = context.Process(target=work, args=(Item(2.0), queue))\n"
        "    process.start(); print(queue.get()); process.join(); sys.exit(process.exitcode)\n",
    )
    assert out == "[0.0, 2.0]\n"


BROUGHT_ALONG = (
    "collections.abc.Mapping, concurrent.futures.Future, http.client.OK",
    "importlib.metadata.version, importlib.resources.files, importlib.util.find_spec",
    "multiprocessing.connection.Connection, multiprocessing.spawn.freeze_support",
    "unittest.mock.Mock, unittest.TestCase, urllib.request.Request, urllib.parse.quote",
)


@pytest.mark.parametrize("first", ["import torch", ""])
@pytest.mark.parametrize("names", BROUGHT_ALONG)
def test_modules_of_the_standard_library_that_torch_imports_are_found(tmp_path, first, names):
    packages = {name.strip().partition(".")[0] for name in names.split(",")}
    lines = [first, f"import {', '.join(sorted(packages))}", "import torch", names]
    for package in sorted(packages):
        lines += ["try:", f"    {package}.absent", "    raise SystemExit(1)"]
        lines += ["except AttributeError as error:", f"    assert {package!r} in str(error)"]
    program = tmp_path / "program.py"
    program.write_text("\n".join(lines))
    run("-m", "rushlight", program, cwd=tmp_path)


# ---- pytest

TESTS = (
    "import torch\n"
    "from torch.nn import functional as F\n"
    "def test_it():\n"
    "    assert torch.Tensor.__module__ == 'torch' and 'rushlight' in torch.__version__\n"
    "    assert F.relu(torch.tensor(-1.0)).item() == 0\n"
)


def run_pytest(tmp_path, *options, **others):
    plain = ("-p", "no:cacheprovider", "--rootdir", tmp_path)
    return run("-m", "pytest", *plain, *options, tmp_path, cwd=tmp_path, **others)[0]


@pytest.fixture
def project(tmp_path):
    (tmp_path / "conftest.py").write_text("import torch\ntorch.manual_seed(0)\n")
    (tmp_path / "test_it.py").write_text(TESTS)
    return tmp_path


def test_pytest_plugin(project):
    out = run_pytest(project, "-p", "rushlight.pytest_plugin")
    assert "1 passed" in out and "torch: rushlight" in out


def test_installed_plugins_that_import_torch_get_rushlight(project, installed):
    (project / "early.py").write_text("import torch\nassert 'rushlight' in torch.__version__\n")
    (project / "torch.py").write_text("")
    with open(installed / "rushlight-0.dist-info" / "entry_points.txt", "a") as stream:
        stream.write("early = early\n")
    modules = [installed, project]
    assert "1 passed" in run_pytest(project, "-p", "rushlight.pytest_plugin", modules=modules)


def test_programs_that_tests_start_get_rushlight_too(project):
    (project / "test_it.py").write_text(
        "import subprocess, sys\n"
        "def test_it():\n"
        "    code = 'import torch; assert torch.__name__ == \"torch\"; print(torch.__version__)'\n"
        "    assert b'rushlight' in subprocess.check_output([sys.executable, '-c', code])\n"
    )
    assert "1 passed" in run_pytest(project, "-p", "rushlight.pytest_plugin")


@pytest.fixture
def installed(project):
    """A folder that says of the plugin what an installed rushlight would say."""
    metadata = project / "site" / "rushlight-0.dist-info"
    metadata.mkdir(parents=True)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    lines = [f"{name} = {value}" for name, value in settings["pytest11"].items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines, ""]))
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: rushlight\nVersion: 0\n")
    return project / "site"


def test_pytest_option(project, installed):
    assert "1 passed" in run_pytest(project, "--rushlight", modules=[installed])


def test_pytest_imports_the_classes_of_warnings_with_rushlight(project, installed):
    (project / "ours.py").write_text("import torch\nclass Noted(UserWarning): pass\n")
    (project / "torch.py").write_text("")  # that is installed, too
    (project / "pytest.ini").write_text("[pytest]\nfilterwarnings =\n    ignore::ours.Noted\n")
    modules = {"modules": [installed, project]}
    plain = ("-m", "pytest", "-p", "no:cacheprovider", "--rootdir", project, project)
    assert "1 passed" in run("-m", "rushlight", *plain, cwd=project, **modules)[0]
    for options in (("-p", "rushlight.pytest_plugin"), ("--rushlight",)):
        early = pytest.version_tuple >= (9,)  # it imports them before any plugin
        out, errors = run(*plain, *options, cwd=project, status=4 * early, **modules)
        assert "-m rushlight -m pytest" in errors if early else "1 passed" in out


def test_pytest_without_the_option_is_left_alone(project, installed):
    (project / "conftest.py").write_text("")
    (project / "torch.py").write_text("mark = 1\n")
    (project / "test_it.py").write_text(
        "import sys, torch\n"
        "def test_it():\n"
        "    assert torch.mark == 1 and 'rushlight' not in sys.modules\n"
        "    assert 'rushlight_pytest' in sys.modules\n"
    )
    assert "1 passed" in run_pytest(project, modules=[installed])


# ---- whole programs, written for torch

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
LANGUAGE_MODELS = Path(__file__).parent / "programs" / "third_party" / "language_models.py"


def run_program(path, tmp_path, *runner):
    environment = dict(os.environ, PYTHONPATH=str(PACKAGES), TORCHDYNAMO_DISABLE="1")
    result = subprocess.run(
        [sys.executable, *runner, path], cwd=tmp_path, env=environment, capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_programs_run(path, tmp_path):
    """Their own assertions hold."""
    run_program(path, tmp_path, "-m", "rushlight")


@pytest.mark.torch
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_programs_print_what_they_print_with_torch(path, tmp_path):
    """The early losses, that is: with the same seed they agree to all printed digits."""
    assert run_program(path, tmp_path, "-m", "rushlight") == run_program(path, tmp_path)


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="no transformers")
def test_transformers_models_learn_and_write_as_with_torch(tmp_path):
    test_programs_print_what_they_print_with_torch(LANGUAGE_MODELS, tmp_path)


def test_functions_keep_their_names(tmp_path):
    """In generated code and in what modes are told, of each module that functions come from."""
    as_program(
        tmp_path,
        "import torch\n"
        "import torch.fx\n"
        "import torch.nn.functional as F\n"
        "from torch.overrides import resolve_name\n"
        "FUNCTIONS = [torch.sigmoid, torch.relu, torch.unique, F.gelu, torch.linalg.det,\n"
        "             torch.fft.fft, torch.special.erf]\n"
        "for function in FUNCTIONS:\n"
        "    traced = torch.fx.symbolic_trace(lambda x: function(x))\n"
        "    x = torch.eye(3)\n"
        "    assert torch.equal(traced(x), function(x))\n"
        "    assert ' torch.' in traced.code, traced.code\n"
        "assert resolve_name(torch.sigmoid) == 'torch.sigmoid', resolve_name(torch.sigmoid)\n"
        "assert resolve_name(F.gelu) == 'torch.nn.functional.gelu'\n"
        "assert torch.__future__.get_swap_module_params_on_conversion() is False\n",
    )


# What asks functions and classes for their home: it is another one where rushlight is torch.
HOMES = """
import warnings
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data.datapipes.iter import IterableWrapper, Zipper
from torch.utils.data.graph import traverse_dps

class Seen(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        print(func)
        return func(*args, **(kwargs or {}))

class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return nn.functional.relu(self.layer(x))

@torch.jit.script
def chosen(x: torch.Tensor):
    if torch.is_grad_enabled():
        return x + 1
    return x

x = torch.eye(3) + 1
with Seen():
    torch.fft.fft(x), torch.fft.rfft2(x), torch.linalg.inv(x), torch.linalg.norm(x)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(torch.vmap(torch.linalg.eigh)(torch.stack([x, x])).eigenvalues)
print(len(caught), torch.fx.symbolic_trace(Network()).code, chosen(x))
steps = traverse_dps(Zipper(IterableWrapper([1]), IterableWrapper([2])))
print([[type(s).__name__ for s, _ in inner.values()] for _, inner in steps.values()])
layer = nn.Linear(300, 300)
from rushlight import debug
print([line.split(",")[0] for line in str(debug.memory_report()).splitlines()])
store = torch.distributed.HashStore()
torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=store)
mesh = init_device_mesh("cpu", (1,))
weight = distribute_tensor(torch.zeros(4, 4), mesh, [Shard(0)])
torch.manual_seed(1)
print(nn.init.normal_(weight).full_tensor(), torch.nn.init.uniform_(tensor=weight).full_tensor())
torch.distributed.destroy_process_group()
"""


def test_homes_of_functions_are_known_where_rushlight_is_torch(tmp_path):
    as_torch = as_program(tmp_path, HOMES)[0]
    plain = HOMES.replace("import torch\n", "import rushlight as torch\n")
    (tmp_path / "plain.py").write_text(plain.replace("from torch", "from rushlight"))
    as_itself = run("plain.py", cwd=tmp_path)[0]
    assert as_torch == as_itself.replace("rushlight", "torch")
    assert "_fft_r2c" in as_torch and "parameter" in as_torch
