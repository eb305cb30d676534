"""The examples in torch's docstrings, run with torch and with rushlight.

    python -m ecosystem.docstrings (from tests/)      runs both, prints the counts and what differs

This file is also the program that runs them: it imports nothing of this package then.
"""

import collections
import contextlib
import doctest
import importlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path

SECONDS = 10
CHUNK = 60
# They start processes, read files from the web, or compile.
LEFT_OUT = re.compile(
    r"torch\.(distributed|multiprocessing|hub|_inductor|_dynamo|onnx|package|export|cuda|xpu|mps"
    r"|compiler|jit|utils\.(cpp_extension|bundled|tensorboard)|profiler|autograd\.profiler|testing)"
)


def _documented():
    """(name, docstring) of the public objects of torch that have examples."""
    import pkgutil

    import torch

    seen = set()
    modules = ["torch"] + [
        found.name for found in pkgutil.walk_packages(torch.__path__, "torch.")
        if not any(part.startswith("_") for part in found.name.split("."))
    ]  # fmt: skip
    for module_name in modules:
        if LEFT_OUT.match(module_name):
            continue
        try:
            module = importlib.import_module(module_name)
        except Exception:  # of optional libraries
            continue
        for name in sorted(dir(module)):
            if name.startswith("_"):
                continue
            value = getattr(module, name)
            places = [(f"{module_name}.{name}", value)]
            if isinstance(value, type) and value.__module__.startswith("torch"):
                places += [
                    (f"{module_name}.{name}.{method}", vars(value)[method])
                    for method in sorted(vars(value)) if not method.startswith("_")
                ]  # fmt: skip
            for path, one in places:
                text = _text_of(one)
                if isinstance(text, str) and ">>>" in text and text not in seen:
                    seen.add(text)
                    yield path, text


def _text_of(value):
    try:
        return getattr(getattr(value, "__func__", value), "__doc__", None)
    except Exception:  # attributes of what needs a GPU
        return None


def _statements(text):
    try:
        return [example.source for example in doctest.DocTestParser().get_examples(text)]
    except ValueError:  # its indentation is broken
        return []


def _stop(signum, frame):
    raise TimeoutError("takes too long")


def _run(sources):
    """What each statement gives: the repr of its value, what it prints, or its error's class."""
    import torch

    torch.set_default_device(None)  # whatever the example before has set
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.set_printoptions(profile="default")
    torch.manual_seed(0)
    names = {
        "torch": torch, "nn": torch.nn, "F": torch.nn.functional, "optim": torch.optim,
        "Tensor": torch.Tensor, "math": importlib.import_module("math"),
        "np": importlib.import_module("numpy"), "numpy": importlib.import_module("numpy"),
    }  # fmt: skip
    found = []
    for source in sources:
        printed = io.StringIO()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(10 * SECONDS)  # what waits uses no time of the processor
        try:
            with contextlib.redirect_stdout(printed), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    code = compile(source, "<example>", "eval")
                except SyntaxError:
                    exec(compile(source, "<example>", "exec"), names)
                    found.append(["done", printed.getvalue()])
                    continue
                found.append(["value", printed.getvalue() + repr(eval(code, names))])
        except BaseException as error:
            found.append(["error", type(error).__name__, str(error)[:300]])
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)
    values = {}
    for name, value in names.items():
        if isinstance(value, torch.Tensor):
            with contextlib.suppress(Exception):  # of subclasses that the example made
                values[name] = repr(value)
    return found, values


def _program(side, examples, results):
    """Run a file of examples; results go to a file as they come."""
    if side == "rushlight":
        import rushlight

        rushlight.as_torch()
    signal.signal(signal.SIGALRM, _stop)
    signal.signal(signal.SIGPROF, _stop)
    for name, sources in json.loads(Path(examples).read_text()):
        outcome = _run(sources)
        with open(results, "a") as stream:
            stream.write(json.dumps([name, *outcome]) + "\n")


_NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")
_ADDRESS = re.compile(r"0x[0-9a-f]+|<[^>]*at [^>]*>|<built-in [^>]*>")
# Elements that nobody has set: nothing is to be equal where they are shown.
_UNSET = re.compile(r"\b(empty(_like|_strided|_permuted)?|new_empty(_strided)?|resize_|Tensor)\(")


def same(a, b):
    """Are two texts equal but for addresses and the last digits of numbers?"""
    texts = (_ADDRESS.sub("@", text.replace("rushlight", "torch")) for text in (a, b))
    a, b = (" ".join(text.split()) for text in texts)
    if a == b:
        return True
    if [*_NUMBER.sub("#", a).split()] != [*_NUMBER.sub("#", b).split()]:
        a, b = a.replace(" ", ""), b.replace(" ", "")
        if _NUMBER.sub("#", a) != _NUMBER.sub("#", b):
            return False
    pairs = zip(map(float, _NUMBER.findall(a)), map(float, _NUMBER.findall(b)))
    return all(abs(x - y) <= 1e-3 * max(1, abs(x)) for x, y in pairs)


def compare(theirs, ours):
    """None if all is the same, else what differs first: only what torch itself can run counts.

    What comes after a statement that only rushlight can run, or that was stopped as it took too
    long, follows from that, and is not compared.
    """
    for mine, other in zip(ours[0], theirs[0]):
        if other[0] == "error":
            if mine[0] != "error" or "TimeoutError" in (mine[1], other[1]):
                return None
            continue
        if mine[0] == "error":
            return f"{mine[1]}: {mine[2]}"
        if not same(mine[-1], other[-1]):
            return f"differs: {mine[-1][:150]!r} and not {other[-1][:150]!r}"
    for name, text in theirs[1].items():
        if name not in ours[1]:
            return f"no {name}"
        if not same(ours[1][name], text):
            return f"{name} differs: {ours[1][name][:150]!r} and not {text[:150]!r}"
    return None


def main():
    from ecosystem import suites

    root = suites.ROOT / "docstrings"
    root.mkdir(parents=True, exist_ok=True)
    python, here = suites.PYTHON, Path(__file__)
    listing = root / "examples.json"
    if not listing.exists():
        subprocess.run([python, here, "list", listing], check=True)
    examples = json.loads(listing.read_text())
    results = {}
    for side in ("torch", "torch again", "rushlight"):
        path = root / f"{side}.jsonl"
        if side == "rushlight" or not path.exists():
            path.unlink(missing_ok=True)
            _run_all(python, here, side, examples, path)
        lines = path.read_text().splitlines()
        results[side] = {name: rest for name, *rest in map(json.loads, lines)}
    _report(results, examples)


def _run_all(python, here, side, examples, path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if side == "rushlight":
        environment["PYTHONPATH"] = str(here.parents[2] / "python")
    pending = list(examples)
    while pending:
        chunk = path.with_suffix(".chunk")
        chunk.write_text(json.dumps(pending[:CHUNK]))
        before = len(path.read_text().splitlines()) if path.exists() else 0
        command = [python, here, "run", side, chunk, path]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, env=environment, timeout=SECONDS * CHUNK, cwd=path.parent,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        done = len(path.read_text().splitlines()) - before if path.exists() else 0
        if done < min(CHUNK, len(pending)):  # the next one ended the process
            with open(path, "a") as stream:
                ended = [["error", "Ended", "the process ended"]] * len(pending[done][1])
                stream.write(json.dumps([pending[done][0], ended, {}]) + "\n")
            done += 1
        pending = pending[done:]


def _report(results, examples):
    found, classes = [0, 0], collections.defaultdict(list)
    sources = dict(examples)
    for name, theirs in results["torch"].items():
        if any(map(_UNSET.search, sources[name])):
            continue
        if not any(outcome[0] != "error" for outcome in theirs[0]):
            continue  # not even torch can run one statement
        if compare(theirs, results["torch again"][name]) is not None:
            continue  # memory that nobody has set, times, addresses
        found[1] += 1
        difference = compare(theirs, results["rushlight"][name])
        if difference is None:
            found[0] += 1
        else:
            classes[_NUMBER.sub("N", difference)[:110]].append((name, difference))
    for _, members in sorted(classes.items(), key=lambda item: -len(item[1])):
        print(f"{len(members):4}  {members[0][1][:230]!r}\n        "
              + ", ".join(name for name, _ in members[:6]))  # fmt: skip
    print(f"docstrings: {found[0]} of {found[1]} ({found[0] / found[1]:.1%})")


if __name__ == "__main__":
    if sys.argv[1:2] == ["list"]:
        listed = [(name, _statements(text)) for name, text in _documented()]
        Path(sys.argv[2]).write_text(json.dumps([one for one in listed if one[1]]))
    elif sys.argv[1:2] == ["run"]:
        _program(*sys.argv[2:])
    else:
        main()
