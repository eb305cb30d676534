"""Writes the C++ of the op table: `python -m gen --out DIR`, or `--list` for the names of the
outputs.

`--stubs PACKAGE` writes the type stubs of its Python functions into the package.
"""

import argparse
import functools
import importlib
import pathlib
import sys
from collections import defaultdict

from gen import (
    bindings,
    boxed,
    cuda,
    cxx,
    declarations,
    kernels,
    loops,
    operators,
    root_stub,
    rules,
    schemas,
    stubs,
)
from gen.row import Op
from gen.signature import TableError
from ops import schema

ROOT = pathlib.Path(__file__).resolve().parent.parent


def table_names():
    return sorted(
        p.stem
        for p in (ROOT / "ops").glob("*.py")
        if p.stem not in ("__init__", "arguments", "examples", "kernels", "schema")
    )


class Table(list):
    """The ops of a table file, and the functions that its formulas and bodies share."""

    def __init__(self, rows, name):
        super().__init__(Op(row, name) for row in rows if row.kind != "function")
        self.functions = [Op(row, name) for row in rows if row.kind == "function"]


@functools.cache  # the rows are made when their files are imported, which is once
def read_tables():
    tables = {}
    for name in table_names():
        schema.TABLE.clear()
        importlib.import_module(f"ops.{name}")
        tables[name] = Table(schema.TABLE, name)
    return tables


def outputs():
    names = ["ops.h", "bind_all.cpp"]
    names += kernels.texts()
    names += ["kernels/cuda_sources.cpp"]
    names += ["bind_operators.h", "python/rushlight/_op_rules.py"]
    names += ["boxed_all.cpp", "python/rushlight/_op_schemas.py"]
    for t in table_names():
        names += [
            f"ops_{t}.h",
            f"impl_{t}.h",
            f"ops_{t}.cpp",
            f"kernels/loops_{t}.isa.cpp",
            f"kernels/loop_table_{t}.cpp",
            f"bind_{t}.cpp",
            f"boxed_{t}.cpp",
        ]
    return names


def write_each(folder, texts):
    """Writes the texts that changed, so that little is built again."""
    for name, text in texts.items():
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def texts_of(tables):
    """What is made of the tables: the texts of the files by their names."""
    signatures = defaultdict(list)
    for ops in tables.values():
        for op in ops + ops.functions:
            signatures[op.name].append(op.signature)
    texts = {
        "ops.h": declarations.write_all(tables),
        "bind_all.cpp": bindings.write_register_all(tables),
        **kernels.texts(),
        "kernels/cuda_sources.cpp": cuda.write_sources(tables),
        "bind_operators.h": operators.write(tables),
        "python/rushlight/_op_rules.py": rules.write(tables),
        "python/rushlight/_op_schemas.py": schemas.write(tables),
        "boxed_all.cpp": boxed.write_all(tables),
    }
    for name, ops in tables.items():
        texts[f"ops_{name}.h"] = declarations.write_header(name, ops)
        texts[f"impl_{name}.h"] = declarations.write_impl_header(name, ops)
        texts[f"ops_{name}.cpp"] = cxx.write_ops(name, tables, signatures)
        texts[f"kernels/loops_{name}.isa.cpp"] = loops.write(name, ops)
        texts[f"kernels/loop_table_{name}.cpp"] = loops.write_table(name, ops)
        texts[f"bind_{name}.cpp"] = bindings.write_bindings(name, tables)
        texts[f"boxed_{name}.cpp"] = boxed.write(name, ops)
    return texts


def main():
    parser = argparse.ArgumentParser(prog="gen", description=__doc__)
    parser.add_argument("--out", metavar="DIR")
    parser.add_argument("--stubs", metavar="PACKAGE")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    try:
        if options.list:
            print("\n".join(outputs()))
        if options.out:
            write_each(options.out, texts_of(read_tables()))
        if options.stubs:
            package = pathlib.Path(options.stubs)
            texts = stubs.write_stubs(read_tables())
            write_each(package / "_C", texts)
            write_each(package, {"__init__.pyi": root_stub.write_root_stub(package, texts)})
    except TableError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
