"""Prints hand-written lines by area, and the files that have grown past 600 lines."""

import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
COUNTED = {".cpp", ".h", ".cu", ".py", ".pyi", ".cmake", ".txt", ".md", ".toml", ""}
LONG = 600


def area(path):
    """src/core, python/rushlight/nn, tests, ...; files that stand at the top together."""
    folders = path.parts[:-1]
    depth = {"src": 2, "python": 3}.get(path.parts[0], 1)
    return "/".join(folders[:depth]) or "(top)"


def main():
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    lines, files, long = Counter(), Counter(), []
    for path in map(Path, tracked):
        if path.suffix not in COUNTED or path.parts[0] == "licenses":
            continue
        count = len((ROOT / path).read_text().splitlines())
        lines[area(path)] += count
        files[area(path)] += 1
        if count > LONG:
            long.append((count, path))
    for name in sorted(lines):
        print(f"{lines[name]:7,} lines  {files[name]:4} files  {name}")
    print(f"{lines.total():7,} lines  {files.total():4} files")
    for count, path in sorted(long, reverse=True):
        print(f"long: {path} ({count} lines)")


main()
