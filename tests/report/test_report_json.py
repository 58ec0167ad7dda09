from __future__ import annotations

import json
import math

import pytest
from report.samples import REPORTS, finding, rich_report

from npu_advisor.base.terms import Basis, Severity
from npu_advisor.findings import Saving
from npu_advisor.report.json import load_report, render_json, report_schema
from npu_advisor.report.options import Options
from npu_advisor.report.terminal import render_terminal

CONTRACT = {
    "": "schema_version tool profile steps facts replay saving findings not_the_cause rules diagnostics",
    "tool": "name version",
    "profile": "path ranks",
    "profile.ranks": "rank path form level device torch_npu cann",
    "steps": "rank step duration_us compute_us communication_us exposed_communication_us free_us prepare_us "
    "after_last_kernel_us waiting_for_rank_us idle_owners critical_path bound_by",
    "facts": "rank host_ops kernels kernel_time_us kernels_linked_to_op kernels_linked_to_line enqueues dequeues "
    "device_busy_us device_idle_us peak_allocated_bytes peak_reserved_bytes",
    "replay": "rank step recorded_us replayed_us error anchored_share",
    "saving": "joint_us_per_step low_us_per_step high_us_per_step share basis",
    "findings": "rule_id category severity title message rank step recorded_us saving location stack chain evidence "
    "suggestions references fingerprint",
    "findings.saving": "us_per_step low_us_per_step high_us_per_step joint_us_per_step share basis assumes after",
    "findings.location": "path line function how local_path",
    "findings.chain": "kind name start duration_us",
    "findings.evidence": "columns rows",
    "findings.suggestions": "effort text before after",
    "findings.references": "title url",
    "not_the_cause": "rank name location duration_us where reason",
    "rules": "id outcome reason enable",
    "diagnostics": "code severity file message",
}


JSON_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "null": (type(None),),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
}


def strict(text: str) -> dict:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def pick(data: object, path: str) -> object:
    for name in filter(None, path.split(".")):
        first = data[0] if isinstance(data, list) else data
        assert isinstance(first, dict)
        data = first[name]
    return data[0] if isinstance(data, list) else data


@pytest.mark.parametrize("path", [path for path in CONTRACT if path != "diagnostics"])
def test_keys_of_the_contract(path):
    assert set(CONTRACT[path].split()) <= set(pick(strict(render_json(rich_report())), path))


def test_keys_of_diagnostics_and_plain_text():
    data = strict(render_json(REPORTS["empty"]()))
    remark = data["diagnostics"][0]
    assert set(CONTRACT["diagnostics"].split()) <= set(remark)
    assert remark["message"] == "trace_view.json holds no events"
    assert remark["message_text"]["zh"] == "trace_view.json 中没有事件"
    rules = {rule["id"]: rule for rule in strict(render_json(rich_report()))["rules"]}
    assert rules["aicpu-slow"]["reason"] == "no runtime lane in this profile"
    assert rules["aicpu-slow"]["reason_text"]["zh"] == "该 profile 中没有 runtime 泳道"
    assert rules["kernel-calm"]["reason"] is None


@pytest.mark.parametrize("name", REPORTS)
def test_terminal_report_can_be_rebuilt_from_json(name):
    report = REPORTS[name]()
    loaded = load_report(render_json(report))
    assert render_json(loaded) == render_json(report)
    for lang in ("en", "zh"):
        options = Options(lang=lang, show_all=True)
        assert render_terminal(loaded, options) == render_terminal(report, options)


def test_unknown_is_null_and_numbers_stay_finite_and_exact_to_the_ns():
    odd = finding(
        "kernel-odd",
        Severity.LOW,
        recorded_us=1234.5678901,
        values={"nan": math.nan, "inf": math.inf, "share": 0.1234567890123},
    )
    written = strict(render_json(rich_report().model_copy(update={"findings": [odd]})))["findings"][0]
    assert written["values"] == {"nan": None, "inf": None, "share": 0.123456789}
    assert written["recorded_us"] == 1234.568
    assert written["location"] is None and written["saving"] is None


def test_large_times_keep_their_nanoseconds():
    step = (
        rich_report()
        .steps[0]
        .model_copy(update={"duration_us": 86_400_000_000.125, "waiting_for_rank_us": {"3": 9.0005}})
    )
    written = strict(render_json(rich_report().model_copy(update={"steps": [step]})))["steps"][0]
    assert written["duration_us"] == 86_400_000_000.125
    assert written["waiting_for_rank_us"]["3"] == pytest.approx(9.0, abs=0.0011)


@pytest.mark.parametrize("text", ["[]", "7", "{}", "not json"])
def test_other_text_is_refused(text):
    with pytest.raises(ValueError):
        load_report(text)


def test_schema_describes_what_is_written():
    schema = report_schema()
    for name in REPORTS:
        conforms(strict(render_json(REPORTS[name]())), schema, schema)


def conforms(value: object, schema: dict, root: dict, at: str = "$") -> None:
    """The part of JSON Schema that the report's schema uses."""
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        assert any(fits(value, each, root) for each in schema["anyOf"]), at
        return
    kinds = schema.get("type", [])
    for kind in [kinds] if isinstance(kinds, str) else []:
        assert isinstance(value, JSON_TYPES[kind]), f"{at} is no {kind}: {value!r}"
    assert "enum" not in schema or value in schema["enum"], at
    if isinstance(value, dict):
        assert set(schema.get("required", [])) <= set(value), at
        for name, item in value.items():
            inner = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
            assert inner, f"{at}.{name} is not in the schema"
            if inner is not True:
                conforms(item, inner, root, f"{at}.{name}")
    for item in value if isinstance(value, list) else []:
        conforms(item, schema.get("items", {}), root, f"{at}[]")


def fits(value: object, schema: dict, root: dict) -> bool:
    try:
        conforms(value, schema, root)
    except AssertionError:
        return False
    return True


def test_schema_check_can_fail():
    schema = report_schema()
    data = strict(render_json(rich_report()))
    del data["findings"][0]["message"]
    assert not fits(data, schema, schema)


def test_long_times_keep_their_nanoseconds():
    """A recording of an hour has ten digits of microseconds before the point."""
    us = 3_600_000_123.456
    saving = Saving(
        us_per_step=us, low_us_per_step=us, high_us_per_step=us, joint_us_per_step=us, share=1.0, basis=Basis.MEASURED
    )
    long = finding("x-y", Severity.HIGH, saving=saving, saving_by_rank={"0": us}, recorded_us=us)
    data = strict(render_json(rich_report().model_copy(update={"findings": [long]})))["findings"][0]
    figures = [data["recorded_us"], data["saving_by_rank"]["0"]]
    figures += [value for name, value in data["saving"].items() if name.endswith("us_per_step")]
    assert figures == [us] * 6
