"""SARIF 2.1.0: what editors and code-scanning services show beside the lines of the user's code.

One result per finding that has a line; the others are notifications of the run, never a made-up line 1. Nothing that
differs from run to run on its own (times, machine paths of the checkout) is part of a fingerprint.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import quote

from npu_advisor.base.frame import parse_frame
from npu_advisor.base.lang import Lang
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Severity
from npu_advisor.base.units import format_us
from npu_advisor.findings import CodeFix, Finding, Location, Report
from npu_advisor.report.markdown import evidence_table, suggestion_list
from npu_advisor.report.options import Options
from npu_advisor.report.price import priced_message

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
BASE = "SRCROOT"
FINGERPRINT = "npuAdvisor/v1"
_LEVELS = {Severity.HIGH: "error", Severity.MEDIUM: "warning", Severity.LOW: "note", Severity.INFO: "none"}
# What code-scanning services take of one run: results, and steps of one code flow.
MOST_RESULTS = 5_000
_MOST_HOPS = 100
Json = dict[str, Any]


def render_sarif(report: Report, options: Options) -> str:
    """The report as one SARIF run, results in order of saving.

    Locations are relative to ``options.base`` (``SRCROOT``) where the file lies below it. With ``options.baseline``
    each result says whether it is new, and findings that are gone are listed as absent.
    """
    writer = _Writer(options.lang, options.base)
    gone = _gone(report, options.baseline)
    placed = [found for found in report.findings if found.location is not None]
    placed.sort(key=lambda found: -(found.saving.us_per_step if found.saving else 0.0))
    hushed = [item for item in report.suppressed if item.finding.location is not None]
    shown = [*placed, *(item.finding for item in hushed), *gone]
    ids = sorted({found.rule_id for found in shown} | {found.rule_id for found in report.findings})
    results = [writer.result(found, ids) for found in shown]
    for result, item in zip(results[len(placed) :], hushed, strict=False):
        result["suppressions"] = [{"kind": "inSource", "justification": item.reason or item.finding.rule_id}]
    if options.baseline is not None:
        known = {found.fingerprint for found in options.baseline.findings}
        for result, found in zip(results, shown, strict=True):
            result["baselineState"] = "unchanged" if found.fingerprint in known else "new"
        for result, found in zip(results[len(results) - len(gone) :], gone, strict=True):
            result["baselineState"] = "absent"
            result["message"] = {"text": say("sarif.gone", title=found.title.pick(options.lang)).pick(options.lang)}
    run: Json = {
        "tool": {"driver": _driver(report, ids, options.lang)},
        "originalUriBaseIds": {BASE: {"uri": _folder_uri(options.base)}} if options.base else {},
        "columnKind": "unicodeCodePoints",
        "results": results[:MOST_RESULTS],
        "invocations": [writer.invocation(report)],
        "properties": {"savingUsPerStep": report.saving.joint_us_per_step, "basis": report.saving.basis.value},
    }
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _gone(report: Report, baseline: Report | None) -> list[Finding]:
    if baseline is None:
        return []
    now = {found.fingerprint for found in report.findings}
    now |= {item.finding.fingerprint for item in report.suppressed}
    return [found for found in baseline.findings if found.fingerprint not in now and found.location is not None]


def _driver(report: Report, ids: list[str], lang: Lang) -> Json:
    outcomes = {rule.id: rule for rule in report.rules}
    titles = {found.rule_id: found for found in report.findings}
    rules = []
    for rule_id in ids:
        outcome, found = outcomes.get(rule_id), titles.get(rule_id)
        title = outcome.title if outcome else found.title if found else None
        text = title.pick(lang) if title else rule_id
        docs = outcome.docs.pick(lang).strip() if outcome and outcome.docs else text
        advice = suggestion_list(found, lang) if found else ""
        rules.append(
            {
                "id": rule_id,
                "name": "".join(part.title() for part in rule_id.split("-")),
                "shortDescription": {"text": text},
                "fullDescription": {"text": docs},
                "help": {"text": docs, "markdown": "\n\n".join(filter(None, [f"**{text}**", docs, advice]))},
                "properties": {"tags": ["performance", "ascend", rule_id.partition("-")[0]]},
            }
        )
    return {"name": report.tool.name, "semanticVersion": report.tool.version, "rules": rules}


class _Writer:
    """Builds the parts that need the language and the folder that paths are relative to."""

    def __init__(self, lang: Lang, base: str) -> None:
        self._lang = lang
        self._base = base

    def result(self, found: Finding, ids: list[str]) -> Json:
        message = priced_message(found).pick(self._lang)
        details = "\n\n".join(filter(None, [message, evidence_table(found), suggestion_list(found, self._lang)]))
        result: Json = {
            "ruleId": found.rule_id,
            "ruleIndex": ids.index(found.rule_id),
            "level": _LEVELS[found.severity],
            "kind": "informational" if found.severity is Severity.INFO else "fail",
            "message": {"text": message, "markdown": details},
            "locations": [self._location(found.location)] if found.location else [],
            "partialFingerprints": {FINGERPRINT: found.fingerprint},
            "codeFlows": [{"threadFlows": [{"locations": self._flow(found)}]}],
            "properties": {"severity": found.severity.value, "rank": found.rank, "step": found.step},
        }
        if found.stack:
            result["stacks"] = [{"frames": [frame for frame in map(self._frame, found.stack) if frame]}]
        if fixes := [self._fix(fix) for fix in found.fixes if fix.applicability != "display-only"]:
            result["fixes"] = fixes
        if found.saving is not None:
            result["rank"] = round(min(100.0, max(0.0, found.saving.share * 100.0)), 3)
            result["properties"]["saving"] = found.saving.model_dump(mode="json")
        return result

    def _fix(self, fix: CodeFix) -> Json:
        """SARIF has no word for how far to trust a fix: the description says it."""
        title = fix.title.pick(self._lang)
        text = title if fix.applicability == "safe" else say("fix.unsafe", title=title).pick(self._lang)
        replacements = []
        for edit in fix.edits:
            region = {
                "startLine": edit.start_line,
                "startColumn": edit.start_column,
                "endLine": edit.end_line,
                "endColumn": edit.end_column,
            }
            replacements.append({"deletedRegion": region, "insertedContent": {"text": edit.text}})
        change = {"artifactLocation": self._artifact(fix.path, fix.path), "replacements": replacements}
        return {"description": {"text": text}, "artifactChanges": [change]}

    def invocation(self, report: Report) -> Json:
        lineless = [found for found in report.findings if found.location is None]
        notes = [self._notification(found) for found in lineless]
        notes += [
            {
                "level": "note" if remark.severity == "info" else remark.severity,
                "descriptor": {"id": remark.code},
                "message": {"text": f"{remark.file}: {remark.message.pick(self._lang)}"},
            }
            for remark in report.diagnostics
        ]
        return {"executionSuccessful": bool(report.profile.ranks), "toolExecutionNotifications": notes}

    def _notification(self, found: Finding) -> Json:
        reason = found.location_missing.pick(self._lang) if found.location_missing else ""
        message = priced_message(found).pick(self._lang)
        if reason:
            message = say("sarif.no_line", message=message, reason=reason).pick(self._lang)
        level = _LEVELS[found.severity]
        return {
            "level": level,
            "descriptor": {"id": found.rule_id},
            "associatedRule": {"id": found.rule_id},
            "message": {"text": message},
        }

    def _flow(self, found: Finding) -> list[Json]:
        """Kernel first, the user's line last."""
        steps: list[Json] = []
        for link in found.chain[:_MOST_HOPS]:
            key = "sarif.hop" if link.duration_us is None else "sarif.hop_timed"
            text = say(key, kind=link.kind, name=link.name, us=format_us(link.duration_us or 0.0)).pick(self._lang)
            steps.append({"location": {"message": {"text": text}, "logicalLocations": [{"name": link.name}]}})
        if found.location is not None:
            last = self._location(found.location)
            last["message"] = {"text": say("sarif.user_line").pick(self._lang)}
            steps.append({"location": last, "importance": "essential"})
        return steps

    def _location(self, place: Location) -> Json:
        region: Json = {"startLine": max(1, place.line)}
        if place.text is not None:
            region["snippet"] = {"text": place.text}
            # The statement, without its indent, so that editors underline code and not blanks.
            region["startColumn"] = len(place.text) - len(place.text.lstrip()) + 1
            region["endColumn"] = len(place.text) + 1
        physical: Json = {"artifactLocation": self._artifact(place.path, place.local_path), "region": region}
        if place.code is not None:
            last = place.code.first_line + len(place.code.lines) - 1
            around = {"text": "\n".join(place.code.lines)}
            physical["contextRegion"] = {"startLine": place.code.first_line, "endLine": last, "snippet": around}
        location: Json = {"physicalLocation": physical}
        if place.function:
            location["logicalLocations"] = [{"name": place.function, "kind": "function"}]
        return location

    def _frame(self, text: str) -> Json | None:
        frame = parse_frame(text)
        if frame is None:
            return None
        where = {"artifactLocation": self._artifact(frame.path, None), "region": {"startLine": max(1, frame.line)}}
        return {
            "location": {
                "physicalLocation": where,
                "logicalLocations": [{"fullyQualifiedName": frame.function or frame.path}],
            }
        }

    def _artifact(self, recorded: str, local: str | None) -> Json:
        if local is not None:
            path = Path(local).absolute()
            if self._base and path.is_relative_to(self._base):
                return {"uri": _escaped(path.relative_to(self._base).parts), "uriBaseId": BASE}
            return {"uri": path.as_uri()}
        return {"uri": _recorded_uri(recorded)}


def _recorded_uri(path: str) -> str:
    """A URI of a path on a machine that is not this one, whatever its system."""
    if PureWindowsPath(path).drive:
        return "file:///" + _escaped(PureWindowsPath(path).as_posix().split("/"), safe=":")
    pure = PurePosixPath(path.replace("\\", "/"))
    parts = [part for part in pure.parts if part != "/"]
    return ("file:///" if pure.is_absolute() else "") + _escaped(parts)


def _folder_uri(folder: str) -> str:
    return Path(folder).absolute().as_uri().rstrip("/") + "/"


def _escaped(parts: Iterable[str], safe: str = "") -> str:
    return "/".join(quote(part, safe=safe, errors="replace") for part in parts)
