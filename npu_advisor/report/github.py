"""GitHub workflow commands: annotations on the lines of a pull request, from the log of a step."""

from __future__ import annotations

from pathlib import Path

from npu_advisor.base.terms import Severity
from npu_advisor.findings import Finding, Report
from npu_advisor.report.options import Options
from npu_advisor.report.price import priced_message
from npu_advisor.report.text import inert

_COMMANDS = {Severity.HIGH: "error", Severity.MEDIUM: "warning", Severity.LOW: "notice", Severity.INFO: "notice"}


def render_github(report: Report, options: Options) -> str:
    """One ``::error file=...,line=...,title=...::message`` line per finding (info only with ``show_all``).

    A finding whose file is not below the working directory has no ``file``: it is shown on the run, not on a line.
    """
    lines = [
        _command(found, options)
        for found in inert(report).findings
        if found.severity is not Severity.INFO or options.show_all
    ]
    return "".join(f"{line}\n" for line in lines)


def _command(found: Finding, options: Options) -> str:
    fields = {"title": f"{found.title.pick(options.lang)} ({found.rule_id})"}
    message = priced_message(found).pick(options.lang)
    place = found.location
    if place is not None:
        local = Path(place.local_path).absolute() if place.local_path else None
        if local is not None and options.base and local.is_relative_to(options.base):
            fields = {"file": local.relative_to(options.base).as_posix(), "line": str(place.line)} | fields
        else:
            message = f"{place.path}:{place.line}: {message}"
    properties = ",".join(f"{name}={_escaped(value, ',:')}" for name, value in fields.items())
    return f"::{_COMMANDS[found.severity]} {properties}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    """``text`` with the characters that a workflow command gives a meaning as percent codes."""
    for char in "%\r\n" + more:
        text = text.replace(char, f"%{ord(char):02X}")
    return text
