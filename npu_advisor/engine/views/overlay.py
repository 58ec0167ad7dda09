"""What the advisor found, as tracks on the profile's own clock: findings, idle owners, waits, the critical path."""

from __future__ import annotations

from collections.abc import Sequence

from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.engine.savings import Results, Trusted
from npu_advisor.engine.summary import paths_of
from npu_advisor.engine.views import finding_spans
from npu_advisor.engine.views.timeline import path_stretches
from npu_advisor.findings import Finding
from npu_advisor.graph.replay.path import PARTS, StepPath
from npu_advisor.model.profile import Profile
from npu_advisor.views import Slice, Track


def build_overlay(results: Results, findings: Sequence[Finding], trusted: Sequence[Trusted]) -> list[Track]:
    """The tracks of every rank; those without a slice are left out."""
    made: list[Track] = []
    for position, (profile, outcomes) in enumerate(results):
        spans = finding_spans(profile, outcomes, findings)
        for finding in findings:
            found = spans.get(finding.fingerprint)
            if found is not None:
                pairs = zip(found.start.tolist(), found.end.tolist(), strict=True)
                slices = [Slice(low, high - low, finding.title) for low, high in pairs]
                made.append(Track(profile.rank, "finding", finding.title, slices, finding.fingerprint))
        made += [_idle(profile), _waits(profile), _path(profile, paths_of(position, trusted))]
    return [track for track in made if track.slices]


def _idle(profile: Profile) -> Track:
    idle = profile.table("idle")
    owners = {str(name): say(f"html.legend.{name}") for name in idle["owner"].categories}
    names = [owners[str(name)] for name in idle.strings("owner")]
    rows = zip(idle["start_ns"].tolist(), idle["dur_ns"].tolist(), names, idle.strings("source"), strict=True)
    slices = [Slice(start, dur, name, str(line) if line else "") for start, dur, name, line in rows]
    return Track(profile.rank, "idle", say("trace.idle"), slices)


def _waits(profile: Profile) -> Track:
    """Exposed communication: transfer, or the wait for other ranks."""
    table = profile.table("exposed")
    late = [_wait(int(peer)) for peer in table["peer"]]
    transfer = say("html.legend.communication")
    rows = zip(table["start_ns"].tolist(), table["dur_ns"].tolist(), table["late"].tolist(), late, strict=True)
    slices = [Slice(start, dur, wait if is_late else transfer) for start, dur, is_late, wait in rows]
    return Track(profile.rank, "exposed", say("trace.exposed"), slices)


def _wait(peer: int) -> Text:
    return say("ui.piece.waiting", rank=peer) if peer >= 0 else say("html.legend.waiting_other")


def _path(profile: Profile, paths: Sequence[StepPath]) -> Track:
    names = [say(f"ui.path.{part}") for part in PARTS]
    rows = zip(*(column.tolist() for column in path_stretches(paths)), strict=True)
    slices = [Slice(start, end - start, names[part]) for start, end, part in rows]
    return Track(profile.rank, "critical", say("html.path"), slices)
