"""Runs the examples of ops/examples.py and writes what they print: python tools/update_examples.py

Of each, only the lines that begin with ">>> " or "... " are kept; review the difference.
"""

import contextlib
import io
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def statements(text):
    """The statements of an example, without what they print."""
    found = []
    for line in text.splitlines():
        if line.startswith(">>> "):
            found.append([line])
        elif line.startswith("... "):
            found[-1].append(line)
    return found


def run(text):
    """The example with what its statements print now."""
    import rushlight

    names, shown = {"torch": rushlight}, []
    for lines in statements(text):
        printed = io.StringIO()
        source = "\n".join(line[4:] for line in lines) + "\n" * (len(lines) > 1)
        with contextlib.redirect_stdout(printed):
            exec(compile(source, "example", "single"), names)
        shown += [*lines, *printed.getvalue().splitlines()]
    return "\n".join(shown) + "\n"


def main():
    path = ROOT / "ops" / "examples.py"
    source = path.read_text()
    entry = re.compile(r'^(    "\w+": """\\\n)(.*?)(^""",\n)', re.MULTILINE | re.DOTALL)
    new = entry.sub(lambda m: m[1] + run(m[2]) + m[3], source)
    path.write_text(new)
    print(f"{len(entry.findall(source))} examples")


main()
