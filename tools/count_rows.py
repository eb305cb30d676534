"""Prints how many rows of the op table are enough, and how many names of ops are kept elsewhere."""

import ast
import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from gen.__main__ import read_tables  # noqa: E402
from gen.body import BY_HAND, calls_in  # noqa: E402

# Code that treats ops by name.
READERS = [
    *sorted((ROOT / "python/rushlight/func/_batching").glob("*.py")),
    ROOT / "python/rushlight/amp/autocast_mode.py",
    ROOT / "python/rushlight/autograd/forward_ad.py",
]


def functions():
    """The rows of functions that bodies share, by their names."""
    return {f.name: f.row for ops in read_tables().values() for f in ops.functions}


def all_calls(row, known):
    """What a body calls, and what the functions of the table that it calls do."""
    found, left = set(), calls_in(row.body)
    while left:
        name = left.pop()
        found.add(name)
        if name in known:
            left |= calls_in(known[name].body) - found
    return found


def is_enough(row):
    """Does the op follow from its row? What a row names may be a kernel, a shape function or a
    guard, and a body calls ops; a row whose function, or one that its body calls, is C++ of
    src/dispatch that computes with tensors, is not enough.
    """
    if row.kind == "view":
        return bool(row.shape)
    if row.body:
        return not all_calls(row, functions()) & BY_HAND
    return row.kind in ("elementwise", "factory", "draw", "step") or bool(row.launch)


def own_gradients(ops):
    """Rows whose gradient calls a function of its own, beside ops, in C++."""
    names = {op.cxx_name for op in ops} | {op.name + "_" for op in ops if op.row.inplace}
    header = (ROOT / "src/dispatch/grad.h").read_text()
    functions = set(re.findall(r"(?:Tensor|TensorList|Tensor, \d>) (\w+)\(", header)) - names
    return [op for op in ops if any(functions & calls_in(g.formula.text) for g in op.gradients)]


def strings(path):
    """The text of a module's string constants, without its documentation."""
    tree = ast.parse(path.read_text())
    documentation = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in documentation:
            if isinstance(node.value, str):
                yield node.value


def kept_names(ops):
    """Public names of ops in lists of the code that treats ops; names of rules are none."""
    names = {target.rpartition(".")[2] for op in ops for target in op.python_names}
    rules = {getattr(op.row, "batch", None) for op in ops}
    found = Counter()
    for path in READERS:
        words = {word for text in strings(path) for word in re.findall(r"\w+", text)}
        found[path.name] = len(words & names - rules)
    text = (ROOT / "src/bind/number.cpp").read_text()
    found["number.cpp"] = len(set(re.findall(r"ops::(\w+)", text)))
    return found


def main():
    ops = [op for table in read_tables().values() for op in table]
    enough = Counter(op.row.kind for op in ops if is_enough(op.row))
    kinds = Counter(op.row.kind for op in ops)
    for kind, count in sorted(kinds.items()):
        print(f"{kind:12} {count:4} rows, {enough[kind]:4} without C++ of their own")
    print(f"{'all':12} {len(ops):4} rows, {enough.total():4} ({enough.total() / len(ops):.0%})")
    print(f"gradients that call a C++ function of their own: {len(own_gradients(ops))} rows")
    kept = kept_names(ops)
    listed = ", ".join(f"{name} {count}" for name, count in kept.items() if count)
    print(f"names of ops kept by hand outside of the table: {kept.total()} ({listed})")


if __name__ == "__main__":
    main()
