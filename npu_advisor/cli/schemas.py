"""``npu-advisor schema``: what the report, a rule file and the tables look like."""

from __future__ import annotations

import json

from npu_advisor.cli.output import write_report


def report() -> int:
    """Print the JSON Schema of the JSON report."""
    from npu_advisor.report.json import report_schema

    return _print(report_schema())


def whatif() -> int:
    """Print the JSON Schema of the answer to a what-if question."""
    from npu_advisor.report.json import whatif_schema

    return _print(whatif_schema())


def comparison() -> int:
    """Print the JSON Schema of the JSON answer of ``compare``."""
    from npu_advisor.report.json import comparison_schema

    return _print(comparison_schema())


def rule() -> int:
    """Print the JSON Schema of a rule file."""
    from npu_advisor.rules.spec import Rule

    return _print(Rule.model_json_schema(mode="validation"))


def tables() -> int:
    """Print every table and column with its kind, unit, meaning and the profiler switch that records it."""
    from npu_advisor.model.schema import SCHEMA

    lines = []
    for spec in SCHEMA.values():
        lines += [f"{spec.name}: {spec.doc}", f"  from {spec.files}{f'; needs {spec.needs}' if spec.needs else ''}"]
        width = max(map(len, spec.names))
        for column in filter(None, map(spec.column, spec.names)):
            kind = f"{column.kind} of {column.target}" if column.target else column.kind
            needs = f" [{column.needs}]" if column.needs else ""
            lines.append(f"    {column.name:<{width}}  {kind:<14} {column.unit:<6} {column.doc}{needs}")
        lines.append("")
    write_report("\n".join(lines), None)
    return 0


def _print(schema: dict[str, object]) -> int:
    write_report(json.dumps(schema, ensure_ascii=False, indent=2) + "\n", None, utf8=True)
    return 0
