"""Timelines as compact JSON for the script that draws them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from npu_advisor.report.html.cards import Card
from npu_advisor.report.text import clean
from npu_advisor.views import Lane, Timeline, Views


def timelines_json(views: Views, shown: Sequence[Card]) -> Markup:
    """All timelines and the names of the findings whose windows they mark, safe inside a ``script`` element."""
    titles = {
        card.finding.fingerprint: {"anchor": card.anchor, "en": card.finding.title.en, "zh": card.finding.title.zh}
        for card in shown
        if card.window
    }
    data = {"findings": titles, "ranks": [_timeline(each) for each in views.timelines]}
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Nothing in a name may end the element or look like markup to a parser.
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)


def _timeline(timeline: Timeline) -> dict[str, Any]:
    return {
        "rank": timeline.rank,
        "span": timeline.span_ns,
        "epoch": str(timeline.epoch_ns),
        "events": timeline.events,
        "names": [clean(name) for name in timeline.names],
        "steps": timeline.steps,
        "windows": {window.fingerprint: window.pieces for window in timeline.windows},
        "lanes": [_lane(lane) for lane in timeline.lanes],
    }


def _lane(lane: Lane) -> dict[str, Any]:
    """Start times as differences, and no list that says nothing."""
    lists = {
        "s": [later - earlier for earlier, later in pairwise([0, *lane.start_ns])],
        "d": lane.dur_ns,
        "n": lane.name,
        "c": lane.count if any(count > 1 for count in lane.count) else [],
        "r": lane.row if any(lane.row) else [],
        "p": lane.source if any(source >= 0 for source in lane.source) else [],
        "o": lane.op if any(op >= 0 for op in lane.op) else [],
        "l": [
            start - launch if launch >= 0 else None
            for start, launch in zip(lane.start_ns, lane.launch_ns, strict=False)
        ],
    }
    return {"kind": lane.kind, "label": clean(lane.label), "events": lane.events} | {
        key: values for key, values in lists.items() if values
    }
