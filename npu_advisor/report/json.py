"""The JSON report: the contract that integrations rely on. Lossless, strict JSON, both languages in it."""

from __future__ import annotations

import json
import math
from typing import Any

from pydantic import BaseModel

from npu_advisor.comparison import Comparison, Verification
from npu_advisor.findings import Report, WhatIf
from npu_advisor.report.options import Options

# Times are exact to the ns, shares and other figures to nine significant digits.
_US_DECIMALS = 3
_DIGITS = 9
# Times by owner and by rank.
_TIMES_BY_NAME = ("idle_owners", "saving_by_rank")


def render_json(report: Report, options: Options | None = None) -> str:  # noqa: ARG001 (every renderer takes options)
    """The report as strict JSON, indented, ending in a line end.

    ``diagnostics[].message`` and ``rules[].reason`` are plain English text; ``message_text`` and ``reason_text``
    beside them hold both languages. Numbers that are not finite become null.
    """
    data = _rounded(report.model_dump(mode="json"))
    _plain_messages(data)
    for rule in data["rules"]:
        rule["reason_text"] = rule["reason"]
        rule["reason"] = rule["reason_text"]["en"] if rule["reason_text"] else None
    return json.dumps(data, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def render_whatif(answer: WhatIf) -> str:
    """The answer to a what-if question as strict JSON, by the rules of :func:`render_json`."""
    return _render(answer)


def render_comparison(comparison: Comparison | Verification) -> str:
    """A comparison, or predictions compared with what came, as strict JSON by the rules of :func:`render_json`."""
    return _render(comparison)


def _render(answer: BaseModel) -> str:
    data = _rounded(answer.model_dump(mode="json"))
    _plain_messages(data)
    return json.dumps(data, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _plain_messages(data: dict[str, Any]) -> None:
    for remark in data["diagnostics"]:
        remark["message_text"] = remark["message"]
        remark["message"] = remark["message_text"]["en"]


def load_report(text: str) -> Report:
    """The report that :func:`render_json` wrote. ValueError (pydantic's included) when ``text`` is not one."""
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError("not a report: the text holds no JSON object")
    for remark in data.get("diagnostics", []):
        remark["message"] = remark.pop("message_text", remark.get("message"))
    for rule in data.get("rules", []):
        rule["reason"] = rule.pop("reason_text", rule.get("reason"))
    return Report.model_validate(data)


def report_schema() -> dict[str, Any]:
    """JSON Schema of what :func:`render_json` writes."""
    return _schema(Report)


def whatif_schema() -> dict[str, Any]:
    """JSON Schema of what :func:`render_whatif` writes."""
    return _schema(WhatIf)


def comparison_schema() -> dict[str, Any]:
    """JSON Schema of what :func:`render_comparison` writes of two profiles."""
    return _schema(Comparison)


def load_comparison(text: str) -> Comparison:
    """The comparison that :func:`render_comparison` wrote. ValueError when ``text`` is not one."""
    data = json.loads(text)
    for remark in data.get("diagnostics", []) if isinstance(data, dict) else []:
        remark["message"] = remark.pop("message_text", remark.get("message"))
    return Comparison.model_validate(data)


def _schema(written: type[BaseModel]) -> dict[str, Any]:
    schema = written.model_json_schema(mode="serialization")
    definitions = schema["$defs"]
    for model, plain, both in (("Remark", "message", "message_text"), ("Outcome", "reason", "reason_text")):
        if model not in definitions:
            continue
        properties = definitions[model]["properties"]
        properties[both] = properties[plain]
        nullable = "anyOf" in properties[both]
        properties[plain] = {"title": plain.title(), "type": ["string", "null"] if nullable else "string"}
        definitions[model]["required"] = [*definitions[model].get("required", []), both]
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return schema


def _rounded(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        inherited = key if _is_time(key) else ""
        return {name: _rounded(item, inherited or name) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item, key) for item in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return round(value, _US_DECIMALS) if _is_time(key) else float(f"{value:.{_DIGITS}g}")
    return value


def _is_time(key: str) -> bool:
    return key.endswith(("_us", "us_per_step")) or key in _TIMES_BY_NAME
