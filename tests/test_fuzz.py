"""A slice of the fuzzer (tests/fuzz) from a fixed seed, and that it finds what it should."""

import subprocess
import sys

import pytest
from fuzz import __main__ as fuzz

FIRST = 1_000_000
# Cases whose outcome hangs on timing (memory that a thread changes) are left to `make fuzz`.
SLICE = {
    "calls": 30, "programs": 12, "files": 200, "exported": 15, "hooks": 40, "transforms": 60,
    "wrappers": 30, "training": 25,
}  # fmt: skip


@pytest.mark.parametrize("kind", SLICE)
def test_slice(kind):
    found, cases, calls, _ = fuzz.run(kind, FIRST, 120, count=SLICE[kind], timed=False)
    assert not found, "\n".join(f"--seed {one['seed']}: {one}" for one in found)
    assert cases == SLICE[kind] and calls >= cases


def test_a_case_follows_from_its_seed():
    def steps():
        again = fuzz.command("programs", FIRST, 1, 0)
        made = subprocess.run(
            again, capture_output=True, text=True, env=fuzz.environment(), cwd=fuzz.TESTS
        )
        return made.returncode, made.stdout

    assert steps() == steps()


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        ("os.abort()", "exit -6"),
        ("[0 for _ in iter(int, 1)]", "hang"),
        ("kept.append(rl.ones(2))", "leak"),
    ],
)
def test_faults_are_found(fault, what, tmp_path, monkeypatch):
    """A worker whose cases have a fault: the finding names the fault and the seed."""
    program = tmp_path / "faulty.py"
    program.write_text(
        f"import os, sys\nsys.path[:0] = {[str(fuzz.TESTS), str(fuzz.ROOT)]!r}\n"
        "from fuzz import worker\nimport rushlight as rl\nkept = []\n"
        f"def case(seed, report):\n    report.step(lambda: 'the step')\n    if seed == 3: {fault}\n"
        "worker.KINDS['calls'] = case\n"
        "worker.main(sys.argv[1], *map(int, sys.argv[2:5]), *sys.argv[5:])\n"
    )

    def command(*arguments):
        return [sys.executable, str(program), *map(str, arguments)]

    monkeypatch.setattr(fuzz, "command", command)
    monkeypatch.setattr(fuzz, "HANG", 1)
    monkeypatch.setattr(fuzz, "SILENCE", 20)
    found, cases, _, _ = fuzz.run("calls", 0, 60, count=6)
    assert [(one["seed"], one["what"]) for one in found] == [(3, what)] and cases == 6
