"""Regular expressions that cannot take for ever.

Python's engine backtracks: a repeat inside a repeat and a row of choices take exponential time, and each unbounded
repeat more multiplies the time by the length of the text. So a pattern is refused when it could explode, and sees only
as much of a text as it can get through.
"""

from __future__ import annotations

import re

MAX_REGEX, MAX_REPEATS, MAX_WAYS = 200, 2, 1000
# Steps that one text may take in the worst case: less than a second.
_STEPS = 10**8
_REPEAT = re.compile(r"[*+]|\{\d*,\d*\}|\{\d{2,}\}")
_OPTIONAL = re.compile(r"(?<![(*+?}])\?")
_GROUP = re.compile(r"\(([^()]*)\)([*+?]|\{[^}]*\})?")


class Searcher:
    """A pattern that :func:`regex_fault` has nothing against; it looks at the first ``limit`` characters of a text."""

    def __init__(self, pattern: str) -> None:
        self.regex = re.compile(pattern)
        repeats = len(_REPEAT.findall(_bare(pattern)))
        # Unless it is tied to the start, it is tried from every character.
        self.limit = int(_STEPS ** (1 / max(1, repeats + (not pattern.startswith("^")))))

    def search(self, text: str) -> re.Match[str] | None:
        """The first match in ``text``; where the text is cut is not its end."""
        found = self.regex.search(text[: self.limit])
        cut = len(text) > self.limit and found is not None and found.end() == self.limit
        return None if cut and re.search(r"\$|\\Z", self.regex.pattern) else found


def regex_fault(pattern: str) -> str | None:
    """Why ``pattern`` may not be used, None when it is fine."""
    if len(pattern) > MAX_REGEX:
        return f"a regular expression has at most {MAX_REGEX} characters"
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"not a regular expression: {error}"
    if re.search(r"\\[1-9]|\(\?P=", pattern):
        return "a regular expression may not refer back to a group"
    bare = _bare(pattern)
    if len(_REPEAT.findall(bare)) > MAX_REPEATS:
        return f"a regular expression has at most {MAX_REPEATS} repeats (* + {{n,m}})"
    return _group_fault(bare)


def _bare(pattern: str) -> str:
    """``pattern`` with every escape and character class as one letter."""
    return re.sub(r"\[\^?\]?[^\]]*\]", "x", re.sub(r"\\.", "x", pattern))


def _group_fault(bare: str) -> str | None:
    ways = 2 ** len(_OPTIONAL.findall(bare))
    while group := _GROUP.search(bare):
        inner, after = group[1].removeprefix("?:"), group[2] or ""
        if after not in ("", "?") and (_REPEAT.search(inner) or "|" in inner or "?" in inner):
            return "a regular expression may not repeat a group that repeats or chooses inside"
        ways *= inner.count("|") + 1
        bare = bare[: group.start()] + inner.replace("|", "x") + after + bare[group.end() :]
    if ways > MAX_WAYS:
        return f"a regular expression has at most {MAX_WAYS} ways to choose (? and |)"
    return None
