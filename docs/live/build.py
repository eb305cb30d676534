"""Makes the live pages: `python docs/live/build.py PYODIDE WHEEL FOLDER` (`make live`).

FOLDER gets the page, the examples of the guides and of own_examples.md, rushlight's wheel and what
a browser needs of the npm package `pyodide`: all that a server of plain files has to give out.
"""

import json
import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
GUIDES = HERE.parent / "guide"
sys.path.insert(0, str(HERE))

import digits  # noqa: E402

OF_PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip",
              "pyodide-lock.json")  # fmt: skip
OWN = ("index.html", "live.css", "live.js", "worker.js", "live.py")
# Guides whose programs need no files, processes or devices that a page has not.
CHOSEN = {"First steps": "first_steps.md", "Autograd": "autograd.md"}
BLOCK = re.compile(r"(.*?)^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def plain(text: str) -> str:
    """The last paragraph before a program, without Markdown's marks."""
    paragraphs = [p for p in text.strip().split("\n\n") if p and not p.startswith(("```", "<!--"))]
    last = " ".join(paragraphs[-1].split()) if paragraphs else ""
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", last).replace("`", "").lstrip("# ")


def examples_of(text: str) -> list[dict[str, str]]:
    return [{"text": plain(before), "code": code} for before, code in BLOCK.findall(text)]


def all_examples() -> dict[str, list[dict[str, str]]]:
    found = {}
    own = (HERE / "own_examples.md").read_text()
    for part in re.split(r"^# ", own, flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        found[title] = examples_of(text)
    for title, name in CHOSEN.items():
        found[title] = examples_of((GUIDES / name).read_text())
    return found


def main(pyodide: str, wheel: str, folder: str) -> None:
    target = Path(folder)
    shutil.rmtree(target, ignore_errors=True)
    (target / "pyodide").mkdir(parents=True)
    for name in OWN:
        shutil.copy(HERE / name, target / name)
    for name in OF_PYODIDE:
        shutil.copy(Path(pyodide) / name, target / "pyodide" / name)
    shutil.copy(wheel, target)
    digits.main(str(target / "digits.bin"))
    listed = {"wheel": Path(wheel).name, "files": ["live.py", "digits.bin"]}
    (target / "files.json").write_text(json.dumps(listed))
    examples = all_examples()
    (target / "examples.json").write_text(json.dumps(examples, indent=1))
    print(f"{target}: {sum(map(len, examples.values()))} examples on {len(examples)} pages")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
