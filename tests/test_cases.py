"""Small profiles, each made after a trouble that people met: what the product must conclude of it.

Every field of every case is checked.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NoReturn

import pytest
from case_values import SCALE, STRICT, VALUES, Run
from places import CASES, needs_cases

from npu_advisor.cli.app import main

pytestmark = needs_cases

# What a case calls a cause, and the rules that find it. Of kinds without a rule a case may only bar a claim:
# top_kernel is a table of the report.
RULES: dict[str, tuple[str, ...]] = {
    "dispatch_gap": ("dispatch-dequeue-gap",),
    "native_optimizer": ("optimizer-native",),
    "transdata_inserted": ("layout-transdata",),
    "memory_peak": ("memory-peak",),
    "aicpu_op": ("aicpu-op",),
    "communication": ("comm-not-overlapped", "comm-gather-not-prefetched", "cluster-late-rank", "cluster-slow-rank"),
    "communication_not_overlapped": ("comm-not-overlapped", "comm-gather-not-prefetched"),
    "dataloader": ("data-loader",),
    "dynamic_shape": ("dispatch-compile-online",),
    "env_variable": ("dispatch-launch-blocking", "dispatch-log-level"),
    "slow_rank": ("cluster-slow-rank",),
    "sync_in_step": ("dispatch-sync-in-step", "dispatch-decode-sync"),
    "graph_capture_miss": ("dispatch-graph-capture-miss",),
    "graph_param_update": ("dispatch-graph-rebind",),
    "sampler_hotspot": ("kernel-sampler",),
    "expert_imbalance": ("comm-expert-imbalance", "comm-expert-wait"),
    "top_kernel": (),
    "communication_slow_link": (),
    "fusible_ops": (),
    "memory_leak": (),
}
EXIT_CODES = {"ok": 0, "partial": 0, "no_data": 3, "rejected": 3}
TOLERANCES = {
    "host_self_us": "host_self_us_tol",
    "aicpu_share": "share_tol",
    "sampling_share": "share_tol",
    "top_k_top_p_share": "share_tol",
    "overlap_ratio": "ratio_tol",
}
BOUNDS = ("_max", "_min")


@lru_cache(maxsize=1)
def _cases() -> dict[str, dict[str, Any]]:
    files = sorted(CASES.glob("[BD]*/expected.json")) if CASES.is_dir() else []
    return {path.parent.name: json.loads(path.read_text(encoding="utf-8")) for path in files}


def _inputs() -> list[tuple[str, str]]:
    return [(name, single) for name, case in _cases().items() for single in _list(case["input"])]


def _list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _not_a_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


@lru_cache(maxsize=64)
def _run(name: str, single: str) -> Run:
    path, errors, out = CASES / name / single, io.StringIO(), io.BytesIO()
    stdout = io.TextIOWrapper(out, encoding="utf-8")
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(stdout):
        code = main([str(path), "--format", "json", "--lang", "en"])
    report = json.loads(out.getvalue(), parse_constant=_not_a_number)
    return Run(path, code, report, errors.getvalue())


# ---- how a run ends -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "single"), _inputs())
def test_a_run_ends_as_it_should(name: str, single: str) -> None:
    run, case = _run(name, single), _cases()[name]
    assert "Traceback" not in run.stderr
    assert not [rule for rule in run.report["rules"] if rule["outcome"] == "failed"]
    assert run.exit_code == EXIT_CODES[case["outcome"]], run.stderr
    if case["outcome"] != "ok":
        assert run.stderr, "says nothing about what is wrong with the input"


@pytest.mark.parametrize(("name", "single"), _inputs())
def test_steps_are_those_of_the_profile(name: str, single: str) -> None:
    expected = _cases()[name]["steps"]
    if expected is None:
        pytest.skip("the case does not say")
    found = {step["step"] for step in _run(name, single).report["steps"]} - {None}
    assert sorted(found) == expected


@pytest.mark.parametrize(("name", "single"), _inputs())
def test_the_quality_of_the_input_is_told(name: str, single: str) -> None:
    run, case = _run(name, single), _cases()[name]
    assert set(case["diagnostics_must_include"]) <= run.codes
    assert not set(case["diagnostics_must_not_include"]) & run.codes
    for remark in run.report["diagnostics"]:
        assert isinstance(remark["file"], str)
        assert remark["severity"] in ("error", "warning", "info")
        assert remark["message"]


# ---- findings -------------------------------------------------------------------------------------------------


def _wanted(key: str) -> Iterator[Any]:
    for name, case in _cases().items():
        for index, member in enumerate(case[key]):
            for single in _list(member.get("input", case["input"])):
                yield pytest.param(name, single, member, id=f"{name}-{single}-{index}-{member['kind']}")


def _found_by(run: Run, member: dict[str, Any]) -> list[dict[str, Any]]:
    """The findings of the rules that look for this kind of cause."""
    return [finding for finding in run.report["findings"] if finding["rule_id"] in RULES[member["kind"]]]


def _at(finding: dict[str, Any], source: dict[str, Any] | None) -> bool:
    location = finding["location"]
    if source is None or location is None:
        return bool(source is None and location is None)
    base = location["path"].replace("\\", "/").rpartition("/")[2]
    wanted = (source.get("file", location["path"]), source.get("file_basename", base), source.get("line"))
    return bool(wanted == (location["path"], base, location["line"]))


def _matches(finding: dict[str, Any], member: dict[str, Any]) -> bool:
    """Whether a finding is the one that a member of a case narrows down to."""
    if "source" in member and not _at(finding, member["source"]):
        return False
    if "rank" in member and finding["rank"] != member["rank"]:
        return False
    told = json.dumps(finding, ensure_ascii=False)
    keys = ("kernel", "kernel_contains", "op", "optimizer", "name")
    # "0 or unset" is one way or the other.
    advised = any(str(way) in told for way in str(member.get("advise", "")).split(" or "))
    plain = told.lower().replace("_", " ")
    hints = member.get("evidence", {})
    for hint in _leaves(hints if isinstance(hints, dict) else {}):
        advised &= str(hint).lower().replace("_", " ") in plain
    return advised and all(member[key] in told for key in keys if key in member)


def _leaves(hints: Any) -> list[Any]:
    """The words and figures of an ``evidence`` member, which a finding may state in any form."""
    inner = hints.values() if isinstance(hints, dict) else hints if isinstance(hints, list) else None
    return [hints] if inner is None else [leaf for part in inner for leaf in _leaves(part)]


def _counts(found: list[dict[str, Any]], count: int) -> bool:
    """Whether there are so many findings, or one that says how often its cause occurs."""
    return len(found) == count or (len(found) == 1 and count in found[0]["values"].values())


def _is_top(run: Run, member: dict[str, Any]) -> bool:
    """Whether the kernel of a ``top_kernel`` member is in the table of top kernels, at its place."""
    types = [kernel["type"] for kernel in run.report["top_kernels"]]
    at = types[member["rank"] - 1 : member["rank"]] if "rank" in member else types
    text = member.get("kernel") or member["kernel_contains"]
    return any(kind in text or text in kind for kind in at)


@pytest.mark.parametrize(("name", "single", "member"), list(_wanted("findings_must_include")))
def test_a_cause_is_found(name: str, single: str, member: dict[str, Any]) -> None:
    run = _run(name, single)
    if member["kind"] == "top_kernel":
        assert _is_top(run, member)
        return
    findings = _found_by(run, member)
    found = [finding for finding in findings if _matches(finding, member)]
    assert found, [finding["location"] for finding in findings]
    assert _counts(found, member.get("count", len(found)))


@pytest.mark.parametrize(("name", "single", "member"), list(_wanted("findings_must_not_include")))
def test_a_cause_that_is_none_is_not_claimed(name: str, single: str, member: dict[str, Any]) -> None:
    run = _run(name, single)
    if member["kind"] == "top_kernel":
        assert not _is_top(run, member)
        return
    assert not [finding for finding in _found_by(run, member) if _matches(finding, member)]


# ---- figures --------------------------------------------------------------------------------------------------


def _figures() -> Iterator[Any]:
    for name, case in _cases().items():
        for single in _list(case["input"]):
            values = case["values"]
            for key, expected in (values.get(single) or values).items():
                if not key.endswith("_tol") and key not in _list(case["input"]):
                    yield pytest.param(name, single, key, expected, id=f"{name}-{single}-{key}")


def _close(found: Any, expected: Any, tolerance: float) -> bool:
    """Numbers within the tolerance; of a mapping or list every expected member."""
    if isinstance(expected, dict):
        return all(key in found and _close(found[key], value, tolerance) for key, value in expected.items())
    if isinstance(expected, str) and isinstance(found, list):
        return expected in found
    if isinstance(expected, bool) or expected is None or isinstance(expected, str):
        return bool(found == expected)
    if isinstance(expected, list):
        return list(found) == expected
    return found is not None and abs(found - expected) <= tolerance


@pytest.mark.parametrize(("name", "single", "key", "expected"), list(_figures()))
def test_a_figure_is_exact(name: str, single: str, key: str, expected: Any) -> None:
    if key in (STRICT, SCALE):
        return
    run, tolerance = _run(name, single), 0.001
    limits = {"_max": lambda a, b: a <= b + tolerance, "_min": lambda a, b: a >= b - tolerance}
    suffix = key[-4:] if key.endswith(BOUNDS) else ""
    value = VALUES.get(key) or VALUES[key.removesuffix(suffix)]
    found = value(run)
    if key == "message_mentions":
        assert all(text in found for text in expected), found
        return
    if key.endswith("_include"):
        assert set(expected) <= set(found)
        return
    if suffix:
        assert limits[suffix](found, expected), found
        return
    tolerance = _cases()[name]["values"].get(TOLERANCES.get(key, ""), tolerance)
    assert _close(found, expected, tolerance), found
