"""Runs the examples and draws what they make, for the site's gallery: `make gallery`.

Writes docs/gallery/NAME.txt, what the example printed, and NAME-*.png: the pictures it wrote
itself, the curve of the numbers it printed, or the digits that it drew of letters.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "gallery"
NAMES = ("quickstart", "vae", "gan", "neural_ode", "cart_pole", "maml")
SHADES = " .-:=+*#%@"


def run(name):
    """What the example prints."""
    path = os.pathsep.join(str(ROOT / folder) for folder in ("python", "examples"))
    ran = subprocess.run(
        [sys.executable, str(ROOT / "examples" / f"{name}.py")],
        env={**os.environ, "PYTHONPATH": path},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return ran.stdout


def curve(text):
    """(what is counted, what is measured, counts, values) of lines as "step 50: 1.27 from ..."."""
    found = [
        match.groups()
        for match in re.finditer(r"^(\w+) (\d+):\D*?(-?\d+\.?\d*)(.*)$", text, re.MULTILINE)
    ]
    if len(found) < 3:
        return None
    unit, _, value, rest = found[0]
    line = re.search(rf"^{unit} \d+: (.*)$", text, re.MULTILINE)[1]
    label = " ".join(line.partition(",")[0].replace(value, "").split())
    return unit, label, [int(f[1]) for f in found], [float(f[2]) for f in found]


def drawing(text):
    """The image that lines of letters show, two letters for a pixel; or None."""
    lines = [li for li in text.splitlines() if li.strip() and set(li) <= set(SHADES)]
    if len(lines) < 6:
        return None
    width = max(map(len, lines)) // 2
    return [[SHADES.index(line.ljust(2 * width)[2 * i]) for i in range(width)] for line in lines]


def save(figure, name, kind):
    figure.savefig(OUT / f"{name}-{kind}.png", dpi=80)
    pyplot.close(figure)


def draw(name, text):
    """Pictures of what was printed."""
    shown = curve(text)
    if shown:
        unit, label, counts, values = shown
        figure, axes = pyplot.subplots(figsize=(6, 3.5), layout="constrained")
        axes.plot(counts, values, marker=".")
        axes.set_xlabel(unit)
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
        save(figure, name, "curve")
    image = drawing(text)
    if image:
        height = 6 * len(image) / len(image[0])
        figure, axes = pyplot.subplots(figsize=(6, height), layout="constrained")
        axes.imshow(image, cmap="gray_r")
        axes.axis("off")
        save(figure, name, "drawn")


def main(names):
    OUT.mkdir(exist_ok=True)
    for name in names:
        text = run(name)
        (OUT / f"{name}.txt").write_text(text)
        for old in OUT.glob(f"{name}-*.png"):
            old.unlink()
        for picture in sorted((ROOT / "runs" / name).glob("*.png")):
            shutil.copy(picture, OUT / f"{name}-{picture.name}")
        draw(name, text)
        print(f"{name}: {sorted(p.name for p in OUT.glob(f'{name}-*.png'))}")


if __name__ == "__main__":
    main(sys.argv[1:] or NAMES)
