"""Writes the C++ of the op table: `python -m gen --out DIR`, or `--list` for the names of the
outputs.

`--stubs DIR` writes the type stubs of its Python functions.
"""

import argparse
import functools
import importlib
import pathlib
import sys
from collections import defaultdict

from gen import bindings, cxx, loops, stubs
from gen.row import Op
from gen.signature import TableError
from ops import schema

ROOT = pathlib.Path(__file__).resolve().parent.parent


def table_names():
    return sorted(
        p.stem for p in (ROOT / "ops").glob("*.py") if p.stem not in ("__init__", "schema")
    )


@functools.cache  # the rows are made when their files are imported, which is once
def read_tables():
    tables = {}
    for name in table_names():
        schema.TABLE.clear()
        importlib.import_module(f"ops.{name}")
        tables[name] = [Op(row, name) for row in schema.TABLE]
    return tables


def outputs():
    names = ["ops.h", "impl.h", "bind_all.cpp"]
    for t in table_names():
        names += [
            f"ops_{t}.cpp",
            f"kernels/loops_{t}.isa.cpp",
            f"bind_{t}.cpp",
        ]
    return names


def write_each(folder, texts):
    """Writes the texts that changed, so that little is built again."""
    for name, text in texts.items():
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def write(folder):
    tables = read_tables()
    signatures = defaultdict(list)
    for ops in tables.values():
        for op in ops:
            signatures[op.name].append(op.signature)
    texts = {
        "ops.h": cxx.write_header(tables),
        "impl.h": cxx.write_impl_header(tables),
        "bind_all.cpp": bindings.write_register_all(tables),
    }
    for name, ops in tables.items():
        texts[f"ops_{name}.cpp"] = cxx.write_ops(name, ops, signatures)
        texts[f"kernels/loops_{name}.isa.cpp"] = loops.write(name, ops)
        texts[f"bind_{name}.cpp"] = bindings.write_bindings(name, tables)
    write_each(folder, texts)


def main():
    parser = argparse.ArgumentParser(prog="gen", description=__doc__)
    parser.add_argument("--out", metavar="DIR")
    parser.add_argument("--stubs", metavar="DIR")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    try:
        if options.list:
            print("\n".join(outputs()))
        if options.out:
            write(options.out)
        if options.stubs:
            write_each(options.stubs, stubs.write_stubs(read_tables()))
    except TableError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
