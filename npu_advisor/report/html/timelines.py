"""Timelines, packed for the script that draws them."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from npu_advisor.base.messages import say
from npu_advisor.report.html.cards import Card
from npu_advisor.report.text import clean
from npu_advisor.views import Lane, Timeline, Views


def timelines_packed(views: Views, shown: Sequence[Card]) -> str:
    """All timelines and the names of the findings whose windows they mark: JSON, deflated, as base64.

    A third of the bytes of the JSON, and nothing in a name can end the element that holds it.
    """
    titles = {
        card.finding.fingerprint: {"anchor": card.anchor, "en": card.finding.title.en, "zh": card.finding.title.zh}
        for card in shown
        if card.window
    }
    data = {"findings": titles, "words": _words(views), "ranks": [_timeline(each) for each in views.timelines]}
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9)).decode("ascii")


# Lanes whose marks are named by what owns the time, and where its texts are.
_OWNED = {"critical": "ui.path", "idle": "ui.piece"}


def _words(views: Views) -> dict[str, dict[str, list[str]]]:
    """The names of the owners of time in both languages, by kind of lane."""
    made: dict[str, dict[str, list[str]]] = {kind: {} for kind in _OWNED}
    for each in views.timelines:
        for lane in each.lanes:
            if lane.kind in _OWNED:
                names = sorted({each.names[code] for code in lane.name})  # the same page each time
                texts = {name: say(f"{_OWNED[lane.kind]}.{name}") for name in names}
                made[lane.kind] |= {name: [text.en, text.zh] for name, text in texts.items()}
    return made


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
