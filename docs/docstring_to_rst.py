"""A docstring of this package as reStructuredText.

Docstrings are plain text with headings (Args, Shape, Returns, Raises, Example, ...) and `code` in
single backticks; nothing else in them is markup, so everything else is escaped.
"""

import re

_HEADING = re.compile(
    r"^(Args|Attributes|Shape|Returns|Yields|Raises|Example|Examples|Note|Overloads)::?$"
)
_ITEM = re.compile(r"^(\*{0,2}[\w.,<> ]+?)(?: \(([^)]*)\))?: (.*)$")


def escaped(text):
    """One paragraph's text, where only `code` is markup."""
    pieces = re.split(r"(`+[^`]+`+)", text)
    shown = []
    for piece in pieces:
        if piece.startswith("`") and piece.endswith("`") and len(piece) > 2:
            shown.append(f"``{piece.strip('`').strip()}``")
        else:
            shown.append(re.sub(r"([\\*|`_])", r"\\\1", piece))
    joined = shown[0]
    for before, piece in zip(shown, shown[1:]):
        # Inline code needs something that is no letter on both its sides.
        if piece.startswith("``") and joined and not joined[-1].isspace():
            joined += "\\ "
        elif before.startswith("``") and piece and not piece[0].isspace():
            joined += "\\ "
        joined += piece
    return joined


def _dedented(lines):
    margin = min((len(li) - len(li.lstrip()) for li in lines if li.strip()), default=0)
    return [line[margin:] for line in lines]


def _paragraphs(lines):
    """Text, lists and doctests of a section without headings."""
    out, i = [], 0
    while i < len(lines):
        line = lines[i]
        if line.lstrip().startswith(">>>"):
            block = []
            while i < len(lines) and lines[i].strip():
                block.append(lines[i])
                i += 1
            out += _code(_dedented(block), "pycon")
        elif not line.strip():
            out.append("")
            i += 1
        elif line.startswith("    ") and (not i or not lines[i - 1].strip()):
            block = []
            while i < len(lines) and (not lines[i].strip() or lines[i].startswith("    ")):
                block.append(lines[i])
                i += 1
            while block and not block[-1].strip():
                block.pop()
            out += _code(_dedented(block), "text")
        else:
            block = []
            while i < len(lines) and lines[i].strip() and not lines[i].lstrip().startswith(">>>"):
                block.append(lines[i].strip())
                i += 1
            out += [escaped(" ".join(block)), ""]
    return out


def _code(lines, language):
    return ["", f".. code-block:: {language}", "", *("   " + line for line in lines), ""]


def _items(lines):
    """(name, type, text) of an Args section; a line that is further in goes on."""
    found = []
    for line in _dedented(lines):
        match = _ITEM.match(line) if not line.startswith(" ") else None
        if match:
            found.append([match[1], match[2], [match[3]]])
        elif found:
            found[-1][2].append(line.strip())
        elif line.strip():
            found.append([None, None, [line.strip()]])
    return found


def _listed(lines):
    out = []
    for name, kind, text in _items(lines):
        said = escaped(" ".join(part for part in text if part))
        if name is None:
            out.append(f"* {said}")
        else:
            out.append(f"* ``{name}``" + (f" (*{escaped(kind)}*)" if kind else "") + f": {said}")
    return [*out, ""]


def _section(title, lines):
    body = _dedented(lines)
    if title == "Overloads":
        return []  # the signatures above are these
    out = [f".. rubric:: {'Example' if title == 'Examples' else title}", ""]
    if title in ("Args", "Attributes", "Raises"):
        return out + _listed(body)
    return out + _paragraphs(body)


def overloads(text):
    """The ways to call a function that its docstring lists."""
    match = re.search(r"^Overloads:\n((?:    .*\n?)+)", text, re.MULTILINE)
    if not match:
        return []
    lines, found = match[1].splitlines(), []
    for line in lines:
        if line.startswith("        ") and found and found[-1].count("(") > found[-1].count(")"):
            found[-1] += " " + line.strip()
        elif not line.startswith("        "):
            found.append(line.strip())
    return found


def convert(text):
    """The docstring as lines of reStructuredText."""
    out, title, section = [], None, []

    def finish():
        out.extend(_paragraphs(section) if title is None else _section(title, section))

    for line in text.splitlines():
        heading = _HEADING.match(line)
        if heading or (title and line.strip() and not line.startswith(" ")):
            finish()
            section = []
            title = heading[1] if heading else None
            if heading:
                continue
        section.append(line)
    finish()
    return out
