"""Counts the outcomes, and gathers failures into classes."""

import collections
import re

from . import suites

_NUMBER = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?(e[-+]?\d+)?")


def counts(library):
    """(tests that pass with torch, those of them that pass with rushlight too)."""
    reference = suites.passed(library, "torch")
    return len(reference), len(reference & suites.passed(library, "rushlight"))


def failures(library):
    """(test, message, place) of each test that passes with torch alone."""
    entries = suites.outcomes(library, "rushlight")
    causes = {
        e["test"]: (e["message"], e["at"]) for e in entries if e["outcome"] in ("failed", "error")
    }
    skipped = {e["test"] for e in entries if e["outcome"] == "skipped"}
    for test in sorted(suites.passed(library, "torch") - suites.passed(library, "rushlight")):
        file = test.partition("::")[0]
        if test in skipped:
            yield test, "skipped", ""
        else:
            yield test, *causes.get(test, causes.get(file, ("was not run", "")))


def classes(libraries):
    """Failures by what their messages have in common, the most frequent first."""
    found = collections.defaultdict(list)
    for library in libraries:
        for test, message, place in failures(library):
            text = " ".join(message.split())
            found[_NUMBER.sub("N", text)[:140]].append((library.name, test, place, message))
    return sorted(found.items(), key=lambda item: -len(item[1]))
