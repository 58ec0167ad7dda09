"""``npu-advisor fix``: show the changes that findings allow to the user's code as a diff, or make them."""

from __future__ import annotations

import os
import sys
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from io import StringIO
from pathlib import Path

from npu_advisor.base.errors import ConfigError
from npu_advisor.base.lang import Lang, choose_language
from npu_advisor.base.messages import say
from npu_advisor.base.terms import Text
from npu_advisor.cli.choices import LANGUAGES, choice
from npu_advisor.cli.notices import remarks_text
from npu_advisor.cli.output import note
from npu_advisor.cli.progress import ProgressBar
from npu_advisor.findings import CodeFix, Finding
from npu_advisor.rules.choice import chosen_rules


@dataclass(frozen=True)
class FixRequest:
    """The options of one run, as given."""

    paths: tuple[str, ...]
    diff: bool = False
    apply: bool = False
    unsafe: bool = False
    lang: str = "auto"
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    source_root: tuple[str, ...] = ()
    quiet: bool = False

    def check(self) -> None:
        """ConfigError for values that no run can use."""
        choice("--lang", self.lang, LANGUAGES)
        if not self.paths:
            raise ConfigError(say("error.no_path"), None, say("error.no_path_do"))
        if self.diff == self.apply:
            raise ConfigError(say("fix.diff_or_apply"), None, say("fix.diff_or_apply_do"))


@dataclass(frozen=True)
class _Changed:
    """One file before and after, with what is left as it was."""

    path: Path
    encoding: str
    old: str
    new: str


def run(request: FixRequest) -> int:
    """Show or make the changes; 0. The diff goes to stdout, everything else to stderr."""
    request.check()
    lang = choose_language(request.lang, os.environ)
    findings = _findings(request, lang)
    wanted, withheld = _chosen(findings, request.unsafe)
    skipped: list[CodeFix] = []
    for path in dict.fromkeys(fix.path for fix in wanted):
        changed, left = _change(Path(path), [fix for fix in wanted if fix.path == path])
        skipped += left
        if request.apply:
            _write(changed)
        else:
            sys.stdout.write(_diff(changed))
    made = [fix for fix in wanted if fix not in skipped]
    _report(made, [*withheld, *skipped], request, lang)
    return 0


def _findings(request: FixRequest, lang: Lang) -> Sequence[Finding]:
    from npu_advisor.api import analyze

    rules = chosen_rules(request.rules, request.select, request.ignore)
    with ProgressBar(lang, request.quiet) as progress:
        report = analyze(
            request.paths[0] if len(request.paths) == 1 else list(request.paths),
            rules=rules.dirs,
            params=rules.params,
            select=rules.select,
            ignore=rules.ignore,
            source_root=(*request.source_root, str(Path.cwd())),
            progress=progress,
        )
    if not request.quiet:
        note(remarks_text(report.diagnostics, lang))
    return report.findings


def _chosen(findings: Sequence[Finding], unsafe: bool) -> tuple[list[CodeFix], list[CodeFix]]:
    """The fixes to make, each once, and those that are not asked for."""
    allowed = ("safe", "unsafe") if unsafe else ("safe",)
    seen: dict[str, CodeFix] = {}
    for finding in findings:
        for fix in finding.fixes:
            seen.setdefault(str((fix.path, fix.edits)), fix)
    wanted = [fix for fix in seen.values() if fix.applicability in allowed]
    return wanted, [fix for fix in seen.values() if fix.applicability not in allowed]


def _change(path: Path, fixes: list[CodeFix]) -> tuple[_Changed, list[CodeFix]]:
    """The file with the fixes made; those that touch what another one changes are left for the next run."""
    from npu_advisor.codemods.edits import apply_edits, overlap

    made: list[CodeFix] = []
    left: list[CodeFix] = []
    for fix in fixes:
        clash = any(overlap(fix.edits, other.edits) for other in made)
        (left if clash else made).append(fix)
    try:
        data = path.read_bytes()
        encoding, _ = tokenize.detect_encoding(iter(data.splitlines(keepends=True)).__next__)
        old = data.decode(encoding)
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise ConfigError(say("fix.unreadable", path=str(path), reason=str(error)), None) from error
    new = apply_edits(old, [edit for fix in made for edit in fix.edits])
    return _Changed(path, encoding, old, new), left


def _write(changed: _Changed) -> None:
    try:
        changed.path.write_bytes(changed.new.encode(changed.encoding))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(say("fix.unwritable", path=str(changed.path), reason=reason), None) from error


def _diff(changed: _Changed) -> str:
    """As ``git apply`` and ``patch -p1`` take it, for a file below the working directory."""
    name = shown(changed.path)
    # Lines as Python counts them; str.splitlines() knows more ends.
    old, new = (list(StringIO(text, newline="")) for text in (changed.old, changed.new))
    lines = unified_diff(old, new, f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def shown(path: Path) -> str:
    """``path`` relative to the working directory where it lies below it."""
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else path.as_posix()


def _report(made: list[CodeFix], left: list[CodeFix], request: FixRequest, lang: Lang) -> None:
    if request.quiet:
        return
    lines = [_line("fix.made" if request.apply else "fix.would", fix) for fix in made]
    for fix in left:
        key = {"unsafe": "fix.left_unsafe", "display-only": "fix.left_display"}.get(fix.applicability, "fix.left_clash")
        lines.append(_line("fix.left_clash" if fix.applicability == "unsafe" and request.unsafe else key, fix))
    if not lines:
        lines.append(say("fix.nothing"))
    note("".join(line.pick(lang) + "\n" for line in lines))


def _line(key: str, fix: CodeFix) -> Text:
    place = f"{shown(Path(fix.path))}:{fix.edits[0].start_line}"
    english = say(key, place=place, title=fix.title.en)
    return Text(en=english.en, zh=say(key, place=place, title=fix.title.zh).zh)
