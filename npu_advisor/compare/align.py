"""Sequences and trees of calls aligned: what belongs together although something was put in or taken out between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from npu_advisor.base.intervals import Ints
from npu_advisor.compare.lcs import Pairs, common

# Sides that share this part of the shorter one's calls, shapes included, are the same program.
_ALIKE = 0.5


Two = tuple[Ints, Ints]


@dataclass
class Branch:
    """A node of a tree: a call (position), or a module (``call`` -1) with what ran inside it.

    ``exact`` is a number for all that is below it, ``loose`` one for its name alone.
    """

    exact: int
    loose: int
    call: int = -1
    inner: list[Branch] = field(default_factory=list)

    def calls(self) -> Iterator[int]:
        """All calls below, in order."""
        if self.call >= 0:
            yield self.call
        for branch in self.inner:
            yield from branch.calls()


def pairing(wanted: Iterable[tuple[str, str]]) -> tuple[dict[str, str], dict[str, str]]:
    """Each text of the one side with one of the other, both ways; of several wishes the first is granted."""
    forth: dict[str, str] = {}
    back: dict[str, str] = {}
    for one, other in wanted:
        if one not in forth and other not in back:
            forth[one], back[other] = other, one
    return forth, back


def aligned(kinds: Two, names: Two) -> Pairs:
    """Pairs by kind, and in the gaps between them by name."""
    pairs = common(*kinds)
    found = filled(pairs, names)
    if len(pairs.a) >= _ALIKE * min(len(kinds[0]), len(kinds[1])):
        return found
    # Little has the same shapes: what happens to have them would tear apart what belongs together by its order.
    by_name = common(*names)
    return by_name if len(by_name.a) > len(found.a) else found


def filled(pairs: Pairs, kinds: Two, names: Two | None = None) -> Pairs:
    """``pairs``, and those of equal kinds (then names) in the gaps between them."""
    found = [pairs]
    for gap_a, gap_b in gaps(pairs, len(kinds[0]), len(kinds[1])):
        inside = kinds[0][gap_a], kinds[1][gap_b]
        inner = common(*inside) if names is None else aligned(inside, (names[0][gap_a], names[1][gap_b]))
        found.append(Pairs(inner.a + gap_a.start, inner.b + gap_b.start))
    a, b = (np.concatenate(side) for side in zip(*found, strict=True))
    order = np.argsort(a, kind="stable")
    return Pairs(a[order], b[order])


def gaps(pairs: Pairs, length_a: int, length_b: int) -> list[tuple[slice, slice]]:
    """What lies between pairs on both sides, where neither is empty."""
    low_a, low_b = (np.concatenate(([0], side + 1)).tolist() for side in pairs)
    high_a, high_b = (
        np.append(side, length).tolist() for side, length in zip(pairs, (length_a, length_b), strict=True)
    )
    every = zip(low_a, high_a, low_b, high_b, strict=True)
    return [(slice(a, b), slice(c, d)) for a, b, c, d in every if b > a and d > c]


def aligned_trees(base: Sequence[Branch], new: Sequence[Branch]) -> list[tuple[int, int]]:
    """Pairs of calls below two lists of siblings: modules are aligned as wholes, then what is inside each."""
    pairs = aligned(_numbers(base, new, "exact"), _numbers(base, new, "loose"))
    found: list[tuple[int, int]] = []
    for i, j in zip(*pairs, strict=True):
        one, other = base[i], new[j]
        if one.exact == other.exact:
            found += zip(one.calls(), other.calls(), strict=True)
        elif one.call >= 0:
            found.append((one.call, other.call))
        else:
            found += aligned_trees(one.inner, other.inner)
    for gap_a, gap_b in gaps(pairs, len(base), len(new)):
        opened = _opened(base[gap_a], new[gap_b])
        found += aligned_trees(*opened) if opened is not None else []
    return found


def _opened(base: Sequence[Branch], new: Sequence[Branch]) -> tuple[list[Branch], list[Branch]] | None:
    """Siblings that do not match, with the modules of one or of both sides opened: whatever matches most. None where
    there is none to open."""
    if not any(branch.call < 0 for branch in (*base, *new)):
        return None
    inside = [[each for branch in side for each in (branch.inner or [branch])] for side in (base, new)]
    ways = [(inside[0], inside[1]), (inside[0], list(new)), (list(base), inside[1])]
    return max(ways, key=lambda way: len(common(*_numbers(way[0], way[1], "loose")).a))


def _numbers(base: Sequence[Branch], new: Sequence[Branch], name: str) -> Two:
    one, other = (np.array([getattr(branch, name) for branch in side], dtype=np.int64) for side in (base, new))
    return one, other
