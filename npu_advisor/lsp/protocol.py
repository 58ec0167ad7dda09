"""Reports in the words of the protocol: diagnostics, hovers, lenses and code actions of one document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

from lsprotocol import types as lsp
from pygls.workspace import TextDocument

from npu_advisor.base.lang import Lang
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Severity
from npu_advisor.base.units import format_pct, format_us
from npu_advisor.findings import CodeFix, Finding, LineCost, TextEdit
from npu_advisor.lsp.shown import Shown
from npu_advisor.report.markdown import evidence_table, suggestion_list
from npu_advisor.report.price import priced_message

SOURCE = "npu-advisor"
# Costs are no errors: the program is right.
_SEVERITY = {
    Severity.HIGH: lsp.DiagnosticSeverity.Warning,
    Severity.MEDIUM: lsp.DiagnosticSeverity.Warning,
    Severity.LOW: lsp.DiagnosticSeverity.Information,
    Severity.INFO: lsp.DiagnosticSeverity.Hint,
}
# Below this share of the step a line is not worth a lens.
MIN_SHARE = 0.0005


class Page:
    """One document with what a report says about it."""

    def __init__(self, shown: Shown, document: TextDocument, lang: Lang) -> None:
        self._document, self._lang = document, lang
        self._lines: list[str] = [line.rstrip("\r\n") for line in document.lines]
        path = Path(document.path)
        self._findings = shown.findings(path, self._lines)
        self._costs = shown.costs(path, self._lines)

    def diagnostics(self) -> list[lsp.Diagnostic]:
        """One per finding."""
        return [self._diagnostic(line, finding) for line, finding in self._findings]

    def _diagnostic(self, line: int, finding: Finding) -> lsp.Diagnostic:
        links = [reference.url for reference in finding.references]
        return lsp.Diagnostic(
            range=self._statement(line),
            severity=_SEVERITY[finding.severity],
            code=finding.rule_id,
            code_description=lsp.CodeDescription(href=quote(links[0], safe=":/?#[]@!$&'()*+,;=%~")) if links else None,
            source=SOURCE,
            message=f"{finding.title.pick(self._lang)}\n{priced_message(finding).pick(self._lang)}",
            data=finding.fingerprint,
        )

    def hover(self, position: lsp.Position) -> lsp.Hover | None:
        """Evidence, saving and advice of the findings on a line, and what the line costs."""
        number = position.line + 1
        parts = [self._about(finding) for line, finding in self._findings if line == number]
        parts += [f"*{self._cost(cost)}*" for line, cost in self._costs if line == number]
        if not parts:
            return None
        text = "\n\n---\n\n".join(parts)
        return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, text), range=self._statement(number))

    def _about(self, finding: Finding) -> str:
        title = f"**{finding.title.pick(self._lang)}** `{finding.rule_id}`"
        message = priced_message(finding).pick(self._lang)
        advice = suggestion_list(finding, self._lang)
        return "\n\n".join(filter(None, [title, message, evidence_table(finding), advice]))

    def lenses(self) -> list[lsp.CodeLens]:
        """One per line that keeps the device busy."""
        return [
            lsp.CodeLens(self._statement(line), command=lsp.Command(title=self._cost(cost), command=""))
            for line, cost in sorted(self._costs, key=lambda item: item[0])
            if cost.share >= MIN_SHARE
        ]

    def _cost(self, cost: LineCost) -> str:
        device, share = format_us(cost.device_us_per_step), format_pct(cost.share)
        key = "lsp.line" if not cost.communication_us_per_step else "lsp.line_comm"
        communication = format_us(cost.communication_us_per_step)
        return say(key, device=device, share=share, communication=communication).pick(self._lang)

    def actions(self, around: lsp.Range) -> Iterator[lsp.CodeAction]:
        """The fixes of findings at these lines, and those that change something there, for the text as it is now."""
        from npu_advisor.engine.patches import fixes_in

        wanted = range(around.start.line + 1, around.end.line + 2)
        seen: set[str] = set()
        for line, finding in self._findings:
            for fix in fixes_in(finding, self._document.source, line):
                lines = {line, *(edit.start_line for edit in fix.edits)}
                if fix.applicability != "display-only" and lines & set(wanted) and str(fix.edits) not in seen:
                    seen.add(str(fix.edits))
                    yield self._action(fix, self._diagnostic(line, finding))

    def _action(self, fix: CodeFix, diagnostic: lsp.Diagnostic) -> lsp.CodeAction:
        title = fix.title.pick(self._lang)
        safe = fix.applicability == "safe"
        edits: Sequence[lsp.TextEdit] = [lsp.TextEdit(self._range(edit), edit.text) for edit in fix.edits]
        return lsp.CodeAction(
            title=title if safe else say("fix.unsafe", title=title).pick(self._lang),
            kind=lsp.CodeActionKind.QuickFix,
            diagnostics=[diagnostic],
            is_preferred=safe,
            edit=lsp.WorkspaceEdit(changes={self._document.uri: edits}),
        )

    def _statement(self, line: int) -> lsp.Range:
        """The code of a line, without its indent."""
        text = self._lines[line - 1]
        start = len(text) - len(text.lstrip())
        return self._units(line, start, line, max(start, len(text.rstrip())))

    def _range(self, edit: TextEdit) -> lsp.Range:
        return self._units(edit.start_line, edit.start_column - 1, edit.end_line, edit.end_column - 1)

    def _units(self, first: int, start: int, last: int, end: int) -> lsp.Range:
        """Lines from 1 and columns in code points, as the client counts them (usually UTF-16)."""
        plain = lsp.Range(lsp.Position(first - 1, start), lsp.Position(last - 1, end))
        return self._document.position_codec.range_to_client_units(self._document.lines, plain)
