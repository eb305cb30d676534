"""docs/coverage.md tells the truth: what it calls there is there, and its counts add up."""

import importlib.util
import re
import warnings
from pathlib import Path

import pytest

import rushlight

PAGE = (Path(__file__).parent.parent / "docs" / "coverage.md").read_text()


def sections():
    """(name of the module, {label: names}) of the page."""
    for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        lists = re.split(r"^(There|Refused|Missing)[^\n]*:$", text, flags=re.MULTILINE)
        yield (
            title,
            {
                label: re.findall(r"`(\w+)`", names)
                for label, names in zip(lists[1::2], lists[2::2])
            },
        )


SECTIONS = dict(sections())


@pytest.mark.parametrize("module", SECTIONS)
@pytest.mark.filterwarnings("ignore")  # old names warn
def test_what_is_called_there_is_there(module):
    if module == "torch.Tensor":
        home = rushlight.Tensor
    elif SECTIONS[module].get("There"):
        home = importlib.import_module("rushlight" + module.removeprefix("torch"))
    else:
        return
    listed = [*SECTIONS[module].get("There", ()), *SECTIONS[module].get("Refused", ())]
    assert [name for name in listed if not hasattr(home, name)] == []


def test_counts():
    rows = re.findall(
        r"^\| [`*]+([\w.]+)[`*]+ \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE
    )
    counts = {name: tuple(map(int, numbers)) for name, *numbers in rows}
    totals = counts.pop("all")
    assert list(counts) == list(SECTIONS)
    for name, (everything, *parts) in counts.items():
        assert parts == [
            len(SECTIONS[name].get(label, ())) for label in ("There", "Refused", "Missing")
        ]
        assert everything == sum(parts)
    assert totals == tuple(map(sum, zip(*counts.values())))
    assert totals[1] / totals[0] > 0.7


@pytest.mark.torch
def test_the_page_is_up_to_date():
    """Run `make coverage` if it is not."""
    pytest.importorskip("torch")
    spec = importlib.util.spec_from_file_location(
        "coverage_page", Path(__file__).parent.parent / "docs" / "coverage.py"
    )
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert script.page().rstrip() + "\n" == PAGE
