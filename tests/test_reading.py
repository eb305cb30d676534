"""docs/reading.md names the files by which one understands the library: they stay few and short."""

import re
from pathlib import Path

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
