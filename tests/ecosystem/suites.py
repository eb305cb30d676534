"""Gets the libraries with their suites, and runs them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = Path(os.environ.get("ECOSYSTEM", HERE.parents[1] / "build" / "ecosystem"))
PYTHON = ROOT / "venv" / "bin" / "python"
TORCH = "torch==2.13.0"
TOOLS = """numpy scipy pandas scikit-learn pytest<9 pytest-timeout pytest-mock pytest-cases
    hypothesis expecttest parameterized setuptools wheel hatchling hatch-vcs flit-core poetry-core
    setuptools-scm pdm-backend mpi4py>=4 mpich>=4.3""".split()  # the last two for rushlight
SECONDS_PER_TEST = 60


def _call(*command, **options):
    print("+", *command, flush=True)
    return subprocess.run([*map(str, command)], **options).returncode == 0


def _pip(*arguments):
    return _call(PYTHON, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)


def prepare():
    """Make the environment that all libraries share, if there is none."""
    if PYTHON.exists():
        return
    ROOT.mkdir(parents=True, exist_ok=True)
    _call(sys.executable, "-m", "venv", ROOT / "venv", check=True)
    (ROOT / "constraints.txt").write_text(TORCH + "\n")
    if not _pip("install", TORCH, *TOOLS):
        raise SystemExit("ecosystem: pip could not install torch")


def folder(library):
    """Where the source of a library lies: under a name that cannot be imported."""
    return ROOT / "src" / f"{library.name}-{library.version}"


def fetch(library):
    """Install a library with what its suite needs, and unpack its source; True if all is there."""
    if folder(library).exists():
        return True
    prepare()
    requirement = f"{library.name}=={library.version}"
    wanted = [*library.needs, requirement] if library.install else [*library.needs]
    constraints = ROOT / "constraints.txt"
    constraints.write_text(TORCH + "\n")
    if wanted and not _pip("install", "--no-build-isolation", "-c", constraints, *wanted):
        return False
    unpacked = ROOT / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    unpacked.mkdir()
    if library.archive:
        return _unpack_tests(library, unpacked) and _move(unpacked, library)
    if library.repository:
        base = os.environ.get("ECOSYSTEM_GIT", "https://github.com/{}")
        source = base.format(library.repository, library.repository.replace("/", "+"))
        (unpacked / "tree").mkdir()
        return (
            _call("git", "clone", "--quiet", "--no-checkout", source, unpacked / "tree")
            and _call("git", "-C", unpacked / "tree", "checkout", "--quiet", library.commit)
            and _move(unpacked, library)
        )
    arguments = ("--no-deps", "--no-build-isolation", "--no-binary", ":all:")
    if not _pip("download", *arguments, "--dest", unpacked, requirement):
        return False
    (archive,) = unpacked.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        files.extractall(unpacked, filter="data")
    archive.unlink()
    return _move(unpacked, library)


def _unpack_tests(library, unpacked):
    archive = ROOT / "archives" / library.archive.rpartition("/")[2]
    archive.parent.mkdir(exist_ok=True)
    if not archive.exists() and not _call("curl", "-fsSLo", archive, library.archive):
        return False
    with tarfile.open(archive) as files:
        inside = (m for m in files if m.name.partition("/")[2].startswith(f"{library.folder}/"))
        files.extractall(unpacked, members=inside, filter="data")
    return True


def _move(unpacked, library):
    (tree,) = unpacked.iterdir()
    sources = folder(library).parent
    sources.mkdir(exist_ok=True)
    (sources / "pytest.ini").touch()  # of a suite without settings: not those of this project
    tree.rename(folder(library))
    return True


def record_of(library, side):
    """The file in which the outcomes of a run lie; `side` is "torch" or "rushlight"."""
    return ROOT / "outcomes" / f"{library.name}.{side}.jsonl"


def outcomes(library, side):
    """The lines of `record.py`; none if the suite was not run."""
    path = record_of(library, side)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def passed(library, side):
    """The tests that passed, and in no phase failed."""
    entries = outcomes(library, side)
    failed = {entry["test"] for entry in entries if entry["outcome"] == "failed"}
    return {entry["test"] for entry in entries if entry["outcome"] == "passed"} - failed


def run(library, side, seconds):
    """Run the suite; with rushlight, only the tests that passed with torch.

    Returns how the process ended: pytest's exit status, minus the signal's number, or None if it
    was stopped after `seconds`.
    """
    record, source = record_of(library, side), folder(library) / library.folder
    record.parent.mkdir(exist_ok=True)
    record.unlink(missing_ok=True)
    paths = [str(HERE)] if library.install else [str(HERE), str(source), str(source / "src")]
    environment = {
        **os.environ, **dict(library.environment), "PYTHONPATH": os.pathsep.join(paths),
        "ECOSYSTEM_RECORD": str(record), "ECOSYSTEM_SIDE": side,
        "ECOSYSTEM_SAMPLE": str(library.sample),
        "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg",
        "PYTHONHASHSEED": "0", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "",
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    named = [*library.shared_plugins, "record"]
    if side == "rushlight":
        only = record.with_suffix(".only")
        only.write_text("\n".join(sorted(passed(library, "torch"))))
        environment["ECOSYSTEM_ONLY"] = str(only)
        environment["PYTHONPATH"] += os.pathsep + str(HERE.parents[1] / "python")
        named = ["rushlight.pytest_plugin", *library.plugins, *named]
    plugins = [part for name in named for part in ("-p", name)]
    command = [
        PYTHON, "-m", "pytest", *plugins, "-p", "no:cacheprovider", "-o", "addopts=", "-q",
        "--tb=short", "--continue-on-collection-errors", "--timeout", SECONDS_PER_TEST,
        "--rootdir", source,
        *(f"--ignore={path}" for path in library.ignore), *library.arguments, *library.tests,
    ]  # fmt: skip
    with open(record.with_suffix(".log"), "w") as log:
        process = subprocess.Popen(
            [*map(str, command)], cwd=source, env=environment, stdout=log,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # what the tests started, too
            except ProcessLookupError:
                process.wait()
