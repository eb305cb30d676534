"""Makes the site: `python docs/build.py build/docs` (`make docs`).

Writes the sources for Sphinx (the guides, a page for each public function and class, the gallery)
into a folder beside the site, and runs Sphinx with warnings as errors.
"""

import importlib
import inspect
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

from docstring_to_rst import convert, escaped, overloads

import rushlight

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent

# Module to what its page calls it. Those of `ONE_PAGE` have all entries on the module's own page.
MODULES = {
    "rushlight": "Tensors and operations",
    "rushlight.nn": "Layers and losses",
    "rushlight.nn.functional": "Layers as functions",
    "rushlight.nn.init": "Start values",
    "rushlight.nn.utils": "Helpers for networks",
    "rushlight.optim": "Optimizers",
    "rushlight.optim.lr_scheduler": "Learning rates",
    "rushlight.autograd": "Gradients",
    "rushlight.func": "Derivatives and batches of functions",
    "rushlight.linalg": "Linear algebra",
    "rushlight.fft": "Fourier transforms",
    "rushlight.special": "Special functions",
    "rushlight.distributions": "Probability distributions",
    "rushlight.utils.data": "Data loading",
}
ONE_PAGE = (
    "amp", "autograd.forward_ad", "autograd.functional", "autograd.graph", "cuda", "distributed",
    "distributions.constraints", "distributions.transforms", "fx", "jit", "library", "masked",
    "multiprocessing", "nn.utils.parametrize", "nn.utils.prune", "nn.utils.rnn", "overrides",
    "profiler", "random", "serialization", "signal.windows", "sparse", "testing", "utils",
    "utils.checkpoint", "utils.dlpack", "utils.flop_counter",
)  # fmt: skip
GUIDES = ("first_steps", "from_pytorch", "autograd", "speed", "saving", "data", "writing_an_op",
          "cpp", "debugging")  # fmt: skip
TOPICS = ("profiling", "programs", "quantization", "cuda", "distributed", "platforms")
FACTS = ("coverage", "differences", "performance", "reliability", "layout_and_laziness", "reading")


def names_of(module):
    names = getattr(module, "__all__", None) or dir(module)
    return sorted(name for name in names if not name.startswith("_"))


def public(module):
    """(name, value) of the functions and classes that a page of the module documents."""
    for name in names_of(module):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that are old
            try:
                value = getattr(module, name)
            except (ModuleNotFoundError, AttributeError) as error:
                if not isinstance(error.__cause__ or error, ImportError):
                    raise
                print(f"left out: {error}")  # an optional library
                continue
        home = getattr(value, "__module__", None) or ""
        if inspect.ismodule(value) or not callable(value) or not home.startswith("rushlight"):
            continue
        # A module without a list of its names shows the classes that it imports too.
        if hasattr(module, "__all__") or not isinstance(value, type) or module is rushlight:
            yield name, value
        elif home == module.__name__:
            yield name, value


def signatures(name, value, text):
    """The ways to call a function, as Python shows them."""
    found = overloads(text)
    if found:
        return [f"{name}({line.partition('(')[2]}" for line in found]
    try:
        shown = str(inspect.signature(value))
    except (TypeError, ValueError):  # a compiled function that says nothing of its arguments
        return [f"{name}(...)"]
    shown = re.sub(r"'([\w.\[\], |]+)'(?=[,)=\s]|$)", r"\1", shown)
    shown = re.sub(r"(: |-> )'([^']*)'", r"\1\2", shown)
    shown = re.sub(r"<[^<>]*(<[^<>]*>[^<>]*)*>", "...", shown)
    return [f"{name}{shown.replace('(self, ', '(').replace('(self)', '()')}"]


def directive(kind, qualified, value, indent=""):
    """A function or class with all that its docstring says."""
    text = inspect.getdoc(value) or ""
    first, *more = signatures(qualified, value, text)
    pad = " " * (len(f".. py:{kind}:: "))
    lines = [f".. py:{kind}:: {first}", *(pad + other for other in more), ""]
    lines += ["   " + line if line else "" for line in convert(text)]
    return [indent + line if line else "" for line in lines]


def methods(cls):
    """(name, function) of the public methods that a class defines itself."""
    for name, value in sorted(vars(cls).items()):
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if not name.startswith("_") and inspect.isfunction(value) and inspect.getdoc(value):
            yield name, value


def entry(module_name, name, value):
    """The directive of one public name, with a class's methods."""
    qualified = f"{module_name}.{name}"
    if not isinstance(value, type):
        return directive("function", qualified, value)
    lines = directive("class", qualified, value)
    if value is rushlight.Tensor:
        return lines
    for method, function in methods(value):
        lines += ["", *directive("method", method, function, "   ")]
    return lines


def heading(text, mark="="):
    return [text, mark * len(text), ""]


WRITTEN = set()


def write(path, lines):
    """Writes a page if its text changed: Sphinx makes only such pages anew."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(lines).rstrip() + "\n"
    WRITTEN.add(path)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def file_name(name):
    """A file for a name, also where names differ in case alone."""
    return name if name == name.lower() else f"{name}-class"


def summary_of(value):
    first = (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ")
    return first if len(first) < 200 else first[:197] + "..."


def write_module(folder, module_name, title):
    """A page for the module, and one for each of its names."""
    module = importlib.import_module(module_name)
    place = folder / "api" / module_name
    rows, pages = [], []
    for name, value in public(module):
        page = f"{module_name}/{file_name(name)}"
        write(
            folder / "api" / f"{page}.rst",
            [":orphan:", "", *heading(f"{module_name}.{name}"), *entry(module_name, name, value)],
        )
        pages.append(page)
        rows.append(f"* :doc:`{name} <{page}>`: {escaped(summary_of(value))}")
    place.mkdir(parents=True, exist_ok=True)
    intro = convert(inspect.getdoc(module) or "")
    lines = [*heading(f"{title}: {module_name}"), *intro, "", *rows]
    write(folder / "api" / f"{module_name}.rst", lines)
    return len(pages)


def write_one_page(folder, module_name):
    module = importlib.import_module(module_name)
    lines = [*heading(module_name), *convert(inspect.getdoc(module) or ""), ""]
    for name, value in public(module):
        lines += ["", *entry(module_name, name, value)]
    write(folder / "api" / f"{module_name}.rst", lines)


def write_tensor(folder):
    """The methods of Tensor, a page for each initial."""
    by_initial = {}
    for name in sorted(dir(rushlight.Tensor)):
        value = getattr(rushlight.Tensor, name)
        if not name.startswith("_") and callable(value):
            by_initial.setdefault(name[0], []).append((name, value))
    for initial, members in by_initial.items():
        lines = heading(f"Methods of Tensor: {initial}")
        for name, value in members:
            lines += ["", *directive("method", f"rushlight.Tensor.{name}", value)]
        write(folder / "api" / "tensor" / f"{initial}.rst", lines)
    toc = [f"   tensor/{initial}" for initial in sorted(by_initial)]
    write(
        folder / "api" / "rushlight.Tensor.rst",
        [
            *heading("Methods of Tensor"),
            *convert(inspect.getdoc(rushlight.Tensor) or ""),
            "",
            ".. toctree::",
            "   :maxdepth: 1",
            "",
            *toc,
        ],
    )


def write_api(folder):
    pages = sum(write_module(folder, name, title) for name, title in MODULES.items())
    for name in ONE_PAGE:
        write_one_page(folder, f"rushlight.{name}")
    write_tensor(folder)
    listed = [f"   {name}" for name in MODULES]
    listed.insert(1, "   rushlight.Tensor")
    listed += [f"   rushlight.{name}" for name in ONE_PAGE]
    write(
        folder / "api" / "index.rst",
        [
            *heading("API"),
            "Each public function and class has a page; :ref:`genindex` lists them all.",
            "",
            ".. toctree::",
            "   :maxdepth: 1",
            "",
            *listed,
        ],
    )
    return pages


# --- guides and documents


def with_links(text, where):
    """A document's text with links that work in the site: of what is not in it, the path."""

    def relink(match):
        label, target = match[1], match[2]
        if target.startswith(("http", "#", "mailto")):
            return match[0]
        path, _, anchor = target.partition("#")
        found = (where / path).resolve()
        if found.suffix == ".md" and DOCS in found.parents and found.exists():
            return match[0]
        return f"{label} (`{found.relative_to(ROOT)}`)" if label not in str(found) else f"`{label}`"

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", relink, text)


def document(path):
    """A document's text for the site."""
    text = with_links(path.read_text(), path.parent)
    return re.sub(r"^```sh$", "```console", text, flags=re.MULTILINE)


def graph_picture():
    """The picture of the guide to autograd: the graph of its own program."""
    sys.path.insert(0, str(ROOT / "examples"))
    from graph_picture import graph_picture as draw

    x = rushlight.tensor([1.0, 2.0], requires_grad=True)
    w = rushlight.tensor([3.0, 4.0], requires_grad=True)
    return draw((x * w).exp().sum(), {"x": x, "w": w})


def write_documents(folder):
    (folder / "_static").mkdir(parents=True, exist_ok=True)
    shutil.copy(DOCS / "site.css", folder / "_static" / "site.css")
    (folder / "guide").mkdir(exist_ok=True)
    (folder / "guide" / "graph.svg").write_text(graph_picture())
    for name in GUIDES:
        text = document(DOCS / "guide" / f"{name}.md")
        text = text.replace("<!-- picture: graph -->", "![the graph of y](graph.svg)")
        write(folder / "guide" / f"{name}.md", text.splitlines())
    unlisted = {path.stem for path in DOCS.glob("*.md")} - {*TOPICS, *FACTS}
    if unlisted:
        raise SystemExit(f"docs/build.py: TOPICS and FACTS lack {', '.join(sorted(unlisted))}")
    for name in (*TOPICS, *FACTS):
        text = document(DOCS / f"{name}.md")
        for picture in re.findall(r"!\[.*?\]\((\w+\.png)\)", text):
            shutil.copy(DOCS / picture, folder / picture)
        if name == "performance":
            text += "\n" + performance_plots(folder, text)
        write(folder / f"{name}.md", text.splitlines())


def ratios(text):
    """(heading, [(what, ratio)]) of the sections of the performance page with columns "ratio".

    What a ratio is of stands in the column before it that has no heading, or is headed "group".
    """
    title, header, rows = None, [], []
    for line in [*text.splitlines(), "## "]:
        if line.startswith("#"):
            if len(rows) > 2:
                yield title, rows
            title, rows = line.lstrip("# "), []
        if not line.startswith("|"):
            header = []
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        header = header or cells
        what = None
        for column, cell in zip(header, cells):
            if column in ("", "group"):
                what = cell.replace("`", "")
            elif column == "ratio" and re.fullmatch(r"\d+(\.\d+)?", cell):
                rows.append((what, float(cell)))


def performance_plots(folder, text):
    """A bar chart of each table of ratios, as Markdown."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    shown = []
    for number, (title, rows) in enumerate(ratios(text)):
        figure, axes = pyplot.subplots(figsize=(7, 0.6 + 0.28 * len(rows)), layout="constrained")
        names, values = zip(*rows[::-1])
        axes.barh(names, values, color=["#2a7" if v >= 1 else "#c63" for v in values])
        axes.axvline(1, color="black", linewidth=1)
        axes.set_xlabel("times PyTorch (above 1 is better)")
        axes.tick_params(labelsize=8)
        path = folder / "_static" / f"performance-{number}.svg"
        figure.savefig(path)
        pyplot.close(figure)
        shown.append(f"### {title}\n\n![{title}](_static/{path.name})\n")
    return "## The tables as pictures\n\n" + "\n".join(shown) if shown else ""


# --- the gallery

GALLERY = {
    "quickstart": "Reading digits",
    "vae": "A map of digits",
    "gan": "Digits drawn from noise",
    "neural_ode": "A law of motion",
    "cart_pole": "Balancing a pole",
    "maml": "Learning to learn",
    "gpt": "A small language model",
    "translate": "Dates, translated",
    "recommend": "Recommendations",
    "images": "Four networks for images",
    "hogwild": "Several processes, one network",
}


def write_gallery(folder):
    lines = [*heading("Gallery"), "Programs of a page each, and what they make.", ""]
    pictures = DOCS / "gallery"
    for name, title in GALLERY.items():
        source = (ROOT / "examples" / f"{name}.py").read_text()
        text = re.match(r'"""(.*?)"""', source, re.DOTALL)[1].strip()
        about = [escaped(" ".join(part.split())) + "\n" for part in text.split("\n\n")]
        page = [*heading(title), *about, ""]
        found = sorted(pictures.glob(f"{name}-*.png"))
        for picture in found:
            shutil.copy(picture, folder / "_static" / picture.name)
            page += [f".. image:: ../_static/{picture.name}", f"   :alt: {title}", ""]
        printed = pictures / f"{name}.txt"
        if printed.exists():
            last = printed.read_text().rstrip().splitlines()[-12:]
            page += ["The last lines that it prints:", "", ".. code-block:: text", ""]
            page += [*("   " + line for line in last), "", "The program:", ""]
        page += [".. code-block:: python", ""]
        page += ["   " + line if line else "" for line in source.splitlines()]
        write(folder / "gallery" / f"{name}.rst", page)
        lines += [*heading(title, "-"), about[0], f":doc:`The program <{name}>`", ""]
        if found:
            lines += [f".. image:: ../_static/{found[0].name}", f"   :alt: {title}",
                      "   :width: 400px", f"   :target: {name}.html", ""]  # fmt: skip
    lines += [".. toctree::", "   :hidden:", "", *(f"   {name}" for name in GALLERY)]
    write(folder / "gallery" / "index.rst", lines)


def write_index(folder):
    def toc(caption, names):
        return [".. toctree::", f"   :caption: {caption}", "   :maxdepth: 1", "",
                *("   " + name for name in names), ""]  # fmt: skip

    write(
        folder / "index.rst",
        [
            *heading("rushlight"),
            "A deep-learning library: PyTorch's programming model on a small, quick core.",
            "",
            *toc("Guides", [f"guide/{name}" for name in GUIDES]),
            *toc("Reference", ["api/index", "gallery/index"]),
            *toc("Topics", list(TOPICS)),
            *toc("Facts", list(FACTS)),
        ],
    )


def main(site):
    sources = site.parent / f"{site.name}-source"
    sources.mkdir(parents=True, exist_ok=True)
    write(sources / "conf.py", (DOCS / "conf.py").read_text().splitlines())
    write_documents(sources)
    pages = write_api(sources)
    write_gallery(sources)
    write_index(sources)
    for path in sources.rglob("*"):
        if path.suffix in (".rst", ".md") and path not in WRITTEN:
            path.unlink()
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-j", "2", "-b", "html"]
    command += ["-d", str(site.parent / f"{site.name}-cache")]
    done = subprocess.run([*command, str(sources), str(site)])
    print(f"{pages} functions and classes have a page of their own in {site}/")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
