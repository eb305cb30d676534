"""What a reader meets: docs/reading.md names few and short files, and functions are short."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def files():
    text = (ROOT / "docs" / "reading.md").read_text()
    return [ROOT / "docs" / path for path in re.findall(r"\]\((\.\./[^)]+)\)", text)]


def test_the_files_are_there():
    assert len(files()) >= 16
    for path in files():
        assert path.is_file(), path


def test_they_are_an_afternoon_long():
    lines = {path.name: len(path.read_text().splitlines()) for path in files()}
    assert sum(lines.values()) <= 3000, lines


# The first line of a function's definition, at any depth of structs; not of a statement.
DEFINITION = re.compile(
    r"( *)(?!\s|if\b|for\b|while\b|switch\b|else\b|do\b|try\b|return\b|case\b|namespace\b|struct\b"
    r"|class\b|enum\b|union\b|extern\b|using\b|typedef\b|#|//|\}|\{|\")[^=]*\("
)
LONGEST_FUNCTION = 60


def functions(text):
    """The first line and the length of each function that a C++ source defines."""
    start = None
    for number, line in enumerate(text.splitlines(), 1):
        if start is None:
            found = DEFINITION.match(line)
            if found and not line.rstrip().endswith((";", "}")):
                start, indent, body = number, found[1], line.rstrip().endswith("{")
            continue
        if line == indent + "}" or line == indent + "};":
            if body:
                yield start, number - start + 1
            start = None
        elif not body:
            if line.rstrip().endswith("{"):
                body = True
            elif line.rstrip().endswith((";", "}")):
                start = None


@pytest.mark.parametrize(
    "path", sorted((ROOT / "src").rglob("*.[hc]*")), ids=lambda p: str(p.relative_to(ROOT))
)
def test_functions_are_short(path):
    long = {line: n for line, n in functions(path.read_text()) if n > LONGEST_FUNCTION}
    assert not long, "first line: lines"


def test_functions_are_found():
    text = (ROOT / "src" / "kernels" / "cpu" / "offsets.cpp").read_text()
    assert len(list(functions(text))) > 10
    lines = ["int f(", "    int a) {"] + ["  a;"] * 60 + ["}"]
    assert list(functions("\n".join(lines))) == [(1, 63)]
